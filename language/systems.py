"""Systems: machines with a network, an environment, bounds and properties."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from .declaration.arguments import check_kind, check_name, items, one_of, pairs, shown
from .declaration.errors import DeclarationError, declared_at
from .declaration.notebook import Rendered
from .declaration.pictures import LastRecord, Log
from .declaration.places import Place, here
from .declaration.typecheck import type_of
from .expressions import (
    ConstantInfo,
    Expression,
    Field,
    Operand,
    children_first,
    lift,
    naming,
)
from .instances.reductions import Reduced, Reduction
from .machines import Event, FieldInfo, Machine
from .messages import End, Loss, Message, Sending, instance_field
from .progress.fairness import Fairness
from .progress.rankings import Ranking
from .properties import Property, check_from_outside
from .protocols import ONE_PROTOCOL, Protocols
from .tables import Table
from .terms.folding import truth
from .terms.interned import Interned
from .types import Bool, Constants, Key, Type, named

_NUMBER = (int, Expression)
DEFAULT_CAPACITY = 1  # messages of an address in a channel
_OF_CHANNEL: dict[str, tuple[type, ...]] = {
    "capacity": (*_NUMBER, type(None)),
    "ordered": (bool,),
    "lossy": (bool,),
    "duplicates": _NUMBER,
}


@dataclass(frozen=True, eq=False)
class Channel(Interned):
    """The channel of one kind of messages: it delays them arbitrarily, and holds `capacity` an
    address.

    The default capacity is 1, and a check lists the rows that waited for it. Messages overtake each
    other, unless the channel is `ordered`: then only the first message of an address can be taken,
    lost or duplicated. A row that would send into a full channel waits. `lossy`: any message in
    flight may vanish, without bound. `duplicates` bounds the number of duplicates in a run.
    """

    message: Message
    capacity: Operand = None
    ordered: bool = False
    lossy: bool = False
    duplicates: Operand = 0
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_kind("a channel's message", self.message, Message)
        for name, kinds in _OF_CHANNEL.items():
            check_kind(f"channel {self.message.name}, {name}", getattr(self, name), *kinds)

    @property
    def most(self) -> Operand:
        """The most messages of an address in flight."""
        return DEFAULT_CAPACITY if self.capacity is None else self.capacity


Budgets: TypeAlias = (
    Mapping[Event, Operand]
    | Mapping[tuple[Event, ...], Operand]
    | Mapping[Event | tuple[Event, ...], Operand]
)


@dataclass(frozen=True)
class Unreached:
    """Rows and premises that no run reaches, for the reason `why`, if `when` on constants and
    features holds.

    `names` are rows as `table/row`, tables (for all their rows), and properties whose premise is
    never true. A result reports them separately from unreached rows without a known reason.
    """

    why: str
    names: tuple[str, ...]
    when: Operand = True


@dataclass(frozen=True)
class Reached:
    """A recorded run of a system: the rows (`table/row`) that it took, and the properties whose
    premises it met.

    If another run doesn't reach one of these, the difference of their settings is the reason.
    """

    system: str
    protocol: str
    constants: Mapping[str, int]
    rows: frozenset[str]
    premises: frozenset[str] = frozenset()

    @cached_property
    def _taken(self) -> frozenset[str]:
        return self.rows | {row.partition("/")[0] for row in self.rows}

    def reaches(self, name: str, system: System) -> bool:
        """Whether the run took this row (or a row of this table), or met this property's premise.
        A variant has its system's properties; one of another system may be another one."""
        if name in self._taken:
            return True
        return name in self.premises and system.name.partition("+")[0] == self.system

    def why_not(
        self, system: System, constants: Constants, features: Collection[str]
    ) -> str | None:
        """The reason why a run of a system needn't reach the same. It is None if the recorded run
        is of this system with the same features and no larger constants.
        """
        other = self.system != system.name
        every = self.constants if other else {**system.values(DEFAULT), **self.constants}
        larger = {name: n for name, n in every.items() if n > constants.get(name, n)}
        known = system.feature_names
        here, there = known & set(features), known & system.protocols.features_at(self.protocol)
        same = here == there
        if same and not larger and not other:
            return None
        release = "" if same else f" in {self.protocol}"
        settings = " with " * bool(larger) + ", ".join(f"{n}={v}" for n, v in larger.items())
        if other:
            return f"another system: a run of {self.system}{release}{settings}"
        return f"other settings: a run{release}{settings}"


