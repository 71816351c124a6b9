"""Fields that a changed system keeps in another place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..declaration.arguments import check_kind, pairs
from ..declaration.errors import DeclarationError
from ..expressions import (
    Expression,
    Operand,
    field_set,
    lift,
    naming,
    rewrite,
)
from ..instances.reductions import LeftOut, Reduced, StandsFor
from ..machines import Machine
from ..messages import Sending
from ..properties import Property
from ..systems import System
from ..tables import Row, Table
from ..types import Record, make


@dataclass(frozen=True, eq=False)
class Moved:
    """The places of fields and machines in the changed system.

    * `fields` maps a field to the expression that is read and set in its place, or a parameter to
      the expression that is read in its place.
    * `machines` maps a machine to the one that takes over its tables. None leaves the machine out,
      with the updates of its fields.
    * `records` maps a record to the one that replaces it. The new record has further fields:
      `filled` gives their values, by table, and for all other tables under "".

    It applies to the tables, properties and terminal states of the system, and to the tables and
    properties that the change adds. The rows of a change are written with the new fields.

    Raises DeclarationError for anything else.
    """

    fields: Mapping[Expression, Operand]
    machines: Mapping[Machine, Machine | None] = field(
        default_factory=dict[Machine, "Machine | None"]
    )
    records: Mapping[Record, Record] = field(default_factory=dict[Record, Record])
    filled: Mapping[str, Mapping[str, Operand]] = field(
        default_factory=dict[str, Mapping[str, Operand]]
    )

    reduced: Reduced | None = field(default=None, repr=False)
    """The reductions of the system, except those of moved fields."""

    def of(self, system: System) -> Moved:
        """The places for one system: its reductions are applied before fields are moved."""
        if system.reduced is None:
            return self
        moved = {f.data for f in self.fields if f.op == "field"}
        reduced = Reduced(
            (
                one
                for one in system.reductions
                if not isinstance(one, (StandsFor, LeftOut))
                or not isinstance(one.of, Expression)
                or one.of.data not in moved
            ),
            system.fixed,
        )
        reduced.are_done(system.tables)
        return replace(self, reduced=reduced)

    def __post_init__(self) -> None:
        for name, form in (
            ("fields", "{field: expression}"),
            ("machines", "{machine: machine}"),
            ("records", "{record: record}"),
            ("filled", "{table: {field: value}}"),
        ):
            pairs(f"moved, {name}", getattr(self, name), form)
        for given in self.fields:
            check_kind("moved, fields", given, Expression)
            if given.op not in ("field", "parameter"):
                raise DeclarationError(
                    f"moved, fields: `{given}` is neither a field nor a parameter"
                )

    def expression(self, value: Expression, table: str = "") -> Expression:
        """The expression with the new places. `table` is the name of its table."""
        if self.reduced is not None:
            value = self.reduced.expression(value)
        return rewrite(value, lambda node: self._place(node, table))

    def _place(self, node: Expression, table: str) -> Expression | None:
        if node.op == "make" and node.data[0] in self.records:
            made = {
                name: self.expression(value, table)
                for name, value in zip(node.data[1], node.args, strict=True)
            }
            further = {**self.filled.get("", {}), **self.filled.get(table, {})}
            return make(self.records[node.data[0]], **made, **further)
        if node.op == "parameter":
            found = self.fields.get(node)
            return None if found is None else lift(found)
        if node.op != "field":
            return None
        for old, new in self.fields.items():
            if old.op == "field" and old.data is node.data:
                placed = lift(new)
                if node.args and placed.op == "field" and not placed.args:
                    key = self.expression(node.args[0], table)
                    return Expression("field", (key,), placed.data)
                return placed
        return None

    def property(self, item: Property) -> Property:
        """The property with the new places."""
        return item.changed(self.expression)

    def table(self, table: Table, machines: Mapping[str, Machine]) -> Table:
        """The table with the new places. Its rows may read the given `machines`, by their names.

        Raises DeclarationError, as a table does, if the new places don't fit.
        """
        if self.reduced is not None:
            table = self.reduced.table(table)
        rows = tuple(self._row(row, table.name) for row in table.rows)
        when = self.expression(table.guard, table.name)
        machine = self.machines.get(table.machine) or table.machine
        others = [self.machines.get(other, other) for other in table.others]
        others += [machines[name] for name in named(rows, when) if name in machines]
        return replace(
            table,
            machine=machine,
            others=tuple(dict.fromkeys(m for m in others if m is not None and m is not machine)),
            rows=rows,
            when=when,
        )

    def _row(self, row: Row, table: str) -> Row:
        """The row, without the updates of machines that are left out."""
        gone = {machine.name for machine, other in self.machines.items() if other is None}
        left = {t: value for t, value in row.set.items() if field_set(t).machine not in gone}

        def place(value: Expression) -> Expression:
            return self.expression(value, table)

        def sent(sending: Sending) -> Sending:
            return sending.rewritten(place)

        return replace(row, set=left).rewritten(place, sent)


def named(rows: Iterable[Row], *parts: Expression) -> dict[str, None]:
    """The machines, by name, whose fields rows and other expressions read or set."""
    every = list(parts)
    for row in rows:
        every += [row.guard, row.during]
        if row.goto is not None:
            every.append(lift(row.goto))
        for target, value in row.set.items():
            every += [target, lift(value)]
        if isinstance(row.reply, Expression):
            every.append(row.reply)
        for sending in (row.reply, *row.send):
            if isinstance(sending, Sending):
                every += [sending.when, *(value for _, value in sending.fields)]
    nodes = (node for part in every for node in naming(part) if node.op == "field")
    return dict.fromkeys(node.data.machine for node in nodes)
