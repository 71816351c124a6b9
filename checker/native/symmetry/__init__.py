"""Symmetry reduction: one canonical state of all that differ only by names of instances."""
