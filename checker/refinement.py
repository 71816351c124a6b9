"""Refinement checks: a reduced system has the behaviour of the whole one.

A reduction maps each state of the whole system to one of the reduced system: fields that are left
out are dropped, and canonical forms are taken. The map is a refinement mapping if each step of the
whole system is a step of the reduced one, or changes nothing that the reduced one has. A reduction
that only replaces fields must work in the other direction, too: each step of the reduced system is
one of the whole system. A reduction that restricts the environment (`NotOffered`, `Never`) has
fewer steps by intent; only the other direction is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..language import Instance, System, instantiate
from ..language.declaration.errors import DeclarationError
from ..language.declaration.typecheck import type_of
from ..language.expressions import (
    Bound,
    Expression,
    Operand,
    children_first,
    field_set,
    lift,
    rewrite,
)
from ..language.instances.reductions import Canonical, Never, NotOffered, Reduction, Settled
from ..language.terms.values import evaluate, field_name
from ..language.types import Bag, Map, Optional, Record, Sequence, Set, Type, Value, choices
from ..model.engine.compiler.stepper import Stepper
from ..model.engine.interpreter import FullState, Step

MOST = 20_000
"""The number of states of the whole system that are compared by default."""


@dataclass(frozen=True)
class Mismatch:
    """A step that only one of both systems has. `run` has the labels of the steps before it."""

    run: tuple[str, ...]
    step: str
    is_of_whole: bool

    def __str__(self) -> str:
        side = "whole" if self.is_of_whole else "reduced"
        return f"only the {side} system has {self.step} after {', '.join(self.run) or 'no step'}"


@dataclass(frozen=True)
class Refinement:
    """The result of one refinement check: `states` of the whole system were compared, `steps` of
    it that the reduced one has, too; `exhaustive` if no state within the bounds is left."""

    states: int
    steps: int
    exhaustive: bool
    mismatch: Mismatch | None


def whole_system(system: System, reduction: Reduction) -> System:
    """The system without one of its reductions.

    Raises DeclarationError if the system doesn't have it, or can't be without it.
    """
    reduced = system.reduced
    if reduced is None or reduction not in reduced.reductions:
        raise DeclarationError(f"{system.name} doesn't have this reduction")
    rest = tuple(one for one in reduced.reductions if one is not reduction)
    return replace(system, **reduced.given, reductions=rest, reduced=None)


def refine(
    system: System, reduction: Reduction, *, protocol: str | None = None,
    bounds: str = "default", constants: dict[str, int] | None = None, most: int = MOST,
) -> Refinement:  # fmt: skip
    """Compares the system with itself without one of its reductions, step by step from the start.

    Looks at `most` states of the whole system, nearest first.

    Raises DeclarationError for a reduction that the system doesn't have.
    """
    settings: dict[str, Any] = {"protocol": protocol, "bounds": bounds, "constants": constants}
    whole = instantiate(whole_system(system, reduction), **settings)
    return _Both(whole, instantiate(system, **settings), reduction).compared(most)


def _form(reduction: Reduction, reduced: Instance) -> Callable[[FullState], FullState]:
    """The form of a state, with the fields of the reduced system, that stands for it there."""
    match reduction:
        case Settled():
            return _settled(reduction, reduced)
        case Canonical():
            return _canonical(reduction, reduced)
        case _:
            return lambda state: state


def _settled(form: Settled, reduced: Instance) -> Callable[[FullState], FullState]:
    """Gives fields the values that they have where the form is settled."""
    constants = reduced.constants
    names = [variable.name for variable in reduced.variables]
    key = next(iter(form.set)).data.key
    instance = None if key is None else key.variable("settled_instance")
    places = [None] if key is None else choices(key, constants)

    def of_features(node: Expression) -> Expression | None:
        return lift(node.data.name in reduced.features) if node.op == "feature" else None

    def of_instance(value: Operand) -> Expression:
        # constants of a field's type have no instance
        whole = rewrite(lift(value), of_features)
        if instance is not None and any(n.op == "field" for n in children_first(whole)):
            return whole.at(instance)
        return whole

    when = of_instance(form.when)
    values = {field_name(of.data): of_instance(value) for of, value in form.set.items()}

    def settle(state: FullState) -> FullState:
        before = dict(zip(names, state, strict=True))
        after: dict[str, Any] = dict(before)
        for place, one in enumerate(places):
            bound: dict[Expression, Value] = {} if instance is None else {instance: one}
            if not evaluate(when, before, constants, bound):
                continue
            for name, value in values.items():
                if name not in after:
                    continue
                made, held = evaluate(value, before, constants, bound), after[name]
                after[name] = made if key is None else (*held[:place], made, *held[place + 1 :])
        return tuple(after[name] for name in names)

    return settle


def _canonical(form: Canonical, reduced: Instance) -> Callable[[FullState], FullState]:
    """Replaces each part of a field that has another form."""
    keys, node = 0, form.of
    while node.op == "index":
        keys += 1
        node = node.args[0]
    data = field_set(form.of)
    keys += data.key is not None
    at = [variable.name for variable in reduced.variables].index(field_name(data))
    of = type_of(form.of)
    assert of is not None
    whole = Expression("variable", (), Bound("whole", of))
    when, settled = (
        rewrite(lift(part), lambda node: whole if node is form.of else None)
        for part in (form.when, form.value)
    )
    constants = reduced.constants

    def settle(value: Any, depth: int) -> Value:
        if depth:
            return tuple(settle(part, depth - 1) for part in value)
        if not evaluate(when, {}, constants, {whole: value}):
            return value
        return evaluate(settled, {}, constants, {whole: value})

    return lambda state: (*state[:at], settle(state[at], keys), *state[at + 1 :])


class _Both:
    def __init__(self, whole: Instance, reduced: Instance, reduction: Reduction) -> None:
        self.whole, self.reduced = whole, reduced
        self.steppers = Stepper(whole), Stepper(reduced)
        self.restricts = isinstance(reduction, (NotOffered, Never))
        self.form = _form(reduction, reduced)
        places = {variable.name: at for at, variable in enumerate(whole.variables)}
        self.parts = [
            (places[variable.name], whole.variables[places[variable.name]].type, variable.type)
            for variable in reduced.variables
        ]
        self.known: dict[FullState, dict[tuple[str, FullState | None], Step]] = {}

    def image(self, state: FullState) -> FullState:
        """The state of the reduced system that a state of the whole one maps to."""
        return self.form(tuple(projected(state[at], own, to) for at, own, to in self.parts))

    def compared(self, most: int) -> Refinement:
        starts = list(self.whole.initial_states())
        before: dict[FullState, tuple[FullState, str] | None] = dict.fromkeys(starts)
        waiting = deque(starts)
        images = {self.image(state) for state in starts}
        if images != set(self.reduced.initial_states()):
            return Refinement(0, 0, False, Mismatch((), "an initial state", True))
        states = steps = 0
        while waiting and states < most:
            state = waiting.popleft()
            states += 1
            image = self.image(state)
            there = self._reduced_steps(image)
            seen: set[tuple[str, FullState | None]] = set()
            for step in self.steppers[0].steps(state):
                if step.state is None:
                    return Refinement(states, steps, False, self._found(before, state, step, True))
                to = self.image(step.state)
                key = (step.action.table, to)
                seen.add(key)
                steps += key in there
                if key not in there and to != image and not self.restricts:
                    return Refinement(states, steps, False, self._found(before, state, step, True))
                if self.restricts and key not in there:
                    continue  # nothing that follows is in the reduced system
                if step.state not in before:
                    before[step.state] = (state, self._label(0, step))
                    waiting.append(step.state)
            for key, step in there.items():
                if key not in seen and key[1] != image:
                    return Refinement(states, steps, False, self._found(before, state, step, False))
        return Refinement(states, steps, not waiting, None)

    def _reduced_steps(self, image: FullState) -> dict[tuple[str, FullState | None], Step]:
        """The steps by table and next state; none for a step that leaves a range."""
        found = self.known.get(image)
        if found is None:
            found = {
                (step.action.table, step.state): step for step in self.steppers[1].steps(image)
            }
            self.known[image] = found
        return found

    def _label(self, side: int, step: Step) -> str:
        if step.state is None:
            return f"{step.action.table}: {step.out_of_range}"
        return (self.whole, self.reduced)[side].row_names[step.row]

    def _found(
        self, before: dict[FullState, tuple[FullState, str] | None], state: FullState, step: Step,
        is_of_whole: bool,
    ) -> Mismatch:  # fmt: skip
        run: list[str] = []
        while (link := before[state]) is not None:
            state, label = link
            run.insert(0, label)
        return Mismatch(tuple(run), self._label(0 if is_of_whole else 1, step), is_of_whole)


def projected(value: Any, own: Type, to: Type) -> Value:
    """A value of one type as one of a type whose records have some of the fields."""
    if own == to or value is None:
        return value
    match own, to:
        case Record(), Record():
            names = [name for name, _ in own.fields]
            kinds = dict(own.fields)
            return tuple(
                projected(value[names.index(name)], kinds[name], kind) for name, kind in to.fields
            )
        case Optional(), Optional():
            return projected(value, own.of, to.of)
        case (Map() | Sequence(), Map() | Sequence()):
            return tuple(projected(part, own.of, to.of) for part in value)
        case Bag(), Bag():
            return tuple(sorted((projected(part, own.of, to.of) for part in value), key=repr))
        case Set(), Set():
            return frozenset(projected(part, own.of, to.of) for part in value)
        case _:
            return value
