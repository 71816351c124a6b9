"""Systems written in TLA+, for TLC and whoever reads it."""
