"""A machine at real ranges, with keys of any kind, does what the bounded system's rows do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from epochfence.language import Instance, LeftOut, Message, StandsFor, Table, instantiate
from epochfence.language.types import Enum, Map, Sequence, Type, Value, initial_value
from epochfence.model import Machine
from epochfence.model.engine.compiler.stepper import Stepper
from epochfence.model.engine.interpreter import FullState, Step
from epochfence.model.engine.values import Sparse
from epochfence.spec.systems import shipped


def name_of(key: int) -> str:
    """The keys that a bounded run numbers have names at real ranges."""
    return f"<{key}>"


class Renamed:
    """Values of a bounded system with its keys renamed to strings, but for numbered ones."""

    def __init__(self, instance: Instance, numbered: tuple[str, ...]) -> None:
        self.constants = instance.constants
        self.numbered = numbered

    def __call__(self, kind: Any, value: Any) -> Any:
        match kind:
            case Map():
                default = self(kind.of, initial_value(kind.of, self.constants))
                parts = {self(kind.key, k): self(kind.of, v) for k, v in enumerate(value)}
                return Sparse(default, parts)
            case None:
                return value
            case _ if type(kind).__name__ == "Key":
                return value if kind.name in self.numbered else name_of(value)
            case _ if type(kind).__name__ in ("Optional", "Set", "Sequence", "Bag"):
                if value is None or type(kind).__name__ == "Optional":
                    return None if value is None else self(kind.of, value)
                return type(value)(self(kind.of, part) for part in value)
            case _ if type(kind).__name__ == "Record":
                parts = zip(kind.fields, value, strict=True)
                return tuple(self(of, part) for (_, of), part in parts)
            case _:
                return value


BROKERS = ("transaction", "partition")
NUMBERED = ("producer_id", "record", "txn", "broker", "handler")


def _opened(instance: Instance, table: Table) -> Machine:
    """The table's machine, whose partitions and producers are named as one likes."""
    named = ("partitions", "producers")
    constants = {name: n for name, n in instance.constants.items() if name not in named}
    usual = instance.system.protocols.features_at(instance.protocol)
    return Machine(
        [table],
        protocol=instance.protocol,
        protocols=instance.system.protocols,
        constants=constants,
        switch_on=instance.features - usual,
        switch_off=usual - instance.features,
        reductions=[
            one
            for one in instance.system.reductions
            if isinstance(one, (LeftOut, StandsFor)) and not isinstance(one.of, (Message, Enum))
        ],
    )


def _given(
    instance: Instance,
    table: Table,
    step: Step,
    variables: dict[str, tuple[Type, Any]],
    rename: Renamed,
) -> dict[str, Any]:
    """What the table's event says in the step."""
    bound = {v.data.name: (v.data.type, value) for v, value in step.bound if v.op == "variable"}
    fields: dict[str, Any] = {}
    for name, kind in (
        *((v.data.name, v.data.type) for v in table.on.variables),
        *table.on.parameters,
    ):
        if name in bound:
            fields[name] = rename(kind, bound[name][1])
    queue = variables.get(f"network.{table.on.name.split()[-1]}")
    if queue is not None and isinstance(queue[1], tuple) and isinstance(queue[0], Map):
        first: Any = queue[1]
        kind_of: Any = queue[0]
        while isinstance(kind_of, Map):
            first, kind_of = first[bound[kind_of.key.name][1]], kind_of.of
        if isinstance(kind_of, Sequence):
            content: Any = kind_of.of
            pairs = zip(content.fields, first[0], strict=True)
            fields |= {str(n): rename(k, part) for (n, k), part in pairs}
    for taken, value in step.bound:
        if taken.op == "element":
            messages = (channel.message for channel in instance.system.channels)
            record = next(m.content for m in messages if m.name == taken.data)
            parts: Any = value
            for (name, kind), part in zip(record.fields, parts, strict=True):
                if name in dict(table.on.parameters):
                    fields[name] = rename(kind, part)
    return fields


