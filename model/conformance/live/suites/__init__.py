"""Requests for real brokers: a directed suite that reaches each row, and random requests."""
