"""Drawings: state machines, sequence charts, decision tables and overviews."""
