"""Counterexamples: from packed states back to steps of the executable model."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as TypingSequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from ...language import Bag, Instance, Map, Message, Record, Sequence, Set
from ...language.declaration.notebook import Rendered
from ...language.declaration.typecheck import type_of
from ...language.systems import NETWORK
from ...language.terms.values import evaluate
from ...language.types import Type, Value, show_value
from ...model.engine.interpreter import FullState, Interpreter, Step
from .chart.logs import Logs, logs_of
from .plain_data import as_data, state_as_data

MOST_WAYS = 64  # most runs that are followed at once


class ReplayError(Exception):
    """An engine and the executable model differ: a bug of the checker."""


@dataclass(frozen=True)
class TraceStep:
    """A step in its shown form: `actor` did `action` by `row`, sent `sends`, dropped `loses` from
    the network, and made `changes`, each with its place, the value before and the value after. If a
    value only grew or shrank, the value after has only the additions (+) or removals (-). As data,
    `about` is the taken message, and `sent` and `dropped` are the others: each has its `message`,
    its sender `from` (null if unknown), its addressee `to`, and its `fields`.
    """

    actor: str
    action: str
    row: str
    sends: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]
    loses: tuple[str, ...] = ()
    about: Mapping[str, Any] | None = None
    sent: tuple[Mapping[str, Any], ...] = ()
    dropped: tuple[Mapping[str, Any], ...] = ()
    table: str = ""
    """The name of the row's table."""


@dataclass(frozen=True)
class Trace(Rendered):
    """A run from an initial state to a fault.

    `states` are plain values by variable, `data` the same as JSON has them; there is one more of
    them than of `steps`, unless the last step leaves a range and reaches no state. `initial` shows
    the first one; `chosen` are the variables of it that may begin with another value. From the
    state of index `loop` on a run repeats its last steps for ever; `fair` lists the events that
    must happen along the loop, if possible. `why` are the parts of a broken property that are
    false; for a deadlock, who waits and for which event. The `refused` are the rows that it would
    need then, each with its table.
    """

    initial: tuple[tuple[str, str], ...]
    steps: tuple[TraceStep, ...]
    states: tuple[FullState, ...]
    conclusion: str
    data: tuple[Mapping[str, Any], ...] = ()
    chosen: tuple[str, ...] = ()
    loop: int | None = None
    fair: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of actors and messages in pictures, where they differ."""
    logs: tuple[Logs, ...] = ()
    """The logs in each of the states."""
    harmful: int | None = None
    """The number of the harmful step, if a property doesn't hold at the end."""

    @property
    def taken(self) -> list[str]:
        """The steps, each as event and row."""
        return [f"{step.action.partition('(')[0]}/{step.row}" for step in self.steps]

    def as_json(self) -> dict[str, Any]:
        """The trace for JSON."""
        return {
            "initial": dict(self.initial),
            "chosen": list(self.chosen),
            "states": [dict(state) for state in self.data],
            "steps": [
                {
                    "actor": s.actor,
                    "action": s.action,
                    "row": s.row,
                    "message": s.about,
                    "sent": list(s.sent),
                    "dropped": list(s.dropped),
                    "sends": list(s.sends),
                    "loses": list(s.loses),
                    "changes": [
                        {"where": where, "before": before, "after": after}
                        for where, before, after in s.changes
                    ],
                }
                for s in self.steps
            ],
            "loop": self.loop,
            "fair": list(self.fair),
            "conclusion": self.conclusion,
            "why": list(self.why),
        }


_ON_A_STATE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def represent(address: int, state: bytes) -> bytes:
    """The packed state that stands for `state` under the symmetry of the kernel at `address`."""
    buffer = ctypes.create_string_buffer(state, len(state) + 16)
    _ON_A_STATE(address)(ctypes.addressof(buffer))
    return buffer.raw[: len(state)]


Packed = TypeVar("Packed")


@dataclass(frozen=True)
class Way:
    """A run of the executable model: its last state, its last step and the run before. `changes` is
    the number of changes of the actor.
    """

    state: FullState
    step: Step | None = None
    before: Way | None = None
    changes: int = 0

    def changes_with(self, step: Step) -> int:
        """The number of changes with one more step."""
        turns = self.step is not None and actor_of(self.step) != actor_of(step)
        return self.changes + turns

    def run(self) -> tuple[list[FullState], list[Step]]:
        """The states, and the steps between them."""
        states, steps = ([], []) if self.before is None else self.before.run()
        return [*states, self.state], [*steps, *([] if self.step is None else [self.step])]


