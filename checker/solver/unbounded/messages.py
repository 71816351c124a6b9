"""How many messages of a kind a proof by induction needs in flight, to hold for any number of them.

A step takes one message at most, and a part of a property mentions so many. Rows don't read other
messages in flight. So a violation by a step with more messages occurs also with only these, if
every property and assumption that holds of more messages holds of fewer: if it says something of
every message, and nothing of how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....language import Expression, Message, System
from ....language.expressions import QUANTIFIERS, children_first

_TAKEN = 1  # by a step


def enough_in_flight(system: System, message: Message, names: Iterable[str]) -> int | None:
    """How many messages in flight are enough to prove these properties and lemmas; none where one
    of them isn't of every message."""
    by_name = {item.name: item for item in (*system.properties, *system.lemmas)}
    mentioned = [_mentioned(by_name[name].expression, message, True) for name in names]
    return None if None in mentioned else _TAKEN + max(filter(None, mentioned), default=0)


def with_capacity(system: System, message: Message, capacity: int) -> System:
    """The system with room for so many messages of a kind."""
    channels = tuple(
        replace(channel, capacity=capacity) if channel.message is message else channel
        for channel in system.channels
    )
    return replace(system, channels=channels)


def _mentioned(e: Expression, message: Message, is_true: bool) -> int | None:
    """The number of messages that show the violation of a condition; none where any number may be
    needed."""
    if not any(_is_about(node, message) for node in children_first(e)):
        return 0
    if e.op == "not":
        return _mentioned(e.args[0], message, not is_true)
    if e.op in ("and", "or"):
        parts = [_mentioned(arg, message, is_true) for arg in e.args]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return max(known) if (e.op == "and") == is_true else sum(known)
    if e.op in ("all", "any") and (e.op == "all") == is_true:
        of_each = _mentioned(e.args[1], message, is_true)
        return None if of_each is None else of_each + _is_about(e, message)
    return None


def _is_about(e: Expression, message: Message) -> bool:
    """Whether it is a quantifier over messages of the kind."""
    return (
        e.op in QUANTIFIERS
        and e.args[0].op == "element"
        and any(
            node.op == "in_flight" and node.data is message for node in children_first(e.args[0])
        )
    )
