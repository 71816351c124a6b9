"""Counterexamples: from packed states back to steps of the executable model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..model.interpreter import FullState, Interpreter, Step
from ..spec.language import Expression, Instance
from ..spec.language.typecheck import type_of
from ..spec.language.types import Key, Map, Record, Type, Value, show_value


class Disagreement(Exception):
    """Native code and the executable model see different things: a fault of the checker."""


@dataclass(frozen=True)
class TraceStep:
    """A step as shown: `actor` did `action` by `row`; `changes` are (where, before, after)."""

    actor: str
    action: str
    row: str
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


def follow(
    machine: Interpreter, path: list[bytes], packed: Callable[[FullState], bytes]
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
    table = step.action.table
    machine, _, event = table.partition(".")
    arguments: list[str] = []
    actor = machine
    for name, value in step.bound:
        if name.op == "element":
            arguments += _content(name, value)
            continue
        text = show_value(name.data.type, value)
        if isinstance(name.data.type, Key) and name.data.name == machine:
            actor = text
        else:
            arguments.append(text)
    inside = ", ".join(arguments)
    row = instance.row_names[step.row].partition("/")[2]
    changes: list[tuple[str, str, str]] = []
    if following is not None:
        for variable, a, b in zip(instance.variables, before, following, strict=True):
            if a != b:
                changes += differences(variable.type, variable.name, a, b)
    return TraceStep(actor, f"{event}({inside})" if inside else event, row, tuple(changes))


def _content(element: Expression, value: Value) -> list[str]:
    kind = type_of(element)
    if not isinstance(kind, Record) or not isinstance(value, tuple):
        return [str(value)]
    pairs = zip(kind.fields, value, strict=True)
    return [f"{n}={show_value(of, v)}" for (n, of), v in pairs if n != "present"]


def differences(kind: Type, where: str, before: Value, after: Value) -> list[tuple[str, str, str]]:
    """Only what changed, as (where, before, after), down to the smallest part."""
    if before == after:
        return []
    if isinstance(kind, Map) and isinstance(before, tuple) and isinstance(after, tuple):
        pairs = enumerate(zip(before, after, strict=True))
        return [
            change
            for at, (a, b) in pairs
            for change in differences(kind.of, f"{where}[{kind.key}{at}]", a, b)
        ]
    if isinstance(kind, Record) and isinstance(before, tuple) and isinstance(after, tuple):
        return [
            change
            for (name, of), a, b in zip(kind.fields, before, after, strict=True)
            for change in differences(of, f"{where}.{name}", a, b)
        ]
    return [(where, show_value(kind, before), show_value(kind, after))]
