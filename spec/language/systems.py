"""Systems: machines put together with a network, an environment, bounds and properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .errors import DeclarationError
from .expressions import ConstantInfo, Expression, Operand, children_first, lift
from .properties import Property, check_from_outside
from .protocols import ONE_PROTOCOL, Protocols
from .tables import Event, Loss, Machine, Message, Table
from .types import Key


@dataclass(frozen=True)
class Channel:
    """How messages of one kind travel: delayed at will, at most `capacity` an address.

    They overtake each other, unless the channel is `ordered`: then only the first one of an address
    can be taken, lost or doubled. A row that would send into a full channel waits. `lossy`: any
    message in flight may vanish, without bound. `duplicates`: how often in a run a message in
    flight may be doubled.
    """

    message: Message
    capacity: Operand = 1
    ordered: bool = False
    lossy: bool = False
    duplicates: Operand = 0


Budgets: TypeAlias = (
    Mapping[Event, Operand]
    | Mapping[tuple[Event, ...], Operand]
    | Mapping[Event | tuple[Event, ...], Operand]
)


DEFAULT = "default"


@dataclass(frozen=True, eq=False)
class System:
    """What is checked: tables, the channels between machines, and what must hold.

    `fixed` settles constants of shared machines that this system has no choice of. `bounds` names
    values of the others that are chosen together; those called "default" are the system's own
    defaults, beneath the rest and above the constants' own. `budgets` bound how often an event, or
    any of several, may happen in a run. `interchangeable`
    keys may be renamed without changing anything, which symmetry reduction uses. A state without a
    successor is a deadlock unless `terminal` holds in it. `lemmas` are further invariants, of no
    interest by themselves, that proofs of the properties may use. `reach` says what the default
    bounds reach and what they don't.

    Raises DeclarationError for a feature that the protocols don't declare, a constant that the
    system doesn't, a bound outside of its constant's range, a message without a channel, a property
    of a machine without a table, a budget of an event without one, and for two tables, machines,
    properties or channels of one name.
    """

    name: str
    tables: tuple[Table, ...]
    properties: tuple[Property, ...]
    doc: str = ""
    constants: tuple[Expression, ...] = ()
    fixed: Mapping[Expression, int] = field(default_factory=dict[Expression, int])
    bounds: Mapping[str, Mapping[Expression, int]] = field(
        default_factory=dict[str, Mapping[Expression, int]]
    )
    protocols: Protocols = ONE_PROTOCOL
    channels: tuple[Channel, ...] = ()
    budgets: Budgets = field(default_factory=dict[Event, Operand])
    interchangeable: tuple[Key, ...] = ()
    terminal: Operand = False
    lemmas: tuple[Property, ...] = ()
    reach: str = ""

    def __post_init__(self) -> None:
        self._unique("table", [table.name for table in self.tables])
        self._unique("machine", [machine.name for machine in self._every_machine()])
        self._unique("property", [item.name for item in (*self.properties, *self.lemmas)])
        constants = (*self.constants, *self.fixed)
        self._unique("constant", [constant.data.name for constant in constants])
        self._unique("channel", [channel.message.name for channel in self.channels])
        self._unique(
            "budget", [event.name for events in self.budgets for event in events_of(events)]
        )
        try:
            check_from_outside(self.end)
        except DeclarationError as error:
            raise DeclarationError(f"system {self.name}, terminal: {error}") from None
        for name, values in self.bounds.items():
            try:
                self._check_bounds(values)
            except DeclarationError as error:
                raise DeclarationError(f"system {self.name}, bounds {name}: {error}") from None
        for where, part in self.parts():
            try:
                self._check_names(part)
            except DeclarationError as error:
                raise DeclarationError(f"{where}: {error}") from None
        for event in (event for events in self.budgets for event in events_of(events)):
            if all(table.on != event for table in self.tables):
                raise DeclarationError(f"system {self.name}: no table takes {event.name}")
        channels = {channel.message for channel in self.channels}
        for table in self.tables:
            sent = {s.message for row in table.rows for s in table.sendings(row)}
            taken = table.on.message if isinstance(table.on, Loss) else table.on
            wanted = sent | ({taken} if isinstance(taken, Message) else set[Message]())
            for missing in wanted - channels:
                raise DeclarationError(
                    f"system {self.name}: {missing.name} (table {table.name}) has no channel"
                )

    def _every_machine(self) -> list[Machine]:
        every = [m for table in self.tables for m in (table.machine, *table.elsewhere)]
        return list(dict.fromkeys(every))

    def parts(self) -> Iterator[tuple[str, Expression]]:
        """Every expression, with where it stands."""
        for table in self.tables:
            yield f"table {table.name}", table.when
            for row in table.rows:
                parts = [row.guard, row.during]
                parts += [part for update in table.updates(row) for part in update]
                for sending in table.sendings(row):
                    parts += [sending.when, *(value for _, value in sending.fields)]
                for part in parts:
                    yield f"table {table.name}, row {row.name!r}", part
        for item in (*self.properties, *self.lemmas):
            yield f"property {item.name}", item.expression
        yield f"system {self.name}, terminal", self.end

    def _check_names(self, expression: Expression) -> None:
        features = {feature.data.name for feature in self.protocols.every_feature}
        constants = {constant.data.name for constant in (*self.constants, *self.fixed)}
        machines = {machine.name for machine in self.machines}
        for node in children_first(expression):
            if node.op == "feature" and node.data.name not in features:
                raise DeclarationError(f"{node.data.name} is no feature of {self.name}'s protocols")
            if node.op == "constant" and node.data.name not in constants:
                raise DeclarationError(f"{node.data.name} is no constant of {self.name}")
            if node.op == "field" and node.data.machine not in machines:
                raise DeclarationError(
                    f"`{node}` is a field of {node.data.machine}, which has no table in {self.name}"
                )

    def _check_bounds(self, values: Mapping[Expression, int]) -> None:
        for constant, value in values.items():
            if constant not in self.constants:
                raise DeclarationError(f"`{constant}` is no constant of {self.name}")
            constant.data.check(value)

    def _unique(self, what: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"system {self.name}: two {what} declarations of {name}")

    @property
    def constant_infos(self) -> tuple[ConstantInfo, ...]:
        """What the constants that a run may set stand for."""
        return tuple(constant.data for constant in self.constants)

    def values(self, bounds: str = DEFAULT) -> dict[str, int]:
        """Every constant by name, as it is under the bounds of that name.

        Raises DeclarationError where there are none.
        """
        if bounds not in self.bound_names:
            known = ", ".join(self.bound_names)
            raise DeclarationError(f"{self.name} has no bounds called {bounds} (it has: {known})")
        values = {info.name: info.default for info in self.constant_infos}
        for name in (DEFAULT, bounds):
            chosen = self.bounds.get(name, {})
            values.update((constant.data.name, value) for constant, value in chosen.items())
        return values

    @property
    def bound_names(self) -> tuple[str, ...]:
        """The names of the bounds, the default ones first."""
        return tuple(dict.fromkeys((DEFAULT, *self.bounds)))

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of the tables, each once, in order."""
        return tuple(self._every_machine())

    @property
    def end(self) -> Expression:
        """`terminal` as an expression."""
        return lift(self.terminal)


def events_of(events: Event | tuple[Event, ...]) -> tuple[Event, ...]:
    """The events that share a budget."""
    return events if isinstance(events, tuple) else (events,)
