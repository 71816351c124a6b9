"""The one error that a faulty declaration raises."""


class DeclarationError(Exception):
    """A declaration that can't be: the message names where (table, row, machine) and what to do."""
