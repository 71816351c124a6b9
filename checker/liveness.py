"""Checks progress properties on the steps between all found states."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

import numpy as np

from .ground import Aim
from .native.search import components as native
from .native.search.explore import Explorer
from .native.search.marker import AT_ONCE, kind_of_bits, marker
from .native.search.transitions import Transitions
from .native.search.vectors import formula, in_words
from .native.store.store import SHARDS
from .prepare import Prepared
from .trace.lasso import Fairnesses, Label, Lasso, Obligation, tell_dead_end, tell_lasso
from .trace.trace import Trace
from .verdict.result import LivenessCost, PropertyVerdict, Result, Verdict
from .verdict.vacuity import Vacuity, known_reasons

WORD = 64
PER_STATE = 16  # bytes a state for components, regions and order, without steps and iterators
ON_A_WAY = 16  # additional bytes a state for the search of a path


@dataclass(frozen=True)
class Broken:
    """A progress property with a run that breaks it: to a state from which no run reaches the goal,
    or a run that repeats for ever.
    """

    aim: Aim
    run: Lasso


def look_for_progress(
    prepared: Prepared,
    explorer: Explorer,
    result: Result,
    *,
    every: bool = False,
    brief: bool = False,
    until: float | None = None,
) -> None:
    """Adds the verdicts of the progress properties to the result of a complete search: up to the
    first broken one, or of `every` one. A broken one gets a counterexample unless `brief`. No work
    begins after the time `until`. Raises ReplayError if the executable model differs.
    """
    names = [item.name for item in prepared.instance.progress]
    verdicts = {name: PropertyVerdict(name, "unknown") for name in names}
    if until is not None and time.monotonic() > until:
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = "the time limit was reached after the last level, before progress"
        result.properties += verdicts.values()
        return
    try:
        progress = LivenessSearch(prepared, explorer)
        found: dict[str, Broken] = {}
        for item in progress.broken(found):
            found[item.aim.of.name] = item
            if not every:
                break
        result.progress = progress.cost
    except MemoryError as error:
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = f"the memory limit was reached after the last level: no memory for {error}"
    except KeyboardInterrupt:
        result.verdict = Verdict.INTERRUPTED
        result.reason = "it was interrupted after the last level, while looking for progress"
    else:
        if every or not found:
            verdicts = {name: PropertyVerdict(name, "holds") for name in names}
            result.vacuous += _unmet(prepared, progress)
        for name, item in found.items():
            if brief:
                verdicts[name] = PropertyVerdict(name, "broken", len(item.run.labels))
                continue
            trace = trace_of(prepared, item)
            kept = trace if every else None
            verdicts[name] = PropertyVerdict(name, "broken", len(trace.steps), trace=kept)
            if not every:
                result.trace, result.reason = trace, trace.conclusion
                result.verdict, result.vacuous = Verdict.LEADS_TO_BROKEN, []
    result.properties += verdicts.values()


def trace_of(prepared: Prepared, found: Broken) -> Trace:
    """The counterexample as a trace of the executable model. Raises ReplayError."""
    tell = tell_lasso if found.aim.of.kind == "leads to" else tell_dead_end
    return tell(prepared.instance, found.aim, found.run, prepared.pack)


def _unmet(prepared: Prepared, progress: LivenessSearch) -> Iterator[Vacuity]:
    """The vacuities: properties whose premise is never true, and properties whose goal always
    holds.
    """
    known = known_reasons(prepared.instance)
    for name in progress.unmet:
        what = "holds vacuously: its premise is never true"
        yield Vacuity("premise", name, what, (), known.get(name, ""), whole=True)
    for item in prepared.instance.progress:
        if item.name in progress.met - progress.required:
            where = "in every state"
            if item.kind == "leads to":
                where += " where its premise holds"
            what = f"requires nothing: its goal holds {where}"
            yield Vacuity("premise", item.name, what, (), known.get(item.name, ""))


class LivenessSearch:
    """Checks progress properties on the states of an explorer.

    All aims are checked together, by the components of the steps; then each broken one separately,
    for its run. `unmet` are the properties whose premise no state satisfies, `required` those with
    a state that satisfies their premise but not their goal. Raises MemoryError if the explorer's
    limit is exceeded.
    """

    def __init__(self, prepared: Prepared, explorer: Explorer) -> None:
        self.begun = time.perf_counter()
        self.prepared = prepared
        self.explorer = explorer
        self.fair = _fair(prepared)
        self.steps = Transitions(explorer, self.fair.kind_of)
        self.most = self.held = self.steps.bytes
        states = self.steps.states
        step = np.dtype(np.uint16 if prepared.kernel.most_successors < 1 << 15 else np.uint32)
        self._take((PER_STATE + step.itemsize) * states)
        self.region = np.zeros(states, dtype=np.uint32)
        self.rindex = np.zeros(states, dtype=np.uint32)
        self.stack = np.zeros(states + 1, dtype=np.uint32)
        self.iterators = np.zeros(states + 1, dtype=step)
        self.order = np.zeros(states, dtype=np.uint32)
        self.room = np.zeros((5, self.fair.masks.shape[1]), dtype=np.uint64)
        self.none = self.order[:0]
        self.met: set[str] = set()
        self.required: set[str] = set()

    def _take(self, size: int) -> None:
        if not self.explorer.may_take(self.held + size):
            raise MemoryError(f"{size:,} bytes to check progress")
        self.held += size
        self.most = max(self.most, self.held)

    @property
    def cost(self) -> LivenessCost:
        """The cost so far."""
        return LivenessCost(time.perf_counter() - self.begun, self.steps.count, self.most)

    @property
    def unmet(self) -> list[str]:
        """The properties whose premise no state satisfies."""
        names = dict.fromkeys(aim.of.name for aim in self.prepared.grounded.aims)
        return [name for name in names if name not in self.met]

    def broken(self, known: Container[str] = ()) -> Iterator[Broken]:
        """The aims that don't hold, each with a run that breaks it, except aims of `known`
        properties.
        """
        aims = [aim for aim in self.prepared.grounded.aims if aim.of.name not in known]
        leads_to = [aim for aim in aims if aim.of.kind == "leads to"]
        found = set[str]()
        for first in range(0, len(leads_to), AT_ONCE):
            found |= self._together(leads_to[first : first + AT_ONCE])
        if not leads_to:
            self._put_in_order()
        for aim in aims:
            if aim.of.name in known or (aim.of.kind == "leads to" and aim.name not in found):
                continue
            run = self._always_possible(aim) if aim.of.kind != "leads to" else self._leads_to(aim)
            if run is not None:
                yield Broken(aim, run)
            elif aim.name in found:
                raise RuntimeError(f"{aim.name} is broken among other aims, and holds alone")

    def _put_in_order(self) -> None:
        """Writes the states by their components to `order`, and the numbers of components to
        `rindex`.
        """
        self.region[:] = 1
        self._components(new=2, order=self.order)

    def _components(self, new: int, order: Any) -> tuple[int, int, int]:
        bases, offsets, targets, kinds = self.steps.arrays
        fair = self.fair
        return native.components(
            bases, offsets, targets, kinds, fair.masks, fair.weak, fair.strong, self.region,
            self.rindex, self.stack, self.iterators, self.none, self.room, new, order,
        )  # fmt: skip

    def _together(self, aims: Sequence[Aim]) -> set[str]:
        """The names of the properties that a fair run breaks."""
        self._put_in_order()
        kind, held = kind_of_bits(len(aims)), self.held
        self._take(2 * kind.itemsize * self.steps.states)
        begins, within = np.zeros((2, self.steps.states), dtype=kind)
        self._mark(aims, begins, within)
        bases, offsets, targets, kinds = self.steps.arrays
        fair = self.fair
        native.reach_all(bases, offsets, targets, self.order, self.rindex, within, begins)
        bits = native.broken_aims(
            bases, offsets, targets, kinds, fair.masks, fair.weak, fair.strong, self.region,
            self.rindex, self.stack, self.iterators, self.order, begins, self.room,
        )  # fmt: skip
        self.held = held
        return {aim.name for at, aim in enumerate(aims) if int(bits) >> at & 1}

    def _mark(self, aims: Sequence[Aim], begins: Any, within: Any) -> None:
        """Marks each state for the aims, a bit for each, on all threads."""
        packing, store, starts = self.prepared.packing, self.explorer.store, self.steps.starts
        pairs = [(formula(aim.premise, packing), formula(aim.goal, packing)) for aim in aims]
        mark = marker(pairs, packing, self.steps.states)
        turns = count()

        def part() -> tuple[int, int]:
            met = required = 0
            for shard in takewhile(SHARDS.__gt__, turns):
                at = int(starts[shard])
                for rows in store.rows(shard):
                    end = at + len(rows)
                    met |= mark(in_words(rows, packing), begins[at:end], within[at:end])
                    required |= int(np.bitwise_or.reduce(begins[at:end]))
                    at = end
            return met, required

        for met, required in self.explorer.each(part, [()] * self.explorer.threads):
            self.met |= {aim.of.name for at, aim in enumerate(aims) if met >> at & 1}
            self.required |= {aim.of.name for at, aim in enumerate(aims) if required >> at & 1}

    # One aim --------------------------------------------------------------------------------

    def marked(self, aim: Aim) -> Any:
        """Marks each state without the goal as WITHIN, and as BEGINS where the premise holds."""
        held, states = self.held, self.steps.states
        self._take(2 * states)
        self.flags, within = np.zeros((2, states), dtype=np.uint8)
        self._mark([aim], self.flags, within)
        self.flags |= within << 1
        self.held = held + states
        return self.flags

    def _leads_to(self, aim: Aim) -> Lasso | None:
        held = self.held
        self.marked(aim)
        bases, offsets, targets, kinds = self.steps.arrays
        self.region[:] = 0
        native.reach(bases, offsets, targets, self.flags, self.region, self.stack)
        wanted = native.idle(bases, offsets, kinds, self.flags, self.region, self.fair.masks)
        new, open_ = 2, 1
        while open_:
            fair, open_, new = self._components(new, self.none)
            wanted += fair
        self.flags[self.region >= native.FAIR] |= native.WANTED
        run = self._lasso() if wanted else None
        self.held = held
        return run

    def _always_possible(self, aim: Aim) -> Lasso | None:
        held = self.held
        self.marked(aim)
        self.met.add(aim.of.name)
        bases, offsets, targets, _ = self.steps.arrays
        self.flags[:] = native.WITHIN * ((self.flags & native.WITHIN) == 0)
        native.come(bases, offsets, targets, self.order, self.flags)
        never = (self.flags & native.WITHIN) == 0
        self.flags[:] = native.BEGINS | native.WITHIN
        self.flags[never] |= native.WANTED
        run = self._run(self._stem()) if never.any() else None
        self.held = held
        return run

    # Paths ----------------------------------------------------------------------------------

    def _stem(self) -> list[int]:
        """The states of a shortest path to a wanted state."""
        states = self.steps.states
        self._take(ON_A_WAY * states)
        parents = np.zeros(2 * states, dtype=np.uint32)
        queue = np.zeros(2 * states, dtype=np.uint32)
        bases, offsets, targets, _ = self.steps.arrays
        initials = self.steps.initials()
        at = native.stem(bases, offsets, targets, self.flags, initials, parents, queue)
        found = [int(at)]
        while int(parents[found[-1]]) != found[-1]:
            found.append(int(parents[found[-1]]))
        return [at % states for at in reversed(found)]

    def _lasso(self) -> Lasso:
        """The shortest stem to a broken aim, with the loop that repeats for ever."""
        stem = self._stem()
        start = stem[-1]
        if int(self.region[start]) < native.FAIR:  # a run may end there
            return self._run(stem)
        way = _Way(self, start)
        for obligation in range(len(self.fair.obligations)):
            way.satisfy(obligation)
        way.close()
        return self._run(stem + way.states[1:], len(stem) - 1, dict(enumerate(way.taken)))

    def _run(
        self, states: Sequence[int], loop: int | None = None, taken: dict[int, int] | None = None
    ) -> Lasso:
        loop = len(states) - 1 if loop is None else loop
        labels = [
            self.label((taken or {}).get(at - loop), state, states[at + 1])
            for at, state in enumerate(states[:-1])
        ]
        return Lasso([self.steps.packed(state) for state in states], labels, loop)

    def label(self, step: int | None, state: int, following: int) -> Label:
        """The label of a step, or of the first step that leads from one state to the other."""
        every = self.outgoing(state)
        if step is None:
            step = next(at for at in every if self.steps.targets[at] == following)
        label = self.steps.labels(state)[step - every.start]
        return self.prepared.labels[int(label)]

    def outgoing(self, state: int) -> range:
        """The steps from a state."""
        at = state + (state >> native.BLOCK_BITS)
        base = int(self.steps.bases[state >> native.BLOCK_BITS])
        return range(base + int(self.steps.offsets[at]), base + int(self.steps.offsets[at + 1]))


class _Way:
    """A path through a component in which a fair run can stay: its states and its steps."""

    def __init__(self, progress: LivenessSearch, start: int) -> None:
        self.progress = progress
        self.states = [start]
        self.taken: list[int] = []
        self.parents = progress.rindex  # reused: neither is needed any more
        self.queue = progress.stack

    def satisfy(self, obligation: int) -> None:
        """Extends the path until it satisfies a fairness obligation, if it doesn't yet."""
        word, bit = divmod(obligation, WORD)
        weak = bool(self.progress.fair.weak[word] >> np.uint64(bit) & np.uint64(1))
        if any(self._counts(step, word, bit) for step in self.taken):
            return
        if weak and not all(self._is_possible(state, word, bit) for state in self.states):
            return
        end, step = self._nearest(-1, word, bit, weak)
        if end < 0:  # strongly fair, and never possible here
            return
        self._go(end)
        if step >= 0:
            self._take(step)

    def close(self) -> None:
        """Extends the path to its first state, by at least one step."""
        start = self.states[0]
        if not self.taken:
            region = self.progress.region
            inside = (
                at
                for at in self.progress.outgoing(start)
                if region[self.progress.steps.targets[at]] == region[start]
            )
            self._take(next(inside))
        self._nearest(start, 0, 0, False)
        self._go(start)

    def _nearest(self, goal: int, word: int, bit: int, rests: bool) -> tuple[int, int]:
        bases, offsets, targets, kinds = self.progress.steps.arrays
        mask = np.uint64(1 << bit)
        state, step = native.nearest(
            bases, offsets, targets, kinds, self.progress.fair.masks, self.progress.region,
            self.states[-1], goal, word, mask, rests, self.parents, self.queue,
        )  # fmt: skip
        return int(state), int(step)

    def _go(self, end: int) -> None:
        """Extends the path to the state `end` that `_nearest` found."""
        back = [end]
        while back[-1] != self.states[-1]:
            back.append(int(self.parents[back[-1]]))
        for following in reversed(back[:-1]):
            steps = self.progress.outgoing(self.states[-1])
            targets = self.progress.steps.targets
            self._take(next(at for at in steps if targets[at] == following))

    def _take(self, step: int) -> None:
        self.taken.append(step)
        self.states.append(int(self.progress.steps.targets[step]))

    def _counts(self, step: int, word: int, bit: int) -> bool:
        mask = self.progress.fair.masks[self.progress.steps.kinds[step], word]
        return bool(mask >> np.uint64(bit) & np.uint64(1))

    def _is_possible(self, state: int, word: int, bit: int) -> bool:
        return any(self._counts(step, word, bit) for step in self.progress.outgoing(state))


