"""State diagrams as one HTML file, in levels: an edge opens its rows, a row its guard and source.

A slider fades the parts that a release lacks. The page can show a trace on the diagrams. The file
needs no network. Texts of a declaration are never markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ...checker.trace.chart.chart import chart_of
from ...checker.trace.trace import Trace
from ...checker.verdict.constant_folding import declared_rows
from ...language import DeclarationError, Instance, Machine, System, instantiate
from ..drawing.overview import overview
from ..drawing.state import StateDiagram, state_diagram
from ..report.page import steps_of
from ..report.state import Section, laid_out
from ..templates import one_file, style
from .fields import Part, fields_of, writes_to
from .overlay import overlay
from .picture import picture
from .rows import Name, Pair, pairs_of, rows_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Drawn:
    """A machine with its picture, its fields, and the pairs that edges and fields open."""

    machine: Machine
    pairs: list[Pair]
    svg: str = ""
    hidden: frozenset[int] = frozenset()
    """The numbers of the pairs without an arrow: a state shows their effect as text, or the picture
    omits it."""
    parts: tuple[Part, ...] = ()


Diagrams: TypeAlias = Sequence[tuple[Machine, StateDiagram | None]]


def diagrams_of(
    system: System, machines: Sequence[Machine] = (), shown: str | None = None
) -> Diagrams:
    """The diagrams of these machines of the system (default: all), over the system's releases and
    `shown`. A machine without a state field has None, or is left out if no row writes to it.

    Raises DeclarationError if no machine is left, or for an unknown release.
    """
    releases = _releases(system, shown)
    found: list[tuple[Machine, StateDiagram | None]] = []
    for machine in machines or system.machines:
        if machine.state is not None:
            found.append((machine, state_diagram(system, machine, releases)))
        elif writes_to(system, machine):
            found.append((machine, None))
    if not found:
        names = ", ".join(machine.name for machine in machines or system.machines)
        raise DeclarationError(f"no row of {system.name} writes to a field of {names}")
    return found


def to_html(
    system: System,
    diagrams: Diagrams,
    *,
    shown: str | None = None,
    run: tuple[Instance, Trace] | None = None,
) -> str:
    """The page of these machines of the system; machines with a state field come first. It begins
    with the release `shown`, or with all releases. It shows the trace `run` on the diagrams."""
    releases = _releases(system, shown)
    constants = _constants(system) if run is None else run[0].constants
    drawn: list[Drawn] = []
    for machine, diagram in sorted(diagrams, key=lambda each: each[1] is None):
        with_fields = diagram is None or run is not None
        parts = fields_of(system, machine, releases, constants) if with_fields else []
        held = Drawn(machine, [part.pair for part in parts], parts=tuple(parts))
        drawn.append(held if diagram is None else _with_picture(system, held, diagram))
    names = dict.fromkeys(name for each in drawn for name in _named(each.pairs))
    rows = dict(zip(names, rows_of(system, releases, names), strict=True))
    return one_file(
        HERE,
        style(run=run is not None) + (HERE / "page.css").read_text("utf-8"),
        system=system,
        drawn=drawn,
        releases=releases,
        shown=0 if shown is None else releases.index(shown) + 1,
        rows=list(rows.values()),
        numbers={name: at for at, name in enumerate(rows)},
        trace=None if run is None else _run(*run, diagrams),
    )


def _releases(system: System, shown: str | None) -> tuple[str, ...]:
    releases = system.protocols.releases
    if shown is not None and shown not in releases:
        system.protocols.features_at(shown)
        return (*releases, shown)
    return releases


def _constants(system: System) -> Mapping[str, int]:
    return instantiate(system).constants


def _with_picture(system: System, held: Drawn, diagram: StateDiagram) -> Drawn:
    pairs = pairs_of(system, diagram)
    graph = overview(diagram, past=True, alone=False)
    ends = {(edge.tail, edge.head) for edge in graph.edges}
    hidden = {at for at, pair in enumerate(pairs) if (pair.source, pair.target) not in ends}
    svg = picture(graph, diagram, pairs)
    return Drawn(held.machine, [*pairs, *held.pairs], svg, frozenset(hidden), held.parts)


def _named(pairs: Iterable[Pair]) -> Iterable[Name]:
    for way in (way for pair in pairs for way in pair.ways):
        yield way.row
        yield from (name for run in way.after for name in run)


def _run(instance: Instance, trace: Trace, diagrams: Diagrams) -> dict[str, Any]:
    laid = overlay(instance, trace, [(m, each) for m, each in diagrams if each is not None])
    states = laid_out(instance, trace.states)
    chart = chart_of(trace)
    return {
        "chart": chart,
        "steps": steps_of(chart, declared_rows(instance)),
        "loop": trace.loop,
        "conclusion": trace.conclusion,
        "cells": {section.name: list(_cells(section)) for section in states.sections},
        "data": {
            "values": states.first,
            "changes": states.changes,
            "first": laid.first,
            "steps": [[asdict(move) for move in moves] for moves in laid.steps],
        },
    }


def _cells(section: Section) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """The cells of a machine: their part and owner, each with the key that distinguishes it from
    its neighbours, as the batches of a partition."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for field in section.fields:
        name = re.sub(r"\[\w+\]", "", field.name)
        keys = re.findall(r"\[(\w+)\]", field.name)
        beside = keys.pop() if len(keys) > 1 else ""
        for column, cell in zip(section.columns, field.cells, strict=True):
            whose = " ".join(filter(None, (column, *keys)))
            found.setdefault((name, whose), []).append((beside, cell))
    yield from ((name, whose, cells) for (name, whose), cells in found.items())
