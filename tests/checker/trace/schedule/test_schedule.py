"""Runs of the checker as schedules: what they are for clients and brokers, tried by a client that
nobody here wrote, and as tests in Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from epochfence.checker.check import check
from epochfence.checker.trace.chart.chart import Chart, chart_of
from epochfence.checker.trace.schedule.java_test import java_test
from epochfence.checker.trace.schedule.schedule import NoScheduleError, Schedule, schedule_of
from epochfence.cli import app
from epochfence.model.serve.faults.faults import Faults
from epochfence.model.serve.server import Server
from epochfence.spec.bugs import bug_of
from epochfence.tests.model.serve.clients import (
    commit_one_and_begin_another,
    eventually,
    in_transactions,
    read,
)


def chart_of_bug(name: str) -> Chart:
    """The chart of the shortest run that shows a known bug."""
    found = check(bug_of(name).broken()).trace
    assert found is not None
    return chart_of(found)


def faults_of(schedule: Schedule) -> list[dict[str, Any]]:
    """Its faults, each of which a script may have."""
    faults = Faults()
    for fault in schedule.faults:
        faults.add(dict(fault))
    return [{key: fault[key] for key in fault if key != "name"} for fault in schedule.faults]


def test_a_batch_that_comes_behind_the_abort() -> None:
    schedule = schedule_of(chart_of_bug("KAFKA-14402"), by_clock=True)
    assert [call.what for call in schedule.calls] == [
        "initTransactions",
        "beginTransaction",
        "send",
        "abortTransaction",
    ]
    until = {"request": "EndTxn", "nth": 1, "ms": 500}
    held = {"do": "hold", "on": {"request": "Produce", "nth": 1}, "until": until}
    assert faults_of(schedule) == [held]
    assert len(schedule.expiries) == 1
    name, files = java_test(schedule, "NoHangingTransaction", "a reason */", 1)
    assert name == "NoHangingTransactionTest"
    assert ElementTree.fromstring(files["pom.xml"]) is not None
    assert json.loads(files["src/test/resources/faults.json"]) == list(schedule.faults)
    test = files[f"src/test/java/{name}.java"]
    order = ("initTransactions", "await(", "beginTransaction", "send", "awaitRecords",
             "abortTransaction", "allFired", "nothingHangs")  # fmt: skip
    places = [test.index(f"run.{call}") for call in order]
    assert places == sorted(places)
    assert test.count("*/") == 1


@pytest.mark.slow(2)
def test_a_client_that_hears_of_its_abort_behind_a_late_batch() -> None:
    held, answer = faults_of(schedule_of(chart_of_bug("KIP-890b"), by_clock=True))
    assert (held["do"], held["on"]["request"]) == ("hold", "Produce")
    assert answer == {
        "do": "hold_answer",
        "on": {"request": "EndTxn", "nth": 1},
        "until": {"request": "Produce", "nth": 1, "ms": 500},
    }


@pytest.mark.slow(2)
def test_a_batch_of_the_next_transaction_is_not_the_late_one_again() -> None:
    """The client has given it up: its connection stays."""
    held, answer = faults_of(schedule_of(chart_of_bug("redpanda-8cd0bc66"), by_clock=True))
    assert (held["do"], held["on"]) == ("hold", {"request": "Produce", "nth": 1})
    assert (answer["do"], answer["on"]) == ("hold_answer", {"request": "Produce", "nth": 2})


def test_a_transaction_that_times_out() -> None:
    chart = chart_of_bug("KIP-588")
    (fault,) = faults_of(schedule_of(chart, by_clock=False))
    on = {"request": "AddPartitionsToTxn", "nth": 1}
    assert fault == {"do": "time_out_transaction", "on": on, "when": "after"}
    schedule = schedule_of(chart, by_clock=True)
    assert faults_of(schedule) == [{"do": "hold_answer", "on": on, "until": {"ms": 13_000}}]
    _, files = java_test(schedule, "NotFencedByItself", "", 1)
    test = files["src/test/java/NotFencedByItselfTest.java"]
    assert '"transaction.timeout.ms", "1000"' in test
    assert "Thread.sleep(13000)" in test
    assert "src/test/java/Epochs.java" not in files


@pytest.mark.slow(1)
def test_a_late_end_by_a_client_s_own_calls() -> None:
    """What the run says comes to be: a record is committed that nobody has asked to commit."""
    schedule = schedule_of(chart_of_bug("KIP-890c"), by_clock=False)
    (fault,) = faults_of(schedule)
    assert (fault["do"], fault["on"]["request"]) == ("delay", "EndTxn")
    with Server("3.9", topics={"orders": 1}) as server:
        server.faults.add(dict(schedule.faults[0]))
        producer = in_transactions(server.bootstrap, "id")
        commit_one_and_begin_another(producer)
        eventually(lambda: server.answered["EndTxn"] == 2)
        assert server.faults.all_fired
        assert read(server.bootstrap, "orders") == ["txn0", "txn1"]


def test_what_happens_inside_of_brokers_is_no_schedule() -> None:
    with pytest.raises(
        NoScheduleError, match=r"step \d+ is late answer to a marker, which happens ins"
    ):
        schedule_of(chart_of_bug("KAFKA-16352"), by_clock=True)


def test_a_property_that_nobody_sees_from_outside() -> None:
    nothing = Schedule((), (), (), ())
    with pytest.raises(NoScheduleError, match="PrepareCompletes isn't visible from outside"):
        java_test(nothing, "PrepareCompletes", "", 1)


@pytest.mark.slow(2)
def test_the_commands_take_a_trace(tmp_path: Path) -> None:
    trace, lease = tmp_path / "trace.itf.json", tmp_path / "lease.itf.json"
    run = CliRunner()
    hanging = ["check", "transactions", "--protocol", "2.5", "--property", "NoHangingTransaction"]
    hanging += ["--set", "partitions=1", "--set", "transactions=1", "--set", "producers=1"]
    assert run.invoke(app, [*hanging, "--trace", str(trace)]).exit_code == 12
    assert run.invoke(
        app, ["check", "docs/examples/lease.py", "--protocol", "1", "--trace", str(lease)]
    ).exit_code in (12, 13)
    serve = ["serve", "--port", "0", "--seconds", "0"]
    done = run.invoke(app, [*serve, "--trace", str(trace)])
    assert done.exit_code == 20, done.output
    assert done.stdout.startswith("Kafka 2.5 in memory")
    assert "clients of the trace: producer0 initTransactions(); " in done.stdout
    assert "DID NOT FIRE: 0 such Produce came" in done.stdout
    export = ["export", "junit", str(trace), "-o", str(tmp_path / "java")]
    assert run.invoke(app, export).exit_code == 0
    made = {path.name for path in (tmp_path / "java").rglob("*") if path.is_file()}
    assert made == {"pom.xml", "Run.java", "NoHangingTransactionTest.java", "faults.json"}
    for arguments, told in (
        ([*serve, "--trace", str(lease)], "no client in it sends a request of Kafka's"),
        (
            [*serve, "--trace", str(trace), "--protocol", "4.3"],
            "the trace is of release 2.5, not 4.3",
        ),
        ([*serve, "--trace", str(tmp_path / "none")], "can't read"),
        (["export", "junit", str(lease), "-o", str(tmp_path / "no")], "no client in it sends"),
        ([*export, "--protocol", "4.3"], "leave out these options"),
    ):
        wrong = run.invoke(app, arguments)
        assert (wrong.exit_code, wrong.stderr.strip().count("\n")) == (2, 0), wrong.output
        assert told in wrong.stderr
    assert not (tmp_path / "no").exists()