@dataclass(frozen=True)
class _Fair:
    """The fairness obligations that steps satisfy. `kind_of` has the kind of each label. `masks`
    has the bits of the `obligations` that a step of each kind satisfies, in words. `weak` and
    `strong` have the bits of weak and strong obligations.
    """

    kind_of: Any
    masks: Any
    weak: Any
    strong: Any
    obligations: list[Obligation]


def _fair(prepared: Prepared) -> _Fair:
    fairnesses = Fairnesses(prepared.instance)
    every = [fairnesses.of(label) for label in prepared.labels]
    obligations = sorted(
        {x for some in every for x in some},
        key=lambda x: (x[0], tuple(number for _, number in x[1])),
    )
    place = {obligation: at for at, obligation in enumerate(obligations)}
    words = max(1, -(-len(obligations) // WORD))
    masks = np.zeros((len(every), words), dtype=np.uint64)
    fair = {kind: np.zeros(words, dtype=np.uint64) for kind in ("weak", "strong")}
    for label, some in enumerate(every):
        for obligation in some:
            word, bit = divmod(place[obligation], WORD)
            masks[label, word] |= np.uint64(1 << bit)
            fair[fairnesses.every[obligation[0]].kind][word] |= np.uint64(1 << bit)
    masks, kind_of = np.unique(masks, axis=0, return_inverse=True)
    small = kind_of.reshape(-1).astype(np.min_scalar_type(len(masks) - 1))
    return _Fair(small, masks, fair["weak"], fair["strong"], obligations)
