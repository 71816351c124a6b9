"""Makes an instance of a declared system: protocol, constants and features are settled, and the
network and the budgets become ordinary variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod

from ..declaration.arguments import one_of
from ..declaration.errors import DeclarationError, UnsettledError, declared_at
from ..declaration.typecheck import type_of
from ..expressions import (
    Bound,
    ConstantInfo,
    Expression,
    Field,
    Operand,
    children_first,
    lift,
    resolve,
    rewrite,
)
from ..machines import Event
from ..messages import Loss, Message, Sending, instance_field
from ..properties import Property
from ..protocols import MIXED
from ..systems import BUDGET, DEFAULT, NETWORK, Channel, System, events_of
from ..tables import Row, Table
from ..terms.operators import append, element, first, keep, put, size, take, updated, without_first
from ..terms.operators import if_ as choose
from ..terms.scopes import instances, substitute
from ..types import (
    SCALARS,
    Bag,
    Int,
    Key,
    Map,
    Type,
    Value,
    choices,
    contains,
    how_many,
    initial_value,
    parts,
)
from ..types import Sequence as Line
from .instance import Action, ActionRow, Instance, Variable

MOST_PARTS = 100_000  # numbers in a state; the largest shipped system has some hundreds


def instantiate(
    system: System,
    protocol: str | None = None,
    constants: Mapping[str, int] | None = None,
    *,
    bounds: str = DEFAULT,
    switch_on: Iterable[str] = (),
    switch_off: Iterable[str] = (),
    properties: Iterable[str] | None = None,
    leave_open: Iterable[str] = (),
    progress: bool = False,
    rankings: bool = False,
) -> Instance:
    """The instance of a system with `protocol`. `constants` override the values under `bounds`, and
    constants in `leave_open` get no value. `switch_on` and `switch_off` change single features.
    `properties` selects properties or lemmas (none: all properties). `progress` adds the progress
    properties, and `rankings` their rankings.

    Raises DeclarationError for an unknown protocol, constant, feature or property, bounds of
    another name, a constant outside its range, and settings that the system refuses.
    """
    protocol = protocol or system.protocols.newest
    if protocol.startswith(MIXED):
        protocol = system.protocols.newest + protocol
    protocol = system.protocols.released(protocol)
    on, off = set(switch_on), set(switch_off)
    known = {info.name for info in system.protocols.infos}
    for name in sorted((on | off) - known):
        there = one_of(name, sorted(known))
        raise DeclarationError(f"no feature of {system.name} is called {name} ({there})")
    features = frozenset((system.protocols.features_at(protocol) | on) - off)
    values = _settled(system, bounds, constants or {})
    left = frozenset(leave_open)
    settled = {name: value for name, value in values.items() if name not in left}
    opened = tuple(info for info in system.constant_infos if info.name in left)
    _check_refusals(system, protocol, settled, features)
    if progress:
        named = [item.name for item in system.properties] if properties is None else properties
        properties = [*named, *(item.name for item in system.progress)]
    return _Builder(system, protocol, features, settled, opened).build(properties, rankings)


def _check_refusals(
    system: System, protocol: str, constants: Mapping[str, int], features: frozenset[str]
) -> None:
    for item in system.refusals:
        if item.applies(constants, features):
            nodes = children_first(lift(item.when))
            named = (node.data.name for node in nodes if node.op == "constant")
            given = ", ".join(f"{name}={constants[name]}" for name in dict.fromkeys(named))
            raise DeclarationError(f"{system.name} at {protocol}, {given}: {item.why}")


def with_constants(instance: Instance, values: Mapping[str, int]) -> Instance:
    """The instance with these values of constants. A value may be beyond the range of a run."""
    constants = {**instance.constants, **values}
    names = [item.name for item in (*instance.properties, *instance.progress)]
    opened = tuple(info for info in instance.open if info.name not in values)
    builder = _Builder(instance.system, instance.protocol, instance.features, constants, opened)
    return builder.build(names, bool(instance.rankings))


def _settled(system: System, bounds: str, given: Mapping[str, int]) -> dict[str, int]:
    infos = {info.name: info for info in system.constant_infos}
    for name, value in given.items():
        if name not in infos:
            raise DeclarationError(f"{system.name} has no constant {name} ({one_of(name, infos)})")
        infos[name].check(value)
    fixed = {constant.data.name: value for constant, value in system.fixed.items()}
    return {**system.values(bounds), **given, **fixed}


class _Builder:
    def __init__(
        self,
        system: System,
        release: str,
        features: frozenset[str],
        constants: dict[str, int],
        opened: tuple[ConstantInfo, ...] = (),
    ) -> None:
        self.system = system
        self.release = release
        self.features = features
        self.constants = constants
        self.open = {info.name: info for info in opened}
        self.lowest = {**constants, **{info.name: info.low for info in opened}}
        self.channels = {channel.message: channel for channel in system.channels}
        self.folded: dict[Expression, Expression] = {}
        self.networks: dict[Message, Expression] = {}
        self.budgets: dict[str, int | Expression] = {}
        self.budget_of: dict[Event, str] = {}
        for events, most in system.budgets.items():
            shared = events_of(events)
            bound = lift(most)
            name = " or ".join(event.name for event in shared)
            if len(shared) > 1 and bound.op == "constant":
                name = bound.data.name
            with declared_at(system.declared):
                self.budgets[name] = self.limit(most)
            self.budget_of |= dict.fromkeys(shared, name)

    def build(self, wanted: Iterable[str] | None, rankings: bool) -> Instance:
        system = self.system
        chosen = system.properties
        if wanted is not None:
            by_name = {item.name: item for item in system.every_property}
            for name in wanted:
                if name not in by_name:
                    listed = [item.name for item in (*system.properties, *system.progress)]
                    there = one_of(name, by_name, listed=listed)
                    raise DeclarationError(f"{system.name} has no property {name} ({there})")
            names = set(wanted)
            chosen = tuple(item for item in by_name.values() if item.name in names)
        with declared_at(system.declared):
            return self.made(chosen, rankings)

    def made(self, chosen: Sequence[Property], rankings: bool) -> Instance:
        """The instance with these properties."""
        system = self.system
        return Instance(
            system,
            self.release,
            self.features,
            self.constants,
            tuple(self.variables()),
            tuple(self.actions()),
            tuple(self.settled(p) for p in chosen if not p.is_progress),
            self.fold(system.end),
            tuple(self.open.values()),
            tuple(self.settled(p) for p in chosen if p.is_progress),
            tuple(
                ranking.over(self.fold)
                for ranking in system.rankings
                if rankings and any(p.name == ranking.name for p in chosen)
            ),
            tuple(log.changed(self.fold) for log in system.logs),
        )

    def settled(self, item: Property) -> Property:
        """The property with the instance's features, constants and network."""
        with declared_at(item.declared, f"property {item.name}"):
            return item.changed(self.fold)

    def fold(self, expression: Expression) -> Expression:
        """The expression with values of features and constants, and variables of channels."""

        def settle(node: Expression) -> Expression | None:
            if node.op == "feature":
                return lift(node.data.name in self.features)
            if node.op == "constant" and node.data.name not in self.open:
                if node.data.name not in self.constants:
                    raise DeclarationError(
                        f"system {self.system.name} does not declare constant {node.data.name}"
                    )
                return lift(self.constants[node.data.name])
            if node.op == "eq" and any(side.op == "constant" for side in node.args):
                equal = Expression("eq", tuple(map(self.fold, node.args)))
                try:
                    type_of(equal)
                except DeclarationError:  # the type of the other side excludes the value
                    return lift(False)
                return equal
            if node.op == "in_flight":
                bag = self.network(node.data)
                for key in node.args:
                    bag = bag[self.fold(key)]
                return bag
            return None

        return rewrite(expression, settle, self.folded)

    def number(self, bound: Operand) -> int:
        """A budget or a capacity as a number. Raises DeclarationError for a negative one."""
        number = resolve(lift(bound), self.constants)
        if number < 0:
            raise DeclarationError(f"system {self.system.name}: {bound} is {number}, below 0")
        return number

    def count(self, key: Key) -> int:
        """The number of instances of a key."""
        return key.count(self.constants)

    def limit(self, bound: Operand) -> int | Expression:
        """A budget: a number, unless constants in it are open."""
        try:
            return self.number(bound)
        except UnsettledError:
            return self.fold(lift(bound))

    # Variables --------------------------------------------------------------------------------

    def variables(self) -> Iterable[Variable]:
        self.check_size()
        for machine in self.system.machines:
            for info in self.system.fields_of(machine):
                copies = 1 if machine.key is None else machine.key.count(self.constants)
                initial = self.system.initial_of(info)
                with declared_at(info.declared):
                    firsts = self.firsts(f"{machine.name}.{info.name}", info.type, initial)
                if machine.key is None:
                    yield Variable(f"{machine.name}.{info.name}", info.type, firsts)
                else:
                    every: tuple[Value, ...] = tuple(product(firsts, repeat=copies))
                    kind = Map(machine.key, info.type)
                    yield Variable(f"{machine.name}.{info.name}", kind, every)
        for channel in self.system.channels:
            with declared_at(channel.declared):
                kind = self.channel_type(channel)
                first = initial_value(kind, self.lowest)
            yield Variable(f"{NETWORK}.{channel.message.name}", kind, (first,))
        for name, most in self.counters():
            yield Variable(f"{BUDGET}.{name}", Int(0, most), (0,))

    def check_size(self) -> None:
        """Raises DeclarationError if a state would be too large for every engine."""
        total = 0
        kinds = [
            (
                f"{machine.name}.{info.name}",
                info.type if machine.key is None else Map(machine.key, info.type),
            )
            for machine in self.system.machines
            for info in self.system.fields_of(machine)
        ]
        kinds += [(c.message.name, self.channel_type(c)) for c in self.system.channels]
        for name, kind in kinds:
            taken = parts(kind, self.lowest)
            total += taken
            if total > MOST_PARTS:
                raise DeclarationError(
                    f"system {self.system.name}: a state would hold more than {MOST_PARTS:,} "
                    f"numbers, {taken:,} of them for {name}: use smaller bounds"
                )

    def firsts(self, name: str, kind: Type, initial: Expression | None) -> tuple[Value, ...]:
        if initial is None:
            return (initial_value(kind, self.lowest),)
        if initial.op == "any_value":
            if isinstance(kind, Map):
                inner = choices(kind.of, self.constants)
                return tuple(product(inner, repeat=kind.key.count(self.constants)))
            return choices(kind, self.constants)
        from ..terms.values import evaluate

        first = evaluate(self.fold(initial), {}, self.constants)
        if not contains(kind, first, self.lowest):
            raise DeclarationError(f"{name} is {kind}: its first value can't be {initial}")
        return (first,)

    def counters(self) -> Iterable[tuple[str, int | Expression]]:
        yield from self.budgets.items()
        for channel in self.system.channels:
            most = self.limit(channel.duplicates)
            if not isinstance(most, int) or most:
                yield f"duplicate {channel.message.name}", most

    def channel_type(self, channel: Channel) -> Type:
        capacity = self.number(channel.most)
        of = channel.message.content
        kind: Type = Line(of, capacity) if channel.ordered else Bag(of, capacity)
        for _, key in reversed(channel.message.address):
            kind = Map(key, kind)
        return kind

    # Actions ----------------------------------------------------------------------------------

    def actions(self) -> Iterable[Action]:
        for table in self.system.tables:
            rows = [r for r in table.rows if self.system.protocols.holds(r.during, self.features)]
            if rows:
                with declared_at(table.declared):
                    yield self.action(table, rows)
        for channel in self.system.channels:
            yield from self.environment(channel)

    def action(self, table: Table, rows: list[Row]) -> Action:
        travelling = table.on.message if isinstance(table.on, Loss) else table.on
        this: Expression | None
        taken: Expression | None = None
        if isinstance(travelling, Message):
            bounds, taken = self.in_flight(travelling)
            this, places = _of_message(table, bounds, taken)
        else:
            this, bounds, places = _of_event(table)

        def place(expression: Expression) -> Expression:
            def change(node: Expression) -> Expression | None:
                if node in places:
                    return places[node]
                if node.op == "this":
                    return this
                if node.op == "field" and not node.args and node.data.key is not None:
                    assert this is not None
                    return Expression("field", (this,), node.data)
                return None

            return self.fold(rewrite(expression, change))

        def settled(row: Row) -> ActionRow:
            traffic = _Traffic(self)
            if isinstance(travelling, Message):
                assert taken is not None
                traffic.take(travelling, bounds, taken)
            for dropped in table.droppings(row):
                traffic.drop(dropped.message, {n: place(v) for n, v in dropped.address})
            for sending in table.sendings(row):
                with declared_at(row.declared, f"table {table.name}, row {row.id!r}"):
                    self.check_sent(sending)
                    self.send(traffic, sending, place)
            updates = [(place(target), place(value)) for target, value in table.updates(row)]
            if spent is not None:
                updates.append((spent, spent + 1))
            updates += traffic.updates()
            rooms = tuple(traffic.room)
            return ActionRow(row.id, place(row.guard), rooms, tuple(updates), row.declared)

        when, spent = _is_there(taken), None
        for chosen in (each for each in table.on.variables if each.op == "element"):
            kind, (collection,) = type_of(chosen), map(place, chosen.args)
            if isinstance(kind, SCALARS):
                bound = Expression("variable", (), Bound(chosen.data, kind, table.name))
                bounds.append(bound)
                when = when & Expression("in", (bound, collection))
            else:
                bound = taken = Expression("element", (collection,), chosen.data)
            places[chosen] = bound
        when = when & place(table.guard)
        if table.on in self.budget_of:
            spent = self.counter(name := self.budget_of[table.on])
            when = when & (spent < self.budgets[name])
        message = travelling if isinstance(travelling, Message) else None
        return Action(
            table.name, tuple(bounds), taken, when, tuple(map(settled, rows)), this, message,
            declared=table.declared,
        )  # fmt: skip

    def check_sent(self, sending: Sending) -> None:
        """Raises DeclarationError for a row that sends more messages at once than a state can have
        parts.
        """
        count = prod(how_many(bound.data.type, self.constants) for bound in sending.to_each)
        if count > MOST_PARTS:
            raise DeclarationError(
                f"{sending.message.name} is sent {count:,} times at once, and the limit is "
                f"{MOST_PARTS:,}: use smaller bounds"
            )

    def send(
        self, traffic: _Traffic, sending: Sending, place: Callable[[Expression], Expression]
    ) -> None:
        fields = {name: place(value) for name, value in sending.fields}
        when = place(sending.when)
        domains = [instances(bound, bound, self.constants) for bound in sending.to_each]
        for keys in product(*domains):
            names = dict(zip(sending.to_each, keys, strict=True))
            values = {name: substitute(value, names) for name, value in fields.items()}
            condition = substitute(when, names)
            address = [values[name] for name, _ in sending.message.address]
            content = sending.message.content
            inside = {name: v for name, v in values.items() if content.type_of(name) is not None}
            traffic.put(sending.message, address, content(**inside), condition)

    def in_flight(self, message: Message) -> tuple[list[Expression], Expression]:
        bounds = [
            Expression("variable", (), Bound(name, key, message.name))
            for name, key in message.address
        ]
        bag = self.network(message)
        for bound in bounds:
            bag = bag[bound]
        if self.channels[message].ordered:
            return bounds, first(bag).value
        return bounds, Expression("element", (bag,), message.name)

    def network(self, message: Message) -> Expression:
        if message not in self.channels:
            raise DeclarationError(f"system {self.system.name}: {message.name} has no channel")
        if message not in self.networks:
            kind = self.channel_type(self.channels[message])
            self.networks[message] = Expression(
                "field", (), Field(NETWORK, message.name, kind, None)
            )
        return self.networks[message]

    def counter(self, name: str) -> Expression:
        most = dict(self.counters())[name]
        return Expression("field", (), Field(BUDGET, name, Int(0, most), None))

    def environment(self, channel: Channel) -> Iterable[Action]:
        message = channel.message
        bounds, taken = self.in_flight(message)
        if channel.lossy:
            traffic = _Traffic(self)
            traffic.take(message, bounds, taken)
            row = ActionRow("lost", lift(True), (), traffic.updates())
            yield self.of_network(f"{NETWORK}.{message.name}", message, row)
        name = f"duplicate {message.name}"
        if name in dict(self.counters()):
            traffic = _Traffic(self)
            traffic.put(message, bounds, taken, lift(True))
            spent = self.counter(name)
            guard = spent < dict(self.counters())[name]
            updates = ((spent, spent + 1), *traffic.updates())
            row = ActionRow("duplicated", guard, tuple(traffic.room), updates)
            yield self.of_network(f"{NETWORK}.{message.name} again", message, row, adds=True)

    def of_network(
        self, name: str, message: Message, row: ActionRow, *, adds: bool = False
    ) -> Action:
        """A fault that may happen to each message in flight of a kind."""
        bounds, taken = self.in_flight(message)
        there = _is_there(taken)
        return Action(name, tuple(bounds), taken, there, (row,), message=message, adds=adds)


