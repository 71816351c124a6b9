"""Tables of other systems, with what they mean for a group besides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...language import DeclarationError, Expression, Machine, Row, Sending, Table, lift
from ...language.expressions import Operand
from ...language.tables import exclude
from ..releases.features import transactional

Updates = Mapping[Expression, Operand]


def joined(
    table: Table,
    *others: Machine,
    when: Operand = True,
    updates: Mapping[str, Updates] | None = None,
    send: Mapping[str, tuple[Sending, ...]] | None = None,
    before: tuple[Row, ...] = (),
) -> Table:
    """The table, taken up only `when` that holds as well; rows by their names set and send more.
    The rows `before` are tried before its own, of which those of idempotent clients are left out.

    Raises DeclarationError for a row that isn't there.
    """
    updates, send = updates or {}, send or {}
    unknown = {*updates, *send} - {row.id for row in table.rows}
    if unknown:
        raise DeclarationError(f"table {table.name} has no row {min(unknown)!r} to join")

    def more(row: Row) -> Row:
        return dataclasses.replace(
            row,
            set={**row.set, **updates.get(row.id, {})},
            send=(*row.send, *send.get(row.id, ())),
        )

    known = (*table.others, *(each for each in others if each not in table.others))
    return dataclasses.replace(
        table,
        rows=(
            *before,
            *(more(row) for row in table.rows if not exclude(row.during, transactional)),
        ),
        when=table.guard & lift(when),
        others=tuple(each for each in known if each is not table.machine),
    )


def apart(name: str, when: Expression, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows where `when` holds as well, each called after `name` first."""
    return tuple(
        dataclasses.replace(row, id=f"{name}, {row.id}", name="", when=when & row.guard)
        for row in rows
    )
