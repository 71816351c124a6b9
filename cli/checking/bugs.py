"""`bugs`: lists known bugs, or shows the shortest run of a bug and the check of its fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ...language import DeclarationError, Instance
from ...spec.bugs import BUGS, Bug, bug_of
from ..exits import UNDECIDED, fail, internal, needing, write_json
from ..options import Json, TraceFile
from ..screen import screen
from .traces import ChartFile, check_chart, draw, numbered, write_traces

if TYPE_CHECKING:
    from ...checker.verdict.result import Result


def bugs(
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="The bug to show (default: list all).")
    ] = None,
    trace: TraceFile = None,
    chart: ChartFile = None,
    output: Json = None,
) -> None:
    """List the known bugs, or show one: the shortest run that breaks, and the check of its fix."""
    console = screen()
    if name is None:
        if trace is not None:
            fail("--trace needs the ID of a bug")
        if chart is not None:
            fail("--chart needs the ID of a bug")
        _list(console)
        write_json(output, [_about(bug) for bug in BUGS])
        return
    check_chart(chart)
    try:
        bug = bug_of(name)
    except DeclarationError as error:
        fail(error)
    with needing("check"):
        from ...checker.output import report
        from ...checker.trace.trace import ReplayError
        from ...checker.verdict.result import Verdict
    _head(bug, console)
    try:
        broken = _decided(bug.broken(), console)
        if broken.trace is not None:
            report.show_trace(broken.trace, console)
        _print_run("Broken", bug, broken, console)
        fixed = _decided(bug.fixed(), console)
        _print_run("Fixed", bug, fixed, console)
        control = _decided(bug.control(), console)
        _print_run("Control", bug, control, console)
    except ReplayError as error:
        internal(error)
    results = {"broken": broken, "fixed": fixed, "control": control}
    if chart is not None:
        draw(broken, chart)
    write_traces(numbered(trace, 1), broken, bug.broken(), bug.system)
    about = _about(bug) | {key: result.as_json() for key, result in results.items()}
    write_json(output, about)
    shown = all(_is_shown(bug, run) for run in (broken, control))
    if not (shown and fixed.verdict is Verdict.HOLDS):
        internal(RuntimeError(f"{bug.id}: the result differs from its declaration in spec/bugs"))


def _decided(instance: Instance, console: Console) -> Result:
    """The result of a check. If it has no verdict, prints the reason and exits with its code."""
    from ...checker.check import check

    result = check(instance)
    code = result.verdict.value
    if code in UNDECIDED:
        console.print(f"{result.reason} (exit {code}, {result.verdict.name})", markup=False)
        raise typer.Exit(code)
    return result


def _is_shown(bug: Bug, result: Result) -> bool:
    trace, (found,) = result.trace, result.properties
    return found.verdict == "broken" and trace is not None and bug.is_in(trace.taken)


def _list(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("id", "property"):
        table.add_column(column, no_wrap=True)
    table.add_column("releases", overflow="fold", max_width=22)
    table.add_column("description", overflow="fold")
    for bug in BUGS:
        table.add_row(*map(Text, (bug.id, bug.property, bug.affected, bug.title)))
    console.print(table)
    console.print(f"{len(BUGS)} bugs. Run epochfence bugs ID to see one.")


def _head(bug: Bug, console: Console) -> None:
    console.print(f"[bold]{escape(bug.id)}[/bold]: {escape(bug.title)}")
    facts = {
        "also called": ", ".join(bug.also),
        "affected": bug.affected,
        "source": bug.source,
        "breaks": bug.property,
        "note": bug.note,
    }
    for name, text in facts.items():
        if text:
            console.print(f"  {name}: {text}", markup=False)


def _print_run(which: str, bug: Bug, result: Result, console: Console) -> None:
    """Prints one line for a run: its settings and its result."""
    is_fixed = which == "Fixed"
    release = bug.shown_at if which == "Broken" else bug.fixed_at
    setting = f"{'with' if is_fixed else 'without'} {', '.join(bug.fix)}"
    outcome = "holds" if result.trace is None else f"breaks after {len(result.trace.steps)} steps"
    colour = "green" if (result.trace is None) is is_fixed else "red"
    console.print(
        f"[bold]{which}[/bold]: {escape(bug.system)}, protocol {release}, {setting}: "
        f"{bug.property} [{colour}]{outcome}[/], {result.states:,} states, "
        f"{result.seconds + result.compile_seconds:.1f} s"
    )


def _about(bug: Bug) -> dict[str, object]:
    return {
        "id": bug.id, "also": list(bug.also), "title": bug.title, "affected": bug.affected,
        "releases": list(bug.releases), "system": bug.system, "property": bug.property,
        "shown_at": bug.shown_at, "fixed_at": bug.fixed_at, "fix": list(bug.fix),
        "on": list(bug.on), "off": list(bug.off),
        "constants": dict(bug.constants), "source": bug.source, "note": bug.note,
    }  # fmt: skip
