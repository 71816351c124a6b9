"""Test vectors for implementations in other languages: the effect of each row, as data."""
