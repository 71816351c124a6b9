"""The tables and runs of docs/semantics.md: `python tests/spec/semantics_page.py [RESULTS]` makes
all runs and renews them, in some minutes; it keeps what each came to in RESULTS.

Runs with the same steps appear once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from epochfence.checker.many.journal import Journal
from epochfence.checker.many.several_bounds import Answer, asked
from epochfence.checker.many.sweep import digest
from epochfence.checker.many.workers import Workers
from epochfence.checker.prepare import available_threads
from epochfence.cli.checking.semantics import COLUMNS, pieces, sign, window_piece, window_sign
from epochfence.spec.delivery.cells import Cell, every_cell
from epochfence.spec.delivery.promises import MOST_CACHED, MOST_IN_FLIGHT
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.driver import record

_ALONE = Workers()
PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"
COMMITTED = {
    "after": "After processing",
    "before": "Before processing",
    "together": "With the results, in one step",
}


@dataclass(frozen=True)
class Told:
    """What a cell has come to, and the steps that break its properties."""

    cell: Cell
    answers: dict[str, Answer]
    steps: dict[str, tuple[str, ...]]


def tell(
    cells: Sequence[Cell], workers: Workers = _ALONE, journal: Journal | None = None
) -> list[Told]:
    """What cells come to, by their runs."""
    answers = asked([pieces(cell, NEWEST) for cell in cells], workers, journal, traces=True)
    return [
        Told(cell, found, {a.name: _steps(a) for a in found.values() if a.verdict == "broken"})
        for cell, found in zip(cells, answers, strict=True)
    ]


def _steps(answer: Answer) -> tuple[str, ...]:
    steps = answer.trace["steps"]
    assert len(steps) == answer.steps
    return tuple(f"{step['actor']}: {step['action']} [{step['row']}]" for step in steps)


def tables(every: Iterable[Told], runs: dict[tuple[str, tuple[str, ...]], int]) -> str:
    """A table for each way to commit offsets."""
    lines: list[str] = []
    every = list(every)
    for commit, title in COMMITTED.items():
        lines += [f"### {title}", "", f"| cell | {' | '.join(COLUMNS.values())} |"]
        lines += ["|---" * (len(COLUMNS) + 1) + "|"]
        lines += [line(told, runs) for told in every if told.cell.commit == commit]
        lines.append("")
    return "\n".join(lines)


def line(told: Told, runs: dict[tuple[str, tuple[str, ...]], int]) -> str:
    """A cell's line; numbers link to the run that breaks it."""
    cells = [f"`{told.cell.id}`"]
    for name in COLUMNS:
        text = sign(told.answers, name)
        broken = shown(told, name)
        if broken is not None:
            text = f"[{text}](#run-{runs[broken, told.steps[broken]]})"
        cells.append(text)
    return f"| {' | '.join(cells)} |"


def shown(told: Told, column: str) -> str | None:
    """The property whose run a column links to: exactly once has the shorter one of its two."""
    names = (column,) if column else ("AtMostOnce", "AtLeastOnce")
    broken = [name for name in names if name in told.steps]
    return min(broken, key=lambda name: len(told.steps[name]), default=None)


def sequences(every: Iterable[Told], runs: dict[tuple[str, tuple[str, ...]], int]) -> str:
    """Each run: what it breaks, where first, and its steps."""
    first: dict[tuple[str, tuple[str, ...]], Cell] = {}
    for told in every:
        for item in told.steps.items():
            first.setdefault(item, told.cell)
    lines: list[str] = []
    for (name, steps), number in runs.items():
        lines += [
            f"#### Run {number}",
            "",
            f"`{name}`, `--show {first[name, steps].id}`:",
            "",
            *(f"{place}. {step}" for place, step in enumerate(steps, 1)),
            "",
        ]
    return "\n".join(lines)


def windows() -> str:
    """The table of caches and requests in flight."""
    sizes = range(1, MOST_IN_FLIGHT + 1)
    lines = [
        "| batches remembered |" + "".join(f" {n} in flight |" for n in sizes),
        "|---" * (len(sizes) + 1) + "|",
    ]
    lines += [window_line(cached) for cached in range(1, MOST_CACHED + 1)]
    return "\n".join(lines)


def window_line(cached: int) -> str:
    """What so large a cache comes to."""
    sizes = range(1, MOST_IN_FLIGHT + 1)
    found = asked([[window_piece(cached, in_flight, NEWEST)] for in_flight in sizes])
    return f"| {cached} | {' | '.join(map(window_sign, found))} |"


def renew() -> None:
    """Makes all runs and writes the page."""
    cells = every_cell()
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    file = None if results is None else Journal(results, digest(pieces(cells[0], NEWEST)[0]))
    with (
        closing(file) if file else nullcontext() as journal,
        Workers(available_threads()).together("semantics") as together,
    ):
        every = tell(cells, together, journal)
    found = dict.fromkeys(item for told in every for item in told.steps.items())
    runs = {item: number for number, item in enumerate(found, 1)}
    record(PAGE, "window", f"\n{windows()}")
    record(PAGE, "cells", f"\n{tables(every, runs)}")
    record(PAGE, "runs", f"\n{sequences(every, runs)}")


if __name__ == "__main__":
    renew()
