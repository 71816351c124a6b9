"""The explorer in a browser: by keyboard, by link, with a trace, and how it looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.explorer.explorer import Explorer
from epochfence.diagrams.explorer.view import comparable
from epochfence.language import instantiate
from epochfence.tests.diagrams.explorer.test_app import LEASE, lease_at, port, traces
from epochfence.tests.diagrams.report.test_page import LEAST_PRINT, MEASURE

__all__ = ["port", "traces"]

OVERLAPS = """() => {
  const texts = [...document.querySelectorAll(
    '.bar > *, .heads span, .step .told, .step .number, .offer, .no, .machine td, .machine th')]
    .filter((each) => each.getClientRects().length);
  const boxes = texts.map((each) => each.getBoundingClientRect());
  const found = [];
  for (let a = 0; a < boxes.length; a++) for (let b = a + 1; b < boxes.length; b++) {
    if (texts[a].contains(texts[b]) || texts[b].contains(texts[a])) continue;
    const scrolled = ['.steps', '.possible', '.state', '.bar'].map((box) =>
      texts[a].closest(box) && texts[a].closest(box) === texts[b].closest(box));
    if (!scrolled.some(Boolean)) continue;
    if (texts[a].closest('.heads') !== texts[b].closest('.heads')) continue;  // heads stay on top
    const [one, two] = [boxes[a], boxes[b]];
    const width = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const height = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
    if (width > 1 && height > 1) found.push([texts[a].textContent, texts[b].textContent]);
  }
  return found;
}"""


class Opened:
    """The explorer in a browser; `errors` are what its console says is wrong."""

    def __init__(
        self, browser: Any, port: int, link: str = "", scheme: str = "light", width: int = 1280
    ) -> None:
        self.errors: list[str] = []
        size = {"width": width, "height": 800}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"http://127.0.0.1:{port}/{link}")
        self.settled()

    def settled(self) -> None:
        """Waits for the answers that are in flight."""
        self.page.wait_for_selector("#theatre[aria-busy=false]")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.settled()

    @property
    def where(self) -> str:
        return self.page.inner_text("#where")

    @property
    def message(self) -> str:
        return self.page.inner_text("#message")

    def run(self) -> list[str]:
        return self.page.locator("#steps li.step .told b").all_inner_texts()


@pytest.fixture
def opened(browser: Any, port: int) -> Iterator[Opened]:
    found = Opened(browser, port)
    yield found
    found.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_steps_are_taken_and_taken_back_by_keyboard(browser: Any, port: int, scheme: str) -> None:
    shown = Opened(browser, port, scheme=scheme)
    assert (shown.where, shown.run()) == ("First state", ["the first state"])
    shown.press("1", "1")
    assert shown.run() == ["the first state", "acquire", "acquire"]
    shown.press("ArrowDown", "ArrowDown", "Enter")
    assert shown.where == "Step 3"
    third = shown.run()[-1]
    shown.press("ArrowLeft", "Backspace")
    assert shown.run() == ["the first state", "acquire"]
    shown.press("ArrowRight", "ArrowRight")
    assert (shown.where, shown.run()[-1]) == ("Step 3", third)
    shown.press("Home")
    assert shown.where == "First state"
    shown.press("End")
    assert shown.where == "Step 3"
    shown.page.click("#steps li[data-step='1'] .told")
    shown.settled()
    assert shown.where == "Step 1"
    assert shown.errors == []


def test_a_link_leads_to_the_same_state(browser: Any, port: int, opened: Opened) -> None:
    opened.press("1", "2", "1")
    address = opened.page.url
    other = Opened(browser, port, f"#{address.partition('#')[2]}")
    assert other.run() == opened.run()
    assert other.page.inner_text("#state") == opened.page.inner_text("#state")
    instance = instantiate(load_system(LEASE), "2")
    link = Explorer(instance, [], lease_at).link((0, 1))
    foreign = Opened(browser, port, f"#{link}")
    assert foreign.where == "First state"
    assert foreign.message.startswith("The link has the release 2, and this page 1: run epochfence")
    assert [*other.errors, *foreign.errors, *opened.errors] == []


def test_it_runs_until_a_goal_and_says_what_is_broken(opened: Opened) -> None:
    opened.press("u")
    opened.page.keyboard.type("NoStaleWrite is broken")
    opened.press("Enter")
    opened.page.wait_for_selector("[data-broken=NoStaleWrite]")
    opened.settled()
    assert (opened.where, opened.message) == ("Step 11", "NoStaleWrite is broken: after 11 steps")
    assert "written = 2, above after(written) = 1" in opened.page.inner_text("#told")
    assert opened.errors == []


def test_a_property_is_run_to(opened: Opened) -> None:
    shown = opened.page.locator("#properties [data-goal='NoStaleWrite is broken']")
    assert "broken here" not in shown.inner_text()  # it may be known where it breaks
    shown.click()
    opened.page.wait_for_selector("[data-broken=NoStaleWrite]")
    opened.settled()
    assert "broken here" in shown.inner_text()
    assert "1 broken here" in opened.page.inner_text("#claims summary")
    opened.press("Home")
    assert "breaks after 11 steps" in shown.inner_text()
    assert opened.errors == []


def test_faults_come_last(opened: Opened) -> None:
    opened.press("1", "1")
    offers = opened.page.locator("#offers li").all_inner_texts()
    (at,) = (number for number, text in enumerate(offers) if text.startswith("Faults"))
    assert 0 < at < len(offers) - 1
    assert all("lost" in text or "expires" in text for text in offers[at + 1 :])
    assert not any("lost" in text for text in offers[:at])


def test_a_trace_is_loaded(opened: Opened, traces: Path) -> None:
    opened.page.set_input_files("#trace", traces / "lease.itf.json")
    opened.page.wait_for_selector("[data-broken=NoStaleWrite]")
    opened.settled()
    assert (opened.where, opened.message) == ("Step 11", "lease.itf.json: 11 steps")
    last = json.loads((traces / "lease.itf.json").read_text())["states"][-1]
    shown = opened.page.inner_text("#state table:has(th:text-is('storage')) td >> nth=0")
    assert shown == str(last["storage.written"])
    opened.press("ArrowLeft")
    assert opened.where == "Step 10"
    assert opened.errors == []


def test_another_release_stands_beside(opened: Opened, traces: Path) -> None:
    opened.page.set_input_files("#trace", traces / "lease.itf.json")
    opened.page.wait_for_selector("[data-broken=NoStaleWrite]")
    opened.page.select_option("#beside", "2")
    opened.press("ArrowLeft")
    opened.page.wait_for_selector(".same")
    assert opened.page.locator(".other").count() == 1
    assert "beside=2" in opened.page.url
    assert opened.errors == []


def test_the_steps_are_filtered(opened: Opened) -> None:
    opened.press("/")
    opened.page.keyboard.type("client1")
    opened.page.wait_for_function("() => document.querySelectorAll('[data-take]').length === 1")
    opened.press("Escape", "1")
    assert opened.page.inner_text("#steps li[data-step='1'] .told b") == "acquire"


def test_why_not_is_told_below(opened: Opened) -> None:
    opened.press("1", "1", "1", "1")
    told = opened.page.inner_text("#blocked")
    assert "the message isn't in flight" in told
    opened.page.click("#blocked summary >> nth=0")
    assert opened.page.locator("#blocked details[open] pre").first.is_visible()


@pytest.mark.parametrize("width", [800, 1280, 1600])
def test_print_is_large_enough_and_nothing_overlaps(
    browser: Any, port: int, traces: Path, width: int
) -> None:
    shown = Opened(browser, port, width=width)
    shown.page.set_input_files("#trace", traces / "lease.itf.json")
    shown.page.wait_for_selector("[data-broken=NoStaleWrite]")
    shown.settled()
    least, widest = shown.page.evaluate(MEASURE)
    assert LEAST_PRINT <= least < 100
    assert widest <= width
    assert shown.page.evaluate(OVERLAPS) == []
    assert shown.errors == []


def test_the_overlaps_are_seen(opened: Opened) -> None:
    opened.press("1", "1")
    style = "(css) => { document.querySelector('#offers li:nth-child(2)').style.cssText = css; }"
    opened.page.evaluate(style, "margin-top: -20px")
    assert opened.page.evaluate(OVERLAPS)


def test_releases_with_the_same_variables_are_offered() -> None:
    explorer = Explorer(lease_at("1"), ["2"], lease_at)
    beside = explorer.beside("2")
    assert beside is not None
    assert comparable(explorer.session.instance, beside.instance)
