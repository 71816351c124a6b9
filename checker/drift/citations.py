"""Citations: the methods of Kafka that rows, features and bugs name as their source.

A row says `source="TransactionCoordinator.endTransaction, KAFKA-19367"`. Parts stand between
commas. A part that begins with a method in lower case belongs to the class before it. A remark may
follow (`before 2.5`, `: the sequence is used twice`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...language import Row, System, Table
from ...spec.systems.explored import declared_tables

_METHOD = re.compile(r"(?P<of>[A-Z]\w*(?:\.[A-Z]\w*)*)\.(?P<name>[a-z]\w*)\b")
_CLASS = re.compile(r"(?P<of>[A-Z][a-z]\w*(?:\.[A-Z]\w*)*)(?=$|[ :(])")
_ALONE = re.compile(r"(?P<name>[a-z]+[A-Z]\w*)(?=$|[ :(])")
_TICKET = re.compile(r"(?:KAFKA|KIP)-\d+")


class Citation(NamedTuple):
    """A row, as `machine.event/id`, and one method (`Class.method`) or class that it names."""

    row: str
    of: str

    @property
    def names_a_method(self) -> bool:
        """Whether it names a method and not only a class."""
        return self.of.rpartition(".")[2][:1].islower()


def cited(source: str) -> list[str]:
    """The methods, and the classes without one, that a source names."""
    found: list[str] = []
    owner = ""
    for part in re.split(r"[,;]\s*", source):
        method, alone, whole = _METHOD.match(part), _ALONE.match(part), _CLASS.match(part)
        if method is not None:
            owner = method["of"]
            found.append(f"{owner}.{method['name']}")
        elif alone is not None and owner:
            found.append(f"{owner}.{alone['name']}")
        elif whole is not None and not _TICKET.match(part):
            owner = whole["of"]
            found.append(owner)
    return list(dict.fromkeys(found))


def source_of(table: Table, row: Row) -> str:
    """The source of a row: its own, or else that of its table."""
    return row.source or getattr(table, "source", "")


def citations(tables: list[Table] | None = None) -> Iterator[Citation]:
    """Every citation of the tables that are declared."""
    for table in declared_tables() if tables is None else tables:
        for row in table.rows:
            for name in cited(source_of(table, row)):
                yield Citation(f"{table.name}/{row.id}", name)


def without_a_method(tables: list[Table] | None = None) -> list[tuple[str, str]]:
    """The rows whose source names no method, with the source."""
    found: list[tuple[str, str]] = []
    for table in declared_tables() if tables is None else tables:
        for row in table.rows:
            source = source_of(table, row)
            if not any(Citation("", name).names_a_method for name in cited(source)):
                found.append((f"{table.name}/{row.id}", source))
    return found


def classes(names: list[str]) -> set[str]:
    """The simple names of the outermost classes that methods or classes belong to."""
    return {name.partition(".")[0] for name in names}


def systems_with(row: str, systems: list[System]) -> list[str]:
    """The names of the systems that have a row."""
    return [
        system.name
        for system in systems
        if any(f"{table.name}/{each.id}" == row for table in system.tables for each in table.rows)
    ]
