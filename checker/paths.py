"""The shortest and the longest path between two conditions, over all runs of a system."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..language import DeclarationError, Expression, Instance, leads_to
from ..language.instances.instance import ending_anywhere
from ..language.instances.instantiation import with_constants
from ..model.engine.interpreter import Interpreter
from .check import explorer_of, insert_initials
from .ground import Aim
from .liveness import LivenessSearch
from .native.search.components import BEGINS, WITHIN
from .native.search.explore import search, why_stopped
from .native.search.transitions import BLOCK_BITS
from .prepare import Options, Prepared, prepare
from .trace.lasso import Lasso, followed
from .trace.trace import ReplayError, Trace, shown_trace

NAME = "Path"
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Path:
    """A run in which `begin` holds after `first` steps, and `end` for the first time after `length`
    more steps. With a `loop`, the steps from number `loop` on may repeat any number of times before
    the run leads to `end`: there is no longest path.
    """

    trace: Trace
    first: int
    loop: int | None = None

    @property
    def length(self) -> int:
        """The number of steps from `begin` on; with a loop, up to the end of the loop."""
        return len(self.trace.steps) - self.first


@dataclass(frozen=True)
class Paths:
    """The paths from a state in which `begin` has become true, and `end` is false, to the first
    state in which `end` holds. `shortest` is None if there is no path, `longest` also if there is a
    `cycle`. `lost` is the number of states after `begin` without a path to `end`.
    """

    shortest: Path | None = None
    longest: Path | None = None
    cycle: Path | None = None
    lost: int = 0


def paths_between(
    instance: Instance,
    begin: Expression,
    end: Expression,
    options: Options | None = None,
    *,
    each: tuple[Expression, ...] = (),
) -> Paths:
    """Searches all states, without symmetry, and looks for paths between two conditions.

    `each` are variables of the conditions, such as a client: a path has one value of each.
    Properties and deadlocks aren't checked. Only the options for threads, memory and slicing apply.
    Raises DeclarationError for invalid conditions, or if the search ends early; MemoryError if the
    steps exceed the memory limit; ReplayError if native code and the executable model differ.
    """
    options = options or Options()
    wanted = leads_to(NAME, begin, end, "The path comes to its end.", each=each)
    system = replace(instance.system, progress=(wanted,), fairness=(), rankings=())
    narrowed = with_constants(
        replace(instance, system=system, properties=(), progress=(wanted,)), {}
    )
    prepared = prepare(ending_anywhere(narrowed), slicing=options.slicing)
    with closing(explorer_of(prepared, options)) as explorer:
        insert_initials(prepared, explorer)
        search(explorer)
        if explorer.found.stopped or explorer.found.wrong:
            why = why_stopped(explorer) if explorer.found.stopped else "a value leaves its range"
            raise DeclarationError(f"not all states were found: {why}")
        graph = _Graph(LivenessSearch(prepared, explorer))
        every = [graph.paths(aim) for aim in prepared.grounded.aims]
    return Paths(
        min((p.shortest for p in every if p.shortest), key=_length, default=None),
        None
        if any(p.cycle for p in every)
        else max((p.longest for p in every if p.longest), key=_length, default=None),
        min((p.cycle for p in every if p.cycle), key=_length, default=None),
        sum(p.lost for p in every),
    )


def _length(path: Path) -> int:
    return path.length


class _Graph:
    """The steps between all states, by the states' numbers."""

    def __init__(self, found: LivenessSearch) -> None:
        self.found = found
        self.prepared: Prepared = found.prepared
        bases, offsets, targets, _ = found.steps.arrays
        states = np.arange(found.steps.states)
        blocks = states >> BLOCK_BITS
        self.first = bases[blocks] + offsets[states + blocks]
        self.end = bases[blocks] + offsets[states + blocks + 1]
        self.targets = targets

    def steps(self, states: Any) -> tuple[Any, Any]:
        """The steps from `states`, as arrays of sources and targets."""
        first, end = self.first[states], self.end[states]
        return np.repeat(states, end - first), self.targets[_ranges(first, end)].astype(int)

    def tree(self, roots: Any, inside: Any = None) -> Any:
        """The parent of each state in a breadth-first tree through states `inside`. A root is its
        own parent; -1 is for unreached states.
        """
        parents = np.full(len(self.first), -1, dtype=np.int64)
        parents[roots] = roots
        while len(roots):
            sources, targets = self.steps(roots)
            new = parents[targets] < 0
            if inside is not None:
                new &= inside[targets]
            sources, targets = sources[new], targets[new]
            parents[targets] = sources
            roots = np.unique(targets)
        return parents

    def paths(self, aim: Aim) -> Paths:
        """The paths from the premise of an aim to its goal."""
        flags = self.found.marked(aim)
        open_ = (flags & WITHIN) != 0
        begins = self._begins((flags & BEGINS) != 0)
        after = self.tree(begins, open_) >= 0  # states between `begin` and `end`
        sources, targets = self.steps(np.flatnonzero(after))
        distance = _distances(sources, targets, ~open_)
        lost = int((after & (distance == _NEVER)).sum())
        begins = begins[distance[begins] < _NEVER]
        if not len(begins):
            return Paths(lost=lost)
        initials = self.found.steps.initials().astype(int)
        stems = self.tree(initials)

        def path(ranks: Any, start: int) -> Path:
            """The path along which a rank falls by one with each step."""
            stem = _way(stems, start)
            states = list(stem)
            while open_[states[-1]]:
                following = self.steps(np.array(states[-1:]))[1]
                states.append(int(following[ranks[following] == ranks[states[-1]] - 1][0]))
            return self._path(states, len(stem) - 1, aim)

        shortest = path(distance, int(begins[np.argmin(distance[begins])]))
        useful = distance < _NEVER
        kept = useful[sources] & useful[targets]
        lengths = _longest(sources[kept], targets[kept], useful)
        if (endless := useful & (lengths < 0)).any():
            return Paths(
                shortest, None, self._cycle(begins, open_ & useful, endless, stems, aim), lost
            )
        longest = path(lengths, int(begins[np.argmax(lengths[begins])]))
        return Paths(shortest, longest, None, lost)

    def _begins(self, flags: Any) -> Any:
        """The states with a flag that are initial, or have a predecessor without the flag."""
        _, entered = self.steps(np.flatnonzero(~flags))
        states = np.union1d(entered, self.found.steps.initials())
        return states[flags[states]]

    def _cycle(self, begins: Any, inside: Any, endless: Any, stems: Any, aim: Aim) -> Path:
        """A path from `begin` to a cycle among `endless` states, and once around the cycle."""
        parents = self.tree(begins, inside)
        at = int(np.flatnonzero(endless)[0])
        seen = set[int]()
        while at not in seen:  # each has an endless successor
            seen.add(at)
            following = self.steps(np.array([at]))[1]
            at = int(following[endless[following]][0])
        _, around = self.steps(np.array([at]))
        around = around[inside[around]]
        last = self._nearest(around, at, inside)
        way = _way(parents, at)
        stem = _way(stems, way[0])
        states = [*stem, *way[1:], *last]
        loop = len(stem) + len(way) - 2
        return self._path(states, len(stem) - 1, aim, loop)

    def _nearest(self, roots: Any, goal: int, inside: Any) -> list[int]:
        """A shortest path from one of the roots to the goal."""
        return [goal] if goal in roots else _way(self.tree(np.unique(roots), inside), goal)

    def _path(self, states: list[int], first: int, aim: Aim, loop: int | None = None) -> Path:
        """The run through these states, as a trace of the executable model."""
        instance, steps = self.prepared.instance, self.found.steps
        packed = [steps.packed(state) for state in states]
        last = len(states) - 1 if loop is None else loop
        labels = [self.found.label(None, one, two) for one, two in pairwise(states)]
        machine = Interpreter(instance)
        shown, taken = followed(machine, Lasso(packed, labels, last), self.prepared.pack)
        met = [machine.holds(aim.of.expression, state, bound=aim.bound) for state in shown[first:]]
        if any(met[:-1]) or met[-1] == (loop is not None):
            raise ReplayError("a path doesn't end where an engine says that it ends")
        if not machine.holds(aim.of.premise, shown[first], bound=aim.bound):
            raise ReplayError("a path begins where an engine says it doesn't")
        trace = replace(shown_trace(instance, shown, taken, ""), loop=loop)
        return Path(trace, first, loop)


