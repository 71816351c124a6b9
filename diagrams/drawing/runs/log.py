"""Logs as SVG: entries by offset, the open range, the ends, and a read_committed consumer's view.

`logs_svg(logs_of(instance, [state])[0])` draws the logs of one state. It needs no NumPy.
"""

from __future__ import annotations

import base64
import textwrap

from ....checker.trace.chart.logs import ABORT, COMMIT, LogEntry, Logs, ShownLog, ShownRecords
from ..colours import INK, LINE, PARTIAL
from .svg import GAP, GOOD, HIGH_WATERMARK, OPEN, SIZE, SPACING, WRONG, Canvas, points

LEFT, EDGE = 134, 18
"""The space before the first entry, and at the edges of the picture, in points."""
ENTRY, HIGH = 112, 40
"""The width and the height of an entry, in points."""
_STROKES = {COMMIT: GOOD, ABORT: WRONG}
_LETTERS = 6  # points of one character, about


def width_of(*states: Logs) -> int:
    """The width that the logs of these states need, in points."""
    logs = [log for logs in states for log in logs]
    longest = max((len(log.entries) for log in logs if isinstance(log, ShownLog)), default=0)
    return LEFT + max(4, longest) * ENTRY + 5 * EDGE


def logs_svg(logs: Logs, title: str = "") -> bytes:
    """The logs of a state as a file; empty if there are none."""
    if not logs:
        return b""
    canvas = Canvas(width_of(logs))
    y = GAP
    if title:
        y += SPACING
        canvas.text((EDGE, y), title, size=SIZE + 2, weight="bold")
    return canvas.finished(draw_logs(canvas, logs, y) + GAP)


def logs_address(logs: Logs) -> str:
    """The drawing as the address of an image in a page, which can't reach beyond the image; empty
    without logs."""
    svg = logs_svg(logs)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" if svg else ""


def draw_logs(canvas: Canvas, logs: Logs, y: int) -> int:
    """Draws the logs from `y` on. Returns the position below them."""
    for log in logs:
        y = _records(canvas, log, y) if isinstance(log, ShownRecords) else _log(canvas, log, y)
    return y


def height_of(*states: Logs) -> int:
    """The largest height that the logs of these states need, in points."""
    return max((draw_logs(Canvas(width_of(logs)), logs, 0) for logs in states), default=0)


def _log(canvas: Canvas, log: ShownLog, y: int) -> int:
    ends = _ends(log)
    top = y + SPACING * (1 + len(ends)) - SPACING // 2
    bottom = top + HIGH
    canvas.text((EDGE, top + HIGH // 2 + 4), log.title, weight="bold")
    places = {entry.offset: LEFT + at * ENTRY for at, entry in enumerate(log.entries)}
    after = LEFT + len(log.entries) * ENTRY

    def place(offset: int) -> int:
        return next((x for at, x in places.items() if at >= offset), after)

    if log.last_stable_offset is not None and log.is_open:
        begin = place(log.last_stable_offset)
        canvas.box((begin, top - 4), (after - begin, HIGH + 8), fill=OPEN, stroke="")
    if not log.entries:
        canvas.box((LEFT, top), (ENTRY, HIGH), fill="none", dashes="3 3")
        canvas.text((LEFT + ENTRY // 2, top + HIGH // 2 + 4), "empty", fill=LINE, anchor="middle")
    for entry, view in zip(log.entries, log.consumer, strict=True):
        _entry(canvas, entry, view, (places[entry.offset], top))
    for row, (name, end, colour) in enumerate(ends):
        x, above = place(end), y + SPACING * (row + 1) - 2
        canvas.line((x, above + 4), (x, bottom + 6), colour, width="2")
        half, right = points(name) // 2, canvas.width - EDGE
        at, anchor = (EDGE, "start") if x - half < EDGE else (x, "middle")
        if x + half > right:
            at, anchor = right, "end"
        canvas.text((at, above), name, fill=colour, anchor=anchor)
    if any(log.consumer):
        canvas.text((EDGE, bottom + SPACING), "read_committed", fill=LINE)
        bottom += SPACING
    return bottom + GAP


def _ends(log: ShownLog) -> list[tuple[str, int, str]]:
    """The lines of a log that has entries: the name, the offset and the colour of each."""
    high, stable = log.high_watermark, log.last_stable_offset
    if not log.entries:
        return []
    if high is not None and high == stable:
        return [(f"high watermark and last stable offset: {high}", high, HIGH_WATERMARK)]
    ends = [("high watermark", high, HIGH_WATERMARK), ("last stable offset", stable, PARTIAL)]
    return [(f"{name}: {end}", end, colour) for name, end, colour in ends if end is not None]


def _entry(canvas: Canvas, entry: LogEntry, view: str, place: tuple[int, int]) -> None:
    x, top = place
    middle = x + ENTRY // 2
    is_marker = entry.kind in _STROKES
    colour = _STROKES.get(entry.kind, LINE)
    canvas.box(
        (x + 3, top),
        (ENTRY - 6, HIGH),
        stroke=colour,
        round=4,
        dashes="4 2" if entry.is_open else "",
    )
    name = f"{entry.kind} marker" if is_marker else entry.title
    ink = colour if is_marker else INK
    low = 16 if entry.producer else 24
    canvas.text(
        (middle, top + low), f"{entry.offset}: {name}", fill=ink, anchor="middle", weight="bold"
    )
    if entry.producer:
        canvas.text((middle, top + 32), entry.producer, fill=LINE, anchor="middle")
    if view and not is_marker:
        colour = {"read": GOOD, "skipped": LINE}.get(view, PARTIAL)
        canvas.text((middle, top + HIGH + SPACING), view, fill=colour, anchor="middle")


def _records(canvas: Canvas, log: ShownRecords, y: int) -> int:
    y += SPACING + 4
    canvas.text((EDGE, y), log.title, weight="bold")
    if not log.records:
        canvas.text((LEFT + 6, y), "empty", fill=LINE)
    room = (canvas.width - LEFT - EDGE) // _LETTERS
    for number, record in enumerate(log.records):
        is_last = number == len(log.records) - 1
        words = ", ".join(value if name == "state" else f"{name} {value}" for name, value in record)
        lines = textwrap.wrap(f"{number}: {words}", room, subsequent_indent="   ")
        for line in lines:
            canvas.text((LEFT + 6, y), line, fill=INK if is_last else LINE)
            y += SPACING
    return y + (0 if log.records else SPACING)