def _of_message(
    table: Table, bounds: list[Expression], taken: Expression
) -> tuple[Expression | None, dict[Expression, Expression]]:
    """For a table on a message: the variable of its own instance, and the values of the message's
    fields.
    """
    places: dict[Expression, Expression] = {}
    this: Expression | None = None
    own = instance_field(table.on, table.machine)
    for bound in bounds:
        places[getattr(table.on, bound.data.name)] = bound
        if bound.data.name == own:
            this = bound
    for name, _ in table.on.parameters:
        if all(name != bound.data.name for bound in bounds):
            places[getattr(table.on, name)] = Expression("get", (taken,), name)
    return this, places


def _of_event(
    table: Table,
) -> tuple[Expression | None, list[Expression], dict[Expression, Expression]]:
    """For a table on another event: the variable of its own instance, all variables, and the values
    of the event's parameters.
    """
    bounds: list[Expression] = []
    places: dict[Expression, Expression] = {}
    this: Expression | None = None
    if table.machine.key is not None:
        this = Expression("variable", (), Bound(table.machine.name, table.machine.key, table.name))
        bounds.append(this)
    for name, kind in table.on.parameters:
        bound = Expression("variable", (), Bound(name, kind, table.name))
        bounds.append(bound)
        places[getattr(table.on, name)] = bound
    bounds.extend(each for each in table.on.variables if each.op == "variable")
    return this, bounds, places


