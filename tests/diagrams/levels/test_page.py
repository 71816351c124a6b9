"""State diagrams in levels: what the page says, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.trace.trace import Trace
from epochfence.cli import app
from epochfence.diagrams.levels.page import diagrams_of, to_html
from epochfence.language import (
    Instance,
    Machine,
    Row,
    System,
    Table,
    enum,
    event,
    instantiate,
    invariant,
)
from epochfence.spec.systems import SHIPPED
from epochfence.tests.diagrams.drawing.test_overview import LEAST_PRINT, MEASURE, MOST_WORDS
from epochfence.tests.generated import generated

ROOT = Path(__file__).parents[3]
LEASE = str(ROOT / "docs" / "examples" / "lease.py")
ORDERS = str(Path(__file__).parents[1] / "orders.py")
SAME_AT_EVERY_RELEASE = (  # all edges: rows may differ
    "authorization",
    "coordinators",
    "delivery",
    "replication",
)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"

Run = tuple[Instance, Trace]


@pytest.fixture(scope="module")
def run() -> Run:
    """The counterexample of the lease."""
    instance = instantiate(load_system(LEASE), "1")
    trace = check(instance).trace
    assert trace is not None
    return instance, trace


@pytest.fixture(scope="module")
def orders() -> str:
    system = load_system(ORDERS)
    return to_html(system, diagrams_of(system))


@pytest.fixture(scope="module")
def lease(run: Run) -> str:
    system = run[0].system
    return to_html(system, diagrams_of(system), shown="1", run=run)


# What it says ------------------------------------------------------------------------------------


def test_it_needs_no_network(orders: str, lease: str) -> None:
    for page in (orders, lease):
        assert re.findall(r"(?:src|href)=[\"'](?!#)|url\(|@import|https?://", page) == []


def test_each_edge_has_its_rows_with_guard_source_and_releases(orders: str) -> None:
    edge = orders[orders.index("Paid → Refunded") :].partition("</details>\n      <details")[0]
    assert "<b>pay back</b> <i>refund</i> <small>2–3</small>" in edge
    place = orders[orders.index("Draft → Placed") :].partition("</details>\n      <details")[0]
    assert "<b>written</b> <i>in force</i>" in place
    assert "<b>Place</b> <i>place</i>" in place  # what it is after
    for text in ("state == Draft", "The shop", "goto Refunded", "pending = None"):
        assert text in orders.partition("<template")[2]


def test_what_a_declaration_says_is_no_markup() -> None:
    machine = Machine("machine")
    step = enum("Step", "ONE", "TWO")
    state = machine.state_field("state", step)
    row = Row(HOSTILE, when=state == step.ONE, goto=step.TWO, source=HOSTILE, note=HOSTILE)
    table = Table(machine, event(f"tick {HOSTILE}"), (row,))
    system = System(
        f"hostile {HOSTILE}", (table,), (invariant("Holds", state == state, HOSTILE),), doc=HOSTILE
    )
    page = to_html(system, diagrams_of(system))
    assert HOSTILE not in page
    assert page.count("</script>") == 2  # of the data, and of the program
    assert "&lt;img src=x" in page


# In a browser ------------------------------------------------------------------------------------


class Opened:
    """A page in a browser, 1,280 pixels wide; `errors` are what its console says is wrong."""

    def __init__(self, browser: Any, file: Path, anchor: str = "", scheme: str = "light") -> None:
        self.errors: list[str] = []
        size = {"width": 1280, "height": 900}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(file.as_uri() + anchor)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.textContent.replace(/\\s+/g, ' ').trim()")

    def states(self, where: str = "") -> set[str]:
        """The states of the picture that is shown, or those of a class."""
        every = self.page.query_selector_all(f".picture:not([hidden]) .node{where}")
        return {each.get_attribute("data-state") for each in every}

    def edges(self, where: str = "") -> set[str]:
        """The edges of the picture that is shown, or those of a class, by what is read of them."""
        every = self.page.query_selector_all(f".picture:not([hidden]) .edge[data-pair]{where}")
        return {each.get_attribute("aria-label").partition(":")[0] for each in every}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated pages of the shipped systems."""
    folder = tmp_path_factory.mktemp("published")
    for name in SHIPPED:
        (folder / f"{name}.html").write_bytes(generated()[f"diagrams/{name}.html"])
    return folder


