"""Compares and sorts rows of values, as LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..codegen.instructions import Builder, Value, truth

Row: TypeAlias = list[Value]
"""Values, of which the first ones count most."""


def exchanges(count: int) -> Iterator[int]:
    """Odd-even transposition sort: the positions at which a row is exchanged with the next one if
    it is larger.
    """
    for turn in range(count):
        yield from range(turn % 2, count - 1, 2)


def less(b: Builder, x: Row, y: Row) -> Value:
    """Whether the row x is less than y, as unsigned numbers."""
    result = truth(False)
    for p, q in reversed(list(zip(x, y, strict=True))):
        result = b.select(b.icmp("eq", p, q), result, b.icmp("ult", p, q))
    return result


def in_order(b: Builder, rows: list[Row], key: Callable[[Row], Row] = lambda row: row) -> list[Row]:
    """The rows sorted by their keys."""
    rows = list(rows)
    for at in exchanges(len(rows)):
        x, y = rows[at], rows[at + 1]
        wrong = less(b, key(y), key(x))
        pairs = list(zip(x, y, strict=True))
        rows[at] = [b.select(wrong, q, p) for p, q in pairs]
        rows[at + 1] = [b.select(wrong, p, q) for p, q in pairs]
    return rows
