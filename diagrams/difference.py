"""Differences between two releases: rows added, removed and changed, table by table.

A release has a row if its features include the row, if the row's condition can hold although those
of the rows before it don't, and if its event can happen. The texts are compared after the release's
features are substituted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from ..language import Expression, Protocols, Row, Sending, System, Table
from ..language.expressions import children_first
from ..language.protocols import FeatureInfo
from .drawing.decision_table import effects, replies
from .facts import (
    Facts,
    feature_facts,
    happening,
    possible,
    rewritten,
    settled,
    taken,
    truth_of,
)
from .notation import readable

Change: TypeAlias = Literal["added", "removed", "changed"]
_SIGNS: dict[Change, str] = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True)
class Told:
    """The text of a row, or of a table's condition, in a release: condition, updates and reply."""

    when: str
    does: tuple[str, ...] = ()
    reply: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """Condition, effects and reply, each in lines."""
        when = (_led_by("when", self.when),) if self.when else ()
        reply = (_led_by("reply", self.reply),) if self.reply else ()
        return (*when, *self.does, *reply)


@dataclass(frozen=True)
class Difference:
    """A row that differs between two releases. Without a name it is the table's condition.

    `features` are those that only one of the releases has, if they occur in the row, or else in
    the conditions before it.
    """

    row: str
    change: Change
    source: str
    features: tuple[FeatureInfo, ...]
    before: Told | None
    after: Told | None


@dataclass(frozen=True)
class TableDifference:
    """The differences in a table of these systems. If its event can happen in one release only,
    `only_in` is this release."""

    systems: tuple[str, ...]
    machine: str
    event: str
    only_in: str | None
    differences: tuple[Difference, ...]

    def as_json(self) -> dict[str, Any]:
        """The differences as plain data."""
        return dataclasses.asdict(self)


def compare(
    tables: Iterable[tuple[System, tuple[Table, ...]]], before: str, after: str
) -> list[TableDifference]:
    """The differences between two releases, for each table that differs.

    Rows have real ranges: a system's reductions hide no difference. Raises DeclarationError for a
    release that a system lacks.
    """
    systems: dict[tuple[Table, Protocols], list[System]] = {}
    live: dict[tuple[str, Table, Protocols], System] = {}
    for system, some in tables:
        happen = {release: happening(system, release) for release in (before, after)}
        for table in some:
            whole = system.unreduced(table)
            systems.setdefault((whole, system.protocols), []).append(system)
            for release in (before, after):
                if table in happen[release]:
                    live.setdefault((release, whole, system.protocols), system)
    found: list[TableDifference] = []
    for (table, protocols), owners in systems.items():
        where = {release: live.get((release, table, protocols)) for release in (before, after)}
        differences = tuple(_differences(table, owners[0], where, before, after))
        if differences:
            happens = [release for release, system in where.items() if system is not None]
            found.append(
                TableDifference(
                    tuple(system.name for system in owners),
                    table.machine.name,
                    table.on.name,
                    happens[0] if len(happens) == 1 else None,
                    differences,
                )
            )
    return _joined(found)


def _joined(found: list[TableDifference]) -> list[TableDifference]:
    """The differences. If several systems have the same one in tables of one name, it appears
    once."""
    joined: dict[TableDifference, list[str]] = {}
    for one in found:
        joined.setdefault(dataclasses.replace(one, systems=()), []).extend(one.systems)
    return [
        dataclasses.replace(one, systems=tuple(dict.fromkeys(systems)))
        for one, systems in joined.items()
    ]


def _differences(
    table: Table, owner: System, where: Mapping[str, System | None], before: str, after: str
) -> Iterator[Difference]:
    old, new = (_rows(table, where[release], release) for release in (before, after))
    protocols = owner.protocols
    differing = protocols.features_at(before) ^ protocols.features_at(after)

    def behind(parts: Iterable[Expression]) -> tuple[FeatureInfo, ...]:
        nodes = (node for part in parts for node in children_first(part))
        named = {n.data.name: n.data for n in nodes if n.op == "feature"}
        return tuple(info for name, info in named.items() if name in differing)

    if old and new and old[""] != new[""]:
        yield Difference("", "changed", "", behind([table.guard]), old[""], new[""])
    for name in dict.fromkeys(row.id for row in table.rows):
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        change = "added" if one is None else "removed" if other is None else "changed"
        alike = [row for row in table.rows if row.id == name]
        features = behind(part for row in alike for part in _parts(table, row)) or behind(
            part for row in alike for part in _above(table, row)
        )
        there = protocols.features_at(before if other is None else after)
        source = next((row.source for row in alike if protocols.holds(row.during, there)), "")
        yield Difference(name, change, source, features, one, other)


