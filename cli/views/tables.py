"""`list`, `diagram` and `diff`: the commands that show declarations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...checker.named_systems import load_system
from ...files import Output
from ...language import DeclarationError, instantiate
from ...spec.systems import SHIPPED, shipped
from ..checking.traces import run_of
from ..exits import announce_wait, fail, needing, write_json
from ..options import Constants, Json, bounds_of, constants_of
from ..screen import screen


def list_(
    name: Annotated[
        str | None, typer.Argument(metavar="SYSTEM", help="Describe this shipped system.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Describe every shipped system.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="List every row in spec/ with the systems that use it.")
    ] = False,
    unwatched: Annotated[
        bool,
        typer.Option(
            "--unwatched", help="List the rules of Kafka that no property notices, with the reason."
        ),
    ] = False,
) -> None:
    """List the shipped systems, a line for each, or describe SYSTEM: its properties, releases,
    features, and constants with their ranges and defaults."""
    from ...spec.systems.coverage.declared_rows import declared_tables, places, print_rows
    from .catalogue import describe, describe_unwatched, overview

    if [name is not None, every, rows, unwatched].count(True) > 1:
        fail("SYSTEM, --all, --rows and --unwatched: choose one")
    if unwatched:
        describe_unwatched(screen())
        return
    if rows:
        for line in print_rows(places(declared_tables(), map(shipped, SHIPPED))):
            print(line)
        return
    console = screen()
    if name is None and not every:
        overview(map(shipped, SHIPPED), console)
        return
    try:
        for each in SHIPPED if name is None else (name,):
            describe(load_system(each), console)
    except DeclarationError as error:
        fail(error)


@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """The content of a drawing, and its file."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file; its ending selects the format: .html (interactive, with every row and "
            "release), .svg, .png, .dot or .gv, .mmd (Mermaid). Default: DOT on standard output.",
        ),
    ] = None
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="NAME", help="Draw this machine of the system."),
    ] = None
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", metavar="R", help="Draw one release (default: all); .html starts with it."
        ),
    ] = None
    detail: Annotated[
        Literal["states", "rows"],
        typer.Option(
            "--detail",
            help="An arrow for each pair of states, or for each row.",
        ),
    ] = "states"
    event: Annotated[
        str | None,
        typer.Option(
            "--event", metavar="NAME", help="Draw only the rows of this event (--detail rows)."
        ),
    ] = None
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows", help="Also draw rows that don't change the state (--detail rows)."
        ),
    ] = False
    fields: Annotated[
        bool,
        typer.Option(
            "--fields", help="For a system, also draw which machine reads or sets another's fields."
        ),
    ] = False
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Show this trace (ITF) in the .html page."),
    ] = None


def diagram(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE|SYSTEM", help="A shipped machine or system, or FILE.py[:SYSTEM]."
        ),
    ],
    options: DrawingOptions,
) -> None:
    """Draw the states of a MACHINE, or which machines of a SYSTEM exchange which messages."""
    from ...diagrams.drawing.render import DrawingError, into, to_dot
    from ...diagrams.find import find_graph

    output, protocol, rows = options.output, options.protocol, options.detail == "rows"
    if output is not None and output.suffix.lower() == ".html":
        if rows or options.event is not None or options.all_rows or options.fields:
            fail(
                "--detail, --event, --all-rows and --fields can't be used with .html: it has every "
                "row"
            )
        return diagram_page(name, options.machine, protocol, output, options.trace)
    if options.trace is not None:
        fail("--trace needs -o FILE.html")
    try:
        draw = None if output is None else into(output)
        graph = find_graph(
            name,
            options.machine,
            protocol,
            rows=rows,
            all_rows=options.all_rows,
            event=options.event,
            fields=options.fields,
        )
        print(to_dot(graph), end="") if draw is None else draw(graph)
    except (DeclarationError, DrawingError) as error:
        fail(error)


