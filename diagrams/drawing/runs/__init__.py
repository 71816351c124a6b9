"""Runs and their logs as drawings: sequence charts, animations, logs."""
