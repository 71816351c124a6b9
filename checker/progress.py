"""Whether what must come to happen does, on the steps between all states that a search found."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress, count, islice, starmap, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from .ground import Aim
from .lasso import Fairnesses, Label, Lasso, Obligation, tell_dead_end, tell_lasso
from .native import components as native
from .native.coverage import INTERPRETED
from .native.marker import BEGINS, WITHIN, Mark, compiled, interpreted
from .native.store import SHARDS
from .native.transitions import Transitions
from .native.vectors import formula, in_words
from .trace import Trace
from .vacuity import Vacuity, declared_unreached
from .verdict import PropertyVerdict, Result, Verdict

if TYPE_CHECKING:
    from .check import Prepared
    from .native.explore import Explorer

WORD = 64
PER_STATE = 13  # bytes of a look, and what an iterator takes: components, regions and marks
ON_A_WAY = 16  # bytes a state more where a way is looked for


@dataclass(frozen=True)
class Effort:
    """What looking for progress took: seconds, steps between states, and the most bytes at once."""

    seconds: float
    transitions: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        """The effort as plain data."""
        return {
            "seconds": round(self.seconds, 3), "transitions": self.transitions,
            "bytes": self.bytes,
        }  # fmt: skip


@dataclass(frozen=True)
class Broken:
    """A property of progress, and a run that shows that it doesn't hold: to a state from which no
    run comes to what it must, or one that repeats for ever."""

    aim: Aim
    run: Lasso


def look_for_progress(
    prepared: Prepared,
    explorer: Explorer,
    result: Result,
    *,
    every: bool = False,
    brief: bool = False,
) -> None:
    """Puts into the result of a search that saw all states what becomes of the properties of
    progress, up to the first that is broken, or of `every` one, with a run that shows it unless it
    is `brief`. Raises Disagreement where the executable model differs."""
    names = [item.name for item in prepared.instance.progress]
    told = {name: PropertyVerdict(name, "unknown") for name in names}
    try:
        progress = Progress(prepared, explorer)
        found: dict[str, Broken] = {}
        for item in progress.broken(found):
            found[item.aim.of.name] = item
            if not every:
                break
        result.progress = progress.effort
    except MemoryError as error:
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = f"the memory limit was met after the last level: no room for {error}"
    except KeyboardInterrupt:
        result.verdict = Verdict.INTERRUPTED
        result.reason = "it was interrupted after the last level, while looking for progress"
    else:
        if every or not found:
            told = {name: PropertyVerdict(name, "holds") for name in names}
            result.vacuous += _unmet(prepared, progress)
        for name, item in found.items():
            if brief:
                told[name] = PropertyVerdict(name, "broken", len(item.run.labels))
                continue
            trace = trace_of(prepared, item)
            kept = trace if every else None
            told[name] = PropertyVerdict(name, "broken", len(trace.steps), trace=kept)
            if not every:
                result.trace, result.reason = trace, f"{item.aim.name} is broken."
                result.verdict, result.vacuous = Verdict.LEADS_TO_BROKEN, []
    result.properties += told.values()


def trace_of(prepared: Prepared, found: Broken) -> Trace:
    """The run that shows it, on the executable model. Raises Disagreement."""
    tell = tell_lasso if found.aim.of.kind == "leads to" else tell_dead_end
    return tell(prepared.instance, found.aim, found.run, prepared.pack)


def _unmet(prepared: Prepared, progress: Progress) -> Iterator[Vacuity]:
    """The properties that hold for want of their premise."""
    declared = declared_unreached(prepared.instance)
    for name in progress.unmet:
        what = "holds for want of its premise, which is never true"
        yield Vacuity("premise", name, what, (), declared.get(name, ""))


class Progress:
    """What must come to happen, asked of the states that an explorer has found.

    Each thread looks at another aim, where there is room for that. `unmet` are the properties of
    which no state meets the premise. Raises MemoryError where the explorer's limit leaves no room.
    """

    def __init__(self, prepared: Prepared, explorer: Explorer) -> None:
        self.begun = time.perf_counter()
        self.prepared = prepared
        self.explorer = explorer
        self.fair = _fair(prepared)
        self.steps = Transitions(explorer, self.fair.kind_of)
        self.most = self.steps.bytes
        self.looks = [_Look(self)]
        with suppress(MemoryError):
            while len(self.looks) < explorer.threads:
                self.looks.append(_Look(self))
        self.met: set[str] = set()

    def take(self, size: int) -> None:
        """Counts so many bytes more. Raises MemoryError where there is no room for them."""
        if not self.explorer.may_take(self.most + size):
            raise MemoryError(f"{size:,} bytes for what states belong to")
        self.most += size

    @property
    def effort(self) -> Effort:
        """What it took so far."""
        return Effort(time.perf_counter() - self.begun, self.steps.count, self.most)

    @property
    def unmet(self) -> list[str]:
        """The properties that are about no state."""
        names = dict.fromkeys(aim.of.name for aim in self.prepared.grounded.aims)
        return [name for name in names if name not in self.met]

    def broken(self, known: Container[str] = ()) -> Iterator[Broken]:
        """The aims that don't hold, each with a run that shows it; properties that are `known` by
        then are left out."""
        packing, aims = self.prepared.packing, self.prepared.grounded.aims
        pairs = [(formula(aim.premise, packing), formula(aim.goal, packing)) for aim in aims]
        few = self.steps.states < INTERPRETED
        marks = starmap(interpreted, pairs) if few else compiled(pairs, packing)
        every = zip(aims, marks, strict=True)
        todo = ((aim, mark) for aim, mark in every if aim.of.name not in known)
        while some := list(islice(todo, len(self.looks))):
            looks = [look.at(*one) for look, one in zip(self.looks, some, strict=False)]
            self._mark(looks)
            answers = self.explorer.each(_Look.breaks, [(look,) for look in looks])
            for look in compress(looks, answers):
                if look.aim.of.name not in known:
                    yield Broken(look.aim, look.run())

    def _mark(self, looks: Sequence[_Look]) -> None:
        """Marks the states for the aims that are looked at."""
        store, starts = self.explorer.store, self.steps.starts
        turns = count()

        def mark() -> None:
            for shard in takewhile(SHARDS.__gt__, turns):
                at = int(starts[shard])
                for rows in store.rows(shard):
                    words = in_words(rows, self.prepared.packing)
                    end = at + len(words)
                    for look in looks:
                        if look.mark(words, look.flags[at:end]):
                            self.met.add(look.aim.of.name)
                    at = end

        self.explorer.each(mark, [()] * self.explorer.threads)


class _Look:
    """A look at one aim after the other: what each state is to it, and the run that breaks it."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.steps, self.fair = progress.steps, progress.fair
        states = self.steps.states
        most = progress.prepared.kernel.most_successors
        step = np.dtype(np.uint16 if most < 1 << 15 else np.uint32)
        progress.take((PER_STATE + step.itemsize) * states)
        self.aim: Aim
        self.mark: Mark
        self.region = np.zeros(states, dtype=np.uint32)
        self.rindex = np.zeros(states, dtype=np.uint32)
        self.stack = np.zeros(states + 1, dtype=np.uint32)
        self.iterators = np.zeros(states + 1, dtype=step)
        self.flags = np.zeros(states, dtype=np.uint8)

    def at(self, aim: Aim, mark: Mark) -> _Look:
        """The look, at this aim from now on."""
        self.aim, self.mark = aim, mark
        return self

    def breaks(self) -> bool:
        """Whether a run breaks the aim, once the states are marked. `run` tells it then."""
        return self._leads_to() if self.aim.of.kind == "leads to" else self._always_possible()

    def _leads_to(self) -> bool:
        bases, offsets, targets, kinds = self.steps.arrays
        fair = self.fair
        self.region[:] = 0
        if not native.reach(bases, offsets, targets, self.flags, self.region, self.stack):
            return False
        wanted = native.idle(bases, offsets, kinds, self.flags, self.region, fair.masks)
        new, open_ = 2, 1
        while open_:
            found, open_, new = native.components(
                bases, offsets, targets, kinds, fair.masks, fair.weak, fair.strong, self.region,
                self.rindex, self.stack, self.iterators, self.flags, new, False,
            )  # fmt: skip
            wanted += found
        if not wanted:
            return False
        self.flags[self.region >= native.FAIR] |= native.WANTED
        return True

    def _always_possible(self) -> bool:
        """With WITHIN for the states without the goal, as they were marked; other states come."""
        bases, offsets, targets, kinds = self.steps.arrays
        fair = self.fair
        self.flags[:] = WITHIN * ((self.flags & WITHIN) == 0)
        self.region[:] = 1
        native.components(
            bases, offsets, targets, kinds, fair.masks, fair.weak, fair.strong, self.region,
            self.rindex, self.stack, self.iterators, self.flags, 2, True,
        )  # fmt: skip
        never = (self.flags & WITHIN) == 0
        self.flags[:] = BEGINS | WITHIN
        self.flags[never] |= native.WANTED
        self.region[:] = 0  # nothing has to happen where no way leads to the goal
        return bool(never.any())

    # Ways -----------------------------------------------------------------------------------

    def _stem(self) -> list[int]:
        """The states of a shortest way to one that is wanted."""
        states = self.steps.states
        self.progress.take(ON_A_WAY * states)
        parents = np.zeros(2 * states, dtype=np.uint32)
        queue = np.zeros(2 * states, dtype=np.uint32)
        bases, offsets, targets, _ = self.steps.arrays
        initials = self.steps.initials()
        at = native.stem(bases, offsets, targets, self.flags, initials, parents, queue)
        found = [int(at)]
        while int(parents[found[-1]]) != found[-1]:
            found.append(int(parents[found[-1]]))
        self.progress.most -= ON_A_WAY * states
        return [at % states for at in reversed(found)]

    def run(self) -> Lasso:
        """The shortest way to where the aim is broken, and what is repeated there for ever."""
        stem = self._stem()
        start = stem[-1]
        if int(self.region[start]) < native.FAIR:  # nothing has to happen there
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
            self._label((taken or {}).get(at - loop), state, states[at + 1])
            for at, state in enumerate(states[:-1])
        ]
        return Lasso([self.steps.packed(state) for state in states], labels, loop)

    def _label(self, step: int | None, state: int, following: int) -> Label:
        """What a step is of, or the first one that leads from a state to another."""
        every = self.outgoing(state)
        if step is None:
            step = next(at for at in every if self.steps.targets[at] == following)
        label = self.steps.labels(state)[step - every.start]
        return self.progress.prepared.labels[int(label)]

    def outgoing(self, state: int) -> range:
        """The steps from a state."""
        at = state + (state >> native.BLOCK_BITS)
        base = int(self.steps.bases[state >> native.BLOCK_BITS])
        return range(base + int(self.steps.offsets[at]), base + int(self.steps.offsets[at + 1]))


