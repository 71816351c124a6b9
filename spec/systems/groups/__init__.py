"""Systems of consumer groups."""
