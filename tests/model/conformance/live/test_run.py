"""Runs against a broker that the oracle stands behind: one that conforms, and faulty ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from typer.testing import CliRunner, Result

from epochfence.cli import app
from epochfence.model.serve.server import Server
from epochfence.model.wire.listener import Request
from epochfence.spec.releases.broker_versions import release_of
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running


def conform(place: str, *more: str) -> Result:
    command = ["conform", "--bootstrap", place, *more]
    return CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.slow(1)
def test_a_broker_that_conforms(tmp_path: Path) -> None:
    broker, junit, found = OracleBroker("4.3"), tmp_path / "j.xml", tmp_path / "j.json"
    with running(broker) as place:
        done = conform(
            place, "--suite", "random", "--seconds", "1", "--junit", str(junit), "--json",
            str(found),
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "compared with 4.3, transaction.version 2" in done.output
    assert done.output.endswith("0 disagreements: CONFORMS (exit 0)\n")
    assert broker.topics == {}
    told = json.loads(found.read_text())
    assert (told["verdict"], told["protocol"]) == ("CONFORMS", "4.3")
    provoked = [row for row in told["rows"] if row["provoked"]]
    suite = Xml.fromstring(junit.read_text())
    assert suite.get("failures") == "0"
    assert int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) == len(provoked) > 10


def forgets_to_bump(request: Request, told: dict[str, Any]) -> dict[str, Any]:
    """After an end of version 2 it answers with the old epoch."""
    if request.name == "EndTxn" and told["error_code"] == "NONE" and request.version >= 5:
        return told | {"producer_epoch": request.fields["producer_epoch"]}
    return told


@pytest.mark.slow(1)
def test_a_fault_is_found_and_shrunk(tmp_path: Path) -> None:
    with running(OracleBroker("4.3", fault=forgets_to_bump)) as place:
        done = conform(place, "--suite", "random", "--seconds", "3", "--save", str(tmp_path))
    assert done.exit_code == 12
    assert "DISAGREES (exit 12)" in done.output
    first = (tmp_path / "disagreement-1.jsonl").read_text().splitlines()
    asked = [json.loads(line)["request"] for line in first]
    assert asked[0] == "InitProducerId"
    assert asked[-1] == "EndTxn"
    assert len(asked) <= 4


def tells_other_partitions(request: Request, told: dict[str, Any]) -> dict[str, Any]:
    """It names another partition of an id than the id has."""
    if request.name != "DescribeTransactions":
        return told
    (state,) = told["transaction_states"]
    other = {"topic": "other", "partitions": [0]}
    return told | {"transaction_states": [state | {"topics": [other]}]}


@pytest.mark.slow(1)
def test_a_fault_in_a_list_is_found(tmp_path: Path) -> None:
    with running(OracleBroker("4.3", fault=tells_other_partitions)) as place:
        done = conform(place, "--suite", "random", "--seconds", "1", "--save", str(tmp_path))
    assert done.exit_code == 12, done.output
    last = (tmp_path / "disagreement-1.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["request"] == "DescribeTransactions"


def test_a_broker_that_goes_away_leaves_what_was_found() -> None:
    with running(OracleBroker("4.3", dies_after=500)) as place:
        done = conform(place, "--suite", "random", "--seconds", "20")
    assert done.exit_code == 12
    assert "ended early: 127.0.0.1:" in done.output
    assert "doesn't answer any more" in done.output
    assert "→ the connection was closed" in done.output
    assert "answers without an error" in done.output
    assert done.stdout.endswith("DISAGREES (exit 12)\n")
    assert "not removed: epochfence-" in done.stderr


def test_a_newer_broker_may_be_compared_with_a_release_that_is_named() -> None:
    newer = {"transaction.version": 2, "metadata.version": 99}
    with running(OracleBroker("4.3"), features=newer) as place:
        named = conform(place, "--suite", "random", "--seconds", "0.5", "--protocol", "4.3")
    assert named.exit_code == 0


def test_a_run_without_requests_is_no_success(tmp_path: Path) -> None:
    junit = tmp_path / "j.xml"
    with running(OracleBroker("4.3")) as place:
        done = conform(place, "--suite", "random", "--seconds", "0", "--junit", str(junit))
    assert done.exit_code == 20
    assert done.output.endswith("0 disagreements: UNJUDGED (exit 20)\n")
    assert Xml.fromstring(junit.read_text()).get("errors") == "1"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--protocol", "9.9"], "9.9: unknown release: choose one of "),
        (["--level", "well-behaved", "--alter-configs"], "--alter-configs is for"),
        (["--config", "nowhere.properties"], "can't read nowhere.properties: No such file"),
    ],
)
def test_wrong_use_is_told_in_a_line(more: list[str], told: str) -> None:
    done = conform("127.0.0.1:1", *more)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"epochfence: {told}")
    assert done.stderr.count("\n") == 1


def test_a_broken_line_of_properties_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("a secret without a name\n")
    done = conform("127.0.0.1:1", "--config", str(config))
    assert done.exit_code == 2
    assert "secret" not in done.stderr


def test_releases_are_told_by_versions() -> None:
    by_level = {level: release_of({}, {"metadata.version": level}) for level in range(1, 35)}
    assert (by_level[7], by_level[11]) == ("3.3", "3.5")
    assert by_level[5] == "3.0"  # of no release: the one before
    assert (by_level[30], by_level[33]) == ("4.3", "4.4")
    assert by_level[34] is None
    assert set(filter(None, by_level.values())) <= set(RELEASED)
    assert release_of({"InitProducerId": 3, "Fetch": 11}, {}) == "2.5"
    assert release_of({"InitProducerId": 4, "Fetch": 12}, {}) == "2.7"
    assert release_of({}, {}) is None


@pytest.mark.slow(2)
def test_a_newer_broker_is_compared_with_the_newest_release() -> None:
    with Server(NEWEST) as server:
        server.brokers.supported = {"metadata.version": 99}
        server.brokers.versions = {**server.brokers.versions, "EndTxn": (0, 9)}
        with pytest.warns(UserWarning, match=f"newer than {NEWEST}: .* aren't compared: EndTxn 9"):
            done = conform(server.bootstrap, "--suite", "random", "--seconds", "0.5")
    assert done.exit_code == 0, done.output


@pytest.mark.slow(1)
def test_a_broker_that_shuts_down_does_not_disagree() -> None:
    written = list[str]()

    def leads_no_more(request: Request, told: dict[str, Any]) -> dict[str, Any]:
        """Of each partition that is looked at once there is a batch: that it has another leader."""
        if request.name == "Produce":
            written.append(told["responses"][0]["partition_responses"][0]["error_code"])
        of = {"ListOffsets": "topics", "Fetch": "responses"}.get(request.name)
        for topic in told[of] if of is not None and "NONE" in written else ():
            for one in topic["partitions"]:
                one |= {"error_code": "NOT_LEADER_OR_FOLLOWER", "offset": -1}
                one |= {"last_stable_offset": -1, "records": None, "aborted_transactions": None}
        return told

    with running(OracleBroker("4.3", fault=leads_no_more)) as place:
        done = conform(place, "--suite", "random", "--seconds", "1")
    assert done.exit_code == 0, done.output
