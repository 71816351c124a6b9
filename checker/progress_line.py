"""The progress line of a search, compared with an earlier run of the same bounds."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from ..language import Instance
from .native.object_cache import cache_of
from .verdict import Result, Verdict

if TYPE_CHECKING:
    from .check import Options
    from .native.explore import Progress

SHELF = "runs"
MOST_BYTES = 4 << 20  # of all that is known of earlier runs
NO_END = (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)


@dataclass(frozen=True)
class Earlier:
    """The result of an earlier run with the same bounds; `seconds` is its search time."""

    states: int
    depth: int
    seconds: float


class Runs:
    """Remembers runs of an instance with these options in the user's cache. The figures are an
    estimate: a row may have changed since. Without a cache it remembers nothing."""

    def __init__(self, instance: Instance, options: Options) -> None:
        named = [
            instance.system.name, instance.protocol, sorted(instance.features),
            sorted(instance.constants.items()), instance.row_names,
            [item.name for item in (*instance.properties, *instance.progress)],
            options.symmetry, options.slicing, options.deadlock,
        ]  # fmt: skip
        self._key = hashlib.sha256(json.dumps(named).encode()).hexdigest()
        self._cache = cache_of(SHELF, MOST_BYTES)

    def earlier(self) -> Earlier | None:
        """The result of the last finished run, if known."""
        entry = self._cache.get(self._key)
        return None if entry is None else Earlier(**json.loads(entry))

    def remember(self, result: Result) -> None:
        """Saves the result of a finished run."""
        if result.states and result.verdict not in NO_END:
            found = Earlier(result.states, result.depth, result.seconds)
            self._cache.put(self._key, json.dumps(asdict(found)).encode())


@contextmanager
def shown(console: Console, earlier: Earlier | None) -> Generator[Callable[[Progress], None]]:
    """Shows the progress of a search: one line that is updated on a terminal, or a new line every
    five seconds in a log. Re-raises a Ctrl-C that came before the search, with that message."""
    shown_at = time.monotonic()
    live, begun, searching = console.is_terminal, False, False

    def show(now: Progress) -> None:
        nonlocal shown_at, begun, searching
        searching = True
        moment = time.monotonic()
        if moment - shown_at < (0.2 if live else 5.0):
            return
        shown_at = moment
        if earlier is not None and not begun:
            before = (
                f"level {now.depth}: an earlier run of these bounds found {earlier.states:,} "
                f"states in {earlier.depth} levels, in {earlier.seconds:,.1f} s"
            )
            console.print(before, highlight=False, soft_wrap=True)
        begun = True
        line = line_of(now, earlier)
        if live:
            over(line)
        else:
            console.print(line, highlight=False, soft_wrap=True)

    def over(line: str) -> None:
        room = console.width - 1  # a line that wraps couldn't be written over
        console.print(f"{line[:room]:{room}}", end="\r", highlight=False, soft_wrap=True)

    if live:
        over("compiling the tables")
    try:
        yield show
    except KeyboardInterrupt:
        if searching:
            raise
        raise KeyboardInterrupt("before the search began: nothing was explored") from None
    finally:
        if live:
            over("")


def line_of(now: Progress, earlier: Earlier | None) -> str:
    """The progress line, most important figures first: a narrow terminal cuts off the rest."""
    rate = now.states / now.seconds if now.seconds else 0.0
    levels = part = ""
    if earlier is not None and now.search == 1:
        levels = f" of {max(earlier.depth, now.depth)}"
        part = f" ({min(99, 100 * now.states // max(1, earlier.states))}%)"
    which = f"search {now.search}, " if now.search > 1 else ""
    return (
        f"{which}level {now.depth}{levels}: {now.states:,} states{part}, {rate:,.0f} states/s, "
        f"frontier {now.frontier:,} left, {now.memory / 2**20:,.0f} MiB"
    )