def diagram_page(
    name: str, machine: str | None, protocol: str | None, output: Path, trace: Path | None
) -> None:
    """Writes the states of a system's machines, or of one machine, as a page, with a trace."""
    with needing("check"):
        from ...diagrams.levels.page import diagrams_of, to_html
    from ...diagrams.drawing.render import DrawingError
    from ...diagrams.find import find

    page = Output(output)
    try:
        system, found = find(name, machine)
        run = None if trace is None else run_of(system, name, protocol, trace)
        machines = [] if found is None else [found]
        shown = protocol if run is None else run[0].protocol
        diagrams = diagrams_of(system, machines, shown)
        page.write(to_html(system, diagrams, shown=shown, run=run))
    except (DeclarationError, DrawingError) as error:
        fail(error)


def diff(
    protocols: Annotated[
        tuple[str, str], typer.Option("--protocols", metavar="A B", help="The two releases.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="MACHINE|SYSTEM|TRACE",
            help="A shipped machine or system, or FILE.py[:SYSTEM] (default: all shipped ones); "
            "or FILE.jsonl with requests to run on both.",
        ),
    ] = None,
    behaviour: Annotated[
        bool,
        typer.Option("--behaviour", help="Find the shortest runs of SYSTEM that differ."),
    ] = False,
    bounds: Annotated[
        str | None,
        typer.Option(
            "--bounds", metavar="NAME", help="Named bounds (default: small, if it has them)."
        ),
    ] = None,
    constants: Constants = None,
    states: Annotated[
        int | None,
        typer.Option(
            "--states", min=1, metavar="N", help="Maximum number of states (default: 10,000)."
        ),
    ] = None,
    output: Json = None,
) -> None:
    """List the rows in which two releases differ, the requests that they answer differently, or
    the shortest runs in which they behave differently."""
    from ...diagrams.difference import compare, tell
    from ...diagrams.find import find_tables

    before, after = protocols
    if behaviour:
        return diff_behaviour(name or "transactions", protocols, bounds, constants, states, output)
    if bounds is not None or constants or states is not None:
        fail("--bounds, --set and --states need --behaviour")
    if name is not None and name.endswith(".jsonl"):
        return diff_answers(Path(name), before, after, output)
    try:
        found = compare(find_tables(name), before, after)
    except DeclarationError as error:
        fail(error)
    tell(found, before, after, screen())
    tables = [table.as_json() for table in found]
    write_json(output, {"before": before, "after": after, "tables": tables})


def diff_behaviour(
    name: str,
    protocols: tuple[str, str],
    bounds: str | None,
    constants: list[str] | None,
    states: int | None,
    output: Output | None,
) -> None:
    """Runs a system under two releases side by side, and prints where they differ."""
    with needing("check"):
        from ...checker.many import behaviour
        from ...checker.output.tables import print_behaviour
    try:
        system = load_system(name)
        before, after = (
            instantiate(system, release, constants_of(constants), bounds=bounds_of(system, bounds))
            for release in protocols
        )
    except DeclarationError as error:
        fail(error)
    found = behaviour.compare(before, after, states or behaviour.MOST)
    print_behaviour(found, *protocols, screen())
    write_json(
        output,
        {
            "before": protocols[0],
            "after": protocols[1],
            "pairs": found.pairs,
            "depth": found.depth,
            "exhaustive": found.exhaustive,
            "differences": [each.as_json() for each in found.found],
        },
    )


def diff_answers(trace: Path, before: str, after: str, output: Output | None) -> None:
    """Runs the requests of a trace on two releases, and prints the answers that differ."""
    from ...model.engine.errors import ModelError
    from ...model.requests import difference, read, text_of

    announce_wait(trace)
    try:
        requests = read(trace.read_text(encoding="utf-8"))
        found = difference(requests, before, after)
    except OSError as error:
        fail(f"can't read {trace}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"{trace}: not UTF-8 text")
    except (ModelError, DeclarationError) as error:
        fail(f"{trace}: {error}")
    for item in found:
        print(f"{item.place} {item.request}")
        sides = (before, item.before, item.before_reasons), (after, item.after, item.after_reasons)
        for release, answer, reasons in sides:
            print(f"  {release}: {text_of(answer)}")
            for line in reasons:
                print(f"    {line}")
    print(f"{len(found)} of {len(requests)} answers differ.")
    answers = [item._asdict() for item in found]
    write_json(output, {"before": before, "after": after, "answers": answers})
