"""The progress of judging on Spark: sizes before the start, then keys, events and stragglers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

STAGE = "histories: judge"
EVERY = 5.0  # seconds between two lines
LARGEST = 20  # most keys that are named as stragglers
MANY = 5_000  # least events of a straggler
DISK = 2  # bytes on local disk for each byte of a long key's lines
FEW = 4  # stragglers are named when less than 1/4 of the tasks are left

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """The numbers of keys and events, and the events and bytes of the `largest` keys."""

    keys: int
    events: int
    largest: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Tally:
    """The reports of tasks, in Spark's accumulators: the numbers of judged keys and events, and the
    finished `large` keys.
    """

    keys: Any
    events: Any
    done: Any
    large: frozenset[str]

    def add(self, key: str, events: int) -> None:
        """Counts a judged key."""
        self.keys.add(1)
        self.events.add(events)
        if key in self.large:
            self.done.add({key})


def sizes_of(good: Any) -> Sizes:
    """The sizes of keys in a DataFrame of lines with `key` and `text`."""
    from pyspark.sql import functions as f

    sizes = good.groupBy("key").agg(f.count("*").alias("events"), f.sum(f.length("text")))
    sizes = sizes.persist()
    try:
        largest = sizes.orderBy(f.desc("events"), "key").limit(LARGEST).collect()
        ((keys, events),) = sizes.agg(f.count("*"), f.sum("events")).collect()
    finally:
        sizes.unpersist()
    return Sizes(keys, events or 0, {key: (count, size) for key, count, size in largest})


def tally_of(context: Any, sizes: Sizes) -> Tally:
    """A tally for the tasks of a session."""
    from pyspark.accumulators import AccumulatorParam

    class Names(AccumulatorParam[set[str]]):
        def zero(self, value: set[str]) -> set[str]:
            return set()

        def addInPlace(self, value1: set[str], value2: set[str]) -> set[str]:
            return value1 | value2

    keys, events = context.accumulator(0), context.accumulator(0)
    return Tally(keys, events, context.accumulator(set(), Names()), frozenset(sizes.largest))


def opening(sizes: Sizes, cores: int, free: int | None = None) -> list[str]:
    """The lines before the start. One names the largest key if other tasks will wait for it, or if
    it may not fit on the `free` bytes of local disk."""
    lines = [f"{sizes.events:,} events of {sizes.keys:,} keys"]
    for key, (events, size) in list(sizes.largest.items())[:1]:
        about = f"{key} has {events:,} events ({size / 1e6:,.1f} MB)"
        if events >= MANY and events * cores > sizes.events:
            lines.append(f"{about}: one task judges them, and the others may wait for it")
        if free is not None and events >= MANY and DISK * size > free:
            lines.append(
                f"{about}: its task needs about {DISK * size / 1e9:,.1f} GB of local disk, and "
                f"{free / 1e9:,.1f} GB are free here: set TMPDIR to a larger disk"
            )
    return lines


def line_of(
    sizes: Sizes, keys: int, events: int, done: set[str], tasks: tuple[int, int], seconds: float
) -> str:
    """A progress line. `tasks` are the finished ones and all."""
    ended, every = tasks
    line = (
        f"{min(keys, sizes.keys):,} of {sizes.keys:,} keys, {min(events, sizes.events):,} of "
        f"{sizes.events:,} events, {events / max(seconds, 1e-3):,.0f} events/s; {ended:,} of "
        f"{every:,} tasks"
    )
    late = [key for key in sizes.largest if key not in done and sizes.largest[key][0] >= MANY]
    if every and late and (every - ended) * FEW < every:
        named = (f"{key} ({sizes.largest[key][0]:,} events)" for key in late[:3])
        line += f"; waiting for {', '.join(named)}"
    return line


@contextmanager
def shown(session: Any, sizes: Sizes, tally: Tally, say: Say) -> Generator[None]:
    """Reports the progress of tasks while the block runs."""
    ended = Event()
    begun = time.monotonic()
    tracker = session.sparkContext.statusTracker()

    def tasks() -> tuple[int, int]:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.name == STAGE:
                return info.numCompletedTasks, info.numTasks
        return 0, 0

    def watch() -> None:
        while not ended.wait(EVERY):
            with suppress(Exception):  # Java may have ended, which the block reports
                seconds = time.monotonic() - begun
                now = (tally.keys.value, tally.events.value, tally.done.value)
                say(line_of(sizes, *now, tasks(), seconds))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def free_here() -> int:
    """The free bytes for temporary files on this machine."""
    return shutil.disk_usage(tempfile.gettempdir()).free
