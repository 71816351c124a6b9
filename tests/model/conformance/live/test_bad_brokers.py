"""Brokers that close connections, don't answer, answer what nobody asked, or crash: a run finds it,
goes on, and keeps all results."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from epochfence.model.cluster import STATE_PARTITIONS
from epochfence.model.conformance.difference import Difference
from epochfence.model.conformance.live import run
from epochfence.model.conformance.live.broker import BrokerSystem
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.run import Run
from epochfence.model.conformance.live.suites.directed_suite import Way
from epochfence.model.conformance.possible_states import RowName
from epochfence.model.conformance.session import DisagreementError, Session
from epochfence.model.conformance.simulated_clients import UNKNOWN_ID
from epochfence.model.serve.server import Server
from epochfence.model.wire.listener import LOST, Answer, Request, Silence
from epochfence.tests.cli.test_cli import ROOT
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running
from epochfence.tests.model.conformance.live.test_run import conform

Told = dict[str, Any]
OTHER_ID = (7).to_bytes(4) + bytes(40)


def no_batches(_: Request, told: Told) -> Told:
    return told | {"responses": []}


def other_partition(_: Request, told: Told) -> Told:
    (topic,) = told["responses"]
    (one,) = topic["partition_responses"]
    return told | {"responses": [topic | {"partition_responses": [one | {"index": 99_999}]}]}


BAD: dict[str, tuple[str, Callable[[Request, Told], Told | Answer | Silence], str]] = {
    "closes": ("EndTxn", lambda *_: LOST, "the connection was closed"),
    "delays": ("EndTxn", lambda _, told: Answer(told, after=30), "nothing came within 0.5 s"),
    "truncates": ("Produce", lambda *_: Answer({}, data=bytes(7)), "its response to Produce can't"),
    "another's": ("Produce", lambda *_: Answer({}, data=OTHER_ID), "a response with another req"),
    "nothing": ("Produce", no_batches, "its response has 0 entries instead of 1"),
    "other": ("Produce", other_partition, "its response isn't about the index of the request"),
}
"""What is bad: of which request, what comes in place of its answer, and how that is reported."""


@pytest.mark.slow(2)
@pytest.mark.parametrize("what", BAD)
def test_no_answer_is_a_finding_and_the_run_goes_on(what: str, tmp_path: Path) -> None:
    name, bad, reported = BAD[what]
    junit, found = tmp_path / "j.xml", tmp_path / "j.json"

    def fault(request: Request, told: Told) -> Told | Answer | Silence:
        return bad(request, told) if request.name == name else told

    with running(OracleBroker("4.3", fault=fault)) as place:
        done = conform(
            place, "--suite", "random", "--seconds", "1", "--timeout", "0.5", "--junit", str(junit),
            "--json", str(found),
        )  # fmt: skip
    assert done.exit_code == 12, done.output
    assert done.output.endswith("DISAGREES (exit 12)\n")
    told = json.loads(found.read_text())
    those = [each for each in told["disagreements"] if each["trace"][-1]["request"] == name]
    assert those
    for one in those:
        assert reported in one["response"]["no_answer"]
        assert one["repeated"]
        asked = [line["request"] for line in one["trace"]]
        is_nobody_s = one["trace"][-1]["producer_id"] == UNKNOWN_ID
        # with the requests before it, of which somebody's has one that gives the producer id
        assert len(asked) == 1 if is_nobody_s else asked[0] == "InitProducerId"
        assert len(asked) <= 3
    assert any(len(one["trace"]) > 1 for one in those)
    assert {request["request"] for request in told["outcomes"]} >= {"InitProducerId", name}
    assert int(Xml.fromstring(junit.read_text()).get("failures", 0)) == len(told["causes"])
    assert told["ended_early"] is None


def test_a_crash_is_a_finding_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BACK_S", 0.2)
    broker = OracleBroker("4.3")

    def fault(request: Request, told: Told) -> Told | Silence:
        if request.name == "EndTxn":
            broker.crash(0)
            return LOST
        return told

    broker.fault = fault
    with running(broker) as place:
        cluster = LiveCluster(place)
        made = Run(cluster, place, "4.3")
        made.random(20)
        cluster.close()
    (finding,) = made.report.findings
    assert str(finding.disagreement).startswith("no answer\n1 InitProducerId(")
    assert "EndTxn(" in str(finding.disagreement)
    assert "doesn't answer: Connection refused" in (made.report.ended_early or "")


def test_a_crash_that_a_command_repairs_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker crashes at every end, and each crash is repaired."""
    broker = OracleBroker("4.3")
    restarted: list[int] = []

    def fault(request: Request, told: Told) -> Told | Silence:
        if request.name == "EndTxn":
            broker.crashed.add(0)
            return LOST
        return told

    def restart() -> None:
        restarted.append(len(broker.crashed))
        broker.crashed.clear()

    broker.fault = fault
    with running(broker) as place:
        cluster = LiveCluster(place)
        made = Run(cluster, place, "4.3", restarts=restart)
        monkeypatch.setattr(cluster, "revive", lambda _=0.0: restart())  # it listens on, here
        made._drawn(run.random.Random("0"))  # pyright: ignore[reportPrivateUsage]
        while not made.report.findings:
            made._drawn(run.random.Random("1"))  # pyright: ignore[reportPrivateUsage]
        cluster.close()
    (finding,) = made.report.findings
    asked = [exchange.line["request"] for exchange in finding.disagreement.trace]
    assert (asked[0], asked[-1]) == ("InitProducerId", "EndTxn")
    assert len(asked) <= 3
    assert finding.is_repeated


