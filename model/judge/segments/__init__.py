"""A broker's data directories as a history: their contents, against the leader's rows and the
coordinator's decisions."""