@pytest.fixture(scope="module")
def shown(browser: Any, orders: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The orders, for every test that leaves them as they were."""
    file = tmp_path_factory.mktemp("levels") / "orders.html"
    file.write_text(orders, encoding="utf-8")
    opened = Opened(browser, file)
    yield opened
    assert opened.errors == []
    opened.page.close()


@pytest.fixture(scope="module")
def laid(browser: Any, lease: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The lease with its counterexample."""
    file = tmp_path_factory.mktemp("levels") / "lease.html"
    file.write_text(lease, encoding="utf-8")
    opened = Opened(browser, file, scheme="dark")
    yield opened
    assert opened.errors == []
    opened.page.close()


def test_a_slider_fades_what_a_release_does_not_have(shown: Opened) -> None:
    assert shown.edges() >= {"From Paid to Shipped", "From Paid to Refunded"}
    shown.page.focus("#release")
    seen: dict[str, tuple[set[str], set[str]]] = {}
    for _ in range(3):
        shown.press("ArrowRight")
        seen[shown.page.inner_text("#at")] = shown.states(".gone"), shown.edges(".gone")
    late, early = "From Paid to Refunded", {"From Paid to Shipped", "From Placed to Shipped"}
    assert seen == {
        "1": ({"Refunded"}, {late}),
        "2": (set(), {"From Paid to Shipped"}),
        "3": ({"Shipped"}, early),
    }
    assert "not in this release" in shown.page.evaluate(
        "getComputedStyle(document.querySelector('.pair.gone > summary'), '::after').content"
    )
    shown.press("Home")
    assert shown.page.inner_text("#at") == "all releases"
    assert shown.states(".gone") == set()
    shown.press("]")
    assert shown.page.inner_text("#at") == "1"
    shown.press("[")


def test_a_link_keeps_the_machine_and_the_release(browser: Any, shown: Opened) -> None:
    shown.press("]")
    shown.press("]")
    link = shown.page.url
    assert link.endswith("&release=2")
    machine = shown.page.inner_text("[role=tab][aria-selected=true]")
    shown.press("[")
    shown.press("[")
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    where = link.partition("#")[0]
    for fragment, at in (
        (link.partition("#")[2], "2"),
        ("%E0%A4%A&release=<img src=x>", "all releases"),
        ("none&release=9", "all releases"),
    ):
        page.goto("about:blank")
        page.goto(f"{where}#{fragment}")
        assert page.inner_text("#at") == at
        assert page.inner_text("[role=tab][aria-selected=true]") == machine
    page.close()
    assert wrong == []


def test_an_edge_and_a_row_are_opened_by_keyboard(shown: Opened) -> None:
    shown.page.focus("#release")
    label = ""
    for _ in range(12):
        shown.press("Tab")
        label = shown.page.evaluate("document.activeElement.getAttribute('aria-label') || ''")
        if label.startswith("From Placed to Paid"):
            break
    shown.press("Enter")
    assert shown.focused().startswith("Placed → Paid")
    assert shown.page.locator(".pair:visible").count() == 1
    shown.press("Tab")
    assert shown.focused() == "Pay pay"
    shown.press("Enter")
    told = shown.page.locator(".told-row:visible").inner_text()
    for text in ("all releases", "The till", "goto if(request.fast & express, Shipped, Paid)"):
        assert text in told
    shown.press("Escape")
    assert shown.page.evaluate("document.activeElement.getAttribute('aria-label')") == label
    assert shown.page.locator(".pair:visible").count() > 1


def test_a_state_opens_what_leads_to_it_and_from_it(shown: Opened) -> None:
    shown.page.focus(".node[data-state=Paid]")
    shown.press(" ")
    pairs = shown.page.locator(".pair:visible > summary").all_inner_texts()
    assert [text.partition(" 1 row")[0] for text in pairs] == [
        "Placed → Paid",
        "Paid → Shipped",
        "Paid → Refunded",
    ]
    shown.press("Escape")


def test_a_trace_is_laid_over_and_stepped_by_keyboard(laid: Opened, run: Run) -> None:
    trace = run[1]
    last = len(trace.steps)
    assert (laid.page.inner_text("#where"), laid.page.inner_text("#at")) == (
        f"First state, {last} to come",
        "1",
    )
    for number in range(1, last + 1):
        laid.press("ArrowRight")
        assert laid.page.inner_text("#where") == f"Step {number} of {last}"
        states = trace.data[number]["client.state"]
        assert laid.page.inner_text(".places") == ", ".join(
            f"{name} {state}" for name, state in states.items()
        )
        assert laid.states(".here") == set(states.values())
        tokens = laid.page.evaluate("""() => [...document.querySelectorAll('.token')].map(
          (each) => [each.textContent, each.closest('.node').dataset.state])""")
        assert dict(tokens) == states
        before = trace.data[number - 1]["client.state"]
        moved = {
            f"From {before[name]} to {state}"
            for name, state in states.items()
            if state != before[name]
        }
        assert laid.edges(".now") == moved & laid.edges()
        assert laid.states(".now") == {move.rpartition(" ")[2] for move in moved}
    taken: dict[tuple[str, str], list[str]] = {}
    for number, states in enumerate(trace.data[1:], 1):
        before = trace.data[number - 1]["client.state"]
        for name, state in states["client.state"].items():
            if state != before[name]:
                taken.setdefault((before[name], state), []).append(str(number))
    told = {", ".join(taken[ends]) for ends in (("IDLE", "ASKING"), ("HOLDING", "WRITING"))}
    assert set(laid.page.locator(".chip").all_text_contents()) == told
    assert trace.steps[-1].row in laid.page.inner_text("#detail")
    laid.press("Home")
    assert laid.edges(".taken") | laid.edges(".now") == set()
    laid.press("End")


def test_fields_have_their_values_and_open_the_rows_that_write_them(laid: Opened, run: Run) -> None:
    laid.press("End")
    laid.page.focus("#tab-client")
    laid.press("ArrowRight", "ArrowRight")
    assert laid.focused() == "storage"
    part = laid.page.locator(".picture:not([hidden]) .part")
    assert part.locator(".value").inner_text() == str(run[1].data[-1]["storage.written"])
    assert "now" in part.get_attribute("class")
    part.focus()
    laid.press("Enter")
    assert laid.focused() == "storage.written 1 row"
    laid.press("Tab")
    assert laid.focused() == "Write write"
    laid.press("Escape")
    laid.page.click("#tab-client")


def test_a_sequence_has_a_box_for_each_of_its_places(browser: Any, published: Path) -> None:
    opened = Opened(browser, published / "transactions.html", "#partition")
    window = opened.page.locator(".part[aria-label^='producers.batch_metadata']")
    assert window.locator(".place:visible").count() == 1  # cached_batches, as it is by default
    assert opened.page.locator(".part[aria-label^='log:'] .place:visible").count() > 1
    opened.page.close()


def test_print_has_every_row_that_leads_along_an_edge(shown: Opened) -> None:
    before = shown.page.locator(".pair[open]").count()
    shown.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    every = shown.page.locator(".pairs:not([hidden]) li").count()
    assert shown.page.locator(".pair[open] li:visible").count() == every > 5
    shown.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.page.locator(".pair[open]").count() == before


def measure(opened: Opened) -> None:
    shown = ".picture:not([hidden]) svg"
    if opened.page.locator(shown).count():
        least, over, crossed, words = opened.page.evaluate(
            MEASURE.replace("querySelector('svg')", f"querySelector('{shown}')")
        )
        assert least >= LEAST_PRINT
        assert over == []
        assert crossed == []
        assert words <= MOST_WORDS
    small = opened.page.evaluate("""() => {
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      let least = Infinity;
      while (texts.nextNode()) {
        const of = texts.currentNode.parentElement;
        if (texts.currentNode.data.trim() && of.getClientRects().length && !of.closest('svg'))
          least = Math.min(least, parseFloat(getComputedStyle(of).fontSize));
      }
      return [least, document.documentElement.scrollWidth];
    }""")
    assert LEAST_PRINT <= small[0] < 100
    assert small[1] <= 1280


def test_numbers_and_names_on_a_picture_cover_no_text(laid: Opened) -> None:
    laid.press("End")
    measure(laid)


@pytest.mark.parametrize("name", SHIPPED)
def test_generated_pages_can_be_read(name: str, published: Path, browser: Any) -> None:
    opened = Opened(browser, published / f"{name}.html")
    faded = 0
    for tab in opened.page.locator("[role=tab]").all():
        tab.click()
        measure(opened)
        opened.page.focus("#release")
        for key in ("Home", "]", "End"):
            opened.press(key)
            faded += opened.page.locator(".picture:not([hidden]) .gone").count()
    assert (faded == 0) == (name in SAME_AT_EVERY_RELEASE)
    assert opened.errors == []
    opened.page.close()


def test_on_a_phone_a_wide_picture_begins_at_its_middle(browser: Any, published: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((published / "transactions.html").as_uri())
    box = page.evaluate("""() => {
      const [part, place] = [".picture:not([hidden]) svg", ".pictures"].map((name) =>
        document.querySelector(name).getBoundingClientRect());
      return [part.width - place.width, part.left + part.right - place.left - place.right];
    }""")
    assert box[0] > 100
    assert abs(box[1]) < 3
    told = page.locator("#at").bounding_box()
    assert told["x"] + told["width"] < 370  # beside the slider
    page.close()


# The command -------------------------------------------------------------------------------------


def called(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["diagram", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace of the lease, and some that are wrong."""
    folder = tmp_path_factory.mktemp("traces")
    words = ["check", LEASE, "--protocol", "1", "--trace", str(folder / "lease.itf.json")]
    assert CliRunner().invoke(app, words).exit_code == 12
    text = (folder / "lease.itf.json").read_text(encoding="utf-8")
    (folder / "cut.itf.json").write_text(text[: len(text) // 2], encoding="utf-8")
    other = json.loads(text)
    other["states"][1]["client.state"]["#map"][0][1] = "WRITING"
    (folder / "jump.itf.json").write_text(json.dumps(other), encoding="utf-8")
    return folder


def test_a_page_with_a_trace_is_written(traces: Path, tmp_path: Path) -> None:
    page = tmp_path / "lease.html"
    assert called(LEASE, "-o", page, "--trace", traces / "lease.itf.json") == (0, "", "")
    text = page.read_text(encoding="utf-8")
    assert '<body data-shown="1">' in text
    assert "NoStaleWrite doesn&#39;t hold" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((ORDERS, "--trace", "lease.itf.json"), "not of orders"),
        ((LEASE, "--trace", "lease.itf.json", "--protocol", "2"), "is a trace of release 1, not 2"),
        ((LEASE, "--trace", "cut.itf.json"), "not valid JSON"),
        ((LEASE, "--trace", "jump.itf.json"), "state 1: no row leads to it"),
        ((LEASE, "--trace", "none.json"), "can't read"),
        ((LEASE, "--trace", "."), "can't read"),
        ((LEASE, "--protocol", "9"), "choose one of 1, 2"),
        (("transactions", "--machine", "clock"), "transactions writes to a field of clock"),
        ((LEASE, "--detail", "rows"), "it has every row"),
        ((LEASE, "-o", "none/page.html"), "no folder"),
        ((LEASE, "-o", "page.svg", "--trace", "lease.itf.json"), "-o FILE.html"),
    ],
)
def test_a_mistake_is_said_in_a_line_and_nothing_is_written(
    words: tuple[str, ...], said: str, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(traces)
    before = sorted(traces.iterdir())
    page = () if "-o" in words else ("-o", "page.html")
    code, out, line = called(*page, *words)
    assert (code, out) == (2, "")
    assert said in line
    assert line.startswith("epochfence: ")
    assert line.count("\n") == 1
    assert sorted(traces.iterdir()) == before
