"""Fairness: an event that stays possible happens in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..declaration.arguments import check_kind, items, shown
from ..declaration.errors import DeclarationError
from ..machines import Event
from ..terms.interned import Interned


@dataclass(frozen=True, eq=False)
class Fairness(Interned):
    """A fairness assumption about runs: the event eventually happens (by one of `rows`, if given).

    It holds for each instance separately: of a machine, an address, or a key among the parameters.
    Weak: if the event is possible from some point on without a break. Strong: if it is possible
    again and again.
    """

    kind: Literal["weak", "strong"]
    event: Event
    rows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The assumption in reports."""
        rows = f" [{', '.join(self.rows)}]" if self.rows else ""
        return f"{self.kind} fairness of {self.event.name}{rows}"


def weak_fairness(*events: Event, rows: tuple[str, ...] = ()) -> tuple[Fairness, ...]:
    """Each of the events happens in the end if it stays possible. With `rows`, one of these is
    taken.

    Raises DeclarationError if something is not an event, and for rows of several.
    """
    return tuple(_fairness("weak", events, rows))


def strong_fairness(*events: Event, rows: tuple[str, ...] = ()) -> tuple[Fairness, ...]:
    """Each of the events happens in the end if it is possible again and again: a message that is
    sent again and again arrives. With `rows`, one of these is taken.

    Raises DeclarationError if something is not an event, and for rows of several.
    """
    return tuple(_fairness("strong", events, rows))


def _fairness(
    kind: Literal["weak", "strong"], events: tuple[object, ...], rows: tuple[str, ...]
) -> Iterator[Fairness]:
    where = f"{kind}_fairness"
    if not events:
        raise DeclarationError(f"{where}: name an event or a message")
    if rows and len(events) > 1:
        raise DeclarationError(f"{where}: rows= needs one event, and these are {len(events)}")
    named = items(f"{where}, rows", rows, str, "name")
    for event in events:
        if not isinstance(event, Event):
            raise DeclarationError(
                f"{where}: {shown(event)} is not an event: name it without a tuple"
            )
        check_kind(where, event, Event)
        yield Fairness(kind, event, named)
