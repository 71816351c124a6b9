"""`simulate`: random walks, for bounds that no search can hold."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...language import DeclarationError, Instance
from ..exits import fail, internal, needing, write_json
from ..options import (
    CheckOptions,
    EngineOptions,
    Json,
    JUnitFile,
    NoDeadlock,
    ReportFile,
    Results,
    SarifFile,
    SystemName,
    TraceFile,
    a_number,
    constants_of,
    memory_of,
    seconds_option,
)
from ..results import needed_for, write_pages
from ..screen import beside, screen
from .traces import numbered, write_traces

if TYPE_CHECKING:
    from ...checker.many.sweep import Piece
    from ...checker.simulation.simulate import Simulation, Walks


@dataclass(frozen=True, kw_only=True)
class WalkOptions:
    """How walks are drawn, and when they end."""

    seed: Annotated[
        str | None,
        typer.Option("--seed", metavar="N", help="Repeat this seed's walks (default: random)."),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            min=1,
            help="Take the walks of N seeds, each in one process, up to --steps or --idle.",
        ),
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
        bool,
        typer.Option("--coverage", help="List every row, with the number of steps that took it."),
    ] = False
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 20 if nothing was found.")] = (
        False
    )
    trace: TraceFile = None
    page: ReportFile = None
    junit: JUnitFile = None
    sarif: SarifFile = None
    results: Results = None
    output: Json = None


def simulate(
    system: SystemName,
    chosen: CheckOptions,
    walks: WalkOptions,
    where: EngineOptions,
    wanted: FoundOptions,
) -> None:
    """Walk through SYSTEM at random on all cores, and check each state on the way."""
    where.heed()
    for option, value in {
        "--engine spark": where.on_spark or None,
        "--results": wanted.results,
    }.items():
        if value is not None and walks.seeds is None:
            fail(f"{option} needs --seeds")
    if walks.seeds is not None and walks.steps is None and walks.idle is None:
        fail("--seeds needs --steps or --idle, which end the walks of each seed")
    memory = memory_of(wanted.memory)
    instance = chosen.checked(system, memory)
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
        if walks.seeds is None:
            result = run(instance, options, summary.show_walks(beside()))
        else:
            result = _of_seeds(
                _piece(instance, chosen), options, walks.seeds, where, wanted.results
            )
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


def _piece(instance: Instance, chosen: CheckOptions) -> Piece:
    """The instance in a form that can be sent to other processes."""
    from ...checker.many.sweep import Piece

    return Piece(
        instance.system,
        instance.protocol,
        tuple(constants_of(chosen.constants).items()),
        bounds=chosen.bounds,
        switch_on=tuple(chosen.with_ or ()),
        switch_off=tuple(chosen.without or ()),
        properties=tuple(chosen.properties) if chosen.properties else None,
    )


def _of_seeds(
    piece: Piece, options: Walks, seeds: int, where: EngineOptions, results: Path | None
) -> Simulation:
    """The walks of several seeds, in processes or on Spark. Exits with one line if Spark or the
    file of results fails. Raises DeclarationError, ReplayError."""
    from ...checker.many.journal import Journal, JournalError
    from ...checker.many.sweep import digest
    from ...checker.output import summary
    from ...checker.simulation.seeds import simulate_seeds
    from ...checker.spark.options import SparkError

    try:
        file = None if results is None else Journal(results, digest(piece))
        with needing("check", "spark"), closing(file) if file else nullcontext() as journal:
            workers, show = where.workers(options.threads), summary.show_seeds(seeds, beside())
            return simulate_seeds(piece, options, seeds, workers, journal, show)
    except (JournalError, SparkError) as error:
        fail(error)
