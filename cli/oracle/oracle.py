"""`decode`, `judge` and `config`: compare a system under test, or its files, with the oracle."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, NoReturn

import typer
from rich.console import Console

from ...files import Output, is_folder
from ...language import DeclarationError
from ...language.declaration.arguments import one_of, question
from ..exits import USAGE, announce_wait, fail, needing, write_json
from ..options import EngineOptions, Json, JsonLines, Protocol, TransactionVersion
from ..screen import beside, screen, within_columns

if TYPE_CHECKING:
    from ...model.judge.operations import Settings
    from ...model.records.codec.errors import RecordError
    from ...model.records.files import Kind, Row


LIMIT = 1_000_000  # search steps


def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="A file of a broker, a folder of such files, a pipe, or - for standard input.",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="log, transaction-log, offsets-log, metadata-log, snapshot or transaction-index "
            "(default: from the file's name).",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=1,
            max=1 << 20,
            metavar="MiB",
            help="Skip batches that are larger than this when decompressed (default: 256).",
            show_default=False,
        ),
    ] = 256,
    output: JsonLines = None,
) -> None:
    """Decode a log segment, a producer state snapshot, a transaction index, or a folder of them."""
    try:
        from ...model.records.files import Kind, files_in, kind_of
    except ModuleNotFoundError as missing:
        fail(missing)
    kinds = [each.value for each in Kind]
    known = ", ".join(kinds)
    if kind is not None and kind not in kinds:
        fail(f"--as {kind}: unknown kind: {one_of(kind, kinds)}")
    whole = is_folder(file)
    if whole and kind is not None:
        fail(f"--as {kind}: {file} is a folder, where file names decide: leave out --as")
    files, others = files_in(file) if whole else ([file], [])
    if whole and not files:
        fail(f"{file}: no file name in this folder shows its kind: give one file, with --as")
    wrong = 0
    with nullcontext() if output is None else output.writing() as lines:
        prints = output is None or not output.is_standard_output
        for each in files:
            try:
                chosen = kind_of(each) if kind is None else Kind(kind)
            except ValueError:
                _check_is_there(file)
                fail(f"{file}: its name doesn't show its kind: add --as with one of {known}")
            place = {"file": str(each.relative_to(file))} if whole else {}
            if prints and whole:
                print(f"{each}:")
            wrong += _decode(each, chosen, limit << 20, lines, place, prints=prints)
    if others:
        names = ", ".join(sorted({each.name for each in others}))
        print(f"not decoded (unknown file names): {names}", file=sys.stderr)
    if wrong:
        raise typer.Exit(USAGE)


def _check_is_there(file: Path) -> None:
    """Exits with one line if the file doesn't exist."""
    try:
        _ = file == Path("-") or file.stat()
    except OSError as error:
        fail(f"can't read {file}: {error.strerror}")


