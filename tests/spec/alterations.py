"""Systems with rows changed, as a fault in an implementation would change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epochfence.diagrams.facts import assume, truth_of
from epochfence.language import Expression, Row, System, Table
from epochfence.language.expressions import Operand
from epochfence.spec.systems.coverage.declared_rows import has_row


def rows_of(system: System) -> set[str]:
    """The rows of a system's tables that it can have, as table and row: those that aren't for
    another kind of client, nor of a release alone that isn't checked."""
    settled = {feature: truth_of(truth) for feature, truth in system.protocols.settled}
    return {
        f"{table.name}/{row.id}"
        for table in system.tables
        for row in table.rows
        if assume(row.during, True, settled) is not None and has_row(system, row)
    }


def never_reached(system: System) -> dict[str, str]:
    """The rows that the system declares never to be reached, whatever its settings, and why."""
    return {name: item.why for item in system.unreached if item.when is True for name in item.names}


def taken_elsewhere(system: System) -> set[str]:
    """The rows that recorded runs of other systems took."""
    return {row for run in system.reached if run.system != system.name for row in run.rows}


def with_rows(system: System, table: Table, rows: tuple[Row, ...]) -> System:
    """The system with other rows in one of its tables.

    Raises DeclarationError for rows that can't be, LookupError for a table of no such system.
    """
    if table not in system.tables:
        raise LookupError(f"{system.name} has no table {table.name}")
    changed = replace(table, rows=rows)
    return replace(
        system, tables=tuple(changed if each is table else each for each in system.tables)
    )


def with_reduced(system: System, table: Table, rows: tuple[Row, ...]) -> System:
    """Like `with_rows`, for rows that are reduced: a reduction that adds updates would add one
    that a fault leaves out again.
    """
    if system.reduced is not None:
        system.reduced.are_done((replace(table, rows=rows),))
    return with_rows(system, table, rows)


def altered(
    system: System,
    *,
    table: str,
    row: str,
    updates: Mapping[Expression, Operand] | None = None,
    **parts: Any,
) -> System:
    """The system with `parts` of one row replaced (`when=False` takes the row away), and with
    `updates` over its own (a field that is set to itself stays as it is).

    Raises LookupError where no such row is.
    """
    found = [t for t in system.tables if t.name == table and row in [r.id for r in t.rows]]
    if not found:
        raise LookupError(f"{system.name} has no row {table}/{row}")

    def changed(line: Row) -> Row:
        if line.id != row:
            return line
        return replace(line, set={**line.set, **(updates or {})}, **parts)

    return with_rows(system, found[0], tuple(map(changed, found[0].rows)))
