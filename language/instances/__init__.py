"""Instances: systems with constants, protocol and features settled, and reductions."""
