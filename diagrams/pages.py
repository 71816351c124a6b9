"""The generated pages: the shipped systems, drawn and in tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..language import Machine, Message, System, Table, lift
from ..language.expressions import show
from ..language.machines import FieldInfo
from .drawing.decision_table import CODE_WIDTH, Seen, code, decision_table, plain, wrapped
from .drawing.graph import Graph
from .drawing.overview import overview
from .drawing.render import to_same_svg
from .drawing.state import StateDiagram, state_diagram
from .drawing.system import system_graph
from .facts import happening
from .levels.fields import writes_to
from .levels.page import to_html
from .notation import in_brief, readable

PAGE = "protocol.md"
FOLDER = "protocol"
DRAWINGS = "diagrams"

_NOTE = "<!-- Generated from the declarations in spec/ by `make docs`. -->"

_HEAD = f"""\
{_NOTE}

# The protocol

These pages show what the shipped systems declare. The checker and the executable model read the
same rows.

**Tables.** The rows of a table are tried in the order of their numbers; the first whose condition
holds is taken. A row's name says in words when that is. Below the name are the releases that have
the row (`none`: only with single features switched on or off), its other conditions, and its
source.

| in a row | meaning |
| --- | --- |
| `when` | the condition, in the language |
| `name = value` | a field's next value |
| `send` | a message |
| `reply` | the answer; fields that aren't shown repeat those of the request |
| `event.x` | a parameter of the table's own event |
| `request.x`, `response.x` | a field of its message |

**State diagrams.** An arrow names the events that lead from one state to another. If a state is
first prepared and then put in force, the arrow names the events that request it. A double border
marks a state that no arrow leaves. Dashed parts are only in the releases that are named beside
them. Click a drawing to see it large.

