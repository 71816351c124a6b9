"""The one error that a faulty declaration raises."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from .places import Place

TOO_DEEP = (
    "an expression is nested too deeply: make its parts fields, rows or properties of their own"
)


class DeclarationError(Exception):
    """A declaration that can't be: the message names where (table, row, machine) and what to do.

    Its `place` is the file and line of what is at fault, where that was declared before the error
    was found; the message begins with it then."""

    place: Place | None = None

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"

    @property
    def message(self) -> str:
        """The message without the place."""
        return super().__str__()

    def within(self, where: str, place: Place | None) -> DeclarationError:
        """The error as one of what was declared at this place, unless it has its own place."""
        found = DeclarationError(f"{where}: {self.message}" if where else self.message)
        found.place = self.place or (None if place is None or place.is_shipped else place)
        return found


@contextmanager
def declared_at(place: Place | None, where: str = "") -> Generator[None]:
    """Adds to an error where the declaration at fault is, and what it is called."""
    try:
        yield
    except UnsettledError:
        raise  # a constant that is left open, which the caller knows
    except DeclarationError as error:
        raise error.within(where, place) from None


class UnsettledError(DeclarationError):
    """A number is needed where a constant has none: it was left open, or isn't given."""

    def __init__(self, constant: str) -> None:
        super().__init__(f"constant {constant} has no value here")
        self.constant = constant

    def __reduce__(self) -> tuple[object, ...]:
        return UnsettledError, (self.constant,)
