"""Counterexamples: from packed states back to steps of the executable model."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..model.interpreter import FullState, Interpreter, Step
from ..spec.language import Bag, Instance, Map, Record, Sequence, Set
from ..spec.language.instance import NETWORK
from ..spec.language.typecheck import type_of
from ..spec.language.types import Type, Value, show_value
from ..spec.language.values import evaluate


class Disagreement(Exception):
    """An engine and the executable model see different things: a fault of the checker."""


@dataclass(frozen=True)
class TraceStep:
    """A step as shown: `actor` did `action` by `row`, sent `sends`, and changed `changes`, each
    where, before and after. What only grew or shrank has just what came (+) or went (-) as after.
    """

    actor: str
    action: str
    row: str
    sends: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Trace:
    """A run from an initial state to a fault.

    `states` are plain values by variable; there is one more of them than of `steps`, unless the
    last step leaves a range and reaches no state.
    """

    initial: tuple[tuple[str, str], ...]
    steps: tuple[TraceStep, ...]
    states: tuple[FullState, ...]
    conclusion: str

    def as_json(self) -> dict[str, Any]:
        """The trace as plain data."""
        return {
            "initial": dict(self.initial),
            "steps": [
                {
                    "actor": s.actor,
                    "action": s.action,
                    "row": s.row,
                    "sends": list(s.sends),
                    "changes": [
                        {"where": where, "before": before, "after": after}
                        for where, before, after in s.changes
                    ],
                }
                for s in self.steps
            ],
            "conclusion": self.conclusion,
        }


def represent(address: int, state: bytes) -> bytes:
    """The packed state that stands for `state` under the symmetry of the kernel at `address`."""
    buffer = ctypes.create_string_buffer(state, len(state) + 16)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)
    function(ctypes.addressof(buffer))
    return buffer.raw[: len(state)]


Packed = TypeVar("Packed")


def follow(
    machine: Interpreter, path: list[Packed], packed: Callable[[FullState], Packed]
) -> tuple[list[FullState], list[Step]]:
    """The executable model's run along `path`, whose packed states may stand for others.

    Raises Disagreement where the model can't take one of the steps.
    """
    states = [s for s in machine.initial_states() if packed(s) == path[0]][:1]
    if not states:
        raise Disagreement("no initial state of the model is the first one of the trace")
    steps: list[Step] = []
    for at, wanted in enumerate(path[1:], 1):
        for step in machine.steps(states[-1]):
            if step.state is not None and packed(step.state) == wanted:
                states.append(step.state)
                steps.append(step)
                break
        else:
            raise Disagreement(f"the model can't take step {at} of the trace")
    return states, steps


def told(instance: Instance, states: list[FullState], steps: list[Step], conclusion: str) -> Trace:
    """The run as it is shown."""
    shown: list[TraceStep] = []
    for at, step in enumerate(steps):
        following = states[at + 1] if at + 1 < len(states) else None
        shown.append(_told(instance, step, states[at], following))
    initial: list[tuple[str, str]] = []
    for variable, value in zip(instance.variables, states[0], strict=True):
        initial.append((variable.name, show_value(variable.type, value)))
    return Trace(tuple(initial), tuple(shown), tuple(states), conclusion)


def _told(
    instance: Instance, step: Step, before: FullState, following: FullState | None
) -> TraceStep:
    machine, _, event = step.action.table.partition(".")
    arguments: list[str] = []
    actor = machine
    own_key = next((m.key for m in instance.system.machines if m.name == machine), None)
    for name, value in step.bound:
        if name.op == "element":
            arguments += _fields(type_of(name), value)
            continue
        text = show_value(name.data.type, value)
        if name.data.type == own_key and actor == machine:
            actor = text
        else:
            arguments.append(text)
    taken = step.action.taken
    if taken is not None and step.action.choice is None:
        state = {v.name: value for v, value in zip(instance.variables, before, strict=True)}
        first = evaluate(taken, state, instance.constants, dict(step.bound))
        arguments += _fields(type_of(taken), first)
    sends: list[str] = []
    changes: list[tuple[str, str, str]] = []
    if following is not None:
        for variable, a, b in zip(instance.variables, before, following, strict=True):
            if a == b:
                continue
            if variable.name.startswith(f"{NETWORK}."):
                sends += _sent(variable.type, variable.name.removeprefix(f"{NETWORK}."), [], a, b)
            else:
                changes += differences(variable.type, variable.name, a, b)
    own = f"{machine}."
    shown = tuple(
        (where.removeprefix(own).replace(f"[{actor}]", "", 1), a, b)
        if where.startswith(own) and (actor == machine or f"[{actor}]" in where)
        else (where, a, b)
        for where, a, b in changes
    )
    row = instance.row_names[step.row].partition("/")[2]
    inside = ", ".join(arguments)
    return TraceStep(actor, f"{event}({inside})" if inside else event, row, tuple(sends), shown)


def _sent(kind: Type, message: str, address: list[str], before: Value, after: Value) -> list[str]:
    """The messages that are in flight now and weren't before."""
    assert isinstance(before, tuple)
    assert isinstance(after, tuple)
    if isinstance(kind, Map):
        pairs = enumerate(zip(before, after, strict=True))
        return [
            text
            for at, (a, b) in pairs
            if a != b
            for text in _sent(kind.of, message, [*address, f"{kind.key}{at}"], a, b)
        ]
    assert isinstance(kind, (Bag, Sequence))
    return [
        f"{message}({', '.join([*address, *_fields(kind.of, content)])})"
        for content in (Counter(after) - Counter(before)).elements()
    ]


def _fields(kind: Type | None, value: Value) -> list[str]:
    if not isinstance(kind, Record) or not isinstance(value, tuple):
        return [str(value)]
    pairs = zip(kind.fields, value, strict=True)
    return [f"{n}={show_value(of, v)}" for (n, of), v in pairs if n != "present"]


def differences(kind: Type, where: str, before: Value, after: Value) -> list[tuple[str, str, str]]:
    """Only what changed, as (where, before, after), down to the smallest part."""
    if before == after:
        return []
    if isinstance(before, tuple) and isinstance(after, tuple):
        if isinstance(kind, Map):
            return [
                change
                for at, (a, b) in enumerate(zip(before, after, strict=True))
                for change in differences(kind.of, f"{where}[{kind.key}{at}]", a, b)
            ]
        if isinstance(kind, Record):
            return [
                change
                for (name, of), a, b in zip(kind.fields, before, after, strict=True)
                for change in differences(of, f"{where}.{name}", a, b)
            ]
        if isinstance(kind, Sequence) and after[: len(before)] == before:
            new = ", ".join(show_value(kind.of, value) for value in after[len(before) :])
            return [(where, "", f"+ {new}")]
        if isinstance(kind, Bag):
            came, went = Counter(after) - Counter(before), Counter(before) - Counter(after)
            return [
                (where, "", f"{sign} {show_value(kind.of, value)}")
                for sign, values in (("+", came), ("-", went))
                for value in values.elements()
            ]
    if isinstance(kind, Set) and isinstance(before, frozenset) and isinstance(after, frozenset):
        return [
            (where, "", f"{sign} {', '.join(sorted(show_value(kind.of, v) for v in values))}")
            for sign, values in (("+", after - before), ("-", before - after))
            if values
        ]
    return [(where, show_value(kind, before), show_value(kind, after))]
