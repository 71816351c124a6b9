"""The properties of the shipped systems, each with its source."""
