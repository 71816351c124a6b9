"""The one error that a faulty declaration raises."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from .places import Place

TOO_DEEP = "an expression is nested too deeply: make its parts separate fields, rows or properties"


class DeclarationError(Exception):
    """A wrong declaration. The message names the table, row or machine, and the remedy.

    `place` is the file and line of the wrong part, if it was declared before the error was found.
    The message then begins with it."""

    place: Place | None = None

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"

    @property
    def message(self) -> str:
        """The message without the place."""
        return super().__str__()

    def within(self, where: str, place: Place | None) -> DeclarationError:
        """The error with the name and the place of a declaration, unless it has a place."""
        found = DeclarationError(f"{where}: {self.message}" if where else self.message)
        found.place = self.place or (None if place is None or place.is_shipped else place)
        return found


@contextmanager
def declared_at(place: Place | None, where: str = "") -> Generator[None]:
    """Adds the place and the name of the wrong declaration to an error."""
    try:
        yield
    except UnsettledError:
        raise  # the caller handles a constant that is left open
    except DeclarationError as error:
        raise error.within(where, place) from None


class UnsettledError(DeclarationError):
    """A constant without a value, where a number is needed: it was left open, or isn't given."""

    def __init__(self, constant: str) -> None:
        super().__init__(f"constant {constant} has no value here")
        self.constant = constant

    def __reduce__(self) -> tuple[object, ...]:
        return UnsettledError, (self.constant,)
