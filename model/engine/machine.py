"""Executable machines: a declared machine at real ranges takes one event at a time.

machine = Machine(TABLES, PROTOCOLS, protocol="4.1") machine.put(state="ONGOING", producer_epoch=3)
# a given state outcome = machine.handle("EndTxn", producer_id=7, ...) # an event or a message
outcome.row, outcome.reply, outcome.sent # the row, the answer, all messages
machine.state["pending"] # the new state

The caller chooses everything that the rows leave open: the time of an acknowledgement, the clock,
and other machines' fields (`outside`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from ...language.declaration.arguments import one_of
from ...language.declaration.errors import DeclarationError
from ...language.expressions import FALSE, Expression, lift
from ...language.instances.reductions import Reduction
from ...language.messages import Message
from ...language.protocols import Protocols
from ...language.tables import Row, Table
from ...language.types import SCALARS, Map, Optional, Type
from .compiler.program import message_class, program_of
from .errors import MissingFieldError, NotNowError, UnknownFieldError, refusal
from .values import Sparse, mapped, shown, stored


class Outcome(NamedTuple):
    """The result of an event: the row, the sent messages (including the reply), and the reply."""

    row: str
    sent: tuple[Any, ...]
    reply: Any


class Taken(NamedTuple):
    """A taken row: a copy of the machine before, the row, the sent messages, and the reply among
    them."""

    machine: Machine
    table: Table
    row: Row
    switch_off: tuple[str, ...]
    fields: Mapping[str, Any]
    sent: tuple[Any, ...]
    reply: Any

    def value(self, expression: Expression) -> Any:
        """The value of an expression of the table, before the step."""
        return self.machine.meaning(self.table.on.name, expression, self.switch_off, self.fields)


_watching: list[list[Taken]] = []


@contextmanager
def watched() -> Generator[list[Taken]]:
    """Records all rows that machines take in the block, in order."""
    taken: list[Taken] = []
    _watching.append(taken)
    try:
        yield taken
    finally:
        _watching.remove(taken)


_noting: list[set[tuple[Table, Row]]] = []


@contextmanager
def noted() -> Generator[set[tuple[Table, Row]]]:
    """Records the set of rows that machines take in the block, each with its table. Faster than
    `watched`."""
    taken: set[tuple[Table, Row]] = set()
    _noting.append(taken)
    try:
        yield taken
    finally:
        _noting.remove(taken)


def is_watched() -> bool:
    """Whether rows are recorded now."""
    return bool(_watching or _noting)


class Machine:
    """One instance of a declared machine, at real ranges.

    `tables` has one table for each event. `protocol` is a release of `protocols` (default: the
    newest). `switch_on` and `switch_off` name single features. `this` is the machine's identity, if
    rows use it. `constants` overrides numbers such as a broker's settings. `reductions` leave out
    fields and messages that the caller doesn't need.

    Raises DeclarationError for an unknown protocol or feature, or if rows quantify over keys in a
    way that can't be evaluated.
    """

    def __init__(
        self, tables: Iterable[Table], protocols: Protocols, *, protocol: str | None = None,
        switch_on: Iterable[str] = (), switch_off: Iterable[str] = (), this: Any = None,
        constants: Mapping[str, int] | None = None,
        reductions: Iterable[Reduction] = (),
    ) -> None:  # fmt: skip
        for name, number in (constants or {}).items():
            if type(number) is not int:
                raise refusal(name, "a whole number", number, of_type=False)
        given = tuple(sorted((constants or {}).items()))
        self._program = program_of(tuple(tables), protocols, given, tuple(reductions))
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
        """A copy of every field, by name."""
        program = self._program
        kinds = (info.type for info in program.infos.values())
        return {
            name: shown(kind, value)
            for name, kind, value in zip(program.fields, kinds, self._s, strict=True)
        }

    @property
    def names(self) -> Mapping[str, Any]:
        """The machine's fields, by name."""
        return self._program.infos

    def kept(
        self, but: frozenset[str], of_map: Callable[[Sparse], Hashable]
    ) -> tuple[Hashable, ...]:
        """The values of all fields except `but`, for comparisons. Faster than `state`. `of_map`
        makes a hashable value of a map."""
        known = self._program.kept.get(but)
        if known is None:
            known = self._program.kept[but] = self._program.places_but(but)
        plain, maps = known
        values = self._s
        return plain(values), *[of_map(values[at]) for at in maps]

    def is_as(self, other: Machine) -> bool:
        """Whether another machine of the same tables has the same values in all fields."""
        return self._s == other._s

    def __getitem__(self, name: str) -> Any:
        """The value of a field. Raises UnknownFieldError."""
        plain = self._program.plain.get(name)
        if plain is not None:
            return self._s[plain]
        return shown(self._kind(name), self._s[self._program.place[name]])

    def at(self, name: str, key: Any) -> Any:
        """The value for a key of a field that is a map. Raises UnknownFieldError."""
        kind = self._kind(name)
        if not isinstance(kind, Map):
            raise UnknownFieldError(f"{name} is not a map", name)
        return shown(kind.of, self._s[self._program.place[name]][key])

    def keys(self, name: str) -> tuple[Any, ...]:
        """The keys whose value isn't the default, of a field that is a map. Raises
        UnknownFieldError."""
        kind = self._kind(name)
        if not isinstance(kind, Map):
            raise UnknownFieldError(f"{name} is not a map", name)
        values = self._s[self._program.place[name]]
        return tuple(key for key, value in values.items() if value != values.default)

    def _kind(self, name: str) -> Type:
        program = self._program
        if name not in program.infos:
            there = one_of(name, program.infos)
            raise UnknownFieldError(f"{program.declared.name} has no field {name} ({there})", name)
        return program.infos[name].type

    def put(self, /, **fields: Any) -> None:
        """Sets fields to given values. Raises UnknownFieldError, WrongTypeError or
        OutOfRangeError."""
        program, taken = self._program, list[tuple[int, Any]]()
        for name, value in fields.items():
            number = program.numbers.get(name)
            if number is None or type(value) is not int or not number[1] <= value <= number[2]:
                value = self._read(name, self._kind(name), value)
            taken.append((program.place[name], value))
        for at, value in taken:
            self._s[at] = value

    def outside(self, /, **fields: Any) -> None:
        """Sets fields of other machines that rows read. Names are machine and field: `clock__now=5`
        sets the field `now` of the clock. Raises UnknownFieldError, WrongTypeError or
        OutOfRangeError."""
        for name, value in fields.items():
            count = self._program.counts.get(name)
            if count is not None and type(value) is int and count[1] <= value <= count[2]:
                self._o[count[0]] = value
                continue
            place = self._program.outside.get(name)
            if place is None:
                known = ", ".join(self._program.outside) or "none"
                raise UnknownFieldError(f"nothing reads {name} here (rows read: {known})", name)
            at, kind = place
            if self._o[at] != value:
                self._o[at] = self._read(name, kind, value)

    def sees(self, name: str) -> bool:
        """Whether the rows read this field of another machine, named as in `outside`."""
        return name in self._program.outside

    def seen_outside(self, name: str) -> Any:
        """The value of a field of another machine, named as in `outside`."""
        at, kind = self._program.outside[name]
        return shown(kind, self._o[at])

    def _read(self, name: str, kind: Type, value: Any) -> Any:
        read = stored(self._program.ranges, kind, value)
        if not self._program.ranges.contains(kind, read):
            raise self._program.refused(name, kind, value)
        return read

    def copy(self) -> Self:
        """Another machine in the same state."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._s, made._o = self._s.copy(), self._o.copy()
        for at in self._program.maps:  # rows set keys of these maps in place
            self._s[at].shared = True
        return made

    def mapped(self, of: Type, change: Callable[[Any], Any]) -> Self:
        """A copy of the machine with `change` applied to every value of the type `of`, in fields
        and their records."""
        made, kinds = self.copy(), self._program.infos.values()
        made._s = [
            mapped(info.type, of, change, value) for info, value in zip(kinds, made._s, strict=True)
        ]
        return made

    def value(self, expression: Expression) -> Any:
        """The value of an expression over the machine's fields."""
        program = self._program
        known = self._taken.get(expression)
        if known is None:
            from ...language.declaration.typecheck import type_of

            compiler = program.compiler({})
            function = compiler.expression(program.settled(expression, self.features), {})
            known = self._taken[expression] = function, type_of(expression)
        function, kind = known
        value = function(self._s, self._o, self.this)
        return value if kind is None else shown(kind, value)

    def meaning(
        self, event: str, expression: Expression, switch_off: tuple[str, ...],
        fields: Mapping[str, Any],
    ) -> Any:  # fmt: skip
        """The value of an expression in an event's table. `fields` are the event's fields."""
        known = self._taken.get((event, expression, switch_off))
        if known is None:
            program, features = self._program, self.features - set(switch_off)
            table = program.tables[event]
            compiler = program.compiler(program.names(table))
            settled = program.settled(expression, features)
            known = compiler.expression(settled, program.parameters(table))
            self._taken[event, expression, switch_off] = known
        return known(self._s, self._o, self.this, **fields)

    # Events -----------------------------------------------------------------------------------

    @property
    def events(self) -> tuple[str, ...]:
        """The names of the events and messages that the machine takes."""
        return tuple(self._program.tables)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The machine's tables, as declared."""
        return tuple(self._program.tables.values())

    def rows_of(self, event: str, *, switch_off: tuple[str, ...] = ()) -> tuple[Row, ...]:
        """The rows that an event may take in this release, without the features in `switch_off`.
        Rows whose guard is false by features and constants are left out. Raises
        UnknownEventError."""
        features = self.features - set(switch_off)
        program = self._program
        program.function(event, features)
        return tuple(
            row
            for row in program.tables[event].rows
            if program.protocols.holds(row.during, features)
            and not program.settled(lift(row.when), features).same_as(FALSE)
        )

    def settled(self, condition: Expression) -> Expression:
        """The condition, with the parts folded that this release decides."""
        return self._program.settled(condition, self.features)

    def fields_of(self, event: str) -> dict[str, Type]:
        """The fields of an event, with their types. Raises UnknownEventError."""
        self._program.function(event, self.features)
        return self._program.parameters(self._program.tables[event])

    def handle(self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any) -> Outcome:
        """Takes an event. `switch_off` names features that don't apply to this event, as for a
        request of an older version.

        Raises UnknownEventError, UnknownFieldError, MissingFieldError, WrongTypeError or
        OutOfRangeError for a wrong call, and NotNowError if the event can't happen in this state.
        The state is unchanged then.
        """
        outcome = self._take(event, switch_off, fields)
        if outcome is None:
            raise NotNowError(
                f"{event} can't happen to {self._program.declared.name} in this state"
            )
        return outcome

    def attempt(
        self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any
    ) -> Outcome | None:
        """As `handle`, but returns None if the event can't happen."""
        return self._take(event, switch_off, fields)

    def _take(
        self, event: str, switch_off: tuple[str, ...], fields: dict[str, Any]
    ) -> Outcome | None:
        known = self._taken.get((event, switch_off))
        if known is None:
            known = self._bound(event, switch_off)
            self._taken[event, switch_off] = known
        function, rows, reply, structured = known
        before = self.copy() if _watching else None
        result: Any
        try:
            given = fields | self._brought(structured, fields) if structured else fields
            result = function(self._s, self._o, self.this, **given)
        except TypeError:
            self._explain(event, fields)
            raise
        if result is None:
            return None
        at, sent = result
        outcome = Outcome(rows[at], sent, reply(sent) if sent else None)
        if before is not None:
            table = self._program.tables[event]
            features = self.features - set(switch_off)
            row = self._program.present(table, features)[int(at)]
            for taken in _watching:
                taken.append(Taken(before, table, row, switch_off, given, sent, outcome.reply))
        if _noting:
            table = self._program.tables[event]
            row = self._program.present(table, self.features - set(switch_off))[int(at)]
            for noting in _noting:
                noting.add((table, row))
        return outcome

    def may(self, event: str, /, *, switch_off: tuple[str, ...] = (), **fields: Any) -> str | None:
        """The id of the row that the event would take; None if it can't happen. The state is
        unchanged."""
        features = self.features - set(switch_off)
        function = self._program.function(event, features, apply=False)
        at: int | None
        try:
            structured = self._structured(event)
            given = fields | self._brought(structured, fields) if structured else fields
            at = function(self._s, self._o, self.this, **given)
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

        return function, self._program.rows[event, features], reply, self._structured(event)

    def _structured(self, event: str) -> dict[str, Type]:
        """The fields of an event that aren't plain values."""
        known = self._program.structured.get(event)
        if known is None:
            known = self._program.structured[event] = {
                name: kind
                for name, kind in self.fields_of(event).items()
                if not isinstance(kind.of if isinstance(kind, Optional) else kind, SCALARS)
            }
        return known

    def _brought(self, structured: Mapping[str, Type], fields: Mapping[str, Any]) -> dict[str, Any]:
        """The values of an event's fields, as rows read them."""
        ranges = self._program.ranges
        return {
            name: stored(ranges, kind, fields[name])
            for name, kind in structured.items()
            if name in fields
        }

    def _explain(self, event: str, fields: Mapping[str, Any]) -> None:
        known = self.fields_of(event)
        for name in fields:
            if name not in known:
                there = one_of(name, known)
                raise UnknownFieldError(f"{event} has no field {name} ({there})", name) from None
        for name in known:
            if name not in fields:
                raise MissingFieldError(f"{event} lacks its field {name}", name) from None
