"""Lemmas of `transactions`."""
