"""The generated part of the documentation: what the shipped systems declare, drawn and in tables.

`python -m epochfence.diagrams.pages FOLDER` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ..spec.language import Machine, Message, System, Table
from ..spec.language.expressions import show
from ..spec.language.tables import FieldInfo
from ..spec.systems import SHIPPED, shipped
from .decision_table import code, decision_table, plain
from .graph import Graph
from .notation import readable
from .render import to_same_svg
from .state import state_diagram
from .system import system_graph

PAGE = "protocol.md"
DRAWINGS = "diagrams"

_HEAD = """\
<!-- Generated from the declarations in spec/ by `make docs`: edits here are overwritten. -->

# The protocol

What the shipped systems declare, for reading. The checker, the executable model and this page read
the same rows.

In a table, the first row whose condition holds is taken; a reply repeats those fields of its
request that aren't shown. In a state diagram, an arrow is labelled with the event and the row, and
stands for every state in which the row's condition can hold. A double border marks a state that no
arrow leaves. What is dashed is there only in the releases that stand with it. Click a drawing to
see it large.
"""


def pages(systems: Iterable[System]) -> dict[str, bytes]:
    """The generated files on these systems, by their path in the documentation's folder."""
    page = _Page()
    for system in systems:
        page.add_system(system)
    return {PAGE: "\n".join(page.text).encode(), **page.drawings}


def write(folder: Path) -> None:
    """Writes the files on the shipped systems, and removes drawings of what is gone."""
    files = pages(map(shipped, SHIPPED))
    for old in (folder / DRAWINGS).glob("*.svg"):
        if f"{DRAWINGS}/{old.name}" not in files:
            old.unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class _Page:
    """The page as it grows. What two systems share is told once, under the first."""

    def __init__(self) -> None:
        self.text = [_HEAD]
        self.drawings: dict[str, bytes] = {}
        self.told: set[Table | Machine] = set()

    def add_system(self, system: System) -> None:
        """Its messages, and its machines as far as they are new."""
        releases = ", ".join(system.protocols.releases)
        self.text.append(f"## {plain(system.name)}\n\n{plain(system.doc)} Releases: {releases}.\n")
        self.draw(system_graph(system), f"system-{system.name}", "Who sends what to whom")
        for machine in system.machines:
            tables = [t for t in system.tables if t.machine is machine and t not in self.told]
            if tables or machine not in self.told:
                self.add_machine(system, machine, tables)
            self.told |= {machine, *tables}

    def add_machine(self, system: System, machine: Machine, tables: list[Table]) -> None:
        """Its fields, its states and its tables."""
        self.text.append(f"### {plain(machine.name)}\n\n{plain(machine.doc)}\n")
        self.text.append(_fields(machine))
        if machine.state is not None:
            name = f"{system.name}-{machine.name}"
            drawn = state_diagram(system, machine).graph()
            self.draw(drawn, name, f"The states of {machine.name}, by event and row")
        for table in tables:
            self.add_table(system, table)

    def add_table(self, system: System, table: Table) -> None:
        """What happens on one event."""
        self.text.append(f"#### {plain(table.on.name)}\n")
        said = [plain(text) for text in (table.on.doc, table.doc) if text]
        if table.when.op != "const":
            head = "Stays in flight until" if isinstance(table.on, Message) else "Happens only when"
            said.append(f"{head}<br>{code(readable(table.when))}")
        self.text += [f"{text}\n" for text in said]
        self.text.append(decision_table(table, system.protocols))

    def draw(self, graph: Graph, name: str, title: str) -> None:
        """A drawing that opens by itself when it is clicked."""
        path = f"{DRAWINGS}/{name}.svg"
        self.drawings[path] = to_same_svg(graph)
        self.text.append(f"[![{title}]({path})]({path})\n")


def _fields(machine: Machine) -> str:
    rows = ["| field | type | at first | what it is |", "| --- | --- | --- | --- |"]
    for info in machine.fields.values():
        first = _first(info)
        rows.append(f"| `{info.name}` | {plain(str(info.type))} | {first} | {plain(info.doc)} |")
    return "\n".join(rows) + "\n"


def _first(info: FieldInfo) -> str:
    if info.initial is None:
        return ""
    return "any" if info.initial.op == "any_value" else code([show(info.initial)])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
