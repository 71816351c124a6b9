"""The errors of the executable machines; each names the wrong field or value."""

from __future__ import annotations

from typing import Any


class ModelError(Exception):
    """Wrong use of a machine. `field` names the wrong field, if there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownEvent(ModelError):
    """A machine has no table on an event or message of this name."""


class UnknownField(ModelError):
    """An event, message or machine has no field of this name."""


class MissingField(ModelError):
    """An event or message lacks a field."""


class WrongType(ModelError):
    """A value is not of its field's type."""


class OutOfRange(ModelError):
    """A value is of its field's type, but outside of the range."""


class NotNow(ModelError):
    """The event can't happen in this state."""


def whole(field: str, value: Any, low: int, high: int | None = None) -> int:
    """The value, where it is a whole number of the range. Raises WrongType or OutOfRange."""
    if type(value) is not int or value < low or (high is not None and value > high):
        expected = f"a whole number {low}..{'' if high is None else high}"
        raise refusal(field, expected, value, of_type=type(value) is int)
    return value


def text(field: str, value: Any) -> str:
    """The value, where it is a string. Raises WrongType."""
    if not isinstance(value, str):
        raise refusal(field, "a string", value, of_type=False)
    return value


def refusal(field: str, expected: str, value: Any, *, of_type: bool) -> ModelError:
    """The error for a value that a field can't take."""
    kind = OutOfRange if of_type else WrongType
    return kind(f"{field} is {expected}: not {value!r}", field)