def _is_there(taken: Expression | None) -> Expression:
    """Whether there is a message to take: an ordered channel may be empty."""
    if taken is None or taken.op == "element":
        return lift(True)
    return taken.args[0].is_set


class _Traffic:
    """The effect of a row on the network: the changed channels, and the room for each message."""

    def __init__(self, builder: _Builder) -> None:
        self.builder = builder
        self.channels: dict[Message, Expression] = {}
        self.room: list[tuple[Message, Expression]] = []

    def take(self, message: Message, address: Sequence[Expression], content: Expression) -> None:
        """Takes one message from its channel."""
        ordered = self.builder.channels[message].ordered
        self._change(
            message, address, lambda bag: without_first(bag) if ordered else take(bag, content)
        )

    def put(
        self,
        message: Message,
        address: Sequence[Expression],
        content: Expression,
        when: Expression,
    ) -> None:
        """Adds one message to its channel where `when` holds."""
        channel = self.builder.channels[message]
        capacity = self.builder.number(channel.most)

        def grown(bag: Expression) -> Expression:
            self.room.append((message, when.implies(size(bag) < capacity)))
            more = append(bag, content) if channel.ordered else put(bag, content)
            return choose(when, more, bag)

        self._change(message, address, grown)

    def drop(self, message: Message, known: Mapping[str, Expression]) -> None:
        """Removes all messages whose addresses have the known parts."""

        def emptied(bag: Expression) -> Expression:
            return keep(element("dropped", bag), False)

        keys = [
            [known[name]] if name in known else [lift(at) for at in range(self.builder.count(key))]
            for name, key in message.address
        ]
        for address in product(*keys):
            self._change(message, address, emptied)

    def updates(self) -> tuple[tuple[Expression, Expression], ...]:
        """The channels changed, as updates."""
        return tuple((self.builder.network(m), after) for m, after in self.channels.items())

    def _change(
        self,
        message: Message,
        address: Sequence[Expression],
        change: Callable[[Expression], Expression],
    ) -> None:
        def inside(mapping: Expression, keys: Sequence[Expression]) -> Expression:
            if not keys:
                return change(mapping)
            return updated(mapping, keys[0], inside(mapping[keys[0]], keys[1:]))

        now = self.channels.get(message)
        if now is None:
            now = self.builder.network(message)
        self.channels[message] = inside(now, address)
