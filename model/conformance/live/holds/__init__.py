"""Holds requests inside a broker with a debugger."""
