"""Breadth-first search over every interleaving, level by level, in native code.

A state belongs to the shard that its hash names. In a round, threads first expand states of the
level and sort the successors by owner, then put them into the shards that they own: no shard is
written by two threads, and no lock is taken.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
from numba import njit, uint64

from .lower import Kernel
from .memory import Region, call_expand
from .store import SHARD_BITS, SHARDS, SLACK, Store, copy_state, hash_state, same_state

SLICE = 32  # states expanded between two looks at what they gave
SPAN = 1 << 12  # states that a thread takes at a time
MOST_FILLED = 1 << 17  # states in a bucket from which on it is emptied first
LEAST_ROUND, MOST_ROUND = 1 << 14, 1 << 17  # states expanded between two turns of insertion
PER_ROUND = 256  # states found for each that a round expands, between these ends


@njit(nogil=True, cache=True)
def deal(states, count, stride, buckets, filled):
    """Puts states into the buckets of the shards that own them; returns the fullest's count."""
    shift = uint64(64 - SHARD_BITS)
    fullest = 0
    for i in range(count):
        state = states + i * stride
        owner = np.int64(hash_state(state, stride) >> shift)
        here = filled[owner]
        copy_state(state, buckets[owner] + here * stride, stride)
        filled[owner] = here + 1
        fullest = max(fullest, here + 1)
    return fullest


@njit(nogil=True, cache=True)
def scatter(
    expand, states, count, stride, out, rows, bad, bad_count, taken, buckets, filled, most_filled
):
    """Expands states and puts each successor into the bucket of the shard that owns it.

    Returns how many were expanded: fewer than `count` where a bucket holds over `most_filled`.
    """
    done = 0
    fullest = 0
    while done < count and fullest <= most_filled:
        part = min(SLICE, count - done)
        before = bad_count[0]
        written = call_expand(
            expand, states + done * stride, part, out, rows.ctypes.data, bad.ctypes.data,
            bad_count.ctypes.data,
        )  # fmt: skip
        for i in range(before, bad_count[0]):
            bad[i] += uint64(done) << uint64(8)
        for i in range(written):
            taken[rows[i]] += 1
        fullest = max(fullest, deal(out, written, stride, buckets, filled))
        done += part
    return done


@njit(nogil=True, cache=True)
def find(expand, states, count, stride, out, rows, bad, bad_count, target, hits):
    """Notes in `hits` which of `count` states have the packed state at `target` as a successor."""
    found = 0
    for i in range(count):
        bad_count[0] = 0
        written = call_expand(
            expand, states + i * stride, 1, out, rows.ctypes.data, bad.ctypes.data,
            bad_count.ctypes.data,
        )  # fmt: skip
        for j in range(written):
            if same_state(out + j * stride, target, stride):
                hits[found] = i
                found += 1
                break
    return found


@dataclass(frozen=True)
class Bad:
    """A state with something wrong: packed, and what is wrong (flags of `lower`)."""

    state: bytes
    flags: int


@dataclass
class Progress:
    """How far a search has come; `frontier` is the number of states of the level under way."""

    states: int
    transitions: int
    depth: int
    frontier: int
    seconds: float
    memory: int


@dataclass
class Search:
    """What a search found.

    `stopped` says which limit ended the search early; `bad` what was wrong in the last level
    looked at.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    taken: list[int] = field(default_factory=list[int])
    bad: list[Bad] = field(default_factory=list[Bad])
    stopped: str = ""
    seconds: float = 0.0
    memory: int = 0


class _Worker:
    """One thread's buffers. `buckets` and `filled` have a place for each shard."""

    def __init__(
        self, stride: int, most_successors: int, rows: int, buckets: Any, filled: Any
    ) -> None:
        self.stride = stride
        burst = SLICE * max(1, most_successors)
        self.out = Region(burst * stride + SLACK)
        self.rows = np.zeros(burst, dtype=np.uint32)
        self.bad = np.zeros(SPAN, dtype=np.uint64)
        self.bad_count = np.zeros(1, dtype=np.int64)
        self.taken = np.zeros(rows, dtype=np.int64)
        size = ((MOST_FILLED + burst) * stride + SLACK + 4095) // 4096 * 4096
        self.area = Region(size * SHARDS)
        self.buckets = buckets
        self.buckets[:] = self.area.address + size * np.arange(SHARDS, dtype=np.int64)
        self.filled = filled
        self.fullest = np.zeros(SHARDS, dtype=np.int64)

    def note_fullest(self) -> None:
        """Remembers how full the buckets have been."""
        np.maximum(self.fullest, self.filled, out=self.fullest)

    @property
    def touched(self) -> int:
        """Bytes of the buckets that have been in use."""
        return int(self.fullest.sum()) * self.stride

    def scatter(self, expand: int, states: int, count: int) -> int:
        return int(
            scatter(
                expand, states, count, self.stride, self.out.address, self.rows, self.bad,
                self.bad_count, self.taken, self.buckets, self.filled, MOST_FILLED,
            )
        )  # fmt: skip


