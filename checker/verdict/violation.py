"""Repeats an engine's violation on the executable model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TypeVar

from ...language import Instance, Log, Property
from ...language.expressions import children_first
from ...model.engine.interpreter import FullState, Interpreter, Remembering, Step
from ..trace.chart.logs import ShownLog
from ..trace.trace import MOST_WAYS, ReplayError, Trace, shown_trace, ways_along
from .deadlock import waiting, waiting_lines
from .explanation import failure_sentence, why_broken
from .result import Outcome, PropertyVerdict, Verdict

NO_ROW = "Deadlock: no step is possible in the last state."
RANGE = "every value stays in the range of its type"
DEADLOCK = "no deadlock"
"""Checks beside the properties, by name."""

Packed = TypeVar("Packed")


class Kind(Enum):
    """The kind of violation: the last state breaks an invariant, the last state has no next step
    (deadlock), or a step from it breaks a step property or takes a value out of its range."""

    STATE = auto()
    DEADLOCK = auto()
    STEP = auto()


def set_violation(
    instance: Instance,
    kind: Kind,
    levels: Sequence[Collection[Packed]],
    packed: Callable[[FullState], Packed],
    outcome: Outcome,
    *,
    ranges: bool = True,
    off: Collection[int] = (),
) -> None:
    """Sets verdict, reason and trace of the outcome to the violation at the end of a run through a
    state of each level. `packed` turns a state of the model into the engine's form. Of all such
    runs it selects the one with the fewest changes of the actor. A step out of range counts only
    with `ranges`; a step of a row in `off` never counts. Raises ReplayError if the model sees no
    violation.
    """
    found = seen(instance, kind, levels, packed, ranges=ranges, off=off)
    outcome.verdict, outcome.reason, outcome.trace = found.verdict, found.conclusion, found.trace
    outcome.properties = [
        found.property_verdict(instance)
        if p.name == found.name
        else PropertyVerdict(p.name, "unknown")
        for p in instance.properties
    ]
    if found.name == RANGE:
        outcome.properties.append(found.property_verdict(instance))


@dataclass(frozen=True)
class Seen:
    """A violation on the executable model: `name` is the broken property, RANGE or DEADLOCK."""

    name: str
    trace: Trace

    @property
    def verdict(self) -> Verdict:
        """The verdict of a run with this violation."""
        return Verdict.DEADLOCK if self.name == DEADLOCK else Verdict.BROKEN

    @property
    def conclusion(self) -> str:
        """The violation in a sentence."""
        return self.trace.conclusion

    def property_verdict(self, instance: Instance, *, with_trace: bool = False) -> PropertyVerdict:
        """The outcome of the property."""
        item = next((item for item in instance.properties if item.name == self.name), None)
        note = "" if item is None else _known(instance, item)
        trace = self.trace if with_trace else None
        return PropertyVerdict(self.name, "broken", len(self.trace.steps), note, trace)


def seen(
    instance: Instance,
    kind: Kind,
    levels: Sequence[Collection[Packed]],
    packed: Callable[[FullState], Packed],
    *,
    ranges: bool = True,
    among: Sequence[Property] | None = None,
    off: Collection[int] = (),
    most: int = MOST_WAYS,
) -> Seen:
    """The violation at the end of a run, as for `set_violation`. `among` are the properties that
    count (default: all); `most` is the limit of runs that are followed at once. Raises ReplayError
    if the model finds no violation.
    """
    machine = Remembering(instance)
    ways = ways_along(machine, levels, packed, off, most)
    states, steps = ways[0].run()
    properties = instance.properties if among is None else among
    name, why, refused = DEADLOCK, (), ()
    if kind is Kind.STATE:
        item = _broken_invariant(machine, properties, states[-1])
        name = item.name
        conclusion = failure_sentence(instance, item, states[-1], after=len(steps))
        why = why_broken(instance, item.expression, states[-1])
    elif kind is Kind.DEADLOCK:
        conclusion = NO_ROW
        if next(machine.steps(states[-1]), None) is not None:
            raise ReplayError("an engine sees a deadlock where the model can take a step")
        who = waiting(instance, states[-1])
        rows = sorted((x for x in who if x.table), key=lambda x: not x.row)  # single rows first
        why, refused = waiting_lines(who), tuple((item.table, item.row) for item in rows)
    else:
        found = [
            (way, step, item)
            for way in ways
            for step, item in violating_steps(
                machine, way.state, properties, ranges=ranges, off=off
            )
        ]
        if not found:
            raise ReplayError("an engine sees a violating step where the model sees none")
        way, step, item = min(found, key=lambda each: each[0].changes_with(each[1]))
        states, steps = way.run()
        steps.append(step)
        name, conclusion = RANGE, f"The last step is out of range: {step.out_of_range}"
        if item is not None and step.state is not None:
            name = item.name
            conclusion = failure_sentence(
                instance, item, states[-1], step.state, after=len(steps) - 1
            )
            why = why_broken(instance, item.expression, states[-1], step.state)
            states.append(step.state)
    trace = shown_trace(instance, states, steps, conclusion, why)
    harmful = harmful_step(trace, instance, name)
    return Seen(name, replace(trace, refused=refused, harmful=harmful))


def harmful_step(trace: Trace, instance: Instance, name: str) -> int:
    """The number of the harmful step: the last one that changed the entries of a log, if the
    property reads that log's machine; otherwise the last step.
    """
    item = next((item for item in instance.properties if item.name == name), None)
    read = set[str]() if item is None else item.machines
    logs = [log for log in instance.logs if isinstance(log, Log)]
    nodes = (node for log in logs for node in children_first(log.entry) if node.op == "field")
    if not read & {node.data.machine for node in nodes}:
        return len(trace.steps)
    for number in range(len(trace.logs) - 1, 0, -1):
        before, now = (
            [log.entries for log in trace.logs[at] if isinstance(log, ShownLog)]
            for at in (number - 1, number)
        )
        if before != now:
            return number
    return len(trace.steps)


def _known(instance: Instance, item: Property) -> str:
    """The known bug behind a broken property, and the feature that fixes it."""
    bug = item.known_bug
    if bug is None or not instance.system.protocols.holds(bug.during, instance.features):
        return ""
    mends = (feature.data.name for feature in bug.mended_by)
    off = [f"--with {name}" for name in mends if name not in instance.features]
    return f"{bug.what}; holds {' '.join(off)}" if off else ""


def _broken_invariant(
    machine: Interpreter, properties: Sequence[Property], state: FullState
) -> Property:
    for item in properties:
        if item.kind == "invariant" and not machine.holds(item.expression, state):
            return item
    raise ReplayError("an engine sees an invariant broken where the model sees none")


def violating_steps(
    machine: Interpreter,
    state: FullState,
    properties: Sequence[Property],
    *,
    ranges: bool = True,
    off: Collection[int] = (),
) -> Iterator[tuple[Step, Property | None]]:
    """Yields the steps that leave a range (with None) and those that break a property (with it);
    no steps of rows in `off`."""
    for step in machine.steps(state):
        if step.row in off:
            continue
        if step.state is None:
            if ranges:
                yield step, None
            continue
        for item in properties:
            if item.kind == "step" and not machine.step_holds(item, state, step.state):
                yield step, item
                break
