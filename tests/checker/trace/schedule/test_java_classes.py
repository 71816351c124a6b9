"""Runs of the checker as tests in Java of Kafka's own coordinators, as text; Maven runs some in
tests/brokers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from epochfence.checker.trace.chart.chart import Chart, ChartStep
from epochfence.checker.trace.schedule.java_classes import ENDS, class_test
from epochfence.checker.trace.schedule.schedule import NoScheduleError
from epochfence.cli import app


def calls(chart: Chart, broken: str = "EpochsNotWasted") -> list[str]:
    """What the test of a run calls."""
    name, files = class_test(chart, broken, "a reason */", "2.5", version=1, largest=3)
    assert ElementTree.fromstring(files["pom.xml"]) is not None
    test = files[f"src/test/java/{name}.java"]
    assert test.count("*/") == 1
    return calls_in(test)


def calls_in(test: str) -> list[str]:
    """What a test calls, without the numbers of its steps."""
    found = re.findall(r"^ +(?:var \w+ = )?run\.(\w+\(.*\));", test, re.MULTILINE)
    return [call for call in found if not call.startswith("step(")]


@pytest.mark.slow(2)
def test_a_fence_that_cannot_be_written(tmp_path: Path) -> None:
    # KAFKA-9666, which is red at 2.5.1 and green at 2.6.3
    trace, made = tmp_path / "trace.itf.json", tmp_path / "made"
    commands = CliRunner()
    assert commands.invoke(app, ["bugs", "KAFKA-9666", "--trace", str(trace)]).exit_code == 0
    told = commands.invoke(app, ["export", "junit", str(trace), "-o", str(made)])
    assert "EpochsNotWastedTest, 15 steps, on Kafka's classes" in told.output
    test = (made / "src/test/java/EpochsNotWastedTest.java").read_text()
    assert 'new Coordinators(1, "2.5")' in test
    assert calls_in(test) == [
        'initProducerId("producer0")', "takes(asked1)", "logAppend()", 'told(asked1, "NONE")',
        'addPartitions("producer0", 0)', 'initProducerId("producer1")', "takes(asked2)",
        "logAppend()", "takes(asked3)", "continueFence()", "appendFailure()",
        'told(asked3, "COORDINATOR_NOT_AVAILABLE")', 'initProducerId("producer1")',
        "takes(asked4)", "continueFence()", "epochsNotWasted()",
    ]  # fmt: skip


def step(event: str, detail: str = "", *changes: str) -> ChartStep:
    """A step of the coordinator's by itself."""
    return ChartStep(1, "transaction", event, detail, "a row", changes, None, ())


def chart(*steps: ChartStep) -> Chart:
    """A run of these steps."""
    numbered = tuple(replace(each, number=number) for number, each in enumerate(steps, 1))
    return Chart(("transaction",), numbered, ())


def test_what_coordinators_do_by_themselves() -> None:
    found = calls(
        chart(
            step("coordinator failover", "yes"),
            step("coordinator failover", "no"),
            step("send marker", "partition1"),
            step("late answer to a marker"),
            step("transaction timeout"),
            step("begin completion"),
        )
    )
    assert found == [
        "failOver(true)",
        "failOver(false)",
        "sendMarker(3, 1)",
        "lateAnswer()",
        "timeOut()",
        "epochsNotWasted()",
    ]


@pytest.mark.parametrize(
    "change",
    ["producer_epoch: 2 → 3", "producer_id: producer_id0 → producer_id1"],
)
def test_epochs_begin_late_where_a_run_uses_them_up(change: str) -> None:
    assert calls(chart(step("log append", "", change)))[0] == "beginBefore(3)"
    assert "beginBefore(3)" not in calls(chart(step("log append", "", "producer_epoch: 0 → 1")))


def test_what_coordinators_cannot_take() -> None:
    with pytest.raises(NoScheduleError, match="step 2 is transactional id expiry, which"):
        calls(chart(step("log append"), step("transactional id expiry")))
    with pytest.raises(NoScheduleError, match="OutcomeAsReported isn't visible on a coordinator"):
        calls(chart(), "OutcomeAsReported")


@pytest.mark.parametrize("broken", ENDS)
def test_each_property_has_its_method(broken: str) -> None:
    _, files = class_test(chart(), broken, "", "", version=2, largest=3)
    assert f"void {ENDS[broken]}()" in files["src/test/java/Coordinators.java"]
