"""Breadth-first search over every interleaving, level by level, in native code.

A state belongs to the shard that its hash names. In a round, threads first expand states of the
level and sort the successors by owner, then put them into their shards. A free thread takes the
next part of either work. Two threads never write to one shard at once, so no lock is needed.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, count, pairwise, takewhile
from typing import Any, Protocol, TypeAlias
from weakref import ref

import numpy as np
import psutil

from ....checksums import DamagedError
from ..cache.kernel import Kernel
from ..cache.object_code import BEST, PLAIN
from ..codegen.property_groups import WATCHED
from ..codegen.sharing import RANGE, flags_in
from ..jit.functions import Passed, compiling_seconds
from ..jit.interrupts import unbroken
from ..store.disk import Disk
from ..store.kept import Kept, parts_of
from ..store.pack import Packing
from ..store.part_plan import Plan
from ..store.part_store import DIVIDED_FROM, cut_of, taken_over
from ..store.parts import Parts
from ..store.store import MOST_PER_SHARD, SHARDS, Store
from .coverage import Sought, met
from .worker import ALL, MOST_FILLED, MOST_KEPT, SPAN, Worker

LEAST_FILLED = 1 << 10  # the smallest limit of states in a bucket
LEAST_ROUND = 1 << 14  # least states of a round
MOST_ROUND, MOST_OF_PARTS = 1 << 20, 1 << 16  # most states of a round: whole, and by parts
TURNS = 32  # parts of the shards; a thread fills one part at a time
INTERRUPTED = "interrupted"  # the cause of a stop without a limit
MEMORY, DISK, DEPTH, TIME = "memory", "disk", "depth", "time"  # limits
PLACES = "places"  # another limit: the places of the visited set
NO_PLACES = "more memory doesn't help, but more shards on Spark do (--engine spark, --shards)"
DAMAGED = "it is damaged"
NO_PREDECESSOR = "a state of the search has no predecessor in the level before it"
IMPROVED_FROM = {BEST: 1 << 22, PLAIN: 1 << 19}
"""The least states for which code of each effort pays, the most effort first."""
LEAST_BYTES = 7  # of a state that is kept by its parts, with its entry in a table
IN_BUCKETS = 3  # a round's successors take one third of the memory of whole states
MOST_FRESH = 1 / 4  # of memory, for records and tables of another process on disk
PER_ROUND = 256  # bytes of states for each state of a round, if parts are kept


@dataclass(frozen=True)
class Bad:
    """A packed state with violations (flags of `lower`)."""

    state: bytes
    flags: int


@dataclass
class Progress:
    """The progress of a search. `frontier` is the number of states of the current level. `search`
    is 1 for the first search of a run, and higher for later ones. `limit` is the memory limit in
    bytes; 0 if further states go on disk.
    """

    states: int
    transitions: int
    depth: int
    frontier: int
    seconds: float
    memory: int
    search: int = 1
    limit: int = 0


@dataclass
class Search:
    """The result of a search.

    `taken` counts the steps of each row. `first` has the depth of the first state that each row led
    to, 0 for a row without steps. `stopped` is the limit that ended the search early. `wrong` has
    for each violation's flag the first level with such a state, and the least states there, at most
    MOST_KEPT. `seconds` don't include the seconds of `compiling`, because Numba's code is cached.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    taken: list[int] = field(default_factory=list[int])
    first: list[int] = field(default_factory=list[int])
    wrong: dict[int, tuple[int, list[bytes]]] = field(
        default_factory=dict[int, tuple[int, list[bytes]]]
    )
    stopped: str = ""
    seconds: float = 0.0
    compiling: float = 0.0
    memory: int = 0

    def note(self, bad: Iterable[Bad], level: int) -> None:
        """Records the violations in the states of a level, except flags of earlier levels."""
        here: dict[int, list[bytes]] = {}
        for item in bad:
            for flag in flags_in(item.flags):
                here.setdefault(flag, []).append(item.state)
        for flag, states in here.items():
            self.wrong.setdefault(flag, (level, nsmallest(MOST_KEPT, states)))

    def count(self, taken: Sequence[int], depth: int) -> None:
        """Sets the counts of each row, after the steps to states of `depth`."""
        self.taken = [int(times) for times in taken]
        self.transitions = sum(self.taken)
        self.first = first_depths(self.first, self.taken, depth)


