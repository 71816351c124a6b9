"""Which systems have a row, for every row that is declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple

from ..language import Row, System, Table
from ..language.tables import bounded_view
from .unexplored import UNEXPLORED, Unexplored


class Place(NamedTuple):
    """A row, the systems that have it in some release, and why none has it, where that is said."""

    name: str
    systems: tuple[str, ...]
    reasons: tuple[str, ...]


def declared_tables() -> list[Table]:
    """Every table that a module of `spec/` declares, but for those of variants, which are in theirs
    alone."""
    home = __name__.rpartition(".")[0]
    found: dict[int, Table] = {}
    for module in walk_packages(import_module(home).__path__, f"{home}."):
        if module.name.startswith(f"{home}.variants."):
            continue
        values = vars(import_module(module.name)).values()
        found |= {id(value): value for value in values if isinstance(value, Table)}
    return list(found.values())


def places(
    tables: Iterable[Table], systems: Iterable[System],
    unexplored: Iterable[Unexplored] = UNEXPLORED,
) -> Iterator[Place]:  # fmt: skip
    """Where the rows of these tables, and of those that only systems name, are explored."""
    every, reasons = list(systems), list(unexplored)
    known = list(tables)
    views = {id(bounded_view(table, system.having)) for table in known for system in every}
    of_systems = {id(table): table for system in every for table in system.tables}
    alone = {number: table for number, table in of_systems.items() if number not in views}
    known += alone.values()
    for table in sorted(known, key=lambda table: table.name):
        is_view = id(table) in alone  # which no other system has
        having = [(s, table if is_view else bounded_view(table, s.having)) for s in every]
        rows = [
            (system.name, {_which(row) for row in view.rows if has_row(system, row)})
            for system, view in having
            if any(view is other for other in system.tables)
        ]
        for row in table.rows:
            names = (table.machine.name, table.name, table.label(row))
            found = tuple(system for system, those in rows if _which(row) in those)
            why = tuple(each.reason for each in reasons if {*names} & {*each.names})
            yield Place(table.label(row), found, () if found else why)


def _which(row: Row) -> tuple[str, str]:
    """What tells a row from others of its table, in each of its views."""
    return row.name, str(row.during)


def has_row(system: System, row: Row) -> bool:
    """Whether the row exists in a release that is checked, with proposed features or without."""
    protocols = system.protocols
    proposed = {info.name for info in protocols.infos if info.since is None}
    return any(
        protocols.holds(row.during, features)
        for here in map(protocols.features_at, protocols.releases)
        for features in (here, here | proposed, here - proposed)
    )


def tell_rows(found: Iterable[Place]) -> Iterator[str]:
    """A line for each row, and one for all."""
    count = left = 0
    for place in found:
        count, left = count + 1, left + (not place.systems)
        said = ", ".join(place.systems) or f"in no system: {'; '.join(place.reasons)}"
        yield f"{place.name}: {said}"
    yield f"{count} rows, {left} in no system."
