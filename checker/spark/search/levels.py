"""Breadth-first search on Spark, with the levels and shards of `checker.native.search.explore`.

A level is a job of two stages, or of one (see `tasks`). A finished level is recorded in a manifest
and not in Spark. So no lineage grows, and another process can continue the run.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from itertools import chain
from typing import Any

import numpy as np
import psutil

from ...native.search.coverage import Sought
from ...native.search.explore import (
    MEMORY,
    NO_PREDECESSOR,
    PLACES,
    Bad,
    Explorer,
    Search,
    first_depths,
)
from ...native.search.worker import MOST_KEPT
from ...native.store.pack import Packing
from ..options import SparkError
from ..session import drop_shuffle, forget, give_back, reason, stage
from ..storage.manifest import Level, Manifest
from ..storage.runs import Run, write_run
from .outbox import Home, Note, files_are_used
from .shards import by_owner
from .tasks import (
    Expanded,
    Inserted,
    Kit,
    Looked,
    Place,
    expand,
    find_home,
    insert,
    insert_noted,
    look_back,
    look_for,
)

ATTEMPTS = 3  # at a level, before an error of Spark's is reported
NO_ROOM = {
    MEMORY: "the memory is too small to read a shard's states again; use --resume with more of it",
    PLACES: "a shard has no room any more for states that it held before",
}
FINER_FROM = 1 << 31  # states: half the places while shards share the parts of the hash
MOST_LOSSES = 3  # repeated levels, after which no files are used (see `outbox`)


class RolledBackError(Exception):
    """A run's file was damaged, and levels were dropped: the search continues before them."""


