"""Ways on which something takes long, which is done for several of them at once: each has ids and
partitions of its own."""

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
"""Places where a broker's only thread that writes markers is held: the end of any other id would
wait."""


class Shared:
    """A restart of the brokers that several wait for: the first who asks has it done."""

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
    """Whether something takes long on a way."""
    return any(map(takes_long, way.lines))


def at_once(ways: Mapping[RowName, Way]) -> Iterator[Mapping[RowName, Way]]:
    """The ways that may be gone at once: those without restarts, then the others. Of those on which
    the one thread is held each has a turn of its own, and comes last in it; so do those on which
    producer ids are short for a while."""
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
    """A way that is gone: its system, the rest of it, and the line that it waits for."""

    system: BrokerSystem
    rest: Generator[Line]
    line: Line | None = None

    def on(self) -> None:
        """Goes on to the next line that takes long."""
        self.line = next(self.rest, None)


def together(going: Sequence[Going], restart: Shared | None) -> None:
    """Goes ways to their ends. Restarts wait until nobody has anything else to do."""
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
    """Brings the ids to the epochs that their lines ask for, before these are sent. Where a request
    of those has no answer, each line shows whose that is."""
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