def ways_along(
    machine: Interpreter,
    levels: TypingSequence[Collection[Packed]],
    packed: Callable[[FullState], Packed],
    off: Collection[int] = (),
    most: int = MOST_WAYS,
) -> list[Way]:
    """The executable model's runs through a state of each level. A packed state may represent
    several states. For each last state and actor it keeps the run with the fewest changes of the
    actor; at most `most`, the best first. Rows in `off` take no step.

    Raises ReplayError if the model can't take one of the steps.
    """
    ways = [Way(s) for s in machine.initial_states() if packed(s) in levels[0]][:most]
    if not ways:
        raise ReplayError("no initial state of the model is the first one of the trace")
    for at, wanted in enumerate(levels[1:], 1):
        best: dict[tuple[FullState, str], Way] = {}
        taken: dict[FullState, list[tuple[Step, str]]] = {}  # steps with their actors
        for way in ways:
            if way.state not in taken:
                taken[way.state] = [
                    (step, actor_of(step))
                    for step in machine.steps(way.state)
                    if step.state is not None and step.row not in off
                ]
            for step, actor in taken[way.state]:
                assert step.state is not None
                arrived = step.state, actor
                changes = way.changes_with(step)
                known = best.get(arrived)
                better = known is None or changes < known.changes
                if better and (known is not None or packed(step.state) in wanted):
                    best[arrived] = Way(step.state, step, way, changes)
        if not best:
            raise ReplayError(f"the model can't take step {at} of the trace")
        ways = sorted(best.values(), key=attrgetter("changes"))[:most]
    return ways


def actor_of(step: Step) -> str:
    """The actor of a step: an instance of a machine, or a machine without instances."""
    own = [show_value(n.data.type, value) for n, value in step.bound if n is step.action.this]
    return own[0] if own else step.action.table.partition(".")[0]


def shown_trace(
    instance: Instance,
    states: list[FullState],
    steps: list[Step],
    conclusion: str,
    why: tuple[str, ...] = (),
) -> Trace:
    """The trace of a run."""
    shown: list[TraceStep] = []
    for at, step in enumerate(steps):
        following = states[at + 1] if at + 1 < len(states) else None
        shown.append(shown_step(instance, step, states[at], following))
    initial: list[tuple[str, str]] = []
    for variable, value in zip(instance.variables, states[0], strict=True):
        initial.append((variable.name, show_value(variable.type, value)))
    data = tuple(state_as_data(instance, state) for state in states)
    chosen = tuple(variable.name for variable in instance.variables if len(variable.initials) > 1)
    return Trace(
        tuple(initial), tuple(shown), tuple(states), conclusion, data, chosen, why=why,
        titles=titles_of(instance), logs=logs_of(instance, states),
    )  # fmt: skip


def actor_states(instance: Instance, trace: Trace) -> list[dict[str, str]]:
    """The state of each actor in each state of a run, for machines with a state field."""
    found: list[dict[str, str]] = []
    for state in trace.states:
        values = dict(zip((v.name for v in instance.variables), state, strict=True))
        now: dict[str, str] = {}
        for machine in instance.system.machines:
            name = "" if machine.state is None else f"{machine.name}.{machine.state.data.name}"
            value = values.get(name)
            if machine.key is not None and isinstance(value, tuple):
                now |= {f"{machine.key}{at}": str(own) for at, own in enumerate(value)}
            elif value is not None:
                now[machine.name] = str(value)
        found.append(now)
    return found


def titles_of(instance: Instance) -> dict[str, str]:
    """The names of actors and messages in pictures."""
    titles: dict[str, str] = {}
    for machine in sorted(instance.system.machines, key=lambda each: not each.title):
        count = 1 if machine.key is None else machine.key.count(instance.constants)
        for number in range(count):
            name = machine.name if machine.key is None else f"{machine.key}{number}"
            titles.setdefault(name, machine.titled(number))
    for channel in instance.system.channels:
        if channel.message.title:
            titles[channel.message.name] = channel.message.title
    return titles


