"""A broker's data directories as a history: what lies in them, against the leader's rows and the
coordinator's decisions."""