def _decode(
    file: Path,
    kind: Kind,
    limit: int,
    lines: BinaryIO | None,
    place: dict[str, str],
    *,
    prints: bool,
) -> int:
    """Decodes a file to lines of JSON, and to the screen if `prints`. Prints each error as a line
    on standard error, and returns their number."""
    from ...model.records.batch import BatchTooLargeError
    from ...model.records.files import Row, read_stream
    from ...model.records.report import json_line, tell

    wrong = found = 0

    def read() -> Iterator[Row | RecordError]:
        try:
            announce_wait(file)
            standard = str(file) == "-"
            with nullcontext(sys.stdin.buffer) if standard else file.open("rb") as opened:
                yield from read_stream(opened, kind, limit)
        except OSError as error:
            fail(f"can't read {file}: {error.strerror}")

    def rows() -> Iterator[Row]:
        nonlocal wrong, found
        for item in read():
            found += 1
            if lines is not None:
                lines.write(f"{json_line(item, **place)}\n".encode())
            if isinstance(item, Row):
                yield item
            else:
                wrong += 1
                remedy = " (raise --limit)" if isinstance(item, BatchTooLargeError) else ""
                print(f"epochfence: {file}: {item}{remedy}", file=sys.stderr)

    if prints:
        tell(rows(), screen())
    else:
        for _ in rows():
            pass
    if not found and not place:  # in a folder many are empty
        print(f"epochfence: {file} has nothing to decode", file=sys.stderr)
    return wrong


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(EngineOptions):
    """The options for the histories and for the engine that judges them."""

    application: Annotated[
        bool, typer.Option("--application", help="Histories of an application: sends and reads.")
    ] = False
    segments: Annotated[
        bool, typer.Option("--segments", help="Judge the files in brokers' data directories.")
    ] = False
    cleanup: Annotated[
        list[str] | None,
        typer.Option(
            "--cleanup-policy",
            metavar="TOPIC=P",
            help="With --segments: the topic is compact or delete. Just delete: all others.",
        ),
    ] = None
    protocol: Protocol = None
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            metavar="N",
            help="Most search steps for each key (default: 1,000,000).",
        ),
    ] = None
    runs: Annotated[
        Literal["one", "each"] | None,
        typer.Option("--runs", help="For lines without field run: all files are one run, or each."),
    ] = None
    excerpt: Annotated[
        bool,
        typer.Option("--excerpt", help="The recording begins in the middle of a log."),
    ] = False
    transaction_version: TransactionVersion = None
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="URI", help="On Spark: *.jsonl, Parquet, or folders."),
    ] = None
    folder: Annotated[
        str | None,
        typer.Option("--output", metavar="URI", help="On Spark: a new folder for the results."),
    ] = None

    @property
    def settings(self) -> Settings:
        """The brokers of the histories. Ends the command for a level that the release lacks."""
        from ...model.judge.operations import Settings
        from ...spec.releases.broker_versions import check_transaction_version

        level = self.transaction_version
        settings = Settings(excerpt=self.excerpt, transaction_version=level)
        if self.protocol is not None:
            settings = replace(settings, protocol=self.protocol)
        try:
            check_transaction_version(level or 0, settings.protocol)
        except ValueError as error:
            fail(error)
        return settings


def _check_application(chosen: JudgeOptions) -> None:
    """Ends the command for an option that --application excludes."""
    if chosen.runs is not None:
        fail("--runs can't be used with --application: such a history is one run")
    if chosen.excerpt:
        fail("--excerpt can't be used with --application")
    if chosen.transaction_version is not None:
        fail("--transaction-version can't be used with --application")
    if chosen.protocol is not None or chosen.limit is not None:
        fail("--protocol and --limit can't be used with --application, which needs neither")


def judge(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE|DIR]...", help="Histories: *.jsonl files, or folders of them."
        ),
    ] = None,
    *,
    chosen: JudgeOptions,
    output: Json = None,
) -> None:
    """Judge recorded histories: can some allowed order of events explain the recorded answers?"""
    chosen.heed(**{"--input": chosen.inputs, "--output": chosen.folder})
    if chosen.segments:
        others = (chosen.runs, chosen.limit, chosen.excerpt, chosen.transaction_version is not None)
        if chosen.application or any(others) or not (files or chosen.inputs):
            fail(
                "--segments needs data directories; it excludes --application, --runs, --limit, "
                "--excerpt and --transaction-version"
            )
        if chosen.on_spark:
            return judge_files_on_spark(files or [], chosen, output)
        return judge_files(files or [], chosen, output)
    if chosen.cleanup:
        fail("--cleanup-policy needs --segments")
    if chosen.on_spark:
        if chosen.runs is not None:
            fail("--runs needs --engine local: on Spark, give each line a field run")
        return judge_on_spark(files, chosen, output)
    from ...model.engine.errors import ModelError
    from ...model.judge.histories import BadLineError, NoHistoryError, files_in
    from ...model.judge.verdicts import print_anomalies, print_judgements

    if not files:
        fail("give FILEs with histories, or --engine spark with --input and --output")
    if chosen.application:
        _check_application(chosen)
    try:
        files, others = files_in(files)
        for other in others:
            print(f"epochfence: {other}: skipped: its name isn't *.jsonl", file=sys.stderr)
        for file in files:
            announce_wait(file)
        with within_columns():
            code, data = (
                print_anomalies(files)
                if chosen.application
                else print_judgements(files, chosen.settings, chosen.limit or LIMIT, chosen.runs)
            )
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except (BadLineError, NoHistoryError, DeclarationError, ModelError) as error:
        fail(error)
    write_json(output, data)
    raise typer.Exit(code)


