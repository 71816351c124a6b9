"""The errors of the executable machines. Each message has the wrong field or value."""

from __future__ import annotations

from typing import Any


class ModelError(Exception):
    """Wrong use of a machine. `field` names the wrong field, if there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownEventError(ModelError):
    """A machine has no table on an event or message of this name."""


class UnknownFieldError(ModelError):
    """An event, message or machine has no field of this name."""


class MissingFieldError(ModelError):
    """An event or message lacks a field."""


class WrongTypeError(ModelError):
    """A value is not of its field's type."""


class OutOfRangeError(ModelError):
    """A value is of its field's type, but outside of the range."""


class NotNowError(ModelError):
    """The event can't happen in this state."""


def whole(field: str, value: Any, low: int, high: int | None = None) -> int:
    """The value, if it is a whole number in the range. Raises WrongTypeError or OutOfRangeError."""
    if type(value) is not int or value < low or (high is not None and value > high):
        expected = f"a whole number {low}..{'' if high is None else high}"
        raise refusal(field, expected, value, of_type=type(value) is int)
    return value


def text(field: str, value: Any) -> str:
    """The value, if it is a string. Raises WrongTypeError."""
    if not isinstance(value, str):
        raise refusal(field, "a string", value, of_type=False)
    return value


def refusal(field: str, expected: str, value: Any, *, of_type: bool) -> ModelError:
    """The error for a value that a field can't take."""
    kind = OutOfRangeError if of_type else WrongTypeError
    return kind(f"{field} is {expected}: not {value!r}", field)
