"""A transaction.version that changes in the middle of transactions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.cluster.settings import Settings
from epochfence.model.conformance.live.suites.random_requests import LEVELS, Drawn
from epochfence.model.conformance.session import Session, System
from epochfence.model.engine.errors import ModelError
from epochfence.model.requests import answer, checked
from epochfence.model.wire.connection import BrokerError
from epochfence.tests.fuzz.traces import Oracle

VERSIONS = {
    "InitProducerId": (0, 5), "AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5), "Produce": (3, 12),
    "AddOffsetsToTxn": (0, 4), "TxnOffsetCommit": (0, 5), "WriteTxnMarkers": (1, 2),
}  # fmt: skip


class Altered(System):
    """The oracle, whose transaction.version changes."""

    def __init__(self) -> None:
        self.kafka, self.levels = Cluster(protocol="4.3"), list[int]()

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return answer(self.kafka, {"request": request, **fields})

    def cause(self, line: Mapping[str, Any]) -> None:
        self.levels.append(line["transaction_version"])
        answer(self.kafka, line)


def test_a_level_changes_among_random_requests_and_in_all_states() -> None:
    found: set[int] = set()
    for number in range(30):
        session = Session(system := Altered(), "4.3")
        one = Drawn(random.Random(number), session, [], VERSIONS, False, True)
        while len(session.trace) < 40:
            one.step()
        now = {state.cluster.transaction_version for state in session.possible.states}
        assert now == {(system.levels or [2])[-1]}
        found |= {*system.levels}
    assert found == {*LEVELS}


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ModelError, match="transaction_version"):
        checked({"transaction_version": 3})


class Updated:
    """A cluster of two brokers that follow, the second one later; or not at all."""

    place, controller, transaction_version = "here", 1, 2

    def __init__(self, error: str = "NONE") -> None:
        self.error, self.asked, self.brokers = error, list[Any](), {1: None, 2: None}
        self.levels = {1: 2, 2: 2}

    def ask(self, _: int, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        (update,) = fields["feature_updates"]
        self.asked.append((name, update["max_version_level"], update["upgrade_type"]))
        self.levels[1] = update["max_version_level"]
        return {"error_code": "NONE", "results": [{"error_code": self.error}]}

    def level_at(self, node: int) -> int:
        level, self.levels[2] = self.levels[node], self.levels[1]
        return level


def test_a_downgrade_is_a_safe_one_and_is_set_back() -> None:
    settings = Settings(cast("LiveCluster", cluster := Updated()))
    settings.alter_features(2)
    assert cluster.asked == []
    settings.alter_features(1)
    assert cluster.levels == {1: 1, 2: 1}
    settings.restore_features()
    assert cluster.asked == [("UpdateFeatures", 1, 2), ("UpdateFeatures", 2, 1)]


def test_a_refused_change_ends_the_run() -> None:
    settings = Settings(cast("LiveCluster", Updated("INVALID_UPDATE_VERSION")))
    with pytest.raises(BrokerError, match="INVALID_UPDATE_VERSION"):
        settings.alter_features(1)


def test_a_marker_with_a_transaction_version_is_a_request() -> None:
    """It has the field that a change of the level has as well."""
    marker = {
        "request": "WriteTxnMarkers", "partition": "t-0", "producer_id": 0, "producer_epoch": 0,
        "result": "ABORT", "coordinator_epoch": 0, "transaction_version": 2, "api_version": 2,
    }  # fmt: skip
    session = Session(Oracle("4.4"), "4.4")
    session.take({"request": "InitProducerId", "transactional_id": "a"})
    session.take(marker)
    assert session.trace[-1].response is not None
