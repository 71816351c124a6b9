"""A system explored by paths. A path has the number of the first state, then the numbers of the
steps.

A view needs only its path. A link that contains the path opens the same view.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from threading import Lock

from ...checker.trace.trace import TraceStep, actor_of, shown_step
from ...checker.verdict.explanation import failure_sentence, why_broken
from ...checker.verdict.vacuity import SETTINGS
from ...language import Action, Expression, Instance, Property
from ...language.systems import NETWORK, events_of
from ...language.terms.folding import truth
from ...language.types import Value, show_value
from ...model.engine.compiler.stepper import Stepper
from ...model.engine.interpreter import FullState, Interpreter, Step

LONGEST = 1_000  # steps of a path
DIGITS = 5
KEPT = 4_096  # states whose steps are stored
MOST_BLOCKED = 6  # bindings of a table with separate explanations

Path = tuple[int, ...]


class PathError(ValueError):
    """A path that can't be followed. The message is one line with the reason."""


@dataclass(frozen=True)
class Run:
    """The states of a path, and the steps between them."""

    path: Path
    states: tuple[FullState, ...]
    steps: tuple[Step, ...]

    @property
    def state(self) -> FullState:
        """The last state."""
        return self.states[-1]


@dataclass(frozen=True)
class Broken:
    """A property that a state or the step to it breaks, as a sentence (`told`), with the reason."""

    item: Property
    told: str
    why: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """A row that can't be taken in a state, and the false parts of its condition."""

    row: str
    why: tuple[str, ...]


@dataclass(frozen=True)
class Blocked:
    """The steps that are impossible for `who`: the false parts of a condition of the whole table,
    or those of each row."""

    who: str
    why: tuple[str, ...]
    rows: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class BlockedTable:
    """A table without a possible row, at least for some instances. `more` is the number of omitted
    instances."""

    table: str
    blocked: tuple[Blocked, ...]
    more: int = 0


