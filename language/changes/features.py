"""A feature that becomes a part of the state: it may hold in one step, and not in the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..declaration.arguments import check_kind, check_name, one_of, pairs
from ..declaration.errors import DeclarationError
from ..expressions import TRUE, Expression, Operand, children_first, folded, lift, rewrite
from ..machines import Event, Machine
from ..messages import Dropping, Loss, Message, Sending
from ..properties import Property
from ..protocols import check_feature
from ..systems import System
from ..tables import Row, Table, exclude
from ..types import Bool


@dataclass(frozen=True, eq=False)
class FeatureInState:
    """A feature of the release that may hold in one step of a run, and not in the next.

    * `holds` gives the condition under which it holds: for a table, by its name, or for all tables
      of a machine, by the machine's name.
    * `carried` are messages that record whether the feature held when they were sent. Each gets a
      Bool field with the name of the feature. The condition reads the sending machine after the
      step; True stands for the condition of the step itself. The tables of these messages read this
      field, unless `holds` names them.
    * Elsewhere the feature holds throughout.

    If two rows of a table share an id, one with the feature and one without it, a run has both. The
    id of the second one gets the ending `-without`.

    Raises DeclarationError for anything else, and, when the change is added to a system, for a
    table or machine that the system doesn't have.
    """

    feature: Expression
    holds: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    carried: Mapping[Message, Operand] = field(default_factory=dict[Message, Operand])
    without: str = "without"

    def __post_init__(self) -> None:
        check_feature("a feature in the state", self.feature)
        where = f"feature {self.feature} in the state"
        pairs(f"{where}, holds", self.holds, "{table: condition}")
        pairs(f"{where}, carried", self.carried, "{message: condition}")
        for message in self.carried:
            check_kind(f"{where}, carried", message, Message)
        check_name(f"{where}: the ending of an id", self.without)

    def applied(self, system: System, machines: Iterable[Machine]) -> System:
        """The system in which the feature is a part of the state; conditions may read further
        `machines`. Lemmas, rankings and declarations of unreached rows are dropped: they assume a
        feature that doesn't change.

        Raises DeclarationError for an unknown table or machine.
        """
        known = (*(table.name for table in system.tables), *(m.name for m in system.machines))
        for name in self.holds:
            if name not in known:
                raise DeclarationError(
                    f"feature {self.feature} in the state: {system.name} has no table or machine "
                    f"{name} ({one_of(name, known)})"
                )
        made = _InState(self, (m for m in machines if m not in system.machines))
        budgets: dict[Event | tuple[Event, ...], Operand] = {}
        for events, most in system.budgets.items():
            budgets[
                tuple(map(made.event, events)) if isinstance(events, tuple) else made.event(events)
            ] = most
        return replace(
            system,
            tables=tuple(map(made.table, system.tables)),
            properties=tuple(map(made.property, system.properties)),
            progress=tuple(map(made.property, system.progress)),
            lemmas=(),
            rankings=(),
            unreached=(),
            channels=tuple(replace(c, message=made.message(c.message)) for c in system.channels),
            budgets=budgets,
            terminal=made.seen(system.end, TRUE),
            fairness=tuple(replace(f, event=made.event(f.event)) for f in system.fairness),
            logs=tuple(log.changed(lambda e: made.seen(e, TRUE)) for log in system.logs),
        )


class _InState:
    """Rewrites the parts of a system for a feature that is a part of the state."""

    def __init__(self, change: FeatureInState, machines: Iterable[Machine]) -> None:
        self.change = change
        self.feature = change.feature
        self.field = change.feature.data.name
        self.machines = {machine.name: machine for machine in machines}
        self.carried = {message.name: lift(said) for message, said in change.carried.items()}

    # Events ------------------------------------------------------------------------------------

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
        """The event. A message in `carried`, or its loss, has a field for the feature."""
        if isinstance(event, Message):
            return self.message(event)
        if isinstance(event, Loss) and event.message is not None:
            message = self.message(event.message)
            return replace(event, message=message, parameters=message.parameters)
        return event

    # Expressions, tables and properties ---------------------------------------------------------

    def seen(self, expression: Expression, holds: Expression) -> Expression:
        """The expression, with the condition in the place of the feature."""

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
        """The property. Outside of the machines the release decides the feature."""
        return item.changed(lambda part: self.seen(part, TRUE))

    def condition(self, table: Table, on: Event) -> Expression:
        """The condition under which the feature holds in the steps of a table."""
        for name in (table.name, table.machine.name):
            if name in self.change.holds:
                return lift(self.change.holds[name])
        taken = on.message if isinstance(on, Loss) else on
        if taken is not None and taken.name in self.carried:
            return getattr(on, self.field)
        return TRUE

    def table(self, table: Table) -> Table:
        """The table with the rows for both truths of the feature."""
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
        """The row; a row without the feature whose id isn't unique gets the ending."""
        alike = [r for r in rows if r.id == row.id and not exclude(r.during, row.during)]
        there = rewrite(was.during, lambda node: TRUE if node is self.feature else None)
        if len(alike) < 2 or not folded(there).same_as(lift(False)):
            return row
        return replace(row, id=f"{row.id}-{self.change.without}")

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
        """The message, with its field for the feature."""
        changed = sending.rewritten(lambda value: self.seen(value, holds))
        fields = changed.fields
        if sending.message.name in self.carried:
            said = self.carried[sending.message.name]
            left = {target: lift(value) for target, value in row.set.items()}
            then = holds if said.same_as(TRUE) else self.seen(rewrite(said, left.get), holds)
            fields = (*fields, (self.field, self.seen(self.feature, then)))
        return replace(changed, message=self.message(sending.message), fields=fields)

    def dropped(self, item: Message | Dropping) -> Message | Dropping:
        if isinstance(item, Message):
            return self.message(item)
        return replace(item, message=self.message(item.message))
