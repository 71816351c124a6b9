"""Terms: the operators of expressions, their values, and the constants that they fold to."""
