"""Derived operators, defined by core operators. An engine implements the core operators, and
replaces others by their definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ..declaration.typecheck import type_of
from ..expressions import Expression, lift
from ..types import Int, Sequence
from .operators import all_of, if_, position, sequence_of, size, some


@lru_cache(maxsize=1 << 16)
def definition(e: Expression) -> Expression | None:
    """The definition of the expression by other operators; None if its operator is a core one.

    It contains the arguments unchanged, and its value has the same type.
    """
    define = _DEFINITIONS.get(e.op)
    return None if define is None else define(e)


def _at_most(e: Expression) -> Expression:
    left, right = e.args
    return ~(right < left)


def _is_set(e: Expression) -> Expression:
    return ~Expression("eq", (*e.args, lift(None)))


def _wrap(e: Expression) -> Expression:
    into: Int = e.data
    low, high = lift(into.low), lift(into.high)
    if low.op == "const" and low.data == 0:
        return e.args[0] % (high + 1)
    return (e.args[0] - low) % (high - low + 1) + low


def _first(e: Expression) -> Expression:
    return e.args[0][0]


def _without_first(e: Expression) -> Expression:
    return e.args[0][1:]


def _append(e: Expression) -> Expression:
    sequence, value = e.args
    return sequence + sequence_of(value)


def _push(e: Expression) -> Expression:
    sequence, value = e.args
    grown = sequence + sequence_of(value)
    return if_(size(sequence) < _kind(sequence).capacity, grown, grown[1:])


def _insert_by(e: Expression) -> Expression:
    sequence, value = e.args
    other = _element(sequence)
    is_larger = _get(value, e.data) < _get(other, e.data)
    behind = if_(is_larger, position(other), size(sequence))
    place = Expression("min", (other, behind))  # 0 for an empty sequence
    return sequence[:place] + sequence_of(value) + sequence[place:]


def _is_prefix(e: Expression) -> Expression:
    shorter, longer = e.args
    if _is_empty(shorter) or _is_empty(longer):
        return Expression("eq", (size(shorter), lift(0)))
    one = _element(shorter)
    return all_of(one, Expression("eq", (some(one), longer[position(one)])))


def _element(sequence: Expression) -> Expression:
    """An element with a name that no declaration can have."""
    return Expression("element", (sequence,), " ")


def _get(record: Expression, name: str) -> Expression:
    return Expression("get", (record,), name)


def _is_empty(sequence: Expression) -> bool:
    return sequence.op == "sequence_of" and not sequence.args


def _kind(sequence: Expression) -> Sequence:
    kind = type_of(sequence)
    assert isinstance(kind, Sequence)
    return kind


_DEFINITIONS: dict[str, Callable[[Expression], Expression]] = {
    "le": _at_most,
    "is_set": _is_set,
    "wrap": _wrap,
    "first": _first,
    "without_first": _without_first,
    "append": _append,
    "push": _push,
    "insert_by": _insert_by,
    "is_prefix": _is_prefix,
}
DERIVED = frozenset(_DEFINITIONS)
