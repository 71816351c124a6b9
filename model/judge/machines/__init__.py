"""The machines that judge histories: a coordinator, a leader, a group."""
