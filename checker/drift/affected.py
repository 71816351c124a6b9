"""The parts of this project that a change of Kafka's methods affects: rows, systems, properties,
bugs and findings, and the commands that check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...language import System
from ...language.expressions import Expression, children_first, field_set
from ...spec.bugs import BUGS
from ...spec.properties.unwatched import WATCHED
from ...spec.systems import SHIPPED, shipped
from ...spec.systems.coverage.declared_rows import declared_tables
from .citations import citations, cited, resolves

FINDINGS = Path(__file__).parents[2] / "docs" / "findings.md"


@dataclass(frozen=True)
class Affected:
    """The rows, properties and bugs that a change of methods affects.

    `rows` maps rows to the methods that they cite. `uncited` are changed methods that no row cites,
    of classes that rows cite. `properties` are `system.property`. `commands` check the rows again.
    """

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    uncited: tuple[str, ...]
    systems: tuple[str, ...]
    properties: tuple[str, ...]
    bugs: tuple[str, ...]
    findings: tuple[str, ...]
    commands: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The data for JSON."""
        return {
            "rows": [{"row": row, "methods": list(methods)} for row, methods in self.rows],
            "uncited": list(self.uncited),
            "systems": list(self.systems),
            "properties": list(self.properties),
            "bugs": list(self.bugs),
            "findings": list(self.findings),
            "commands": list(self.commands),
        }


def affected(methods: Iterable[str]) -> Affected:
    """The parts that a change of these methods (`Class.method`) affects."""
    changed = list(dict.fromkeys(methods))
    rows: dict[str, list[str]] = {}
    for citation in citations():
        if citation.names_a_method and (
            found := [method for method in changed if resolves(citation.of, method)]
        ):
            known = rows.setdefault(citation.row, [])
            known += [method for method in found if method not in known]
    tables = {
        f"{table.name}/{row.id}": (table, row) for table in declared_tables() for row in table.rows
    }
    systems = _systems(rows)
    features = {
        node.data.name
        for label in rows
        for node in children_first(tables[label][1].during)
        if node.op == "feature"
    }
    watched = {f"{each.system}.{each.property}" for each in WATCHED if each.feature in features}
    for system in systems:
        watched |= {f"{system.name}.{name}" for name in _reading(system, rows)}
    taken = {label.partition(".")[2] for label in rows}
    bugs = [
        bug.id
        for bug in BUGS
        if set(bug.fix) & features or any(step in taken for step in bug.takes)
    ]
    known = {method for of_row in rows.values() for method in of_row}
    classes = {name.partition(".")[0] for _, row in tables.values() for name in cited(row.source)}
    uncited = [m for m in changed if m not in known and m.partition(".")[0] in classes]
    commands = [f"epochfence check {system.name}" for system in systems]
    commands += [f"epochfence bugs {bug}" for bug in bugs]
    return Affected(
        tuple((row, tuple(of_row)) for row, of_row in rows.items()),
        tuple(uncited),
        tuple(system.name for system in systems),
        tuple(sorted(watched)),
        tuple(bugs),
        tuple(_findings(changed)),
        tuple(commands),
    )


def _systems(rows: Iterable[str]) -> list[System]:
    found: list[System] = []
    for name in SHIPPED:
        system = shipped(name)
        labels = {f"{table.name}/{row.id}" for table in system.tables for row in table.rows}
        if labels & set(rows):
            found.append(system)
    return found


def _reading(system: System, rows: Iterable[str]) -> list[str]:
    """The properties that read a field that one of these rows sets."""
    wanted = set(rows)
    changed = {
        field_set(target)
        for table in system.tables
        for row in table.rows
        if f"{table.name}/{row.id}" in wanted
        for target, _ in table.updates(row)
    }

    def reads(part: Expression) -> bool:
        return any(node.op == "field" and node.data in changed for node in children_first(part))

    return [item.name for item in system.properties if reads(item.expression)]


@cache
def _sections() -> dict[str, str]:
    """The findings by title, if the documentation is installed."""
    if not FINDINGS.is_file():
        return {}
    text = FINDINGS.read_text(encoding="utf-8")
    parts = re.split(r"^## (\d+\. .*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _findings(methods: list[str]) -> list[str]:
    """The findings whose text names one of these methods."""
    return [
        title
        for title, text in _sections().items()
        if any(re.search(rf"\b{re.escape(method)}\b", text) for method in methods)
    ]
