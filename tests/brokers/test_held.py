"""What docs/findings.md tells of threads that meet, on brokers: requests by hand, some of them held
on their way by a debugger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from epochfence.model.conformance.findings.brokers import holding
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.conformance.live.broker import BrokerSystem
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.tests.brokers.doctor import doctor

ID: Final[dict[str, Any]] = {"transactional_id": "a", "transaction_timeout_ms": 60_000}
PLACE: Final[dict[str, Any]] = {"partition": "t-0", "base_sequence": 0, "count": 1}
BEFORE_2, FROM_2 = 4, 5
"""Versions of EndTxn: what clients of before transactions of version 2 send, and those of it."""
with_version_2 = pytest.mark.releases("4.0.1", "4.3", "4.4")
pytestmark = pytest.mark.sample(2, of="findings on brokers")


class Requests:
    """Requests of instances of one transactional id, by hand."""

    def __init__(self, system: BrokerSystem) -> None:
        self.system = system
        self.own: dict[str, Any] = {}

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        told = dict(self.system.ask(request, {**self.own, **fields}) or {})
        if told.get("error") == "NONE" and told.get("producer_epoch", -1) >= 0:
            names = ("producer_id", "producer_epoch")
            self.own = {"transactional_id": "a", **{name: told[name] for name in names}}
        return told

    def begin(self) -> None:
        """A new instance asks for its epoch."""
        self.own = {}
        assert self.ask("InitProducerId", **ID)["error"] == "NONE"

    def add(self) -> None:
        """A client of before version 2 adds its partition."""
        told = self.ask("AddPartitionsToTxn", partitions=["t-0"], api_version=3)
        assert told["error"] == "NONE"

    def state(self) -> str:
        return self.ask("DescribeTransactions")["state"]

    def hangs(self) -> bool:
        """Whether the partition has a transaction that its coordinator doesn't know of."""
        self.system.settle()
        (producer,) = self.ask("DescribeProducers", partition="t-0")["producers"]
        return producer[3] >= 0 and self.state() == "CompleteAbort"

    def bugs(self, cause: str = "hanging") -> list[str]:
        """The bugs that doctor names for the only transaction, which has this cause."""
        cluster = self.system.cluster
        (case,) = [
            case
            for case in doctor(cluster.place).cases
            if case.partition.place.topic.startswith(cluster.prefix)
        ]
        assert case.cause == cause
        return [bug.name for bug in case.bugs]


@pytest.fixture
def requests(broker: Broker) -> Iterator[Requests]:
    cluster = LiveCluster(broker.bootstrap, may_be_shared=True)
    try:
        with holding(cluster, str(broker.debugger)) as system:
            yield Requests(system)
    finally:
        cluster.close()


@pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4")
def test_a_marker_comes_between_a_look_at_a_transaction_and_the_append(requests: Requests) -> None:
    requests.begin()
    requests.add()
    assert requests.ask("Produce", **PLACE, api_version=9)["error"] == "NONE"
    batch = PLACE | {"base_sequence": 1}
    told = requests.ask("Produce", **batch, api_version=9, held_at="unasked")
    assert told == {"held": "unasked"}
    ended = requests.ask("EndTxn", result="COMMIT", api_version=BEFORE_2 - 1)
    assert ended["error"] == "NONE"
    requests.system.settle()
    assert requests.system.resume("unasked")["error"] == "INVALID_TXN_STATE"


@pytest.mark.releases("3.6", "3.9")
def test_8_the_end_of_a_fence_ends_a_later_transaction(requests: Requests) -> None:
    requests.begin()
    requests.add()
    instance = requests.own
    requests.own = {}
    assert requests.ask("InitProducerId", **ID, held_at="fence") == {"held": "fence"}
    requests.own = instance
    assert requests.ask("EndTxn", result="ABORT")["error"] == "NONE"
    requests.system.settle()
    requests.add()  # to its next transaction
    told = requests.ask("Produce", **PLACE, api_version=9)
    assert told["error"] == "NONE"
    assert requests.system.resume("fence")["error"] == "PRODUCER_FENCED"
    assert requests.state() == "PrepareAbort"
    for result, told in (("ABORT", "CONCURRENT_TRANSACTIONS"), ("COMMIT", "INVALID_TXN_STATE")):
        assert requests.ask("EndTxn", result=result)["error"] == told
    told = requests.system.ask("InitProducerId", ID)
    assert told is not None
    assert told["error"] == "CONCURRENT_TRANSACTIONS"
    assert requests.state() == "PrepareAbort"  # and so it stays
    assert "finding 8" in requests.bugs("late-marker")


@with_version_2
@pytest.mark.parametrize("version", [BEFORE_2, FROM_2])
def test_9_a_batch_is_appended_after_its_abort(requests: Requests, version: int) -> None:
    requests.begin()
    told = requests.ask("Produce", **PLACE, api_version=12, held_at="verification")
    assert told == {"held": "verification"}
    assert requests.ask("EndTxn", result="ABORT", api_version=version)["error"] == "NONE"
    requests.system.settle()
    told = requests.system.resume("verification")["error"]
    assert (told == "NONE") == (version == BEFORE_2)
    if version == BEFORE_2:
        assert requests.hangs()
        assert "finding 9" in requests.bugs()


@with_version_2
def test_11_a_question_of_version_2_answers_for_a_batch_of_version_1(requests: Requests) -> None:
    requests.begin()
    ended = requests.ask("EndTxn", result="ABORT", api_version=FROM_2, held_at="decision")
    assert ended == {"held": "decision"}
    requests.own["producer_epoch"] += 1  # which that answer tells
    told = requests.ask("Produce", **PLACE, api_version=12)
    assert told["error"] == "CONCURRENT_TRANSACTIONS"  # its question leaves an entry
    assert requests.system.resume("decision")["error"] == "NONE"
    requests.system.settle()
    requests.begin()
    requests.add()
    told = requests.ask("Produce", **PLACE, api_version=11, held_at="verification")
    assert told == {"held": "verification"}
    assert requests.ask("EndTxn", result="ABORT", api_version=BEFORE_2)["error"] == "NONE"
    requests.system.settle()
    assert requests.system.resume("verification")["error"] == "NONE"
    assert requests.hangs()
    assert "finding 11" in requests.bugs()
