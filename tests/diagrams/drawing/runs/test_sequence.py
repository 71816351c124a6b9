"""Sequence charts as drawings: all text is large enough, and none lies over another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from epochfence.checker.trace.chart.chart import Arrow, Chart, ChartStep, in_brief
from epochfence.checker.trace.chart.text import to_lines
from epochfence.diagrams.drawing.runs.sequence import to_mermaid, to_svg
from epochfence.spec.systems import SHIPPED
from epochfence.tests.checker.trace.chart.test_chart import drawn
from epochfence.tests.diagrams.drawing.test_overview import LEAST_PRINT, PAGE_WIDTH, measured

SVG = "{http://www.w3.org/2000/svg}"
LEAST = 11  # points: a page that shows a chart of five lanes makes 9 of them
ANIMATED = "hanging.svg"  # its frames lie above each other; test_animation.py looks at each
CHARTS = sorted(
    chart
    for chart in (Path(__file__).parents[4] / "docs" / "charts").glob("*.svg")
    if chart.name != ANIMATED
)
pytestmark = pytest.mark.together  # a run is drawn once
WIDE = 0.5  # of its size a letter is wide, on average


class Box(NamedTuple):
    """Where a text is, in points."""

    left: float
    top: float
    right: float
    bottom: float
    text: str


def texts(root: ElementTree.Element) -> Iterator[Box]:
    """The texts of a drawing."""
    for node in root.iter(f"{SVG}text"):
        size = float(node.get("font-size", "12"))
        assert size >= LEAST
        text = node.text or ""
        wide = WIDE * size * len(text)
        shift = {"start": 0.0, "middle": wide / 2, "end": wide}[node.get("text-anchor", "start")]
        left, y = float(node.get("x", "")) - shift, float(node.get("y", ""))
        yield Box(left, y - 0.7 * size, left + wide, y, text)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_text_can_be_read_and_covers_no_other(name: str, seed: int) -> None:
    _, chart = drawn(name, seed)
    root = ElementTree.fromstring(to_svg(chart, "It is broken.", ("as it is",)))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    boxes = list(texts(root))
    for box in boxes:
        assert box.left >= 0
        assert box.right <= width
        assert 0 <= box.top < box.bottom <= height
    for a, b in combinations(boxes, 2):
        apart = a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top
        assert apart, f"{a.text!r} and {b.text!r}"


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_each_step_and_each_message_is_drawn(name: str, seed: int) -> None:
    _, chart = drawn(name, seed)
    root = ElementTree.fromstring(to_svg(chart, "It is broken."))
    shown = [box.text for box in texts(root)]
    assert len(list(root.iter(f"{SVG}circle"))) == len(chart.steps)
    told_in_mermaid = to_mermaid(chart, "It is broken.")
    for step in chart.steps:
        assert str(step.number) in shown
        assert f": {step.number}. " in told_in_mermaid
        if step.took is not None and step.took.source != step.lane:
            message = chart.titles.get(step.took.message, step.took.message)
            assert any(message in text for text in shown)
    arrows = told_in_mermaid.count(">>") + told_in_mermaid.count("-x")
    assert arrows == sum(step.took is not None for step in chart.steps)


@pytest.mark.parametrize("picture", CHARTS, ids=lambda picture: picture.name)
def test_a_chart_of_the_docs_can_be_read_at_the_width_of_a_page(
    picture: Path, browser: Any
) -> None:
    least, over, _, _ = measured(browser, picture.read_text(encoding="utf-8"), PAGE_WIDTH)
    assert least >= LEAST_PRINT
    assert over == []


def test_a_label_that_is_wider_than_its_arrow_has_two_lines() -> None:
    arrow = Arrow("AddPartitionsByLeaderResponse", (("error", "PRODUCER_FENCED"),), "a", "b", 1, 2)
    step = ChartStep(2, "b", "told", "", "row", ("x: 1 → 2",), arrow, ())
    first = ChartStep(1, "a", "tell", "", "row", (), None, (arrow,))
    chart = Chart(("a", "b"), (first, step), ())
    shown = [box.text for box in texts(ElementTree.fromstring(to_svg(chart, "It ended.")))]
    assert {"AddPartitionsByLeaderResponse", "PRODUCER_FENCED", "x → 2"} <= {*shown}


def test_a_brief_chart_has_the_states_alone() -> None:
    instance, chart = drawn("transactions", 1)
    changes = {change for step in chart.steps for change in step.changes}
    brief = in_brief(chart, instance.system)
    left = {change for step in brief.steps for change in step.changes}
    assert left == {change for change in changes if change.startswith("state: ")}
    assert left
    assert left != changes


def test_a_message_that_nobody_took_is_named_below_the_chart() -> None:
    arrow = Arrow("Produce", (), "a", "b", 1)
    chart = Chart(("a", "b"), (ChartStep(1, "a", "send", "", "row", (), None, (arrow,)),), (arrow,))
    line = "Produce of step 1 is still in flight."
    assert line in [box.text for box in texts(ElementTree.fromstring(to_svg(chart, "It ended.")))]
    assert line in to_mermaid(chart, "It ended.")
    assert line in to_lines(chart)


def test_no_lane_crosses_the_label_of_an_arrow() -> None:
    arrow = Arrow("Produce", (), "a", "d", 1, 3)
    steps = (
        ChartStep(1, "a", "send", "", "row", (), None, (arrow,)),
        ChartStep(2, "b", "wait", "", "row", (), None, ()),
        ChartStep(3, "d", "", "", "row", (), arrow, ()),
    )
    root = ElementTree.fromstring(to_svg(Chart(("a", "b", "c", "d"), steps, ()), "It ended."))
    (label,) = (box for box in texts(root) if box.text == "Produce, sent at 1")
    lanes = [
        float(line.get("x1", ""))
        for line in root.iter(f"{SVG}line")
        if line.get("x1") == line.get("x2")
    ]
    assert len(lanes) >= 4
    assert not [x for x in lanes if label.left <= x <= label.right]


def test_the_legend_tells_of_the_marks_that_are_there() -> None:
    late, lost = Arrow("Produce", (), "a", "b", 1, 3), Arrow("Produce", (), "a", "b", 1, 2, "lost")
    again = Arrow("Produce", (), "a", "b", 1, 2, again=True)
    of = {"delayed: other steps came between": late, "lost or refused": lost, "taken again": again}
    meanings = {*of, "the harmful step"}
    for harmful, arrows in ((None, ()), (2, ()), *((None, (meaning,)) for meaning in of)):
        took = [of[meaning] for meaning in arrows] or [None]
        sent = ChartStep(1, "a", "send", "", "row", (), None, ())
        taken = [ChartStep(2, "b", "", "", "row", (), arrow, ()) for arrow in took]
        chart = Chart(("a", "b"), (sent, *taken), (), harmful=harmful)
        shown = {box.text for box in texts(ElementTree.fromstring(to_svg(chart, "It ended.")))}
        assert shown & meanings == {*arrows} | ({"the harmful step"} if harmful else set())


def test_five_lanes_are_closer_if_names_are_short() -> None:
    def width(lanes: str, message: str) -> int:
        arrow = Arrow(message, (), "a", "b", 1, 2)
        took = ChartStep(2, "b", "", "", "row", (), arrow, ())
        steps = (ChartStep(1, "a", "send", "", "row", (), None, (arrow,)), took)
        root = ElementTree.fromstring(to_svg(Chart(tuple(lanes), steps, ()), "It ended."))
        return int(root.get("width", ""))

    assert width("abcd", "Produce") < width("abcde", "Produce") < width("abcde", "Produce" * 5)
    assert width("abcde", "Produce") * LEAST_PRINT / 12 <= PAGE_WIDTH


def test_signs_of_mermaid_s_own_are_escaped() -> None:
    _, chart = drawn("transactions", 1)
    lines = to_mermaid(chart, "It is broken.").splitlines()
    for line in lines[2:]:
        assert ";" not in re.sub(r"#\d+;", "", line)
