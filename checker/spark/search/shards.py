"""A shard's visited set on an executor, kept between levels in files that all its workers see.

The files are a cache: the run's manifest is the truth, and missing states are read from the shard's
runs. The files hold the states in the order in which they were found, whole or by their parts (see
`native.store.parts`), their table, and the states that were sent to other shards. A worker that
dies during a change leaves no index. The next worker then rebuilds the table from the valid whole
states; with parts it rebuilds the set from the runs, because contents may be half-written.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import psutil

from ....checksums import DamagedError
from ...native.jit.functions import Passed
from ...native.jit.memory import Region
from ...native.search.explore import MEMORY, PLACES
from ...native.search.worker import Worker, drop_sent_of_all, owners
from ...native.store.part_plan import WHOLE, Plan
from ...native.store.part_store import DIVIDED_FROM, cut_of, taken_over
from ...native.store.parts import Parts
from ...native.store.store import MOST_PER_SHARD, SHARDS, SLACK, Store
from ..options import local_folder
from ..storage.runs import Run
from .outbox import machine

OWN_MEMORY = 3 / 4  # share of the free memory that is the default limit
LEAST_FREE = 1 << 28  # least free bytes of disk for a cache
LEAST_SENT = 1 << 11  # least states that a sender remembers
SENT_BY_A_STATE = 32  # remembered states for each state of a level
MOST_FOR_SENT = 1 << 28  # most bytes of remembered states
MOST_FOR_ALL_SENT = 1 / 8  # share of a machine's memory for all its shards
PAGES_A_CANDIDATE = 16  # pages read sequentially in the time of one candidate's pages
MOST_OF_PARTS = 1 << 36  # bytes reserved for the contents of a part
MOST_OF_STATES = 1 << 38  # bytes reserved for whole states
INDEXES = INDEX, BEFORE = "index.npz", "before.npz"  # the second one is the index before a change
LONGEST_NOTE = 64  # most characters to read: another file may have the name
INDEXED = "levels", "groups", "asked", "finer", "ends", "own", "rows", "nodes"
Stamp: TypeAlias = tuple[int, int] | None
FINER = "finer-"  # prefix of files of whole states with all parts of the hash
DIVIDED = "parts-"  # prefix of files of states that are kept by parts


class NoRoomError(Exception):
    """A visited set becomes too large. The message is the limit: MEMORY or PLACES."""


def owned_by(shard: int, shards: int) -> range:
    """The parts of the hash that belong to a shard."""
    return range(-(-shard * SHARDS // shards), -(-(shard + 1) * SHARDS // shards))


def by_owner(states: bytes, stride: int, shards: int) -> list[bytes]:
    """Contiguous packed states, divided among the shards that own them."""
    each = range(shards)
    owner_of_part = np.repeat(each, [len(owned_by(shard, shards)) for shard in each])
    padded = np.frombuffer(states + bytes(SLACK), dtype=np.uint8)
    count = len(states) // stride
    parts = np.zeros(count, dtype=np.int64)
    owners(padded.ctypes.data, count, stride, parts)
    rows = padded[: len(states)].reshape(count, stride)
    return [rows[owner_of_part[parts] == shard].tobytes() for shard in each]


class ShardSet:
    """The visited set of a shard, mapped into this process.

    Use it in a `with` statement: this locks the files (a second attempt at a task waits for the
    first one) and reads the changes of other processes. `worker` has the buffers to expand and
    insert; `memory` is the limit of the set in bytes.
    """

    def __init__(self, worker: Worker, run: str, shard: int, shards: int, memory: int | None):
        self.worker = worker
        self.stride = worker.stride
        # short states are always kept whole, and a candidate is a record
        self.is_narrow = self.stride <= WHOLE
        self.width = self.stride - 1 if self.is_narrow else self.stride
        self.owned = owned_by(shard, shards)
        self.limit = memory or int(psutil.virtual_memory().available * OWN_MEMORY)
        self.folder = local_folder() / f"epochfence-{run}" / f"{shard}-of-{shards}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cached = shutil.disk_usage(self.folder).free > LEAST_FREE
        self._files: dict[str, int] = {}
        self._sizes: dict[str, int] = {}  # of the mapped files
        self._lost: dict[str, list[Stamp]] = {}  # by incomplete file: the indexes at that time
        self._sent: Region | None = None
        self.finer = False  # whether whole states use all parts (see `_begin_finer`)
        self._begin_whole()

    def __enter__(self) -> ShardSet:
        self._lock()
        self.worker.filled[:] = 0
        self.worker.taken[:] = 0
        self._load_index()
        self.store.full = False  # it may be set by an earlier attempt
        if self.store.parts is not None:
            self.worker.work_on(len(self.own))
            self.worker.own[: len(self.own)] = self.own
        return self

    def _lock(self) -> None:
        """Locks the lock file. If another process has deleted the open file, it opens the new
        one.
        """
        while True:
            fcntl.flock(self._file("lock"), fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._files["lock"]), os.stat(self.folder / "lock")):
                    return
            os.close(self._files.pop("lock"))
            self.folder.mkdir(parents=True, exist_ok=True)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file("lock"), fcntl.LOCK_UN)

    def close(self) -> None:
        """Releases the files and the memory. The set can't be used afterwards."""
        for file in self._files.values():
            os.close(file)
        del self.store  # a reference cycle: frozen objects aren't garbage-collected

    def _file(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = os.open(self.folder / name, os.O_RDWR | os.O_CREAT)
        return self._files[name]

    def _region(self, name: str, size: int) -> Region:
        if not self.cached:
            return Region(size)
        file = self._file(name)
        before = os.fstat(file).st_size
        region = Region(size, file)
        self._sizes[name] = region.size
        is_whole = before == region.size
        self._lost[name] = [] if is_whole else [*map(self._stamp, INDEXES)]
        return region

    def _stamp(self, name: str) -> Stamp:
        """The identity of a file among all with its name."""
        with suppress(OSError):
            found = (self.folder / name).stat()
            return found.st_ino, found.st_mtime_ns
        return None

    def _may_take(self, extra: int) -> bool:
        divided = 0 if self._divided is None else self._divided.memory
        return self.store.memory + divided + extra <= self.limit

    # Whole states, and their parts --------------------------------------------------------------

    def _begin_whole(self) -> None:
        """An empty set of whole states."""
        self.levels = np.zeros((0, SHARDS), dtype=np.int64)
        self.is_decided = False  # whether it was decided to keep parts or whole states
        self.ends = np.zeros(0, dtype=np.int64)  # the ends of the parts, in words
        self.own = np.zeros((0, 2), dtype=np.int64)  # the next numbers of the parts' contents
        self._divided: Store | None = None  # takes over the states, by their parts
        most, prefix, finer = MOST_PER_SHARD, self._whole, None
        if self.finer:
            most = min(MOST_PER_SHARD, MOST_OF_STATES // (SHARDS * self.stride))
            finer = self.worker.finer

        def region(name: str, size: int) -> Region:
            return self._region(prefix + name, size)

        self.store = Store(self.stride, most, self._may_take, region, self.owned, finer=finer)

    @property
    def _whole(self) -> str:
        """The prefix of its files of whole states."""
        return FINER if self.finer else ""

    def _store_of(self, plan: Plan) -> Store:
        """A store of parts, in files. Parts' numbers don't determine a state's owner, so the store
        has all parts of the hash of numbers.
        """

        def region(name: str, size: int) -> Region:
            return self._region(DIVIDED + name, size)

        parts = Parts(plan, MOST_OF_PARTS, self._may_take, region)
        return Store(self.stride, MOST_PER_SHARD, self._may_take, region, parts=parts)

    def _divide(self) -> None:
        """Keeps the states by their parts from now on, if that saves memory and there is room."""
        self.is_decided = True
        plan = cut_of(self.store)
        if plan is None:
            return
        for file in self.folder.glob(f"{DIVIDED}*"):
            os.truncate(file, 0)  # files of a lost set
        try:
            self._divided = self._store_of(plan)
        except MemoryError:
            return
        levels = taken_over(self.store, self.levels.tolist(), self._divided, self.worker)
        if levels is not None:
            self.store, self.levels = self._divided, np.array(levels, dtype=np.int64)
            self.ends = np.array(plan.ends)
            # the files of whole states are invalid from here on
            (self.folder / BEFORE).unlink(missing_ok=True)
            self._give_up(self._whole)
        self._divided = None

    def _begin_finer(self) -> None:
        """Uses all parts of the hash for whole states from now on, each with its own places. The
        states must be read again from the runs.
        """
        before, self.finer = self._whole, True
        if self.store.parts is None:
            self._begin_change()
            (self.folder / BEFORE).unlink(missing_ok=True)
            self._begin_whole()
            self._give_up(before)
            self._truncate(0, force=True)

    def _give_up(self, prefix: str) -> None:
        """Frees the disk of files of whole states, which aren't used any more."""
        for name in ("states", "tables") if self.cached else ():
            os.ftruncate(self._file(prefix + name), 0)

    # The index: numbers of states by level and part, and sizes of tables ------------------------

    def _load_index(self) -> None:
        for name in INDEXES if self.cached else ():
            index = self._read_index(name)
            if index is None:
                continue
            if name == BEFORE and len(index["ends"]):
                break
            self._take_over(index)
            if not self._is_of(index, self._stamp(name)):
                break
            if name == BEFORE:
                self._truncate(len(self.levels), force=True)
            return
        self._forget_files()
        self._begin_whole()
        self._truncate(0, force=True)

    def _read_index(self, name: str) -> dict[str, Any] | None:
        """An index, or None if there is no readable one."""
        try:
            with np.load(self.folder / name) as file:
                return {each: file[each] for each in INDEXED}
        except Exception:  # various types, for damaged files
            return None

    def _nodes(self) -> str:
        """The files of an index: the shard, the machine since its last boot (a power loss may lose
        writes), and the inodes.
        """
        nodes = {name: os.fstat(self._files[name]).st_ino for name in self._sizes}
        return json.dumps([self.folder.name, machine(), nodes])

    def _is_of(self, index: dict[str, Any], stamp: Stamp) -> bool:
        """Whether an index belongs to the mapped files, and these are complete: other processes may
        have deleted or truncated some.
        """
        shard, since, nodes = json.loads(str(index["nodes"]))
        kind = DIVIDED if len(self.ends) else self._whole
        others = tuple({FINER, DIVIDED} - {kind})
        used = [n for n in self._sizes if n.startswith(kind) and not n.startswith(others)]
        found = {name: os.fstat(self._files[name]) for name in used}
        return (shard, since) == (self.folder.name, machine()) and all(
            nodes.get(name) == of.st_ino
            and self._sizes[name] == of.st_size
            and stamp not in self._lost[name]
            for name, of in found.items()
        )

    def _forget_files(self) -> None:
        """Replaces files with lost content by new ones, which other processes see."""
        for name in self._sizes:
            os.close(self._files.pop(name))
        self._sizes.clear()

    def _take_over(self, index: dict[str, Any]) -> None:
        was_finer, self.finer = self.finer, bool(index["finer"])
        if len(index["ends"]) == 0:
            if self.store.parts is not None or was_finer != self.finer:
                self._begin_whole()
        elif not np.array_equal(index["ends"], self.ends):
            ends = index["ends"].tolist()
            self.store = self._store_of(Plan(tuple(ends), (1,) * len(ends)))
        self.levels, self.is_decided = index["levels"], bool(index["asked"])
        self.ends, self.own = index["ends"], index["own"]
        counts = self.levels[-1] if len(self.levels) else 0
        self.store.resume(counts, index["groups"], index["rows"])

    def _save_index(self) -> None:
        if self.store.parts is not None:
            self.own = self.worker.own[: len(self.ends)].copy()
        if self.cached:
            with (self.folder / "aside.npz").open("wb") as file:
                np.savez(
                    file, levels=self.levels, groups=self.store.groups, asked=self.is_decided,
                    finer=self.finer, ends=self.ends, own=self.own, rows=self.store.rows_of_parts,
                    nodes=self._nodes(),
                )  # fmt: skip
            (self.folder / "aside.npz").replace(self.folder / INDEX)

    def _begin_change(self) -> None:
        """Invalidates the index: if this process dies, the tables may hold states of no level."""
        if self.cached and (self.folder / INDEX).exists():
            (self.folder / INDEX).replace(self.folder / BEFORE)

    def _truncate(self, levels: int, *, force: bool = False) -> None:
        if levels < len(self.levels) or force:
            self._begin_change()
            self.levels = self.levels[:levels]
            self.store.counts[:] = self.levels[-1] if levels else 0
            for part in self.store.used:
                self.store.index(part)
            self._save_index()

    # Levels -------------------------------------------------------------------------------------

    def bring_to(
        self,
        totals: list[int],
        runs: list[Run],
        states_of: Callable[[Run], Iterable[tuple[int, bytes]]],
        *,
        finer: bool = False,
    ) -> None:
        """Changes the set to hold exactly the levels with the sizes `totals`. With `finer` it uses
        all parts of the hash, also for whole states.

        Raises NoRoomError, and the errors of `states_of`: DamagedError for an unreadable run.
        """
        if finer and not self.finer:
            self._begin_finer()
        sizes = np.diff(self.levels.sum(axis=1), prepend=0)
        same = 0
        while same < min(len(sizes), len(totals)) and sizes[same] == totals[same]:
            same += 1
        self._truncate(same)
        if same == len(totals):
            return
        self._begin_change()
        missing = {level: totals[level] for level in range(same, len(totals))}
        self._bring(sum(missing.values()))
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
            raise DamagedError(f"the runs of shard parts {self.owned} aren't whole")
        self._save_index()

    @property
    def last(self) -> int:
        """The last level in the set."""
        return len(self.levels) - 1

    @property
    def level_sizes(self) -> list[int]:
        """The number of states in each level."""
        return np.diff(self.levels.sum(axis=1), prepend=0).tolist()

    def _end_level(self) -> None:
        self.levels = np.vstack([self.levels, self.store.counts])
        if not self.is_decided and self.store.counts.sum() >= DIVIDED_FROM:
            self._divide()

    def _put(self, states: bytes) -> None:
        if not self.worker.put(states, self.store) or not self._may_take(0):
            raise self._no_room

    @property
    def _no_room(self) -> NoRoomError:
        parts = self.store.parts
        is_full = self.store.full or (parts is not None and parts.full_for_good)
        return NoRoomError(PLACES if is_full else MEMORY)

    def begin_level(self) -> None:
        """Begins to insert the states of the next level."""
        self._begin_change()

    def insert(self, lines: Sequence[tuple[int, Any]]) -> None:
        """Inserts candidates. Each line has the address of candidates, sorted by part, and their
        numbers by part; SLACK bytes follow them. Raises NoRoomError.
        """
        self._bring(sum(int(by_part.sum()) for _, by_part in lines))
        if self.is_narrow:
            done = self.store.insert(0, 1, self._buckets(lines))
        else:
            done = all(
                self.worker.put_from(address, int(by_part.sum()), self.store)
                for address, by_part in lines
            )
        if not done or not self._may_take(0):
            raise self._no_room

    def _bring(self, candidates: int) -> None:
        """Reads the set into memory, if that is faster than to read the single pages that these
        candidates touch.
        """
        if self.cached and is_sooner_whole(self.store.held, candidates):
            for part in self.store.used:
                self.store.bring(part)

    def _buckets(self, lines: Sequence[tuple[int, Any]]) -> Passed:
        """Lines of records as buckets for a store."""
        filled = np.zeros((len(lines), SHARDS), dtype=np.int64)
        addresses = np.zeros_like(filled)
        for line, (address, by_part) in enumerate(lines):
            filled[line, self.owned.start : self.owned.stop] = by_part
            addresses[line] = address + self.width * (np.cumsum(filled[line]) - filled[line])
        return Passed(addresses, filled, np.zeros_like(filled))

    def end_level(self) -> int:
        """Turns the states inserted since `begin_level` into a level; returns its size."""
        self._end_level()
        self._save_index()
        return self.level_sizes[-1]

    def ranges(self, level: int) -> list[tuple[int, int]]:
        """A level's positions in each part."""
        starts = self.levels[level - 1] if level else np.zeros(SHARDS, dtype=np.int64)
        return list(zip(starts.tolist(), self.levels[level].tolist(), strict=True))

    # Sent states ------------------------------------------------------------------------------

    def sent(self, level: int, expanded: int, here: int = 1) -> tuple[Region, int]:
        """Tables of the candidates that this shard sends, one for each part of the hash, and their
        mask (see `drop_sent_of_all` of `native.search.worker`). Their size depends on the number of
        `expanded` states, and on the number of shards `here`. A larger table takes over the entries
        of a smaller one.

        A table may hold successors of levels before `level`, because their owners have them. It is
        cleared after an attempt at `level`, whose blocks may be lost, and after an attempt at any
        level that died (see `keep_sent`) and may have left half a state.
        """
        share = psutil.virtual_memory().total * MOST_FOR_ALL_SENT / max(1, here)
        size, largest = LEAST_SENT, min(MOST_FOR_SENT, int(share)) // self.width
        while size < SENT_BY_A_STATE * expanded and 2 * size <= largest:
            size *= 4 if 4 * size <= largest else 2
        if not self.cached:
            return Region(size * self.width + SLACK), size // SHARDS - 1
        file, note = self._file("sent"), self._note
        held = max(0, os.fstat(file).st_size - SLACK) // self.width
        text = ""
        with suppress(OSError), note.open(errors="replace") as opened:
            text = opened.read(LONGEST_NOTE)
        known, _, of = text.partition(" ")
        note.unlink(missing_ok=True)
        if not known.isdecimal() or int(known) >= level or of != self._sent_file():
            held = 0
        size = max(size, held)
        before = self._sent_before(held) if 0 < held < size else None
        if held < size:
            os.ftruncate(file, 0)
        os.ftruncate(file, size * self.width + SLACK)
        if self._sent is None or self._sent.size != size * self.width + SLACK:
            self._sent = Region(size * self.width + SLACK, file)
        if is_sooner_whole(self._sent.size, expanded):
            self._sent.bring(0, self._sent.size)
        mask = size // SHARDS - 1
        if before is not None:
            each = held // SHARDS
            places = before.ctypes.data + np.arange(SHARDS) * each * self.width
            full = np.full(SHARDS, each)
            drop_sent_of_all(places, full, 0, SHARDS, self.width, self._sent.address, mask)
        return self._sent, mask

    def _sent_before(self, size: int) -> Any:
        """The contents of smaller tables, followed by bytes that reading by words may touch."""
        found = np.zeros(size * self.width + SLACK, dtype=np.uint8)
        with (self.folder / "sent").open("rb") as file:
            file.readinto(found[:-SLACK].data)
        return found

    def keep_sent(self, level: int) -> None:
        """Records that the tables hold all successors of a level."""
        if self.cached:
            aside = self._note.with_suffix(".aside")
            aside.write_text(f"{level} {self._sent_file()}")
            aside.replace(self._note)

    def _sent_file(self) -> str:
        """The identity and the size of the file with the tables."""
        found = os.fstat(self._file("sent"))
        return f"{found.st_ino} {found.st_size}"

    @property
    def _note(self) -> Path:
        return self.folder / "sent.level"


def is_sooner_whole(size: int, candidates: int) -> bool:
    """Whether a disk reads `size` bytes sequentially in less time than the single pages that the
    candidates touch.
    """
    return candidates * PAGES_A_CANDIDATE * mmap.PAGESIZE >= size


def line_of(block: bytes, owned: range) -> tuple[int, Any]:
    """The address of a block's candidates, and their numbers by part."""
    counts = np.frombuffer(block, dtype=np.int64, count=len(owned))
    return np.frombuffer(block, dtype=np.uint8).ctypes.data + counts.nbytes, counts


def candidates(worker: Worker, owned: range, width: int) -> tuple[Any, list[Any]]:
    """The candidates in a worker's buckets for a shard, of `width` bytes: their numbers by part,
    and the bytes of each part.
    """
    counts = worker.filled[owned.start : owned.stop]
    starts = worker.buckets[owned.start : owned.stop] - worker.area.address
    ends = starts + counts * width
    return counts, [worker.area.array[s:e] for s, e in zip(starts, ends, strict=True)]


def block_of(counts: Any, parts: Sequence[Any]) -> bytes:
    """Candidates for a shard as a block for Spark: numbers by part as integers of 64 bits, then the
    candidates, then bytes that reading by words may touch.
    """
    return b"".join([counts.tobytes(), *parts, bytes(SLACK)])
