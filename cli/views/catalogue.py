"""The description of a system, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...language import System
from ...spec.properties.unwatched import UNWATCHED
from ...spec.releases.features import KAFKA


def overview(systems: Iterable[System], console: Console) -> None:
    """Prints a line for each system."""
    table = _columns("system", "subject")
    for system in systems:
        table.add_row(Text(system.name), Text(re.split(r"[:;.]", system.doc)[0]))
    console.print(table)
    console.print("\nepochfence list SYSTEM describes one, --all describes them all.")


def describe(system: System, console: Console) -> None:
    """Prints the system's properties, protocols, features, and constants with their bounds."""
    console.print(Text.assemble((system.name, "bold"), f": {system.doc}"))
    if system.reach:
        console.print(Padding(Text(f"Default bounds: {system.reach}"), (0, 0, 0, 2)))
    protocols = system.protocols
    console.print(f"  Protocols: {', '.join(protocols.releases)} (default {protocols.newest})")
    for names in _alike(system):
        console.print(f"    identical in this system: {', '.join(names)}")
    features = _columns("feature", "from", "before", "effect")
    for info in protocols.infos:
        cells = (info.name, info.first, info.until or "", info.sentence)
        features.add_row(*map(Text, cells))
    named = {name: system.values(name) for name in system.bound_names}
    constants = _columns("constant", *named, "range", "meaning")
    for info in system.constant_infos:
        values = [str(values[info.name]) for values in named.values()]
        cells = (info.name, *values, f"{info.low}..{info.high}", info.meaning)
        constants.add_row(*map(Text, cells))
    properties = _columns("property", "kind", "statement")
    for item in (*system.properties, *system.progress):
        properties.add_row(*map(Text, (item.name, item.kind, item.sentence)))
    for table in (features, constants, properties):
        if table.row_count:
            console.print(Padding(table, (0, 0, 0, 2)))
    console.print()


def describe_unwatched(console: Console) -> None:
    """Prints the rules that no property notices, by reason."""
    infos = {info.name: info for info in KAFKA.infos}
    for group in UNWATCHED:
        console.print(Text(f"{group.reason}:", "bold"))
        table = _columns("feature", "from", "effect", "source")
        for name in group.features:
            info = infos[name]
            table.add_row(*map(Text, (name, info.first, info.sentence, info.source)))
        console.print(Padding(table, (0, 0, 1, 2)))
    count = sum(len(group.features) for group in UNWATCHED)
    console.print(f"{count} of {len(infos)} features; the gallery or a test has the others.")


def _alike(system: System) -> list[list[str]]:
    """Groups of two or more releases with the same features of the system."""
    groups: dict[str, list[str]] = {}
    for release, first in system.first_alike(system.protocols.releases).items():
        groups.setdefault(first, []).append(release)
    return [names for names in groups.values() if len(names) > 1]


def _columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name == names[0])
    return table
