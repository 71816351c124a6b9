"""`check` and `sweep`: explore every interleaving of a system, or of many variants of it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ...checker.named_systems import load_system
from ...language import DEFAULT, DeclarationError, Instance
from ..exits import UNDECIDED, fail, internal, needing, write_json
from ..options import (
    Bounds,
    CheckOptions,
    Client,
    Coordinator,
    EngineOptions,
    Jobs,
    Json,
    JUnitFile,
    KeepGoing,
    Leader,
    MemoryOfEach,
    NoDeadlock,
    Off,
    On,
    Properties,
    Ranges,
    ReportFile,
    Results,
    SarifFile,
    Strict,
    SystemName,
    TraceFile,
    memory_of,
    mixed,
    settings_of,
    with_property,
)
from ..results import needed_for, write_pages
from ..screen import beside, screen
from .traces import numbered, write_traces

if TYPE_CHECKING:
    from ...checker.check import Options
    from ...checker.verdict.result import Result

MOST_TRACES = 100


@dataclass(frozen=True, kw_only=True)
class MixedOptions:
    """The releases of single parts."""

    client: Client = None
    coordinator: Coordinator = None
    leader: Leader = None


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How states are searched."""

    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, max=64, help="Number of threads (default: all cores)."
        ),
    ] = None
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GiB", help="Memory limit (default: 3/4 of free memory)."),
    ] = None
    spill: Annotated[
        Path | None,
        typer.Option("--spill", metavar="DIR", help="Move states to DIR when memory runs short."),
    ] = None
    no_symmetry: Annotated[
        bool,
        typer.Option("--no-symmetry", help="Don't merge states that differ only by renaming."),
    ] = False
    no_slicing: Annotated[
        bool, typer.Option("--no-slicing", help="Keep fields that no property or row reads.")
    ] = False
    no_deadlock: NoDeadlock = False
    explain_size: Annotated[
        bool,
        typer.Option(
            "--explain-size", help="Show the causes of most states, and the one to bound first."
        ),
    ] = False
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", metavar="N", min=0, help="End after N steps (exit 20, with what was found)."
        ),
    ] = None
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline", metavar="S", help="End after S seconds (exit 20, with what was found)."
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="Save every finished level to DIR."),
    ] = None
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="DIR", help="Continue a checkpoint, or a Spark run."),
    ] = None

    def words_after(self, saved: object) -> str:
        """The words after --resume that continue a run saved there."""
        return str(saved) if self.spill is None else f"{saved} --spill {self.spill}"


@dataclass(frozen=True, kw_only=True)
class SparkRun(EngineOptions):
    """A search on Spark."""

    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="N",
            min=1,
            max=256,
            help="Shards of a Spark run (default: 2 per core).",
        ),
    ] = None
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="URI", help="Folder for the data of a Spark run."),
    ] = None
    hand_over: Annotated[
        int | None,
        typer.Option(
            "--hand-over",
            min=0,
            metavar="N",
            help="Switch to Spark when a level has more than N states (default: 200,000).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FoundOptions:
    """The properties to check, and the parts to show."""

    progress: Annotated[bool, typer.Option("--progress", help="Check progress properties too.")] = (
        False
    )
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            help="List every row: how many steps take it, or the reason why none does.",
        ),
    ] = False
    all_traces: Annotated[
        int,
        typer.Option(
            "--all-traces",
            min=1,
            max=MOST_TRACES,
            metavar="N",
            show_default=False,
            help="Find up to N counterexamples that take different rows, shortest first.",
        ),
    ] = 1
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Check again after each save, small bounds first, until Ctrl-C."
        ),
    ] = False
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare with the --json of an earlier run (exit 14: all holds, but it changed).",
        ),
    ] = None
    strict: Strict = False
    keep_going: KeepGoing = False
    trace: TraceFile = None
    page: ReportFile = None
    junit: JUnitFile = None
    sarif: SarifFile = None
    output: Json = None
    states: Annotated[
        str | None,
        typer.Option(
            "--states", metavar="DIR", help="Write all states as Parquet, in a folder per level."
        ),
    ] = None
    transitions: Annotated[
        str | None,
        typer.Option(
            "--transitions",
            metavar="DIR",
            help="Write all steps as Parquet, in a folder per level.",
        ),
    ] = None

    @property
    def keeps_states(self) -> bool:
        """Whether states or steps are written."""
        return self.states is not None or self.transitions is not None


