"""Animations: at each time one step is shown, with the logs of that time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from epochfence.checker.trace.chart.chart import chart_of
from epochfence.checker.trace.chart.story import sentences
from epochfence.checker.trace.trace import actor_states
from epochfence.diagrams.drawing.runs.animation import END, STEP, Run, to_html, to_svg
from epochfence.tests.checker.trace.chart.test_logs import run

SVG = "{http://www.w3.org/2000/svg}"
SPAN = re.compile(r"s(\d+)-(\d+)")
README = Path(__file__).parents[4] / "docs" / "charts" / "hanging.svg"
SMALL = 40_000  # bytes
pytestmark = pytest.mark.together


def _run(seed: int = 1) -> Run:
    instance, trace = run("transactions", seed)
    chart = chart_of(trace)
    return Run(
        chart, "A <run>", sentences(chart, instance), actor_states(instance, trace), trace.logs,
        "It is wrong.", 3,
    )  # fmt: skip


def _groups(root: ElementTree.Element) -> list[tuple[int, int, ElementTree.Element]]:
    found = [(group, SPAN.search(group.get("class", ""))) for group in root.iter(f"{SVG}g")]
    return [(int(span[1]), int(span[2]), group) for group, span in found if span is not None]


def test_each_step_has_its_own_frame() -> None:
    shown = _run()
    groups = _groups(ElementTree.fromstring(to_svg(shown)))
    steps = len(shown.chart.steps)
    for number in range(1, steps + 1):
        texts = [
            text.text or ""
            for first, last, group in groups
            if first <= number <= last
            for text in group.iter(f"{SVG}text")
        ]
        assert [text for text in texts if text.startswith("step ")] == [f"step {number} of {steps}"]
        assert texts.count("Partition 0") == 1
        assert ("It is wrong." in texts) == (number == steps)
    last = [group for first, end, group in groups if end == steps]
    assert all("last" in group.get("class", "") for group in last)


def test_the_style_shows_a_group_from_its_first_step_to_its_last_one() -> None:
    shown = _run()
    svg = to_svg(shown).decode()
    steps = len(shown.chart.steps)
    whole = STEP * (steps - 1) + END
    assert f"animation-duration: {whole:g}s" in svg
    assert "prefers-reduced-motion: no-preference" in svg
    for first, last, _ in _groups(ElementTree.fromstring(svg)):
        found = re.search(rf"@keyframes s{first}-{last} {{ (.*?) }} }}", svg)
        assert found is not None
        if 1 < first <= last < steps:
            begin, end = (float(each) for each in re.findall(r"([\d.]+)% {", found[1])[1:])
            assert begin == pytest.approx((first - 1) * STEP * 100 / whole, rel=1e-3)
            assert end == pytest.approx(last * STEP * 100 / whole, rel=1e-3)


def test_a_page_has_the_same_frames_and_takes_nothing_for_markup() -> None:
    page = to_html(_run()).decode()
    assert "<title>A &lt;run&gt;</title>" in page
    assert "A <run>" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    spans = re.search(r"const spans = \[(.*?)\], last = (\d+)", page)
    assert spans is not None
    groups = _groups(ElementTree.fromstring(to_svg(_run())))
    assert re.findall(r"\[(\d+), (\d+)\]", f"[{spans[1]}]") == [
        (str(a), str(b)) for a, b, _ in groups
    ]


@pytest.mark.slow(2)
def test_buttons_and_keys_change_the_step(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_bytes(to_html(_run()))
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())

    def step() -> str:
        texts = page.locator("g.f.now text").all_text_contents()
        (found,) = (text for text in texts if text.startswith("step "))
        return found.split()[1]

    assert step() == "1"
    page.click("#on")
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert step() == "3"
    page.click("#back")
    assert step() == "2"
    assert errors == []
    page.close()


@pytest.mark.slow(2)
def test_a_reader_who_prefers_less_motion_sees_the_last_step(browser: Any) -> None:
    last = len(_run().chart.steps)
    for motion, number in (("reduce", last), ("no-preference", 1)):
        page = browser.new_page(reduced_motion=motion)
        page.set_content(to_svg(_run()).decode())
        shown = f"step {number} of {last}"
        texts = page.locator("g.f").evaluate_all(
            "all => all.filter(g => getComputedStyle(g).opacity === '1').map(g => g.textContent)"
        )
        visible = " ".join(texts)
        assert shown in visible
        page.close()


def test_the_first_picture_of_readme_is_small() -> None:
    assert README.stat().st_size < SMALL
    readme = (Path(__file__).parents[4] / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", readme)[0] == "docs/charts/hanging.svg"
