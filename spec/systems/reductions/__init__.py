"""Reductions: the parts of each machine that bounded systems leave out, with reasons."""
