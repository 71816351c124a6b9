"""Commands that hold a system under test, or its files, against the executable machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from errno import EPIPE
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ..spec.language import DeclarationError
from .endings import USAGE, fail, needing, write_json
from .options import Engine, Json, Master, Protocol, check_engine, check_folder


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
        from ..model.records.files import Kind, Row, kind_of, read_file
        from ..model.records.report import json_line, tell
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
    from ..model.errors import ModelError
    from ..model.histories import BadLine
    from ..model.verdicts import tell_anomalies, tell_judgements

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
    with needing("check", "spark"):
        from ..checker import report
        from ..checker.check import available_threads
        from ..checker.spark.histories import Judging, judge_histories
        from ..checker.spark.options import SparkError, SparkOptions
        from ..checker.spark.session import session
        from ..model.judge import Settings
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


def config(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [NAME=VALUE]...", help="A producer's settings."),
    ] = None,
    protocol: Protocol = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON object.")] = False,
) -> None:
    """What a producer makes of its settings, or the error that it raises."""
    from ..model.config import ConfigError, read_properties, resolve

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
