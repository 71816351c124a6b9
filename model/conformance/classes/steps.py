"""A local step of a machine, and the way to the state before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Way(NamedTuple):
    """The step before, on a shortest path to a state."""

    before: Any
    said: str


class LocalStep(NamedTuple):
    """A step of one machine: what the host is given, and what should come of it."""

    given: tuple[int, ...]
    """The numbers of the host's input: the event, its arguments, the state before."""
    answer: tuple[int | None, ...]
    """The answer to the request; None for any number."""
    after: tuple[int | None, ...]
    """The state after it; None for any number."""
    rows: tuple[tuple[str, str], ...]
    """The events and the rows that it takes."""
    said: str
    """The event with its arguments."""
    way: Callable[[], list[str]] = list
    """The shortest path to the state before, event by event."""
