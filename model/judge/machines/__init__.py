"""The machines that histories are judged by: a coordinator, a leader, a group."""