def in_the_open(
    instance: Instance, table: Table, state: FullState, step: Step, machines: dict[str, Machine]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the table's machine after the step: as they are found, as they should be."""
    rename = Renamed(instance, NUMBERED)
    values = zip(instance.variables, state, strict=True)
    variables = {variable.name: (variable.type, value) for variable, value in values}
    if table.name not in machines:
        machines[table.name] = _opened(instance, table)
    machine = machines[table.name]
    fields = _given(instance, table, step, variables, rename)
    key = table.machine.key
    index: Any = None
    if key is not None:
        index = next(value for v, value in step.bound if v.op == "variable" and v.data.type == key)
        machine.this = rename(key, index)

    def own(values: FullState) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for variable, value in zip(instance.variables, values, strict=True):
            owner, _, name = variable.name.partition(".")
            if owner == table.machine.name:
                kind: Any = variable.type
                if key is not None:
                    kind, value = kind.of, value[index]  # type: ignore[index]
                found[name] = rename(kind, value)
        return found

    machine.put(**own(state))
    outside = {
        name.replace(".", "__", 1): rename(kind, value)
        for name, (kind, value) in variables.items()
        if name.replace(".", "__", 1) in machine._program.outside
    }
    machine.outside(**outside)
    outcome = machine.handle(table.on.name, **fields)
    assert outcome.row == instance.row_names[step.row].removeprefix(f"{table.name}/")
    assert step.state is not None
    sent = [(type(message).__name__, message._asdict()) for message in outcome.sent]
    for name, content in put_into_channels(instance, state, step.state, rename):
        assert any(
            name == of and all(plain(told[part], value) == value for part, value in content.items())
            for of, told in sent
        ), (table.name, name, content, sent)
    expected = own(step.state)
    return {name: plain(machine[name], value) for name, value in expected.items()}, expected


def in_flight(kind: Any, value: Any) -> Counter[Any]:
    """What is in a channel, whomever it is for."""
    if isinstance(kind, Map):
        return sum((in_flight(kind.of, part) for part in value), Counter[Any]())
    return Counter(value)


def put_into_channels(
    instance: Instance, before: FullState, after: FullState, rename: Renamed
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages that are in channels after a step and weren't before it, as at real ranges."""
    contents = {c.message.name: c.message.content for c in instance.system.channels}
    for variable, was, is_ in zip(instance.variables, before, after, strict=True):
        machine, _, name = variable.name.partition(".")
        if machine == "network":
            for parts in in_flight(variable.type, is_) - in_flight(variable.type, was):
                told = zip(contents[name].fields, parts, strict=True)
                yield name, {str(field): rename(kind, part) for (field, kind), part in told}


def plain(found: Any, expected: Any) -> Any:
    """What was found, records without their names, and maps at the keys that there are: at others a
    machine may have another value."""
    if isinstance(expected, Sparse):
        parts = {key: plain(found[key], value) for key, value in expected.items()}
        return Sparse(expected.default, parts)
    if isinstance(found, tuple) and isinstance(expected, tuple):
        return tuple(plain(f, e) for f, e in zip(found, expected, strict=True))
    return found


@pytest.mark.slow(6)
@pytest.mark.sample(1, of="engines: keys")
@pytest.mark.parametrize("release", ["2.0", "3.6", "4.0.0", "4.3"])
def test_keys_of_any_kind_make_no_difference(release: str) -> None:
    instance = instantiate(shipped("transactions"), release, {"faults": 2, "producer_ids": 3})
    stepper, random = Stepper(instance), Random(release)
    tables = {table.name: table for table in instance.system.tables}
    machines: dict[str, Machine] = {}
    starts: list[tuple[Value, ...]] = list(instance.initial_states())
    state, compared = starts[0], set[str]()
    for _ in range(2500):
        options = list(stepper.steps(state))
        if not options or random.random() < 0.01:
            state = random.choice(starts)
            continue
        step = random.choice(options)
        table = tables.get(step.action.table)
        # the application numbers its transactions, so that it runs on bounded keys only
        if table is not None and table.machine.name in BROKERS:
            found, expected = in_the_open(instance, table, state, step, machines)
            assert found == expected, step.action.table
            compared.add(table.name)
        assert step.state is not None
        state = step.state
    assert len(compared) >= 13
