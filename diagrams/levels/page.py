"""State diagrams as one HTML file, in levels: an edge opens its rows, a row its guard and source; a
slider fades what a release doesn't have, and a trace can be laid over it. It needs no network, and
takes nothing of a declaration for markup."""

# Jinja has filters of any type.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from ...checker.chart.chart import chart_of
from ...checker.settled import declared_rows
from ...checker.trace import Trace
from ...language import DeclarationError, Instance, Machine, System
from ..overview import overview
from ..report import page as report
from ..state import StateDiagram, state_diagram
from .overlay import overlay
from .picture import picture
from .rows import Name, Pair, pairs_of, rows_of

HERE, REPORT = Path(__file__).parent, Path(report.__file__).parent


@dataclass(frozen=True)
class Drawn:
    """A machine with its picture, and what the picture's edges open."""

    machine: Machine
    diagram: StateDiagram
    svg: str
    pairs: list[Pair]
    arrows: frozenset[int]
    """The numbers of the pairs that have an arrow; what the others do is told in a state."""


def diagrams_of(
    system: System, machines: Sequence[Machine] = (), shown: str | None = None
) -> list[tuple[Machine, StateDiagram]]:
    """The diagrams of these machines of the system, or of all that have a state, over the releases
    that it may be checked at, and `shown`.

    Raises DeclarationError where no machine has a state field, or there is no such release.
    """
    releases = list(system.protocols.checked)
    if shown is not None and shown not in releases:
        system.protocols.features_at(shown)
        releases.append(shown)
    every = machines or [each for each in system.machines if each.state is not None]
    if not every:
        raise DeclarationError(f"no machine of {system.name} has a state field to draw")
    return [(machine, state_diagram(system, machine, releases)) for machine in every]


def to_html(
    system: System,
    diagrams: Sequence[tuple[Machine, StateDiagram]],
    *,
    shown: str | None = None,
    run: tuple[Instance, Trace] | None = None,
) -> str:
    """The page of these machines of the system, whose diagrams are of the same releases. It begins
    with the release `shown`, or with all of them. `run` is laid over it."""
    releases = diagrams[0][1].releases
    drawn = [_drawn(system, machine, diagram) for machine, diagram in diagrams]
    names = dict.fromkeys(name for each in drawn for name in _named(each.pairs))
    rows = dict(zip(names, rows_of(system, releases, names), strict=True))
    return _render(
        system=system, drawn=drawn, releases=releases,
        shown=0 if shown is None else releases.index(shown) + 1,
        rows=list(rows.values()), numbers={name: at for at, name in enumerate(rows)},
        trace=None if run is None else _run(*run, drawn),
    )  # fmt: skip


def _drawn(system: System, machine: Machine, diagram: StateDiagram) -> Drawn:
    pairs = pairs_of(system, diagram)
    graph = overview(diagram, past=True)
    graph = replace(graph, notes=graph.notes[:-1])  # how to see the rows elsewhere
    ends = {(edge.tail, edge.head) for edge in graph.edges}
    arrows = frozenset(at for at, pair in enumerate(pairs) if (pair.source, pair.target) in ends)
    return Drawn(machine, diagram, picture(graph, diagram, pairs), pairs, arrows)


def _named(pairs: Iterable[Pair]) -> Iterable[Name]:
    for way in (way for pair in pairs for way in pair.ways):
        yield way.row
        yield from (name for run in way.after for name in run)


def _run(instance: Instance, trace: Trace, drawn: list[Drawn]) -> dict[str, Any]:
    laid = overlay(instance, trace, [(each.machine, each.diagram) for each in drawn])
    chart = chart_of(trace)
    rows = declared_rows(instance)
    return {
        "chart": chart,
        "steps": [
            report.step_of(chart, step, rows.get((step.table, step.row))) for step in chart.steps
        ],
        "loop": trace.loop,
        "conclusion": trace.conclusion,
        "data": {
            "first": laid.first,
            "steps": [[asdict(move) for move in moves] for moves in laid.steps],
        },
    }


def _render(**values: Any) -> str:
    style = report.style(run=values["trace"] is not None) + (HERE / "page.css").read_text("utf-8")
    script = (HERE / "page.js").read_text("utf-8")
    templates = {"page": HERE / "page.html", "chart.html": REPORT / "chart.html"}
    environment = Environment(
        loader=DictLoader({name: file.read_text("utf-8") for name, file in templates.items()}),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page").render(
        style=style, script=script, script_hash=digest, **values
    )
