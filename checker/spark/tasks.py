"""What runs on executors, a shard at a time: expanding a level, inserting the next, looking back.

A level takes two stages. `expand` sends each successor to the shard that owns it, in blocks, and
after them what it counted; `insert` keeps what is new, writes it to the shard's runs and tells.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..explore import SPAN, Bad
from ..lower import BROKEN, DEADLOCK, FAULT, Kernel
from ..machine_code import Code
from .runs import Damaged, Run, to_merge, write_run
from .shards import NoRoom, ShardSet, block_of, owned_by
from .storage import Storage

OUTGOING = 1 << 22  # bytes of candidates that a task gathers before it sends them
PIECE = 1 << 24  # bytes of states that are sorted at once


@dataclass(frozen=True)
class Kit:
    """What every task of a run needs."""

    run: str
    code: Code
    most_successors: int
    stride: int
    rows: int
    shards: int
    memory: int | None
    storage: Storage


@dataclass(frozen=True)
class Place:
    """How far a run has come: the sizes of finished levels and the runs, for each shard."""

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


_kernels: dict[str, Kernel] = {}


def _kernel(kit: Kit) -> Kernel:
    """The run's code, loaded once in a process."""
    if kit.run not in _kernels:
        _kernels.clear()
        _kernels[kit.run] = Kernel(kit.most_successors, kit.code)
    return _kernels[kit.run]


def _shard_set(kit: Kit, shard: int) -> ShardSet:
    return ShardSet(_kernel(kit), kit.stride, kit.rows, kit.run, shard, kit.shards, kit.memory)


def expand(
    kit: Any, place: Place, shard: int, _: Iterable[Any]
) -> Iterator[tuple[int, bytes | Told]]:
    """Expands the last level of a shard: blocks of candidates by owner, then what is to be told.

    `kit` is Spark's broadcast of a Kit.
    """
    kit = kit.value
    told = Told(shard, taken=[0] * kit.rows)
    totals = place.totals[shard]
    if totals[-1]:
        held = _shard_set(kit, shard)
        try:
            held.bring_to(totals, place.runs[shard], kit.storage)
            yield from _expanded(kit, held, told)
        except (Damaged, NoRoom) as error:
            told.damaged, told.full = str(error), isinstance(error, NoRoom)
        finally:
            held.close()
    yield shard, told


def _expanded(kit: Kit, held: ShardSet, told: Told) -> Iterator[tuple[int, bytes]]:
    worker, store = held.worker, held.store
    level = len(held.levels) - 1
    ranges = held.ranges(level)
    sent, mask = held.sent(level, sum(end - start for start, end in ranges))
    worker.most_filled = max(64, OUTGOING // (len(worker.filled) * kit.stride))
    least: dict[int, bytes] = {}
    for part in held.owned:
        at, end = ranges[part]
        while at < end:
            base = int(store.states[part]) + at * kit.stride
            done = worker.scatter(base, min(SPAN, end - at), sent.address, mask)
            for index, flags in worker.noted():
                state = store.bytes_of(part, at + index, at + index + 1)
                for kind in (BROKEN, DEADLOCK, FAULT):
                    if flags & kind:
                        least[kind] = min(state, least.get(kind, state))
            at += done
            if worker.filled.max() > worker.most_filled:
                yield from _blocks(kit, held, told)
    yield from _blocks(kit, held, told)
    told.taken = worker.taken.tolist()
    told.bad = [Bad(state, kind) for kind, state in least.items()]


def _blocks(kit: Kit, held: ShardSet, told: Told) -> Iterator[tuple[int, bytes]]:
    """Empties the buckets, a block for each owner."""
    for owner in range(kit.shards):
        block, count = block_of(held.worker, owned_by(owner, kit.shards))
        if count:
            told.sent += count
            told.sent_bytes += len(block)
            yield owner, block
    held.worker.empty()


def insert(
    kit: Any, place: Place, shard: int, arrived: Iterable[tuple[int, bytes | Told]]
) -> Iterator[Told]:
    """Inserts what was sent to a shard, writes what is new to a run, and tells."""
    kit = kit.value
    runs = place.runs[shard]
    told = Told(shard)
    held: ShardSet | None = None
    try:
        for _, item in arrived:
            if isinstance(item, Told):
                told.taken, told.bad, told.sent = item.taken, item.bad, item.sent
                told.sent_bytes = item.sent_bytes
                told.damaged, told.full = told.damaged or item.damaged, told.full or item.full
            elif not told.damaged and not told.full:
                try:
                    if held is None:
                        held = _shard_set(kit, shard)
                        held.bring_to(place.totals[shard], runs, kit.storage)
                        held.begin_level()
                    held.insert(item)
                except (Damaged, NoRoom) as error:
                    told.damaged, told.full = str(error), isinstance(error, NoRoom)
        if held is not None and not told.damaged and not told.full:
            told.states = held.end_level()
            told.memory = held.store.memory
            if told.states:
                _write(kit, held, runs, told)
    finally:
        if held is not None:
            held.close()
    yield told


def _write(kit: Kit, held: ShardSet, runs: list[Run], told: Told) -> None:
    """Writes the last level, and with it those of runs that it is to be merged with."""
    level = len(held.levels) - 1
    new = Run("", level, level, told.states, 0, 0)
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
    kit: Any, place: Place, target: bytes, level: int, shard: int, _: Iterable[Any]
) -> Iterator[tuple[bytes | None, str]]:
    """The least state of a shard's level that has the target as a successor, or what is damaged."""
    kit = kit.value
    if not place.totals[shard][level]:
        return
    held = _shard_set(kit, shard)
    try:
        held.bring_to(place.totals[shard], place.runs[shard], kit.storage)
        yield held.worker.least_predecessor(held.store, held.ranges(level), target), ""
    except Damaged as error:
        yield None, str(error)
    finally:
        held.close()
