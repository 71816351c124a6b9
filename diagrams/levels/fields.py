"""The fields of a machine without a state field: each with the rows that write it, and a sequence
with its number of places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...language import Expression, Machine, Map, Record, Row, Sequence, System, Table
from ...language.expressions import resolve
from ...language.types import Type
from .rows import Name, Pair, Way, taken_in, when

MOST_PLACES = 12


@dataclass(frozen=True)
class Part:
    """A field, or a part of its record. `per` are the keys that distinguish its copies. `places` is
    the capacity of a sequence, at most MOST_PLACES; 0 for other types. `pair` has the rows that
    write it.
    """

    name: str
    kind: str
    doc: str
    per: tuple[str, ...]
    places: int
    pair: Pair


def fields_of(
    system: System, machine: Machine, releases: tuple[str, ...], constants: Mapping[str, int]
) -> list[Part]:
    """The parts of a machine's fields that some row writes."""
    writers = _writers(system, machine, releases)
    found: list[Part] = []
    for info in system.fields_of(machine):
        doc = info.doc
        for name, kind, per in _leaves(info.type, info.name, ()):
            by: dict[Name, set[str]] = {}
            for (written, row), some in writers.items():
                if name == written or name.startswith(f"{written}."):
                    by.setdefault(row, set()).update(some)
            if not by:
                continue
            ways = tuple(Way(row, *when(some, releases), ()) for row, some in by.items())
            every = {release for some in by.values() for release in some}
            places = resolve(kind.capacity, constants) if isinstance(kind, Sequence) else 0
            pair = Pair(f"{machine.name}.{name}", "", *when(every, releases), ways)
            found.append(Part(name, str(kind), doc, per, min(places, MOST_PLACES), pair))
            doc = ""
    return found


def _leaves(
    kind: Type, name: str, per: tuple[str, ...]
) -> Iterator[tuple[str, Type, tuple[str, ...]]]:
    """The fixed parts of a value: each name, type, and the keys that lead to it."""
    if isinstance(kind, Map):
        yield from _leaves(kind.of, name, (*per, str(kind.key)))
    elif isinstance(kind, Record):
        for inner, of in kind.fields:
            yield from _leaves(of, f"{name}.{inner}", per)
    else:
        yield name, kind, per


def _writers(
    system: System, machine: Machine, releases: tuple[str, ...]
) -> dict[tuple[str, Name], list[str]]:
    """The releases, by written part and by row."""
    found: dict[tuple[str, Name], list[str]] = {}
    for release, tables in taken_in(system, releases).items():
        for table, row in ((table, row) for table, rows in tables.items() for row in rows):
            for part in _parts(machine, table, row):
                found.setdefault((part, (table.name, row.id)), []).append(release)
    return found


def writes_to(system: System, machine: Machine) -> bool:
    """Whether some row of the system writes to the machine."""
    return any(_parts(machine, table, row) for table in system.tables for row in table.rows)


def _parts(machine: Machine, table: Table, row: Row) -> set[str]:
    """The parts of the machine's fields that a row sets."""
    updates = table.updates(row)
    return {part for target, value in updates for part in _written(machine, target, value)}


def _written(machine: Machine, target: Expression, value: Expression) -> Iterator[str]:
    """The parts of the machine's fields that an update sets; empty for another machine's field."""
    inner: list[str] = []
    place = target
    while place.op in ("get", "index"):
        if place.op == "get":
            inner.insert(0, str(place.data))
        place = place.args[0]
    if place.op == "field" and place.data.machine == machine.name:
        path = ".".join((place.data.name, *inner))
        yield from (f"{path}.{name}" if name else path for name in _names(target, value))


def _names(target: Expression, value: Expression) -> Iterator[str]:
    """The fields of a record that are replaced, or nothing where all of the value is."""
    if value.op == "replace":
        yield from map(str, value.data)
    elif value.op == "if":
        for branch in value.args[1:]:
            if not branch.same_as(target):
                yield from _names(target, branch)
    elif value.op in ("each", "updated"):
        yield from _names(target, value.args[-1])
    else:
        yield ""
