"""Runs rows: one step at a time, interpreted or compiled, bounded or at real ranges."""
