"""The second level of a state diagram: the rows that lead from one state to another, each with its
guard, effect, source and releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from ...language import Expression, Row, System, Table, lift
from ..drawing.decision_table import effects, replies
from ..drawing.graph import span
from ..drawing.state import StateDiagram, Steps, Transition
from ..facts import happening, rewritten, taken
from ..notation import in_brief, readable

WIDTH = 48  # letters of a line of a guard

Name = tuple[str, str]  # of a table, and of a row of it


@dataclass(frozen=True)
class Variant:
    """The form of a row in some releases. `at` is its place, from 1, among the `rows` rows
    of its table that a step may take there."""

    when: str
    span: str
    at: int
    rows: int
    guard: str
    does: tuple[str, ...]
    source: str
    note: str


@dataclass(frozen=True)
class ToldRow:
    """A row of a table, and its forms by release."""

    event: str
    name: str
    machine: str
    waits: str
    """The condition of the whole table."""
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Way:
    """A row that leads along an edge, with the sequences of rows that may have prepared the
    state."""

    row: Name
    when: str
    span: str
    after: tuple[tuple[Name, ...], ...]


@dataclass(frozen=True)
class Pair:
    """The rows that lead from one state to another."""

    source: str
    target: str
    when: str
    span: str
    ways: tuple[Way, ...]


def when(some: Collection[str], releases: tuple[str, ...]) -> tuple[str, str]:
    """A bit for each of `releases`: 1 for `some`, empty if all are; and the same in words."""
    bits = "".join("1" if release in some else "0" for release in releases)
    return bits if "0" in bits else "", span(some, releases) or "all releases"


def pairs_of(system: System, diagram: StateDiagram) -> list[Pair]:
    """The pairs of states of a diagram, with every row that leads from the first to the second."""
    found: dict[tuple[str, str], list[Transition]] = {}
    for transition in diagram.transitions:
        if transition.moves:
            found.setdefault((transition.source, transition.target), []).append(transition)
    return [
        Pair(*ends, *_when(ways, diagram), tuple(_ways(system, ways, diagram)))
        for ends, ways in found.items()
    ]


def _when(ways: Iterable[Transition], diagram: StateDiagram) -> tuple[str, str]:
    some = {release for way in ways for release in way.releases}
    return when(some, diagram.releases)


def _ways(system: System, ways: list[Transition], diagram: StateDiagram) -> Iterator[Way]:
    alike: dict[Name, list[Transition]] = {}
    for way in ways:
        alike.setdefault((way.table, way.row), []).append(way)
    for row, same in alike.items():
        after = tuple(_names(system, diagram.machine, way.after) for way in same if way.after)
        yield Way(row, *_when(same, diagram), tuple(dict.fromkeys(after)))


def _names(system: System, machine: str, steps: Steps) -> tuple[Name, ...]:
    """The tables of rows that are given by their events; the machine's tables come before
    others."""
    tables = sorted(system.tables, key=lambda table: table.machine.name != machine)
    return tuple(
        next(
            (table.name, row.id)
            for table in tables
            if table.on.name == event
            for row in table.rows
            if row.id == name
        )
        for event, name in steps
    )


@lru_cache(maxsize=4)
def taken_in(system: System, releases: tuple[str, ...]) -> dict[str, dict[Table, tuple[Row, ...]]]:
    """The tables whose event can happen, by release, with their possible rows."""
    return {
        release: {
            table: tuple(row for row, _ in taken(table, system.protocols, release, {}))
            for table in happening(system, release)
        }
        for release in releases
    }


def rows_of(system: System, releases: tuple[str, ...], names: Iterable[Name]) -> list[ToldRow]:
    """These rows, in the order of the names, in the form that they have in these releases."""
    tables = {table.name: table for table in system.tables}
    live = taken_in(system, releases)
    described: list[ToldRow] = []
    for table_name, name in names:
        table = tables[table_name]
        there: dict[Row, list[str]] = {}
        places: dict[Row, tuple[int, int]] = {}
        for release in releases:
            rows = live[release].get(table, ())
            for at, row in enumerate(rows, 1):
                if row.id == name:
                    there.setdefault(row, []).append(release)
                    places[row] = at, len(rows)
        variants = tuple(
            _variant(table, row, some, releases, *places[row]) for row, some in there.items()
        )
        waits = _condition(in_brief(table.guard, table.on))
        described.append(ToldRow(table.on.name, name, table.machine.name, waits, variants))
    return described


def _variant(
    table: Table, row: Row, some: list[str], releases: tuple[str, ...], at: int, rows: int
) -> Variant:
    brief = rewritten(row, partial(in_brief, on=table.on))
    does = ["\n".join(lines) for lines in effects(table, brief, WIDTH)]
    does += ["reply " + "\n      ".join(lines) for lines in replies(table, brief, WIDTH - 6)]
    return Variant(
        *when(some, releases), at, rows, _condition(brief.guard), tuple(does), row.source, row.note
    )


def _condition(expression: Expression) -> str:
    return "" if expression is lift(True) else "\n".join(readable(expression, WIDTH))
