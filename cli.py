"""The command line: thin commands that call the rooms."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from errno import EPIPE
from itertools import product
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console

from .spec.language import DEFAULT, DeclarationError, Instance, instantiate
from .spec.load import load_system
from .spec.systems import SHIPPED, shipped

app = typer.Typer(
    help="Kafka's exactly-once protocol as tables: explored, checked, drawn.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

T = TypeVar("T")
USAGE, INTERNAL, BROKEN = 2, 1, 12


def fail(message: object) -> NoReturn:
    """Ends with one clear line and the exit code for wrong usage."""
    print(f"epochfence: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


SystemName = Annotated[str, typer.Argument(metavar="SYSTEM", help="A name, or FILE.py[:NAME].")]
Protocol = Annotated[
    str | None, typer.Option("--protocol", metavar="R", help="The release (default: the newest).")
]
Constants = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A constant.")
]
Bounds = Annotated[
    str, typer.Option("--bounds", metavar="NAME", help="Bounds that the system names.")
]
On = Annotated[list[str] | None, typer.Option("--with", metavar="FEATURE", help="Switched on.")]
Off = Annotated[
    list[str] | None, typer.Option("--without", metavar="FEATURE", help="Switched off.")
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="P", help="Check this property (default: all)."),
]
Engine = Annotated[str, typer.Option("--engine", metavar="E", help="local (default), or spark.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's cluster (default: this machine)."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, max=64, help="Processes. Default: all cores.")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=A..B", help="A constant's values, as 1..3 or 1,2,5."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="Keep each result as a line of JSON; what is there already is not done again.",
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="The result for machines.")
]


def check_folder(output: Path | None) -> None:
    """Ends with one line where the file can't be written later, for want of its folder."""
    if output is not None and not output.absolute().parent.is_dir():
        fail(f"--json {output}: no folder {output.absolute().parent}")


