"""Machines that run: a declared machine at real ranges, one event at a time.

    machine = Machine(TABLES, protocol="4.1")
    machine.put(state="ONGOING", producer_epoch=3)        # a given state
    outcome = machine.handle("EndTxn", producer_id=7, ...)  # an event or a message
    outcome.row, outcome.reply, outcome.sent              # what it did and said
    machine.state["pending"]                              # the new state

Whatever the rows leave open is chosen by the caller: when an append is acknowledged, what the clock
says, what another machine's fields are (`outside`).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from ..spec.features import KAFKA
from ..spec.language.errors import DeclarationError
from ..spec.language.expressions import Expression, Parameter, children_first, lift, rewrite
from ..spec.language.protocols import Protocols
from ..spec.language.tables import Machine as Declared
from ..spec.language.tables import Message, Row, Sending, Table
from ..spec.language.types import (
    Bool,
    Enum,
    Int,
    Key,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
    Type,
)
from .compiler import Compiler, Layout, Rule, Sent
from .errors import (
    MissingField,
    ModelError,
    NotNow,
    OutOfRange,
    UnknownEvent,
    UnknownField,
    refusal,
)
from .values import Ranges, Sparse


class Outcome(NamedTuple):
    """What an event did: the row taken, the messages sent (the reply among them), the reply."""

    row: str
    sent: tuple[Any, ...]
    reply: Any


def _tuple_class(name: str, fields: list[str]) -> type:
    return namedtuple(name, fields)  # type: ignore[reportUntypedNamedTuple]


@cache
def message_class(message: Message) -> type:
    """The class that holds a message: its fields by name, in declared order."""
    made = _tuple_class(message.name, [name for name, _ in message.parameters])
    made.__doc__ = message.doc or f"{message.name}, as it was sent."
    return made


@cache
def _maker(message: Message) -> Callable[..., Any]:
    """What makes a message of plain values: its class, or what gives its records names first."""
    made = message_class(message)
    kinds = [kind for _, kind in message.parameters]
    if not any(_has_record(kind) for kind in kinds):
        return made
    return lambda *values: made(*map(shown, kinds, values))


def _has_record(kind: Type) -> bool:
    match kind:
        case Record() | Map():
            return True
        case Optional() | Sequence():
            return _has_record(kind.of)
        case _:
            return False


@cache
def record_class(record: Record) -> type:
    """The class that holds a record: its fields by name, in declared order."""
    return _tuple_class(record.name, [name for name, _ in record.fields])


def real_constants(tables: Iterable[Table]) -> dict[str, int]:
    """The real values of the constants that tables use."""
    found: dict[str, int] = {}

    def look(expression: Expression) -> None:
        for node in children_first(expression):
            if node.op == "constant" and node.data.real is not None:
                found[node.data.name] = node.data.real
            elif node.op in ("field", "parameter", "variable"):
                in_type(node.data.type)

    def in_type(kind: Type) -> None:
        match kind:
            case Int():
                bounds = (kind.low, kind.high)
            case Key():
                bounds = (kind.size,)
            case Sequence():
                bounds = (kind.capacity,)
            case Record():
                for _, of in kind.fields:
                    in_type(of)
                return
            case Map():
                in_type(kind.key)
                return in_type(kind.of)
            case Optional() | Set():
                return in_type(kind.of)
            case _:
                return None
        for bound in bounds:
            if isinstance(bound, Expression):
                look(bound)
        if isinstance(kind, Sequence):
            in_type(kind.of)

    for table in tables:
        for machine in (table.machine, *table.elsewhere):
            for info in machine.fields.values():
                in_type(info.type)
                if info.initial is not None:
                    look(info.initial)
        for _, kind in table.on.parameters:
            in_type(kind)
        look(table.when)
        for row in table.rows:
            for part in (row.guard, *(e for update in table.updates(row) for e in update)):
                look(part)
            for sending in table.sendings(row):
                for _, kind in sending.message.parameters:
                    in_type(kind)
                for part in (sending.when, *(value for _, value in sending.fields)):
                    look(part)
    return found


class _Program:
    """Tables of one machine for a protocol: layout, ranges, and the functions compiled so far."""

    def __init__(
        self, tables: tuple[Table, ...], protocols: Protocols, constants: Mapping[str, int]
    ) -> None:
        self.tables = {table.on.name: table for table in tables}
        if len(self.tables) != len(tables) or len({t.machine.name for t in tables}) != 1:
            raise DeclarationError("a machine runs tables of its own, one for each event")
        self.protocols = protocols
        self.declared: Declared = tables[0].machine
        self.constants = {**real_constants(tables), **constants}
        self.ranges = Ranges(self.constants, open_keys=True)
        self.fields = list(self.declared.fields)
        self.place = {name: at for at, name in enumerate(self.fields)}
        self.plain = {
            name: at
            for at, (name, info) in enumerate(self.declared.fields.items())
            if not _has_record(info.type)
        }
        places = {(self.declared.name, name): f"s[{at}]" for at, name in enumerate(self.fields)}
        self.outside: dict[str, tuple[int, Type]] = {}
        self.counts: dict[str, tuple[int, int, int]] = {}  # of these, numbers and their ends
        self.numbers = {
            name: ends
            for name, at in self.place.items()
            if (ends := self._ends(at, self.declared.fields[name].type)) is not None
        }
        for machine in (m for table in tables for m in table.elsewhere):
            for name, info in machine.fields.items():
                keyword = f"{machine.name}__{name}"
                if keyword not in self.outside and machine is not self.declared:
                    kind = info.type if machine.key is None else Map(machine.key, info.type)
                    places[machine.name, name] = f"o[{len(self.outside)}]"
                    at = len(self.outside)
                    self.outside[keyword] = (at, kind)
                    if (ends := self._ends(at, kind)) is not None:
                        self.counts[keyword] = ends
        kinds = [info.type for info in self.declared.fields.values()]
        self.maps = [at for at, kind in enumerate(kinds) if isinstance(kind, Map)]
        self.first: list[Any] | None = None
        self.taken: dict[frozenset[str], dict[Any, Any]] = {}
        self.kept: dict[frozenset[str], tuple[Callable[..., Any], list[int]]] = {}
        self.places = places
        self.functions: dict[tuple[str, frozenset[str], bool], Callable[..., Any]] = {}
        self.rows: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}

    def _ends(self, at: int, kind: Type) -> tuple[int, int, int] | None:
        """A place and the ends of what it holds, if that is a number with ends."""
        low, high = self.ranges.of_int(kind) if isinstance(kind, Int) else (None, None)
        return None if low is None or high is None else (at, low, high)

    def places_but(self, but: frozenset[str]) -> tuple[Callable[..., Any], list[int]]:
        """What reads all fields but these that are no maps, and the places of the maps."""
        places = [at for at, name in enumerate(self.fields) if name not in but]
        plain = [at for at in places if at not in self.maps]
        return itemgetter(*plain), [at for at in places if at in self.maps]

    def first_state(self) -> list[Any]:
        """A machine's fields as they are declared to start."""
        if self.first is None:
            fields = self.declared.fields.values()
            self.first = [self.initial(info.type, info.initial) for info in fields]
            for at in self.maps:
                self.first[at].shared = True
        return self.first.copy()

    def initial(self, kind: Type, given: Expression | None) -> Any:
        """A field's first value."""
        if given is None or given.op == "any_value":
            return self.ranges.initial(kind)
        return self.compiler({}).expression(given, {})([], [], None)

    def first_outside(self) -> list[Any]:
        """The fields outside of the machine, as they start."""
        return [self.ranges.initial(kind) for _, kind in self.outside.values()]

    def compiler(self, names: Mapping[Expression, str]) -> Compiler:
        """A compiler with these names for parameters."""
        return Compiler(
            Layout(self.places, names), self.ranges,
            out_of_range=lambda field, value: OutOfRange(f"{field} can't be {value!r}", field),
            refused=self.refused,
        )  # fmt: skip

    def refused(self, field: str, kind: Type, value: Any) -> ModelError:
        """The error for a value that doesn't belong to a field."""
        inner = kind.of if isinstance(kind, Optional) else kind
        whole = isinstance(inner, (Int, Key)) and type(value) is int
        named = isinstance(inner, Enum) and isinstance(value, str)
        return refusal(field, self.ranges.expected(kind), value, of_type=whole or named)

    def parameters(self, table: Table) -> dict[str, Type]:
        """What an event brings: the variables that its rows use as they are, and its fields."""
        variables = {name.data.name: name.data.type for name in table.on.variables}
        return variables | dict(table.on.parameters)

    def names(self, table: Table) -> dict[Expression, str]:
        """The Python names of what an event brings."""
        found = {name: name.data.name for name in table.on.variables}
        for name, kind in table.on.parameters:
            found[Expression("parameter", (), Parameter(table.on.name, name, kind))] = name
        return found

    def settled(self, expression: Expression, features: frozenset[str]) -> Expression:
        """The expression with features as truths, and what they decide gone."""

        def settle(node: Expression) -> Expression | None:
            if node.op == "feature":
                return lift(node.data.name in features)
            return None

        return _folded(rewrite(expression, settle))

    def function(
        self, event: str, features: frozenset[str], *, apply: bool = True
    ) -> Callable[..., Any]:
        """The compiled table. Raises UnknownEvent."""
        found = self.functions.get((event, features, apply))
        if found is not None:
            return found
        table = self.tables.get(event)
        if table is None:
            known = ", ".join(self.tables)
            raise UnknownEvent(f"{self.declared.name} has no event {event!r} (it has: {known})")
        rows = [r for r in table.rows if self.protocols.holds(r.during, features)]
        rules = [self._rule(table, row, features) for row in rows]
        compiler = self.compiler(self.names(table))
        made = compiler.function(
            self.parameters(table), self.settled(table.when, features), rules, apply=apply
        )
        self.rows[event, features] = tuple(row.name for row in rows)
        self.functions[event, features, apply] = made
        return made

    def _rule(self, table: Table, row: Row, features: frozenset[str]) -> Rule:
        def settled(expression: Expression) -> Expression:
            return self.settled(expression, features)

        def sent(sending: Sending) -> Sent:
            given = dict(sending.fields)
            fields = tuple(
                settled(given[name]) if name in given else self._nothing(kind)
                for name, kind in sending.message.parameters
            )
            when = settled(sending.when)
            return Sent(_maker(sending.message), fields, sending.to_each, when)

        sends = tuple(sent(sending) for sending in table.sendings(row))
        updates = tuple((target, settled(value)) for target, value in table.updates(row))
        return Rule(row.name, settled(row.guard), updates, sends)

    def _nothing(self, kind: Type) -> Expression:
        from ..spec.language.types import literal

        value = self.ranges.initial(kind)
        if isinstance(kind, (Bool, Int, Enum, Key)):
            return literal(kind, value)
        return lift(None)


