"""A fault that an engine found, seen again on the executable model and told."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeVar

from ..language import Instance, Property
from ..model.engine.interpreter import FullState, Interpreter, Step
from .explain import why_broken
from .trace import Disagreement, follow, told
from .verdict import Outcome, PropertyVerdict, Verdict

RANGE = "every value stays in the range of its type"

Packed = TypeVar("Packed")


class Kind(Enum):
    """What is at fault: the last state breaks an invariant, or has no next one; or a step from it
    breaks a property of steps, or leaves a range."""

    STATE = auto()
    DEADLOCK = auto()
    STEP = auto()


def tell_fault(
    instance: Instance,
    kind: Kind,
    path: list[Packed],
    packed: Callable[[FullState], Packed],
    outcome: Outcome,
    *,
    ranges: bool = True,
) -> None:
    """Puts into the outcome what is wrong behind `path`, whose states `packed` makes of the model's
    own; a step out of range only with `ranges`. Raises Disagreement where the model sees no such
    thing."""
    machine = Interpreter(instance)
    states, steps = follow(machine, path, packed)
    broken, why = "", ()
    if kind is Kind.STATE:
        item = _broken_invariant(machine, states[-1])
        broken, conclusion = item.name, f"{item.name} is broken in the last state: {item.sentence}"
        why = why_broken(instance, item.expression, states[-1])
        outcome.verdict = Verdict.BROKEN
    elif kind is Kind.DEADLOCK:
        conclusion = "Deadlock: no row can be taken in the last state."
        if next(machine.steps(states[-1]), None) is not None:
            raise Disagreement("an engine sees a deadlock where the model can take a step")
        outcome.verdict = Verdict.DEADLOCK
    else:
        step, item = _faulty_step(machine, states[-1], ranges)
        steps.append(step)
        broken, conclusion = RANGE, f"The last step is out of range: {step.fault}"
        if item is not None and step.state is not None:
            broken = item.name
            conclusion = f"{item.name} is broken by the last step: {item.sentence}"
            why = why_broken(instance, item.expression, states[-1], step.state)
            states.append(step.state)
        outcome.verdict = Verdict.BROKEN
    outcome.reason = conclusion
    outcome.trace = told(instance, states, steps, conclusion, why)
    outcome.properties = [
        PropertyVerdict(p.name, "broken", len(steps), _known(instance, p))
        if p.name == broken
        else PropertyVerdict(p.name, "unknown")
        for p in instance.properties
    ]
    if kind is Kind.STEP and not any(p.name == broken for p in instance.properties):
        outcome.properties.append(PropertyVerdict(RANGE, "broken", len(steps)))


def _known(instance: Instance, item: Property) -> str:
    """What is known of a property that is broken, and how it would hold."""
    bug = item.known_bug
    if bug is None or not instance.system.protocols.holds(bug.during, instance.features):
        return ""
    mends = (feature.data.name for feature in bug.mended_by)
    off = [f"--with {name}" for name in mends if name not in instance.features]
    return f"{bug.what}; holds {' '.join(off)}" if off else ""


def _broken_invariant(machine: Interpreter, state: FullState) -> Property:
    for item in machine.instance.properties:
        if item.kind == "invariant" and not machine.holds(item.expression, state):
            return item
    raise Disagreement("an engine sees an invariant broken where the model sees none")


def _faulty_step(
    machine: Interpreter, state: FullState, ranges: bool
) -> tuple[Step, Property | None]:
    """A step that leaves a range, or one with the property that it breaks."""
    for step in machine.steps(state):
        if step.state is None:
            if ranges:
                return step, None
            continue
        for item in machine.instance.properties:
            if item.kind == "step" and not machine.step_holds(item, state, step.state):
                return step, item
    raise Disagreement("an engine sees a faulty step where the model sees none")