def make_folder(option: str, folder: Path) -> None:
    """Ends with one line where there is no such folder and it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{option} {folder}: no folder can be made here: {error.strerror}")


def write_json(output: Path | None, data: object) -> None:
    """Writes the file, if one is wanted, as a whole or not at all."""
    if output is None:
        return
    aside = output.with_name(f".{output.name}.part")
    try:
        aside.write_text(json.dumps(data, indent=2) + "\n")
        aside.replace(output)
    except OSError as error:
        aside.unlink(missing_ok=True)
        fail(f"can't write {output}: {error.strerror}")


@app.command()
def check(
    system: SystemName,
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, max=64, help="Default: all cores.")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GiB", help="The most to use (default: 3/4 of the free)."),
    ] = None,
    no_symmetry: Annotated[
        bool, typer.Option("--no-symmetry", help="Keep states that differ by renaming.")
    ] = False,
    no_slicing: Annotated[
        bool, typer.Option("--no-slicing", help="Keep fields that nothing looks at.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="Save each finished level.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="DIR", help="Go on from a checkpoint or run.")
    ] = None,
    engine: Engine = "local",
    master: Master = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, max=256, help="On Spark (default: 2 for each core)."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="URI", help="The folder of a run on Spark."),
    ] = None,
    hand_over: Annotated[
        int | None,
        typer.Option(
            "--hand-over", min=0, metavar="N",
            help="Spark takes over at a level of more than N states (default: 200,000).",
        ),
    ] = None,
    output: Json = None,
) -> None:  # fmt: skip
    """Explore every interleaving of SYSTEM within its bounds and tell what holds."""
    if checkpoint is not None and resume is not None:
        fail("--checkpoint and --resume exclude each other: a resumed run goes on saving")
    if memory is not None and memory <= 0:
        fail(f"--memory {memory:g}: give a number of GiB above 0")
    check_engine(
        engine,
        **{"--master": master, "--shards": shards, "--storage": storage, "--hand-over": hand_over},
    )
    if engine == "spark" and checkpoint is not None:
        fail("--checkpoint is for --engine local: a run on Spark is kept in --storage")
    if resume is not None and storage is not None:
        fail("--resume and --storage exclude each other: a resumed run stays in its folder")
    check_folder(output)
    instance = checked_instance(system, protocol, bounds, constants, with_, without, properties)
    try:
        from .checker import report
        from .checker.check import Options, available_threads
        from .checker.check import check as run
        from .checker.checkpoint import CheckpointError
        from .checker.spark.options import HAND_OVER, SparkError, SparkOptions
        from .checker.trace import Disagreement
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check]'")
    threads = threads or available_threads()
    options = Options(
        threads=threads,
        memory=None if memory is None else int(memory * 2**30),
        symmetry=not no_symmetry,
        slicing=not no_slicing,
        checkpoint=checkpoint,
        resume=resume,
        spark=None
        if engine == "local"
        else SparkOptions(
            threads, master, shards, storage, HAND_OVER if hand_over is None else hand_over
        ),
    )
    try:
        with report.progress(Console(stderr=True)) as show:
            result = run(instance, options, show)
    except (DeclarationError, CheckpointError, SparkError) as error:
        fail(error)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check,spark]'")
    except Disagreement as error:
        internal(error)
    report.tell(result, Console(width=100, highlight=False, soft_wrap=False))
    write_json(output, result.as_json())
    raise typer.Exit(result.verdict.value)


@app.command()
def bound(
    system: SystemName,
    depth: Annotated[int, typer.Option("--depth", metavar="K", min=1, help="The most steps.")],
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    integers: Annotated[
        bool,
        typer.Option("--integers", help="Leave constants open that aren't set and bound numbers."),
    ] = False,
    output: Json = None,
) -> None:
    """Look for the shortest counterexample of up to K steps with Z3."""
    check_folder(output)
    instance = checked_instance(system, protocol, bounds, constants, with_, without, properties)
    try:
        from .checker import report
        from .checker.solver.bound import bound as run
        from .checker.solver.lifted import lifted
        from .checker.solver.terms import SolverError
        from .checker.trace import Disagreement
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check]'")
    try:
        show = report.show_depth(Console(stderr=True))
        if integers:
            instance = lifted(
                instance.system, protocol, constants_of(constants), bounds=bounds,
                switch_on=with_ or (), switch_off=without or (), properties=properties or None,
            )  # fmt: skip
        result = run(instance, depth, show, only_properties=bool(properties))
    except (DeclarationError, SolverError) as error:
        fail(error)
    except Disagreement as error:
        internal(error)
    report.tell_bounded(result, Console(width=100, highlight=False, soft_wrap=False))
    write_json(output, result.as_json())
    raise typer.Exit(result.verdict.value)


@app.command()
def prove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM|MACHINE",
            help="A name, or FILE.py[:NAME]; a shipped machine stands for the properties that "
            "look at it.",
        ),
    ],
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Ranges = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="P", help="Prove this property (default: all)."),
    ] = None,
    with_: On = None,
    without: Off = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds for each obligation.")
    ] = 60.0,
    jobs: Jobs = None,
    engine: Engine = "local",
    master: Master = None,
    no_lemmas: Annotated[
        bool, typer.Option("--no-lemmas", help="Do without the declared lemmas.")
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="DIR", help="Write each obligation as SMT-LIB."),
    ] = None,
    results: Results = None,
    output: Json = None,
) -> None:
    """Prove properties for all numbers: constants that aren't set and only bound numbers may have
    any value."""
    if not 0 < timeout < 1e6:  # Z3 counts milliseconds in 32 bits
        fail(f"--timeout {timeout:g}: give a number of seconds above 0 and below a million")
    check_engine(engine, **{"--master": master})
    check_folder(output)
    from .diagrams.find import find_system

    try:
        from .checker import report
        from .checker import sweep as sweeps
        from .checker.check import available_threads
        from .checker.kept import KeptError
        from .checker.solver.obligations import Answers
        from .checker.solver.prove import Options
        from .checker.solver.prove import prove as run
        from .checker.solver.terms import SolverError
        from .checker.spark.options import SparkError, SparkOptions
        from .checker.spread import Spread
        from .checker.trace import Disagreement
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check]'")
    threads = jobs or available_threads()
    options = Options(
        timeout=timeout,
        spread=Spread(threads, SparkOptions(threads, master) if engine == "spark" else None),
        certificates=certificate,
        lemmas=not no_lemmas,
    )
    console = Console(width=100, highlight=False, soft_wrap=False)
    found: list[dict[str, object]] = []
    try:
        system, wanted = find_system(name)
        given = settings_of(constants, sweeps.values, "NAME=1..3 or NAME=1,2,5")
        if certificate is not None:
            make_folder("--certificate", certificate)
        known = Answers(results, report.show_settled(Console(stderr=True)))
        for values in product(*given.values()):
            result = run(
                system,
                protocol,
                dict(zip(given, values, strict=True)),
                bounds=bounds,
                switch_on=with_ or (),
                switch_off=without or (),
                properties=properties or wanted,
                options=options,
                known=known,
            )
            report.tell_proofs(result, console)
            found.append(result.as_json())
    except (DeclarationError, KeptError, SolverError, SparkError) as error:
        fail(error)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check,spark]'")
    except Disagreement as error:
        internal(error)
    verdict = sweeps.worst(found)
    write_json(
        output, found[0] if len(found) == 1 else {"exit_code": verdict.value, "results": found}
    )
    raise typer.Exit(verdict.value)


@app.command()
def lint(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="MACHINE|SYSTEM",
            help="A shipped machine or system, or FILE.py[:SYSTEM] (default: all that is shipped).",
        ),
    ] = None,
    protocol: Protocol = None,
    constants: Constants = None,
    output: Json = None,
) -> None:
    """Look at each table by itself, in every state that its types allow, with Z3."""
    check_folder(output)
    from .diagrams.find import find_tables

    try:
        from .checker import report
        from .checker.solver.lint import lint as run
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check]'")
    told: list[object] = []
    faults = 0
    console = Console(width=100, highlight=False)
    try:
        for system, tables in find_tables(name):
            if tables:
                found = run(system, protocol, tables, constants_of(constants))
                report.tell_lint(system, tables, found, console)
                told += [{"system": system.name, **finding.as_json()} for finding in found]
                faults += sum(finding.is_fault for finding in found)
    except DeclarationError as error:
        fail(error)
    write_json(output, {"findings": told})
    raise typer.Exit(BROKEN if faults else 0)


@app.command()
def sweep(
    system: SystemName,
    protocols: Annotated[
        str | None,
        typer.Option(
            "--protocols", metavar="A..B", help="As 2.0..4.3 or 2.5,4.3 (default: the newest)."
        ),
    ] = None,
    bounds: Bounds = DEFAULT,
    constants: Ranges = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    jobs: Jobs = None,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GiB", help="The most for each (default: a fair share)."),
    ] = None,
    engine: Engine = "local",
    master: Master = None,
    results: Results = None,
    output: Json = None,
) -> None:
    """Explore SYSTEM under every combination of releases and constants; one table of verdicts."""
    if memory is not None and memory <= 0:
        fail(f"--memory {memory:g}: give a number of GiB above 0")
    check_engine(engine, **{"--master": master})
    check_folder(output)
    try:
        from .checker import report
        from .checker import sweep as sweeps
        from .checker.check import available_threads
        from .checker.kept import Kept, KeptError
        from .checker.spark.options import SparkError, SparkOptions
        from .checker.spread import Spread
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check]'")
    threads = jobs or available_threads()
    spread = Spread(threads, SparkOptions(threads, master) if engine == "spark" else None)
    try:
        declared = load_system(system)
        given = settings_of(constants, sweeps.values, "NAME=1..3 or NAME=1,2,5")
        every = sweeps.pieces(
            declared,
            sweeps.releases(protocols or declared.protocols.newest, declared.protocols),
            given,
            bounds=bounds,
            switch_on=tuple(with_ or ()),
            switch_off=tuple(without or ()),
            properties=tuple(properties or ()),
            memory=0 if memory is None else int(memory * 2**30),
        )
        kept = None if results is None else Kept(results, sweeps.digest(every[0]))
        show = report.show_piece(len(every), Console(stderr=True))
        found = sweeps.sweep(every, spread, kept, show)
    except (DeclarationError, SparkError, KeptError) as error:
        fail(error)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check,spark]'")
    varied = [name for name, values in given.items() if len(values) > 1]
    verdict = sweeps.worst(found)
    report.tell_sweep(declared.name, varied, found, verdict, Console(width=100, highlight=False))
    write_json(output, {"exit_code": verdict.value, "results": found})
    raise typer.Exit(verdict.value)


def check_engine(engine: str, **for_spark: object) -> None:
    """Ends with one line where there is no such engine, or an option is for the other one."""
    if engine not in ("local", "spark"):
        fail(f"--engine {engine}: local or spark")
    for option, value in for_spark.items():
        if engine == "local" and value is not None:
            fail(f"{option} is for --engine spark")


def internal(error: Exception) -> NoReturn:
    """Ends with the exit code for a fault of the program's own."""
    print(f"epochfence: internal error, please report it: {error}", file=sys.stderr)
    raise typer.Exit(INTERNAL) from None


