"""A machine of a system on its own: events one after another, with plain values, and all that each
of them changes, in words.

A value is written as in JSON: a set, a sequence, a map by key and a record are lists, in which what
is left out at the end is as at first. In words, a field's new value follows its name, and a
message its name: `state`, `batches`, an answer and, of a message, `error` go without name. Of a
message or record the fields are told that aren't as at first; 1/5 is a producer id and epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from epochfence.language import Event, Message, System, instantiate
from epochfence.language.types import (
    Bag,
    Bool,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
    Type,
    Value,
    initial_value,
)
from epochfence.model.engine.interpreter import Step
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.spec import network
from epochfence.tests.spec.both import Both

NOT_ENABLED, NOTHING = "not enabled", "nothing"
WITHOUT_NAME = ("state", "batches")
PAIR = ("producer_id", "producer_epoch")
ON_THE_WAY = ("lost ", "held up ")  # what happens to a message before it arrives


@cache
def model(system: System, release: str, off: tuple[str, ...], **bounds: int) -> Both:
    """A system in a release without some features, with those named `+feature`."""
    on = [name[1:] for name in off if name.startswith("+")]
    off = tuple(name for name in off if not name.startswith("+"))
    return Both(instantiate(system, release, bounds, switch_on=on, switch_off=off))


@cache
def first_state(of: Both) -> dict[str, Value]:
    """The first of a model's initial states, by field."""
    return dict(of.as_mapping(next(iter(of.initial_states()))))


@cache
def empty_network(of: Both) -> dict[str, Value]:
    """The fields of messages on the network, without any."""
    kinds, constants = of.types, of.instance.constants
    return {n: initial_value(kinds[n], constants) for n in kinds if n.startswith("network.")}


BARE: Any = dict.fromkeys(("properties", "progress", "fairness", "lemmas", "unreached", "logs"), ())
"""The parts of a system that a machine on its own leaves out."""


@cache
def _asked_for(system: System, machine: str) -> frozenset[str]:
    own = tuple(table for table in system.tables if table.machine.name == machine)
    return replace(system, tables=own, budgets={}, **BARE).feature_names


