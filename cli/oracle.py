"""Commands that hold a system under test, or its files, against the executable machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, NoReturn

import typer
from rich.console import Console

from ..files import Output
from ..language import DeclarationError
from .endings import USAGE, fail, needing, tell_wait, write_json
from .options import Engine, Json, JsonLines, Master, Protocol, SparkUi, check_engine
from .screen import screen

if TYPE_CHECKING:
    from ..model.records.errors import RecordError
    from ..model.records.files import Kind, Row


def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="A file from a broker's disk, a pipe, or - for standard input; of a folder, all "
            "files in it.",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="KIND",
            help="log, transaction-log, offsets-log, metadata-log, snapshot or transaction-index "
            "(default: by the name).",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=1, max=1 << 20, metavar="MiB",
            help="The largest batch, decompressed; others are passed over (default: 256).",
            show_default=False,
        ),
    ] = 256,
    output: JsonLines = None,
) -> None:  # fmt: skip
    """Decode a log segment, a producer state snapshot, a transaction index, or a folder of them."""
    try:
        from ..model.records.files import Kind, files_in, kind_of
    except ModuleNotFoundError as missing:
        fail(missing)
    kinds = ", ".join(each.value for each in Kind)
    if kind is not None and kind not in kinds.split(", "):
        fail(f"--as {kind}: take one of {kinds}")
    is_folder = file.is_dir()
    if is_folder and kind is not None:
        fail(f"--as {kind}: {file} is a folder, of which each file is taken by its name")
    files, others = files_in(file) if is_folder else ([file], [])
    if is_folder and not files:
        fail(f"{file} has no file whose name says what is in it: name a file, with --as")
    wrong = 0
    with nullcontext() if output is None else output.writing() as lines:
        told = output is None or not output.is_standard_output
        for each in files:
            try:
                chosen = kind_of(each) if kind is None else Kind(kind)
            except ValueError:
                if file != Path("-") and not file.exists():
                    fail(f"can't read {file}: No such file or directory")
                fail(
                    f"{file}: its name says nothing of what is in it: take --as with one of {kinds}"
                )
            place = {"file": str(each.relative_to(file))} if is_folder else {}
            if told and is_folder:
                print(f"{each}:")
            wrong += _decode(each, chosen, limit << 20, lines, place, told=told)
    if others:
        names = ", ".join(sorted({each.name for each in others}))
        print(f"not decoded, by their names: {names}", file=sys.stderr)
    if wrong:
        raise typer.Exit(USAGE)


def _decode(
    file: Path, kind: Kind, limit: int, lines: BinaryIO | None, place: dict[str, str], *, told: bool
) -> int:
    """Decodes a file: to lines of JSON, and to the screen where it is `told`. How many errors there
    are in it, each of which is a line of standard error."""
    from ..model.records.batch import BatchTooLarge
    from ..model.records.files import Row, read_stream
    from ..model.records.report import json_line, tell

    wrong = 0

    def read() -> Iterator[Row | RecordError]:
        try:
            tell_wait(file)
            standard = str(file) == "-"
            with nullcontext(sys.stdin.buffer) if standard else file.open("rb") as opened:
                yield from read_stream(opened, kind, limit)
        except OSError as error:
            fail(f"can't read {file}: {error.strerror}")

    def rows() -> Iterator[Row]:
        nonlocal wrong
        for item in read():
            if lines is not None:
                lines.write(f"{json_line(item, **place)}\n".encode())
            if isinstance(item, Row):
                yield item
            else:
                wrong += 1
                remedy = " (--limit takes more)" if isinstance(item, BatchTooLarge) else ""
                print(f"epochfence: {file}: {item}{remedy}", file=sys.stderr)

    if told:
        tell(rows(), screen())
    else:
        for _ in rows():
            pass
    return wrong


def judge(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE|DIR]...", help="JSON lines; of a folder, all *.jsonl in it."),
    ] = None,
    application: Annotated[
        bool, typer.Option("--application", help="What producers were told, and what was read.")
    ] = False,
    segments: Annotated[
        bool, typer.Option("--segments", help="DIRs are brokers' data directories: their files.")
    ] = False,
    protocol: Protocol = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="The most steps of a key's searches.")
    ] = 1_000_000,
    runs: Annotated[
        Literal["one", "each"] | None,
        typer.Option("--runs", help="Files whose lines name no run: of one run, or of one each."),
    ] = None,
    engine: Engine = "local",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="URI", help="On Spark: JSON lines, Parquet, or folders."),
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--output", metavar="URI", help="On Spark: a new folder.")
    ] = None,
    master: Master = None,
    spark_ui: SparkUi = None,
    output: Json = None,
) -> None:
    """Judge recorded histories: does some allowed order explain the answers to clients?"""
    check_engine(
        engine,
        **{"--input": inputs, "--output": folder, "--master": master, "--spark-ui": spark_ui},
    )
    if segments:
        if application or runs is not None or inputs or not files:
            fail("--segments takes data directories, and neither --application, --runs nor --input")
        if engine == "spark":
            spark = (master, bool(spark_ui))
            return judge_files_on_spark(files, protocol, folder, spark, output)
        return judge_files(files, protocol, output)
    if engine == "spark":
        spark = (master, bool(spark_ui))
        if runs is not None:
            fail("--runs is for --engine local: on Spark, give lines the field run")
        return judge_on_spark(files, application, protocol, limit, inputs, folder, spark, output)
    from ..model.engine.errors import ModelError
    from ..model.judge.histories import BadLine, NoHistory, files_in
    from ..model.judge.verdicts import tell_anomalies, tell_judgements

    if not files:
        fail("give FILEs with histories, or --engine spark with --input and --output")
    if application and runs is not None:
        fail("--runs is for histories of requests: an application's view is of one run")
    try:
        files, others = files_in(files)
        for other in others:
            print(f"epochfence: {other}: skipped, its name isn't *.jsonl", file=sys.stderr)
        for file in files:
            tell_wait(file)
        if application:
            code, data = tell_anomalies(files)
        else:
            code, data = tell_judgements(files, protocol, limit, runs)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except (BadLine, NoHistory, DeclarationError, ModelError) as error:
        fail(error)
    write_json(output, data)
    raise typer.Exit(code)


def judge_files(directories: list[Path], protocol: str | None, output: Output | None) -> NoReturn:
    """Judges what lies in brokers' data directories."""
    with needing("broker"):
        from ..model.judge.segments.directories import judge_segments
        from ..model.judge.segments.report import lines
    try:
        found = judge_segments(directories, protocol)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except DeclarationError as error:
        fail(error)
    for line in lines(found):
        print(line)
    write_json(output, found.as_json())
    raise typer.Exit(found.outcome.exit_code)