def checked_instance(
    system: str,
    protocol: str | None,
    bounds: str,
    constants: list[str] | None,
    with_: list[str] | None,
    without: list[str] | None,
    properties: list[str] | None,
) -> Instance:
    """The system that the command line names, with a property to check at least."""
    instance = instance_of(system, protocol, bounds, constants, with_, without, properties)
    if not instance.properties:
        fail(f"{system} names no property: without one there is nothing to check")
    return instance


def instance_of(
    system: str,
    protocol: str | None,
    bounds: str,
    constants: list[str] | None,
    with_: list[str] | None = None,
    without: list[str] | None = None,
    properties: list[str] | None = None,
) -> Instance:
    """The system that the command line names, or the end with one line that says what is wrong."""
    try:
        return instantiate(
            load_system(system),
            protocol,
            constants_of(constants),
            bounds=bounds,
            switch_on=with_ or (),
            switch_off=without or (),
            properties=properties or None,
        )
    except DeclarationError as error:
        fail(error)


def constants_of(given: list[str] | None) -> dict[str, int]:
    """The values of --set, or the end with one line."""
    return settings_of(given, int, "NAME=VALUE with a whole number")


def settings_of(given: list[str] | None, read: Callable[[str], T], form: str) -> dict[str, T]:
    """What --set says of each constant, or the end with one line where it isn't in this form."""
    values: dict[str, T] = {}
    for pair in given or []:
        name, _, value = pair.partition("=")
        try:
            values[name] = read(value)
        except ValueError:
            fail(f"--set {pair}: write {form}")
    return values


