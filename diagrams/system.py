"""A system's machines, and who sends what to whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from ..language import Event, Loss, Machine, Message, Row, System, Table, lift
from ..language.expressions import children_first
from .facts import happening, sendings, taken
from .graph import Edge, Graph, Node, span


def system_graph(system: System, releases: Sequence[str] | None = None) -> Graph:
    """Machines as nodes, with what happens to them from outside; messages as edges.

    A message is on an edge in the releases in which some row sends it. A machine that looks into
    another one, or changes it, without a message has an edge for that as well.
    """
    shown = tuple(releases or system.protocols.checked)
    sent: _Found[tuple[str, str], Message] = {}
    looks: _Found[tuple[str, str], str] = {}
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
                for machine, what in _glances(table, row):
                    _add(looks, (name, machine), what, release)
    nodes = [
        Node(
            machine.name,
            (_how_many(machine),),
            tuple(
                event.name + _budget(system, event) + _when(some, shown)
                for event, some in happens.get(machine.name, {}).items()
            ),
        )
        for machine in system.machines
    ]
    named = {node.name for node in nodes}
    others = dict.fromkeys(head for _, head in sent if head not in named)
    edges = [
        Edge(
            *ends,
            tuple(m.name + _travel(system, m) + _when(r, shown) for m, r in messages.items()),
            partial={r for some in messages.values() for r in some} != set(shown),
        )
        for ends, messages in sent.items()
    ]
    edges += [
        Edge(*ends, tuple(what + _when(r, shown) for what, r in found.items()), silent=True)
        for ends, found in looks.items()
    ]
    return Graph(system.name, "machines", (*nodes, *map(Node, others)), tuple(edges))


Place = TypeVar("Place")
What = TypeVar("What")
_Found: TypeAlias = dict[Place, dict[What, list[str]]]


def _add(found: _Found[Place, What], place: Place, what: What, release: str) -> None:
    releases = found.setdefault(place, {}).setdefault(what, [])
    if release not in releases:
        releases.append(release)


def _glances(table: Table, row: Row) -> Iterator[tuple[str, str]]:
    """The other machines' fields that a row reads or sets, as machine and what it does."""
    updates = table.updates(row)
    targets = [target for target, _ in updates]
    values = [value for _, value in updates]
    sendings = table.sendings(row)
    read = [table.guard, row.guard, *values, *(s.when for s in sendings)]
    read += [value for sending in sendings for _, value in sending.fields]
    for verb, expressions in (("reads", read), ("sets", targets)):
        for node in (n for e in expressions for n in children_first(e)):
            if node.op == "field" and node.data.machine != table.machine.name:
                yield node.data.machine, f"{verb} {node.data.name}"


def _how_many(machine: Machine) -> str:
    return "one instance" if machine.key is None else f"one per {machine.key.name}"


def _budget(system: System, event: Event) -> str:
    for events, most in system.budgets.items():
        if event == events:
            return f" (at most {most})"
        if isinstance(events, tuple) and event in events:
            return f" (at most {most} in all)"
    return ""


def _travel(system: System, message: Message) -> str:
    channel = next(channel for channel in system.channels if channel.message == message)
    losses = (table.on for table in system.tables if isinstance(table.on, Loss))
    lossy = channel.lossy or any(loss.message == message for loss in losses)
    doubles = lift(channel.duplicates).data != 0
    marks = " or ".join(["lost"] * lossy + ["doubled"] * doubles)
    return marks and f" (may be {marks})"


def _when(some: list[str], shown: tuple[str, ...]) -> str:
    when = span(some, shown)
    return when and f" [{when}]"
