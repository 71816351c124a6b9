"""The playground in a browser, from a disk: by keyboard, by links, and how it looks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochfence.diagrams.explorer.link import Link, read_link
from epochfence.diagrams.playground import pyodide
from epochfence.diagrams.playground.answers import Playground, shortest
from epochfence.diagrams.playground.browser import examples
from epochfence.diagrams.playground.puzzles import PUZZLES
from epochfence.diagrams.playground.site import site
from epochfence.tests.diagrams.explorer.test_page import OVERLAPS
from epochfence.tests.diagrams.report.test_page import MEASURE

pytestmark = [pytest.mark.slow, pytest.mark.together]  # the page is built once

MOST_BYTES = 12 << 20
MOST_SECONDS = 3
LEAST_PRINT = 10  # px
CONTRAST = """() => {
  const parts = (text) => {
    const [r, g, b, alpha] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, alpha ?? 1];
  };
  const over = ([r, g, b, alpha], under) => [r, g, b].map((c, at) => alpha * c + (1 - alpha) * under[at]);
  const grounds = new Map([[null, [255, 255, 255]]]);
  const below = (of) => {
    if (!grounds.has(of)) {
      const own = parts(getComputedStyle(of).backgroundColor);
      grounds.set(of, over(own, own[3] === 1 ? own : below(of.parentElement)));
    }
    return grounds.get(of);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const of = texts.currentNode.parentElement;
    const isShown = of.checkVisibility({opacityProperty: true, visibilityProperty: true});
    if (!texts.currentNode.data.trim() || !isShown || of.closest(':disabled, option, script')) continue;
    const under = below(of);
    const [a, b] = [over(parts(getComputedStyle(of).color), under), under].map(light);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) found.push([texts.currentNode.data.trim(), ratio]);
  }
  return found;
}"""  # noqa: E501
BROKEN_WORDS = """() => {
  const found = [];
  const places = '.offer, .list button, .gallery button, #state, #about';
  for (const of of document.querySelectorAll(places)) {
    const texts = document.createTreeWalker(of, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      for (const word of node.data.matchAll(/[A-Za-z0-9_]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""

CUT_OFF = """() => [...document.querySelectorAll('#state, .state')].filter((of) =>
  of.scrollWidth > of.clientWidth && !['auto', 'scroll'].includes(getComputedStyle(of).overflowX)
).length"""


class Shown:
    """The page in a browser, with the addresses that it asks for and the errors of its console."""

    def __init__(
        self, browser: Any, folder: Path, link: str = "", scheme: str = "light", width: int = 1366
    ) -> None:
        size = {"width": width, "height": 768}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto((folder / "index.html").as_uri() + link)
        self.settled()

    def settled(self) -> None:
        self.page.wait_for_selector("#theatre[aria-busy=false]", timeout=120_000)

    def open(self, system: str) -> None:
        self.page.select_option("#system", system)
        # It says so until all is there: a system of the same name may have been open before.
        self.page.wait_for_selector(
            "#message:not(:has-text('Opening'))", state="attached", timeout=120_000
        )
        self.page.wait_for_selector(f"#about b:text-is('{system}')", timeout=120_000)
        self.settled()

    @property
    def message(self) -> str:
        return self.page.inner_text("#message")

    @property
    def where(self) -> str:
        return self.page.inner_text("#where")


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page: in a long run with all puzzles, whose runs take long to find."""
    to, options = tmp_path_factory.mktemp("play"), request.config.option
    try:
        files = site(PUZZLES if options.long or options.every_case else PUZZLES[:1])
    except pyodide.FetchError as error:  # a failure in CI
        pytest.skip(str(error))
    for name, content in files.items():
        (to / name).write_bytes(content)
    return to


@pytest.fixture(scope="module")
def opened(browser: Any, folder: Path) -> Iterator[Shown]:
    shown = Shown(browser, folder)
    yield shown
    shown.page.close()


@pytest.fixture
def shown(opened: Shown) -> Iterator[Shown]:
    """One page for all tests that ask Python, which takes six seconds of processor time to start.
    Each opens a system of its own, from its first state on."""
    opened.page.set_viewport_size({"width": 1366, "height": 768})
    opened.page.emulate_media(color_scheme="light")
    yield opened
    assert opened.errors == []


def test_five_keys_write_a_duplicate_before_python_is_there(
    browser: Any, folder: Path, tmp_path: Path
) -> None:
    """All runs of the first system are in the page itself. Without python.js, a line says so."""
    (tmp_path / "index.html").write_bytes((folder / "index.html").read_bytes())
    shown = Shown(browser, tmp_path)
    assert "resend" in shown.page.inner_text("#about")
    session = Playground(examples(), {}).explorer.session
    for key in _keys(session):
        shown.page.keyboard.press(key)
        shown.settled()
    assert shown.where == "Step 5"
    assert shown.page.locator("[data-broken=NoDuplicate]").is_visible()
    shown.page.keyboard.press("Home")
    for step in range(1, 4):  # another run
        shown.page.keyboard.press("1")
        shown.settled()
        assert shown.where == f"Step {step}"
    shown.page.select_option("#system", "lease")
    shown.page.wait_for_selector("#message:has-text('keep it beside this page')")
    shown.page.close()


@pytest.mark.long
def test_the_page_says_that_python_is_starting(browser: Any, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "index.html").as_uri() + "#nothing")
    page.wait_for_selector("#message:has-text('Python is starting')", timeout=120_000)
    page.wait_for_selector("#message:has-text('cut off or altered')", timeout=120_000)
    page.close()


def test_the_first_step_is_there_soon_after_a_cold_load(browser: Any, folder: Path) -> None:
    """By the processor time of the page's own thread, in which Python isn't started."""
    page = browser.new_page()
    measured = page.context.new_cdp_session(page)
    measured.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("#theatre[aria-busy=false]", timeout=120_000)
    page.keyboard.press("1")
    page.wait_for_selector("#steps li[data-step='1']")
    metrics = measured.send("Performance.getMetrics")["metrics"]
    seconds = {each["name"]: each["value"] for each in metrics}["TaskDuration"]
    page.close()
    assert 0 < seconds < MOST_SECONDS


def _keys(session: Any) -> list[str]:
    """The keys of a shortest run to a duplicate, by the order of the offers."""
    playground = Playground(examples(), {})
    playground.answer("until", {"goal": "NoDuplicate is broken"})
    while "path" not in (found := playground.answer("more", {})):
        pass
    keys, path = list[str](), "0"
    for number in found["path"].split(".")[1:]:
        steps = playground.answer("view", {"path": path})["steps"]
        order = [part.partition('"')[0] for part in steps.split('data-take="')[1:]]
        keys.append(str(order.index(number) + 1))
        path = f"{path}.{number}"
    return keys


@pytest.mark.long
def test_it_is_small_with_all_puzzles(folder: Path) -> None:
    assert sum(file.stat().st_size for file in folder.iterdir()) < MOST_BYTES
    assert (folder / "index.html").read_text().count("data-puzzle=") > len(PUZZLES)


def test_a_puzzle_is_played_to_its_end_by_keyboard(shown: Shown) -> None:
    play(shown, 0)
    outside = [url for url in shown.asked if not url.startswith(("blob:", "data:"))]
    assert sorted(Path(url).name for url in outside) == ["index.html", "python.js"]


@pytest.mark.long
def test_the_gallery_is_played_to_its_end_by_keyboard(shown: Shown) -> None:
    for place in range(len(PUZZLES)):
        play(shown, place)
    assert shown.page.locator("#gallery .done").count() == len(PUZZLES)


def play(shown: Shown, place: int) -> None:
    """The puzzle at this place of the gallery, by its hints; then its mended release."""
    puzzle = PUZZLES[place]
    shown.page.keyboard.press("g")
    for _ in range(place):
        shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")
    shown.page.get_by_role("heading", name=puzzle.goal, exact=True).wait_for(timeout=120_000)
    shown.settled()
    steps = len(shortest(puzzle)) - 1
    for number in range(1, steps + 1):
        assert shown.page.locator("#solved").is_hidden()
        shown.page.keyboard.press("h")
        shown.page.wait_for_selector("#offers [data-take]:focus")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(f"#steps li[data-step='{number}']")
        shown.settled()
    assert puzzle.meaning in shown.page.inner_text("#solved")
    shown.page.press("#mended", "Enter")
    shown.page.wait_for_selector(f"#message:has-text('With {puzzle.remedy}: ')")
    shown.settled()
    assert shown.page.locator(f"[data-broken={puzzle.bug.property}]").count() == 0


@pytest.mark.long
def test_a_search_is_cancelled(shown: Shown) -> None:
    shown.open("transactions")
    shown.page.fill(
        "#goal",
        "transaction.state = EMPTY and producer0.state = INITIALIZING "
        "and producer1.state = IN_TRANSACTION and transaction.state = ONGOING",
    )
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_selector("#message:has-text('Searching')", timeout=60_000)
    shown.page.click("#cancel")
    shown.page.wait_for_selector("#message:has-text('cancelled')", timeout=60_000)
    assert shown.page.locator("#cancel").is_hidden()


@pytest.mark.long
def test_a_property_is_run_to_and_its_link_works_elsewhere(
    shown: Shown, browser: Any, folder: Path
) -> None:
    shown.open("lease")
    shown.page.click("#settings summary")
    shown.page.select_option("[name=release]", "1")
    shown.page.click("#choose [type=submit]")
    shown.page.wait_for_selector("#about:has-text('protocol 1')")
    shown.settled()
    shown.page.click("[data-goal='NoStaleWrite is broken']")
    shown.page.wait_for_selector("[data-broken=NoStaleWrite]", timeout=60_000)
    shown.settled()
    other = Shown(browser, folder, "#" + shown.page.url.partition("#")[2])
    other.page.wait_for_selector("[data-broken=NoStaleWrite]", timeout=120_000)
    other.settled()
    assert other.where == shown.where == "Step 11"
    assert other.page.inner_text("#state") == shown.page.inner_text("#state")
    other.page.close()
    assert other.errors == []


def _newer(link: Link) -> str:
    return str(replace(link, version="9.0", declaration="0123456789"))


@pytest.mark.long
def test_a_link_that_does_not_fit_runs_nothing(shown: Shown) -> None:
    link = read_link(str(Playground(examples(), {}).explorer.link((0, 0))))
    markup = "<img src=x onerror=alert(1)>"
    shown.open("resend")
    for text, says in (
        (_newer(link), "of Epochfence 9.0"),
        (str(link)[:-9], "cut off or altered"),
        (str(replace(link, system="nothing")), "no system of that name"),
        (str(replace(link, system=markup)), "This version doesn't write such a link"),
        (markup, "cut off or altered"),
    ):
        shown.page.evaluate("(text) => { location.hash = text; }", text)
        shown.page.wait_for_selector(f'#message:has-text("{says}")', timeout=120_000)
        assert shown.where == "First state"
        assert "resend" in shown.page.inner_text("#about")
        assert shown.page.locator("img:not([src^='data:image/svg+xml'])").count() == 0


@pytest.mark.long
def test_it_is_readable(shown: Shown) -> None:
    shown.page.click("[data-puzzle=KAFKA-14402]")
    shown.page.wait_for_selector("#puzzle h2", timeout=120_000)
    shown.settled()
    for number in range(1, 4):
        shown.page.keyboard.press("1")
        shown.page.wait_for_selector(f"#steps li[data-step='{number}']")
        shown.settled()
    for width in (1366, 390):
        shown.page.set_viewport_size({"width": width, "height": 768})
        least, widest = shown.page.evaluate(MEASURE)
        assert LEAST_PRINT <= least < 100
        assert widest <= width
        assert shown.page.evaluate(BROKEN_WORDS) == []
        assert shown.page.evaluate(CUT_OFF) == 0
        assert width < 900 or shown.page.evaluate(OVERLAPS) == []
        for scheme in ("light", "dark"):
            shown.page.emulate_media(color_scheme=scheme)
            assert shown.page.evaluate(CONTRAST) == []


def test_the_checks_of_the_look_can_fail(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        "<html style='background: #fff'><p style='color: #aaa'>grey</p>"
        "<p id='state' style='width: 2em; word-break: break-all'>Unbreakable</p>"
    )
    assert [text for text, _ in page.evaluate(CONTRAST)] == ["grey"]
    assert page.evaluate(BROKEN_WORDS) == ["Unbreakable"]
    assert page.evaluate(CUT_OFF) == 0
    page.set_content("<p id='state' style='width: 2em; overflow: hidden'>Unbreakable</p>")
    assert page.evaluate(CUT_OFF) == 1


def test_what_is_not_pyodide_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"pyodide-{pyodide.VERSION}.tgz").write_bytes(b"another file")
    with pytest.raises(pyodide.FetchError, match="another hash"):
        pyodide.files(tmp_path)


def test_without_npm_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pyodide.FetchError, match="npm isn't installed"):
        pyodide.files(tmp_path)
    module = "epochfence.diagrams.playground.site"
    ended = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