def check(
    system: SystemName,
    chosen: CheckOptions,
    parts: MixedOptions,
    search: SearchOptions,
    where: SparkRun,
    wanted: FoundOptions,
) -> None:
    """Explore every interleaving of SYSTEM within its bounds and report which properties hold."""
    most = memory_of(search.memory)
    _refuse(search, where, wanted)
    protocol = mixed(chosen.protocol, **vars(parts))
    chosen = replace(chosen, protocol=protocol)
    if wanted.watch:
        with needing("check"):
            from .watch import watch
        watch(system, chosen, _options(search, where, wanted, most), progress=wanted.progress)
    instance = chosen.checked(system, most, progress=wanted.progress, meanwhile=_load)
    if where.on_spark and instance.progress:
        fail(f"{instance.progress[0].name} is a progress property: it needs --engine local")
    with needing("check"):
        from ...checker.check import check as run
        from ...checker.many.baseline import BaselineError, read_baseline
        from ...checker.native.search.checkpoint import CheckpointError
        from ...checker.native.store.disk import DiskError
        from ...checker.output import progress_line, summary
        from ...checker.spark.options import SparkError
        from ...checker.trace.trace import ReplayError
    needed_for(wanted.page)
    places = numbered(wanted.trace, wanted.all_traces)
    options = _options(search, where, wanted, most)
    try:
        deadlock = options.deadlock
        against = wanted.against
        baseline = None if against is None else read_baseline(against, instance, deadlock=deadlock)
        runs = progress_line.Runs(instance, options)
        shown = progress_line.shown(beside(), runs.earlier())
        with needing("check", "spark"), shown as show, _one_session(wanted, options):
            result = run(instance, options, show)
            if wanted.keeps_states:
                _write_tables(wanted, result, instance, options)
    except (BaselineError, DeclarationError, CheckpointError, DiskError, SparkError) as error:
        fail(error)
    except ReplayError as error:
        internal(error)
    runs.remember(result)
    console = screen()
    saved = result.engine.get("storage") or search.resume or search.checkpoint
    resume = None if saved is None else search.words_after(saved)
    summary.tell(result, console, coverage=wanted.coverage, resume=resume)
    data = result.as_json()
    if baseline is not None:
        data |= _print_moved(result, baseline, str(against), console)
    write_traces(places, result, instance, system)
    write_pages(wanted.page, wanted.junit, wanted.sarif, result, instance)
    write_json(wanted.output, data)
    raise typer.Exit(data["exit_code"])


def _one_session(wanted: FoundOptions, options: Options) -> AbstractContextManager[object]:
    """A session for a run on Spark and for its tables: each start takes some seconds."""
    if options.spark is None or not wanted.keeps_states:
        return nullcontext()
    from ...checker.spark.session import session

    return session(options.spark, "check", carrying=True)


def _write_tables(
    wanted: FoundOptions, result: Result, instance: Instance, options: Options
) -> None:
    """Writes the states and steps, from this process or from a run's folder on Spark."""
    if options.spark is None:
        found = result.found
        if found is None:
            fail(f"--states and --transitions: the run kept no states ({result.reason})")
        if wanted.states is not None:
            found.write_states(Path(wanted.states))
        if wanted.transitions is not None:
            found.write_transitions(Path(wanted.transitions))
        return
    from ...checker.spark.frames import Explored
    from ...checker.spark.session import java_needed, session

    with java_needed(), session(options.spark, "check", carrying=True) as spark:
        run = Explored(spark, result.engine["storage"], instance)
        if wanted.states is not None:
            run.write_states(wanted.states)
        if wanted.transitions is not None:
            run.write_transitions(wanted.transitions)


def _load() -> None:
    """Imports the modules of the search, while a FILE.py runs in another process."""
    with suppress(ImportError):  # the error is reported where the modules are used
        for module in ("check", "output.progress_line", "output.summary", "many.baseline"):
            import_module(f"...checker.{module}", __package__)


def _refuse(search: SearchOptions, where: SparkRun, wanted: FoundOptions) -> None:
    """Exits with one line if options exclude each other."""
    saves, resumes = search.checkpoint is not None, search.resume is not None
    if saves and resumes:
        fail("give --checkpoint or --resume, not both: a resumed run saves its levels anyway")
    where.heed(
        **{
            "--shards": where.shards,
            "--storage": where.storage,
            "--hand-over": where.hand_over,
        }
    )
    _refuse_tables(search, where, wanted)
    if wanted.all_traces > 1 and (where.on_spark or wanted.progress):
        fail("--all-traces needs --engine local, without --progress")
    if where.on_spark and (search.depth is not None or search.deadline is not None):
        fail("--depth and --deadline need --engine local")
    if search.deadline is not None and not 0 < search.deadline < 1e9:
        fail(f"--deadline {search.deadline:g}: must be above 0 (seconds)")
    if where.on_spark and search.explain_size:
        fail("--explain-size needs --engine local: use smaller bounds, or --memory")
    if where.on_spark and saves:
        fail("--checkpoint needs --engine local: a Spark run is saved in --storage")
    if resumes and where.storage is not None:
        fail("give --resume or --storage, not both: a resumed run stays in its folder")
    if wanted.watch:
        unused = {
            "--engine spark": where.on_spark, "--json": wanted.output, "--trace": wanted.trace,
            "--report": wanted.page, "--junit": wanted.junit, "--sarif": wanted.sarif,
            "--against": wanted.against, "--coverage": wanted.coverage,
            "--checkpoint": search.checkpoint, "--resume": search.resume,
            "--explain-size": search.explain_size, "--all-traces": wanted.all_traces > 1,
            "--keep-going": wanted.keep_going,
        }  # fmt: skip
        for option in (name for name, value in unused.items() if value):
            fail(f"--watch can't be used with {option}: it prints verdicts and traces alone")
    if search.spill is not None and (where.on_spark or wanted.progress):
        fail("--spill needs --engine local, without --progress")
    if wanted.keep_going and wanted.all_traces > 1:
        fail("--keep-going can't be used with --all-traces: it finds a run for each property")
    if wanted.keep_going and (saves or resumes):
        fail("--keep-going can't be used with --checkpoint or --resume")
    if wanted.keep_going and where.on_spark:
        fail("--keep-going needs --engine local")


