"""Declarations: their arguments, their types, the files that hold them, and the errors in them."""
