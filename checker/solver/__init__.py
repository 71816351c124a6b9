"""The solver: Z3 decides the explorer's questions on the same relation."""
