"""Vectors for implementations in other languages: what each row does, as data."""
