"""Results and progress for a person to read."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .explore import Progress
from .trace import Trace
from .verdict import Result, Verdict

_TITLES = {
    Verdict.HOLDS: "Every property holds in every state within the bounds (exhaustive).",
    Verdict.BROKEN: "A property is broken.",
    Verdict.DEADLOCK: "There is a deadlock.",
    Verdict.INCONCLUSIVE: "Inconclusive: a limit was met.",
}


@contextmanager
def progress(console: Console) -> Generator[Callable[[Progress], None]]:
    """Shows how far a search has come: a line that changes, or one every five seconds in a log."""
    shown_at = time.monotonic()
    live = console.is_terminal

    def show(now: Progress) -> None:
        nonlocal shown_at
        moment = time.monotonic()
        if moment - shown_at < (0.2 if live else 5.0):
            return
        shown_at = moment
        rate = now.states / now.seconds if now.seconds else 0.0
        line = (
            f"level {now.depth}: {now.states:,} states, {now.transitions:,} transitions, "
            f"{now.frontier:,} of the level left, {rate:,.0f} states/s, "
            f"{now.memory / 2**20:,.0f} MiB"
        )
        console.print(line, end="\r" if live else "\n", highlight=False, soft_wrap=True)

    yield show
    if live:
        console.print(" " * (console.width - 1), end="\r")


def tell(result: Result, console: Console) -> None:
    """Prints the verdict, what was covered, and the counterexample where there is one."""
    constants = ", ".join(f"{name}={value}" for name, value in result.constants.items())
    name = escape(result.system)
    console.print(f"[bold]{name}[/bold], protocol {escape(result.protocol)}; {constants}")
    if result.trace is not None:
        show_trace(result.trace, console)
    _properties(result, console)
    rate = result.states / result.seconds if result.seconds else 0
    console.print(
        f"{result.states:,} states, {result.transitions:,} transitions, depth {result.depth}, "
        f"{result.seconds:.2f} s ({rate:,.0f} states/s), {result.memory / 2**20:,.0f} MiB; "
        f"compiled in {result.compile_seconds:.2f} s"
    )
    if result.symmetry:
        keys = ", ".join(result.symmetry)
        console.print(f"Symmetry: states counted up to renaming of {keys}.", markup=False)
    for note in result.notes:
        console.print(f"Note: {note}.", markup=False)
    if result.left_out:
        console.print(
            f"Slicing: {len(result.left_out)} parts of the state that nothing looks at were left "
            f"out: {', '.join(result.left_out)}.",
            markup=False,
        )
    if result.verdict is Verdict.HOLDS:
        never = result.never_taken
        if never:
            console.print(f"Rows that no run takes within these bounds ({len(never)}):")
            for name in never:
                console.print(f"  {name}", markup=False)
        else:
            console.print(f"Each of the {len(result.rows)} rows is taken by some run.")
    colour = "green" if result.verdict is Verdict.HOLDS else "red"
    told = f"[bold {colour}]{_TITLES[result.verdict]}[/]"
    reason = f" {escape(result.reason)}" if result.reason else ""
    console.print(f"{told}{reason} (exit {result.verdict.value}, {result.verdict.name})")


def _properties(result: Result, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for item in result.properties:
        steps = "" if item.trace_length is None else f"after {item.trace_length} steps"
        table.add_row(Text(item.name), item.verdict, steps)
    console.print(table)
    for item in result.properties:
        if item.note:
            console.print(f"{item.name}, known: {item.note}.", markup=False)


def show_trace(trace: Trace, console: Console) -> None:
    """Prints a counterexample: numbered steps, each with what it changed, then what is wrong."""
    console.print("Counterexample, the shortest there is (row in brackets):")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right")
    table.add_column("who", overflow="fold", max_width=12)
    table.add_column("what", overflow="fold", width=34)
    table.add_column("what changed", overflow="fold", width=46)
    for at, step in enumerate(trace.steps, 1):
        lines = [
            f"{where}: {a} \u2192 {b}" if a else f"{where}: {b}" for where, a, b in step.changes
        ]
        lines += [f"sends {text}" for text in step.sends]
        what = Text(f"{step.action} [{step.row}]")
        table.add_row(str(at), Text(step.actor), what, Text("\n".join(lines) or "nothing"))
    console.print(table)
    console.print(Text(trace.conclusion))
