"""Tables and properties as a system has them that keeps some of their fields in another place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .expressions import Expression, Field, as_bounded, field_set, rewrite
from .machines import Machine
from .messages import Sending
from .properties import Property
from .tables import Row, Table, bounded_view


@dataclass(frozen=True, eq=False)
class Recast:
    """What a system under check has in the place of fields and machines that tables are declared
    with.

    `change` answers what stands in the place of an expression (none: the expression itself, with
    its parts changed). `machines` has what stands in the place of a machine; one with none is left
    out, with every update of its fields. `further` are machines that every table may read and set
    besides. `change` has the fields `kept` before what they stand for in a bounded run.
    """

    change: Callable[[Expression], Expression | None]
    machines: Mapping[Machine, Machine | None]
    further: tuple[Machine, ...] = ()
    kept: tuple[Field, ...] = ()

    def expression(self, value: Expression) -> Expression:
        """The expression with what stands in the place of its parts."""
        return rewrite(as_bounded(value, self.kept), self.change)

    def property(self, item: Property) -> Property:
        """The property, with its fields and machines replaced."""
        expression, premise = self.expression(item.expression), self.expression(item.premise)
        return replace(item, expression=expression, premise=premise)

    def table(self, table: Table) -> Table:
        """The table, with what stands in the place of its machines and their fields.

        Raises DeclarationError as a table does, where that doesn't fit.
        """
        table = bounded_view(table)
        rows, when = tuple(map(self.row, table.rows)), self.expression(table.guard)
        machine = self.machines.get(table.machine) or table.machine
        others = (*(self.machines.get(other, other) for other in table.others), *self.further)
        there = dict.fromkeys(each for each in others if each and each is not machine)
        return replace(table, machine=machine, others=tuple(there), rows=rows, when=when)

    def row(self, row: Row) -> Row:
        """The row, without the updates of machines that are left out."""
        gone = {machine.name for machine, other in self.machines.items() if other is None}
        left = {t: value for t, value in row.set.items() if field_set(t).machine not in gone}

        def sent(sending: Sending) -> Sending:
            return sending.rewritten(self.expression)

        return replace(row, set=left).rewritten(self.expression, sent)
