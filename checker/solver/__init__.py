"""The solver: what the explorer decides within bounds, decided by Z3 on the same relation."""