def take_over(manifest: Manifest, explorer: Explorer) -> None:
    """Saves an explorer's states as the levels of a run; the last one isn't expanded yet."""
    levels = [Level([], [], [], 0.0) for _ in range(explorer.depth)]
    pieces: list[list[tuple[int, bytes]]] = [[] for _ in range(manifest.shards)]
    for number, level in enumerate(levels):
        whole = b"".join(explorer.level_bytes(number))
        by_shard = by_owner(whole, explorer.stride, manifest.shards)
        for states, own in zip(by_shard, pieces, strict=True):
            level.states.append(len(states) // explorer.stride)
            if states:
                own.append((number, states))
    runs = [
        (shard, [write_run(manifest.storage, shard, own, explorer.stride)])
        for shard, own in enumerate(pieces)
        if own
    ]
    found = explorer.found
    last = levels[-1]
    last.taken, last.first, last.seconds = found.taken, found.first, found.seconds
    manifest.levels = levels[:-1]
    manifest.finish(last, runs)


class SparkExplorer:
    """A run on Spark, from its last finished level on: a `Carrier` of the explorer's `search`."""

    def __init__(self, session: Any, manifest: Manifest, kit: Kit) -> None:
        self.session = session
        self.context = session.sparkContext
        self.manifest = manifest
        self.kit = kit
        self.shipped = self.context.broadcast(kit)
        self._place: Any = None
        self._homes: Any = None
        self._cores = 0
        # the home of each shard's files; None: not known yet
        self._seen: Sequence[Home | None] | None = None
        self._losses = 0
        self._is_full = False  # a part of the hash was full before FINER_FROM
        # the reports of all shards, if the last level was expanded ahead
        self._ahead: list[Expanded] = []
        self.begun = time.perf_counter()
        last = manifest.levels[-1]
        self.before = last.seconds
        self.taken = np.array(last.taken, dtype=np.int64)
        self.found = Search(
            states=self.count,
            transitions=sum(last.taken),
            depth=sum(any(level.states) for level in manifest.levels),
            taken=last.taken,
            first=last.first,
            seconds=last.seconds,
        )
        self.steps_so_far = 0
        self.held = 0
        self._next: tuple[Level, list[tuple[int, list[Run]]]] | None = None

    @property
    def count(self) -> int:
        """The number of found states."""
        return sum(sum(level.states) for level in self.manifest.levels)

    @property
    def memory(self) -> int:
        """Bytes of all shards' visited sets, and of this process."""
        return self.held + psutil.Process().memory_info().rss

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.manifest.levels)

    @property
    def frontier(self) -> int:
        """States of the last level."""
        return sum(self.manifest.levels[-1].states)

    def level_sizes(self) -> list[int]:
        """The number of states in each level, the initial one first."""
        return [sum(level.states) for level in self.manifest.levels]

    @property
    def place(self) -> Any:
        """A broadcast of the run's progress: a worker reads it once for all its tasks."""
        if self._place is None:
            levels = self.manifest.levels
            totals = [[level.states[shard] for level in levels] for shard in range(self.kit.shards)]
            seen = self._seen or [None] * self.kit.shards
            notes: list[list[Note]] = [[] for _ in seen]
            for owner, note in chain.from_iterable(item.notes for item in self._ahead):
                notes[owner].append(note)
            place = Place(totals, self.manifest.runs, seen, notes, self.finer)
            self._place = self.context.broadcast(place)
        return self._place

    @property
    def finer(self) -> bool:
        """Whether each shard divides its states by all parts of the hash. Insertion is then slower,
        so this begins when the parts that a shard owns are half full, or one of them is full.
        """
        return self.kit.shards > 1 and (self._is_full or self.count > FINER_FROM)

    @property
    def homes(self) -> Any:
        """A partition for each shard, with the shard's number. Spark persists it on the executor
        that computed it: the tasks of a shard then go to the executor with the shard's cache.
        """
        cores = self.context.defaultParallelism
        if cores > self._cores:  # new executors have no shard
            self._leave_homes()
            self._cores = cores
            numbers = [*range(self.kit.shards)]
            self._homes = self.context.parallelize(numbers, len(numbers)).persist()
        return self._homes

    def _leave_homes(self) -> None:
        if self._homes is not None:
            forget(self._homes)
        self._homes = None

    def _leave_place(self) -> None:
        if self._place is not None:
            give_back(self._place)
        self._place = None

    def expand_level(self, on_round: Callable[[int], None] | None = None) -> tuple[list[Bad], bool]:
        """Expands the last level and keeps the successors for `begin_level`.

        Returns the violations in the level, the least states of each kind, and whether memory was
        enough. Raises RolledBackError, SparkError.
        """
        if self._seen is None and files_are_used():
            self._seen = self._run(self._homes_job)
        expanded, inserted = self._carried()
        self._check_damage([item.damaged for item in (*expanded, *inserted)])
        bad = [bad for item in expanded for bad in item.bad]
        full = {item.full for item in (*expanded, *inserted) if item.full}
        if bad or full:
            if not bad:  # PLACES first: more memory doesn't help there
                self.found.stopped = PLACES if PLACES in full else MEMORY
            return bad, False
        taken = self.taken + np.sum([item.taken for item in expanded], axis=0)
        level = Level(
            [item.states for item in inserted],
            taken.tolist(),
            first_depths(self.found.first, taken, self.depth),
            self.before + time.perf_counter() - self.begun,
            sum(item.sent for item in expanded),
            sum(item.sent_bytes for item in expanded),
            sum(item.written for item in inserted),
        )
        self.taken = taken
        # a shard without results sends nothing
        self.held = max(self.held, sum(item.memory for item in inserted))
        if self._seen is not None and self._losses < MOST_LOSSES:
            seen = zip(inserted, self._seen, strict=True)
            self._seen = [item.home or before for item, before in seen]
        self._next = level, [(item.shard, item.runs) for item in inserted if item.runs]
        ahead = [item.ahead for item in inserted if item.ahead]
        self._ahead = ahead if len(ahead) == self.kit.shards else []
        return [], True

    def _carried(self) -> tuple[list[Expanded], list[Inserted]]:
        """The reports of shards about the last level's expansion and the next level's insertion."""
        expanded = self._ahead
        if any(item.bad for item in expanded):
            return expanded, []
        inserted = self._run(self._insert_job if expanded else self._level_job)
        is_lost = any(item.lost for item in inserted)  # a file is unreadable
        self._losses += is_lost
        reports = [*inserted, *(item.before for item in inserted if item.before)]
        if is_lost or (not self.finer and any(item.full == PLACES for item in reports)):
            self._is_full |= not is_lost
            # send everything through Spark
            self._seen, self._ahead = [None] * self.kit.shards, []
            self._leave_place()
            expanded, inserted = [], self._run(self._level_job)
        if not expanded:
            expanded = [item.before for item in inserted if item.before]
            assert len(expanded) == len(inserted)  # each shard has reported its violations
        return expanded, inserted

    def begin_level(self) -> None:
        """Turns the successors of `expand_level` into a finished level."""
        assert self._next is not None
        self.manifest.finish(*self._next)
        self._next = None
        self._leave_place()

    def _homes_job(self) -> list[Home]:
        with stage(self.session, "homes of shards"):
            return self.homes.mapPartitions(partial(find_home, self.shipped)).collect()

    def _insert_job(self) -> list[Inserted]:
        with stage(self.session, f"level {self.depth}: insert"):
            insert_it = partial(insert_noted, self.shipped, self.place)
            return self.homes.mapPartitions(insert_it).collect()

    def _level_job(self) -> list[Inserted]:
        level, shards, place, homes = self.depth, self.kit.shards, self.place, self.homes
        with stage(self.session, f"level {level}: expand"):
            sent = homes.mapPartitions(partial(expand, self.shipped, place), True)
            arrived = sent.partitionBy(shards, int)
        with stage(self.session, f"level {level}: insert"):
            # only pairs of partitions of one shard; the first partition has its home
            pairs = [shard * shards + shard for shard in range(shards)]
            insert_it = partial(insert, self.shipped, place)
            reports = self.context.runJob(homes.cartesian(arrived), insert_it, pairs)
        drop_shuffle(arrived)
        return sorted(reports, key=lambda item: item.shard)

    def _run(self, job: Callable[[], list[Any]]) -> list[Any]:
        """The outcome of a job. Spark repeats failed tasks. If the job still fails, it is repeated
        here: only the manifest makes its results valid.
        """
        for left in reversed(range(ATTEMPTS)):
            try:
                return job()
            except Exception as error:  # various types, from Java and from Python
                if not left:
                    raise SparkError(f"level {self.depth} failed: {reason(error)}") from error
        raise AssertionError

    def _check_damage(self, damaged: list[str]) -> None:
        if any(damaged):
            names = [run for run in self.manifest.each_run() if any(run.file in d for d in damaged)]
            first = min((run.first for run in names), default=0)
            self.manifest.roll_back(first)
            raise RolledBackError

    def predecessors(self, states: Sequence[bytes], level: int) -> list[bytes]:
        """The least packed states of a level that have one of the states as a successor, sorted, at
        most MOST_KEPT.

        Raises LookupError if there is none, RolledBackError, SparkError.
        """
        back = partial(look_back, self.shipped, self.place, states, level)
        by_shard = self._look(f"counterexample, level {level}: look back", back)
        found = nsmallest(MOST_KEPT, chain.from_iterable(by_shard))
        if not found:
            raise LookupError(NO_PREDECESSOR)
        return found

    def met(self, every: Sequence[Sought], packing: Packing) -> list[bool]:
        """Whether each of the sought states is among the found ones.

        Raises RolledBackError, SparkError.
        """
        look = partial(look_for, self.shipped, self.place, every, packing)
        by_shard = self._look("coverage: premises and messages", look)
        return [any(found) for found in zip(*by_shard, strict=True)]

    def _look(self, name: str, look: Callable[[Iterable[int]], Iterator[Looked]]) -> list[Any]:
        """The results of tasks that read each shard's states."""

        def job() -> list[Looked]:
            with stage(self.session, name):
                return self.homes.mapPartitions(look).collect()

        answers = self._run(job)
        self._check_damage([answer.damaged for answer in answers])
        for full in filter(None, (answer.full for answer in answers)):
            raise SparkError(f"{name}: {NO_ROOM[full]}")
        return [answer.found for answer in answers]

    def close(self) -> None:
        """Releases the executors' data of the run."""
        self._leave_place()
        self._leave_homes()
        give_back(self.shipped)
