"""A diagnosis as text, JSON and metrics."""
