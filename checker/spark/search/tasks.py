"""The work of executors, a shard at a time: expanding a level, inserting the next, looking back.

A level takes two stages. `expand` sends each successor to the shard that owns it, in blocks or in
files (see `outbox`), and after them its counts; `insert` keeps new states, writes them to the
shard's runs and reports. If all messages of a shard go to files, `insert` also expands new states,
and reports where its candidates lie: then the next level takes one stage, `insert_noted`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from ....checksums import DamagedError
from ...ground import Leaf
from ...native.cache.kernel import Kernel
from ...native.cache.machine_code import Code
from ...native.codegen.sharing import flags_in
from ...native.jit.memory import Region
from ...native.search.coverage import Sought, met
from ...native.search.explore import Bad
from ...native.search.vectors import in_ranges
from ...native.search.worker import MOST_KEPT, SPAN, Worker
from ...native.store.pack import Packing
from ...native.store.store import SHARDS
from ..storage.files import Storage
from ..storage.runs import Run, read_run, to_merge, write_run
from .outbox import Home, Inbox, LostError, Note, Outbox, home_at, is_here
from .shards import NoRoomError, ShardSet, block_of, candidates, line_of, owned_by

OUTGOING = 1 << 24  # bytes of candidates that a task gathers before it sends them
PIECE = 1 << 20  # bytes of states that are written at once, small enough for the processor's cache
MOST_TWICE = 1 << 28  # most bytes of candidates in a file with duplicates


@dataclass(frozen=True)
class Kit:
    """The data that every task of a run needs."""

    run: str
    code: Code
    most_successors: int
    packing: Packing
    leaves: tuple[Leaf, ...]
    rows: int
    shards: int
    memory: int | None
    storage: Storage

    @property
    def stride(self) -> int:
        """The bytes of a packed state."""
        return self.packing.stride

    @property
    def key(self) -> tuple[object, ...]:
        """The key of data in a process: kits that share it can share the data."""
        return self.run, self.shards, self.memory

    def states_of(self, run: Run) -> Iterator[tuple[int, bytes]]:
        """A run's packed states, in parts of one level each. Raises DamagedError for unreadable
        data, and for a value out of its range."""
        for level, states in read_run(self.storage, run, self.stride):
            if not in_ranges(states, self.packing, self.leaves):
                raise DamagedError(f"{run.file} holds a value that is out of its range")
            yield level, states


@dataclass(frozen=True)
class Place:
    """The progress of a run, for each shard: the sizes of finished levels; the runs; the last home
    of its files (None: messages to it go through Spark); and the notes of its candidates, if the
    last level was expanded ahead. `finer`: visited sets use all parts of the hash.
    """

    totals: list[list[int]]
    runs: list[list[Run]]
    homes: Sequence[Home | None]
    notes: list[list[Note]]
    finer: bool


@dataclass
class Expanded:
    """The report of a task about the expansion of a shard's level. `damaged` is an unreadable run;
    `full` is the limit that its visited set has reached. `notes` are the places of each owner's
    candidates, if the level was expanded ahead.
    """

    shard: int
    taken: list[int]
    bad: list[Bad] = field(default_factory=list[Bad])
    sent: int = 0
    sent_bytes: int = 0
    damaged: str = ""
    full: str = ""
    notes: list[tuple[int, Note]] = field(default_factory=list[tuple[int, Note]])


@dataclass
class Inserted:
    """The report of a task about a shard's new level. `damaged` and `full` are those of `Expanded`.
    `lost`: a file of candidates is unreadable. `home` has the shard's files. `before` is the
    shard's report of the previous level, if it came with the candidates, and `ahead` the report of
    the new level, if it is already expanded.
    """

    shard: int
    states: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    written: int = 0
    memory: int = 0
    damaged: str = ""
    full: str = ""
    lost: bool = False
    home: Home | None = None
    before: Expanded | None = None
    ahead: Expanded | None = None


@dataclass
class Looked:
    """The report of a task that reads a shard. `damaged` and `full` are those of `Expanded`."""

    found: list[Any] = field(default_factory=list[Any])
    damaged: str = ""
    full: str = ""


class _Process:
    """The data of a run that a worker process keeps between tasks."""

    def __init__(self, kit: Kit) -> None:
        self.key = kit.key
        kernel = Kernel(kit.most_successors, kit.code)
        buckets = np.zeros((2, SHARDS), dtype=np.int64)
        most_filled = max(64, OUTGOING // (SHARDS * kit.stride))
        self.worker = Worker(kernel, kit.stride, kit.rows, buckets[0], buckets[1], most_filled)
        self.sets: dict[int, ShardSet] = {}


_process: _Process | None = None


def _shard_set(kit: Kit, shard: int) -> ShardSet:
    """A shard's set. This process keeps it mapped if it is in files."""
    global _process
    gc.freeze()  # Spark collects garbage after each task: freeze the remaining objects
    if _process is None or _process.key != kit.key:
        before, _process = _process, None
        for held in before.sets.values() if before else ():
            held.close()
        _process = _Process(kit)
    held = _process.sets.get(shard)
    if held is None or not held.cached:
        if held is not None:
            _process.sets.pop(shard).close()
        held = ShardSet(_process.worker, kit.run, shard, kit.shards, kit.memory)
        _process.sets[shard] = held
    return held


