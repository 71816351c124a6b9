"""Lemmas suggested: mined from explored states, kept where Z3 finds them inductive together."""
