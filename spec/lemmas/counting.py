"""What lemmas about how many there are of something are made of."""

from __future__ import annotations

from ...language import Expression, if_


def one(condition: Expression) -> Expression:
    """1 where a condition holds, to be counted, otherwise 0."""
    return if_(condition, 1, 0)
