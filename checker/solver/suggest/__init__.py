"""Suggests lemmas: mined from explored states, and kept if they are inductive together."""
