"""A system explored by hand in a browser: states, the possible steps, and why the others aren't
possible."""