class _Way:
    """A way through a component that a fair run can stay in: its states, and the steps taken."""

    def __init__(self, look: _Look, start: int) -> None:
        self.look = look
        self.states = [start]
        self.taken: list[int] = []
        self.parents = look.rindex  # both are free by now
        self.queue = look.stack

    def satisfy(self, obligation: int) -> None:
        """Goes on until the way is fair to an obligation, if it isn't so already."""
        word, bit = divmod(obligation, WORD)
        weak = bool(self.look.fair.weak[word] >> np.uint64(bit) & np.uint64(1))
        if any(self._counts(step, word, bit) for step in self.taken):
            return
        if weak and not all(self._is_possible(state, word, bit) for state in self.states):
            return
        end, step = self._nearest(-1, word, bit, weak)
        if end < 0:  # a strongly fair one that is never possible here
            return
        self._go(end)
        if step >= 0:
            self._take(step)

    def close(self) -> None:
        """Goes back to where it began, by a step at least."""
        start = self.states[0]
        if not self.taken:
            region = self.look.region
            inside = (
                at
                for at in self.look.outgoing(start)
                if region[self.look.steps.targets[at]] == region[start]
            )
            self._take(next(inside))
        self._nearest(start, 0, 0, False)
        self._go(start)

    def _nearest(self, goal: int, word: int, bit: int, rests: bool) -> tuple[int, int]:
        bases, offsets, targets, kinds = self.look.steps.arrays
        mask = np.uint64(1 << bit)
        state, step = native.nearest(
            bases, offsets, targets, kinds, self.look.fair.masks, self.look.region,
            self.states[-1], goal, word, mask, rests, self.parents, self.queue,
        )  # fmt: skip
        return int(state), int(step)

    def _go(self, end: int) -> None:
        """Takes the way to a state that was the nearest."""
        back = [end]
        while back[-1] != self.states[-1]:
            back.append(int(self.parents[back[-1]]))
        for following in reversed(back[:-1]):
            steps = self.look.outgoing(self.states[-1])
            targets = self.look.steps.targets
            self._take(next(at for at in steps if targets[at] == following))

    def _take(self, step: int) -> None:
        self.taken.append(step)
        self.states.append(int(self.look.steps.targets[step]))

    def _counts(self, step: int, word: int, bit: int) -> bool:
        mask = self.look.fair.masks[self.look.steps.kinds[step], word]
        return bool(mask >> np.uint64(bit) & np.uint64(1))

    def _is_possible(self, state: int, word: int, bit: int) -> bool:
        return any(self._counts(step, word, bit) for step in self.look.outgoing(state))


@dataclass(frozen=True)
class _Fair:
    """What steps are fair to: `kind_of` each label its kind, `masks` of each kind what it counts
    for, as bits of words; which of these `obligations` are weakly and which are strongly fair."""

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