class Session:
    """An explored instance. It is safe for several threads."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.stepper = Stepper(instance)
        self.interpreter = Interpreter(instance)
        self.initials = tuple(instance.initial_states())
        self.declaration = _fingerprint(instance)
        self._budgeted = {
            event.name for events in instance.system.budgets for event in events_of(events)
        }
        self._steps: OrderedDict[FullState, tuple[Step, ...]] = OrderedDict()
        self._lock = Lock()
        self.shown = lru_cache(KEPT)(self._shown)

    def steps(self, state: FullState) -> tuple[Step, ...]:
        """Every step that is possible in a state, in the order of the declaration."""
        with self._lock:
            if state not in self._steps:
                self._steps[state] = tuple(self.stepper.steps(state))
                if len(self._steps) > KEPT:
                    self._steps.popitem(last=False)
            self._steps.move_to_end(state)
            return self._steps[state]

    def run(self, path: Path) -> Run:
        """The run of a path. Raises PathError."""
        if len(path) > LONGEST + 1:
            raise PathError(f"a path has at most {LONGEST} steps")
        first = path[0] if path else 0
        if first >= len(self.initials):
            count = f"first states, counted from 0: {len(self.initials)}"
            raise PathError(f"there is no first state {first}: {count}")
        states, steps = [self.initials[first]], list[Step]()
        for at, number in enumerate(path[1:], 1):
            possible = self.steps(states[-1])
            if number >= len(possible):
                count = f"steps possible there, counted from 0: {len(possible)}"
                raise PathError(f"step {at} can't be number {number}: {count}")
            step = possible[number]
            if step.state is None:
                raise PathError(f"step {at} reaches no state: {step.out_of_range}")
            steps.append(step)
            states.append(step.state)
        return Run((first, *path[1:]), tuple(states), tuple(steps))

    def extended(self, path: Path, states: Sequence[FullState], taken: Sequence[Step] = ()) -> Path:
        """The path, extended by steps through `states`, whose first one is the end of the path.
        With `taken`, only these steps count. Raises PathError if there is no such step."""
        found = list(path)
        for at, (before, after) in enumerate(pairwise(states)):
            numbers = (
                number
                for number, step in enumerate(self.steps(before))
                if step.state == after
                and (not taken or (step.row, step.bound) == (taken[at].row, taken[at].bound))
            )
            number = next(numbers, None)
            if number is None:
                raise PathError(f"step {at + 1} can't be taken")
            found.append(number)
        return tuple(found)

    def path_of(self, states: Sequence[FullState], taken: Sequence[Step] = ()) -> Path:
        """The path of a run from one of the first states. Raises PathError if there is no such
        path."""
        if states[0] not in self.initials:
            raise PathError("its first state isn't an initial state of the system")
        return self.extended((self.initials.index(states[0]),), states, taken)

    def _shown(self, state: FullState, step: Step) -> TraceStep:
        """A step as a trace shows it, and the parameters of an event with their names."""
        shown = shown_step(self.instance, step, state, step.state)
        if step.action.message is not None:
            return shown
        inside = [_parameter(e, value) for e, value in step.bound if e is not step.action.this]
        event = shown.action.partition("(")[0]
        return replace(shown, action=f"{event}({', '.join(inside)})" if inside else event)

    def is_fault(self, step: Step) -> bool:
        """Whether a step belongs to the environment: to the network, or to an event with a
        budget."""
        return actor_of(step) == NETWORK or step.action.table.partition(".")[2] in self._budgeted

    def broken(self, run: Run) -> Iterator[Broken]:
        """The properties that the end of a run breaks, by its last state or its last step."""
        for item in self.interpreter.broken(run.states):
            is_step = item.kind == "step"
            before, after = run.states[-2:] if is_step else (run.state, None)
            taken = len(run.states) - (2 if is_step else 1)
            sentence = failure_sentence(self.instance, item, before, after, after=taken)
            yield Broken(item, sentence, why_broken(self.instance, item.expression, before, after))

    def is_end(self, state: FullState) -> bool:
        """Whether a run may end in a state."""
        return self.interpreter.holds(self.instance.terminal, state)

    # Why not ------------------------------------------------------------------------------------

    def blocked(self, state: FullState) -> Iterator[BlockedTable]:
        """Each table with impossible steps in a state, and the reasons."""
        taken = {(id(step.action), step.bound) for step in self.steps(state)}
        for index, action in enumerate(self.instance.actions):
            with self._lock:
                bindings = list(self.stepper.bindings(index, state))
            left = [b for b in bindings if (id(action), tuple(b.items())) not in taken]
            if not bindings:
                what = "the collection of its element is empty"
                if action.message is not None:
                    what = "the message isn't in flight"
                yield BlockedTable(action.table, (Blocked("", (what,)),))
            elif left:
                listed = tuple(self._why_not(action, state, b) for b in left[:MOST_BLOCKED])
                yield BlockedTable(action.table, listed, max(0, len(left) - MOST_BLOCKED))

    def _why_not(
        self, action: Action, state: FullState, bound: Mapping[Expression, Value]
    ) -> Blocked:
        def holds(condition: Expression) -> bool:
            return self.interpreter.holds(condition, state, bound=bound.items())

        def why(condition: Expression) -> tuple[str, ...]:
            return why_broken(self.instance, condition, state, bound=bound)

        who = self.who(action, bound)
        if truth(action.when, self.instance.constants, self.instance.features) is False:
            return Blocked(who, (SETTINGS,))
        if not holds(action.when):
            return Blocked(who, why(action.when))
        refusals: list[Refusal] = []
        for row in action.rows:
            if holds(row.guard):
                refusals.append(Refusal(row.id, ("no room for its messages", *why(row.room))))
                break
            refusals.append(Refusal(row.id, why(row.guard)))
        return Blocked(who, (), tuple(refusals))

    def who(self, action: Action, bound: Mapping[Expression, Value]) -> str:
        """The instances that a table concerns, with these bindings."""
        named = [show_value(of.data.type, bound[of]) for of in action.bounds]
        if action.choice is not None:
            kind = next(
                channel.message.content
                for channel in self.instance.system.channels
                if channel.message == action.message
            )
            named.append(show_value(kind, bound[action.choice]))
        return ", ".join(named)


def _parameter(of: Expression, value: Value) -> str:
    """A parameter of an event: its value, with its name unless the value's name includes it."""
    shown, name = show_value(of.data.type, value), of.data.name
    return shown if shown.rstrip("0123456789") == name else f"{name}={shown}"


def read_path(text: str) -> Path:
    """The path in a link's notation: numbers with dots between them. Raises PathError."""
    if not text:
        return (0,)
    parts = text.split(".", LONGEST + 2)
    if len(parts) > LONGEST + 1:
        raise PathError(f"a path has at most {LONGEST} steps")
    if not all(part.isascii() and part.isdecimal() and len(part) <= DIGITS for part in parts):
        raise PathError("a path is numbers with dots between them")
    return tuple(map(int, parts))


def as_text(path: Path) -> str:
    """A path for a link."""
    return ".".join(map(str, path))


def _fingerprint(instance: Instance) -> str:
    """The difference, if a path is of another declaration, release or constants."""
    found = hashlib.sha256()
    named = (instance.protocol, sorted(instance.features), sorted(instance.constants.items()))
    found.update(repr(named).encode())
    for action in instance.actions:
        found.update(f"{action.table} {action.when}\n".encode())
        for row in action.rows:
            found.update(f"{row.id}: {row.guard} {row.room} {row.updates}\n".encode())
    return found.hexdigest()[:10]