@app.command()
def diagram(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE|SYSTEM", help="A shipped machine or system, or FILE.py[:SYSTEM]."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="Its ending says what is drawn: .svg, .png, .dot or .gv, .mmd (Mermaid). "
            "Without it, DOT goes to standard output.",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="NAME", help="Draw this machine of the system."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="R", help="One release (default: all).")
    ] = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Draw rows that leave the state alone as well.")
    ] = False,
) -> None:  # fmt: skip
    """Draw a machine's states and rows, or who sends what to whom in a system."""
    from .diagrams.find import find_graph
    from .diagrams.render import DrawingError, to_dot, write

    try:
        graph = find_graph(name, machine, protocol, all_rows=all_rows)
        if output is None:
            print(to_dot(graph), end="")
        else:
            write(graph, output)
    except (DeclarationError, DrawingError) as error:
        fail(error)


@app.command()
def diff(
    protocols: Annotated[
        tuple[str, str], typer.Option("--protocols", metavar="A B", help="The two releases.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="MACHINE|SYSTEM|TRACE",
            help="A shipped machine or system, or FILE.py[:SYSTEM] (default: all that is shipped); "
            "or FILE.jsonl, requests to run on both.",
        ),
    ] = None,
    output: Json = None,
) -> None:
    """List the rows that two releases have differently, or what they answer to the same requests
    in different ways."""
    from .diagrams.difference import compare, tell
    from .diagrams.find import find_tables

    check_folder(output)
    before, after = protocols
    if name is not None and name.endswith(".jsonl"):
        return diff_answers(Path(name), before, after, output)
    try:
        found = compare(find_tables(name), before, after)
    except DeclarationError as error:
        fail(error)
    tell(found, before, after, Console(width=100, highlight=False))
    tables = [table.as_json() for table in found]
    write_json(output, {"before": before, "after": after, "tables": tables})


def diff_answers(trace: Path, before: str, after: str, output: Path | None) -> None:
    """Runs the requests of a trace on two releases, and prints the answers that differ."""
    from .model.errors import ModelError
    from .model.requests import difference, read

    try:
        requests = read(trace.read_text(encoding="utf-8"))
        found = difference(requests, before, after)
    except OSError as error:
        fail(f"can't read {trace}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"{trace}: not a text in UTF-8")
    except (ModelError, DeclarationError) as error:
        fail(f"{trace}: {error}")
    for item in found:
        print(f"{item.place} {item.request}")
        for release, answer in ((before, item.before), (after, item.after)):
            print(f"  {release}: {', '.join(f'{name} {value}' for name, value in answer.items())}")
    print(f"{len(found)} of {len(requests)} answers differ.")
    answers = [item._asdict() for item in found]
    write_json(output, {"before": before, "after": after, "answers": answers})


@app.command()
def decode(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file from a broker's disk.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="KIND",
            help="log, transaction-log, snapshot or transaction-index (default: by the name).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each row.")] = False,
) -> None:  # fmt: skip
    """Decode a log segment, a producer state snapshot or a transaction index."""
    try:
        from .model.records.files import Kind, Row, kind_of, read_file
        from .model.records.report import json_line, tell
    except ModuleNotFoundError as missing:
        fail(missing)
    wrong = 0

    def rows() -> Iterator[Row]:
        nonlocal wrong
        for item in read_file(file, chosen):
            if as_json:
                print(json_line(item))
            if isinstance(item, Row):
                yield item
            else:
                wrong += 1
                print(f"epochfence: {file}: {item}", file=sys.stderr)

    try:
        chosen = kind_of(file) if kind is None else Kind(kind)
    except ValueError:
        kinds = ", ".join(kind.value for kind in Kind)
        if kind is None:
            fail(f"{file}: its name says nothing of what is in it: take --as with one of {kinds}")
        fail(f"--as {kind}: take one of {kinds}")
    try:
        if as_json:
            for _ in rows():
                pass
        else:
            tell(rows(), Console(width=100, highlight=False))
    except OSError as error:
        if error.errno == EPIPE:
            raise
        fail(f"can't read {file}: {error.strerror}")
    if wrong:
        raise typer.Exit(USAGE)


