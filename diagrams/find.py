"""Finds the system or machine that a name on the command line stands for."""

from __future__ import annotations

from ..checker.named_systems import load_system
from ..language import DeclarationError, Machine, System, Table
from ..language.declaration.arguments import meant, one_of
from ..spec.changes import VARIED
from ..spec.systems import SHIPPED, shipped
from .drawing.graph import Graph
from .drawing.overview import overview
from .drawing.state import state_diagram
from .drawing.system import system_graph


def find_graph(
    name: str,
    machine: str | None = None,
    protocol: str | None = None,
    *,
    rows: bool = False,
    all_rows: bool = False,
    event: str | None = None,
    fields: bool = False,
) -> Graph:
    """The drawing of a shipped system, of one of its machines, or of the system in
    `FILE.py[:NAME]`.

    `machine` names a machine of the system, `protocol` a single release to draw. The drawing of a
    machine is an overview; with `rows` it has each row that sets the state, with `all_rows` each
    row, and with `event` the rows of this event. The drawing of a system has its messages; with
    `fields` it also has the fields that a machine reads or sets in another. Raises
    DeclarationError, which lists the known names, for an unknown name.
    """
    system, found = find(name, machine)
    if protocol is not None:
        system.protocols.features_at(protocol)
    releases = system.protocols.releases if protocol is None else (protocol,)
    if found is None:
        if rows or all_rows or event is not None:
            has = ", ".join(each.name for each in system.machines if each.state is not None)
            raise DeclarationError(
                f"rows and events are drawn for one machine of {name} ({has or 'none has states'})"
            )
        return system_graph(system, releases, fields=fields)
    if fields:
        raise DeclarationError(f"--fields is about a system, and {found.name} is a machine")
    diagram = state_diagram(system, found, releases)
    if event is not None:
        shown = {t.event for t in diagram.transitions if t.moves or all_rows}
        shown |= {name for t in diagram.transitions if t.moves for name, _ in t.after}
        if event not in shown:
            there = one_of(event, sorted(shown))
            raise DeclarationError(f"no event {event} moves {found.name} ({there})")
    if rows or all_rows or event is not None:
        return diagram.graph(all_rows=all_rows, event=event)
    return overview(diagram)


def find_tables(name: str | None = None) -> list[tuple[System, tuple[Table, ...]]]:
    """The tables of all shipped systems, or of the one system or machine of that name, by system.

    A name may be that of a shipped system or machine, or `FILE.py[:NAME]`. Raises DeclarationError
    for an unknown name.
    """
    systems = [shipped(each) for each in SHIPPED]
    if name is None:
        return [(system, system.tables) for system in systems]
    found, machine = find(name, None)
    if machine is None:
        return [(found, found.tables)]
    return [(s, tuple(t for t in s.tables if t.machine.name == machine.name)) for s in systems]


def find_system(name: str) -> tuple[System, list[str] | None]:
    """The system of that name; or the first shipped system with a machine of that name, and the
    names of the properties that read a field of this machine.

    Raises DeclarationError for an unknown name, and if no property reads the machine's fields.
    """
    system, machine = find(name, None)
    if machine is None:
        return system, None
    found = [item.name for item in system.properties if machine.name in item.machines]
    if not found:
        raise DeclarationError(f"no property of {system.name} looks at {name}")
    return system, found


def find(name: str, machine: str | None) -> tuple[System, Machine | None]:
    """The system of that name, with its machine `machine` if that is given; or else the first
    shipped system with a machine of that name. Raises DeclarationError, as `find_graph` does."""
    if name in (*SHIPPED, *VARIED) or name.partition(":")[0].endswith(".py"):
        system = load_system(name)
        return system, None if machine is None else _machine(system, machine)
    systems = [shipped(each) for each in SHIPPED]
    if machine is None:
        for system in systems:
            if any(each.name == name for each in system.machines):
                return system, _machine(system, name)
    machines = dict.fromkeys(each.name for system in systems for each in system.machines)
    there = meant(name, (*SHIPPED, *VARIED, *machines)).rstrip() or (
        f"take a system ({', '.join(SHIPPED)}), a machine ({', '.join(machines)}), "
        "or a file as FILE.py or FILE.py:NAME"
    )
    raise DeclarationError(f"nothing is called {name}: {there}")


def _machine(system: System, name: str) -> Machine:
    for machine in system.machines:
        if machine.name == name:
            return machine
    there = one_of(name, [machine.name for machine in system.machines])
    raise DeclarationError(f"{system.name} has no machine called {name} ({there})")
