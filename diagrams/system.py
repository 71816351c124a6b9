"""A system's machines, and who sends what to whom."""

from __future__ import annotations

from ..spec.language import Event, Expression, Machine, Message, System
from ..spec.language.expressions import lift
from .facts import taken
from .graph import Edge, Graph, Node, span


def system_graph(system: System, releases: tuple[str, ...] | None = None) -> Graph:
    """Machines as nodes, with what happens to them from outside; messages as edges.

    A message is on an edge in the releases in which some row sends it.
    """
    shown = releases or system.protocols.releases
    sent: dict[tuple[str, str], dict[Message, list[str]]] = {}
    happens: dict[str, dict[Event, list[str]]] = {m.name: {} for m in system.machines}
    for release in shown:
        for table in system.tables:
            rows = [row for row, _ in taken(table, system.protocols, release, {})]
            if rows and not isinstance(table.on, Message):
                happens[table.machine.name].setdefault(table.on, []).append(release)
            messages = (sending.message for row in rows for sending in table.sendings(row))
            for message in dict.fromkeys(messages):
                ends = table.machine.name, message.to
                sent.setdefault(ends, {}).setdefault(message, []).append(release)
    nodes = [
        Node(machine.name, (_how_many(machine), *_events(system, happens[machine.name], shown)))
        for machine in system.machines
    ]
    named = {node.name for node in nodes}
    others = dict.fromkeys(head for _, head in sent if head not in named)
    edges = (
        Edge(
            tail,
            head,
            tuple(
                f"{message.name}{_travel(system, message)}{_when(some, shown)}"
                for message, some in messages.items()
            ),
            partial={r for some in messages.values() for r in some} != set(shown),
        )
        for (tail, head), messages in sent.items()
    )
    return Graph(system.name, "machines", (*nodes, *map(Node, others)), tuple(edges))


def _how_many(machine: Machine) -> str:
    return "one instance" if machine.key is None else f"one per {machine.key.name}"


def _events(
    system: System, events: dict[Event, list[str]], shown: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(
        f"• {event.name}{_budget(system, event)}{_when(some, shown)}"
        for event, some in events.items()
    )


def _budget(system: System, event: Event) -> str:
    return f" (at most {system.budgets[event]})" if event in system.budgets else ""


def _travel(system: System, message: Message) -> str:
    channel = next(channel for channel in system.channels if channel.message == message)
    marks = ("lost" if channel.lossy else "", "doubled" if _can_be(channel.duplicates) else "")
    said = ", ".join(mark for mark in marks if mark)
    return said and f" ({said})"


def _can_be(number: Expression | int | bool | None) -> bool:
    return lift(number).data != 0


def _when(some: list[str], shown: tuple[str, ...]) -> str:
    when = span(some, shown)
    return when and f" [{when}]"
