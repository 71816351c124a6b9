"""Python functions compiled by Numba, and the memory that they work on."""