def first_depths(known: Sequence[int], taken: Sequence[int], depth: int) -> list[int]:
    """The depth at which each row was first taken; 0 for a row that wasn't taken yet."""
    pairs = zip(known, taken, strict=True)
    return [before or (depth if times else 0) for before, times in pairs]


Span: TypeAlias = tuple[int, int, int]
"""States of a shard by their positions: the shard, the start, the end."""


class Explorer:
    """The states reached so far, and the search that finds the next level.

    `memory_limit` is in bytes, for the whole process. If memory is short, states go on `disk`.
    """

    def __init__(
        self,
        kernel: Kernel,
        stride: int,
        rows: int,
        threads: int,
        memory_limit: int,
        disk: Disk | None = None,
    ) -> None:
        self.kernel = kernel
        self.stride = stride
        self.threads = threads
        self.memory_limit = memory_limit
        self.disk = disk
        self.spilled: int | None = None  # the first level with states on disk
        self._kept: Kept | None = None
        self.base = psutil.Process().memory_info().rss
        self.rows = rows
        self.room = room = max(0, memory_limit - self.base)
        most = max(1 << 12, 2 * room // (SHARDS * stride))
        self.asking = _asking(self)
        self.store = Store(stride, most, self.asking)
        self.divided: Store | None = None  # takes over the states, by their parts
        self.is_decided = False  # whether it was decided to keep parts or whole states
        self.levels: list[list[int]] = []
        self.buckets = np.zeros((threads, SHARDS), dtype=np.int64)
        self.filled = np.zeros_like(self.buckets)
        self.emptied = np.zeros_like(self.buckets)
        self.passed = Passed(self.buckets, self.filled, self.emptied)
        # the buckets of all threads reserve at most half of the memory
        fair = room // (2 * threads * SHARDS * stride)
        most_filled = min(max(LEAST_FILLED, fair), MOST_FILLED)
        self.workers = [
            Worker(kernel, stride, rows, buckets, filled, most_filled)
            for buckets, filled in zip(self.buckets, self.filled, strict=True)
        ]
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.taken = np.zeros(rows, dtype=np.int64)
        self.found = Search(taken=[0] * rows, first=[0] * rows)

    def may_take(self, extra: int) -> bool:
        """Whether `extra` more bytes stay within the limit if all states in the buckets are new."""
        waiting = int((self.filled - self.emptied).sum()) * self.store.width
        return self.memory + waiting + extra <= self.memory_limit

    @property
    def count(self) -> int:
        """States held."""
        return int(self.store.counts.sum())

    @property
    def memory(self) -> int:
        """Bytes of the process, counted by touched pages."""
        stores = (each for each in (self.store, self.divided) if each is not None)
        return self.base + sum(store.memory for store in stores) + self._in_buckets

    @property
    def _in_buckets(self) -> int:
        """The bytes of buckets that have been in use."""
        return sum(worker.touched(self.store.width) for worker in self.workers)

    def leave_out(self, flags: int) -> None:
        """Stops the checks of the violations with these flags."""
        for worker in self.workers:
            worker.bad_count[WATCHED] = ALL & ~flags

    def insert(self, states: bytes) -> bool:
        """Puts contiguous packed states into their shards; False if there is no room."""
        put = self.workers[0].put
        # states that are already there aren't put again
        return put(states, self.store) or (self._spill() and put(states, self.store))

    @unbroken()
    def _spill(self) -> bool:
        """Keeps the states on disk from now on; False if there is no disk, or it is full."""
        if self.store.full and self.store.most == MOST_PER_SHARD:
            self.found.stopped = PLACES
            return False
        if self.disk is None or self.spilled is not None:
            self._tell_full()
            return False
        if not self.store.spill(self.disk, at_once=self._at_once):
            self._tell_full()
            return False
        self.spilled = max(0, self.depth - 1)
        self.is_decided = True  # no division into parts on disk
        return True

    @property
    def _at_once(self) -> float:
        """The part of the records and tables that all threads fill at the same time."""
        return min(1, self.threads / TURNS)

    def kept(self) -> Iterator[bytes]:
        """The new contents of parts, for another process that takes over the states on disk. The
        last level must not be expanded yet.
        """
        if self._kept is None:
            self._kept = Kept(self.store)
        for worker in self.workers:  # numbers are saved once: none below the last one is left
            worker.own[:] = 0
        return self._kept.contents()

    def form(self, *, rewritten: bool = False) -> dict[str, Any]:
        """The form of the states on disk at the end of the last level, after `kept`. Raises
        OSError.
        """
        assert self._kept is not None
        assert self.spilled is not None
        if rewritten:
            self._kept.restart()
        return self._kept.form(self.levels, self.spilled)

    def reopen(
        self,
        form: dict[str, Any],
        contents: Iterable[bytes],
        valid: Callable[[int, int, Any], bool],
    ) -> bool:
        """Takes over another process's states on disk, and fills their tables again; False if
        memory is short, or the disk is full. `contents` and `valid` are those of `parts_of`.

        Raises DamagedError if the records or contents differ from those of the form.
        """
        assert self.disk is not None

        def new(plan: Plan) -> Parts:
            return Parts(plan, self.room // 2, self.asking, spans=self.kernel.spans)

        self.is_decided = True
        most, counts = form["most"], form["counts"][-1]
        try:
            parts = parts_of(form, contents, new, valid)
            self.store = store = Store(self.stride, LEAST_FILLED, self.asking, parts=parts)
            most_fresh = int(self.room * MOST_FRESH)
            store.reopen(self.disk, counts, most, self._at_once, most_fresh)
        except MemoryError:
            self.found.stopped = MEMORY
            return False
        self._kept = Kept(store)
        self._kept.resume(form)
        for worker in self.workers:
            worker.work_on(len(form["ends"]))
        used = np.array(form["used"], dtype=np.int64)
        shards = iter(range(SHARDS))  # the threads share the iterator
        whole = all(self.each(self._find_again, [(shards, used)] * self.threads))
        if self._kept.checksum != form["records"] and whole:
            raise DamagedError(DAMAGED)
        self.levels, self.spilled = [*form["counts"]], form["since"]
        self._tell_full()
        return whole

    def _find_again(self, shards: Iterator[int], used: Any) -> bool:
        assert self._kept is not None
        for shard in shards:
            self.store.bring(shard)
            self._kept.look_at(shard, int(self.store.counts[shard]))
            if not self.store.all_given(shard, used):
                raise DamagedError(DAMAGED)
            if not self.store.found_again(shard):
                return False
        return True

    def _tell_full(self) -> None:
        if self.disk is not None and self.disk.why:
            self.found.stopped = DISK

    def begin_level(self) -> None:
        """Makes the states that were inserted since the last call the next level."""
        self.levels.append(self.store.counts.tolist())
        self.improve()
        if not self.is_decided and self.count >= DIVIDED_FROM:
            self.is_decided = True
            self._divide()

    def improve(self, *, one_by_one: bool = False) -> None:
        """Begins to compile faster code, if there are enough states (see `Kernel.improve`)."""
        for effort, states in IMPROVED_FROM.items():
            if self.count >= states:
                self.kernel.improve(effort, one_by_one=one_by_one)

    def _divide(self) -> None:
        """Keeps the states by their parts from now on, if that saves memory and there is room."""
        cut = cut_of(self.store)
        if cut is None:
            return
        try:
            parts = Parts(cut, self.room // 2, self.asking, spans=self.kernel.spans)
            most = max(1 << 12, 2 * self.room // (SHARDS * LEAST_BYTES))
            self.divided = Store(self.stride, most, self.asking, parts=parts)
        except MemoryError:
            return
        for worker in self.workers:
            worker.work_on(len(cut.ends))
        levels = taken_over(self.store, self.levels, self.divided, self.workers[0])
        if levels is not None:
            self.store, self.levels = self.divided, levels
        self.divided = None

    @property
    def depth(self) -> int:
        """Levels begun."""
        return len(self.levels)

    @property
    def frontier(self) -> int:
        """States of the last level begun."""
        return sum(end - start for start, end in self.level_ranges(len(self.levels) - 1))

    @property
    def steps_so_far(self) -> int:
        """Steps since the end of the last level."""
        return int(sum(worker.taken.sum() for worker in self.workers))

    def level_sizes(self) -> list[int]:
        """The number of states in each level, the initial one first."""
        ends = [0, *map(sum, self.levels)]
        return [end - start for start, end in pairwise(ends)]

    def resume(self, taken: list[int], first: list[int], seconds: float) -> None:
        """Restores the counts of the levels before the last inserted one."""
        self.found.taken, self.found.first = taken, first
        self.found.transitions = sum(taken)
        self.found.seconds = seconds
        self.taken += np.array(taken, dtype=np.int64)

    def level_ranges(self, level: int) -> list[tuple[int, int]]:
        """The positions of a level's states in each shard: start and end. Level 0 is the initial
        one.
        """
        starts = self.levels[level - 1] if level else [0] * SHARDS
        return list(zip(starts, self.levels[level], strict=True))

    def level_bytes(self, level: int) -> Iterator[bytes]:
        """A level's packed states, shard by shard."""
        for shard, (start, end) in enumerate(self.level_ranges(level)):
            yield self.store.bytes_of(shard, start, end)

    def expand_level(self, on_round: Callable[[int], None] | None = None) -> tuple[list[Bad], bool]:
        """Expands the last level and inserts its successors.

        Returns the level's states with violations, and whether memory was sufficient.
        """
        spans = [
            (shard, at, min(at + SPAN, end))
            for shard, (start, end) in enumerate(self.level_ranges(len(self.levels) - 1))
            for at in range(start, end, SPAN)
        ]
        # a round takes a part of every shard: states found together are expanded together
        spans.sort(key=lambda span: span[1])
        bad: list[Bad] = []
        round_size = self._round_size()
        left = sum(end - start for _, start, end in spans)
        while spans:
            # a successor may take memory in a bucket, in a shard and in parts
            free = self.memory_limit - self.memory
            if self.spilled is not None:  # buckets are as large as memory allows, and used again
                free += self._in_buckets
            affordable = free // (3 * self._successors * self.store.width)
            if affordable < SPAN:
                if self._spill():
                    continue
                return bad, False
            if self.spilled is not None:  # each round reads the files again, so few rounds
                round_size = affordable
                for worker in self.workers:
                    worker.use_all_room(self.store.width)
            self.store.allow(free // 3)
            round_size = min(round_size, affordable)
            todo = deque[Span]()
            total = 0
            while spans and total < round_size:
                todo.append(spans.pop())
                total += todo[-1][2] - todo[-1][1]
            for rest, noted in self.each(self._expand, [(w, todo) for w in self.workers]):
                spans.extend(rest)
                bad.extend(noted)
            spans.extend(todo)
            self.store.looked_at(total * self.store.width)
            while not self._insert_all():
                if not self._spill():
                    return bad, False
            self._clear_buckets()
            while not self._ready():
                if not self._spill():
                    return bad, False
            if on_round is not None:
                left_now = sum(end - start for _, start, end in spans)
                on_round(left - left_now)
        for worker in self.workers:
            self.taken += worker.taken
            worker.taken[:] = 0
        return bad, True

    @property
    def _successors(self) -> int:
        """The mean number of successors of a state, at least 1."""
        return 1 + self.found.transitions // max(1, self.found.states)

    def _round_size(self) -> int:
        """The number of states that a round expands. In a larger round more look-ups hit the cache,
        but buckets take more memory.
        """
        if self.store.parts is None:
            fair = self.store.held // (IN_BUCKETS * self._successors * self.store.width)
            return min(max(LEAST_ROUND, fair), MOST_ROUND)
        fair = self.count * self.stride // (PER_ROUND * self.store.width)
        return min(max(LEAST_ROUND, fair), MOST_OF_PARTS)

    def each(self, function, arguments):  # type: ignore[no-untyped-def]
        """The results of a function for all arguments, by the available threads. If a call raises
        an error or Ctrl-C comes, it waits for all threads before it raises.
        """
        if self.pool is None:
            return [function(*args) for args in arguments]
        running = []
        with unbroken():
            try:
                for args in arguments:
                    running.append(self.pool.submit(function, *args))
            finally:
                wait(running)
        return [each.result() for each in running]

    def _expand(self, worker: Worker, spans: deque[Span]) -> tuple[list[Span], list[Bad]]:
        bad: list[Bad] = []
        while True:
            try:
                shard, start, end = spans.popleft()
            except IndexError:
                return [], bad
            done = worker.scatter(self.store, shard, start, end - start)
            for index, flags in worker.noted():
                at = start + index
                bad.append(Bad(self.store.bytes_of(shard, at, at + 1), flags))
            if done < end - start:
                return [(shard, start + done, end)], bad

    def _insert_all(self) -> bool:
        """Puts the remaining buckets into the shards; False if there was no room for some."""
        turns = count()
        return all(self.each(self._insert, [(turns,)] * self.threads))

    def _insert(self, turns: Iterator[int]) -> bool:
        for turn in takewhile(TURNS.__gt__, turns):
            if not self.store.insert(turn, TURNS, self.passed):
                return False
            self.store.looked_at(self.store.held // TURNS)
        return True

    @unbroken()
    def _ready(self) -> bool:
        return self.store.ready()

    def _clear_buckets(self) -> None:
        for worker in self.workers:
            worker.empty(self.store.width)
        self.emptied[:] = 0

    def switch_off(self, rows: Collection[int]) -> None:
        """Takes no step by these rows (the kernel's numbers). No other row replaces them."""
        for worker in self.workers:
            worker.switch_off(rows)

    def predecessors(self, states: Sequence[bytes], level: int) -> list[bytes]:
        """The least packed states of `level` that have one of the states as a successor, sorted, at
        most MOST_KEPT.

        Raises LookupError if there is none.
        """
        self.improve(one_by_one=True)
        shards = [*enumerate(self.level_ranges(level))]
        turns = 1 + sum(end - start for _, (start, end) in shards) // MOST_ROUND
        least: list[bytes] = []
        for turn in range(min(turns, SHARDS)):  # Ctrl-C waits for one turn
            some = iter(shards[turn::turns])  # the threads share the iterator
            found = self.each(self._look_back, [(worker, some, states) for worker in self.workers])
            least = nsmallest(MOST_KEPT, chain(least, *found))
        if not least:
            raise LookupError(NO_PREDECESSOR)
        return least

    def _look_back(
        self, worker: Worker, shards: Iterable[tuple[int, tuple[int, int]]], states: Sequence[bytes]
    ) -> list[bytes]:
        return worker.predecessors(self.store, shards, states)

    def met(self, every: Sequence[Sought], packing: Packing) -> list[bool]:
        """Whether each of the sought states is among the found ones."""
        return met(every, packing, self.store.all_rows(), self.threads)

    def close(self) -> None:
        """Ends the threads, and releases disk space."""
        if self.pool is not None:
            self.pool.shutdown()
        if self.disk is not None:
            self.disk.close()


def _asking(explorer: Explorer) -> Callable[[int], bool]:
    """The explorer's `may_take` for its stores, as a weak reference: there is no cycle, and the
    explorer's memory is released without the garbage collector.
    """
    known = ref(explorer)

    def may_take(extra: int) -> bool:
        there = known()
        return there is not None and there.may_take(extra)

    return may_take


class Carrier(Protocol):
    """The carrier of a search: threads of this process (Explorer), or Spark (`spark.levels`).

    `count` is the number of held states, `memory` their size in bytes, `depth` the number of begun
    levels, `frontier` the size of the last one, `steps_so_far` the steps since then. `taken` are
    the steps of each row, and `found` is the result.
    """

    found: Search
    taken: Any

    @property
    def count(self) -> int: ...
    @property
    def memory(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def frontier(self) -> int: ...
    @property
    def steps_so_far(self) -> int: ...
    def expand_level(
        self, on_round: Callable[[int], None] | None = None
    ) -> tuple[list[Bad], bool]: ...
    def begin_level(self) -> None: ...
    def predecessors(self, states: Sequence[bytes], level: int) -> list[bytes]: ...
    def level_sizes(self) -> list[int]: ...
    def met(self, every: Sequence[Sought], packing: Packing) -> list[bool]: ...
    def close(self) -> None: ...


def search(
    carrier: Carrier,
    *,
    on_level: Callable[[Progress], None] | None = None,
    on_round: Callable[[Progress], None] | None = None,
    most: int | None = None,
    leave_out: Callable[[int], bool] | None = None,
    is_violation: Callable[[Bad], bool] | None = None,
    depth: int | None = None,
    until: float | None = None,
) -> bool:
    """Expands level after level. It ends if no state is new, at a violation, if memory is
    exhausted, after `depth` steps, or at the time `until` of time.monotonic.

    `leave_out` gets the flags of all violations so far. It stops their checks in the carrier, and
    returns whether no other checks are left. With it the search continues after a violation, except
    for a step that leaves a range.

    The last inserted level must not be expanded yet. The result is in the carrier's `found`; counts
    are those of whole levels. Ctrl-C ends the search as a limit does. Returns False if a level has
    over `most` states: it is not expanded, and the search may continue with another carrier. A
    violation ends the search if `is_violation` accepts it.
    """
    try:
        return _levels(carrier, on_level, on_round, most, leave_out, is_violation, depth, until)
    except KeyboardInterrupt:
        carrier.found.stopped = INTERRUPTED
        return True
    except _TimeIsUpError:
        carrier.found.stopped = TIME
        return True


class _TimeIsUpError(Exception):
    """The time limit of a search is reached."""


def _limit(carrier: Carrier) -> int:
    """The memory limit of a search in bytes; 0 if further states go on disk or to Spark."""
    if isinstance(carrier, Explorer) and carrier.disk is None:
        return carrier.memory_limit
    return 0


def _levels(
    carrier: Carrier,
    on_level: Callable[[Progress], None] | None,
    on_round: Callable[[Progress], None] | None,
    most: int | None,
    leave_out: Callable[[int], bool] | None,
    is_violation: Callable[[Bad], bool] | None,
    depth: int | None,
    until: float | None,
) -> bool:
    found = carrier.found
    limit = _limit(carrier)
    before = compiling_seconds()
    begun = time.perf_counter() - found.seconds

    def seconds() -> float:
        found.compiling = compiling_seconds() - before
        return time.perf_counter() - begun - found.compiling

    while True:
        frontier = carrier.frontier
        if not frontier:
            return True
        found.states = carrier.count
        found.depth = carrier.depth

        def progress(done: int = 0, frontier: int = frontier) -> Progress:
            steps = found.transitions + carrier.steps_so_far
            memory, left = carrier.memory, frontier - done
            return Progress(carrier.count, steps, found.depth, left, seconds(), memory, limit=limit)

        if on_level is not None:
            on_level(progress())
        if most is not None and frontier > most:
            return False
        if depth is not None and found.depth > depth + 1:
            found.stopped = DEPTH
            return True

        def tell(done: int, progress: Callable[[int], Progress] = progress) -> None:
            if until is not None and time.monotonic() > until:
                found.seconds, found.memory = seconds(), carrier.memory
                raise _TimeIsUpError
            if on_round is not None:
                on_round(progress(done))

        bad, whole = carrier.expand_level(tell)
        found.seconds = seconds()
        found.memory = carrier.memory
        bad = bad if is_violation is None else [*filter(is_violation, bad)]
        found.note(bad, found.depth - 1)
        if bad and (leave_out is None or RANGE in found.wrong):
            return True
        if bad and leave_out is not None and leave_out(sum(found.wrong)):
            return True
        if not whole:
            found.stopped = found.stopped or MEMORY
            return True
        found.count(carrier.taken, found.depth)
        carrier.begin_level()


def why_stopped(carrier: Carrier) -> str:
    """The sentence about the limit that ended a search early."""
    found = carrier.found
    if found.stopped == DEPTH:
        return f"runs of more than {found.depth - 2} steps weren't searched (--depth)"
    interrupted = found.stopped == INTERRUPTED
    what = "it was interrupted" if interrupted else f"the {found.stopped} limit was reached"
    more = ""
    if found.stopped == PLACES:
        what, more = "the visited set has no more places", f": {NO_PLACES}"
    if isinstance(carrier, Explorer):
        if found.stopped == DISK and carrier.disk is not None:
            what = f"no disk space left in {carrier.disk.refused} ({carrier.disk.why})"
        if found.stopped == MEMORY and not carrier.room:
            base = carrier.base / 2**20
            more = f": it is below the {base:,.0f} MiB that the process takes without any state"
    return f"{what} after level {max(0, found.depth - 1)}{more}"


def spilled(carrier: Carrier) -> Iterator[str]:
    """The sentence about states on disk, if memory was short."""
    if isinstance(carrier, Explorer) and carrier.disk is not None and carrier.spilled is not None:
        size = carrier.disk.taken / 2**20
        yield (
            f"memory was short at level {carrier.spilled}: from there on states were kept in "
            f"{carrier.disk.folder_of('states')}, {size:,.0f} MiB"
        )