def _folded(e: Expression) -> Expression:
    """The expression without the parts that constant truths decide."""
    if not e.args:
        return e
    args = tuple(_folded(part) for part in e.args)
    truths = [
        part.data if part.op == "const" and isinstance(part.data, bool) else None for part in args
    ]
    match e.op:
        case "not" if truths[0] is not None:
            return lift(not truths[0])
        case "and" | "or" if any(truth is not None for truth in truths):
            decides = e.op == "or"
            for truth, other in zip(truths, args[::-1], strict=True):
                if truth is not None:
                    return lift(decides) if truth == decides else other
        case "if" if truths[0] is not None:
            return args[1] if truths[0] else args[2]
        case _:
            pass
    return Expression(e.op, args, e.data)


@cache
def _program(
    tables: tuple[Table, ...], protocols: Protocols, constants: tuple[tuple[str, int], ...]
) -> _Program:
    return _Program(tables, protocols, dict(constants))


class Machine:
    """One instance of a declared machine, at real ranges.

    `tables` say what it does, one table for each event. `protocol` is the release (the newest),
    `switch_on` and `switch_off` name single features. `this` is its identity, where rows use one,
    `constants` overrides numbers such as a broker's settings.

    Raises DeclarationError for an unknown protocol or feature, or where rows look at more keys
    than can be told apart.
    """

    def __init__(
        self, tables: Iterable[Table], *, protocol: str | None = None,
        protocols: Protocols = KAFKA, switch_on: Iterable[str] = (),
        switch_off: Iterable[str] = (), this: Any = None,
        constants: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        for name, number in (constants or {}).items():
            if type(number) is not int:
                raise refusal(name, "a whole number", number, of_type=False)
        given = tuple(sorted((constants or {}).items()))
        self._program = _program(tuple(tables), protocols, given)
        self.protocol = protocol or protocols.newest
        known = {info.name for info in protocols.infos}
        on, off = frozenset(switch_on), frozenset(switch_off)
        for name in sorted((on | off) - known):
            raise DeclarationError(f"no feature is called {name}")
        self.features = (protocols.features_at(self.protocol) | on) - off
        self.this = this
        self._s = self._program.first_state()
        self._o = self._program.first_outside()
        self._taken = self._program.taken.setdefault(self.features, {})

    # State ------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """Every field by its name; a copy."""
        program = self._program
        kinds = (info.type for info in program.declared.fields.values())
        return {
            name: shown(kind, value)
            for name, kind, value in zip(program.fields, kinds, self._s, strict=True)
        }

    def kept(
        self, but: frozenset[str], of_map: Callable[[Sparse], Hashable]
    ) -> tuple[Hashable, ...]:
        """Every field but these as it is kept, to compare by: quicker than `state`. `of_map` is
        what tells one map from another."""
        known = self._program.kept.get(but)
        if known is None:
            known = self._program.kept[but] = self._program.places_but(but)
        plain, maps = known
        values = self._s
        return plain(values), *[of_map(values[at]) for at in maps]

    def is_as(self, other: Machine) -> bool:
        """Whether every field is as another machine of the same tables has it."""
        return self._s == other._s

    def __getitem__(self, name: str) -> Any:
        """One field. Raises UnknownField."""
        plain = self._program.plain.get(name)
        if plain is not None:
            return self._s[plain]
        return shown(self._kind(name), self._s[self._program.place[name]])

    def at(self, name: str, key: Any) -> Any:
        """What a field that is a map has for one key. Raises UnknownField."""
        kind = self._kind(name)
        if not isinstance(kind, Map):
            raise UnknownField(f"{name} is no map", name)
        return shown(kind.of, self._s[self._program.place[name]][key])

    def _kind(self, name: str) -> Type:
        declared = self._program.declared
        if name not in declared.fields:
            known = ", ".join(declared.fields)
            raise UnknownField(f"{declared.name} has no field {name} (it has: {known})", name)
        return declared.fields[name].type

    def put(self, /, **fields: Any) -> None:
        """Sets fields to given values. Raises UnknownField, WrongType or OutOfRange."""
        program, taken = self._program, list[tuple[int, Any]]()
        for name, value in fields.items():
            number = program.numbers.get(name)
            if number is None or type(value) is not int or not number[1] <= value <= number[2]:
                value = self._read(name, self._kind(name), value)
            taken.append((program.place[name], value))
        for at, value in taken:
            self._s[at] = value

    def outside(self, /, **fields: Any) -> None:
        """Sets fields of other machines that rows read, by machine and field (`clock__now=5` is
        the field `now` of the clock). Raises UnknownField, WrongType or OutOfRange."""
        for name, value in fields.items():
            count = self._program.counts.get(name)
            if count is not None and type(value) is int and count[1] <= value <= count[2]:
                self._o[count[0]] = value
                continue
            place = self._program.outside.get(name)
            if place is None:
                known = ", ".join(self._program.outside) or "none"
                raise UnknownField(f"nothing reads {name} here (what is read: {known})", name)
            at, kind = place
            if self._o[at] != value:
                self._o[at] = self._read(name, kind, value)

    def _read(self, name: str, kind: Type, value: Any) -> Any:
        read = stored(self._program.ranges, kind, value)
        if not self._program.ranges.contains(kind, read):
            raise self._program.refused(name, kind, value)
        return read

    def copy(self) -> Machine:
        """Another machine in the same state."""
        made = object.__new__(Machine)
        made.__dict__.update(self.__dict__)
        made._s, made._o = self._s.copy(), self._o.copy()
        for at in self._program.maps:  # whose keys rows set in place
            self._s[at].shared = True
        return made

    def mapped(self, of: Type, change: Callable[[Any], Any]) -> Machine:
        """Another machine in which every value of a type, in fields and in records that they hold,
        is what `change` makes of it."""
        made, kinds = self.copy(), self._program.declared.fields.values()
        made._s = [
            _mapped(info.type, of, change, value)
            for info, value in zip(kinds, made._s, strict=True)
        ]
        return made

    def value(self, expression: Expression) -> Any:
        """What an expression over the machine's fields comes to, as its rows would read it."""
        program = self._program
        known = self._taken.get(expression)
        if known is None:
            from ..spec.language.typecheck import type_of

            compiler = program.compiler({})
            function = compiler.expression(program.settled(expression, self.features), {})
            known = self._taken[expression] = function, type_of(expression)
        function, kind = known
        value = function(self._s, self._o, self.this)
        return value if kind is None else shown(kind, value)

    # Events -----------------------------------------------------------------------------------

    @property
    def events(self) -> tuple[str, ...]:
        """The names of the events and messages that it takes."""
        return tuple(self._program.tables)

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it does, as declared."""
        return tuple(self._program.tables.values())

    def rows_of(self, event: str) -> tuple[Row, ...]:
        """The rows that an event may take in this release. Raises UnknownEvent."""
        self._program.function(event, self.features)
        rows = self._program.tables[event].rows
        return tuple(r for r in rows if self._program.protocols.holds(r.during, self.features))

    def fields_of(self, event: str) -> dict[str, Type]:
        """What an event brings, with its types. Raises UnknownEvent."""
        self._program.function(event, self.features)
        return self._program.parameters(self._program.tables[event])

    def handle(self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any) -> Outcome:
        """Takes an event; `switch_off` names features that this event does without, as a request
        of an older version does.

        Raises UnknownEvent, UnknownField, MissingField, WrongType or OutOfRange for what can't
        be, NotNow where the event can't happen in this state; the state is then as before.
        """
        outcome = self._take(event, switch_off, fields)
        if outcome is None:
            raise NotNow(f"{event} can't happen to {self._program.declared.name} in this state")
        return outcome

    def attempt(
        self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any
    ) -> Outcome | None:
        """As `handle`, and None where the event can't happen."""
        return self._take(event, switch_off, fields)

    def _take(
        self, event: str, switch_off: tuple[str, ...], fields: dict[str, Any]
    ) -> Outcome | None:
        known = self._taken.get((event, switch_off))
        if known is None:
            known = self._bound(event, switch_off)
            self._taken[event, switch_off] = known
        function, rows, reply = known
        result: Any
        try:
            result = function(self._s, self._o, self.this, **fields)
        except TypeError:
            self._explain(event, fields)
            raise
        if result is None:
            return None
        at, sent = result
        return Outcome(rows[at], sent, reply(sent) if sent else None)

    def may(self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any) -> str | None:
        """The row that the event would take, None where it can't happen; nothing changes."""
        features = self.features - set(switch_off)
        function = self._program.function(event, features, apply=False)
        at: int | None
        try:
            at = function(self._s, self._o, self.this, **fields)
        except TypeError:
            self._explain(event, fields)
            raise
        return None if at is None else self._program.rows[event, features][at]

    def _bound(self, event: str, switch_off: tuple[str, ...]) -> Any:
        features = self.features - set(switch_off)
        function = self._program.function(event, features)
        table = self._program.tables[event]
        on = table.on
        messages = {s.message for row in table.rows for s in table.sendings(row)}
        answers = tuple(
            message_class(m)
            for m in messages
            if m is table.response or (isinstance(on, Message) and m.answers is on)
        )

        def reply(sent: tuple[Any, ...]) -> Any:
            for message in sent:
                if type(message) in answers:
                    return message
            return None

        return function, self._program.rows[event, features], reply

    def _explain(self, event: str, fields: Mapping[str, Any]) -> None:
        known = self.fields_of(event)
        for name in fields:
            if name not in known:
                has = ", ".join(known) or "none"
                raise UnknownField(f"{event} has no field {name} (it has: {has})", name) from None
        for name in known:
            if name not in fields:
                raise MissingField(f"{event} lacks its field {name}", name) from None


def _mapped(kind: Type, of: Type, change: Callable[[Any], Any], value: Any) -> Any:
    match kind:
        case _ if kind == of:
            return change(value)
        case Optional():
            return None if value is None else _mapped(kind.of, of, change, value)
        case Record():
            parts = zip(kind.fields, value, strict=True)
            return tuple(_mapped(part, of, change, each) for (_, part), each in parts)
        case _:
            return value


def shown(kind: Type, value: Any) -> Any:
    """A value as users see it: records have names, maps are copies."""
    match kind:
        case Optional():
            return None if value is None else shown(kind.of, value)
        case Record():
            parts = (shown(of, part) for (_, of), part in zip(kind.fields, value, strict=True))
            return record_class(kind)(*parts)
        case Sequence():
            return tuple(shown(kind.of, part) for part in value)
        case Map():
            inner = ((key, shown(kind.of, part)) for key, part in value.items())
            return Sparse(shown(kind.of, value.default), inner)
        case _:
            return value


def _is(value: object, *types: Any) -> bool:
    return isinstance(value, types)


def stored(ranges: Ranges, kind: Type, given: Any) -> Any:
    """A user's value as rows take it: mappings for records and maps, any collection for sets and
    sequences."""
    if given is None:
        return None
    value: Any = given
    match kind:
        case Optional():
            return stored(ranges, kind.of, value)
        case Record() if _is(value, Mapping):
            initial = ranges.initial(kind)
            if not set(value) <= {name for name, _ in kind.fields}:
                return value
            return tuple(
                stored(ranges, of, value[name]) if name in value else initial[at]
                for at, (name, of) in enumerate(kind.fields)
            )
        case Record() if _is(value, tuple) and len(value) == len(kind.fields):
            parts = zip(kind.fields, value, strict=True)
            return tuple(stored(ranges, of, part) for (_, of), part in parts)
        case Set() if _is(value, set, list, tuple, frozenset):
            return frozenset(value)
        case Sequence() if _is(value, list, tuple):
            return tuple(stored(ranges, kind.of, part) for part in value)
        case Map() if _is(value, Mapping):
            default = value.default if _is(value, Sparse) else ranges.initial(kind.of)
            return Sparse(
                stored(ranges, kind.of, default),
                {key: stored(ranges, kind.of, part) for key, part in value.items()},
            )
        case _:
            return value
