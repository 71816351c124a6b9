"""Runs of users who may not do all of it: one line says what they need, and what was found by then
is kept."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from epochfence.model.conformance.live.broker import BrokerSystem
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.cluster.missing_permissions import (
    MissingPermissionError,
    refusal,
)
from epochfence.model.conformance.live.cluster.producer_epochs import Skip, use_up
from epochfence.model.conformance.live.run import Run
from epochfence.model.serve.server import Server
from epochfence.model.wire.listener import Request
from epochfence.spec.access.acls import Acl, Acls
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running
from epochfence.tests.model.conformance.live.test_run import conform, forgets_to_bump
from epochfence.tests.model.serve.clients import eventually

WITH_PREFIX: Final = tuple(
    Acl("User:ANONYMOUS", operation, resource, "epochfence-", pattern="PREFIXED")
    for resource, operation in (("TOPIC", "ALL"), ("GROUP", "ALL"), ("TRANSACTIONAL_ID", "WRITE"))
)
OFFSETS: Final = Acl("User:ANONYMOUS", "DESCRIBE", "TOPIC", "__consumer_offsets")


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        ("TRANSACTIONAL_ID", "FindCoordinator with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the user "
         "needs WRITE on transactional ids with the prefix epochfence-"),
        ("TOPIC", "CreateTopics with TOPIC_AUTHORIZATION_FAILED: the user needs CREATE, DESCRIBE, "
         "READ, WRITE and DELETE on topics with the prefix epochfence-, and DESCRIBE on "
         "__consumer_offsets"),
        ("GROUP", "FindCoordinator with GROUP_AUTHORIZATION_FAILED: the user needs READ and DELETE "
         "on groups with the prefix epochfence-"),
    ],
)  # fmt: skip
def test_what_a_user_needs_is_told_in_a_line(left_out: str, told: str) -> None:
    acls = Acls((*(acl for acl in WITH_PREFIX if acl.resource != left_out), OFFSETS))
    with Server("4.3", acls=acls) as server:
        done = conform(server.bootstrap, "--suite", "random", "--seconds", "20")
    lines = [line for line in done.output.splitlines() if told in line and "not rem" not in line]
    assert done.exit_code == 2, done.output
    assert len(lines) == 1, done.output
    assert f"{server.bootstrap} refuses " in lines[0]


@pytest.mark.slow(2)
def test_a_run_does_without_what_brokers_alone_may_ask(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    acls = Acls((*WITH_PREFIX, OFFSETS))
    with Server("4.3", acls=acls) as server:
        done = conform(
            server.bootstrap, "--suite", "random", "--seconds", "1", "--json", str(found)
        )
        topics = [name for name in server.partitions.topics if name.startswith("epochfence-")]
    assert done.exit_code == 0, done.output
    assert "not asked, as the user has no CLUSTER_ACTION on the cluster, or may not" in done.output
    assert "describe __transaction_state: WriteTxnMarkers, AddP" in done.output
    told = json.loads(found.read_text())
    assert told["without"] == ["WriteTxnMarkers", "AddPartitionsToTxn of version 4 on"]
    assert told["versions"].keys().isdisjoint({"WriteTxnMarkers"})
    assert told["versions"]["AddPartitionsToTxn"] == [0, 3]
    assert topics == []


def test_a_permission_that_goes_away_is_a_finding() -> None:
    with Server("4.3", acls=Acls(allow_everyone=True)) as server:

        def takes_away() -> None:
            eventually(lambda: server.answered["Produce"] > 3)
            server.cluster.acls = Acls()

        taker = threading.Thread(target=takes_away)
        taker.start()
        done = conform(server.bootstrap, "--suite", "random", "--seconds", "20")
        taker.join()
    assert done.exit_code == 12, done.output  # whoever was answered before is refused
    assert "_AUTHORIZATION_FAILED" in done.output[done.output.index("disagreement 1") :]
    assert "answers without an error" in done.output
    assert "not removed: epochfence-" in done.stderr


def test_epochs_are_not_used_up_for_ever() -> None:
    with Server("4.3", acls=Acls(allow_everyone=True)) as server:
        cluster = LiveCluster(server.bootstrap)
        use_up(cluster, [Skip("epochfence-a", -1, 3)])
        server.cluster.acls = Acls()
        with pytest.raises(
            MissingPermissionError, match="refuses InitProducerId with TRANSACTIONAL_ID_AUTH"
        ):
            use_up(cluster, [Skip("epochfence-a", 3, 9)])
        cluster.close()


def test_a_disagreement_is_kept_where_the_broker_goes_away_as_it_is_shrunk() -> None:
    broker = OracleBroker("4.3")

    def fault(request: Request, told: dict[str, Any]) -> dict[str, Any]:
        answer = forgets_to_bump(request, told)
        if answer is not told:  # the first one; then it goes away
            broker.dies_after = broker.asked
        return answer

    broker.fault = fault
    with running(broker) as place:
        cluster = LiveCluster(place)
        run = Run(cluster, place, "4.3")
        run.random(20)
        cluster.close()
    finding = run.report.findings[0]
    assert finding.disagreement.trace[-1].line["request"] == "EndTxn"
    assert not finding.is_repeated
    assert "doesn't answer any more" in (run.report.ended_early or "")


def test_a_refusal_is_found_where_it_stands() -> None:
    one = {"partition_error_code": "TOPIC_AUTHORIZATION_FAILED"}
    assert refusal({"topics": [{"name": "t", "partitions": [one]}]}) == one["partition_error_code"]
    assert (
        refusal({"error_code": "NONE", "topics": [{"name": "TOPIC_AUTHORIZATION_FAILED"}]}) is None
    )
    assert refusal({"error_code": "INVALID_TXN_STATE", "records": b"", "other": None}) is None


def test_a_broker_that_does_no_two_phase_commit_is_not_short_of_permissions() -> None:
    with running(OracleBroker("4.3")) as place:
        cluster = LiveCluster(place)
        system = BrokerSystem(cluster)
        asked = {"transactional_id": "a", "api_version": 6}
        every = [system.ask("InitProducerId", asked | {"enable_2pc": wants}) for wants in (1, 0)]
        cluster.close()
    assert [each and each["error"] for each in every] == [
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "NONE",
    ]


def test_a_setting_that_is_not_declared_ends_a_run() -> None:
    broker = OracleBroker("4.3")
    broker.settings["transaction.two.phase.commit.enable"] = "true"
    with running(broker) as place:
        done = conform(place, "--suite", "random", "--seconds", "1")
    assert done.exit_code == 2
    assert "transaction.two.phase.commit.enable=true, but the tables assume false" in done.stderr
    assert broker.topics == {}
