"""Counterexamples as schedules for real clients, and as tests in Java."""