@app.command()
def judge(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="JSON lines.")
    ] = None,
    application: Annotated[
        bool, typer.Option("--application", help="What producers were told, and what was read.")
    ] = False,
    protocol: Protocol = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="The most steps of one search.")
    ] = 1_000_000,
    engine: Engine = "local",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="URI", help="On Spark: JSON lines, Parquet, or folders."),
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--output", metavar="URI", help="On Spark: a new folder.")
    ] = None,
    master: Master = None,
    output: Json = None,
) -> None:
    """Judge recorded histories: does some order explain what clients were told?"""
    check_engine(engine, **{"--input": inputs, "--output": folder, "--master": master})
    check_folder(output)
    if engine == "spark":
        return judge_on_spark(files, application, protocol, limit, inputs, folder, master, output)
    from .model.errors import ModelError
    from .model.histories import BadLine
    from .model.verdicts import tell_anomalies, tell_judgements

    if not files:
        fail("give FILEs with histories, or --engine spark with --input and --output")
    try:
        if application:
            code, data = tell_anomalies(files)
        else:
            code, data = tell_judgements(files, protocol, limit)
    except OSError as error:
        if error.errno == EPIPE:
            raise
        fail(f"can't read {error.filename}: {error.strerror}")
    except (BadLine, DeclarationError, ModelError) as error:
        fail(error)
    write_json(output, data)
    raise typer.Exit(code)


def judge_on_spark(
    files: list[Path] | None,
    application: bool,
    protocol: str | None,
    limit: int,
    inputs: list[str] | None,
    folder: str | None,
    master: str | None,
    output: Path | None,
) -> NoReturn:
    """Judges histories of any size, to a folder."""
    if files or not inputs or folder is None:
        fail("--engine spark judges what --input names, and writes to --output")
    if application:
        fail("--application is for --engine local")
    try:
        from .checker import report
        from .checker.check import available_threads
        from .checker.spark.histories import Judging, judge_histories
        from .checker.spark.options import SparkError, SparkOptions
        from .checker.spark.session import session
        from .model.judge import Settings
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[check,spark]'")
    judging = Judging(Settings() if protocol is None else Settings(protocol=protocol), limit)
    options = SparkOptions(available_threads(), master)
    try:
        with session(options, "judge") as running:
            found = judge_histories(running, inputs, folder, judging)
    except (DeclarationError, SparkError) as error:
        fail(error)
    report.tell_histories(found, folder, Console(width=100, highlight=False, soft_wrap=True))
    write_json(output, found.as_json())
    raise typer.Exit(found.exit_code)


@app.command()
def config(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [NAME=VALUE]...", help="A producer's settings."),
    ] = None,
    protocol: Protocol = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON object.")] = False,
) -> None:
    """What a producer makes of its settings, or the error that it raises."""
    from .model.config import ConfigError, read_properties, resolve

    given: dict[str, str] = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not name:
            fail(f"{setting}: the name of a setting comes before its value")
        try:
            given |= {name: value} if equals else read_properties(Path(setting))
        except OSError as error:
            fail(f"can't read {setting}: {error.strerror}")
        except ValueError as error:
            fail(f"{setting}: {error}")
    try:
        resolved = resolve(given, protocol)
    except (ConfigError, DeclarationError) as error:
        fail(error)
    if as_json:
        print(json.dumps(resolved, indent=2))
        return
    width = max(map(len, resolved))
    for name, found in resolved.items():
        print(f"{name:{width}}  {found if isinstance(found, str) else json.dumps(found)}")


@app.command("list")
def list_() -> None:
    """The shipped systems: properties, protocols, constants with their ranges and defaults."""
    from .spec.catalogue import describe

    console = Console(width=100, highlight=False)
    for name in SHIPPED:
        describe(shipped(name), console)


def main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
