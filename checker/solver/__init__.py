"""The solver: the explorer's questions, decided by Z3 on the same relation."""
