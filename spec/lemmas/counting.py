"""How lemmas count, and how they speak of every instance and of every place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...language import Expression, all_of, if_, last


def one(condition: Expression) -> Expression:
    """1 where a condition holds, to be counted, otherwise 0."""
    return if_(condition, 1, 0)


def following(entry: Expression) -> Expression:
    """The sequence that a leader expects next of a producer; 0 if it remembers no batch."""
    newest = last(entry.batch_metadata)
    return if_(newest.is_set, newest.value.last_sequence + 1, 0)


def named(names: Iterable[Expression], condition: Expression) -> Expression:
    """Whether a condition holds of all instances that these names stand for."""
    for name in names:
        condition = all_of(name, condition)
    return condition


@dataclass(frozen=True)
class Place:
    """A place where there may be something, and whether there is. Kinds of places add what it is.
    `names` stand for the instances and the message that the place is of."""

    is_taken: Expression
    names: tuple[Expression, ...] = field(default=(), kw_only=True)

    def every(self, condition: Expression) -> Expression:
        """Whether the condition holds of all that is there."""
        return named(self.names, self.is_taken.implies(condition))
