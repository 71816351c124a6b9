"""What the shipped systems promise, each with its source."""
