"""The progress line of a search, compared with an earlier run of the same bounds."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from ...language import Instance
from ..native.cache.object_cache import cache_of
from ..verdict.result import Result, Verdict

if TYPE_CHECKING:
    from ..native.search.explore import Progress
    from ..prepare import Options

SHELF = "runs"
MOST_BYTES = 4 << 20  # of the figures of earlier runs
LONG = 10.0  # seconds before the first warning
LEVELS, GROWS = 3, 1.1  # the last levels, and the least mean factor by which they grow
SAMPLES = 20  # seconds over which the growth of memory is measured
MOST_LEFT = 1800.0  # seconds until memory is full: no warning above
NO_END = (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)


@dataclass(frozen=True)
class Earlier:
    """The result of an earlier run with the same bounds; `seconds` is its search time."""

    states: int
    depth: int
    seconds: float


class Runs:
    """The figures of earlier runs of an instance with these options, in the user's cache. They are
    an estimate: a row may have changed since. Without a cache there are none.
    """

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


class Growth:
    """The growth of a search's levels, and the time until its memory is full."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._memory: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._warn_below = MOST_LEFT

    def warning(self, now: Progress) -> str:
        """A warning if the memory of a long run is soon full, else empty. It is repeated when half
        of the predicted time is over.
        """
        self._sizes.setdefault(now.depth, now.frontier)  # the first value is the whole size
        if not self._memory or now.seconds - self._memory[-1][0] >= 1:
            self._memory.append((now.seconds, now.memory))
        last = [self._sizes[at] for at in sorted(self._sizes)[-1 - LEVELS :]]
        if now.search > 1 or not now.limit or now.seconds < LONG or len(last) <= LEVELS:
            return ""
        factor = (last[-1] / last[0]) ** (1 / LEVELS)
        (begun, had), (ended, has) = self._memory[0], self._memory[-1]
        if factor < GROWS or has <= had:
            return ""
        left = (now.limit - now.memory) * (ended - begun) / (has - had)
        if left > self._warn_below:
            return ""
        self._warn_below = left / 2
        minutes = round(left / 60)
        when = f"{minutes} minutes" if minutes > 1 else "a minute"
        return (
            f"levels grow by {factor:.1f}; memory is full in about {when}; try --explain-size "
            "with smaller bounds"
        )


@contextmanager
def shown(console: Console, earlier: Earlier | None) -> Generator[Callable[[Progress], None]]:
    """Shows the progress of a search: one line that is updated on a terminal, or a new line every
    five seconds in a log. Re-raises a Ctrl-C that came before the search, with that message."""
    shown_at = time.monotonic()
    live, begun, searching = console.is_terminal, False, False
    growth = Growth()

    def show(now: Progress) -> None:
        nonlocal shown_at, begun, searching
        searching = True
        moment = time.monotonic()
        if warning := growth.warning(now):
            if live:
                over("")
            console.print(warning, highlight=False, soft_wrap=True)
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
        room = console.width - 1  # a wrapped line can't be overwritten
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
