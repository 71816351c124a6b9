"""Random walks through a system, and their result."""
