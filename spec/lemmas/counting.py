"""What lemmas count with, and how they speak of every instance."""

from __future__ import annotations

from collections.abc import Iterable

from ...language import Expression, all_of, if_


def one(condition: Expression) -> Expression:
    """1 where a condition holds, to be counted, otherwise 0."""
    return if_(condition, 1, 0)


def named(names: Iterable[Expression], condition: Expression) -> Expression:
    """Whether a condition holds of all instances that these names stand for."""
    for name in names:
        condition = all_of(name, condition)
    return condition