@pytest.mark.slow(3)
def test_what_never_comes_in_time_is_not_waited_for_on_each_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = {"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 60_000}
    who = {"transactional_id": "a", "producer_id": 0, "producer_epoch": 0}
    end = {"request": "EndTxn", **who, "result": "COMMIT"}
    given = {
        ("EndTxn", "empty-commit"): Way((line, end)),
        ("EndTxn", "other-epoch"): Way((line, {**end, "producer_epoch": 7})),
        ("InitProducerId", "increment-epoch"): Way((line,)),
    }

    def fault(request: Request, told: Told) -> Told | Answer:
        return Answer(told, after=30) if request.name == "EndTxn" else told

    with running(OracleBroker("4.3", fault=fault)) as place:
        cluster = LiveCluster(place, timeout_s=1)
        made = Run(cluster, place, "4.3")
        rows = {(row.event, row.row): row for row in made.report.rows}
        found = {rows[name]: way for name, way in given.items()}
        monkeypatch.setattr(run, "ways", lambda **_: found)  # pyright: ignore
        monkeypatch.setattr(run, "MOST_TIMEOUTS", 1)
        made.directed()
        cluster.close()
    assert [finding.suite for finding in made.report.findings] == ["directed"]
    assert rows["InitProducerId", "increment-epoch"] in made.report.provoked
    whys = {made.report.missed[row] for row in found if row.event == "EndTxn"}
    assert whys == {
        "the brokers disagree on the way to it",
        "a request on the way to it gets no answer in time",
    }
    assert made.report.ended_early is None


@pytest.mark.parametrize("place", [("\0", 9092), ("127.0.0.1", 70_000), ("a" * 70, 9092)])
def test_a_broker_may_name_a_place_that_is_none(place: tuple[str, int]) -> None:
    broker = OracleBroker("4.3")
    with running(broker) as bootstrap:
        broker.addresses = {0: place}
        done = conform(bootstrap, "--suite", "random", "--seconds", "1")
    assert done.exit_code == 2
    assert "doesn't answer: " in done.stderr
    assert "Traceback" not in done.output


def test_a_coordinator_that_is_not_where_its_broker_is_is_a_finding() -> None:
    """Kafka's clients connect to the place that FindCoordinator names."""

    def fault(request: Request, told: Told) -> Told:
        return told | {"port": 0} if request.name == "FindCoordinator" else told

    with running(OracleBroker("4.3", fault=fault)) as place:
        done = conform(place, "--suite", "random", "--seconds", "1")
    assert done.exit_code == 12
    what = f"FindCoordinator() → broker 0 is at 127.0.0.1:0, and by Metadata at {place}"
    assert what in done.output
    assert "1 disagreement: DISAGREES" in done.output


def test_what_is_asked_beside_the_protocol_is_a_finding_as_well(tmp_path: Path) -> None:
    """A broker closes the connection at DescribeConfigs, AddPartitionsToTxn 5 and
    DescribeTransactions, and has no topic of offsets: a run does without."""
    found = tmp_path / "found.json"
    bad = ("DescribeConfigs", "DescribeTransactions")

    def fault(request: Request, told: Told) -> Told | Silence:
        return LOST if request.name in bad else told

    with running(OracleBroker("4.3", fault=fault)) as place:
        done = conform(place, "--suite", "random", "--seconds", "1", "--json", str(found))
    assert done.exit_code == 12, done.output
    told = json.loads(found.read_text())
    assert {each["trace"][0]["request"] for each in told["disagreements"]} == {*bad}
    assert {each["suite"] for each in told["disagreements"]} == {"start"}
    assert not told["settled"]
    table = done.output[: done.output.index("127.0.0.1:")].splitlines()
    assert table[0].split() == ["API", "offered", "sent", "without", "the", "others"]
    lines = {line.split()[0]: line for line in table}
    assert "the connection was closed: settings of the brokers" in lines["DescribeConfigs"]
    assert "none     none" in lines["AddOffsetsToTxn"]
    assert sum(each["count"] for each in told["outcomes"]) > 10


def test_requests_are_left_out_and_capped(tmp_path: Path) -> None:
    found, seen = tmp_path / "found.json", set[tuple[str, int]]()

    def fault(request: Request, told: Told) -> Told:
        seen.add((request.name, request.version))
        return told

    with running(OracleBroker("4.3", fault=fault)) as place:
        done = conform(
            place, "--suite", "random", "--seconds", "0.5", "--json", str(found), "--without",
            "WriteTxnMarkers", "--cap", "EndTxn=4", "--cap", "Produce=11",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert max(version for name, version in seen if name == "EndTxn") == 4
    assert max(version for name, version in seen if name == "Produce") == 11
    assert "WriteTxnMarkers" not in {name for name, _ in seen}
    lacking = {one["name"]: one for one in json.loads(found.read_text())["lacking"]}
    assert lacking["EndTxn"] == {
        "name": "EndTxn",
        "offered": [0, 5],
        "sent": [0, 4],
        "why": "--cap",
    }
    assert lacking["WriteTxnMarkers"]["sent"] is None


def test_nothing_of_version_2_is_sent_at_level_0(tmp_path: Path) -> None:
    """No client does so, and Kafka's coordinator can't log it: UNSUPPORTED_VERSION."""
    found, seen = tmp_path / "found.json", dict[str, int]()

    def fault(request: Request, told: Told) -> Told:
        seen[request.name] = max(request.version, seen.get(request.name, 0))
        return told

    broker = OracleBroker("4.3", fault=fault)
    broker.kafka.update_features(transaction_version=0)
    with running(broker, features={"metadata.version": 30}) as place:
        done = conform(
            place,
            "--suite",
            "random",
            "--seconds",
            "0.5",
            "--json",
            str(found),
            "--cap",
            "EndTxn=3",
        )
    assert done.exit_code == 0, done.output
    assert (seen["EndTxn"], seen["Produce"], seen["AddPartitionsToTxn"]) == (3, 11, 3)
    why = {one["name"]: one["why"] for one in json.loads(found.read_text())["lacking"]}
    assert why["EndTxn"] == "--cap"
    assert why["Produce"] == "no client sends them at transaction.version 0"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--without", "Fletch"], "--without Fletch: did you mean Fetch?"),
        (["--without", "Other"], "--without Other: choose one of Produce, Fetch, "),
        (["--without", "Fetch"], "--without Fetch: every run needs Produce, Fetch, "),
        (["--cap", "EndTxn"], "--cap EndTxn: write REQUEST=VERSION"),
        (["--cap", "EndTxn=new"], "--cap EndTxn=new: write REQUEST=VERSION"),
        (["--cap", "Produce=2"], "--cap Produce=2: the oldest version that is sent is 3"),
        (["--cap", "EndTxn=1", "--cap", "EndTxn=2"], "EndTxn is limited twice"),
    ],
)
def test_wrong_limits_are_told_in_a_line(more: list[str], told: str) -> None:
    done = conform("127.0.0.1:1", *more)
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("is_planted", [False, True])
def test_records_beyond_the_last_stable_offset_are_a_finding(is_planted: bool) -> None:
    with Server("4.3") as server:
        server.logs.reads_beyond_stable = is_planted
        cluster = LiveCluster(server.bootstrap)
        session = Session(BrokerSystem(cluster), "4.3")
        told = session.ask("InitProducerId", transactional_id="a") or {}
        who = {name: told[name] for name in ("producer_id", "producer_epoch")}
        session.ask(
            "Produce", partition="t-0", transactional_id="a", **who, base_sequence=0, count=2
        )
        with pytest.raises(DisagreementError) if is_planted else nullcontext() as met:
            session.ask("Fetch", partition="t-0")
        cluster.close()
    if met is not None:
        found = Difference.of(met.value)
        assert found.request == "Fetch"
        assert found.given == ("batches: too many", "beyond_last_stable_offset: none expected")


