"""Which systems have a row, for every row that is declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple, TypeAlias

from ....language import Row, System, Table
from ....language.instances.reductions import Instead
from .unexplored_rows import UNEXPLORED, Unexplored


class Place(NamedTuple):
    """A row, the systems that have it in some release, and why none has it, where that is said."""

    name: str
    systems: tuple[str, ...]
    reasons: tuple[str, ...]


def declared_tables() -> list[Table]:
    """Every table that a module of `spec/` declares, but for those of `spec/changes`."""
    home = __name__.split(".systems")[0]
    found: dict[int, Table] = {}
    for module in walk_packages(import_module(home).__path__, f"{home}."):
        if module.name.startswith(f"{home}.changes."):
            continue
        values = vars(import_module(module.name)).values()
        found |= {id(value): value for value in values if isinstance(value, Table)}
    return list(found.values())


def places(
    tables: Iterable[Table],
    systems: Iterable[System],
    unexplored: Iterable[Unexplored] = UNEXPLORED,
) -> Iterator[Place]:
    """The systems that explore each row of these tables, and of those that only systems name.

    A row that a change adds updates to counts as the row that it was made of. A row whose place
    other rows take in a system, by a reduction, counts as explored there. A row of a table that is
    part of another one, as EndTxn's version 1, is listed under the whole table's label.
    """
    every, reasons = list(systems), list(unexplored)
    known = [*tables, *(table for system in every for table in system.tables)]
    systems_of: dict[_Declared, list[str]] = {}
    for system in every:
        for table in system.tables:
            for row in table.rows:
                if has_row(system, row):
                    systems_of.setdefault(_declared(table, row), []).append(system.name)
    replaced = {
        system: {one.row for one in system.reductions if isinstance(one, Instead)}
        for system in every
    }
    listed: set[_Declared] = set()
    # the whole table before its parts
    for table in sorted(known, key=lambda table: (table.name, -len(table.rows))):
        for row in table.rows:
            which = _declared(table, row)
            if which in listed:
                continue
            listed.add(which)
            names = (table.machine.name, table.name, table.label(row))
            reduced = (
                system.name
                for system in every
                if f"{table.name}/{row.id}" in replaced[system] and has_row(system, row)
            )
            found = tuple(dict.fromkeys((*systems_of.get(which, ()), *reduced)))
            why = tuple(each.reason for each in reasons if {*names} & {*each.names})
            yield Place(table.label(row), found, () if found else why)


_Declared: TypeAlias = tuple[str, str, str, object]


def _declared(table: Table, row: Row) -> _Declared:
    """The identity of a row in each view of its table."""
    return table.name, row.id, str(row.during), row.declared


def has_row(system: System, row: Row) -> bool:
    """Whether the row exists in a release that is checked, with proposed features or without."""
    protocols = system.protocols
    proposed = {info.name for info in protocols.infos if info.since is None}
    return any(
        protocols.holds(row.during, features)
        for here in map(protocols.features_at, protocols.releases)
        for features in (here, here | proposed, here - proposed)
    )


def print_rows(found: Iterable[Place]) -> Iterator[str]:
    """A line for each row, and one for all."""
    count = left = 0
    for place in found:
        count, left = count + 1, left + (not place.systems)
        said = ", ".join(place.systems) or f"in no system: {'; '.join(place.reasons)}"
        yield f"{place.name}: {said}"
    yield f"{count} rows, {left} in no system."
