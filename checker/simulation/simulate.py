"""Random walks through a system, on all cores, if it has too many states for a search.

Walks are numbered and taken in rounds. Only earlier rounds guide the walks of a round, so a seed
gives the same walks for any number of threads.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, takewhile
from math import inf
from random import Random
from typing import Any, TypeAlias

import numpy as np

from ...language import DeclarationError, Instance, Int, Loss
from ...language.expressions import resolve
from ...language.instances.instance import ending_anywhere, ends_anywhere
from ...language.systems import BUDGET, events_of
from ...model.engine.interpreter import FullState
from ..check import explorer_of, identity, insert_initials, kind_in, set_shortest
from ..native.cache.object_code import BEST
from ..native.jit.functions import compiling_seconds
from ..native.jit.interrupts import unbroken
from ..native.jit.memory import Region
from ..native.search.explore import DEPTH, search
from ..native.search.worker import ALL
from ..native.store.store import SLACK
from ..native.walks.walks import (
    BEGUN,
    LENGTH,
    MOST_FAULTS,
    NEW,
    PRIORITY,
    RARE,
    SCHEDULED,
    SEEN_BITS,
    STEPS,
    UNIFORM,
    Guidance,
    Taken,
    Walker,
    mark,
)
from ..prepare import Options, Prepared, prepare
from ..verdict.result import Covered, PropertyVerdict, Verdict, described
from ..verdict.violation import set_violation
from .smaller import smaller

PART = 32  # walks of a part, at first
PARTS = 8  # least parts of a long round
MOST_WALKS, MOST_KEPT = 512, 1 << 23  # of a part: walks, and steps in its buffers
LENGTHS = 8  # steps of a NEW walk, relative to a usual one
PREFIXES, MOST_PREFIXES = 1 << 11, 1 << 17  # of a round, and in all
ROUND = 1 << 17  # about the steps of a long round
FASTER_FROM = 1 << 20  # least steps for which better code pays
HEAVIEST = 1 << 10  # weight of a row that was never taken
DEPTH_OF_WALKS = 1_000
SECONDS = 60.0
MOST_SEED = (1 << 63) - 1


@dataclass(frozen=True)
class Walks:
    """The options of random walks.

    Without a `seed` a random one is chosen; a seed may contain its declaration's digest, as that of
    a Simulation does. A walk ends after `depth` steps. All walks end after `steps` steps together,
    after `seconds`, or after `idle` steps without a new row; the default is SECONDS. Walks that are
    not `guided` choose each successor with the same probability. The explorer searches for a
    shorter counterexample for `shorter` seconds. With `strict`, the exit code without a violation
    is that of an inconclusive result.
    """

    seed: str | None = None
    depth: int = DEPTH_OF_WALKS
    steps: int | None = None
    seconds: float | None = None
    idle: int | None = None
    guided: bool = True
    threads: int = 1
    memory: int | None = None
    slicing: bool = True
    deadlock: bool = True
    shorter: float = 10.0
    strict: bool = False

    @property
    def until(self) -> float:
        """The seconds after which no walk begins."""
        ends = self.seconds is not None or self.steps is not None or self.idle is not None
        return SECONDS if not ends else inf if self.seconds is None else self.seconds


@dataclass(frozen=True)
class Walked:
    """Progress: the walks and steps so far, and the number of taken rows."""

    walks: int
    steps: int
    rows: int
    seconds: float


@dataclass(kw_only=True)
class Simulation(Covered):
    """The result of random walks. Its verdict is never HOLDS.

    `seed` repeats the walks. `rows` has the count of each row; `curve` has pairs of steps and taken
    rows. `found_in` is the number of the walk with the counterexample, and `found_after` its steps
    before it was shrunk. The counterexample is a run of the instance `within`, whose constants may
    be smaller; `is_shortest`: no run of that instance is shorter. For several seeds, `seeds` has
    the `first` one, the number that was `asked` for, and the number that was `walked`.
    """

    seed: str
    walks: int = 0
    steps: int = 0
    curve: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    found_in: int | None = None
    found_after: int | None = None
    within: Instance | None = None
    is_shortest: bool = False
    strict: bool = False
    seeds: dict[str, int] | None = None

    @property
    def exit_code(self) -> int:
        """The process's exit code: 0 if walks found nothing and the options aren't strict."""
        nothing = self.verdict is Verdict.INCONCLUSIVE and self.steps > 0
        return 0 if nothing and not self.strict else super().exit_code

    @property
    def smaller(self) -> dict[str, int]:
        """The constants that are smaller in the counterexample than in the walks."""
        chosen = {} if self.within is None else self.within.chosen
        return {name: value for name, value in chosen.items() if value < self.constants[name]}

    def as_json(self) -> dict[str, Any]:
        """The result for JSON."""
        return super().as_json() | {
            "seed": self.seed,
            "walks": self.walks,
            "steps": self.steps,
            "steps_per_second": round(self.steps / self.seconds) if self.seconds else 0,
            "rows": [{"name": name, "taken": taken} for name, taken in self.rows],
            "curve": [{"steps": steps, "rows": rows} for steps, rows in self.curve],
            "found_in_walk": self.found_in,
            "found_after_steps": self.found_after,
            "found_within": None if self.within is None else self.within.chosen,
            "is_shortest": self.is_shortest,
            "seeds": self.seeds,
        }


def simulate(
    instance: Instance,
    options: Walks | None = None,
    on_round: Callable[[Walked], None] | None = None,
) -> Simulation:
    """Walks until a violation, or up to a limit.

    Raises DeclarationError for a faulty declaration and for the seed of another declaration,
    ReplayError if native code and the executable model differ.
    """
    options = options or Walks()
    if not options.deadlock:
        instance = ending_anywhere(instance)
    prepared = prepare(instance, symmetry=False, slicing=options.slicing)
    number, seed = seed_of(prepared, options.seed)
    outcome = begun(instance, prepared, options, seed)
    try:
        with _Run(prepared, options, number) as run:
            found = run.walk(outcome, on_round)
            if found is not None:
                _set_counterexample(run, found, outcome)
    except KeyboardInterrupt:
        if outcome.trace is None:
            outcome.verdict = Verdict.INTERRUPTED
    if outcome.trace is None:
        outcome.reason = nothing_found(outcome)
    return outcome


def seed_of(prepared: Prepared, given: str | None) -> tuple[int, str]:
    """The number of a seed, and the seed with its declaration's digest. Raises DeclarationError."""
    settings = json.dumps(identity(prepared), sort_keys=True).encode()
    digest = hashlib.sha256(settings).hexdigest()[:8]
    number, _, of = (given or str(secrets.randbelow(10**6))).partition("-")
    is_short = len(number) <= len(str(MOST_SEED))  # int() accepts at most 4300 digits
    if not (is_short and number.isascii() and number.isdigit()) or int(number) > MOST_SEED:
        raise DeclarationError(
            f"seed {given}: it must be a whole number from 0 to {MOST_SEED}, as 17 or 17-{digest}"
        )
    if of not in ("", digest):
        raise DeclarationError(
            f"seed {given} is of another declaration, release or bounds, or of another version of "
            f"this program: {int(number)}-{digest} is the one here"
        )
    return int(number), f"{int(number)}-{digest}"


