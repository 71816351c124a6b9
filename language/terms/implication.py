"""Implications between comparisons with constants: `x < 2` implies `x < 3`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..expressions import Expression


class _Values(NamedTuple):
    """The values of an expression that satisfy a comparison: those in `choices` (None: all between
    `low` and `high`), without `but`.
    """

    choices: frozenset[object] | None = None
    low: int | None = None
    high: int | None = None
    but: object = None

    def has(self, value: object) -> bool:
        if self.choices is not None:
            return value in self.choices
        if self.low is not None or self.high is not None:
            return isinstance(value, int) and not (
                (self.low is not None and value < self.low)
                or (self.high is not None and value > self.high)
            )
        return value != self.but

    def within(self, other: _Values) -> bool:
        if self.choices is not None:
            return all(map(other.has, self.choices))
        if self.low is None and self.high is None:
            return self == other
        if other.choices is not None:
            return False
        if other.low is None and other.high is None:
            return not self.has(other.but)
        is_above = other.low is None or (self.low is not None and self.low >= other.low)
        is_below = other.high is None or (self.high is not None and self.high <= other.high)
        return is_above and is_below


def implied(condition: Expression, known: Iterable[Expression]) -> bool:
    """Whether one of the conditions `known` implies a condition. Only comparisons of one expression
    with constants are compared; for others the result is False.
    """
    wanted = _compared(condition)
    if wanted is None:
        return False
    subject, values = wanted
    return any(
        found is not None and found[0] is subject and found[1].within(values)
        for found in map(_compared, known)
    )


def _compared(e: Expression) -> tuple[Expression, _Values] | None:
    """The compared expression, and its values that satisfy the condition; None for other
    conditions.
    """
    match e.op:
        case "eq" if e.args[1].op == "const":
            return e.args[0], _Values(frozenset({e.args[1].data}))
        case "not" if e.args[0].op == "eq" and e.args[0].args[1].op == "const":
            return e.args[0].args[0], _Values(but=e.args[0].args[1].data)
        case "lt" | "le":
            left, right = e.args
            step = e.op == "lt"
            if right.op == "const":
                return left, _Values(high=right.data - step)
            return (right, _Values(low=left.data + step)) if left.op == "const" else None
        case "or":
            found = [_compared(part) for part in e.args]
            if any(each is None or each[1].choices is None for each in found):
                return None
            (subject, first), (other, second) = (each for each in found if each is not None)
            if subject is not other or first.choices is None or second.choices is None:
                return None
            return subject, _Values(first.choices | second.choices)
        case _:
            return None
