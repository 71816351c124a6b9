"""A system explored by hand in a browser: states, what can happen there, and why the rest can't."""
