"""The report of a check: what it says, and what a browser makes of it."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.trace.chart.chart import text_of
from epochfence.checker.verdict.result import Result
from epochfence.checker.verdict.vacuity import ENDED_EARLY, NO_REASON
from epochfence.diagrams.drawing.runs.log import logs_svg
from epochfence.diagrams.notebook import html as html_of
from epochfence.diagrams.report.page import to_html
from epochfence.diagrams.report.state import laid_out
from epochfence.language import Instance, Machine, Row, System, Table, event, instantiate, invariant
from epochfence.tests.systems.counter import Ticker

ROOT = Path(__file__).parents[3]
RESEND = str(ROOT / "docs" / "examples" / "resend.py")
LEASE = str(ROOT / "docs" / "examples" / "lease.py")
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"
LEAST_PRINT = 9  # px

Run = tuple[Instance, Result]


def run_of(system: System, protocol: str | None = None) -> Run:
    instance = instantiate(system, protocol)
    return instance, check(instance)


def hostile(bound: int = 3) -> System:
    """A system whose every name is markup; it counts to 4."""
    machine = Machine("machine")
    x = machine.field("x", lang.Int(0, 4))
    stuck = Row(f"never {HOSTILE}", when=x > 4, set={x: 0})
    up = Row(HOSTILE, set={x: x + 1}, source=HOSTILE, note=HOSTILE)
    table = Table(machine, event(f"tick {HOSTILE}"), (stuck, up), when=x < 4)
    below = invariant(f"Below {HOSTILE}", x <= bound, HOSTILE, HOSTILE)
    return System(f"hostile {HOSTILE}", (table,), (below,), doc=HOSTILE, terminal=True)


@pytest.fixture(scope="module")
def broken() -> Run:
    return run_of(load_system(LEASE), "1")


@pytest.fixture(scope="module")
def holding() -> Run:
    return run_of(load_system(LEASE), "2")


# What it says ------------------------------------------------------------------------------------


def test_it_begins_with_the_verdict_and_needs_no_network(holding: Run, broken: Run) -> None:
    for run, verdict in (
        (holding, "Every property holds"),
        (broken, "NoStaleWrite doesn&#39;t hold"),
    ):
        page = to_html(*run)
        assert page.index(verdict) < page.index("<h2>")
        assert re.findall(r"(?:src|href)=[\"'](?!#)|url\(|@import|https?://", page) == []
        assert len(page) < 200_000


def test_the_log_is_drawn_and_the_harmful_step_marked() -> None:
    instance, result = run_of(load_system(RESEND), "1")
    assert result.trace is not None
    for harmful in (None, 2):  # where none is known, it is the last
        trace = replace(result.trace, harmful=harmful)
        page = to_html(instance, replace(result, trace=trace))
        (marked,) = re.findall(r'class="step fault" data-step="(\d+)"', page)
        assert int(marked) == (harmful or len(trace.steps))
        ((kind, drawing),) = re.findall(r'<img src="data:([^;]*);base64,([^"]*)"', page)
        assert kind == "image/svg+xml"
        assert base64.b64decode(drawing) == logs_svg(trace.logs[-1])
    assert "The log at the end" in (html_of(result.trace) or "")


def test_each_property_is_there_with_its_sentence_and_source(holding: Run) -> None:
    instance, result = holding
    page = to_html(instance, result)
    assert result.properties
    for item in instance.properties:
        for text in (item.name, item.sentence, item.source):
            assert text in page


def test_rows_that_no_step_took_stand_first_by_why(broken: Run) -> None:
    page = to_html(*run_of(hostile(bound=4))).partition('id="coverage"')[2]
    places = [page.index(text) for text in (NO_REASON, "never &lt;/script&gt;", "taken, how often")]
    assert places == sorted(places)
    assert broken[1].never_taken
    assert ENDED_EARLY in to_html(*broken)


def test_rows_that_some_step_took_have_their_count_and_first_depth(holding: Run) -> None:
    result = holding[1]
    depths = {name: depth for name, depth in result.first_depths.items() if depth}
    assert {1, 2} < set(depths.values())
    page = html.unescape(to_html(*holding).partition('class="taken"')[2])
    for name, times in filter(itemgetter(1), result.rows):
        cells = rf">{re.escape(name.partition('/')[2])}</span>.*>{times:,}<.*>{depths[name]}</td>"
        assert re.search(cells, page)


def test_what_a_declaration_says_is_no_markup() -> None:
    page = to_html(*run_of(hostile()))
    assert HOSTILE not in page
    assert page.count("</script>") == 2  # of the run's data, and of the program
    assert "&lt;img src=x" in page


def test_states_by_level_add_up(holding: Run, broken: Run) -> None:
    for _, result in (holding, broken):
        assert sum(result.levels) == result.states
        assert len(result.levels) == result.depth
    assert holding[1].levels[0] == 1


def test_cells_are_the_states(broken: Run) -> None:
    instance, result = broken
    assert result.trace is not None
    states = laid_out(instance, result.trace.states)
    assert len(states.changes) == len(result.trace.states) - 1
    assert all(changed for changed in states.changes)
    numbers = [c for section in states.sections for field in section.fields for c in field.cells]
    assert sorted(numbers) == list(range(len(states.first)))


# In a browser ------------------------------------------------------------------------------------


class Opened:
    """A report in a browser, 1,280 pixels wide; `errors` are what its console says is wrong."""

    def __init__(self, browser: Any, run: Run, folder: Path, scheme: str = "light") -> None:
        file = folder / "report.html"
        file.write_text(to_html(*run), encoding="utf-8")
        self.errors: list[str] = []
        size = {"width": 1280, "height": 900}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        self.page.goto(file.as_uri())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def where(self) -> str:
        return self.page.inner_text("#where")

    def cells(self) -> dict[str, str]:
        """What the page shows of the state, by machine, field and instance."""
        return self.page.evaluate("""() => Object.fromEntries(
          [...document.querySelectorAll('.machine')].flatMap((table) => {
            const [machine, ...columns] =
              [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
            return [...table.querySelectorAll('tr:has([data-cell])')].flatMap((row) =>
              [...row.querySelectorAll('[data-cell]')].map((cell, at) =>
                [`${machine}.${row.cells[0].textContent}@${columns[at]}`, cell.textContent]));
          }))""")


def flat(data: Mapping[str, Any], instances: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The scalars of a state as JSON has it, named as `Opened.cells` does."""

    def parts(where: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            for key, each in value.items():
                yield from parts(f"{where}[{key}]", each)
        elif not isinstance(value, list):
            yield where, text_of(value)

    for name, value in data.items():
        machine = name.partition(".")[0]
        if machine in instances:
            for instance, each in value.items():
                yield from ((f"{where}@{instance}", text) for where, text in parts(name, each))
        else:
            yield from ((f"{where}@", text) for where, text in parts(name, value))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_counterexample_is_stepped_through_by_keyboard(
    scheme: str, browser: Any, broken: Run, tmp_path: Path
) -> None:
    trace = broken[1].trace
    assert trace is not None
    keyed = {m.name: "" for m in broken[0].system.machines if m.key is not None}
    shown = Opened(browser, broken, tmp_path, scheme)
    last = len(trace.steps)
    assert shown.where == f"First state, {last} steps to come"
    for number in range(1, last + 1):
        shown.press("ArrowRight")
        assert shown.where == f"Step {number} of {last}"
    assert dict(flat(trace.data[-1], keyed)).items() <= shown.cells().items()
    row = shown.page.inner_text("#detail")
    assert trace.steps[-1].row in row
    changed = shown.page.locator("td.changed").count()
    assert changed == len(laid_out(broken[0], trace.states).changes[-1])
    shown.press("ArrowLeft", "ArrowLeft")
    assert shown.where == f"Step {last - 2} of {last}"
    assert dict(flat(trace.data[-3], keyed)).items() <= shown.cells().items()
    shown.page.focus("#steps")
    shown.press("Home")
    assert dict(flat(trace.data[0], keyed)).items() <= shown.cells().items()
    shown.press("End")
    assert shown.where == f"Step {last} of {last}"
    assert shown.errors == []


def test_each_counterexample_has_a_chart_of_its_own(browser: Any, tmp_path: Path) -> None:
    instance = instantiate(load_system(LEASE), "1")
    result = check(instance, Options(all_traces=2))
    shown = Opened(browser, (instance, result), tmp_path)
    first, second = (len(item.trace.steps) for item in result.counterexamples)
    shown.page.focus("#steps")
    shown.press("End")
    assert shown.where == f"Step {first} of {first}"
    assert shown.page.inner_text("#where-of-2") == f"First state, {second} steps to come"
    shown.page.click("#theatre-of-2 [data-go=next]")
    shown.press("ArrowRight", "ArrowRight")
    assert shown.page.inner_text("#where-of-2") == f"Step 3 of {second}"
    assert shown.where == f"Step {first} of {first}"
    assert shown.page.evaluate("location.hash") == "#step-of-2-3"
    assert not shown.errors


def test_a_step_out_of_range_reaches_no_state(browser: Any, tmp_path: Path) -> None:
    run = run_of(Ticker(2).system())
    shown = Opened(browser, run, tmp_path)
    shown.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert shown.where == "Step 3 of 3"
    assert shown.page.inner_text("#after") == "The state before the last step"
    assert shown.cells() == {"counter.x@": "2"}
    assert shown.errors == []


def test_search_goes_to_the_steps_with_its_words(browser: Any, broken: Run, tmp_path: Path) -> None:
    trace = broken[1].trace
    assert trace is not None
    shown = Opened(browser, broken, tmp_path)
    numbers = [n for n, step in enumerate(trace.steps, 1) if step.row == "hold the lock"]
    assert len(numbers) > 1
    shown.press("/")
    shown.page.keyboard.type("HOLD lock")
    for number in (*numbers, numbers[0]):
        assert shown.where.startswith(f"Step {number} ")
        shown.press("Enter")
    shown.page.keyboard.type(" nowhere")
    assert shown.page.inner_text("#hits") == "none"
    shown.press("Escape", "End")
    assert shown.where.startswith(f"Step {len(trace.steps)} ")
    assert shown.errors == []


MEASURE = """() => {
  document.querySelectorAll('details').forEach((each) => { each.open = true; });
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let least = Infinity;
  while (texts.nextNode()) {
    const of = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !of.getClientRects().length) continue;
    const svg = of.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    least = Math.min(least, scale * parseFloat(getComputedStyle(of).fontSize));
  }
  return [least, document.documentElement.scrollWidth];
}"""


@pytest.mark.parametrize("kind", ["holding", "broken", "hostile"])
def test_print_is_large_enough_and_nothing_sticks_out(
    kind: str, browser: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run = run_of(hostile()) if kind == "hostile" else request.getfixturevalue(kind)
    shown = Opened(browser, run, tmp_path)
    title = shown.page.title()
    assert title.startswith(run[0].system.name), title
    least, width = shown.page.evaluate(MEASURE)
    assert LEAST_PRINT <= least < 100
    assert width <= 1280
    shown.page.set_viewport_size({"width": 390, "height": 844})
    assert kind == "hostile" or shown.page.evaluate(MEASURE)[1] <= 390  # its names are too long
    assert shown.errors == []


def test_the_data_of_a_run_is_json(broken: Run) -> None:
    (text,) = re.findall(
        r'<script type="application/json" id="run">(.*?)</script>', to_html(*broken), re.DOTALL
    )
    assert json.loads(text).keys() == {"first", "changes"}
