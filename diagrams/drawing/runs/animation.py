"""A run as an animation: who does what in each step, above the logs.

Only CSS moves the SVG, so that it also moves in an `<img>`. A reader who prefers less motion sees
the last step. The HTML page has the same frames, with buttons.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from xml.etree import ElementTree

from ....checker.trace.chart.chart import Arrow, Chart, ChartStep
from ....checker.trace.chart.logs import Logs
from ..colours import INK, LINE, PARTIAL
from .log import EDGE, draw_logs, height_of, width_of
from .sequence import HEAD
from .svg import GAP, SIZE, SPACING, WRONG, Canvas, points

LEAST, LANE = 760, 200
"""The minimal width of the picture, and from lane to lane, in points."""
STEP, END = 1.8, 6.0
"""The time for each step, and for the last one, in seconds."""
_BY_HAND = " .f { display: none } .f.now { display: inline }"


@dataclass(frozen=True)
class Run:
    """A run to show: its chart, a sentence for each step, each actor's state after each step, and
    the logs in each state. `why` is the violation at its end, `harmful` the number of the harmful
    step."""

    chart: Chart
    title: str
    sentences: Sequence[str]
    states: Sequence[dict[str, str]]
    logs: Sequence[Logs]
    why: str = ""
    harmful: int | None = None


def to_svg(run: Run) -> bytes:
    """The run as an SVG that shows its steps one after another, in a loop."""
    picture = _Frames(run)
    return picture.canvas.finished(picture.height, _timing(run, picture.shown))


def to_html(run: Run) -> bytes:
    """The run as a page with buttons. It needs no network."""
    picture = _Frames(run)
    svg = picture.canvas.finished(picture.height, _BY_HAND)
    spans = [list(map(str, (first, last))) for _, first, last in picture.shown]
    page = _PAGE.replace("{title}", escape(run.title)).replace("{last}", str(len(run.chart.steps)))
    page = page.replace("{spans}", str(spans).replace("'", "")).replace("{step}", f"{STEP}")
    return page.replace("{svg}", svg.decode()).encode()


class _Frames:
    """All frames in one picture: each group is visible for a range of steps."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.chart = run.chart.titled()
        lanes = len(self.chart.lanes)
        width = max(LEAST, LANE * lanes, *map(width_of, run.logs))
        self.canvas = Canvas(width)
        apart = (width - 2 * EDGE) // max(1, lanes)
        self.places = {
            lane: EDGE + apart // 2 + at * apart for at, lane in enumerate(self.chart.lanes)
        }
        self.shown: list[tuple[ElementTree.Element, int, int]] = []
        """Each group, with the first and the last step that shows it."""
        self.height = self.drawn()

    def drawn(self) -> int:
        canvas = self.canvas
        y = GAP
        for line in textwrap.wrap(self.run.title, canvas.width // 8):
            y += SPACING + 3
            canvas.text((EDGE, y), line, size=SIZE + 2, weight="bold")
        top = y + SPACING + 2 * GAP
        for lane, x in self.places.items():
            wide = max(90, points(lane) + 34)
            canvas.box((x - wide // 2, top), (wide, HEAD), round=6)
            canvas.text((x, top + HEAD // 2 + 5), lane, anchor="middle", weight="bold")
        self.states(top + HEAD + SPACING)
        middle = top + HEAD + SPACING + 44
        ends = [self.step(step, y + SPACING + 2, middle) for step in self.chart.steps]
        y = max(ends, default=middle) + GAP
        self.logs(y)
        return y + height_of(*self.run.logs) + 2 * GAP

    def states(self, y: int) -> None:
        """The state of each actor, below its box."""
        for lane, title in zip(self.run.chart.lanes, self.chart.lanes, strict=True):
            values = [(n, states.get(lane, "")) for n, states in enumerate(self.run.states)]
            for value, found in groupby(values, lambda item: item[1]):
                numbers = [n for n, _ in found]
                if value:
                    self.group(numbers[0], numbers[-1])
                    place = (self.places[title], y + 2)
                    self.canvas.text(place, value, fill=LINE, anchor="middle")

    def logs(self, y: int) -> None:
        for logs, found in groupby(enumerate(self.run.logs), lambda item: item[1]):
            numbers = [n for n, _ in found]
            self.group(numbers[0], numbers[-1])
            draw_logs(self.canvas, logs, y)

    def step(self, step: ChartStep, above: int, y: int) -> int:
        """Draws the events of a step, and their meaning. Returns the position below them."""
        canvas, number = self.canvas, step.number
        self.group(number, number)
        is_harmful = number == self.run.harmful
        ink = WRONG if is_harmful else INK
        last = len(self.chart.steps)
        canvas.text((EDGE, above), f"step {number} of {last}", fill=LINE)
        done = (canvas.width - 2 * EDGE) * number // last
        canvas.line((EDGE, above + 5), (EDGE + done, above + 5), LINE, width="2")
        here = self.places[step.lane]
        took = step.took
        if took is not None and took.source != step.lane:
            self.arrow(took, self.places[took.source], here, y)
        else:
            inside = f"({step.detail})" if step.detail else ""
            text = f"{step.event}{inside}"
            half = points(text) // 2
            at = min(max(here, EDGE + half), canvas.width - EDGE - half)
            canvas.text((at, y - 8), text, anchor="middle", weight="bold")
        dot = {"cx": str(here), "cy": str(y), "r": "5", "fill": ink}
        ElementTree.SubElement(canvas.at, "circle", dot)
        y += SPACING + GAP
        lines = textwrap.wrap(self.run.sentences[number - 1], (canvas.width - 2 * EDGE) // 7)
        for line in lines:
            canvas.text((EDGE, y), line, fill=ink, size=SIZE + 1)
            y += SPACING + 2
        waiting = self.waiting(number)
        if waiting:
            canvas.text((EDGE, y), f"still under way: {waiting}", fill=PARTIAL)
        y += SPACING + 2
        if number == last:
            for line in textwrap.wrap(self.run.why, (canvas.width - 2 * EDGE) // 7):
                canvas.text((EDGE, y), line, fill=WRONG, weight="bold")
                y += SPACING + 2
        return y

    def waiting(self, number: int) -> str:
        """The messages that are sent before a step and taken after it, or never."""
        arrows = (arrow for step in self.chart.steps for arrow in step.sent)
        names = [
            f"{arrow.message} (step {arrow.sent})"
            for arrow in arrows
            if arrow.sent < number and (arrow.taken is None or arrow.taken > number)
        ]
        return ", ".join(names)

    def arrow(self, arrow: Arrow, source: int, target: int, y: int) -> None:
        way = 1 if target > source else -1
        colour = PARTIAL if arrow.is_late or arrow.fate or arrow.again else INK
        end = target - 14 * way
        self.canvas.line((source, y), (end, y), colour, dashes="6 3" if arrow.fate else "")
        if arrow.fate:
            self.canvas.text((end, y + 4), "✗", fill=WRONG, anchor="middle", size=SIZE + 3)
        else:
            corners = f"{end},{y - 5} {end},{y + 5} {end + 9 * way},{y}"
            ElementTree.SubElement(self.canvas.at, "polygon", points=corners, fill=colour)
        fate = f"{arrow.fate} " if arrow.fate else ""
        error = dict(arrow.fields).get("error", "")
        late = f", sent in step {arrow.sent}" if arrow.is_late else ""
        text = f"{fate}{arrow.message} {error}".rstrip() + late
        self.canvas.text(((source + target) // 2, y - 8), text, fill=colour, anchor="middle")

    def group(self, first: int, last: int) -> None:
        """A group that is shown from step `first` to step `last`."""
        group = self.canvas.group()
        group.set("class", f"f s{first}-{last}")
        if last == len(self.chart.steps):
            group.set("class", f"{group.get('class')} last")
        self.shown.append((group, first, last))


def _timing(run: Run, shown: Sequence[tuple[ElementTree.Element, int, int]]) -> str:
    """The style sheet that shows each group from its first step to its last one."""
    steps = len(run.chart.steps)
    whole = STEP * max(0, steps - 1) + END

    def rules() -> Iterator[str]:
        yield ".f { opacity: 0 } .last { opacity: 1 }"
        yield "@media (prefers-reduced-motion: no-preference) {"
        yield f".f {{ animation-duration: {whole:g}s; animation-iteration-count: infinite;"
        yield "animation-timing-function: step-end }"
        for first, last in dict.fromkeys((first, last) for _, first, last in shown):
            begin = max(0, first - 1) * STEP * 100 / whole
            end = 100.0 if last >= steps else max(0, last) * STEP * 100 / whole
            name = f"s{first}-{last}"
            frames = f"0% {{ opacity: {int(begin == 0)} }} {begin:.4g}% {{ opacity: 1 }}"
            frames += f" {end:.4g}% {{ opacity: {int(last >= steps)} }}"
            if last == 0:  # the state before the first step has no frame
                frames = "0%, 100% { opacity: 0 }"
            yield f"@keyframes {name} {{ {frames} }}"
            yield f".{name} {{ animation-name: {name} }}"
        yield "}"

    return re.sub(r"\s+", " ", " ".join(rules()))


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark }
body { font: 15px Helvetica, Arial, sans-serif; margin: 1rem auto; max-width: 1000px }
svg { height: auto; max-width: 100% }
button { font: inherit; padding: .3em .8em }
input { vertical-align: middle; width: min(24rem, 50vw) }
</style>
<p><button id="back" aria-label="one step back">◀</button>
<button id="play">Play</button>
<button id="on" aria-label="one step on">▶</button>
<input id="at" type="range" min="1" max="{last}" value="1" aria-label="step">
<output id="number"></output></p>
{svg}
<script>
const spans = {spans}, last = {last}, groups = document.querySelectorAll(".f");
const at = document.getElementById("at"), play = document.getElementById("play");
let timer = 0;
function show(step) {
  at.value = Math.max(1, Math.min(last, step));
  document.getElementById("number").value = at.value + " of " + last;
  groups.forEach((group, i) =>
    group.classList.toggle("now", spans[i][0] <= +at.value && +at.value <= spans[i][1]));
}
function stop() { clearInterval(timer); timer = 0; play.textContent = "Play"; }
function go(step) { stop(); show(step); }
document.getElementById("back").onclick = () => go(+at.value - 1);
document.getElementById("on").onclick = () => go(+at.value + 1);
at.oninput = () => go(+at.value);
play.onclick = () => {
  if (timer) return stop();
  if (+at.value === last) show(1);
  play.textContent = "Pause";
  timer = setInterval(() => +at.value === last ? stop() : show(+at.value + 1), {step} * 1000);
};
addEventListener("keydown", (event) => {
  if (event.target !== document.body) return;
  if (event.key === "ArrowLeft") go(+at.value - 1);
  if (event.key === "ArrowRight") go(+at.value + 1);
});
show(1);
</script>
</html>
"""
