"""Citations: the methods of Kafka that rows, features and bugs name as their source.

A row says `source="TransactionCoordinator.endTransaction, KAFKA-19367"`. Parts stand between
commas. A part that begins with a method in lower case belongs to the class before it. A remark may
follow (`before 2.5`, `: the sequence is used twice`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...spec.systems.coverage.declared_rows import declared_tables

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
        """Whether the citation names a method and not only a class."""
        return self.of.rpartition(".")[2][:1].islower()


def cited(source: str) -> list[str]:
    """The methods that a source names, and its classes without a method."""
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


def citations() -> Iterator[Citation]:
    """Every citation in the declared tables."""
    for table in declared_tables():
        for row in table.rows:
            for name in cited(row.source):
                yield Citation(f"{table.name}/{row.id}", name)


def resolves(name: str, method: str) -> bool:
    """Whether a cited name matches a method. `Outer.name` and `Outer.Inner.name` match each other,
    but methods of two inner classes don't.
    """
    owner, _, called = name.rpartition(".")
    its_owner, _, its_name = method.rpartition(".")
    outer = its_owner.partition(".")[0] == owner or owner.partition(".")[0] == its_owner
    return called == its_name and (owner == its_owner or outer)


def classes(names: list[str]) -> set[str]:
    """The simple names of the outermost classes of methods or classes."""
    return {name.partition(".")[0] for name in names}
