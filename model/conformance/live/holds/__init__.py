"""Requests that are held inside a broker, by a debugger."""