@contextmanager
def _finished(kit: Kit, place: Place, shard: int) -> Generator[ShardSet]:
    """A shard's set with the finished levels. Raises DamagedError and NoRoomError."""
    with _shard_set(kit, shard) as held:
        held.bring_to(place.totals[shard], place.runs[shard], kit.states_of, finer=place.finer)
        yield held


def find_home(kit: Any, home: Iterable[int]) -> Iterator[Home]:
    """The home of a shard's files."""
    kit, (shard,) = kit.value, home
    yield home_at(_shard_set(kit, shard).folder)


Sent: TypeAlias = bytes | Note
"""Candidates for a shard: in a block, or in a file."""


def expand(kit: Any, place: Any, home: Iterable[int]) -> Iterator[tuple[int, Sent | Expanded]]:
    """Expands the last level of a shard: candidates by owner, then the report.

    `kit` is Spark's broadcast of a Kit, `place` that of a Place. `home` has the shard's number: a
    worker whose task leaves something unread is not used again.
    """
    kit, place, (shard,) = kit.value, place.value, home
    report = Expanded(shard, [0] * kit.rows)
    if place.totals[shard][-1]:
        try:
            with _finished(kit, place, shard) as held:
                yield from _expanded(held, _Sending(kit, place, held, report))
        except (DamagedError, NoRoomError) as error:
            report.damaged, report.full = _why(error)
    yield shard, report


def _why(error: Exception) -> tuple[str, str]:
    """The unreadable run, or the reached limit, if one of them is the cause."""
    if isinstance(error, NoRoomError):
        return "", str(error)
    return str(error) if isinstance(error, DamagedError) else "", ""


def _expanded(held: ShardSet, sending: _Sending) -> Iterator[tuple[int, Sent]]:
    """Expands the last level of a shard: candidates by owner."""
    worker, store, report = held.worker, held.store, sending.report
    ranges = held.ranges(held.last)
    least: dict[int, list[bytes]] = {}
    for part in store.used:
        at, end = ranges[part]
        while at < end:
            done = worker.scatter(store, part, at, min(SPAN, end - at), whole=not held.is_narrow)
            for index, flags in worker.noted():
                state = store.bytes_of(part, at + index, at + index + 1)
                for flag in flags_in(flags):
                    least[flag] = nsmallest(MOST_KEPT, [*least.get(flag, ()), state])
            at += done
            if worker.filled.max() > worker.most_filled:
                yield from sending.emptied()
    yield from sending.emptied()
    sending.end()
    report.taken = worker.taken.tolist()
    report.bad = [Bad(state, flag) for flag, states in least.items() for state in states]


class _Sending:
    """The messages of an attempt at a level. Shards on other machines get blocks, and each
    candidate only once, as far as the sender remembers. Shards on this machine get files.

    Up to MOST_TWICE, short states are written to a file as often as they are found: a look-up would
    take longer than a repeated insertion.
    """

    def __init__(self, kit: Kit, place: Place, held: ShardSet, report: Expanded) -> None:
        self.kit, self.held, self.report = kit, held, report
        self.here = [held.cached and is_here(home) for home in place.homes]
        self.outbox = Outbox(held.folder, held.last)
        self.sent: tuple[Region, int] | None = None  # the tables of sent states, and their mask

    def emptied(self) -> Iterator[tuple[int, Sent]]:
        """Empties the buckets, by owner."""
        worker, width = self.held.worker, self.held.width
        once = not self.held.is_narrow or self.outbox.size > MOST_TWICE
        for owner, here in enumerate(self.here):
            owned = owned_by(owner, self.kit.shards)
            if once or not here or self.outbox.full:
                table, mask = self._table()
                worker.drop_sent(owned, width, table.address, mask)
            counts, parts = candidates(worker, owned, width)
            count = int(counts.sum())
            if count:
                note = self.outbox.write(counts, parts) if here else None
                self.report.sent += count
                self.report.sent_bytes += count * width
                yield owner, note or block_of(counts, parts)
        worker.empty(width)

    def _table(self) -> tuple[Region, int]:
        if self.sent is None:
            level = self.held.last
            expanded = sum(end - start for start, end in self.held.ranges(level))
            self.sent = self.held.sent(level, expanded, sum(self.here))
        return self.sent

    def end(self) -> None:
        """Ends a complete level: sent states may be remembered."""
        self.outbox.close()
        if self.sent is not None:
            self.held.keep_sent(self.held.last)