@dataclass(frozen=True)
class Refusal:
    """Settings that a system refuses: those for which `when` on constants and features holds. `why`
    contains the name of the declaration's error, if there is one.
    """

    why: str
    when: Operand

    def applies(self, constants: Constants, features: Collection[str]) -> bool:
        """Whether a system at these constants and features is refused."""
        return truth(lift(self.when), constants, features) is True


DEFAULT = "default"
NETWORK, BUDGET = "network", "budget"  # prefixes of variables: messages in flight, spent budgets
_COLLECTIONS: dict[str, type | tuple[type, ...]] = {
    "tables": Table, "properties": Property, "constants": Expression, "channels": Channel,
    "interchangeable": Key, "lemmas": Property, "unreached": Unreached, "refusals": Refusal,
    "reached": Reached, "progress": Property, "fairness": Fairness, "rankings": Ranking,
    "observed": Expression, "logs": (Log, LastRecord),
}  # fmt: skip
_MAPPINGS = {
    "fixed": "{constant: number}",
    "bounds": "{name: {constant: number}}",
    "budgets": "{event: number}",
    "initials": "{field: value}",
}


@dataclass(frozen=True, eq=False)
class System(Rendered):
    """A system to check: tables, channels between machines, and properties.

    * `constants` may be set by a run; `fixed` gives values to constants of shared machines that a
      run can't set. `bounds` are named sets of values; the set "default" overrides the constants'
      own defaults.
    * `budgets` bound how often an event, or any of several events, may happen in a run.
    * `interchangeable` keys can be renamed without effect: symmetry reduction uses them.
    * A state without a next state is a deadlock unless `terminal` holds in it.
    * `progress` are progress properties, checked in runs with the assumed `fairness`; `rankings`
      prove them (a ranking of a property that isn't selected is ignored).
    * `lemmas` are auxiliary invariants for proofs.
    * `reach` describes the reach of the default bounds. `unreached` declares rows and premises that
      no run reaches, `reached` are recorded runs that give the reasons of other rows, and
      `refusals` are settings that the system refuses.
    * `reductions` are the parts of the machines that the system leaves out, with
      reasons. `initials` override initial values of fields. `observed` are fields that are
      visible from outside, like messages. `logs` are the logs that pictures show.

    Raises DeclarationError for: an undeclared feature or constant; a bound outside its constant's
    range; a message without a channel; a property of a machine without a table; a budget of an
    event without a table; an unknown name in `unreached`; a constant and a field with one name in
    an expression; a property in the list of another kind; fairness of an event without a table or
    by an unknown row or with a budget; two tables, machines, properties or channels with one name.
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
    unreached: tuple[Unreached, ...] = ()
    reached: tuple[Reached, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    progress: tuple[Property, ...] = ()
    fairness: tuple[Fairness, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    initials: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    observed: tuple[Expression, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    logs: tuple[Log | LastRecord, ...] = ()
    changed_rows: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The rows that changes replace, as `table/row`, with the name of each change."""
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""
    reduced: Reduced | None = field(default=None, repr=False)
    """The reductions, prepared to rewrite declarations; set automatically."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_name("a system", self.name)
        for name, kind in _COLLECTIONS.items():
            where = f"system {self.name}, {name}"
            what = "log" if isinstance(kind, tuple) else kind.__name__.lower()
            given = items(where, getattr(self, name), kind, what)
            object.__setattr__(self, name, given)
        for name, form in _MAPPINGS.items():
            pairs(f"system {self.name}, {name}", getattr(self, name), form)
        if self.reductions:
            self._reduce()
        if self.reduced is not None:
            self.reduced.are_done(self.tables)
        named = {item.name for item in self.progress}
        ranked = (item for item in self.rankings if item.name in named)
        object.__setattr__(self, "rankings", tuple(ranked))
        self._check_kinds()
        self._unique("table", [table.name for table in self.tables])
        self._unique("machine", [machine.name for machine in self._every_machine()])
        for name in (NETWORK, BUDGET):
            if name in [machine.name for machine in self._every_machine()]:
                raise DeclarationError(
                    f"system {self.name}: a machine can't have the name {name}, because traces use "
                    "it for the system's own part of the state: choose another"
                )
        self._unique("property", [item.name for item in self.every_property])
        constants = (*self.constants, *self.fixed)
        self._unique("constant", [constant.data.name for constant in constants])
        self._unique("channel", [channel.message.name for channel in self.channels])
        self._unique(
            "budget", [event.name for events in self.budgets for event in events_of(events)]
        )
        with declared_at(None, f"system {self.name}, terminal"):
            check_from_outside(self.end)
        for name, values in self.bounds.items():
            with declared_at(None, f"system {self.name}, bounds {name}"):
                self._check_bounds(values)
        known: set[Expression] = set()
        logs = ((f"log {log.title}", part) for log in self.logs for part in log.parts)
        for where, part in (*self.parts(), *logs):
            with declared_at(None, where):
                self._check_names(part, known)
        self._check_tables()
        self._check_types()
        self._check_unreached()
        self._check_progress()

    def unreduced(self, table: Table) -> Table:
        """The table before the reductions, with rows for real ranges."""
        given: tuple[Table, ...] = () if self.reduced is None else self.reduced.given["tables"]
        return next((whole for whole in given if whole.name == table.name), table)

    def _reduce(self) -> None:
        """Applies the reductions to all parts of the declaration."""
        reduced = self.reduced
        is_first = reduced is None or reduced.reductions != self.reductions
        if reduced is None or is_first:
            with declared_at(None, f"system {self.name}"):
                reduced = Reduced(self.reductions, self.fixed)
                reduced.check(self.tables)
                reduced.machines = {machine.name: machine for machine in self._every_machine()}
            names = (
                "tables", "properties", "progress", "lemmas", "rankings", "fairness", "budgets",
                "channels", "terminal", "initials", "logs",
            )  # fmt: skip
            reduced.given = {name: getattr(self, name) for name in names}
            object.__setattr__(self, "reduced", reduced)

        def put(name: str, values: object) -> None:
            object.__setattr__(self, name, values)

        put("tables", tuple(map(reduced.table, self.tables)))
        if is_first:
            reduced.tables = self.tables
        for name in ("properties", "progress"):
            put(name, tuple(map(reduced.property, getattr(self, name))))
        put("lemmas", tuple(map(reduced.lemma, self.lemmas)))
        put("rankings", tuple(map(reduced.ranking, self.rankings)))
        put("fairness", tuple(map(reduced.fairness, self.fairness)))
        put("logs", tuple(log.changed(reduced.expression) for log in self.logs))
        put("budgets", reduced.budgets(dict(self.budgets.items())))
        channels = (
            replace(channel, message=reduced.message(channel.message))
            for channel in self.channels
            if channel.message not in reduced.messages
        )
        put("channels", tuple(channels))
        put("terminal", reduced.expression(lift(self.terminal)))
        initials = {f: v for f, v in self.initials.items() if f.data not in reduced.left}
        put("initials", initials)

    def _check_tables(self) -> None:
        for event in (event for events in self.budgets for event in events_of(events)):
            if all(table.on != event for table in self.tables):
                raise DeclarationError(f"system {self.name}: no table takes {event.name}")
        channels = {channel.message for channel in self.channels}
        for table in self.tables:
            for missing in table.messages - channels:
                raise DeclarationError(
                    f"system {self.name}: {missing.name} (table {table.name}) has no channel"
                )

    def _check_kinds(self) -> None:
        where = f"system {self.name}"
        check_kind(f"{where}, protocols", self.protocols, Protocols)
        check_kind(f"{where}, reach", self.reach, str)
        for observed in self.observed:
            if observed.op != "field":
                raise DeclarationError(
                    f"{where}, observed: `{observed}` is not a field: name whole fields"
                )
        for constant in self.constants:
            _check_constant(f"{where}, constants", constant)
        for constant, value in self.fixed.items():
            _check_constant(f"{where}, fixed", constant)
            check_kind(f"{where}, fixed, {constant}", value, int)
        for name, values in self.bounds.items():
            check_name(f"{where}: bounds", name)
            pairs(f"{where}, bounds {name}", values, "{constant: number}")
            for constant, value in values.items():
                check_kind(f"{where}, bounds {name}", constant, Expression)
                check_kind(f"{where}, bounds {name}, {constant}", value, int)
        for events, most in self.budgets.items():
            for event in events_of(events):
                check_kind(f"{where}, budgets", event, Event)
            check_kind(f"{where}, budgets", most, *_NUMBER)

    def _check_progress(self) -> None:
        where = f"system {self.name}"
        for name, wanted in (("properties", False), ("lemmas", False), ("progress", True)):
            for item in getattr(self, name):
                if item.is_progress is not wanted:
                    place = "progress" if item.is_progress else "properties"
                    raise DeclarationError(
                        f"{where}, {name}: {item.name} is of the kind {item.kind!r}: put it into "
                        f"{place}="
                    )
        self._unique("fairness", [item.name for item in self.fairness])
        self._unique("ranking", [item.name for item in self.rankings])
        for item in self.progress:
            if item.kind != "leads to" and any(item.name == of.name for of in self.rankings):
                raise DeclarationError(
                    f"{where}, rankings: {item.name} isn't a leads-to property: only those have "
                    "rankings"
                )
        for item in self.fairness:
            tables = [table for table in self.tables if table.on is item.event]
            if not tables:
                raise DeclarationError(f"{where}, fairness: no table takes {item.event.name}")
            if any(item.event in events_of(events) for events in self.budgets):
                raise DeclarationError(
                    f"{where}, fairness: {item.event.name} has a budget, as faults have: a run "
                    "must be able to go without it; leave out its fairness, or its budget"
                )
            rows = {row.id for table in tables for row in table.rows}
            for name in item.rows:
                if name not in rows:
                    raise DeclarationError(
                        f"{where}, fairness: {item.event.name} has no row {name!r} "
                        f"({one_of(name, sorted(rows))})"
                    )

    def _check_unreached(self) -> None:
        known = {table.name for table in self.tables}
        known |= {f"{table.name}/{row.id}" for table in self.tables for row in table.rows}
        known |= {item.name for item in self.every_property}
        for item in self.unreached:
            for name in item.names:
                if name not in known:
                    raise DeclarationError(
                        f"system {self.name}, unreached: no row, table or property is called {name}"
                    )
            self._check_of_settings("unreached", lift(item.when))
        for item in self.refusals:
            self._check_of_settings("refusals", lift(item.when))

    def _check_of_settings(self, where: str, when: Expression) -> None:
        for node in children_first(when):
            if node.op not in (*_OF_SETTINGS, "constant", "feature"):
                raise DeclarationError(
                    f"system {self.name}, {where}: `{when}` is not made of constants and features "
                    "alone"
                )
        if not isinstance(kind := type_of(when), Bool):
            raise DeclarationError(
                f"system {self.name}, {where}: `{when}` is {kind} and not a condition"
            )
        self._check_names(when, set())

    def fields_of(self, machine: Machine) -> tuple[FieldInfo, ...]:
        """The fields that a machine has in this system."""
        left = frozenset[Field]() if self.reduced is None else self.reduced.left
        return tuple(info for info in machine.fields.values() if info.expression.data not in left)

    def initial_of(self, info: FieldInfo) -> Expression | None:
        """The first value of a field in this system."""
        given = self.initials.get(info.expression)
        return info.initial if given is None else lift(given)

    def _every_machine(self) -> list[Machine]:
        every = [m for table in self.tables for m in (table.machine, *table.others)]
        return list(dict.fromkeys(every))

    def parts(self) -> Iterator[tuple[str, Expression]]:
        """Every expression, with where it stands."""
        for table in self.tables:
            yield from table.parts
        for channel in self.channels:
            for _, during in channel.message.errors:
                yield f"message {channel.message.name}, errors", during
        for item in self.every_property:
            yield f"property {item.name}", item.expression
            yield f"property {item.name}", item.premise
            if item.known_bug is not None:
                for part in (item.known_bug.during, *item.known_bug.mended_by):
                    yield f"property {item.name}, known_bug", part
        for item in self.rankings:
            yield from ((f"ranking of {item.name}", part) for part in item.parts)
        yield f"system {self.name}, terminal", self.end

    @cached_property
    def feature_names(self) -> frozenset[str]:
        """The names of all features that expressions of the system read."""
        parts = (part for _, part in self.parts())
        nodes = (node for part in parts for node in naming(part))
        return frozenset(node.data.name for node in nodes if node.op == "feature")

    def first_alike(self, protocols: Iterable[str]) -> dict[str, str]:
        """For each protocol the first one with the same features. Only features that the system
        reads count.
        """
        first: dict[frozenset[str], str] = {}
        return {
            protocol: first.setdefault(
                self.protocols.features_at(protocol) & self.feature_names, protocol
            )
            for protocol in protocols
        }

    @cached_property
    def _names(self) -> tuple[dict[str, Expression], dict[str, Expression], set[str]]:
        """The features, constants and machines that expressions may name."""
        return (
            {feature.data.name: feature for feature in self.protocols.every_feature},
            {constant.data.name: constant for constant in (*self.constants, *self.fixed)},
            {machine.name for machine in self.machines},
        )

    def _check_names(self, expression: Expression, known: set[Expression]) -> None:
        """Checks the names in an expression and adds them to `known`. Those in `known` are checked
        already.
        """
        if expression in known:
            return
        nodes = naming(expression)
        named = {node.data.name for node in nodes if node.op == "constant"}
        for name in sorted(named and named & {x.data.name for x in nodes if x.op == "field"}):
            raise DeclarationError(
                f"`{expression}` has a constant and a field that are both called {name}: rename "
                "one of them"
            )
        new = [node for node in nodes if node not in known]
        known.add(expression)
        known.update(new)
        features, constants, machines = self._names
        for node in new:
            if node.op == "feature" and node.data.name not in features:
                raise DeclarationError(
                    f"{node.data.name} is not a feature of {self.name}'s protocols: add it to "
                    f"their features, or to settled"
                )
            if node.op == "constant" and node.data.name not in constants:
                raise DeclarationError(
                    f"{node.data.name} is not a constant of {self.name}: add it to its constants"
                )
            if node.op in ("feature", "constant"):
                own = (features if node.op == "feature" else constants)[node.data.name]
                if own is not node:
                    raise DeclarationError(
                        f"`{node}` isn't the {node.op} with this name that {self.name} has: "
                        "declare it once, or choose another name"
                    )
            if node.op == "field" and self.reduced and node.data in self.reduced.left:
                reduction = self.reduced.fields[node.data]
                raise DeclarationError(
                    f"`{node}` is left out of {self.name} by a reduction "
                    f"({reduction.because}): nothing can read it"
                ).within("", reduction.declared)
            if node.op == "field" and node.data.machine not in machines:
                raise DeclarationError(
                    f"`{node}` is a field of {node.data.machine}, which has no table in {self.name}"
                )

    def _check_types(self) -> None:
        """Raises DeclarationError for two types with one name."""
        kinds: list[Type] = [m.key for m in self.machines if m.key is not None]
        kinds += [info.type for machine in self.machines for info in self.fields_of(machine)]
        events = (*(table.on for table in self.tables), *(c.message for c in self.channels))
        kinds += [kind for event in events for _, kind in event.parameters]
        for _, part in self.parts():
            kinds += [node.data.type for node in naming(part) if node.op == "variable"]
        known: dict[tuple[type, str], Type] = {}
        for kind in (each for whole in dict.fromkeys(kinds) for each in named(whole)):
            if known.setdefault((type(kind), kind.name), kind) is not kind:
                raise DeclarationError(
                    f"system {self.name}: two different {type(kind).__name__.lower()} types are "
                    f"called {kind.name}: declare it once, or choose another name"
                )

    def _check_bounds(self, values: Mapping[Expression, int]) -> None:
        for constant, value in values.items():
            if all(constant is not known for known in self.constants):
                raise DeclarationError(
                    f"`{constant}` is not a constant of {self.name}: add it to its constants"
                )
            constant.data.check(value)

    def _unique(self, what: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"system {self.name}: two {what} declarations of {name}")

    def origin(self, message: Message) -> End | None:
        """The sender of a message: the declared one, or else the only machine that sends it and is
        in its address. None if neither is known.
        """
        if message.comes_from is not None:
            return message.comes_from
        found = self._senders.get(message, set())
        return next(iter(found)) if len(found) == 1 else None

    @cached_property
    def _senders(self) -> dict[Message, set[End | None]]:
        """By message, the ends that send it. A table on the loss of the message doesn't count."""
        found: dict[Message, set[End | None]] = {}
        for table in self.tables:
            for sending in (each for row in table.rows for each in table.sendings(row)):
                if not (isinstance(table.on, Loss) and table.on.message == sending.message):
                    found.setdefault(sending.message, set()).add(_origin(table, sending))
        return found

    @property
    def constant_infos(self) -> tuple[ConstantInfo, ...]:
        """The constants that a run may set, by name."""
        return tuple(constant.data for constant in self.constants)

    def values(self, bounds: str = DEFAULT) -> dict[str, int]:
        """Every constant by name, with its value under `bounds`.

        Raises DeclarationError if there are no such bounds.
        """
        if bounds not in self.bound_names:
            there = one_of(bounds, self.bound_names)
            raise DeclarationError(f"{self.name} has no bounds called {bounds} ({there})")
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
    def every_property(self) -> tuple[Property, ...]:
        """The properties, the lemmas and those of progress."""
        return (*self.properties, *self.lemmas, *self.progress)

    @property
    def end(self) -> Expression:
        """`terminal` as an expression."""
        return lift(self.terminal)


def _origin(table: Table, sending: Sending) -> End | None:
    """The sender's end of a message that a row sends; None if no field has its identity."""
    machine = table.machine
    if machine.key is None:
        return End(machine.name)
    own = {machine.this}
    if isinstance(table.on, (Message, Loss)):
        own.add(getattr(table.on, instance_field(table.on, machine)))
    address = dict(sending.message.address)
    named = [n for n, value in sending.fields if n in address and value in own]
    named = [name for name in named if name != sending.message.goes_to.field]
    return End(machine.name, named[0]) if len(named) == 1 else None


_OF_SETTINGS = ("const", "not", "and", "or", "eq", "lt", "le", "add", "sub", "mul", "if")


def _check_constant(where: str, given: object) -> None:
    if not isinstance(given, Expression) or given.op != "constant":
        raise DeclarationError(
            f"{where}: {shown(given)} is not a constant: make one with constant(...)"
        )


def events_of(events: Event | tuple[Event, ...]) -> tuple[Event, ...]:
    """The events that share a budget."""
    return events if isinstance(events, tuple) else (events,)
