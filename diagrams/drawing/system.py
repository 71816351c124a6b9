"""A system's machines, and the messages between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TypeAlias, TypeVar

from ...language import Event, Loss, Machine, Message, Row, System, Table, lift
from ...language.expressions import children_first
from ..facts import happening, sendings, taken
from .graph import Edge, Graph, Node, span


def system_graph(
    system: System, releases: Sequence[str] | None = None, *, fields: bool = False
) -> Graph:
    """Machines as nodes, with the events from outside; messages as edges.

    An edge shows a message in the releases in which some row sends it. With `fields`, a machine
    that reads or sets another machine's fields without a message has an edge to it as well. Events
    that share a bound are listed below that bound. Messages are listed below their releases, or
    below the note that they may be lost.
    """
    shown = tuple(releases or system.protocols.releases)
    sent: _Found[tuple[str, str], Message] = {}
    looks: dict[tuple[str, str], None] = {}
    happens: _Found[str, Event] = {}
    for release in shown:
        for table in happening(system, release):
            name = table.machine.name
            rows = list(taken(table, system.protocols, release, {}))
            if rows and not isinstance(table.on, (Message, Loss)):
                _add(happens, name, table.on, release)
            for row, known in rows:
                for sending in sendings(table, row, known):
                    _add(sent, (name, sending.message.goes_to.machine), sending.message, release)
                if fields:
                    looks.update(((name, machine), None) for machine in _glances(table, row))
    nodes = [
        Node(
            machine.name,
            (_how_many(machine),),
            tuple(
                _together(
                    (event.name, _budget(system, event), _when(some, shown))
                    for event, some in happens.get(machine.name, {}).items()
                )
            ),
        )
        for machine in system.machines
    ]
    named = {node.name for node in nodes}
    others = dict.fromkeys(head for _, head in sent if head not in named)
    fates = {_travel(system, message) for messages in sent.values() for message in messages}
    every = fates.pop() if len(fates) == 1 else ""
    edges = [
        Edge(
            *ends,
            tuple(
                _together(
                    (
                        message.title or message.name,
                        "" if every else _travel(system, message),
                        _when(some, shown),
                    )
                    for message, some in messages.items()
                )
            ),
            partial={r for some in messages.values() for r in some} != set(shown),
        )
        for ends, messages in sent.items()
    ]
    edges += [Edge(*ends, (), silent=True) for ends in looks]
    notes = [f"Each message {every}."] if every else []
    notes += ["Dotted: reads or sets fields of the other machine."] if looks else []
    return Graph(system.name, "machines", (*nodes, *map(Node, others)), tuple(edges), tuple(notes))


Place = TypeVar("Place")
What = TypeVar("What")
_Found: TypeAlias = dict[Place, dict[What, list[str]]]


def _add(found: _Found[Place, What], place: Place, what: What, release: str) -> None:
    releases = found.setdefault(place, {}).setdefault(what, [])
    if release not in releases:
        releases.append(release)


@cache
def _glances(table: Table, row: Row) -> tuple[str, ...]:
    """The other machines whose fields a row reads or sets."""
    updates = table.updates(row)
    sendings = table.sendings(row)
    touched = [table.guard, row.guard, *(part for update in updates for part in update)]
    touched += [s.when for s in sendings]
    touched += [value for sending in sendings for _, value in sending.fields]
    fields = (node.data for e in touched for node in children_first(e) if node.op == "field")
    others = (field.machine for field in fields if field.machine != table.machine.name)
    return tuple(dict.fromkeys(others))


def _how_many(machine: Machine) -> str:
    return "one instance" if machine.key is None else f"one per {machine.key.name}"


def _together(items: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """The names: first those without a text, then the others below their texts."""
    grouped: dict[str, list[str]] = {"": []}
    for name, *common in items:
        grouped.setdefault(", ".join(filter(None, common)), []).append(name)
    for common, names in grouped.items():
        yield from [f"{common}:", *(f"  {name}" for name in names)] if common else names


def _budget(system: System, event: Event) -> str:
    for events, most in system.budgets.items():
        if event == events:
            return f"at most {most}"
        if isinstance(events, tuple) and event in events:
            return f"at most {most} in all"
    return ""


def _travel(system: System, message: Message) -> str:
    channel = next(channel for channel in system.channels if channel.message == message)
    losses = (table.on for table in system.tables if isinstance(table.on, Loss))
    lossy = channel.lossy or any(loss.message == message for loss in losses)
    doubles = lift(channel.duplicates).data != 0
    marks = " or ".join(["lost"] * lossy + ["doubled"] * doubles)
    return marks and f"may be {marks}"


def _when(some: list[str], shown: tuple[str, ...]) -> str:
    first, last = shown[0], shown[-1]
    when = span(some, shown)
    begins, _, ends = when.partition("–")
    if ends == last:
        when = f"from {begins}"
    elif begins == first and "," not in ends:
        when = f"until {ends or begins}"
    elif when:
        when = f"in {when}"
    return when
