"""Proofs for any number of instances, messages and values."""
