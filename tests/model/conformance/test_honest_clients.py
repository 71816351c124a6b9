"""Clients that keep to the protocol: a correct cluster refuses them nothing but as zombies."""

from __future__ import annotations

import random
from typing import Any

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.honest_clients import AGAIN, Honest
from epochfence.model.conformance.live.clients import of_releases
from epochfence.model.conformance.live.suites.directed_suite import ways
from epochfence.model.requests import answer

VERSIONS = {
    "InitProducerId": (0, 5), "AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5), "Produce": (3, 12),
    "AddOffsetsToTxn": (0, 4), "TxnOffsetCommit": (0, 5), "WriteTxnMarkers": (1, 2),
}  # fmt: skip
PARTITIONS = ("t-0", "t-1")
FENCED = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE"}
"""What an older instance is told; the last where the newer one has aborted what it commits."""


def send(cluster: Cluster, client: Honest, draw: random.Random) -> tuple[str, str]:
    """Has a client send something; its request and the error."""
    line = draw.choice(client.next(PARTITIONS, "g", draw.randint(1, 3)))
    told: dict[str, Any] = answer(cluster, line)
    client.learn(line, told)
    return line["request"], told["error"]


@pytest.mark.parametrize(("release", "level"), [("2.5", 0), ("3.6", 0), ("4.1", 0), ("4.1", 2)])
def test_a_client_that_is_alone_is_refused_nothing(release: str, level: int) -> None:
    draw, seen = random.Random(1), set[str]()
    for number in range(4):
        cluster = Cluster(protocol=release, transaction_version=level)
        every = [*of_releases(VERSIONS, cluster)]
        for name in ("a", None):
            client = Honest.new(name, every[number % len(every)])
            for _ in range(60):
                request, error = send(cluster, client, draw)
                assert error in {"NONE", *AGAIN}, (request, client)
                seen.add(request)
    assert seen == VERSIONS.keys() - {"WriteTxnMarkers"}


def test_an_older_instance_is_fenced_and_then_closed() -> None:
    draw, errors = random.Random(2), set[str]()
    for _ in range(40):
        cluster = Cluster(protocol="4.1")
        sends = next(of_releases(VERSIONS, cluster))
        old, new = Honest.new("a", sends), Honest.new("a", sends)
        for client in [old] * draw.randint(2, 8) + [new] * draw.randint(1, 4) + [old] * 8:
            if not client.is_over:
                errors.add(send(cluster, client, draw)[1])
        assert old.is_over == (old.next(PARTITIONS) == [])
    assert "PRODUCER_FENCED" in errors
    assert errors - AGAIN <= FENCED | {"NONE"}


def test_versions_of_different_releases_are_not_mixed() -> None:
    every = [*of_releases(VERSIONS, Cluster(protocol="4.1"))]
    ends = {
        (sent["EndTxn"] >= 5, sent["Produce"] >= 12, sent["TxnOffsetCommit"] >= 5) for sent in every
    }
    assert ends == {(True, True, True), (False, False, False)}
    old = of_releases(VERSIONS, Cluster(protocol="4.1", transaction_version=0))
    assert max(sent["Produce"] for sent in old) == 11


def test_a_lost_answer_is_asked_for_again() -> None:
    client = Honest.new("a")
    (asked,) = client.next(PARTITIONS)
    client.learn(asked, None)
    assert client.next(PARTITIONS) == [asked]


@pytest.mark.slow(2)
def test_ways_of_honest_clients_have_no_brokers_requests_and_nothing_wrong() -> None:
    found = ways("4.1", None, VERSIONS, level="well-behaved")
    lines = [line for way in found.values() for line in way.lines]
    assert len(found) > 35
    assert {line.get("request") for line in lines} <= VERSIONS.keys() - {"WriteTxnMarkers"} | {None}
    assert not any(line.get("producer_id", 0) > 1 or line.get("verify_only") for line in lines)
    rows = {(row.event, row.row) for row in found}
    assert {("EndTxn", "other-epoch"), ("Produce", "duplicate")} <= rows
    assert ("EndTxn", "empty-commit") not in rows
