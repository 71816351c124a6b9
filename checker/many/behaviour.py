"""Finds the behaviours in which two protocols differ: one system runs under both, step by step,
until its visible behaviour differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...language import Expression, Instance
from ...language.systems import NETWORK
from ...language.terms.values import evaluate
from ...model.engine.compiler.stepper import Stepper
from ...model.engine.interpreter import FullState, Step
from ..trace.trace import Trace, TraceStep, shown_trace

MOST = 10_000
"""The number of pairs of states to compare by default."""
Pair: TypeAlias = tuple[FullState, FullState]
Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """The step under one protocol: its row and its messages. None if it can't happen."""

    row: str
    sends: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {"row": self.row, "sends": list(self.sends)}


@dataclass(frozen=True)
class Divergence:
    """A run that both protocols take in the same way up to its last step, `action`. `run` is the
    run of the first protocol that can take the last step.
    """

    action: str
    before: Answer | None
    after: Answer | None
    run: Trace

    def as_json(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "action": self.action,
            "before": None if self.before is None else self.before.as_json(),
            "after": None if self.after is None else self.after.as_json(),
            "trace": self.run.as_json(),
        }


@dataclass(frozen=True)
class Behaviour:
    """The differences of two protocols, the shortest runs first, with one run for each pair of
    rows. `pairs` of states were compared, up to `depth` steps. `exhaustive`: no pair within the
    bounds is left.
    """

    found: tuple[Divergence, ...]
    pairs: int
    depth: int
    exhaustive: bool


def compare(
    before: Instance,
    after: Instance,
    most: int = MOST,
    on_pair: Callable[[int], None] | None = None,
) -> Behaviour:
    """The shortest runs in which two instances of one system differ: in a step's messages, in an
    application's answer, in a field that the system declares as observed, or in whether a step is
    possible. Other fields may differ.

    Both take the same steps, each in its own state. At most `most` pairs of states are compared.
    """
    return _Both(before, after).compared(most, on_pair)


class _Both:
    def __init__(self, before: Instance, after: Instance) -> None:
        self.instances = (before, after)
        self.steppers = (Stepper(before), Stepper(after))
        observed = {f"{field.data.machine}.{field.data.name}" for field in before.system.observed}
        self.seen_places = tuple(
            at
            for at, variable in enumerate(before.variables)
            if variable.name.partition(".")[0] in (NETWORK, "application")
            or variable.name in observed
        )
        self.alike = set(before.actions) & set(after.actions)
        self.differing = [at for at, x in enumerate(after.actions) if x not in self.alike]
        self.last: list[tuple[FullState, dict[Key, Step]] | None] = [None, None]
        self.came_from: dict[Pair, tuple[Pair, Key] | None] = {}
        self.found: dict[tuple[str, str, str], Divergence] = {}

    def compared(self, most: int, on_pair: Callable[[int], None] | None) -> Behaviour:
        starts = zip(*(instance.initial_states() for instance in self.instances), strict=True)
        waiting: deque[Pair] = deque()
        for pair in starts:
            self.came_from[pair] = None
            waiting.append(pair)
        depths = dict.fromkeys(self.came_from, 0)
        pairs = depth = 0
        while waiting and pairs < most:
            pair = waiting.popleft()
            depth = depths.pop(pair)
            pairs += 1
            for following, key in self._followers(pair):
                if following not in self.came_from:
                    self.came_from[following] = (pair, key)
                    waiting.append(following)
                    depths[following] = depth + 1
            if on_pair is not None:
                on_pair(pairs)
        return Behaviour(tuple(self.found.values()), pairs, depth, not waiting)

    def _followers(self, pair: Pair) -> Iterator[tuple[Pair, Key]]:
        """The pairs of next states, for each step that both take in the same way."""
        one, other = self._steps(0, pair[0]), self._other_steps(pair)
        for key in dict.fromkeys((*one, *other)):
            first, second = one.get(key), other.get(key)
            if self._differ(first, second):
                self._note(pair, first, second)
            elif first is not None and second is not None and first.state and second.state:
                yield (first.state, second.state), key

    def _steps(self, side: int, state: FullState) -> dict[Key, Step]:
        last = self.last[side]
        if last is None or last[0] is not state:
            last = (state, {_key(step): step for step in self.steppers[side].steps(state)})
            self.last[side] = last
        return last[1]

    def _other_steps(self, pair: Pair) -> dict[Key, Step]:
        """The steps of the second instance. If both states are equal, steps by equal rows are
        reused.
        """
        if pair[0] != pair[1]:
            return self._steps(1, pair[1])
        own = {
            _key(step): step
            for index in self.differing
            for bound in self.steppers[1].bindings(index, pair[1])
            if (step := self.steppers[1].take(index, pair[1], bound)) is not None
        }
        alike = {k: s for k, s in self._steps(0, pair[0]).items() if s.action in self.alike}
        return alike | own

    def _differ(self, one: Step | None, other: Step | None) -> bool:
        if one is None or other is None or one.state is None or other.state is None:
            return True
        return any(one.state[at] != other.state[at] for at in self.seen_places)

    def _note(self, pair: Pair, one: Step | None, other: Step | None) -> None:
        step = one or other
        assert step is not None
        name = (step.action.table, self._row(0, one), self._row(1, other))
        if name in self.found:
            return
        for side, own in enumerate((one, other)):
            if own is None and self._has_no_room(side, pair[side], step):
                return
        shown = [
            self._last(at, pair[at], step) if step is not None and step.state is not None else None
            for at, step in enumerate((one, other))
        ]
        answers = [None if last is None else Answer(last.row, last.sends) for last in shown]
        side = 0 if one is not None else 1
        self.found[name] = Divergence(
            step.action.table, answers[0], answers[1], self._run(pair, side, step)
        )

    def _row(self, side: int, step: Step | None) -> str:
        if step is None or step.state is None:
            return ""
        return self.instances[side].row_names[step.row]

    def _has_no_room(self, side: int, state: FullState, step: Step) -> bool:
        """Whether this protocol only waits to send the other one's message: its channel is full."""
        instance, bound = self.instances[side], dict(step.bound)
        named = {v.name: value for v, value in zip(instance.variables, state, strict=True)}

        def holds(condition: Expression) -> bool:
            return bool(evaluate(condition, named, instance.constants, bound))

        rows = (
            row
            for action in instance.actions
            if (action.table, action.adds) == (step.action.table, step.action.adds)
            if holds(action.when)
            for row in action.rows
            if holds(row.guard)
        )
        row = next(rows, None)
        return row is not None and not holds(row.room)

    def _last(self, side: int, state: FullState, step: Step) -> TraceStep:
        assert step.state is not None
        return shown_trace(self.instances[side], [state, step.state], [step], "").steps[0]

    def _run(self, pair: Pair, side: int, last: Step) -> Trace:
        """The run of one protocol to the pair, with the last step."""
        pairs, keys = [pair], list[Key]()
        while (origin := self.came_from[pairs[0]]) is not None:
            pairs.insert(0, origin[0])
            keys.insert(0, origin[1])
        states = [both[side] for both in pairs]
        steps = [self._steps(side, state)[key] for state, key in zip(states, keys, strict=False)]
        if last.state is not None:
            states.append(last.state)
        return shown_trace(self.instances[side], states, [*steps, last], "")


def _key(step: Step) -> Key:
    """The key of a step without its row: the event and the bound values."""
    return (step.action.table, step.action.adds, *((id(n), value) for n, value in step.bound))
