"""What runs on executors, a shard at a time: expanding a level, inserting the next, looking back.

A level takes two stages. `expand` sends each successor to the shard that owns it, in blocks, and
after them what it counted; `insert` keeps what is new, writes it to the shard's runs and tells.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Any

import numpy as np

from ..ground import Leaf
from ..native.coverage import Sought, met
from ..native.explore import Bad
from ..native.lower import Kernel
from ..native.machine_code import Code
from ..native.pack import Packing
from ..native.sharing import flags_in
from ..native.store import SHARDS
from ..native.vectors import in_ranges
from ..native.worker import MOST_KEPT, SPAN, Worker
from ..sealed import Damaged
from .runs import Run, read_run, to_merge, write_run
from .shards import NoRoom, ShardSet, block_of, owned_by
from .storage import Storage

OUTGOING = 1 << 24  # bytes of candidates that a task gathers before it sends them
PIECE = 1 << 22  # bytes of states that are sorted at once


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
        """A run's packed states, in parts of one level each. Raises Damaged for what can't be read,
        and for a value out of its range."""
        for level, states in read_run(self.storage, run, self.stride):
            if not in_ranges(states, self.packing, self.leaves):
                raise Damaged(f"{run.file} holds a value that is out of its range")
            yield level, states


@dataclass(frozen=True)
class Place:
    """The progress of a run: the sizes of finished levels and the runs, for each shard."""

    totals: list[list[int]]
    runs: list[list[Run]]


@dataclass
class Told:
    """What a task tells: of its level's expansion (`taken` to `sent_bytes`) and of the next's
    insertion. `damaged` names a run that can't be read; `full` says that memory wasn't enough."""

    shard: int
    taken: list[int] = field(default_factory=list[int])
    bad: list[Bad] = field(default_factory=list[Bad])
    sent: int = 0
    sent_bytes: int = 0
    states: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    written: int = 0
    memory: int = 0
    damaged: str = ""
    full: bool = False


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
    """A shard's set; this process keeps it mapped where it is in files."""
    global _process
    gc.freeze()  # Spark collects garbage after each task: what that left isn't looked at again
    if _process is None or _process.key != kit.key:
        for held in _process.sets.values() if _process else ():
            held.close()
        _process = _Process(kit)
    held = _process.sets.get(shard)
    if held is None or not held.cached:
        held = ShardSet(_process.worker, kit.run, shard, kit.shards, kit.memory)
        _process.sets[shard] = held
    return held


def expand(kit: Any, place: Any, home: Iterable[int]) -> Iterator[tuple[int, bytes | Told]]:
    """Expands the last level of a shard: blocks of candidates by owner, then what is to be told.

    `kit` is Spark's broadcast of a Kit, `place` that of a Place. `home` has the shard's number: a
    worker whose task leaves something unread is not used again.
    """
    kit, place, (shard,) = kit.value, place.value, home
    told = Told(shard, taken=[0] * kit.rows)
    totals = place.totals[shard]
    if totals[-1]:
        try:
            with _shard_set(kit, shard) as held:
                held.bring_to(totals, place.runs[shard], kit.states_of)
                yield from _expanded(kit, held, told)
        except (Damaged, NoRoom) as error:
            told.damaged, told.full = str(error), isinstance(error, NoRoom)
    yield shard, told


def _expanded(kit: Kit, held: ShardSet, told: Told) -> Iterator[tuple[int, bytes]]:
    worker, store = held.worker, held.store
    level = len(held.levels) - 1
    ranges = held.ranges(level)
    sent, mask = held.sent(level, sum(end - start for start, end in ranges))
    least: dict[int, list[bytes]] = {}
    for part in store.owned:
        at, end = ranges[part]
        while at < end:
            done = worker.scatter(store, part, at, min(SPAN, end - at), whole=True)
            for index, flags in worker.noted():
                state = store.bytes_of(part, at + index, at + index + 1)
                for flag in flags_in(flags):
                    least[flag] = nsmallest(MOST_KEPT, [*least.get(flag, ()), state])
            at += done
            if worker.filled.max() > worker.most_filled:
                worker.drop_sent(sent.address, mask)
                yield from _blocks(kit, held, told)
    worker.drop_sent(sent.address, mask)
    yield from _blocks(kit, held, told)
    held.keep_sent(level)
    told.taken = worker.taken.tolist()
    told.bad = [Bad(state, flag) for flag, states in least.items() for state in states]


