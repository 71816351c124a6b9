"""Reductions: a bounded system leaves out parts of its machines.

Rows state the behaviour of a machine at real ranges. A system lists its reductions in one place::

    System(
        ...,
        reductions=(
            LeftOut(partition.linger_ms, because="a batch may be ready at any time"),
            StandsFor(leader.log_end_offset, size(leader.log), because="each entry has one offset"),
            Chosen(now >= deadline, retry, "is_over", when=has_failed, because="it has no time"),
            NotOffered(drain, when=client.is_muted, because="the environment chooses the order"),
            Never("client.ProduceResponse/too-large", because="a batch has one record"),
            Instead("client.EndTxn/lost", (Row(...),), because="it is sent again at once"),
            Canonical(client.batches[p][r], Batch(status=...), when=..., because="nobody reads it"),
            Settled({client.added: set_of()}, when=client.state == FATAL, because="it has failed"),
            Before("client.EndTxn/ended", (Row(...),), because="the network drops it"),
            Also("client.EndTxn/retry", send=EndTxn(...), because="there is no queue"),
        ),
    )

Each reduction has a reason. `refined_by` is the test that compares the reduced machine with the
whole one. A machine that runs alone (`model.machine.Machine`) takes the same reductions: they leave
out the fields that only properties read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_
from typing import Any, TypeAlias

from ..declaration.arguments import check_kind, items
from ..declaration.errors import DeclarationError, declared_at
from ..declaration.places import Place, here
from ..declaration.typecheck import type_of
from ..expressions import (
    FALSE,
    TRUE,
    EnumValue,
    Expression,
    Field,
    Operand,
    Parameter,
    children_first,
    field_set,
    folded,
    lift,
    rewrite,
)
from ..machines import Event, Machine
from ..messages import Dropping, Loss, Message, Sending
from ..progress.fairness import Fairness
from ..progress.rankings import Ranking
from ..properties import Property
from ..tables import Row, Table, conjuncts
from ..terms.operators import each, if_
from ..terms.scopes import bound_name
from ..types import Bool, Enum, check_names


@dataclass(frozen=True, eq=False)
class _Reduction:
    """The reason of a reduction, its refinement check, and the place of its declaration."""

    because: str = field(default="", kw_only=True)
    refined_by: str = field(default="", kw_only=True)
    declared: Place | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        kind = type(self).__name__
        check_kind(f"{kind}, because", self.because, str)
        check_kind(f"{kind}, refined_by", self.refined_by, str)
        if not self.because.strip():
            raise DeclarationError(f"{kind}: give the reason with because=")


@dataclass(frozen=True, eq=False)
class StandsFor(_Reduction):
    """A field, a parameter of an event, or another expression has a value of the reduced system.

    A field or parameter is left out with its updates, and reads give `value`. Any other expression
    is replaced by `value` where it occurs. Properties that read the field are named in `read_by`.
    """

    of: Expression
    value: Operand
    read_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("StandsFor", self.of, Expression)
        lift(self.value)


@dataclass(frozen=True, eq=False)
class LeftOut(_Reduction):
    """A field, a parameter of an event, or a message that the reduced system doesn't have.

    Its updates, values and sendings are left out, and nothing may read it. A message may be left
    out only where `when` holds, a condition that reads the fields of the message as
    `Message.name`. `of` may be an enum: the members beyond its size in the system are left out, and
    a comparison with one of them is false.
    """

    of: Expression | Message | Enum
    when: Operand = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("LeftOut", self.of, Expression, Message, Enum)
        if not self.is_always and not isinstance(self.of, Message):
            raise DeclarationError(f"LeftOut: `{self.of}` isn't a message: leave when= out")
        if isinstance(self.of, Expression) and self.of.op not in ("field", "parameter"):
            raise DeclarationError(
                f"LeftOut: `{self.of}` isn't a field, a parameter or a message: use StandsFor"
            )

    @property
    def is_always(self) -> bool:
        """Whether the reduction has no condition."""
        return lift(self.when) is TRUE


@dataclass(frozen=True, eq=False)
class Chosen(_Reduction):
    """The environment chooses whether the condition `of` holds, while `when` holds.

    The event has the further parameter `name` in the reduced system, which stands for `of`. While
    `when` doesn't hold, the parameter is `otherwise`.
    """

    of: Expression
    event: Event
    name: str
    when: Operand = True
    otherwise: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("Chosen", self.of, Expression)
        check_kind("Chosen, event", self.event, Event)
        check_names("Chosen, name", (self.name,), Event)
        if type_of(self.of) != Bool():
            raise DeclarationError(f"Chosen: `{self.of}` isn't a condition")
        bound = (bound_name(variable) for variable in self.event.variables)
        if self.name in (*dict(self.event.parameters), *bound):
            raise DeclarationError(f"Chosen: event {self.event.name} already has a {self.name}")
        lift(self.when)

    @property
    def value(self) -> Expression:
        """The parameter."""
        return Expression("parameter", (), Parameter(self.event.name, self.name, Bool()))

    @property
    def is_offered(self) -> Expression:
        """The condition for each value of the parameter."""
        default = self.value if self.otherwise else ~self.value
        return TRUE if lift(self.when) is TRUE else lift(self.when) | default


@dataclass(frozen=True, eq=False)
class NotOffered(_Reduction):
    """The event doesn't happen to the machine while `when` holds.

    A message stays in the network while `when` holds.
    """

    machine: Machine
    event: Event
    when: Operand

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("NotOffered, machine", self.machine, Machine)
        check_kind("NotOffered, event", self.event, Event)
        lift(self.when)


@dataclass(frozen=True, eq=False)
class Never(_Reduction):
    """The reduced system doesn't have these rows (`machine.event/row-id`)."""

    rows: str | tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The rows as a tuple."""
        return (self.rows,) if isinstance(self.rows, str) else self.rows


@dataclass(frozen=True, eq=False)
class Instead(_Reduction):
    """The rows `by` replace the row `machine.event/row-id` in the reduced system."""

    row: str
    by: tuple[Row, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "by", items(f"Instead of {self.row}, by", self.by, Row, "row"))


@dataclass(frozen=True, eq=False)
class Canonical(_Reduction):
    """Each value of `of` for which `when` holds is replaced by `value`.

    `of` is a field, an element of it under variables (`batches[p][r]`), or a field of a message
    that is sent. `value` and `when` are expressions over `of`. States that differ only in values
    that nobody reads become one state.
    """

    of: Expression
    value: Operand
    when: Operand = True

    def __post_init__(self) -> None:
        super().__post_init__()
        base = self.of
        if base.op == "parameter":
            return
        while base.op == "index" and base.args[1].op == "variable":
            base = base.args[0]
        if base.op != "field":
            raise DeclarationError(
                f"Canonical: `{self.of}` is neither a field, its element under variables, nor a "
                "field of a message"
            )


@dataclass(frozen=True, eq=False)
class Settled(_Reduction):
    """Fields of a machine get the values `set` in each state where `when` holds.

    A row that always leads to `when` sets them instead of its own updates of these fields. `when`
    reads fields of the machine, and the values are those of the state before the row. If two such
    reductions apply to a row, the first one takes precedence.
    """

    set: Mapping[Expression, Operand]
    when: Operand

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.set:
            raise DeclarationError("Settled: name at least one field")
        for of in self.set:
            check_kind("Settled", of, Expression)
            if of.op != "field":
                raise DeclarationError(f"Settled: `{of}` isn't a field")

    @property
    def machine(self) -> str:
        """The name of the machine. Raises DeclarationError for fields of more than one machine."""
        read = [*self.set, *(n for n in children_first(lift(self.when)) if n.op == "field")]
        names = {of.data.machine for of in read}
        if len(names) > 1:
            raise DeclarationError(f"Settled: fields of {' and '.join(sorted(names))}: take one")
        return names.pop()


@dataclass(frozen=True, eq=False)
class Before(_Reduction):
    """The reduced system has the rows `rows` before the row `machine.event/row-id`."""

    row: str
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rows", items(f"Before {self.row}", self.rows, Row, "row"))


@dataclass(frozen=True, eq=False)
class Also(_Reduction):
    """These rows (`machine.event/row-id`) have more updates and messages in the reduced system."""

    rows: str | tuple[str, ...]
    set: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    send: Sending | tuple[Sending, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.set and not self.sendings:
            raise DeclarationError(f"Also, {self.rows}: give set= or send=")

    @property
    def labels(self) -> tuple[str, ...]:
        """The rows as a tuple."""
        return (self.rows,) if isinstance(self.rows, str) else self.rows

    @property
    def sendings(self) -> tuple[Sending, ...]:
        """The messages as a tuple."""
        return (self.send,) if isinstance(self.send, Sending) else self.send


Reduction: TypeAlias = (
    StandsFor
    | LeftOut
    | Chosen
    | NotOffered
    | Never
    | Instead
    | Canonical
    | Settled
    | Before
    | Also
)


class Reduced:
    """The parts of a declaration after reductions: tables, events, properties and rankings.

    Raises DeclarationError for two reductions of one thing.
    """

    def __init__(
        self, reductions: Iterable[Reduction], fixed: Mapping[Expression, int] | None = None
    ) -> None:
        self.reductions = tuple(reductions)
        self.fixed = {constant.data.name: value for constant, value in (fixed or {}).items()}
        """The constants that no run sets."""
        self.fields: dict[Field, StandsFor | LeftOut] = {}
        self.parameters: dict[tuple[str, str], StandsFor | LeftOut] = {}
        self.messages: dict[Message, LeftOut] = {}
        self.others: dict[Expression, Expression] = {}
        self.rows: dict[str, tuple[Row, ...]] = {}
        self.offers: dict[tuple[str, Event], list[NotOffered]] = {}
        self.chosen: dict[str, Chosen] = {}
        self.enums: dict[Enum, LeftOut] = {}
        self.unsent: dict[Message, LeftOut] = {}
        self.forms: dict[Field, Canonical] = {}
        self.sent_forms: dict[tuple[str, str], Canonical] = {}
        self.settled: dict[str, list[Settled]] = {}
        self.before: dict[str, tuple[Row, ...]] = {}
        self.also: dict[str, Also] = {}
        for one in self.reductions:
            check_kind("reductions", one, _Reduction)
            with declared_at(one.declared):
                self._add(one)
        self._known: dict[Expression, Expression] = {}
        self._tables: dict[Table, Table] = {}
        self._events: dict[Event, Event] = {}
        self._done: set[Row] = set()
        self._first: dict[tuple[str, Place | None], Row] = {}
        self._put = {
            row.declared
            for one in self.reductions
            if isinstance(one, (Instead, Before))
            for row in (one.by if isinstance(one, Instead) else one.rows)
        }
        """The places of rows that only systems have. A change may have rewritten them."""
        self.given: dict[str, Any] = {}
        """The parts of the system before its reductions, by name."""
        self.tables: tuple[Table, ...] = ()
        """The reduced tables. A change after the reductions has others."""
        self.machines: dict[str, Machine] = {}
        """The machines of the system. Conditions of messages may read them."""

    def _add(self, one: Reduction) -> None:
        match one:
            case NotOffered():
                self.offers.setdefault((one.machine.name, one.event), []).append(one)
            case Settled():
                self.settled.setdefault(one.machine, []).append(one)
            case _:
                for known, key, value in self._entries(one):
                    if key in known:
                        of = getattr(one, "of", key)
                        name = of.name if isinstance(of, (Message, Enum)) else of
                        raise DeclarationError(
                            f"reductions: `{name}` is reduced twice: leave one of them out"
                        )
                    known[key] = value

    def _entries(self, one: Reduction) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
        """The entries of a reduction: each is a mapping of this object, a key and a value."""
        match one:
            case StandsFor() if one.of.op not in ("field", "parameter"):
                yield self.others, one.of, lift(one.value)
            case StandsFor() | LeftOut() if isinstance(one.of, Expression):
                data = one.of.data
                if isinstance(data, Parameter):
                    yield self.parameters, (data.event, data.name), one
                else:
                    yield self.fields, data, one
            case Chosen():
                yield self.others, one.of, one.value
                yield self.chosen, one.event.name, one
            case LeftOut() if isinstance(one.of, Enum):
                yield self.enums, one.of, one
            case LeftOut() if isinstance(one.of, Message):
                yield (self.messages if one.is_always else self.unsent), one.of, one
            case Canonical() if isinstance(sent := one.of.data, Parameter):
                yield self.sent_forms, (sent.event, sent.name), one
            case Canonical():
                yield self.forms, field_set(one.of), one
            case Never():
                yield from ((self.rows, label, ()) for label in one.labels)
            case Instead():
                yield self.rows, one.row, one.by
            case Before():
                yield self.before, one.row, one.rows
            case Also():
                yield from ((self.also, label, one) for label in one.labels)
            case _:
                pass

    # Expressions --------------------------------------------------------------------------------

    def expression(self, value: Expression) -> Expression:
        """The expression in the reduced system."""
        changed = rewrite(value, self._change, self._known)
        return value if changed is value else folded(changed)

    def _change(self, node: Expression) -> Expression | None:
        other = self.others.get(node)
        if other is not None:
            return self.expression(other)
        if node.op == "field":
            found = self.fields.get(node.data)
            if isinstance(found, StandsFor):
                value = self.expression(lift(found.value))
                return value.at(self.expression(node.args[0])) if node.args else value
        if node.op == "parameter":
            found = self.parameters.get((node.data.event, node.data.name))
            if isinstance(found, StandsFor):
                return self.expression(lift(found.value))
        if node.op == "eq" and any(map(self._is_no_member, node.args)):
            return FALSE
        if node.op == "in_flight":
            message = self.message(node.data)
            if message is not node.data:
                return Expression(node.op, tuple(map(self.expression, node.args)), message)
        return None

    def _is_no_member(self, node: Expression) -> bool:
        """Whether the node is a member that the enum lacks in the system."""
        value = node.data
        if not isinstance(value, EnumValue) or value.enum not in self.enums:
            return False
        return value.member not in value.enum.names_at(self.fixed)

    # Events -------------------------------------------------------------------------------------

    def message(self, message: Message) -> Message:
        """The message without the fields that are left out."""
        made = self.event(message)
        assert isinstance(made, Message)
        return made

    def event(self, event: Event) -> Event:
        """The event without the parameters that are left out."""
        known = self._events.get(event)
        if known is None:
            known = self._events[event] = self._event(event)
        return known

    def _event(self, event: Event) -> Event:
        if isinstance(event, Loss) and event.message is not None:
            message = self.message(event.message)
            parameters = tuple(p for p in event.parameters if not self._is_left(event, p[0]))
            parameters = tuple(p for p in parameters if p[0] in dict(message.parameters))
            if message is event.message and parameters == event.parameters:
                return event
            return dataclasses.replace(event, message=message, parameters=parameters)
        parameters = tuple(p for p in event.parameters if not self._is_left(event, p[0]))
        chosen = self.chosen.get(event.name)
        if chosen is not None and chosen.name not in dict(parameters):
            parameters += ((chosen.name, Bool()),)
        if isinstance(event, Message):
            answers = None if event.answers is None else self.message(event.answers)
            if parameters == event.parameters and answers is event.answers:
                return event
            return dataclasses.replace(event, parameters=parameters, answers=answers)
        if parameters == event.parameters:
            return event
        return dataclasses.replace(event, parameters=parameters)

    def _is_left(self, event: Event, name: str) -> bool:
        return (event.name, name) in self.parameters

    # Tables -------------------------------------------------------------------------------------

    def table(self, table: Table) -> Table:
        """The table in the reduced system.

        Raises DeclarationError if no row of it is left.
        """
        known = self._tables.get(table)
        if known is None:
            known = self._tables[table] = self._table(table)
        return known

    def _table(self, table: Table) -> Table:
        when = self.expression(table.guard)
        offers: list[NotOffered | Chosen] = [*self.offers.get((table.machine.name, table.on), ())]
        if (chosen := self.chosen.get(table.on.name)) is not None:
            offers.append(chosen)
        for offer in offers:
            if offer not in table.withheld:
                when = folded(when & self._offered(offer))
        rows = [
            self._row(table, row) for given in table.rows for row in self._rows_for(table, given)
        ]
        response = table.response
        if response is not None:
            response = None if response in self.messages else self.message(response)
        on = self.event(table.on)
        same = len(rows) == len(table.rows) and all(map(is_, rows, table.rows))
        same = same and when is table.guard and table.withheld.issuperset(offers)
        if same and response is table.response and on is table.on:
            return table
        if not rows:
            error = DeclarationError(f"table {table.name}: reductions remove all of its rows")
            raise error.within("", table.declared)
        names = {table.machine.name, *(machine.name for machine in table.others)}
        others = (*table.others, *(m for m in self._read_by(rows) if m.name not in names))
        withheld = table.withheld.union(offers)
        return dataclasses.replace(
            table, on=on, rows=tuple(rows), response=response, when=when, withheld=withheld,
            others=tuple(dict.fromkeys(others)),
        )  # fmt: skip

    def _offered(self, one: NotOffered | Chosen) -> Expression:
        """The condition under which the environment offers an event, with these parameters."""
        if isinstance(one, Chosen):
            return self.expression(one.is_offered)
        return _negated(self.expression(lift(one.when)))

    def _read_by(self, rows: Iterable[Row]) -> Iterator[Machine]:
        """The machines whose fields the conditions of sent messages read."""
        sendings = (s for row in rows for s in (*row.send, row.reply) if isinstance(s, Sending))
        for sending in sendings:
            if self._unsent(sending.message) is not None:
                for node in children_first(sending.when):
                    if node.op == "field" and node.data.machine in self.machines:
                        yield self.machines[node.data.machine]

    def _rows_for(self, table: Table, row: Row) -> tuple[Row, ...]:
        """The rows that replace a row of the whole system, before `Settled` applies."""
        if row in self._done or row.declared in self._put:
            return (row,)
        label = f"{table.name}/{row.id}"
        rows = self.rows.get(label, (row,))
        if self._first.setdefault((label, row.declared), row) is not row:
            return rows  # a change has rewritten the row, which already has the additions
        more = self.also.get(label)
        if more is not None:
            rows = tuple(
                dataclasses.replace(
                    one, set={**one.set, **more.set}, send=(*one.send, *more.sendings)
                )
                for one in rows
            )
        return (*self.before.get(label, ()), *rows)

    def are_done(self, tables: Iterable[Table]) -> None:
        """Marks the rows of these tables as reduced: later calls return them unchanged."""
        self._done |= {row for table in tables for row in table.rows}

    def _row(self, table: Table, row: Row) -> Row:
        if row in self._done:
            return row
        given, row = row, self._settled(table, row)
        reply = row.reply
        if isinstance(reply, Sending):
            reply = None if reply.message in self.messages else self._sending(reply)
        elif reply is not None:
            gone = table.response is not None and table.response in self.messages
            reply = None if gone else self.expression(reply)
        send = tuple(self._sending(s) for s in row.send if s.message not in self.messages)
        updates = {
            self.expression(target): self._value(target, self.expression(lift(value)))
            for target, value in row.set.items()
            if field_set(target) not in self.fields
        }
        guard = row.guard
        when = self.expression(guard)
        drop = tuple(
            self._dropping(item)
            for item in row.drop
            if (item.message if isinstance(item, Dropping) else item) not in self.messages
        )
        goto = row.goto if row.goto is None else self._goto(table, lift(row.goto))
        same = (
            when is guard and reply is row.reply and send == row.send and drop == row.drop
            and len(updates) == len(row.set) and (goto is None or goto is lift(row.goto))
            and all(t in updates and updates[t] is lift(v) for t, v in row.set.items())
        )  # fmt: skip
        if same and row is given:
            return row
        return dataclasses.replace(
            row, when=when, goto=goto, set=updates, reply=reply, send=send, drop=drop
        )

    def _settled(self, table: Table, row: Row) -> Row:
        """The row with the values that `Settled` sets."""
        forms = self.settled.get(table.machine.name)
        if forms is None:
            return row
        next_values = {
            target: lift(value) for target, value in row.set.items() if target.op == "field"
        }
        if row.goto is not None and table.machine.state is not None:
            next_values[table.machine.state] = lift(row.goto)
        updates: dict[Expression, Operand] = {}
        for one in forms:
            if folded(rewrite(lift(one.when), next_values.get)) is TRUE:
                updates = {**one.set, **updates}
        if not updates:
            return row
        fields = {field_set(of) for of in updates}
        kept = {of: value for of, value in row.set.items() if field_set(of) not in fields}
        return dataclasses.replace(row, set=kept | updates)

    def _goto(self, table: Table, value: Expression) -> Operand:
        assert table.machine.state is not None
        if table.machine.state.data in self.fields:
            return None
        return self._value(table.machine.state, self.expression(value))

    def _sending(self, sending: Sending) -> Sending:
        sending = self._where_sent(sending)
        message = self.message(sending.message)
        fields = tuple((n, v) for n, v in sending.fields if not self._is_left(sending.message, n))
        changed = dataclasses.replace(sending, message=message, fields=fields)
        changed = changed.rewritten(self.expression)
        same = changed.message is sending.message and changed.when is sending.when
        if same and len(fields) == len(sending.fields):
            both = zip(changed.fields, sending.fields, strict=True)
            if all(one[1] is other[1] for one, other in both):
                return sending
        return changed

    def _unsent(self, message: Message) -> LeftOut | None:
        """The reduction that leaves the message out under a condition, if there is one."""
        return next((one for of, one in self.unsent.items() if of.name == message.name), None)

    def _where_sent(self, sending: Sending) -> Sending:
        """The sending with its fields in canonical form. A condition excludes messages that are
        left out.
        """
        given = dict(sending.fields)
        reads = {getattr(sending.message, name): value for name, value in sending.fields}
        for name, value in sending.fields:
            form = self.sent_forms.get((sending.message.name, name))
            if form is None:
                continue

            def canonical(value: Expression, form: Canonical = form) -> Expression:
                names = {**reads, form.of: value}
                when = rewrite(lift(form.when), names.get)
                return _chosen(when, rewrite(lift(form.value), names.get), value)

            parts = value.args[1:] if value.op == "if" else ()
            plain = next((part for part in parts if canonical(part) is value), None)
            if plain is None:
                given[name] = canonical(value)
            else:  # the value already has the canonical form
                reads[form.of] = plain
        unsent, when = self._unsent(sending.message), sending.when
        if unsent is not None:
            sent = _negated(rewrite(lift(unsent.when), reads.get))
            if not conjuncts(sent) <= conjuncts(when):
                when = sent if when is TRUE else when & sent
        return dataclasses.replace(sending, fields=tuple(given.items()), when=when)

    def _dropping(self, item: Message | Dropping) -> Message | Dropping:
        if isinstance(item, Message):
            return self.message(item)
        address = tuple((name, self.expression(value)) for name, value in item.address)
        return dataclasses.replace(item, message=self.message(item.message), address=address)

    # Canonical forms ----------------------------------------------------------------------------

    def _value(self, target: Expression, value: Expression) -> Expression:
        """The new value of a field, in its canonical form."""
        form = self.forms.get(field_set(target))
        if form is None:
            return value
        variables = _keys(form.of)
        if any(node.op == "get" for node in _path(target)):
            raise DeclarationError(
                f"`{target}` is a part of `{form.of}`, which has a canonical form: "
                "set it as a whole"
            )
        keys = _keys(target)
        if len(keys) > len(variables):
            raise DeclarationError(f"`{target}` is a part of `{form.of}`: set it as a whole")
        return self._formed(form, value, variables, keys)

    def _formed(
        self, form: Canonical, value: Expression, variables: list[Expression],
        keys: list[Expression],
    ) -> Expression:  # fmt: skip
        if len(keys) < len(variables):
            variable = variables[len(keys)]
            inner = _element(value, variable)
            return each(variable, self._formed(form, inner, variables, [*keys, variable]))
        if value.op == "if":
            condition, one, other = value.args
            one = self._formed(form, one, variables, keys)
            return if_(condition, one, self._formed(form, other, variables, keys))
        found = dict(zip(variables, keys, strict=True)) | {form.of: value}

        def put(part: Operand) -> Expression:
            return self.expression(rewrite(lift(part), found.get))

        when = _parts_known(put(form.when))
        if when is FALSE:
            return value
        settled = _parts_known(put(form.value))
        return settled if when is TRUE else if_(when, settled, value)

    # The rest of a system -----------------------------------------------------------------------

    def property(self, item: Property) -> Property:
        """The property in the reduced system.

        Raises DeclarationError if it reads a field that is left out, or a field of a `StandsFor`
        whose `read_by` lacks the property.
        """
        nodes = (*children_first(item.expression), *children_first(item.premise))
        for node in nodes:
            found = self.fields.get(node.data) if node.op == "field" else None
            if found is None:
                continue
            if isinstance(found, LeftOut) or item.name not in found.read_by:
                remedy = "" if isinstance(found, LeftOut) else f", or read_by=({item.name!r},)"
                raise DeclarationError(
                    f"property {item.name} reads `{node}`, which a reduction leaves out "
                    f"({found.because}): take out the reduction{remedy}"
                ).within("", found.declared)
        return item.changed(self.expression)

    def lemma(self, item: Property) -> Property:
        """The lemma in the reduced system. It may read fields of every `StandsFor`."""
        return item.changed(self.expression)

    def ranking(self, item: Ranking) -> Ranking:
        """The ranking in the reduced system."""
        made = item.over(self.expression)
        helpful = tuple(dataclasses.replace(h, event=self.event(h.event)) for h in made.helpful)
        return dataclasses.replace(made, helpful=helpful)

    def fairness(self, item: Fairness) -> Fairness:
        """The fairness assumption with the reduced event."""
        return dataclasses.replace(item, event=self.event(item.event))

    def budgets(
        self, budgets: Mapping[Event | tuple[Event, ...], Operand]
    ) -> dict[Event | tuple[Event, ...], Operand]:
        """The budgets with the reduced events."""
        return {
            tuple(map(self.event, events))
            if isinstance(events, tuple)
            else self.event(events): most
            for events, most in budgets.items()
        }

    @cached_property
    def left(self) -> frozenset[Field]:
        """The fields that the reduced system doesn't have."""
        return frozenset(self.fields)

    def check(self, tables: Iterable[Table]) -> None:
        """Raises DeclarationError for a reduction of an unknown row or event."""
        tables = tuple(tables)
        rows = {f"{table.name}/{row.id}" for table in tables for row in table.rows}
        taken = {(table.machine.name, table.on) for table in tables}
        for one in self.reductions:
            with declared_at(one.declared):
                if isinstance(one, Chosen):
                    _check_chosen(one, tables)
                self._check(one, rows, taken)

    def _check(self, one: Reduction, rows: set[str], taken: set[tuple[str, Event]]) -> None:
        if isinstance(one, NotOffered):
            if (one.machine.name, one.event) not in taken:
                raise DeclarationError(
                    f"reductions, NotOffered: {one.machine.name} has no table on {one.event.name}"
                )
        elif isinstance(one, (Never, Instead, Before, Also)):
            for _, name, _ in self._entries(one):
                if name not in rows:
                    raise DeclarationError(f"reductions: no table has the row {name!r}")


