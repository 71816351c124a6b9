"""Systems with one row changed, as a fault in an implementation would change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epochfence.spec.language import Expression, Row, System, Table
from epochfence.spec.language.expressions import Operand


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
    found = [t for t in system.tables if t.name == table and row in [r.name for r in t.rows]]
    if not found:
        raise LookupError(f"{system.name} has no row {table}/{row}")

    def changed(line: Row) -> Row:
        if line.name != row:
            return line
        return replace(line, set={**line.set, **(updates or {})}, **parts)

    def rewritten(one: Table) -> Table:
        return replace(one, rows=tuple(map(changed, one.rows))) if one in found else one

    return replace(system, tables=tuple(map(rewritten, system.tables)))
