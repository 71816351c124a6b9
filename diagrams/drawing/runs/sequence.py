"""Sequence charts of traces as SVG and Mermaid: a lane for each machine, arrows for messages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TypedDict
from xml.etree import ElementTree

from ....checker.trace.chart.chart import Arrow, Chart, ChartStep
from ....checker.trace.chart.logs import Logs
from ..colours import INK, LINE, PARTIAL
from ..render import escaped
from .log import draw_logs, width_of
from .svg import GAP, SIZE, SPACING, WRONG, Canvas, points

LANE, MARGIN, HEAD = 240, 110, 34
"""The distance of lanes, the space beside the first one, and the height of the boxes with names,
in points."""
ARROW = 24
"""Points for an arrow above its text."""
LETTERS = 34
"""The number of letters of a line beside a lane: together they are as wide as the distance of
lanes."""
MANY, NARROW, FEWER_LETTERS = 5, 195, 27
"""From this number of lanes on, lanes are closer to each other if the messages' names are short
enough. Then the text is readable on a page of 815 points."""


def to_svg(chart: Chart, title: str, why: tuple[str, ...] = (), logs: Logs = ()) -> bytes:
    """The chart as SVG, with the `title` above it. Below it are the violation at its end (`why`),
    and the `logs` at its end."""
    return _Svg(chart.titled(), logs).drawn(title, why)


class _Svg(Canvas):
    def __init__(self, chart: Chart, logs: Logs) -> None:
        self.chart = chart
        self.logs = logs
        self.is_narrow = len(chart.lanes) >= MANY and self._are_short(NARROW)
        self.lane = NARROW if self.is_narrow else LANE
        width = MARGIN + self.lane * len(chart.lanes)
        super().__init__(max(width, width_of(logs)) if logs else width)
        self.places = {lane: MARGIN + at * self.lane for at, lane in enumerate(chart.lanes)}
        self.harmful = chart.harmful
        self.steps: dict[int, int] = {}
        """The position of each step, in points from the top."""

    def _are_short(self, lane: int) -> bool:
        """Whether the text above each arrow fits between two lanes of this distance."""
        arrows = [step.took for step in self.chart.steps if step.took is not None]
        labels = [line for arrow in arrows for line in self._label(arrow, lane - 48)]
        return all(points(line) < lane for line in labels)

    def drawn(self, title: str, why: tuple[str, ...]) -> bytes:
        if why and self.harmful is None:
            self.harmful = len(self.chart.steps)
        y = 0
        for line in textwrap.wrap(title, self.width // 7):
            y += SPACING + 3
            self.text((MARGIN // 6, y), line, size=SIZE + 2, weight="bold")
        top = y + GAP
        for lane, x in self.places.items():
            self._lane(x, top, lane)
        y = top + HEAD + GAP
        for step in self.chart.steps:
            if step.number - 1 == self.chart.loop:
                y = self._across(y, "from here on, again and again")
            y = self._step(step, y)
        for x in self.places.values():
            self.line((x, top + HEAD), (x, y), LINE, width="1", parent=self.below)
        below = [(line, PARTIAL) for line in self.chart.left_over()] + [(w, WRONG) for w in why]
        for line, colour in below:
            for part in _wrapped(line, self.width // 7):
                y += SPACING
                self.text((MARGIN // 6, y), part, fill=colour)
        y = self._legend(y + GAP)
        if self.logs:
            y += 2 * GAP
            y = draw_logs(self, self.logs, y)
        return self.finished(y + GAP)

    def _legend(self, y: int) -> int:
        """Draws the meanings of the chart's marks. Returns the position of their last line."""
        took = [step.took for step in self.chart.steps if step.took is not None]
        marks = (
            ("●", WRONG, "the harmful step", self.harmful is not None),
            ("┄▶", PARTIAL, "delayed: other steps came between", any(a.is_late for a in took)),
            ("✗", WRONG, "lost or refused", any(a.fate for a in took)),
            ("╌▶", PARTIAL, "taken again", any(a.again for a in took)),
        )
        x = MARGIN // 6
        y += SPACING
        for mark, colour, meaning, is_there in marks:
            if not is_there:
                continue
            if x > MARGIN // 6 and x + 24 + points(meaning) > self.width:
                x, y = MARGIN // 6, y + SPACING + 3
            self.text((x, y), mark, fill=colour)
            self.text((x + 20, y), meaning, fill=LINE)
            x += 44 + points(meaning)
        return y

    def _step(self, step: ChartStep, y: int) -> int:
        """Draws a step from `y` on. Returns the position of the next one."""
        here = self.places[step.lane]
        took = step.took
        if took is not None and took.source != step.lane:
            source = self.places[took.source]
            label = self._label(took, self.lane - 48)
            y += ARROW + SPACING * (len(label) - 1)
            self._arrow(took, source, here, y, label)
        else:
            y += SPACING
        self.steps[step.number] = y
        self.text((MARGIN // 6, y + 4), str(step.number), fill=LINE)
        dot = {
            "cx": str(here),
            "cy": str(y),
            "r": "4",
            "fill": WRONG if step.number == self.harmful else INK,
        }
        group = ElementTree.SubElement(self.root, "g")
        ElementTree.SubElement(group, "title").text = "\n".join([f"[{step.row}]", *step.changes])
        ElementTree.SubElement(group, "circle", dot)
        if took is not None and self.places[took.source] > here:
            y += SPACING  # the text is where the arrow comes from
        y += 4 - SPACING
        for line, style in _beside(step, FEWER_LETTERS if self.is_narrow else LETTERS):
            y += SPACING
            self.text((here + 10, y), line, **style)
        return y + GAP

    def _label(self, arrow: Arrow, width: int) -> list[str]:
        """The lines above an arrow: the message, its error and the step of its sending, on as few
        lines as possible."""
        label = _label(arrow)
        words = label.rsplit(" ", 1) if points(label) > width else [label]
        if arrow.is_late:
            late = f"sent at {arrow.sent}"
            whole = f"{words[-1]}, {late}"
            return [*words[:-1], whole] if points(whole) <= width else [*words, late]
        return words

    def _arrow(self, arrow: Arrow, source: int, target: int, y: int, label: list[str]) -> None:
        way = 1 if target > source else -1
        start = self.steps.get(arrow.sent, y - ARROW + 6)
        if arrow.is_late:  # it waits beside its sender's lane
            beside = source + 6 * way
            self.line((beside, start), (beside, y), PARTIAL, dashes="2 3", parent=self.below)
            start = y
        colour = PARTIAL if arrow.is_late or arrow.fate or arrow.again else INK
        end = target - (30 if arrow.fate else 12) * way
        dashes = "6 3" if arrow.fate or arrow.again else ""
        self.line((source, y), (end, y), colour, dashes=dashes)
        points = f"{end},{y - 4} {end},{y + 4} {end + 7 * way},{y}"
        if arrow.fate:
            self.text((end, y + 4), "✗", fill=WRONG, anchor="middle", size=SIZE + 3)
        else:
            ElementTree.SubElement(self.root, "polygon", points=points, fill=colour)
        # Beside the sender, so that no lane between the two crosses the text.
        middle = source + min(self.lane, abs(target - source)) // 2 * way
        for above, line in enumerate(reversed(label)):
            self.text((middle, y - 5 - above * SPACING), line, fill=colour, anchor="middle")

    def _lane(self, x: int, y: int, name: str) -> None:
        width = min(max(90, 8 * len(name) + 16), self.lane - 8)
        self.box((x - width // 2, y), (width, HEAD), round=6)
        self.text((x, y + HEAD // 2 + 5), name, anchor="middle", size=SIZE + 1, weight="bold")

    def _across(self, y: int, text: str) -> int:
        y += SPACING
        self.line((0, y), (self.width, y), PARTIAL, dashes="8 4")
        self.text((self.width - 10, y - 4), text, fill=PARTIAL, anchor="end")
        return y + GAP


def to_mermaid(chart: Chart, title: str, why: tuple[str, ...] = ()) -> str:
    """The chart as a sequence diagram of Mermaid: late messages are dashed, lost ones have a
    cross."""
    chart = chart.titled()
    names = {lane: f"lane{at}" for at, lane in enumerate(chart.lanes)}
    lines = ["sequenceDiagram", f"    %% {title}"]
    lines += [f"    participant {names[lane]} as {escaped(lane)}" for lane in chart.lanes]
    for step in chart.steps:
        if step.number - 1 == chart.loop:
            lines.append("    loop again and again")
        here = names[step.lane]
        if step.took is not None:
            arrow = "-x" if step.took.fate else "-->>" if step.took.is_late else "->>"
            late = f", sent at step {step.took.sent}" if step.took.is_late else ""
            label = _label(step.took) + late
            lines.append(f"    {names[step.took.source]}{arrow}{here}: {escaped(label)}")
        note = "<br/>".join(escaped(line) for line, _ in _beside(step))
        lines.append(f"    Note over {here}: {step.number}. {note}")
    if chart.loop is not None:
        lines.append("    end")
    below = [*chart.left_over(), *why]
    if below and chart.lanes:
        note = "<br/>".join(map(escaped, below))
        lines.append(f"    Note over {names[chart.lanes[0]]},{names[chart.lanes[-1]]}: {note}")
    return "\n".join(lines) + "\n"


class _Style(TypedDict, total=False):
    fill: str
    weight: str
    style: str


def _beside(step: ChartStep, letters: int = LETTERS) -> Iterator[tuple[str, _Style]]:
    """The lines beside a lane: the event, its row, and the new value of each field."""
    inside = f"({step.detail})" if step.detail else ""
    if step.took is None:
        for line in _wrapped(f"{step.event}{inside}", letters):
            yield line, {"weight": "bold"}
    for line in _wrapped(step.row, letters):
        yield line, {"style": "italic"}
    for change in step.changes:
        where, _, value = change.partition(": ")
        now = value.rpartition(" → ")[2]
        sign = ":" if now == value else " →"
        for line in _wrapped(f"{where}{sign} {now}", letters):
            yield line, {"fill": LINE}


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines; a word that is longer than a line is broken between its parts."""
    words = (
        re.sub(r"(?<=[.\](])(?=\w|\[)", " \0", word) if len(word) > width - 4 else word
        for word in text.split()
    )
    lines = textwrap.wrap(" ".join(words), width, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(" \0", "").replace("\0", "") for line in lines]


def _label(arrow: Arrow) -> str:
    """The message with its fate and, of its fields, the error."""
    error = dict(arrow.fields).get("error")
    inside = f" {error}" if error is not None else ""
    again = "again " if arrow.again else ""
    fate = f"{arrow.fate} " if arrow.fate else ""
    return f"{again}{fate}{arrow.message}{inside}"
