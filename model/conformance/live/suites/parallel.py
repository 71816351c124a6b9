"""Runs several slow ways at once. Each has its own ids and partitions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ....wire.connection import NoAnswerError
from ...possible_states import RowName
from ..broker import BrokerSystem
from ..cluster.producer_epochs import Skip, use_up
from .directed_suite import Line, Way

ONE_THREAD = "completion"
"""The place at which a broker's only thread for markers is held. While it is held, ends of other
ids wait."""


class Shared:
    """A restart of the brokers that several ways share. The first caller performs it."""

    def __init__(self, restart: Callable[[], None]) -> None:
        self._restart, self.is_due = restart, False

    def __call__(self) -> None:
        if self.is_due:
            self._restart()
            self.is_due = False


def takes_long(line: Line) -> bool:
    """Whether a line uses up an id's epochs, or is a restart."""
    return "skip_to_epoch" in line or "restart" in line


def is_slow(way: Way) -> bool:
    """Whether a way has a slow line."""
    return any(map(takes_long, way.lines))


def at_once(ways: Mapping[RowName, Way]) -> Iterator[Mapping[RowName, Way]]:
    """The groups of ways that can run at once: those without restarts, then the others. Each way
    that holds the marker thread is in a different group, as its last. In the first group, ways that
    withhold producer ids are last."""
    calm: dict[RowName, Way] = {}
    restarting: dict[RowName, Way] = {}
    alone: dict[RowName, Way] = {}
    for row, way in ways.items():
        if not any("restart" in line for line in way.lines):
            calm[row] = way
        elif any(line.get("held_at") == ONE_THREAD for line in way.lines):
            alone[row] = way
        else:
            restarting[row] = way
    yield dict(
        sorted(calm.items(), key=lambda each: any("withhold_ids" in x for x in each[1].lines))
    )
    for row, way in alone.items():
        yield {**restarting, row: way}
        restarting = {}
    yield restarting


@dataclass
class Going:
    """A way that runs: its system, its remaining lines, and the slow line that is next."""

    system: BrokerSystem
    rest: Generator[Line]
    line: Line | None = None

    def on(self) -> None:
        """Continues to the next slow line."""
        self.line = next(self.rest, None)


def together(going: Sequence[Going], restart: Shared | None) -> None:
    """Runs ways to their ends. A restart happens when every unfinished way waits for it."""
    for one in going:
        one.on()
    while waiting := [one for one in going if one.line is not None]:
        if skipping := [one for one in waiting if one.line and "skip_to_epoch" in one.line]:
            _skip(skipping)
        elif restart is not None:
            restart.is_due = True
        for one in skipping or waiting:
            one.on()


def _skip(going: Sequence[Going]) -> None:
    """Raises the ids to the epochs of their lines, before these are sent. If a request gets no
    answer, each line raises its own id later, so that the cause shows."""
    skips: list[Skip] = []
    for one in going:
        assert one.line is not None
        name, epoch = one.line["transactional_id"], one.line["skip_to_epoch"]
        with suppress(NoAnswerError):
            skips.append(one.system.skip(name, epoch))
            one.system.skipped[name] = epoch
    try:
        use_up(going[0].system.cluster, skips)
    except NoAnswerError:
        for one in going:
            one.system.skipped.clear()