class Alone:
    """A machine of a model on its own, from its first state on or with other fields given.

    A field is one of the machine's or, where it has none of that name, one of the only other
    machine that has; `machine.field` says which. Where there is one instance, its value is that
    instance's.
    """

    machine: str
    system: System
    bounds: Mapping[str, int]

    def __init__(self, release: str = NEWEST, *off: str, **given: Value) -> None:
        self.model = model(self.system, release, off, **self.bounds)
        self.state = dict(first_state(self.model))
        self.set(**given)

    @classmethod
    def features(cls, release: str, off: tuple[str, ...]) -> frozenset[str]:
        """Of the features of a release, without some and with those named `+feature`, those that
        the machine's tables ask for: with the same ones it does the same."""
        on = {name[1:] for name in off if name.startswith("+")}
        here = cls.system.protocols.features_at(release) - {*off} | on
        return here & _asked_for(cls.system, cls.machine)

    # Fields ---------------------------------------------------------------------------------------

    def set(self, **given: Value) -> None:
        """Gives fields other values."""
        for name, value in given.items():
            full = self._full(name)
            self.state[full] = (value,) if self._of_one(full) else value

    def __getitem__(self, name: str) -> Any:
        """A field."""
        full = self._full(name)
        value: Any = self.state[full]
        return value[0] if self._of_one(full) else value

    def _full(self, name: str) -> str:
        for full in (f"{self.machine}.{name}", name):
            if full in self.state:
                return full
        (full,) = (each for each in self.state if each.partition(".")[2] == name)
        return full

    def _of_one(self, full: str) -> bool:
        kind = self.model.types[full]
        return isinstance(kind, Map) and kind.key.count(self.model.instance.constants) == 1

    def _initial(self, kind: Type) -> Any:
        return initial_value(kind, self.model.instance.constants)

    # Steps ----------------------------------------------------------------------------------------

    def steps(self, event: str | None = None) -> Iterator[tuple[str, str, Step]]:
        """What may happen, or what that event may do: the event, the row and the step."""
        table = None if event is None else f"{self.machine}.{event}"
        for step in self.model.steps(tuple(self.state.values()), table):
            name = step.action.table.removeprefix(f"{self.machine}.")
            yield name, self.model.instance.row_names[step.row].partition("/")[2], step

    def take(self, step: Step) -> None:
        """Goes on with a step."""
        assert step.state is not None, step.out_of_range
        self.state = self.model.as_mapping(step.state)

    def does(self, event: Event | str, **parameters: Value) -> str | None:
        """Takes an event with these parameters; the row taken, none where it is not enabled."""
        for _, row, step in self.steps(event if isinstance(event, str) else event.name):
            bound = {v.data.name: value for v, value in step.bound if v.op == "variable"}
            if all(bound[name] == value for name, value in parameters.items()):
                self.take(step)
                return row
        return None

    def arrives(self, message: Message, *address: int, **content: Value) -> None:
        """Puts a message on the network; what isn't said of it has initial values."""
        network.put(self.model, self.state, message, address, content)

    def sent(self, message: Message, *address: int) -> dict[str, Value] | None:
        """What it has sent there, taken off the network; none where there is none."""
        return network.take(self.model, self.state, message, address)

    # In plain values and words --------------------------------------------------------------------

    def set_written(self, fields: Mapping[str, Any]) -> None:
        """Gives fields the values written."""
        for name, value in fields.items():
            full = self._full(name)
            self.state[full] = self.decoded(
                self.model.types[full], [value] if self._of_one(full) else value
            )

    def happens(self, event: str, values: Mapping[str, Any]) -> tuple[str, str]:
        """The row that an event takes, and all that it changes and sends; that doesn't stay on the
        network."""
        message, address = self._message(event), tuple[int, ...]()
        before = dict(self.state)
        if message is not None:
            keys = dict(message.address)
            address = tuple(values.get(key, 0) for key in keys)
            kinds = dict(message.content.fields)
            content = {n: self.decoded(kinds[n], v) for n, v in values.items() if n not in keys}
            self.arrives(message, *address, **content)
            values = {}
        row = self.does(event, **values)
        if row is None:
            self.state = before
            return "", NOT_ENABLED
        asked = message and (f"{message.name}Response", address)
        told = "; ".join(self._changes(before, asked or ("", ())))
        self.state |= empty_network(self.model)
        return row, told or NOTHING

    def _message(self, event: str) -> Message | None:
        for prefix in ON_THE_WAY:
            event = event.removeprefix(prefix)
        channels = self.model.instance.system.channels
        return next((each.message for each in channels if each.message.name == event), None)

    def decoded(self, kind: Type, written: Any) -> Any:
        """The value of a type that is written so."""
        match kind:
            case Optional():
                return None if written is None else self.decoded(kind.of, written)
            case Set():
                return frozenset(written)
            case Sequence() | Bag():
                return tuple(self.decoded(kind.of, each) for each in written)
            case Record() | Map():
                first = self._initial(kind)
                kinds = [of for _, of in kind.fields] if isinstance(kind, Record) else None
                assert len(written) <= len(first)
                own = [
                    self.decoded(kinds[n] if kinds else kind.of, each)  # type: ignore[union-attr]
                    for n, each in enumerate(written)
                ]
                return (*own, *first[len(own) :])
            case _:
                return written

    def words(self, kind: Type, value: Any) -> str:
        """A value in words: of a record, what isn't as at first."""
        match kind:
            case Optional():
                return "none" if value is None else self.words(kind.of, value)
            case Set():
                return "{" + ", ".join(self.words(kind.of, each) for each in sorted(value)) + "}"
            case Sequence() | Bag():
                return "[" + ", ".join(self.words(kind.of, each) for each in value) + "]"
            case Map():
                return "(" + ", ".join(self.words(kind.of, each) for each in value) + ")"
            case Record() if kind.name == "ProducerBatch":
                return _batch(*value)
            case Record():
                return "(" + ", ".join(self._fields(kind, value)) + ")"
            case Bool():
                return "yes" if value else "no"
            case _:
                return str(value)

    def _fields(self, kind: Record, value: Any) -> Iterator[str]:
        content = dict(zip((name for name, _ in kind.fields), value, strict=True))
        for (name, of), first, now in zip(kind.fields, self._initial(kind), value, strict=True):
            if name in PAIR and {*PAIR} <= content.keys():  # an id means nothing without an epoch
                if name == PAIR[1] and now != first:
                    yield f"{content[PAIR[0]]}/{now}"
            elif name == "error":
                yield str(now)
            elif now is True:
                yield name
            elif now != first:
                yield f"{name} {self.words(of, now)}"

    def is_told(self, name: str, before: Mapping[str, Any]) -> bool:
        """Whether a field is among what has changed."""
        return self.state[name] != before[name]

    def _changes(self, before: Mapping[str, Any], asked: tuple[str, Any]) -> Iterator[str]:
        told = [name for name in self.state if self.is_told(name, before)]
        for full in sorted(told, key=lambda name: not name.startswith("network.")):
            owner, _, name = full.partition(".")
            kind, old, new = self.model.types[full], before[full], self.state[full]
            if owner == "network":
                yield from self._sent(name, (), kind, old, new, asked)
            elif owner != "budget":
                if self._of_one(full):
                    assert isinstance(kind, Map)
                    kind, old, new = kind.of, old[0], new[0]  # type: ignore[index]
                yield from self._changed("" if name in WITHOUT_NAME else name, kind, old, new)

    def _changed(self, name: str, kind: Type, old: Any, new: Any) -> Iterator[str]:
        if isinstance(kind, Map):
            for key, (before, after) in enumerate(zip(old, new, strict=True)):
                if before != after:
                    path = f"{name}.{key}" if name else str(key)
                    yield from self._changed(path, kind.of, before, after)
        elif isinstance(kind, Sequence) and new[: len(old)] == old:
            yield f"{name} + {', '.join(self.words(kind.of, each) for each in new[len(old) :])}"
        else:
            yield f"{name} {self.words(kind, new)}".lstrip()

    def _sent(
        self, name: str, address: tuple[int, ...], kind: Type, old: Any, new: Any,
        asked: tuple[str, Any],
    ) -> Iterator[str]:  # fmt: skip
        if isinstance(kind, Map):
            for key, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from self._sent(name, (*address, key), kind.of, before, after, asked)
            return
        assert isinstance(kind, (Bag, Sequence))
        assert isinstance(kind.of, Record)
        for each in new:
            if each not in old:
                to = "".join(f".{key}" for key in address) if any(address) else ""
                content = ", ".join(self._fields(kind.of, each))
                yield content if (name, address) == asked else f"{name}{to}({content})"


def _batch(status: str, producer_id: int, epoch: int, sequence: int, *flags: bool) -> str:
    """A batch of a client's, as short as it is frequent."""
    if status not in ("SENT", "QUEUED"):
        return status
    marks = zip(flags, ("in retry", "reset", "unanswered"), strict=True)
    return ", ".join([f"{status} {producer_id}/{epoch} #{sequence}", *(m for on, m in marks if on)])