def _refuse_tables(search: SearchOptions, where: SparkRun, wanted: FoundOptions) -> None:
    for option, folder in (("--states", wanted.states), ("--transitions", wanted.transitions)):
        if folder is None:
            continue
        if where.on_spark and where.storage is None and search.resume is None:
            fail(f"{option} needs --storage with --engine spark: the run's folder has the states")
        if search.spill is not None or wanted.all_traces > 1 or wanted.progress:
            fail(f"{option} can't be used with --spill, --all-traces or --progress")
        with needing("arrow"):
            from ...checker.output.state_tables import check_new
        if "://" not in folder:
            check_new(Path(folder))
        elif not where.on_spark:
            fail(f"{option} {folder}: a URI needs --engine spark")


def _options(
    search: SearchOptions, where: SparkRun, wanted: FoundOptions, memory: int | None
) -> Options:
    """The options of the run."""
    from ...checker.check import Options
    from ...checker.prepare import available_threads
    from ...checker.spark.options import HAND_OVER, SparkOptions

    threads = search.threads or available_threads()
    # Only levels that Spark has taken over are in the run's folder.
    usual = 0 if wanted.keeps_states else HAND_OVER
    hand_over = usual if where.hand_over is None else where.hand_over
    spark = SparkOptions(
        threads, where.master, where.shards, where.storage, hand_over, bool(where.spark_ui)
    )
    return Options(
        threads=threads,
        memory=memory,
        symmetry=not search.no_symmetry,
        slicing=not search.no_slicing,
        deadlock=not search.no_deadlock,
        explain_size=search.explain_size,
        checkpoint=search.checkpoint,
        resume=search.resume,
        spill=search.spill,
        strict=wanted.strict,
        all_traces=wanted.all_traces,
        keep_going=wanted.keep_going,
        keep_states=wanted.keeps_states and not where.on_spark,
        depth=search.depth,
        until=None if search.deadline is None else time.monotonic() + search.deadline,
        spark=spark if where.on_spark else None,
    )


def _print_moved(
    result: Result, baseline: dict[str, Any], name: str, console: Console
) -> dict[str, Any]:
    """Prints the changes since the baseline. Returns additional keys of the JSON result."""
    from ...checker.many.baseline import MOVED, compare
    from ...checker.output import report

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
    *,
    where: EngineOptions,
    results: Results = None,
    strict: Strict = False,
    output: Json = None,
) -> None:
    """Check SYSTEM under every combination of releases and constants; print a table of verdicts."""
    most = memory_of(memory)
    where.heed()
    with needing("check"):
        from ...checker.many import sweep as sweeps
        from ...checker.many.journal import Journal, JournalError
        from ...checker.output import report
        from ...checker.spark.options import SparkError
    try:
        declared = load_system(system, most)
        known = declared.protocols
        given = settings_of(constants, sweeps.values, "NAME=1..3 or NAME=1,2,5")
        every = sweeps.pieces(
            declared,
            sweeps.releases(known.newest if protocols is None else protocols, known),
            given,
            bounds=bounds,
            switch_on=tuple(with_ or ()),
            switch_off=tuple(without or ()),
            properties=tuple(properties) if properties else None,
            deadlock=not no_deadlock,
            memory=most or 0,
            strict=strict,
        )
        with_property(system, every[0].instance())
        file = None if results is None else Journal(results, sweeps.digest(every[0]))
        show = report.show_piece(len(every), beside())
        with needing("check", "spark"), closing(file) if file else nullcontext() as journal:
            found = sweeps.sweep(every, where.workers(jobs), journal, show)
    except (DeclarationError, SparkError, JournalError) as error:
        fail(error)
    varied = [name for name, values in given.items() if len(values) > 1]
    verdict = sweeps.worst(found, len(every))
    report.print_sweep(declared.name, varied, found, verdict, screen(), len(every))
    write_json(output, {"exit_code": verdict.value, "results": found})
    raise typer.Exit(verdict.value)
