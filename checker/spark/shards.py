"""A shard's visited set on an executor, kept between levels in files that all its workers see.

The files are a cache: what the run's manifest says is the truth, and what is missing here is read
from the shard's runs. They hold the states in the order in which they were found, their table, and
what was sent to other shards; a worker that dies half-way leaves no index behind, so that the next
one makes the table anew of the states that count.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ..native.memory import Region
from ..native.store import MOST_PER_SHARD, SHARDS, Store
from ..native.worker import Worker
from ..sealed import Damaged
from .runs import Run

OWN_MEMORY = 3 / 4  # of what is free, where no limit is given
LEAST_FREE = 1 << 28  # bytes of disk below which nothing is cached
LEAST_SENT, MOST_SENT = 1 << 11, 1 << 23  # states that a sender remembers


class NoRoom(Exception):
    """A visited set that doesn't fit into the memory it may take."""


def owned_by(shard: int, shards: int) -> range:
    """The parts of the visited set, by the hash of its states, that belong to a shard."""
    return range(-(-shard * SHARDS // shards), -(-(shard + 1) * SHARDS // shards))


class ShardSet:
    """The visited set of a shard, mapped into this process.

    To be used in a `with` statement, which holds a lock on its files (a second attempt at the same
    task waits for the first) and reads what others have made of them. `worker` has the buffers to
    expand and insert; `memory` is the most that the set may take, in bytes.
    """

    def __init__(self, worker: Worker, run: str, shard: int, shards: int, memory: int | None):
        self.worker = worker
        self.stride = worker.stride
        self.owned = owned_by(shard, shards)
        self.limit = memory or int(psutil.virtual_memory().available * OWN_MEMORY)
        # Spark names the folders that it deletes when it ends
        local = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).partition(",")[0]
        self.folder = Path(local) / f"epochfence-{run}" / f"{shard}-of-{shards}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cached = shutil.disk_usage(self.folder).free > LEAST_FREE
        self._files: dict[str, int] = {}
        self._sent: Region | None = None
        self.levels = np.zeros((0, SHARDS), dtype=np.int64)
        self.store = Store(self.stride, MOST_PER_SHARD, self._may_take, self._region, self.owned)

    def __enter__(self) -> ShardSet:
        fcntl.flock(self._file("lock"), fcntl.LOCK_EX)
        self.worker.filled[:] = 0
        self.worker.taken[:] = 0
        self._load_index()
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file("lock"), fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes its files; the set is not to be used any more."""
        for file in self._files.values():
            os.close(file)

    def _file(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = os.open(self.folder / name, os.O_RDWR | os.O_CREAT)
        return self._files[name]

    def _region(self, name: str, size: int) -> Region:
        return Region(size, self._file(name) if self.cached else None)

    def _may_take(self, extra: int) -> bool:
        return self.store.memory + extra <= self.limit

    # The index: how many states each level has in each part, and how large the tables are -------

    def _load_index(self) -> None:
        if not self.cached:
            self._truncate(0, anew=True)
            return
        for name, whole in (("index.npz", True), ("before.npz", False)):
            try:
                with np.load(self.folder / name) as index:
                    self.levels, groups = index["levels"], index["groups"]
            except FileNotFoundError:
                continue
            if len(self.levels):
                self.store.counts[:] = self.levels[-1]
            self.store.groups[:] = groups
            if not whole:
                self._truncate(len(self.levels), anew=True)
            return
        self._truncate(0, anew=True)

    def _save_index(self) -> None:
        if self.cached:
            with (self.folder / "aside.npz").open("wb") as file:
                np.savez(file, levels=self.levels, groups=self.store.groups)
            (self.folder / "aside.npz").replace(self.folder / "index.npz")

    def _begin_change(self) -> None:
        """From now on the tables may hold states that no level counts, should this process die."""
        if self.cached and (self.folder / "index.npz").exists():
            (self.folder / "index.npz").replace(self.folder / "before.npz")

    def _truncate(self, levels: int, *, anew: bool = False) -> None:
        if levels < len(self.levels) or anew:
            self._begin_change()
            self.levels = self.levels[:levels]
            self.store.counts[:] = self.levels[-1] if levels else 0
            for part in self.owned:
                self.store.index(part)
            self._save_index()

    # Levels -------------------------------------------------------------------------------------

    def bring_to(
        self, totals: list[int], runs: list[Run],
        states_of: Callable[[Run], Iterable[tuple[int, bytes]]],
    ) -> None:  # fmt: skip
        """Makes it hold the levels of which `totals` are the sizes, whatever it held before.

        Raises NoRoom, and what `states_of` raises: Damaged for a run that can't be read.
        """
        sizes = np.diff(self.levels.sum(axis=1), prepend=0)
        same = 0
        while same < min(len(sizes), len(totals)) and sizes[same] == totals[same]:
            same += 1
        self._truncate(same)
        if same == len(totals):
            return
        self._begin_change()
        missing = {level: totals[level] for level in range(same, len(totals))}
        for run in runs:
            if run.last >= same:
                for level, states in states_of(run):
                    if level >= same:
                        while len(self.levels) < level:
                            self._end_level()
                        self._put(states)
        while len(self.levels) < len(totals):
            self._end_level()
        if missing != {at: int(n) for at, n in enumerate(self.level_sizes) if at in missing}:
            raise Damaged(f"the runs of shard parts {self.owned} aren't whole")
        self._save_index()

    @property
    def level_sizes(self) -> list[int]:
        """The number of states in each level."""
        return np.diff(self.levels.sum(axis=1), prepend=0).tolist()

    def _end_level(self) -> None:
        self.levels = np.vstack([self.levels, self.store.counts])

    def _put(self, states: bytes) -> None:
        if not self.worker.put(states, self.store) or not self._may_take(0):
            raise NoRoom

    def begin_level(self) -> None:
        """Before states are inserted that are the next level."""
        self._begin_change()

    def insert(self, block: bytes) -> None:
        """Puts a block of candidates (see `block_of`) into the set. Raises NoRoom."""
        counts = np.zeros((1, SHARDS), dtype=np.int64)
        head = 8 * len(self.owned)
        counts[0, self.owned.start : self.owned.stop] = np.frombuffer(block[:head], dtype=np.int64)
        content = np.frombuffer(block, dtype=np.uint8)
        ends = np.cumsum(counts, axis=1) * self.stride
        starts = content.ctypes.data + head + ends - counts * self.stride
        if not self.store.insert(0, 1, starts, counts, np.zeros_like(counts)):
            raise NoRoom
        if not self._may_take(0):
            raise NoRoom

    def end_level(self) -> int:
        """What was inserted since `begin_level` is a level; returns its size."""
        self._end_level()
        self._save_index()
        return self.level_sizes[-1]

    def ranges(self, level: int) -> list[tuple[int, int]]:
        """A level's positions in each part."""
        starts = self.levels[level - 1] if level else np.zeros(SHARDS, dtype=np.int64)
        return list(zip(starts.tolist(), self.levels[level].tolist(), strict=True))

    # What was sent ------------------------------------------------------------------------------

    def sent(self, level: int, most: int) -> tuple[Region, int]:
        """Tables for the states that this shard sends, one for each part of the hash, and the mask
        of each (see `drop_sent_of_all` of `native.worker`).

        It may hold successors of levels before `level`, as their owners have them by now. It is
        forgotten where an attempt at `level` itself was made, whose blocks may have been lost, and
        where one at any level died (see `keep_sent`), which may have left half a state there.
        """
        size = LEAST_SENT
        while size < min(64 * most, MOST_SENT):
            size *= 4  # seldom, as a new table has forgotten everything
        if not self.cached:
            return Region(size * self.stride), size // SHARDS - 1
        file, note = self._file("sent"), self._note
        held = os.fstat(file).st_size // self.stride
        known = int(note.read_text()) if note.exists() else level
        note.unlink(missing_ok=True)
        if known >= level or held < size:
            os.ftruncate(file, 0)
        else:
            size = held
        os.ftruncate(file, size * self.stride)
        if self._sent is None or self._sent.size != size * self.stride:
            self._sent = Region(size * self.stride, file)
        return self._sent, size // SHARDS - 1

    def keep_sent(self, level: int) -> None:
        """All successors of a level were put into the table: it is as good as its level is."""
        if self.cached:
            aside = self._note.with_suffix(".aside")
            aside.write_text(str(level))
            aside.replace(self._note)

    @property
    def _note(self) -> Path:
        return self.folder / "sent.level"


def block_of(worker: Worker, owned: range) -> tuple[bytes, int]:
    """The candidates in a worker's buckets for a shard, and how many: counts by part as integers
    of 64 bits, then the packed states, then bytes that reading whole words may touch."""
    counts = worker.filled[owned.start : owned.stop]
    parts: list[Any] = [counts.tobytes()]
    base = worker.area.address
    for part in owned:
        start = int(worker.buckets[part]) - base
        parts.append(worker.area.array[start : start + int(worker.filled[part]) * worker.stride])
    return b"".join([*parts, bytes(16)]), int(counts.sum())
