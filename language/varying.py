"""Features that change within a run: the rows that ask for one look at the state, or at what a
message says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .errors import DeclarationError
from .expressions import TRUE, Expression, Operand, children_first, folded, lift, rewrite
from .given import check_kind, check_name, pairs
from .machines import Event
from .messages import Dropping, Loss, Message, Sending
from .properties import Property
from .protocols import check_feature
from .systems import Budgets, System
from .tables import Row, Table, exclude
from .types import Bool


@dataclass(frozen=True, eq=False)
class Varying:
    """A feature that may hold in one step and not in the next, where the release has it.

    `holds` says under which condition it does: of a table by its name, or of all tables of a
    machine by the machine's. `carried` are messages that have a further field, called as the
    feature: their tables ask that one, where `holds` says nothing of them. It says what holds in
    the step that sends the message; a condition given there instead is about the machine that
    sends it, as the step leaves it. Where nothing is said, the feature holds throughout.

    Two rows of one name that the feature tells apart are both there: the one of the steps without
    it is called after `without`, too. `tables`, `budgets`, `constants` with their values in
    `bounds`, and `initials` are what the change takes: events that change the state, and what is
    first in it; `properties` are about it.

    Raises DeclarationError for what is none of these.
    """

    name: str
    doc: str
    feature: Expression
    holds: Mapping[str, Operand]
    carried: Mapping[Message, Operand]
    without: str
    tables: tuple[Table, ...] = ()
    properties: tuple[Property, ...] = ()
    budgets: Budgets = field(default_factory=dict[Event, Operand])
    constants: tuple[Expression, ...] = ()
    bounds: Mapping[Expression, int] = field(default_factory=dict[Expression, int])
    initials: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])

    def __post_init__(self) -> None:
        check_name("a varying feature", self.name)
        check_feature(f"varying {self.name}", self.feature)
        for name, form in (("holds", "{table: condition}"), ("carried", "{message: condition}")):
            pairs(f"varying {self.name}, {name}", getattr(self, name), form)
        for message in self.carried:
            check_kind(f"varying {self.name}, carried", message, Message)


def varying(system: System, change: Varying) -> System:
    """The system in which a feature changes within a run, called after both. It has no lemmas
    and rankings, and says nothing of what no run reaches.

    Raises DeclarationError for a table or machine that isn't there.
    """
    known = {table.name for table in system.tables} | {m.name for m in system.machines}
    for name in change.holds:
        if name not in known:
            raise DeclarationError(f"varying {change.name}: {system.name} has no {name}")
    made = _Varied(system, change)
    budgets: dict[Event | tuple[Event, ...], Operand] = {}
    for events, most in system.budgets.items():
        both = events if isinstance(events, tuple) else (events,)
        budgets[tuple(map(made.event, both))] = most
    budgets.update(change.budgets.items())
    own = [*change.constants]
    fixed = {c: v for c, v in system.fixed.items() if all(c is not constant for constant in own)}
    bounds = {name: {**values, **change.bounds} for name, values in system.bounds.items()}
    return replace(
        system,
        name=f"{system.name}+{change.name}",
        doc=f"{system.doc} {change.doc}",
        tables=(*map(made.table, system.tables), *change.tables),
        properties=(*map(made.property, system.properties), *change.properties),
        progress=tuple(map(made.property, system.progress)),
        lemmas=(),
        rankings=(),
        unreached=(),
        constants=(*system.constants, *own),
        fixed=fixed,
        bounds=bounds,
        channels=tuple(replace(c, message=made.message(c.message)) for c in system.channels),
        budgets=budgets,
        terminal=made.seen(system.end, TRUE),
        fairness=tuple(replace(f, event=made.event(f.event)) for f in system.fairness),
        initials={**system.initials, **change.initials},
    )


class _Varied:
    """The parts of a system if the feature changes."""

    def __init__(self, system: System, change: Varying) -> None:
        self.change = change
        self.feature = change.feature
        self.field = change.feature.data.name
        own = (table.machine for table in change.tables)
        self.machines = {machine.name: machine for machine in own if machine not in system.machines}
        self.carried = {message.name: lift(said) for message, said in change.carried.items()}

    # What carries it ---------------------------------------------------------------------------

    def message(self, message: Message) -> Message:
        """The message with its field for the feature."""
        answers = None if message.answers is None else self.message(message.answers)
        parameters = message.parameters
        if message.name in self.carried:
            parameters = (*parameters, (self.field, Bool()))
        if answers is message.answers and parameters is message.parameters:
            return message
        return replace(message, answers=answers, parameters=parameters)

    def event(self, event: Event) -> Event:
        """The event; if it is a message or its loss, the one with a field for the feature."""
        if isinstance(event, Message):
            return self.message(event)
        if isinstance(event, Loss) and event.message is not None:
            message = self.message(event.message)
            return replace(event, message=message, parameters=message.parameters)
        return event

    # What asks for it --------------------------------------------------------------------------

    def seen(self, expression: Expression, holds: Expression) -> Expression:
        """The expression where the feature holds under a condition."""

        def change(node: Expression) -> Expression | None:
            if node is self.feature:
                return holds if holds.same_as(lift(False)) else folded(node & holds)
            if node.op == "in_flight":
                message = self.message(node.data)
                if message is not node.data:
                    return Expression(node.op, tuple(map(inside, node.args)), message)
            return None

        def inside(part: Expression) -> Expression:
            return rewrite(part, change)

        changed = inside(expression)
        return expression if changed is expression else folded(changed)

    def property(self, item: Property) -> Property:
        """The property: outside of the machines the feature is the release's."""
        premise, expression = self.seen(item.premise, TRUE), self.seen(item.expression, TRUE)
        return replace(item, expression=expression, premise=premise)

    def condition(self, table: Table, on: Event) -> Expression:
        """Under what condition the feature holds in a table's steps."""
        for name in (table.name, table.machine.name):
            if name in self.change.holds:
                return lift(self.change.holds[name])
        taken = on.message if isinstance(on, Loss) else on
        if taken is not None and taken.name in self.carried:
            return getattr(on, self.field)
        return TRUE

    def table(self, table: Table) -> Table:
        """The table with the rows of both."""
        on = self.event(table.on)
        holds = self.condition(table, on)
        rows = tuple(self.row(row, holds) for row in table.rows)
        both = zip(rows, table.rows, strict=True)
        read = {node.data.machine for node in children_first(holds) if node.op == "field"}
        others = (*table.others, *(m for name, m in self.machines.items() if name in read))
        return replace(
            table,
            on=on,
            others=tuple(dict.fromkeys(others)),
            rows=tuple(self.named(row, was, rows) for row, was in both),
            response=None if table.response is None else self.message(table.response),
            when=self.seen(table.guard, holds),
        )

    def named(self, row: Row, was: Row, rows: Iterable[Row]) -> Row:
        """The row under a name of its own."""
        alike = [r for r in rows if r.id == row.id and not exclude(r.during, row.during)]
        there = rewrite(was.during, lambda node: TRUE if node is self.feature else None)
        if len(alike) < 2 or not folded(there).same_as(lift(False)):
            return row
        return replace(row, id=f"{row.id}, {self.change.without}", name="")

    def row(self, row: Row, holds: Expression) -> Row:
        """The row, with the feature as a part of its guard."""
        off = folded(rewrite(row.during, lambda n: lift(False) if n is self.feature else None))
        asks = off is not row.during and not holds.same_as(TRUE)
        changed = replace(
            row,
            when=row.guard & self.seen(row.during, holds) if asks else row.guard,
            drop=tuple(map(self.dropped, row.drop)),
            during=folded(row.during | off) if asks else row.during,
        )
        return changed.rewritten(
            lambda value: self.seen(value, holds),
            lambda sending: self.sending(sending, row, holds),
        )

    def sending(self, sending: Sending, row: Row, holds: Expression) -> Sending:
        """The message, with what holds for it."""
        changed = sending.rewritten(lambda value: self.seen(value, holds))
        fields = changed.fields
        if sending.message.name in self.carried:
            said = self.carried[sending.message.name]
            left = {target: lift(value) for target, value in row.set.items()}
            told = holds if said.same_as(TRUE) else self.seen(rewrite(said, left.get), holds)
            fields = (*fields, (self.field, self.seen(self.feature, told)))
        return replace(changed, message=self.message(sending.message), fields=fields)

    def dropped(self, item: Message | Dropping) -> Message | Dropping:
        if isinstance(item, Message):
            return self.message(item)
        return replace(item, message=self.message(item.message))
