"""The one error that a faulty declaration raises."""

TOO_DEEP = (
    "an expression is nested too deeply: make its parts fields, rows or properties of their own"
)


class DeclarationError(Exception):
    """A declaration that can't be: the message names where (table, row, machine) and what to do."""


class UnsettledError(DeclarationError):
    """A number is needed where a constant has none: it was left open, or isn't given."""

    def __init__(self, constant: str) -> None:
        super().__init__(f"constant {constant} has no value here")
        self.constant = constant

    def __reduce__(self) -> tuple[object, ...]:
        return UnsettledError, (self.constant,)