def test_other_brokers_take_over() -> None:
    """Broker 0 goes away at a request: broker 1 leads and coordinates all from then on."""
    broker = OracleBroker("4.3")

    def fault(request: Request, told: Told) -> Told | Silence:
        if request.name == "EndTxn" and not broker.crashed:
            broker.crash(0)
            broker.leads = 1
            return LOST
        return told

    broker.fault = fault
    with running(broker, count=2) as place:
        done = conform(place, "--suite", "random", "--seconds", "1")
    assert broker.crashed == {0}
    assert done.exit_code == 20, done.output
    assert "broker 0 went away at EndTxn, and others took over" in done.output
    assert "0 disagreements: UNJUDGED (exit 20)" in done.output


@pytest.mark.slow(2)
def test_coordinators_and_leaders_that_move_are_found() -> None:
    """After some requests broker 0 says that it leads and coordinates nothing; it stays."""
    broker = OracleBroker("4.3")
    refused: list[str] = []

    def fault(request: Request, told: Told) -> Told:
        if broker.asked > 500:
            broker.leads = 1
        if request.node == broker.leads or broker.asked <= 500:
            return told
        if request.name == "EndTxn":
            refused.append(request.name)
            return told | {"error_code": "NOT_COORDINATOR"}
        if request.name == "Produce":
            refused.append(request.name)
            (topic,) = told["responses"]
            (one,) = topic["partition_responses"]
            one |= {"error_code": "NOT_LEADER_OR_FOLLOWER", "base_offset": -1}
        return told

    broker.fault = fault
    with running(broker, count=2) as place:
        done = conform(place, "--suite", "random", "--seconds", "2")
    assert done.exit_code == 0, done.output
    assert 0 < len(refused) < 5  # then the others are asked


