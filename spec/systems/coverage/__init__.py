"""Which rows the shipped systems have, which their runs take, and why others aren't taken."""
