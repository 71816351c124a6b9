"""Endless counterexamples of progress properties (stem and loop), on the executable model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...language import Fairness, Instance, Key
from ...language.types import show_value
from ...model.engine.interpreter import FullState, Interpreter, Remembering, Step
from ..ground import Aim
from ..verdict.explanation import failure_sentence
from .trace import ReplayError, Trace, shown_trace

Instances: TypeAlias = tuple[tuple[Key, int], ...]
Obligation: TypeAlias = tuple[int, Instances]
"""Fairness by its index among the system's, for the instances that the event names."""


@dataclass(frozen=True)
class Label:
    """The source of a step: a row by its index, and the instances that its action binds."""

    row: int
    instances: Instances


@dataclass(frozen=True)
class Lasso:
    """A run by its states, packed or whole, and the steps between them. From the state with index
    `loop` on it repeats for ever; if that is the last state, it stays there.
    """

    states: list[Any]
    labels: list[Label]
    loop: int


class Fairnesses:
    """The fairness assumptions about an instance's runs."""

    def __init__(self, instance: Instance) -> None:
        self.every: tuple[Fairness, ...] = instance.system.fairness
        events = {table.name: table.on for table in instance.system.tables}
        self.of_row: list[list[int]] = []
        for name in instance.row_names:
            table, _, row = name.partition("/")
            self.of_row.append(
                [
                    at
                    for at, item in enumerate(self.every)
                    if item.event is events.get(table) and (not item.rows or row in item.rows)
                ]
            )

    def of(self, label: Label) -> list[Obligation]:
        """The fairness obligations that a step with this label satisfies."""
        return [(at, label.instances) for at in self.of_row[label.row]]

    def shown(self, obligation: Obligation) -> str:
        """The text of a fairness assumption with its instances."""
        at, instances = obligation
        names = ", ".join(show_value(key, number) for key, number in instances)
        return f"{self.every[at].name}{f' for {names}' if names else ''}"


def label_of(step: Step) -> Label:
    """The source of a step of the model."""
    instances = [
        (name.data.type, value)
        for name, value in step.bound
        if name.op == "variable" and isinstance(name.data.type, Key) and isinstance(value, int)
    ]
    return Label(step.row, tuple(instances))


def tell_lasso(
    instance: Instance, aim: Aim, lasso: Lasso, packed: Callable[[FullState], Any]
) -> Trace:
    """The trace of the run. Raises ReplayError if the model can't take it, if it isn't fair, or if
    it reaches its goal.
    """
    machine = Remembering(instance)
    states, steps = followed(machine, lasso, packed)
    _check_aim(machine, aim, states, lasso)
    fairnesses = Fairnesses(instance)
    possible = [[label_of(step) for step in machine.steps(at)] for at in states[lasso.loop :]]
    lines = _fair(fairnesses, possible, lasso.labels[lasso.loop :])
    why = _endless(instance, lasso, possible)
    conclusion = failure_sentence(
        instance, aim.of, states[-1], after=len(steps), bound=dict(aim.bound), and_then=why
    )
    trace = shown_trace(instance, states, steps, conclusion)
    return replace(trace, loop=lasso.loop, fair=tuple(lines))


def tell_dead_end(
    instance: Instance, aim: Aim, run: Lasso, packed: Callable[[FullState], Any]
) -> Trace:
    """The trace of a run to a state from which no run reaches a goal that must stay possible.
    Raises ReplayError if the model can't take it, or if the goal holds.
    """
    machine = Remembering(instance)
    states, steps = followed(machine, run, packed)
    if machine.holds(aim.of.expression, states[-1]):
        raise ReplayError("an engine says that the goal is out of reach, but it holds on the model")
    conclusion = failure_sentence(
        instance, aim.of, states[-1], after=len(steps), and_then=", and no run leads on from there"
    )
    return shown_trace(instance, states, steps, conclusion)


def followed(
    machine: Interpreter, lasso: Lasso, packed: Callable[[FullState], Any]
) -> tuple[list[FullState], list[Step]]:
    """The states and steps of a run. Raises ReplayError if the model can't take it."""
    states = [s for s in machine.initial_states() if packed(s) == lasso.states[0]][:1]
    if not states:
        raise ReplayError("no initial state of the model is the first one of the run")
    steps: list[Step] = []
    for label, wanted in zip(lasso.labels, lasso.states[1:], strict=True):
        for step in machine.steps(states[-1]):
            own = label_of(step)
            same = own.row == label.row and label.instances in ((), own.instances)
            if not same or step.state is None or packed(step.state) != wanted:
                continue
            states.append(step.state)
            steps.append(step)
            break
        else:
            raise ReplayError(f"the model can't take step {len(states)} of the run")
    if packed(states[-1]) != packed(states[lasso.loop]):
        raise ReplayError("the run's loop isn't a loop on the model")
    return states, steps


def _check_aim(machine: Interpreter, aim: Aim, states: list[FullState], lasso: Lasso) -> None:
    """Raises ReplayError unless a state satisfies the premise and no later state satisfies the
    goal.
    """
    owed = False
    for at, state in enumerate(states):
        if machine.holds(aim.of.expression, state, bound=aim.bound):
            owed = False
            if at >= lasso.loop:
                raise ReplayError("the goal holds in the loop, but an engine says that it doesn't")
        else:
            owed = owed or machine.holds(aim.of.premise, state, bound=aim.bound)
    if not owed:
        raise ReplayError("an engine says that a run misses its goal, but the run needn't reach it")


def _fair(fairnesses: Fairnesses, possible: list[list[Label]], taken: list[Label]) -> list[str]:
    """Lines on the fairness of possible steps along the loop. Raises ReplayError if the loop isn't
    fair.
    """
    each = [{x for label in here for x in fairnesses.of(label)} for here in possible]
    done = [x for label in taken for x in fairnesses.of(label)]
    lines: list[str] = []
    for obligation in sorted(set[Obligation]().union(*each), key=fairnesses.shown):
        always = all(obligation in here for here in each)
        strong = fairnesses.every[obligation[0]].kind == "strong"
        if obligation not in done and (always or strong):
            raise ReplayError(f"{fairnesses.shown(obligation)}: an engine's run isn't fair to it")
        where = "always possible" if always else "possible at times"
        count = done.count(obligation)
        how = f"taken {count} times" if count > 1 else "taken once" if count else "never taken"
        lines.append(f"{fairnesses.shown(obligation)}: {where}, {how}")
    return lines


def _endless(instance: Instance, lasso: Lasso, possible: list[list[Label]]) -> str:
    """The reason that the run never reaches its goal, as the end of a sentence."""
    first, last = lasso.loop + 1, len(lasso.labels)
    if first <= last:
        again = f"step {first} repeats" if first == last else f"steps {first} to {last} repeat"
        return f", and {again} for ever"
    names = instance.row_names
    rest = sorted({names[label.row].partition("/")[0] for label in possible[-1]})
    if not rest:
        return " for ever: no step is possible"
    if not instance.system.fairness:
        none = "the system declares no fairness, so none of the possible events has to happen"
        return f" for ever: {none}: {_some(rest)}"
    return f" for ever: fairness forces none of the possible events: {_some(rest)}"


def _some(names: Iterable[str]) -> str:
    """The first names, as text."""
    first, *others = names
    return f"{first} and {len(others)} more" if len(others) > 2 else ", ".join([first, *others])