def _check_chosen(one: Chosen, tables: Iterable[Table]) -> None:
    """Raises DeclarationError if no table on the event reads the condition, or another does."""
    readers = {
        table.on.name
        for table in tables
        if any(node is one.of for _, part in table.parts for node in children_first(part))
    }
    if one.event.name not in readers:
        raise DeclarationError(f"reductions, Chosen: no table on {one.event.name} reads `{one.of}`")
    others = sorted(readers - {one.event.name})
    if others:
        raise DeclarationError(
            f"reductions, Chosen: tables on {', '.join(others)} read `{one.of}`, too: only "
            f"{one.event.name} has the parameter {one.name}"
        )


def _negated(condition: Expression) -> Expression:
    """The negation of a condition, without a double one."""
    return condition.args[0] if condition.op == "not" else ~condition


def _chosen(when: Expression, one: Expression, other: Expression) -> Expression:
    """`one` where the condition holds, else `other`; a negated condition swaps the two."""
    if when.op == "not":
        return if_(when.args[0], other, one)
    return if_(when, one, other)


def _path(target: Expression) -> list[Expression]:
    """The operators between a field and a part of it, the outermost first."""
    steps: list[Expression] = []
    while target.op != "field":
        steps.insert(0, target)
        target = target.args[0]
    return steps


