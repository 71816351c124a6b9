"""A system explored by hand in a browser: states, the possible steps, and the reasons why others
aren't possible."""
