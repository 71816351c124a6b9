"""Counterexamples: replay, lassos, charts, and files in other formats."""