def insert(
    kit: Any, place: Any, arrived: Iterable[tuple[int, tuple[int, Sent | Expanded]]]
) -> Iterator[Inserted]:
    """Inserts the candidates of a shard, writes new states to a run, and reports.

    The arrivals come with the shard's number. They aren't empty, because its sender's counts are
    among them.
    """
    items = iter(arrived)
    shard, (_, item) = next(items)
    report = Inserted(shard)
    sent = _counted(chain([item], (item for _, (_, item) in items)), report)
    _insert(kit.value, place.value, sent, report)
    for _ in sent:
        pass  # the sender's counts may still come
    yield report


def insert_noted(kit: Any, place: Any, home: Iterable[int]) -> Iterator[Inserted]:
    """Does the work of `insert` for notes, which come with the `place`."""
    place, (shard,) = place.value, home
    report = Inserted(shard)
    _insert(kit.value, place, iter(place.notes[shard]), report)
    yield report


def _insert(kit: Kit, place: Place, sent: Iterator[Sent], report: Inserted) -> None:
    first = next(sent, None)
    if first is None:
        report.ahead = Expanded(report.shard, [0] * kit.rows)
        return
    try:
        with _finished(kit, place, report.shard) as held:
            held.begin_level()
            _put(held, chain([first], sent))
            report.states = held.end_level()
            report.memory = held.store.memory
            report.home = home_at(held.folder)
            if report.states:
                _write(kit, held, place.runs[report.shard], report)
            report.ahead = _ahead(kit, place, held, report.shard)
    except (DamagedError, NoRoomError, LostError) as error:
        report.lost = isinstance(error, LostError)
        report.damaged, report.full = _why(error)


def _ahead(kit: Kit, place: Place, held: ShardSet, shard: int) -> Expanded | None:
    """Expands the level that was just inserted; None if a message can't go to a file."""
    report = Expanded(shard, [0] * kit.rows)
    sending = _Sending(kit, place, held, report)
    if not all(sending.here):
        return None
    for owner, sent in _expanded(held, sending):
        if not isinstance(sent, Note):
            return None
        report.notes.append((owner, sent))
    return report


def _put(held: ShardSet, sent: Iterable[Sent]) -> None:
    """Inserts blocks as they come, and all files together: a part of the set then stays in the
    processor's cache.
    """
    notes: list[Note] = []
    for item in sent:
        if isinstance(item, Note):
            notes.append(item)
        else:
            held.insert([line_of(item, held.owned)])
    if notes:
        inbox = Inbox(notes, held.width)
        held.insert(inbox.lines)


def _counted(items: Iterable[Sent | Expanded], report: Inserted) -> Iterator[Sent]:
    """Yields the candidates among the messages. The sender's counts go into the report."""
    for item in items:
        if isinstance(item, Expanded):
            report.before = item
        else:
            yield item


def _write(kit: Kit, held: ShardSet, runs: list[Run], report: Inserted) -> None:
    """Writes the last level, merged with the levels of the last runs."""
    level = len(held.levels) - 1
    new = Run("", level, level, report.states, 0, "")
    merged = to_merge([*runs, new])
    first = runs[len(runs) + 1 - merged].first if merged > 1 else level
    run = write_run(kit.storage, report.shard, _pieces(held, first, level), kit.stride)
    report.runs, report.written = [run], run.size


def _pieces(held: ShardSet, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The states of levels, in pieces of about PIECE bytes."""
    for level in range(first, last + 1):
        starts, ends = np.array(held.ranges(level)).T
        size = int((ends - starts).sum()) * held.stride
        for some in np.array_split(held.store.used, -(-size // PIECE)) if size else ():
            until = starts.copy()
            until[some] = ends[some]
            if states := held.store.between(starts, until):
                yield level, states


def look_back(
    kit: Any, place: Any, targets: Sequence[bytes], level: int, home: Iterable[int]
) -> Iterator[Looked]:
    """The least states of a shard's level that have a target as a successor."""
    kit, place, (shard,) = kit.value, place.value, home

    def look(held: ShardSet) -> list[bytes]:
        return held.worker.predecessors(held.store, enumerate(held.ranges(level)), targets)

    yield _looked(kit, place, shard, look) if place.totals[shard][level] else Looked()


def look_for(
    kit: Any, place: Any, every: Sequence[Sought], packing: Packing, home: Iterable[int]
) -> Iterator[Looked]:
    """Whether each of the sought states is among a shard's states."""
    kit, place, (shard,) = kit.value, place.value, home

    def look(held: ShardSet) -> list[bool]:
        states = chain.from_iterable(map(held.store.rows, held.store.used))
        return met(every, packing, states)

    yield _looked(kit, place, shard, look)


def _looked(kit: Kit, place: Place, shard: int, look: Callable[[ShardSet], list[Any]]) -> Looked:
    try:
        with _finished(kit, place, shard) as held:
            return Looked(look(held))
    except (DamagedError, NoRoomError) as error:
        return Looked([], *_why(error))
