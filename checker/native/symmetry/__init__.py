"""Symmetry reduction: one canonical state of those that differ by renaming instances."""
