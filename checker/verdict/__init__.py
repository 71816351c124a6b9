"""Verdicts: results of runs, violations on the executable model, vacuity."""
