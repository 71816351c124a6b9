"""Sequence charts of traces: who sent what to whom, when it was taken, and what it changed."""