def _keys(target: Expression) -> list[Expression]:
    return [node.args[1] for node in _path(target)]


def _element(value: Expression, key: Expression) -> Expression:
    """An element of a map."""
    if value.op == "each":
        bound, body = value.args
        return rewrite(body, lambda node: key if node is bound else None)
    if value.op == "if":
        condition, one, other = value.args
        return if_(condition, _element(one, key), _element(other, key))
    if value.op == "updated":
        mapping, changed, new = value.args
        return if_(key == changed, new, _element(mapping, key))
    return value[key]


def _parts_known(value: Expression) -> Expression:
    """The expression, with each field of a record that is made in it replaced by its value."""

    def change(node: Expression) -> Expression | None:
        if node.op != "get":
            return None
        whole = _parts_known(node.args[0])
        return part_of(whole, node.data)

    return folded(rewrite(value, change))


def part_of(whole: Expression, name: str) -> Expression:
    """A field of a record: its value, where the record has just been made or changed."""
    match whole.op:
        case "make":
            made: tuple[str, ...] = whole.data[1]
            if name in made:
                return whole.args[made.index(name)]
        case "replace":
            names: tuple[str, ...] = whole.data
            if name in names:
                return whole.args[1 + names.index(name)]
            return part_of(whole.args[0], name)
        case "if":
            condition, one, other = whole.args
            return if_(condition, part_of(one, name), part_of(other, name))
        case _:
            pass
    return Expression("get", (whole,), name)