def _rows(table: Table, system: System | None, release: str) -> dict[str, Told]:
    """The rows of a release by name; the empty name has the table's condition."""
    if system is None:
        return {}
    facts = feature_facts(system.protocols, release)
    rows = [row for row, _ in taken(table, system.protocols, release, {})]
    described = {row.id: _described(table, _settled_row(row, facts)) for row in rows}
    return {"": Told(_condition(settled(table.guard, facts))), **described} if described else {}


def _settled_row(row: Row, facts: Facts) -> Row:
    """The row simplified by these facts, without messages that it can't send."""

    def may_be_sent(sending: Sending) -> bool:
        return possible(sending.when, facts) != truth_of(False)

    gone = isinstance(row.reply, Sending) and not may_be_sent(row.reply)
    sent = tuple(filter(may_be_sent, row.send))
    left = dataclasses.replace(row, reply=None if gone else row.reply, send=sent)
    return rewritten(left, lambda expression: settled(expression, facts))


def _described(table: Table, row: Row) -> Told:
    does = tuple("\n".join(lines) for lines in effects(table, row))
    reply = "".join("\n".join(lines) for lines in replies(table, row))
    return Told(_condition(row.guard), does, reply)


def _condition(expression: Expression) -> str:
    return "" if expression.op == "const" else "\n".join(readable(expression))


def _parts(table: Table, row: Row) -> Iterator[Expression]:
    """Every expression that affects whether the release has the row, or its effect."""
    yield from (row.during, row.guard)
    for update in table.updates(row):
        yield from update
    for sending in table.sendings(row):
        yield sending.when
        yield from (value for _, value in sending.fields)


def _above(table: Table, row: Row) -> Iterator[Expression]:
    """The conditions under which an event reaches the row."""
    yield table.guard
    for before in table.rows[: table.rows.index(row)]:
        yield from (before.during, before.guard)


# For a person to read ---------------------------------------------------------------------------


def tell(found: list[TableDifference], before: str, after: str, console: Console) -> None:
    """Prints one table of differences per declared table: - marks `before`, + marks `after`."""
    names = [(table.machine, table.event) for table in found]
    for table in found:
        title = Text.assemble((f"{table.machine}, {table.event}", "bold"))
        if names.count((table.machine, table.event)) > 1:  # systems have tables of their own
            title.append(f" in {', '.join(table.systems)}")
        if table.only_in is not None:
            title.append(f" (happens only in {table.only_in})")
        console.print(title)
        for item in table.differences:
            for line in (*_title(item, console.width), *_lines(item, console.width)):
                console.print(line, soft_wrap=True)
        console.print()
    every = [item.change for table in found for item in table.differences if item.row]
    if not found:
        console.print(f"No row differs between {before} and {after}.")
    else:
        counts = (f"{every.count(change)} {change}" for change in _SIGNS)
        console.print(f"From {before} to {after}, rows: {', '.join(counts)}.")


def _title(item: Difference, width: int) -> Iterator[Text]:
    name = f"{_SIGNS[item.change]} {item.row or 'the condition of all rows'}"
    yield from map(Text, _wrapped(name, width, "  "))
    remarks = [item.source] if item.source else []
    for info in item.features:
        until = "" if info.until is None else f", until {info.until}"
        remarks.append(f"{info.name} from {info.first}{until}: {info.source}".rstrip(": "))
    for remark in remarks:
        yield from (Text(line, "dim") for line in _wrapped(f"  {remark}", width, "    "))


def _lines(item: Difference, width: int) -> Iterator[Text]:
    old, new = (side.parts if side is not None else () for side in (item.before, item.after))
    for sign, style, parts, others in (("-", "red", old, new), ("+", "green", new, old)):
        gone = (part for part in parts if part not in others)
        for line in (line for part in gone for line in part.splitlines()):
            lead = f"    {sign} "
            for piece in _wrapped(line, width - len(lead), "        "):
                yield Text(lead + piece, style)


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    return wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _led_by(word: str, text: str) -> str:
    return f"{word} " + text.replace("\n", "\n" + " " * (len(word) + 1))