Below each drawing is a link to it as a page of its own. There, click an edge for its rows, and a
row for its guard and source. A slider fades what a release doesn't have. `epochfence diagram
MACHINE -o FILE.html` writes such a page, and `--trace FILE.itf.json` lays a trace over it.
`--detail rows -o FILE.svg` draws each row, and `--event NAME` those of one event.
"""


def pages(systems: Iterable[System]) -> dict[str, bytes]:
    """The generated files on these systems, by their path in the documentation's folder: an
    overview, a page for each machine, and their drawings."""
    return _Pages(tuple(systems)).files()


class _Pages:
    """The pages during their generation. A machine or table that systems share is described
    once."""

    def __init__(self, systems: tuple[System, ...]) -> None:
        self.systems = systems
        self.drawings: dict[str, bytes] = {}
        self.diagrams: dict[str, list[tuple[Machine, StateDiagram | None]]] = {}
        self.live = {
            (system, release): happening(system, release)
            for system in systems
            for release in system.protocols.releases
        }
        self.names: dict[Machine, str] = {}
        for system in systems:
            for machine in system.machines:
                known = self.names.values()
                name = (
                    machine.name if machine.name not in known else f"{system.name}-{machine.name}"
                )
                self.names.setdefault(machine, name)

    def files(self) -> dict[str, bytes]:
        """Every file by its path."""
        texts = {PAGE: [_HEAD, *(part for s in self.systems for part in self.system(s))]}
        for machine, name in self.names.items():
            texts[f"{FOLDER}/{name}.md"] = [_NOTE + "\n", *self.machine(machine)]
        encoded = {path: "\n".join(text).encode() for path, text in texts.items()}
        named = {system.name: system for system in self.systems}
        levels = {
            f"{DRAWINGS}/{name}.html": to_html(named[name], diagrams).encode()
            for name, diagrams in self.diagrams.items()
        }
        return encoded | self.drawings | levels

    def system(self, system: System) -> Iterator[str]:
        """Its releases, its messages and its machines."""
        yield f"## {plain(system.name)}\n\n{plain(system.doc)}\n"
        yield f"Releases: {', '.join(system.protocols.releases)}.\n"
        drawn = system_graph(system)
        yield self.drawn(drawn, f"system-{system.name}", "Messages between the machines", DRAWINGS)
        yield "| machine | meaning | events |\n| --- | --- | --- |"
        for machine in system.machines:
            events = ", ".join(plain(t.on.name) for t in system.tables if t.machine is machine)
            name = self.names[machine]
            link = f"[{plain(machine.name)}]({FOLDER}/{name}.md)"
            yield f"| {link} | {plain(machine.doc)} | {events} |"
        yield ""

    def machine(self, machine: Machine) -> Iterator[str]:
        """Its fields, its states and its tables."""
        owners = [system for system in self.systems if machine in system.machines]
        yield f"# {plain(machine.name)}\n\n{plain(machine.doc)}\n"
        yield _fields(machine, owners)
        systems_of: dict[Table, list[System]] = {}
        drawn: list[list[Table]] = []
        for system in owners:
            tables = [table for table in system.tables if table.machine is machine]
            for table in tables:
                systems_of.setdefault(table, []).append(system)
            if machine.state is not None and tables not in drawn:
                drawn.append(tables)
                diagram = state_diagram(system, machine)
                self.diagrams.setdefault(system.name, []).append((machine, diagram))
                title = f"The states of {machine.name} in {system.name}, by event"
                name = f"{system.name}-{machine.name}"
                yield self.drawn(overview(diagram), name, title, f"../{DRAWINGS}")
                page = f"../{DRAWINGS}/{system.name}.html#{machine.name}"
                yield f"[With every row, release by release]({page})\n"
        for system in self.written(machine, owners) if machine.state is None else ():
            page = f"../{DRAWINGS}/{system.name}.html#{machine.name}"
            yield f"[Each field with the rows of {system.name} that write it]({page})\n"
        seen: list[Seen] = []
        for table, systems in systems_of.items():
            everywhere = len(systems) == len(owners)
            yield from self.table(table, systems, _alike(table, seen), everywhere=everywhere)
            seen.append(Seen(systems[0].name, table))

    def written(self, machine: Machine, owners: list[System]) -> Iterator[System]:
        """The systems whose pages show the machine's fields: each system with rows that write to
        it, except systems whose events of the machine are on another page."""
        shown: list[set[str]] = []
        for system in owners:
            events = {table.on.name for table in system.tables if table.machine is machine}
            if writes_to(system, machine) and not any(events <= others for others in shown):
                shown.append(events)
                self.diagrams.setdefault(system.name, []).append((machine, None))
                yield system

    def table(
        self, table: Table, systems: list[System], seen: Seen | None, *, everywhere: bool
    ) -> Iterator[str]:
        """The rows for one event, in these of the systems that have the machine."""
        yield f"## {plain(table.on.name)}\n"
        said = [plain(text) for text in (table.on.doc, table.doc) if text]
        if not everywhere:
            said.append(f"In {plain(', '.join(system.name for system in systems))} only.")
        when = in_brief(table.guard, table.on)
        if when is not lift(True):
            head = "Stays in flight until" if isinstance(table.on, Message) else "Happens only when"
            guard = "\n".join(readable(when, CODE_WIDTH))
            said.append(f"{head}\n\n```text\n{guard}\n```")
        for text in said:
            yield f"{text if text.endswith('```') else wrapped(text)}\n"
        happens = [
            release
            for release in systems[0].protocols.releases
            if any(table in self.live.get((system, release), ()) for system in systems)
        ]
        protocols = (system.protocols for system in systems)
        yield decision_table(table, *protocols, happens=happens, seen=seen)

    def drawn(self, graph: Graph, name: str, title: str, folder: str) -> str:
        """A drawing with a link to itself, for a click."""
        self.drawings[f"{DRAWINGS}/{name}.svg"] = to_same_svg(graph)
        path = f"{folder}/{name}.svg"
        return f"[![{title}]({path})]({path})\n"


def _alike(table: Table, seen: Iterable[Seen]) -> Seen | None:
    """The table on the same event that has the most rows of the same name, if one has any."""
    names = {row.id for row in table.rows}

    def shared(each: Seen) -> int:
        return sum(row.id in names for row in each.table.rows if each.table.on is table.on)

    return max((each for each in seen if shared(each)), key=shared, default=None)


def _fields(machine: Machine, owners: Iterable[System]) -> str:
    rows = ["| field | type | at first | meaning |", "| --- | --- | --- | --- |"]
    had = {id(info) for system in owners for info in system.fields_of(machine)}
    for info in (info for info in machine.fields.values() if id(info) in had):
        first = _first(info)
        rows.append(f"| `{info.name}` | {plain(str(info.type))} | {first} | {plain(info.doc)} |")
    return "\n".join(rows) + "\n"


def _first(info: FieldInfo) -> str:
    if info.initial is None:
        return ""
    return "any" if info.initial.op == "any_value" else code([show(info.initial)])
