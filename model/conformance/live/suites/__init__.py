"""Requests for real brokers: a suite that reaches each row, and random ones."""
