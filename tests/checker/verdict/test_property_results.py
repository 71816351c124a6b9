"""A run that goes on where a property breaks: what each of them comes to, for people and tools."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from epochfence.checker.check import Options, check
from epochfence.checker.many.baseline import compare, read_baseline
from epochfence.checker.native.codegen.sharing import MOST_PROPERTIES
from epochfence.checker.output.junit import to_junit
from epochfence.checker.output.sarif import to_sarif
from epochfence.checker.output.summary import tell
from epochfence.checker.verdict.result import Verdict
from epochfence.checker.verdict.violation import DEADLOCK, RANGE
from epochfence.language import (
    DeclarationError,
    Instance,
    Row,
    after,
    instantiate,
    step_property,
)
from epochfence.tests.checker.output.test_result_schema import as_read, is_valid
from epochfence.tests.cli.test_cli import ROOT, epochfence
from epochfence.tests.systems.counter import Ticker

ON = Options(keep_going=True)
CHECK = ("check", ROOT / "docs" / "examples" / "retry.py", "--protocol", "1")
WANTED = {"Small": None, "Low": 3, "Lower": 2, "NoLeap": 4, DEADLOCK: 5}


def counting(highest: int = 6, *more: int) -> Instance:
    """A counter that stops at 6, or has no room for that, and leaps once; with an invariant for
    each of the further numbers."""
    counter = Ticker(highest)
    x = counter.x
    rows = (Row("leap", when=x == 3, set={x: x + 2}), Row("up", when=x < 6, set={x: x + 1}))
    return counter.instance(
        counter.below(7),
        counter.below(3, "Low"),
        counter.below(2, "Lower"),
        step_property("NoLeap", after(x) <= x + 1, "x goes up by one."),
        *(counter.below(7 + at, f"Below{at}") for at in more),
        rows=rows,
        terminal=False,
    )


def test_each_has_its_shortest_counterexample() -> None:
    result = check(counting(), ON)
    assert result.verdict is Verdict.BROKEN
    found = {item.name: item for item in result.properties}
    # the leap leaves out a number: x is 6 after 5 steps
    assert {name: x.trace_length for name, x in found.items()} == WANTED
    assert found["Small"].verdict == "holds"
    for item in found.values():
        assert (item.trace is None) == (item.verdict == "holds")
        if item.trace is not None:
            assert len(item.trace.steps) == item.trace_length
    assert result.trace == found["Lower"].trace
    assert result.reason == "4 of 5 properties don't hold: Low, Lower, NoLeap, no deadlock."
    assert (result.states, result.depth) == (6, 6)
    is_valid(as_read(result))


def test_behind_a_step_out_of_range_nothing_is_known() -> None:
    result = check(counting(5), ON)
    found = {item.name: (item.verdict, item.trace_length) for item in result.properties}
    assert found == {
        "Small": ("unknown", None),
        "Low": ("broken", 3),
        "Lower": ("broken", 2),
        "NoLeap": ("broken", 4),
        RANGE: ("broken", 5),
    }
    assert result.verdict is Verdict.BROKEN


def test_a_deadlock_alone_is_one() -> None:
    instance = instantiate(counting().system, properties=["Small"])
    result = check(instance, ON)
    assert result.verdict is Verdict.DEADLOCK
    assert result.trace is not None
    assert result.reason == result.trace.conclusion
    assert check(instance, Options(keep_going=True, deadlock=False)).verdict is Verdict.HOLDS


def test_brief_results_have_the_same_verdicts_and_lengths() -> None:
    shown, brief = check(counting(), ON), check(counting(), Options(keep_going=True, brief=True))
    assert brief.verdict is shown.verdict
    assert brief.trace is None
    assert [(x.name, x.verdict, x.trace_length, x.trace) for x in brief.properties] == [
        (x.name, x.verdict, x.trace_length, None) for x in shown.properties
    ]


def test_memory_that_runs_out_leaves_what_was_found() -> None:
    result = check(counting(), Options(keep_going=True, memory=1))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert {item.verdict for item in result.properties} == {"unknown"}


def test_more_properties_than_it_tells_apart_are_refused(tmp_path: Path) -> None:
    assert check(counting(6, *range(MOST_PROPERTIES - 4)), ON).verdict is Verdict.BROKEN
    many = counting(6, *range(MOST_PROPERTIES))
    with pytest.raises(DeclarationError, match=f"{MOST_PROPERTIES} properties .* not 48"):
        check(many, ON)
    # without going on, any number is looked for
    result = check(many)
    assert [(x.name, x.trace_length) for x in result.properties if x.verdict == "broken"] == [
        ("Lower", 2)
    ]
    with pytest.raises(DeclarationError, match="keep_going can't be used with Spark"):
        check(counting(), Options(keep_going=True, checkpoint=tmp_path))


def test_it_is_told_to_people_and_tools(tmp_path: Path) -> None:
    instance = counting()
    result = check(instance, ON)
    console = Console(file=StringIO(), width=100)
    tell(result, console)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    for number, name in enumerate(("Lower", "Low", "NoLeap", DEADLOCK), 1):
        assert f"Counterexample {number} of 4, the shortest for {name}" in text
    assert "Low doesn't hold after 3 steps" in text
    (suite,) = ElementTree.fromstring(to_junit(instance, result))
    failed = {case.attrib["name"]: case[0].text or "" for case in suite if len(case)}
    assert list(failed) == ["Low", "Lower", "NoLeap", DEADLOCK]
    assert "NoLeap doesn't hold in step 4" in failed["NoLeap"]
    (run,) = json.loads(to_sarif(instance, result, tmp_path))["runs"]
    rules = [item["ruleId"] for item in run["results"]]
    assert rules == ["Lower", "Low", "NoLeap", "deadlock"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(rules)


def test_it_is_compared_with_a_baseline(tmp_path: Path) -> None:
    instance = counting()
    told = tmp_path / "told.json"
    told.write_text(json.dumps(check(instance, ON).as_json()))
    baseline = read_baseline(told, instance)
    assert compare(baseline, check(instance, ON)).changed == ()
    first = {name: new for name, _, new in compare(baseline, check(instance)).changed}
    assert first["Low"] == "unknown"
    assert DEADLOCK in first


def test_the_command_goes_on(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    ended = epochfence(*CHECK, "--keep-going", "--progress", "--no-deadlock", "--json", told)
    assert ended.code == 13
    assert (
        "2 of 3 properties don't hold: Answered, CanBeAnswered. (exit 13, LEADS_TO_BROKEN)"
        in ended.out
    )
    items = {item["name"]: item for item in json.loads(told.read_text())["properties"]}
    assert items["Answered"]["trace"]["loop"] is not None
    assert len(items["CanBeAnswered"]["trace"]["steps"]) == 3
    for more, says in (
        (("--checkpoint", tmp_path / "saved"), "--keep-going can't be used with --checkpoint"),
        (("--engine", "spark"), "--keep-going needs --engine local"),
    ):
        refused = epochfence(*CHECK, "--keep-going", *more)
        assert refused.code == 2
        assert says in refused.err
