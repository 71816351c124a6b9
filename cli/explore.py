"""`check` and `sweep`: explore every interleaving of a system, or of many variants of it."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..language import DEFAULT, DeclarationError
from ..spec.load import load_system
from .endings import fail, internal, needing, write_json
from .options import (
    Bounds,
    Client,
    Constants,
    Coordinator,
    Engine,
    Jobs,
    Json,
    JUnitFile,
    KeepGoing,
    Leader,
    Master,
    MemoryOfEach,
    NoDeadlock,
    Off,
    On,
    Properties,
    Protocol,
    Ranges,
    ReportFile,
    Results,
    SarifFile,
    SparkUi,
    Strict,
    SystemName,
    TraceFile,
    check_engine,
    checked_instance,
    memory_of,
    mixed,
    settings_of,
    workers_of,
)
from .results import needed_for, write_pages
from .screen import beside, screen
from .traces import numbered, write_traces

if TYPE_CHECKING:
    from ..checker.verdict import Result

MOST_TRACES = 100
UNDECIDED = (20, 130)  # the exit codes of INCONCLUSIVE and INTERRUPTED


def check(
    system: SystemName,
    protocol: Protocol = None,
    client: Client = None,
    coordinator: Coordinator = None,
    leader: Leader = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, max=64, help="Number of threads (default: all cores)."
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GiB", help="Memory limit (default: 3/4 of free memory)."),
    ] = None,
    spill: Annotated[
        Path | None,
        typer.Option("--spill", metavar="DIR", help="Move states to DIR when memory runs short."),
    ] = None,
    no_symmetry: Annotated[
        bool,
        typer.Option(
            "--no-symmetry", help="Count states that differ only by renaming separately."
        ),
    ] = False,
    no_slicing: Annotated[
        bool, typer.Option("--no-slicing", help="Keep fields that no property or row reads.")
    ] = False,
    no_deadlock: NoDeadlock = False,
    explain_size: Annotated[
        bool,
        typer.Option(
            "--explain-size", help="Show which parts cause most states, and what to bound first."
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="Save every finished level to DIR."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="DIR", help="Continue a checkpoint, or a Spark run."),
    ] = None,
    engine: Engine = "local",
    master: Master = None,
    spark_ui: SparkUi = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", min=1, max=256, help="Shards of a Spark run (default: 2 per core)."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="URI", help="Folder for the data of a Spark run."),
    ] = None,
    hand_over: Annotated[
        int | None,
        typer.Option(
            "--hand-over", min=0, metavar="N",
            help="Switch to Spark when a level has more than N states (default: 200,000).",
        ),
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Check progress properties too.")
    ] = False,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage", help="List every row: how often it is taken, or why never."
        ),
    ] = False,
    all_traces: Annotated[
        int,
        typer.Option(
            "--all-traces", min=1, max=MOST_TRACES, metavar="N", show_default=False,
            help="Find up to N counterexamples that take different rows, shortest first.",
        ),
    ] = 1,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="FILE",
            help="Compare with the --json of an earlier run (exit 14: all holds, but it changed).",
        ),
    ] = None,
    strict: Strict = False,
    keep_going: KeepGoing = False,
    trace: TraceFile = None,
    page: ReportFile = None,
    junit: JUnitFile = None,
    sarif: SarifFile = None,
    output: Json = None,
) -> None:  # fmt: skip
    """Explore every interleaving of SYSTEM within its bounds and report which properties hold."""
    if checkpoint is not None and resume is not None:
        fail("give --checkpoint or --resume, not both: a resumed run saves its levels anyway")
    most = memory_of(memory)
    check_engine(
        engine,
        **{
            "--master": master,
            "--shards": shards,
            "--storage": storage,
            "--hand-over": hand_over,
            "--spark-ui": spark_ui,
        },
    )
    if all_traces > 1 and (engine == "spark" or progress):
        fail("--all-traces needs --engine local, without --progress")
    if engine == "spark" and explain_size:
        fail("--explain-size needs --engine local: use smaller bounds, or --memory")
    if engine == "spark" and checkpoint is not None:
        fail("--checkpoint needs --engine local: a Spark run is saved in --storage")
    if resume is not None and storage is not None:
        fail("give --resume or --storage, not both: a resumed run stays in its folder")
    if spill is not None and (engine == "spark" or progress):
        fail("--spill needs --engine local, without --progress")
    if keep_going and (checkpoint is not None or resume is not None):
        fail("--keep-going can't be used with --checkpoint or --resume")
    if keep_going and engine == "spark":
        fail("--keep-going needs --engine local")
    protocol = mixed(protocol, client=client, coordinator=coordinator, leader=leader)
    instance = checked_instance(
        system, protocol, bounds, constants, with_, without, properties, most, progress
    )
    if engine == "spark" and instance.progress:
        fail(f"{instance.progress[0].name} is a progress property: it needs --engine local")
    with needing("check"):
        from ..checker import summary, under_way
        from ..checker.baseline import BaselineError, read_baseline
        from ..checker.check import Options, available_threads
        from ..checker.check import check as run
        from ..checker.native.checkpoint import CheckpointError
        from ..checker.native.disk import DiskError
        from ..checker.spark.options import HAND_OVER, SparkError, SparkOptions
        from ..checker.trace import Disagreement
    needed_for(page)
    places = numbered(trace, all_traces)
    threads = threads or available_threads()
    options = Options(
        threads=threads,
        memory=most,
        symmetry=not no_symmetry,
        slicing=not no_slicing,
        deadlock=not no_deadlock,
        explain_size=explain_size,
        checkpoint=checkpoint,
        resume=resume,
        spill=spill,
        strict=strict,
        all_traces=all_traces,
        keep_going=keep_going,
        spark=None
        if engine == "local"
        else SparkOptions(
            threads,
            master,
            shards,
            storage,
            HAND_OVER if hand_over is None else hand_over,
            bool(spark_ui),
        ),
    )
    try:
        deadlock = not no_deadlock
        baseline = None if against is None else read_baseline(against, instance, deadlock=deadlock)
        runs = under_way.Runs(instance, options)
        shown = under_way.shown(beside(), runs.earlier())
        with needing("check", "spark"), shown as show:
            result = run(instance, options, show)
    except (BaselineError, DeclarationError, CheckpointError, DiskError, SparkError) as error:
        fail(error)
    except Disagreement as error:
        internal(error)
    runs.remember(result)
    console = screen()
    saved = result.engine.get("storage") or resume or checkpoint
    summary.tell(result, console, coverage=coverage, resume=None if saved is None else str(saved))
    data = result.as_json()
    if baseline is not None:
        data |= _print_moved(result, baseline, str(against), console)
    write_traces(places, result, instance, system)
    write_pages(page, junit, sarif, result, instance)
    write_json(output, data)
    raise typer.Exit(data["exit_code"])


def _print_moved(
    result: Result, baseline: dict[str, Any], name: str, console: Console
) -> dict[str, Any]:
    """Prints what changed since the baseline; returns the keys that it adds to the JSON result."""
    from ..checker import report
    from ..checker.baseline import MOVED, compare

    if result.verdict.value in UNDECIDED:
        console.print(f"Not compared with {name}: this run didn't finish.", markup=False)
        return {}
    moved = compare(baseline, result)
    code = MOVED if moved and not result.verdict.value else result.verdict.value
    report.print_moved(moved, name, code, console)
    return {"exit_code": code, "against": moved.as_json()}


def sweep(
    system: SystemName,
    protocols: Annotated[
        str | None,
        typer.Option(
            "--protocols",
            metavar="A..B",
            help="Releases, as 2.0..4.3 or 2.5,4.3 (default: newest).",
        ),
    ] = None,
    bounds: Bounds = DEFAULT,
    constants: Ranges = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    no_deadlock: NoDeadlock = False,
    jobs: Jobs = None,
    memory: MemoryOfEach = None,
    engine: Engine = "local",
    master: Master = None,
    spark_ui: SparkUi = None,
    results: Results = None,
    strict: Strict = False,
    output: Json = None,
) -> None:
    """Check SYSTEM under every combination of releases and constants; print a table of verdicts."""
    most = memory_of(memory)
    check_engine(engine, **{"--master": master, "--spark-ui": spark_ui})
    with needing("check"):
        from ..checker import report
        from ..checker import sweep as sweeps
        from ..checker.journal import Journal, JournalError
        from ..checker.spark.options import SparkError
    workers = workers_of(jobs, engine, master, spark_ui)
    try:
        declared = load_system(system, most)
        given = settings_of(constants, sweeps.values, "NAME=1..3 or NAME=1,2,5")
        every = sweeps.pieces(
            declared,
            sweeps.releases(
                declared.protocols.newest if protocols is None else protocols, declared.protocols
            ),
            given,
            bounds=bounds,
            switch_on=tuple(with_ or ()),
            switch_off=tuple(without or ()),
            properties=tuple(properties) if properties else None,
            deadlock=not no_deadlock,
            memory=most or 0,
            strict=strict,
        )
        file = None if results is None else Journal(results, sweeps.digest(every[0]))
        show = report.show_piece(len(every), beside())
        with needing("check", "spark"), closing(file) if file else nullcontext() as journal:
            found = sweeps.sweep(every, workers, journal, show)
    except (DeclarationError, SparkError, JournalError) as error:
        fail(error)
    varied = [name for name, values in given.items() if len(values) > 1]
    verdict = sweeps.worst(found, len(every))
    report.print_sweep(declared.name, varied, found, verdict, screen(), len(every))
    write_json(output, {"exit_code": verdict.value, "results": found})
    raise typer.Exit(verdict.value)
