"""`simulate`: random walks, for bounds that no search can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ...language import DeclarationError
from ..exits import fail, internal, needing, write_json
from ..options import (
    CheckOptions,
    Json,
    JUnitFile,
    NoDeadlock,
    ReportFile,
    SarifFile,
    SystemName,
    TraceFile,
    a_number,
    memory_of,
    seconds_option,
)
from ..results import needed_for, write_pages
from ..screen import beside, screen
from .traces import numbered, write_traces


@dataclass(frozen=True, kw_only=True)
class WalkOptions:
    """How walks are drawn, and when they end."""

    seed: Annotated[
        str | None,
        typer.Option("--seed", metavar="N", help="Repeat this seed's walks (default: random)."),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option("--steps", metavar="N", min=1, help="End after N steps of all walks."),
    ] = None
    seconds: Annotated[
        float | None,
        seconds_option("End after S seconds (default: 60 if no other limit is given)."),
    ] = None
    idle: Annotated[
        int | None,
        typer.Option(
            "--idle", metavar="N", min=1, help="End after N steps in which no new row was taken."
        ),
    ] = None
    depth: Annotated[
        int,
        typer.Option("--depth", metavar="N", min=1, max=100_000, help="Longest walk, in steps."),
    ] = 1_000
    unguided: Annotated[
        bool, typer.Option("--unguided", help="Choose each next step with the same probability.")
    ] = False
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, max=64, help="Number of threads (default: all cores)."
        ),
    ] = None
    no_slicing: Annotated[
        bool, typer.Option("--no-slicing", help="Keep fields that no property or row reads.")
    ] = False
    no_deadlock: NoDeadlock = False


@dataclass(frozen=True, kw_only=True)
class FoundOptions:
    """What is done with the result."""

    shorter: Annotated[
        float,
        typer.Option(
            "--shorter",
            metavar="S",
            min=0,
            max=1e6,
            callback=a_number,
            help="Look for smaller bounds, and then a shorter run, for up to S seconds each.",
        ),
    ] = 10.0
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory",
            metavar="GiB",
            help="Memory limit of --shorter (default: 3/4 of free memory).",
        ),
    ] = None
    coverage: Annotated[
        bool, typer.Option("--coverage", help="List every row: how often it was taken.")
    ] = False
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 20 if nothing was found.")] = (
        False
    )
    trace: TraceFile = None
    page: ReportFile = None
    junit: JUnitFile = None
    sarif: SarifFile = None
    output: Json = None


def simulate(
    system: SystemName, asked: CheckOptions, walks: WalkOptions, wanted: FoundOptions
) -> None:
    """Walk through SYSTEM at random on all cores, and check each state on the way."""
    memory = memory_of(wanted.memory)
    instance = asked.checked(system, memory)
    with needing("check"):
        from ...checker.output import summary
        from ...checker.prepare import available_threads
        from ...checker.simulation.simulate import Walks
        from ...checker.simulation.simulate import simulate as run
        from ...checker.trace.trace import ReplayError
    needed_for(wanted.page)
    options = Walks(
        seed=walks.seed,
        depth=walks.depth,
        steps=walks.steps,
        seconds=walks.seconds,
        idle=walks.idle,
        guided=not walks.unguided,
        threads=walks.threads or available_threads(),
        memory=memory,
        slicing=not walks.no_slicing,
        deadlock=not walks.no_deadlock,
        shorter=wanted.shorter,
        strict=wanted.strict,
    )
    places = numbered(wanted.trace, 1)
    try:
        result = run(instance, options, summary.show_walks(beside()))
    except DeclarationError as error:
        fail(error)
    except ReplayError as error:
        internal(error)
    summary.print_simulated(result, screen(), coverage=wanted.coverage)
    shown = result.within or instance
    write_traces(places, result, shown, system)
    write_pages(wanted.page, wanted.junit, wanted.sarif, result, shown)
    write_json(wanted.output, result.as_json())
    raise typer.Exit(result.exit_code)
