"""`drift`: the rows whose sources in Kafka have changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ...files import Output
from ...language.declaration.arguments import one_of
from ..exits import BROKEN, INCONCLUSIVE, fail, write_json
from ..options import Json
from ..screen import screen

if TYPE_CHECKING:
    from ...checker.drift.affected import Affected
    from ...checker.drift.comparison import Drift

SHOWN = 12
"""The number of lines of each list that are printed without --all."""
MOST_ROWS = 3
"""The number of rows of a method that are printed without --all."""


def drift(
    kafka: Annotated[
        Path | None,
        typer.Option(
            "--kafka",
            metavar="PLACE",
            help="A folder of source or class jars of one version, one jar, or a checkout.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="VERSION", help="Compare with this version (default: the newest)."
        ),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            "--diff",
            metavar="FILE",
            help="A patch or a pull request's diff: print the rows that it concerns.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every line of long lists.")] = False,
    output: Json = None,
) -> None:
    """Show which rows a new version of Kafka, or a patch to it, concerns."""
    if kafka is None and diff is None:
        fail("drift needs --kafka PLACE, --diff FILE, or both")
    if kafka is not None and not kafka.exists():
        fail(f"--kafka {kafka}: no such file or folder")
    if diff is not None:
        if since is not None:
            fail("--since and --diff: choose one")
        _of_patch(diff, kafka, every, output)
    assert kafka is not None
    _of_version(kafka, since, every, output)


def _of_version(kafka: Path, since: str | None, every: bool, output: Output | None) -> None:
    from ...checker.drift.class_files import bytecode_of, class_jars_of
    from ...checker.drift.comparison import compared
    from ...checker.drift.record import cited_classes, number, recorded
    from ...checker.drift.sources import SourceError, methods_of, sources_of

    try:
        form, places = "sources", sources_of(kafka)
    except SourceError as error:
        form, places = "bytecode", class_jars_of(kafka)
        if not places:
            fail(error)
    if len(places) > 1:
        names = ", ".join(sorted(places, key=number))
        fail(f"--kafka {kafka} has several versions ({names}): name a folder with one")
    ((version, files),) = places.items()
    record = recorded(form)
    base = record.versions[-1] if since is None else record.newest_of(since)
    if base is None:
        there = one_of(str(since), record.versions)
        print(f"epochfence: no {form} of {since} are recorded: {there}")
        raise typer.Exit(INCONCLUSIVE)
    try:
        read = methods_of if form == "sources" else bytecode_of
        found = read(files, cited_classes())
    except SourceError as error:
        fail(error)
    result = compared(record.at(base), found, since=base, until=version)
    _print(result, form, screen(), every)
    write_json(output, result.as_json())
    raise typer.Exit(BROKEN if result.concerns_rows else 0)


def _of_patch(diff: Path, kafka: Path | None, every: bool, output: Output | None) -> None:
    from ...checker.drift.affected import affected
    from ...checker.drift.patch import touched
    from ...checker.drift.sources import SourceError

    try:
        text = diff.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        fail(f"--diff {diff}: {error.strerror}")
    if kafka is not None and not kafka.is_dir():
        fail(f"--kafka {kafka}: --diff needs a checkout, or no --kafka")
    try:
        files = touched(text, kafka)
    except SourceError as error:
        fail(f"--diff {diff}: {error}")
    result = affected(method for file in files for method in file.methods)
    is_exact = all(file.is_exact for file in files)
    _print_affected(result, len(files), is_exact, screen(), every)
    write_json(output, {"files": [file.path for file in files], **result.as_json()})
    raise typer.Exit(BROKEN if result.rows else 0)


def _print(result: Drift, form: str, console: Console, every: bool) -> None:
    cited = len(result.vanished), len(result.changed)
    console.print(
        f"{result.since} to {result.until} ({form}): {cited[0]} cited methods vanished, "
        f"{cited[1]} changed; {len(result.uncited)} others of their classes changed"
    )
    for title, methods in (("Vanished", result.vanished), ("Changed", result.changed)):
        lines = [
            f"{each.method}{f' (probably {each.instead})' if each.instead else ''}: "
            f"{_few(each.rows, every)}"
            for each in methods
        ]
        _list(title, lines, console, every)
    others = [f"{method} ({change})" for method, change in result.uncited]
    _list("Changed, and no row cites it", others, console, every)


def _print_affected(
    result: Affected, files: int, is_exact: bool, console: Console, every: bool
) -> None:
    more = "" if is_exact else " (by name; --kafka CHECKOUT is exact)"
    console.print(f"{files} source files changed: {len(result.rows)} rows are concerned{more}")
    rows = [f"{row}: {', '.join(methods)}" for row, methods in result.rows]
    _list("Rows", rows, console, every)
    _list("Changed, and no row cites it", list(result.uncited), console, every)
    _list("Properties", list(result.properties), console, every)
    _list("Known bugs", list(result.bugs), console, every)
    _list("Findings", list(result.findings), console, every)
    _list("Check again", list(result.commands), console, every)


def _few(names: Iterable[str], every: bool) -> str:
    """The names, or the first three and the number of the others."""
    each = list(dict.fromkeys(names))
    if every or len(each) <= MOST_ROWS + 1:
        return ", ".join(each)
    return f"{', '.join(each[:MOST_ROWS])} and {len(each) - MOST_ROWS} more"


def _list(title: str, lines: list[str], console: Console, every: bool) -> None:
    if not lines:
        return
    console.print(f"\n[bold]{escape(title)}[/bold]")
    shown = lines if every else lines[:SHOWN]
    for line in shown:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if len(shown) < len(lines):
        console.print(f"  … and {len(lines) - len(shown)} more (--all)", markup=False)
