"""Rows compiled to Python functions."""