def _blocks(kit: Kit, held: ShardSet, told: Told) -> Iterator[tuple[int, bytes]]:
    """Empties the buckets, a block for each owner."""
    for owner in range(kit.shards):
        block, count = block_of(held.worker, owned_by(owner, kit.shards))
        if count:
            told.sent += count
            told.sent_bytes += len(block)
            yield owner, block
    held.worker.empty(kit.stride)


def insert(
    kit: Any, place: Any, arrived: Iterable[tuple[int, tuple[int, bytes | Told]]]
) -> Iterator[Told]:
    """Inserts what was sent to a shard, writes what is new to a run, and tells.

    What has arrived comes with the shard's number, and there is something: what its sender counted.
    """
    kit, place, items = kit.value, place.value, iter(arrived)
    shard, (_, item) = next(items)
    told = Told(shard)
    blocks = _counted(chain([item], (item for _, (_, item) in items)), told)
    first = next(blocks, None)
    try:
        if first is not None:
            with _shard_set(kit, shard) as held:
                held.bring_to(place.totals[shard], place.runs[shard], kit.states_of)
                held.begin_level()
                for block in chain([first], blocks):
                    held.insert(block)
                told.states = held.end_level()
                told.memory = held.store.memory
                if told.states:
                    _write(kit, held, place.runs[shard], told)
    except (Damaged, NoRoom) as error:
        for _ in blocks:
            pass  # what its sender counted may still come
        told.damaged, told.full = str(error), isinstance(error, NoRoom)
    yield told


def _counted(items: Iterable[bytes | Told], told: Told) -> Iterator[bytes]:
    """The blocks among what was sent; what its sender counted goes into what is told."""
    for item in items:
        if isinstance(item, Told):
            told.taken, told.bad = item.taken, item.bad
            told.sent, told.sent_bytes = item.sent, item.sent_bytes
            told.damaged, told.full = item.damaged, item.full
        else:
            yield item


def _write(kit: Kit, held: ShardSet, runs: list[Run], told: Told) -> None:
    """Writes the last level, and with it those of runs that it is to be merged with."""
    level = len(held.levels) - 1
    new = Run("", level, level, told.states, 0, "")
    merged = to_merge([*runs, new])
    first = runs[len(runs) + 1 - merged].first if merged > 1 else level
    run = write_run(kit.storage, told.shard, _pieces(held, first, level), kit.stride)
    told.runs, told.written = [run], run.size


def _pieces(held: ShardSet, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The states of levels, in pieces that are small enough to be sorted in memory."""
    for level in range(first, last + 1):
        piece: list[bytes] = []
        size = 0
        for part, (start, end) in enumerate(held.ranges(level)):
            if end > start:
                piece.append(held.store.bytes_of(part, start, end))
                size += len(piece[-1])
            if size > PIECE:
                yield level, b"".join(piece)
                piece, size = [], 0
        if piece:
            yield level, b"".join(piece)


def look_back(
    kit: Any, place: Any, targets: Sequence[bytes], level: int, home: Iterable[int]
) -> Iterator[tuple[list[bytes], str]]:
    """The least states of a shard's level that have a target as a successor, or what is damaged."""
    kit, place, (shard,) = kit.value, place.value, home
    if not place.totals[shard][level]:
        return
    try:
        with _shard_set(kit, shard) as held:
            held.bring_to(place.totals[shard], place.runs[shard], kit.states_of)
            yield held.worker.predecessors(held.store, held.ranges(level), targets), ""
    except Damaged as error:
        yield [], str(error)


def look_for(
    kit: Any, place: Any, every: Sequence[Sought], packing: Packing, home: Iterable[int]
) -> Iterator[tuple[list[bool], str]]:
    """Whether a shard's states have each of those sought, or what is damaged."""
    kit, place, (shard,) = kit.value, place.value, home
    try:
        with _shard_set(kit, shard) as held:
            held.bring_to(place.totals[shard], place.runs[shard], kit.states_of)
            states = chain.from_iterable(map(held.store.rows, held.store.owned))
            yield met(every, packing, states), ""
    except (Damaged, NoRoom) as error:
        yield [], str(error)