def judge_files(directories: list[Path], chosen: JudgeOptions, output: Output | None) -> NoReturn:
    """Judges the files in brokers' data directories."""
    with needing("broker"):
        from ...model.judge.segments.directories import judge_segments
        from ...model.judge.segments.policies import given
        from ...model.judge.segments.report import lines
    try:
        policies = given(chosen.cleanup or ())
    except ValueError as error:
        fail(error)
    try:
        found = judge_segments(directories, chosen.protocol, policies)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except DeclarationError as error:
        fail(error)
    with within_columns():
        for line in lines(found):
            print(line)
    write_json(output, found.as_json())
    raise typer.Exit(found.outcome.exit_code)


def judge_files_on_spark(
    directories: list[Path], chosen: JudgeOptions, output: Output | None
) -> NoReturn:
    """Judges the files in brokers' data directories of any size; writes to a folder."""
    folder = chosen.folder
    if folder is None:
        fail("--segments with --engine spark needs --output URI")
    with needing("check", "spark"), needing("broker"):
        from ...checker.output import report
        from ...checker.prepare import available_threads
        from ...checker.spark.judge.places import place_of
        from ...checker.spark.judge.segments import judge_on_spark as judge_segments
        from ...checker.spark.options import SparkError, SparkOptions
        from ...checker.spark.session import session
        from ...model.judge.segments.policies import given
    options = SparkOptions(available_threads(), chosen.master, ui=bool(chosen.spark_ui))
    try:
        policies = given(chosen.cleanup or ())
    except ValueError as error:
        fail(error)
    try:
        with session(options, "judge") as running:
            every = [*directories, *map(place_of, chosen.inputs or ())]
            found = judge_segments(running, every, folder, chosen.protocol, policies)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")
    except (DeclarationError, SparkError) as error:
        fail(error)
    report.print_segments(found, folder, Console(width=100, highlight=False, soft_wrap=True))
    write_json(output, found.as_json())
    raise typer.Exit(found.outcome.exit_code)


def judge_on_spark(
    files: list[Path] | None, chosen: JudgeOptions, output: Output | None
) -> NoReturn:
    """Judges histories of any size; writes to a folder."""
    inputs, folder = chosen.inputs, chosen.folder
    if files or not inputs or folder is None:
        fail("--engine spark needs --input URI and --output URI, and no FILE")
    if chosen.application:
        fail("--application needs --engine local")
    with needing("check", "spark"):
        from ...checker.output import report
        from ...checker.prepare import available_threads
        from ...checker.spark.judge.histories import Judging, judge_histories
        from ...checker.spark.options import SparkError, SparkOptions
        from ...checker.spark.session import session
    judging = Judging(chosen.settings, chosen.limit or LIMIT)
    options = SparkOptions(available_threads(), chosen.master, ui=bool(chosen.spark_ui))
    try:
        with session(options, "judge") as running:
            say = partial(beside().print, highlight=False, markup=False, soft_wrap=True)
            found = judge_histories(running, inputs, folder, judging, say=say)
    except (DeclarationError, SparkError) as error:
        fail(error)
    report.print_histories(found, folder, Console(width=100, highlight=False, soft_wrap=True))
    write_json(output, found.as_json())
    raise typer.Exit(found.exit_code)


def config(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [NAME=VALUE]...", help="Settings, or files of properties."),
    ] = None,
    kind: Annotated[
        Literal["producer", "consumer", "broker"],
        typer.Option("--of", help="The owner of these settings."),
    ] = "producer",
    protocol: Protocol = None,
    output: Json = None,
) -> None:
    """Print the settings that a producer, consumer or broker ends up with, or the error that it
    raises."""
    from ...model.client.config import RESOLVED, ConfigError, read_properties, unknown

    given: dict[str, str] = {}
    here: set[str] = set()  # settings on the command line
    from_files: set[str] = set()
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not name:
            fail(f"{setting}: write NAME=VALUE; the name is missing")
        try:
            found = {name: value} if equals else read_properties(Path(setting))
        except OSError as error:
            fail(f"can't read {setting}: {error.strerror}")
        except ValueError as error:
            fail(f"{setting}: {error}")
        if equals and name in here:
            fail(f"{name} is set twice: leave one of them out")
        given |= found
        (here if equals else from_files).update(found)
    for name, near in unknown(given, kind).items():
        if near is not None:
            fail(f"{name}: no {kind} has this setting; {question(near)}".rstrip())
        if name not in from_files:
            fail(f"{name}: no {kind} has this setting")
        print(f"epochfence: {name} is ignored: no {kind} has this setting", file=sys.stderr)
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