def judge_files_on_spark(
    directories: list[Path],
    protocol: str | None,
    folder: str | None,
    spark: tuple[str | None, bool],
    output: Output | None,
) -> NoReturn:
    """Judges what lies in brokers' data directories of any size, to a folder."""
    if folder is None:
        fail("--segments with --engine spark writes to --output")
    with needing("check", "spark"), needing("broker"):
        from ..checker import report
        from ..checker.check import available_threads
        from ..checker.spark.options import SparkError, SparkOptions
        from ..checker.spark.segments import judge_on_spark as judge_segments
        from ..checker.spark.session import session
    master, ui = spark
    options = SparkOptions(available_threads(), master, ui=ui)
    try:
        with session(options, "judge") as running:
            found = judge_segments(running, directories, folder, protocol)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except (DeclarationError, SparkError) as error:
        fail(error)
    report.tell_segments(found, folder, Console(width=100, highlight=False, soft_wrap=True))
    write_json(output, found.as_json())
    raise typer.Exit(found.outcome.exit_code)


def judge_on_spark(
    files: list[Path] | None,
    application: bool,
    protocol: str | None,
    limit: int,
    inputs: list[str] | None,
    folder: str | None,
    spark: tuple[str | None, bool],
    output: Output | None,
) -> NoReturn:
    """Judges histories of any size, to a folder."""
    if files or not inputs or folder is None:
        fail("--engine spark judges what --input names, and writes to --output")
    if application:
        fail("--application is for --engine local")
    with needing("check", "spark"):
        from ..checker import report
        from ..checker.check import available_threads
        from ..checker.spark.histories import Judging, judge_histories
        from ..checker.spark.options import SparkError, SparkOptions
        from ..checker.spark.session import session
        from ..model.judge.operations import Settings
    judging = Judging(Settings() if protocol is None else Settings(protocol=protocol), limit)
    master, ui = spark
    options = SparkOptions(available_threads(), master, ui=ui)
    try:
        with session(options, "judge") as running:
            found = judge_histories(running, inputs, folder, judging)
    except (DeclarationError, SparkError) as error:
        fail(error)
    report.tell_histories(found, folder, Console(width=100, highlight=False, soft_wrap=True))
    write_json(output, found.as_json())
    raise typer.Exit(found.exit_code)


def config(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [NAME=VALUE]...", help="Settings."),
    ] = None,
    kind: Annotated[
        Literal["producer", "consumer", "broker"],
        typer.Option("--of", help="Whose settings they are."),
    ] = "producer",
    protocol: Protocol = None,
    output: Json = None,
) -> None:
    """What a producer, consumer or broker makes of its settings, or the error that it raises."""
    from ..model.client.config import RESOLVED, ConfigError, read_properties, unknown

    given: dict[str, str] = {}
    from_files: set[str] = set()
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not name:
            fail(f"{setting}: the name of a setting comes before its value")
        try:
            found = {name: value} if equals else read_properties(Path(setting))
        except OSError as error:
            fail(f"can't read {setting}: {error.strerror}")
        except ValueError as error:
            fail(f"{setting}: {error}")
        given |= found
        if not equals:
            from_files |= found.keys()
    for name, near in unknown(given, kind).items():
        if near is not None:
            fail(f"{name}: no {kind} has this setting; did you mean {near}?")
        if name not in from_files:
            fail(f"{name}: no {kind} has this setting")
        print(f"epochfence: {name} is passed over: no setting of a {kind}'s", file=sys.stderr)
    try:
        resolved = RESOLVED[kind](given, protocol)
    except ConfigError as error:
        fail(f"{error.name}: {error}")
    except DeclarationError as error:
        fail(error)
    write_json(output, resolved)
    width = max(map(len, resolved))
    for name, value in resolved.items():
        print(f"{name:{width}}  {value if isinstance(value, str) else json.dumps(value)}")