def shown_step(
    instance: Instance, step: Step, before: FullState, following: FullState | None
) -> TraceStep:
    """A step in its shown form; one that leaves a range has no `following` state."""
    machine, _, event = step.action.table.partition(".")
    actor = actor_of(step)
    message, taken = step.action.message, _taken(instance, step, before)
    if message is not None:
        action = _shown(instance, message, event, *taken)
    else:
        free = [(type_of(n), value) for n, value in step.bound if n is not step.action.this]
        inside = ", ".join(show_value(kind, value) for kind, value in free if kind is not None)
        action = f"{event}({inside})" if inside else event
    sends: list[tuple[Message, Travelling]] = []
    loses: list[tuple[Message, Travelling]] = []
    changes: list[tuple[str, str, str]] = []
    messages = {f"{NETWORK}.{c.message.name}": c.message for c in instance.system.channels}
    if following is not None:
        for variable, a, b in zip(instance.variables, before, following, strict=True):
            kind = messages.get(variable.name)
            if kind is None:
                changes += differences(variable.type, variable.name, a, b)
                continue
            was, now = _travelling(variable.type, a), _travelling(variable.type, b)
            if kind == message and not step.action.adds:
                was[taken] -= 1
            sends += [(kind, each) for each in (now - was).elements()]
            loses += [(kind, each) for each in (was - now).elements()]
    prefix = f"{machine}."
    shown = tuple(
        (where.removeprefix(prefix).replace(f"[{actor}]", "", 1), a, b)
        if where.startswith(prefix) and (actor == machine or f"[{actor}]" in where)
        else (where, a, b)
        for where, a, b in changes
    )
    row = instance.row_names[step.row].partition("/")[2]

    def texts(messages: list[tuple[Message, Travelling]]) -> tuple[str, ...]:
        return tuple(_shown(instance, kind, kind.name, *each) for kind, each in messages)

    def data(messages: list[tuple[Message, Travelling]]) -> tuple[Mapping[str, Any], ...]:
        return tuple(_as_data(instance, kind, *each) for kind, each in messages)

    about = None if message is None else _as_data(instance, message, *taken)
    return TraceStep(
        actor, action, row, texts(sends), shown, texts(loses), about, data(sends), data(loses),
        step.action.table,
    )  # fmt: skip


Travelling: TypeAlias = tuple[tuple[int, ...], Value]  # a message's address and its content


def _taken(instance: Instance, step: Step, before: FullState) -> Travelling:
    """The message that a step takes, if any."""
    if step.action.message is None or step.action.taken is None:
        return (), None
    state = {v.name: value for v, value in zip(instance.variables, before, strict=True)}
    bound = dict(step.bound)
    content = evaluate(step.action.taken, state, instance.constants, bound)
    numbers = (bound[name] for name in step.action.bounds)
    return tuple(number for number in numbers if isinstance(number, int)), content


def _travelling(kind: Type, value: Value, address: tuple[int, ...] = ()) -> Counter[Travelling]:
    """The number of messages of each address and content in a channel."""
    assert isinstance(value, tuple)
    if not isinstance(kind, Map):
        return Counter((address, content) for content in value)
    found: Counter[Travelling] = Counter()
    for at, part in enumerate(value):
        found += _travelling(kind.of, part, (*address, at))
    return found


def _shown(
    instance: Instance, message: Message, name: str, address: tuple[int, ...], content: Value
) -> str:
    """The text of a message: its sender and addressee, if known, and its fields."""
    source, target = instance.system.origin(message), message.goes_to
    named = {
        field: show_value(key, at)
        for (field, key), at in zip(message.address, address, strict=True)
    }
    if source is None:
        inside = []
    else:
        first, second = (named.pop(end.field, end.machine) for end in (source, target))
        inside = [f"{first} → {second}"]
    return f"{name}({', '.join([*inside, *named.values(), *_fields(message.content, content)])})"


def _as_data(
    instance: Instance, message: Message, address: tuple[int, ...], content: Value
) -> dict[str, Any]:
    """A message as data: its name, sender and addressee, and its other fields."""
    source, target = instance.system.origin(message), message.goes_to
    named = {
        field: as_data(key, at) for (field, key), at in zip(message.address, address, strict=True)
    }
    sender = None if source is None else named.pop(source.field, source.machine)
    to = named.pop(target.field, target.machine)
    fields = dict(as_data(message.content, content))
    fields.pop("present", None)
    return {"message": message.name, "from": sender, "to": to, "fields": {**named, **fields}}


def _fields(kind: Type | None, value: Value) -> list[str]:
    if not isinstance(kind, Record) or not isinstance(value, tuple):
        return [str(value)]
    pairs = zip(kind.fields, value, strict=True)
    return [f"{n}={show_value(of, v)}" for (n, of), v in pairs if n != "present"]


def differences(kind: Type, where: str, before: Value, after: Value) -> list[tuple[str, str, str]]:
    """The changes as (place, before, after), for the smallest changed parts."""
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