def begun(instance: Instance, prepared: Prepared, options: Walks, seed: str) -> Simulation:
    """The result before the first walk."""
    return Simulation(
        **described(instance),
        verdict=Verdict.INCONCLUSIVE,
        reason="",
        properties=[PropertyVerdict(p.name, "unknown") for p in instance.properties],
        depth=options.depth,
        seconds=0.0,
        deadlocks=instance.may_deadlock,
        ends_anywhere=not instance.may_deadlock and ends_anywhere(instance),
        left_out=list(prepared.left_out),
        engine={"name": "walks", "threads": options.threads, "guided": options.guided},
        seed=seed,
        rows=[(name, 0) for name in instance.row_names],
        strict=options.strict,
    )


def nothing_found(outcome: Simulation) -> str:
    """The sentence about walks without a violation."""
    taken, every = len(outcome.rows) - len(outcome.never_taken), len(outcome.rows)
    walks = f"{outcome.walks:,} walk{'s' * (outcome.walks != 1)}"
    if outcome.verdict is Verdict.INCONCLUSIVE and outcome.walks and not outcome.steps:
        return "nothing can happen: no row can be taken in an initial state"
    return f"nothing found in {outcome.steps:,} steps of {walks}; {taken} of {every} rows taken"


@dataclass(frozen=True)
class _Prefix:
    """A run that walks may begin with: an initial state or another prefix, and the place of each
    further state among its siblings.
    """

    before: _Prefix | int
    places: Any
    length: int
    last: int
    state: bytes

    def whole(self) -> tuple[int, list[Any]]:
        """The initial state, and the places of all steps in pieces."""
        pieces: list[Any] = []
        at: _Prefix | int = self
        while isinstance(at, _Prefix):
            pieces.insert(0, at.places)
            at = at.before
        return at, pieces


