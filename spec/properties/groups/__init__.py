"""Properties of consumer groups."""
