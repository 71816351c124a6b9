"""Drawings of logs: everything is drawn, can be read and covers nothing, in light and in dark."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from epochfence.checker.trace.chart.logs import LogEntry, Logs, ShownLog, ShownRecords
from epochfence.diagrams.drawing.runs.log import height_of, logs_svg
from epochfence.tests.checker.trace.chart.test_logs import WITH_LOGS, run
from epochfence.tests.diagrams.drawing.runs.test_sequence import texts

SVG = "{http://www.w3.org/2000/svg}"
ALL: Logs = (
    ShownLog(
        "Partition 0",
        (
            LogEntry(0, "data", "record 0", "id 0, epoch 0", is_open=False, is_visible=True),
            LogEntry(2, "commit", "", "id 0, epoch 0", is_open=False, is_visible=False),
            LogEntry(3, "data", "record 1", "id 0, epoch 1", is_open=False, is_visible=False),
            LogEntry(4, "abort", "", "id 0, epoch 1", is_open=False, is_visible=False),
            LogEntry(5, "data", "record 1", "id 0, epoch 1", is_open=True, is_visible=True),
        ),
        6,
        5,
    ),
    ShownLog("Partition 1", (), 0, 0),
    ShownRecords("Transaction log", ((("state", "ONGOING"), ("epoch", "1")),)),
)


def _read(logs: Logs) -> list[str]:
    root = ElementTree.fromstring(logs_svg(logs, "A title"))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    boxes = list(texts(root))
    for box in boxes:
        assert 0 <= box.left < box.right <= width
        assert 0 <= box.top < box.bottom <= height
    for a, b in combinations(boxes, 2):
        apart = a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top
        assert apart, f"{a.text!r} and {b.text!r}"
    return [box.text for box in boxes]


def test_entries_ends_and_the_consumer_s_view_are_drawn() -> None:
    found = _read(ALL)
    assert [text for text in found if text[:1].isdigit()] == [
        "0: record 0",
        "2: commit marker",
        "3: record 1",
        "4: abort marker",
        "5: record 1",
        "0: ONGOING, epoch 1",
    ]
    assert [text for text in found if text in ("read", "skipped", "waits")] == [
        "read",
        "skipped",
        "waits",
    ]
    assert {"high watermark: 6", "last stable offset: 5", "empty"} <= {*found}


@pytest.mark.parametrize("name", WITH_LOGS)
def test_logs_of_a_run_can_be_read(name: str, seed: int) -> None:
    _, trace = run(name, seed)
    for logs in dict.fromkeys(trace.logs):
        found = _read(logs)
        titles = [log.title for log in logs]
        assert [text for text in found if text in titles] == titles
    assert height_of(*trace.logs) >= height_of(trace.logs[0]) > 0


def test_every_colour_has_one_for_a_dark_background() -> None:
    svg = logs_svg(ALL).decode()
    style, _, drawn = svg.partition("</style>")
    colours = {*re.findall(r'(?:fill|stroke)="(#\w+)"', drawn)}
    assert len(colours) >= 7
    for colour in colours:
        assert f'="{colour}"]' in style


def test_a_state_without_logs_has_no_drawing() -> None:
    assert logs_svg(()) == b""
