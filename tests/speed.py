"""The plot beside README's figures: how many states a second each model checker reaches, as
`make bench` has recorded it in docs/performance.md."""

from __future__ import annotations

import re

from epochfence.diagrams.drawing.runs.svg import GOOD, Canvas
from epochfence.tests.documentation import DOCS, rows_of

PICTURE = "speed.svg"
OURS = "epochfence"
_WIDTH, _LEFT, _BAR, _ROW, _GAP = 760, 120, 16, 24, 34
_FULL = 520
"""Points that the longest bar takes, at `_LEFT` from the left."""


def rates() -> dict[int, dict[str, float]]:
    """Million states a second at the size at which all were run, by the number of threads and by
    the program, the fastest first."""
    rows = rows_of("performance.md", "size | program")
    size = next(row[0] for row in rows if row[1] != OURS)
    found: dict[int, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: -float(row[7])):
        if row[0] == size:
            found.setdefault(int(row[2]), {})[row[1]] = float(row[7])
    return dict(sorted(found.items()))


def ratio(peer: str, threads: int) -> str:
    """How many times as many states a second our explorer reaches, with as many threads."""
    aims = {row[0]: row[2] for row in rows_of("performance.md", "figure | aim")}
    ours = f"states/s with {threads} thread{'s' if threads > 1 else ''}"
    of = f"{ours}, times {peer}'s with {threads}"
    return f"{float(aims[of]):.1f}"


def machine() -> str:
    """The processor on which they were measured."""
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"^`python bench/run.py`, [\d-]+\. (.*?), ", text, re.MULTILINE)
    return found


def picture() -> bytes:
    """A bar for each program and number of threads, in proportion."""
    canvas = Canvas(_WIDTH)
    measured = rates()
    longest = max(rate for group in measured.values() for rate in group.values())
    y = 24
    title = f"Million states a second: a small benchmark model, {machine()}"
    canvas.text((18, y), title, size=14, weight="bold")
    for threads, group in measured.items():
        y += _GAP
        canvas.text((18, y), f"{threads} thread{'s' if threads > 1 else ''} each", weight="bold")
        y -= _ROW - 10
        for program, rate in group.items():
            y += _ROW
            times = (
                "" if program == OURS else f": {OURS} has {ratio(program, threads)} times as many"
            )
            end = _LEFT + max(1, round(_FULL * rate / longest))
            canvas.text((_LEFT - 8, y + 12), program, anchor="end")
            place, size = (_LEFT, y), (end - _LEFT, _BAR)
            if program == OURS:
                canvas.box(place, size, fill=GOOD, stroke="")
            else:
                canvas.box(place, size)
            canvas.text((end + 8, y + 12), f"{rate:.2f}{times}")
        y += _BAR
    return canvas.finished(y + 18)