@pytest.mark.slow(3)
@pytest.mark.parametrize(("signal_", "ends"), [(signal.SIGTERM, 130), (signal.SIGINT, 12)])
def test_a_signal_keeps_all_results(signal_: signal.Signals, ends: int, tmp_path: Path) -> None:
    junit, found = tmp_path / "j.xml", tmp_path / "j.json"
    begun: list[int] = []

    def fault(request: Request, told: Told) -> Told | Silence:
        if request.name == "EndTxn":
            begun.append(1)
            if ends == 12:
                return LOST
        return told

    broker = OracleBroker("4.3", fault=fault)
    with running(broker) as place:
        command = [sys.executable, "-m", "epochfence.cli", "conform", "--bootstrap", place]
        command += ["--suite", "random", "--seconds", "100", "--junit", str(junit)]
        process = subprocess.Popen(
            [*command, "--json", str(found)],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until = time.monotonic() + 60
        while len(begun) < 20 and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal_)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ends, (out, err)
    assert "Traceback" not in err
    assert "ended early: it was interrupted" in out
    told = json.loads(found.read_text())
    assert told["ended_early"] == "it was interrupted"
    assert told["verdict"] == {130: "INTERRUPTED", 12: "DISAGREES"}[ends]
    assert int(Xml.fromstring(junit.read_text()).get("errors", 0)) == 1
    assert broker.topics == {}


def test_an_error_of_the_program_keeps_all_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run, "Drawn", fails)
    with running(OracleBroker("4.3")) as place:
        done = conform(place, "--suite", "random", "--seconds", "1")
    assert done.exit_code == 1
    assert "ended early: internal error: RuntimeError: a bug" in done.stdout
    assert "Traceback" in done.stderr


def test_random_requests_alone_mention_no_directed_rows(tmp_path: Path) -> None:
    junit = tmp_path / "j.xml"
    with running(OracleBroker("4.3")) as place:
        done = conform(place, "--suite", "random", "--seconds", "0.5", "--junit", str(junit))
    assert "directed" not in done.output
    assert "rows of coordinator and leader provoked of" in done.output
    assert "not coordinator: " not in done.output
    assert Xml.fromstring(junit.read_text()).get("skipped") == "0"


def test_a_search_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHFENCE_CACHE", str(tmp_path))
    searched: list[str] = []
    row = RowName("transaction", "InitProducerId", "increment-epoch", "x")
    line = {"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 60_000}

    def ways(protocol: str, **_: Any) -> dict[RowName, Way]:
        searched.append(protocol)
        return {row: Way((line,), races=True)}

    monkeypatch.setattr(run, "ways", ways)
    with running(OracleBroker("4.3")) as place:
        for more in ([], [], ["--cap", "EndTxn=4"]):
            conform(place, "--suite", "directed", *more)
    assert searched == ["4.3", "4.3"]  # the second is known, the third is another


def test_coordinators_that_move_in_the_middle_of_a_run_are_asked_for_again() -> None:
    """A broker that was away for longer than its session leads again, in a later term: it refuses
    markers of the one before."""
    kafka = OracleBroker("4.4")

    def moves(_: Request, told: Told) -> Told:
        if kafka.term == 0 and kafka.asked > 300:
            kafka.term = 1
            for partition in range(STATE_PARTITIONS):
                kafka.kafka.coordinator.elect(partition, 1)
        return told

    kafka.fault = moves
    with running(kafka) as place:
        done = conform(place, "--suite", "random", "--seconds", "3")
    assert kafka.term == 1
    assert done.exit_code == 0, done.output