def _way(parents: Any, state: int) -> list[int]:
    """The states from a root to `state`."""
    found = [state]
    while parents[found[-1]] != found[-1]:
        found.append(int(parents[found[-1]]))
    return found[::-1]


def _backward(sources: Any, targets: Any, count: int) -> tuple[Any, Any]:
    """The sources sorted by target, and the start of each target's sources."""
    order = np.argsort(targets, kind="stable")
    return sources[order], np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=count))])


def _distances(sources: Any, targets: Any, goals: Any) -> Any:
    """The number of steps from each state to the nearest goal; _NEVER if no goal is reachable."""
    found = np.where(goals, 0, _NEVER)
    by_target, starts = _backward(sources, targets, len(goals))
    states, at = np.flatnonzero(goals), 0
    while len(states):
        at += 1
        before = by_target[_ranges(starts[states], starts[states + 1])]
        states = np.unique(before[found[before] == _NEVER])
        found[states] = at
    return found


def _longest(sources: Any, targets: Any, useful: Any) -> Any:
    """The number of steps of the longest path from each state; -1 if it can reach a cycle."""
    left = np.bincount(sources, minlength=len(useful))
    found = np.full(len(useful), -1, dtype=np.int64)
    by_target, starts = _backward(sources, targets, len(useful))
    states, at = np.flatnonzero(useful & (left == 0)), 0
    while len(states):
        found[states] = at
        at += 1
        before = by_target[_ranges(starts[states], starts[states + 1])]
        some, counts = np.unique(before, return_counts=True)
        left[some] -= counts
        states = some[left[some] == 0]
    return found


def _ranges(starts: Any, ends: Any) -> Any:
    """The numbers of all ranges, concatenated."""
    counts = ends - starts
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return np.arange(counts.sum()) - before + np.repeat(starts, counts)
