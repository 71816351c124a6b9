"""Reductions: what bounded systems leave out of each machine, with the reason."""