@dataclass(frozen=True)
class _Found:
    """A walk that ends in a violation: its number, its run, and the flags."""

    walk: int
    initial: int
    places: Any
    flags: int


Parts: TypeAlias = "dict[int, Taken]"


class _Run:
    """Takes walks in rounds. Threads share the parts of a round."""

    def __init__(self, prepared: Prepared, options: Walks, seed: int) -> None:
        self.prepared = prepared
        self.options = options
        self.seed = seed
        faults = np.array([*_faults(prepared)], dtype=np.uint8)
        of_rows = [name.partition("/")[0] for name in prepared.taken_names]
        number_of = {name: at for at, name in enumerate(dict.fromkeys(of_rows))}
        tables = np.array([number_of[name] for name in of_rows], dtype=np.int64)
        initials, self.stride = prepared.initials(), prepared.packing.stride
        given = (prepared.kernel, self.stride, initials, options.depth, faults, tables)
        self.most = max(1, min(MOST_WALKS, MOST_KEPT // max(1, options.depth)))
        self.walkers = [
            Walker(*given, _most_faults(prepared), self.most) for _ in range(options.threads)
        ]
        kinds = [UNIFORM]
        if options.guided:
            kinds += [RARE, SCHEDULED, PRIORITY, NEW]
        self.ways = np.array(kinds, dtype=np.int64)
        rows = len(prepared.labels)
        self.pairs = np.zeros((rows + 1, rows), dtype=np.int64)  # by the row before (last: none)
        self.weights = np.ones((rows + 2, rows), dtype=np.uint16)
        self.weights[: rows + 1] = HEAVIEST
        self.span = options.depth  # schedules draw from so many steps
        self.seen = Region((1 << SEEN_BITS) // 8 if options.guided else 0)
        self.known = 0
        self.left: list[_Prefix] = []
        self.prefixes: list[_Prefix] = []  # the prefixes of this round
        self.usual = [0, 0]  # number and steps of walks that aren't NEW
        self.drawn = Random(seed)
        self.several = PART
        self.pool = ThreadPoolExecutor(options.threads)
        self.until = inf

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()

    def walk(self, outcome: Simulation, on_round: Callable[[Walked], None] | None) -> _Found | None:
        """Walks until a violation, or up to a limit; writes the figures to `outcome`."""
        options = self.options
        begun, before = time.perf_counter(), compiling_seconds()
        self.until = begun + options.until
        rows, new_at, wanted = 0, 0, 1
        while True:
            found, is_whole = self._round(outcome, wanted)
            compiling = compiling_seconds() - before
            outcome.seconds = time.perf_counter() - begun - compiling
            self.until = begun + options.until + compiling
            taken = self.prepared.by_row(self.pairs.sum(axis=0).tolist())
            outcome.rows = list(zip(self.prepared.instance.row_names, taken, strict=True))
            reached = sum(map(bool, taken))
            if reached > rows or found is not None:
                outcome.curve.append((outcome.steps, reached))
                rows, new_at = reached, outcome.steps
            if on_round is not None:
                on_round(Walked(outcome.walks, outcome.steps, rows, outcome.seconds))
            if found is not None or not is_whole or not outcome.steps:
                break
            if options.steps is not None and outcome.steps >= options.steps:
                break
            if options.idle is not None and outcome.steps - new_at >= options.idle:
                break
            self._guide(outcome)
            wanted = self._parts(outcome, wanted)
        if outcome.curve and outcome.curve[-1][0] < outcome.steps:
            outcome.curve.append((outcome.steps, rows))
        return found

    def _parts(self, outcome: Simulation, before: int) -> int:
        """The number of parts of the next round: it has twice the steps, up to ROUND steps and the
        limit of steps. In long rounds a part has more walks.
        """
        usual = max(1, outcome.steps // outcome.walks)
        left = ROUND if self.options.steps is None else self.options.steps - outcome.steps
        left = min(2 * before * self.several * usual, ROUND, left)
        self.several = max(1, min(self.most, max(PART, left // (PARTS * usual))))
        return max(1, -(-left // (self.several * usual)))

    def _guide(self, outcome: Simulation) -> None:
        """Sets the weights of pairs of rows, larger for rare ones, and the steps that schedules
        draw from. Requests faster code if it pays.
        """
        most = int(self.pairs.max())
        weights = np.sqrt(most // (1 + self.pairs))
        self.weights[:-1] = np.clip(weights, 1, HEAVIEST)
        self.span = max(1, min(self.options.depth, self.usual[1] // self.usual[0]))
        if outcome.steps >= FASTER_FROM:
            self.prepared.kernel.improve(BEST, one_by_one=True)

    def guidance(self) -> Guidance:
        """The guidance of the walks of the next round."""
        states = b"".join(prefix.state for prefix in self.prefixes)
        region = Region(len(states) + SLACK)
        region.array[: len(states)] = np.frombuffer(states, dtype=np.uint8)
        return Guidance(
            self.ways,
            self.weights.reshape(-1),
            self.span,
            min(self.options.depth, LENGTHS * self.span),
            self.seen,
            region,
            np.array([prefix.length for prefix in self.prefixes], dtype=np.int64),
            np.array([prefix.last for prefix in self.prefixes], dtype=np.int64),
        )

    def _round(self, outcome: Simulation, wanted: int) -> tuple[_Found | None, bool]:
        """Takes `wanted` parts, and counts them in order, up to the first one with a violation or
        at the limit of steps. Returns the violation, and whether all parts were taken in time. If
        time ran out before a part, later parts count as well, because they may have a violation.
        """
        first, turns, by = outcome.walks, count(), self.guidance()
        parts: Parts = {}
        running: list[Future[None]] = []
        with unbroken():
            try:
                for walker in self.walkers:
                    running.append(
                        self.pool.submit(self._take, walker, first, turns, wanted, by, parts)
                    )
            finally:
                wait(running)
        for each in running:
            each.result()
        in_time, counted = True, list[tuple[Taken, Any]]()
        found = None
        for turn in range(wanted):
            part = parts.get(turn)
            if part is None:
                in_time = False
                continue
            outcome.walks += part.walks
            outcome.steps += len(part.rows)
            ways = self.ways[np.arange(outcome.walks - part.walks, outcome.walks) % len(self.ways)]
            counted.append((part, ways))
            usual = part.kept[ways != NEW, STEPS]
            self.usual = [self.usual[0] + len(usual), self.usual[1] + int(usual.sum())]
            np.add.at(self.pairs.reshape(-1), part.befores + part.rows, 1)
            if part.flags:
                found = self._found(first + turn * self.several, part)
                return found, True
            if self.options.steps is not None and outcome.steps >= self.options.steps:
                break
        if self.options.guided:
            self._remember(counted)
        return None, in_time

    def _take(
        self,
        walker: Walker,
        first: int,
        turns: Iterator[int],
        wanted: int,
        by: Guidance,
        parts: Parts,
    ) -> None:
        for turn in takewhile(wanted.__gt__, turns):
            late = time.perf_counter() > self.until and (turn or first)
            if late or any(p.flags for at, p in [*parts.items()] if at < turn):
                return
            parts[turn] = walker.take(self.seed, first + turn * self.several, self.several, by)

    def _found(self, first: int, part: Taken) -> _Found:
        """The last walk of a part, with its run."""
        last = part.walks - 1
        initial, pieces = self._from(int(part.kept[last, BEGUN]))
        pieces.append(part.places[len(part.places) - part.kept[last, LENGTH] :])
        return _Found(first + last, initial, np.concatenate(pieces), part.flags)

    def _from(self, begun: int) -> tuple[int, list[Any]]:
        return self.prefixes[begun].whole() if begun >= 0 else (-1 - begun, [])

    def _remember(self, parts: Sequence[tuple[Taken, Any]]) -> None:
        """Adds the states of a round to the table of seen states, and the picked ones to the list
        of prefixes. A prefix is dropped if a walk from it found no new state.
        """
        for part, _ in parts:
            self.known += mark(self.seen.address, part.hashes)
        if self.known > 1 << (SEEN_BITS - 1):  # half of the bits are set
            self.seen.forget(0, self.seen.size)
            self.known = 0
        used_up: set[int] = set()
        added: list[_Prefix] = []
        for part, ways in parts:
            end = 0
            lasts = part.lasts.tolist()
            kept: list[list[int]] = part.kept.tolist()
            for at, (_, length, fresh, begun, *picks) in enumerate(kept):
                start, end = end, end + length
                if begun >= 0 and not fresh and ways[at] == NEW:
                    used_up.add(begun)
                for pick, picked in enumerate(picks):
                    if not picked:
                        continue
                    before: _Prefix | int = self.prefixes[begun] if begun >= 0 else -1 - begun
                    length = picked + (before.length if isinstance(before, _Prefix) else 0)
                    places = part.places[start : start + picked].copy()
                    last = lasts[at][pick]
                    state = part.picked[at, pick].tobytes()
                    added.append(_Prefix(before, places, length, last, state))
        self.left += (prefix for at, prefix in enumerate(self.prefixes) if at not in used_up)
        self.left += added
        if len(self.left) > MOST_PREFIXES:
            self.left = self.drawn.sample(self.left, MOST_PREFIXES // 2)
        self.prefixes = [self._prefix() for _ in range(min(len(self.left), PREFIXES))]

    def _prefix(self) -> _Prefix:
        """Removes a prefix from the list: the shorter one of two random ones."""
        left, size = self.left, len(self.left)
        at, other = int(self.drawn.random() * size), int(self.drawn.random() * size)
        if left[other].length < left[at].length:
            at = other
        left[at], left[-1] = left[-1], left[at]
        return left.pop()


def _faults(prepared: Prepared) -> Iterator[int]:
    """For each of the kernel's rows, 1 if its event is a fault: an event with a budget, or the loss
    of a message.
    """
    system = prepared.instance.system
    budgeted = {event for events in system.budgets for event in events_of(events)}
    faults = {t.name for t in system.tables if t.on in budgeted or isinstance(t.on, Loss)}
    for name in prepared.taken_names:
        yield int(name.partition("/")[0] in faults)


def _most_faults(prepared: Prepared) -> int:
    """The most faults that a walk plans: those that all budgets allow together."""
    instance = prepared.instance
    budgets = (
        resolve(variable.type.high, instance.constants)
        for variable in instance.variables
        if variable.name.startswith(f"{BUDGET}.") and isinstance(variable.type, Int)
    )
    return min(MOST_FAULTS, max(1, sum(budgets)))


def _set_counterexample(run: _Run, found: _Found, outcome: Simulation) -> None:
    """Adds the counterexample to the outcome: shrunk, replayed by the executable model, or a
    shorter one by the explorer.
    """
    instance, options = run.prepared.instance, run.options
    _, of_kind = kind_in(instance, found.flags)
    states, rows = run.walkers[0].traced(found.initial, found.places)
    path, rows, flags = run.walkers[0].shrunk(states, rows, found.flags & of_kind)
    kind, of_kind = kind_in(instance, flags)
    set_violation(instance, kind, [{state} for state in path], run.prepared.pack, outcome)
    outcome.found_in, outcome.found_after = found.walk, len(found.places)
    outcome.within = instance
    outcome.is_shortest = len(path) == 1
    if outcome.is_shortest or not options.shorter:
        return
    names = [run.prepared.taken_names[row] for row in rows]
    declared = {item.name for item in instance.properties}
    broken = {item.name for item in outcome.properties if item.verdict == "broken"} & declared
    less = smaller(instance, names, kind, broken, time.perf_counter() + options.shorter)
    if less is not None:
        set_violation(less.instance, kind, less.levels, _itself, outcome)
        outcome.within = less.instance
    whole = prepare(outcome.within, slicing=options.slicing)
    explorer = explorer_of(whole, Options(options.threads, options.memory))
    try:
        explorer.leave_out(ALL & ~(flags & of_kind))
        insert_initials(whole, explorer)
        search(explorer, depth=len(path) - 2, until=time.monotonic() + options.shorter)
        if explorer.found.wrong:
            set_shortest(whole, explorer, outcome)
        outcome.is_shortest = bool(explorer.found.wrong) or explorer.found.stopped in ("", DEPTH)
    finally:
        explorer.close()


def _itself(state: FullState) -> FullState:
    return state
