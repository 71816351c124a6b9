"""Writes systems in TLA+, for TLC and for readers."""