class Explorer:
    """The states reached so far, and the search that finds the next level.

    `memory_limit` is in bytes, for the whole process.
    """

    def __init__(
        self, kernel: Kernel, stride: int, rows: int, threads: int, memory_limit: int
    ) -> None:
        self.kernel = kernel
        self.stride = stride
        self.threads = threads
        self.memory_limit = memory_limit
        self.base = psutil.Process().memory_info().rss
        most = max(1 << 12, 2 * memory_limit // (SHARDS * stride))
        self.store = Store(stride, most, self.may_take)
        self.levels: list[list[int]] = []
        self.buckets = np.zeros((threads, SHARDS), dtype=np.int64)
        self.filled = np.zeros_like(self.buckets)
        self.emptied = np.zeros_like(self.buckets)
        self.workers = [
            _Worker(stride, kernel.most_successors, rows, buckets, filled)
            for buckets, filled in zip(self.buckets, self.filled, strict=True)
        ]
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.taken = np.zeros(rows, dtype=np.int64)
        self.found = Search(taken=[0] * rows)

    def may_take(self, extra: int) -> bool:
        """Whether `extra` more bytes stay within the limit."""
        return self.memory + extra <= self.memory_limit

    @property
    def count(self) -> int:
        """States held."""
        return int(self.store.counts.sum())

    @property
    def memory(self) -> int:
        """Bytes of the process, by count of what was touched."""
        return self.base + self.store.memory + sum(worker.touched for worker in self.workers)

    def insert(self, states: bytes) -> bool:
        """Puts packed states, one behind the other, into their shards; False without room."""
        area = Region(len(states) + SLACK)
        area.array[: len(states)] = np.frombuffer(states, dtype=np.uint8)
        worker = self.workers[0]
        left = len(states) // self.stride
        at = area.address
        while left:
            part = min(left, MOST_FILLED)
            deal(at, part, self.stride, worker.buckets, worker.filled)
            if not all(self._insert(thread) for thread in range(self.threads)):
                return False
            self._clear_buckets()
            at += part * self.stride
            left -= part
        return True

    def begin_level(self) -> None:
        """What was inserted since the last call is the next level."""
        self.levels.append(self.store.counts.tolist())

    def resume(self, transitions: int, taken: list[int], seconds: float) -> None:
        """Takes over the counts of the levels before the last one that was inserted."""
        self.found.transitions, self.found.taken = transitions, taken
        self.found.seconds = seconds
        self.taken += np.array(taken, dtype=np.int64)

    def level_ranges(self, level: int) -> list[tuple[int, int]]:
        """Per shard the positions of a level's states (0 is the initial one): start and end."""
        starts = self.levels[level - 1] if level else [0] * SHARDS
        return list(zip(starts, self.levels[level], strict=True))

    def level_bytes(self, level: int) -> Iterator[bytes]:
        """A level's packed states, shard by shard."""
        for shard, (start, end) in enumerate(self.level_ranges(level)):
            yield self.store.bytes_of(shard, start, end)

    def expand_level(self, on_round: Callable[[int], None] | None = None) -> tuple[list[Bad], bool]:
        """Expands the last level and inserts what it gives.

        Returns the states of the level in which something is wrong, and whether memory was enough.
        """
        spans = [
            (shard, at, min(at + SPAN, end))
            for shard, (start, end) in enumerate(self.level_ranges(len(self.levels) - 1))
            for at in range(start, end, SPAN)
        ]
        # neighbours in time stay neighbours: a round takes a part of every shard
        spans.sort(key=lambda span: span[1])
        bad: list[Bad] = []
        # the longer a round, the more often it finds a part of the table in the cache; its buckets
        # stay small beside the states that were found
        round_size = min(max(LEAST_ROUND, self.count // PER_ROUND), MOST_ROUND)
        left = sum(end - start for _, start, end in spans)
        while spans:
            # a successor takes its place in a bucket, and if it is new in a shard
            ratio = 1 + self.found.transitions // max(1, self.found.states)
            affordable = (self.memory_limit - self.memory) // (2 * ratio * self.stride)
            if affordable < SPAN:
                return bad, False
            round_size = min(round_size, affordable)
            share: list[list[tuple[int, int, int]]] = [[] for _ in self.workers]
            total = 0
            while spans and total < round_size:
                span = spans.pop()
                share[len(spans) % self.threads].append(span)
                total += span[2] - span[1]
            for rest, noted in self._each(
                self._expand, list(zip(self.workers, share, strict=True))
            ):
                spans.extend(rest)
                bad.extend(noted)
            if not all(self._each(self._insert, [(t,) for t in range(self.threads)])):
                return bad, False
            self._clear_buckets()
            if on_round is not None:
                left_now = sum(end - start for _, start, end in spans)
                on_round(left - left_now)
        for worker in self.workers:
            self.taken += worker.taken
            worker.taken[:] = 0
        return bad, True

    def _each(self, function, arguments):  # type: ignore[no-untyped-def]
        if self.pool is None:
            return [function(*args) for args in arguments]
        return [f.result() for f in [self.pool.submit(function, *args) for args in arguments]]

    def _expand(
        self, worker: _Worker, spans: list[tuple[int, int, int]]
    ) -> tuple[list[tuple[int, int, int]], list[Bad]]:
        bad: list[Bad] = []
        for place, (shard, start, end) in enumerate(spans):
            base = int(self.store.states[shard]) + start * self.stride
            worker.bad_count[0] = 0
            done = worker.scatter(self.kernel.address, base, end - start)
            for noted in worker.bad[: worker.bad_count[0]]:
                at = start + (int(noted) >> 8)
                bad.append(Bad(self.store.bytes_of(shard, at, at + 1), int(noted) & 0xFF))
            if done < end - start:
                return [(shard, start + done, end), *spans[place + 1 :]], bad
        return [], bad

    def _insert(self, thread: int) -> bool:
        return self.store.insert(thread, self.threads, self.buckets, self.filled, self.emptied)

    def _clear_buckets(self) -> None:
        for worker in self.workers:
            worker.note_fullest()
        self.filled[:] = 0
        self.emptied[:] = 0

    def predecessor(self, state: bytes, level: int) -> bytes:
        """The least packed state of `level` that has `state` as a successor.

        Raises LookupError where there is none.
        """
        worker = self.workers[0]
        target = Region(self.stride + SLACK)
        target.array[: self.stride] = np.frombuffer(state, dtype=np.uint8)
        hits = np.zeros(SPAN, dtype=np.int64)
        best: bytes | None = None
        for shard, (start, end) in enumerate(self.level_ranges(level)):
            for at in range(start, end, SPAN):
                part = min(SPAN, end - at)
                base = int(self.store.states[shard]) + at * self.stride
                found = find(
                    self.kernel.address, base, part, self.stride, worker.out.address, worker.rows,
                    worker.bad, worker.bad_count, target.address, hits,
                )  # fmt: skip
                for hit in hits[:found]:
                    one = self.store.bytes_of(shard, at + int(hit), at + int(hit) + 1)
                    best = one if best is None else min(best, one)
        if best is None:
            raise LookupError("a state of the search has no predecessor in the level before it")
        return best

    def close(self) -> None:
        """Ends the threads."""
        if self.pool is not None:
            self.pool.shutdown()


def search(
    explorer: Explorer,
    *,
    on_level: Callable[[Progress], None] | None = None,
    on_round: Callable[[Progress], None] | None = None,
) -> Search:
    """Expands level after level until nothing is new, something is wrong or memory runs out.

    The last level inserted must be open for expansion. Counts are those of whole levels.
    """
    found = explorer.found
    begun = time.perf_counter() - found.seconds
    while True:
        level = explorer.level_ranges(len(explorer.levels) - 1)
        frontier = sum(end - start for start, end in level)
        if not frontier:
            explorer.levels.pop()
            break
        found.states = sum(end for _, end in level)
        found.depth = len(explorer.levels)

        def progress(done: int = 0, frontier: int = frontier) -> Progress:
            seconds = time.perf_counter() - begun
            rate = found.transitions + int(sum(w.taken.sum() for w in explorer.workers))
            return Progress(
                explorer.count, rate, found.depth, frontier - done, seconds, explorer.memory
            )

        if on_level is not None:
            on_level(progress())

        def tell(done: int, progress: Callable[[int], Progress] = progress) -> None:
            if on_round is not None:
                on_round(progress(done))

        bad, whole = explorer.expand_level(tell)
        found.seconds = time.perf_counter() - begun
        found.memory = explorer.memory
        if bad:
            found.bad = bad
            break
        if not whole:
            found.stopped = "memory"
            break
        found.taken = [int(n) for n in explorer.taken]
        found.transitions = sum(found.taken)
        explorer.begin_level()
    return found
