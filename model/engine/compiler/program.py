"""The compiled functions of a machine's rows, with the machine's layout, ranges and constants.

`model.engine.machine` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

from ....language.declaration.arguments import one_of
from ....language.declaration.errors import DeclarationError
from ....language.expressions import Expression, folded, lift, naming, rewrite
from ....language.instances.reductions import Reduced, Reduction
from ....language.protocols import Protocols
from ....language.tables import Machine as Declared
from ....language.tables import Message, Row, Sending, Table
from ....language.types import Bag, Bool, Enum, Int, Key, Map, Optional, Record, Sequence, Set, Type
from ..errors import ModelError, OutOfRangeError, UnknownEventError, refusal
from ..values import Ranges, has_record, shown, tuple_class
from .compiler import Compiler, Layout, Rule, Sent


@cache
def message_class(message: Message) -> type:
    """The class that holds a message: its fields by name, in declared order."""
    made = tuple_class(message.name, [name for name, _ in message.parameters])
    made.__doc__ = message.doc or f"A sent {message.name}."
    return made


@cache
def _maker(message: Message) -> Callable[..., Any]:
    """A function that makes a message from plain values: the message's class, or a function that
    first converts records."""
    made = message_class(message)
    kinds = [kind for _, kind in message.parameters]
    if not any(has_record(kind) for kind in kinds):
        return made
    return lambda *values: made(*map(shown, kinds, values))


def real_constants(tables: Iterable[Table]) -> dict[str, int]:  # noqa: C901 (a case for each type)
    """The real values of the constants that tables use."""
    found: dict[str, int] = {}
    seen, looked = set[Expression | Type](), set[Expression]()  # most expressions are in many rows

    def look(expression: Expression) -> None:
        if expression in looked:
            return
        looked.add(expression)
        for node in naming(expression):
            if node in seen:
                continue
            seen.add(node)
            if node.op == "constant" and node.data.real is not None:
                found[node.data.name] = node.data.real
            elif node.op in ("field", "parameter", "variable"):
                in_type(node.data.type)

    def in_type(kind: Type) -> None:
        if kind in seen:
            return
        seen.add(kind)
        match kind:
            case Int():
                bounds = (kind.low, kind.high)
            case Key():
                bounds = (kind.size,)
            case Sequence() | Bag():
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
        if isinstance(kind, (Sequence, Bag)):
            in_type(kind.of)

    for part in _parts(list(tables)):
        look(part) if isinstance(part, Expression) else in_type(part)
    return found


def _parts(tables: list[Table]) -> Iterator[Expression | Type]:
    """All types and expressions in tables and in the fields of their machines."""
    for machine in {machine for table in tables for machine in (table.machine, *table.others)}:
        for info in machine.fields.values():
            yield info.type
            if info.initial is not None:
                yield info.initial
    for table in tables:
        yield from (kind for _, kind in table.on.parameters)
        yield table.guard
        for row in table.rows:
            yield row.guard
            yield from (part for update in table.updates(row) for part in update)
            for sending in table.sendings(row):
                yield from (kind for _, kind in sending.message.parameters)
                yield sending.when
                yield from (value for _, value in sending.fields)


class Program:
    """Tables of one machine for a protocol: layout, ranges, and the functions compiled so far."""

    def __init__(
        self, tables: tuple[Table, ...], protocols: Protocols, constants: Mapping[str, int],
        reductions: Iterable[Reduction] = (),
    ) -> None:  # fmt: skip
        reduced = Reduced(reductions)
        tables = tuple(map(reduced.table, tables))
        self.tables = {table.on.name: table for table in tables}
        if len(self.tables) != len(tables) or len({t.machine.name for t in tables}) != 1:
            raise DeclarationError("a machine runs tables of its own, one for each event")
        self.protocols = protocols
        self.declared: Declared = tables[0].machine
        self.constants = {**real_constants(tables), **constants}
        self.ranges = Ranges(self.constants, open_keys=True)
        every = self.declared.fields.items()
        here = {name: info for name, info in every if info.expression.data not in reduced.left}
        self.infos = here
        self.fields = list(here)
        self.place = {name: at for at, name in enumerate(self.fields)}
        self.plain = {
            name: at for at, (name, info) in enumerate(here.items()) if not has_record(info.type)
        }
        places = {(self.declared.name, name): f"s[{at}]" for at, name in enumerate(self.fields)}
        self.outside: dict[str, tuple[int, Type]] = {}
        self.counts: dict[str, tuple[int, int, int]] = {}  # numbers among these
        self.numbers = {
            name: ends
            for name, at in self.place.items()
            if (ends := self._ends(at, here[name].type)) is not None
        }
        for machine in (m for table in tables for m in table.others):
            for name, info in machine.fields.items():
                keyword = f"{machine.name}__{name}"
                if keyword not in self.outside and machine is not self.declared:
                    kind = info.type if machine.key is None else Map(machine.key, info.type)
                    places[machine.name, name] = f"o[{len(self.outside)}]"
                    at = len(self.outside)
                    self.outside[keyword] = (at, kind)
                    if (ends := self._ends(at, kind)) is not None:
                        self.counts[keyword] = ends
        kinds = [info.type for info in here.values()]
        self.maps = [at for at, kind in enumerate(kinds) if isinstance(kind, Map)]
        self.first: list[Any] | None = None
        self.taken: dict[frozenset[str], dict[Any, Any]] = {}
        self.structured: dict[str, dict[str, Type]] = {}
        self.kept: dict[frozenset[str], tuple[Callable[..., Any], list[int]]] = {}
        self.places = places
        self.functions: dict[tuple[str, frozenset[str], bool], Callable[..., Any]] = {}
        self.rows_present: dict[tuple[str, frozenset[str]], list[Row]] = {}
        self.rows: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}

    def _ends(self, at: int, kind: Type) -> tuple[int, int, int] | None:
        """A place with the ends of its range, if the value is a number with a range."""
        low, high = self.ranges.of_int(kind) if isinstance(kind, Int) else (None, None)
        return None if low is None or high is None else (at, low, high)

    def places_but(self, but: frozenset[str]) -> tuple[Callable[..., Any], list[int]]:
        """A function that reads all fields except these and maps, and the places of the maps."""
        places = [at for at, name in enumerate(self.fields) if name not in but]
        plain = [at for at in places if at not in self.maps]
        read = itemgetter(*plain) if plain else _nothing
        return read, [at for at in places if at in self.maps]

    def first_state(self) -> list[Any]:
        """A machine's fields in their declared initial state."""
        if self.first is None:
            infos = self.infos.values()
            self.first = [self.initial(info.type, info.initial) for info in infos]
            for at in self.maps:
                self.first[at].shared = True
        return self.first.copy()

    def initial(self, kind: Type, given: Expression | None) -> Any:
        """A field's first value."""
        if given is None or given.op == "any_value":
            return self.ranges.initial(kind)
        return self.compiler({}).expression(given, {})([], [], None)

    def first_outside(self) -> list[Any]:
        """The initial values of the fields outside of the machine."""
        return [self.ranges.initial(kind) for _, kind in self.outside.values()]

    def compiler(self, names: Mapping[Expression, str]) -> Compiler:
        """A compiler. `names` are the Python names of parameters."""
        return Compiler(
            Layout(self.places, names),
            self.ranges,
            out_of_range=lambda field, value: OutOfRangeError(f"{field} can't be {value!r}", field),
            refused=self.refused,
        )

    def refused(self, field: str, kind: Type, value: Any) -> ModelError:
        """The error for a value that a field can't have."""
        inner = kind.of if isinstance(kind, Optional) else kind
        whole = isinstance(inner, (Int, Key)) and type(value) is int
        named = isinstance(inner, Enum) and isinstance(value, str)
        return refusal(field, self.ranges.expected(kind), value, of_type=whole or named)

    def parameters(self, table: Table) -> dict[str, Type]:
        """The names that an event binds: the variables that its rows use, and its fields."""
        for bound in table.on.variables:
            if bound.op == "element":
                raise DeclarationError(f"{table.name}: a machine by itself chooses no `{bound}`")
        variables = {name.data.name: name.data.type for name in table.on.variables}
        return variables | dict(table.on.parameters)

    def names(self, table: Table) -> dict[Expression, str]:
        """The Python names of an event's parameters."""
        found = {name: name.data.name for name in table.on.variables}
        for name, _ in table.on.parameters:
            found[getattr(table.on, name)] = name
        return found

    def settled(self, expression: Expression, features: frozenset[str]) -> Expression:
        """The expression, with features and comparisons of numbers replaced by their values, and
        folded."""

        def settle(node: Expression) -> Expression | None:
            if node.op == "feature":
                return lift(node.data.name in features)
            if node.op == "eq":
                one, other = map(self._constant, node.args)
                return None if one is None or other is None else lift(one == other)
            return None

        return folded(rewrite(expression, settle))

    def _constant(self, part: Expression) -> int | None:
        """The value of an expression without fields, if it is a number; otherwise None."""
        if part.op == "constant":
            return self.constants.get(part.data.name)
        return part.data if part.op == "const" and type(part.data) is int else None

    def function(
        self, event: str, features: frozenset[str], *, apply: bool = True
    ) -> Callable[..., Any]:
        """The compiled table. Raises UnknownEventError."""
        found = self.functions.get((event, features, apply))
        if found is not None:
            return found
        table = self.tables.get(event)
        if table is None:
            there = one_of(event, self.tables)
            raise UnknownEventError(f"{self.declared.name} has no event {event!r} ({there})")
        rows = self.present(table, features)
        rules = [self._rule(table, row, features) for row in rows]
        compiler = self.compiler(self.names(table))
        made = compiler.function(
            self.parameters(table), self.settled(table.guard, features), rules, apply=apply
        )
        self.rows[event, features] = tuple(row.id for row in rows)
        self.functions[event, features, apply] = made
        return made

    def present(self, table: Table, features: frozenset[str]) -> list[Row]:
        """The rows that exist with these features."""
        known = self.rows_present.get((table.on.name, features))
        if known is None:
            known = [row for row in table.rows if self.protocols.holds(row.during, features)]
            self.rows_present[table.on.name, features] = known
        return known

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
        return Rule(row.id, settled(row.guard), updates, sends)

    def _nothing(self, kind: Type) -> Expression:
        from ....language.types import literal

        value = self.ranges.initial(kind)
        if isinstance(kind, (Bool, Int, Enum, Key)):
            return literal(kind, value)
        return lift(None)


@cache
def program_of(
    tables: tuple[Table, ...], protocols: Protocols, constants: tuple[tuple[str, int], ...],
    reductions: tuple[Reduction, ...] = (),
) -> Program:  # fmt: skip
    """The cached program of these tables."""
    return Program(tables, protocols, dict(constants), reductions)


def _nothing(_: list[Any]) -> tuple[()]:
    """The reader for a machine that has only maps."""
    return ()
