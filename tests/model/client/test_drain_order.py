"""The order in which the client's model drains partitions, against Kafka's RecordAccumulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.model import ProducerClient
from epochfence.model.client.accumulator import HEADER
from epochfence.model.engine.errors import NotNowError
from epochfence.spec.changes.clients import drain_order
from epochfence.tests.model.client.producers import idempotent

SIZE = 1024
ONE = HEADER + SIZE  # a batch of one record
VISITS = drain_order.visits
NEWEST = "4.4"
# Of kafka-clients 4.4.0: RecordAccumulator with three partitions of a node, a batch for each record
# and requests of 940 bytes. What is appended (partition, size of the record), and the partitions
# that are drained then.
RECORDED = (
    ((("0", 778), ("1", 360), ("2", 541)), ["0"]),
    ((), ["1"]),
    ((), ["2"]),
    ((("1", 179), ("0", 753), ("0", 269)), ["1"]),
    ((("0", 309),), ["0"]),
    ((), ["0"]),
    ((("2", 356),), ["2", "0"]),
    ((("1", 398),), ["1"]),
    ((("0", 582),), ["0"]),
    ((("2", 796),), ["2"]),
    ((("0", 680), ("1", 231)), ["0"]),
    ((), ["1"]),
)


def node(release: str = NEWEST, room: int = 1) -> ProducerClient:
    """A client whose batches have one record, and whose requests have room for so many."""
    return idempotent(release, batch_size=ONE, max_request_size=room * ONE)


def drain(client: ProducerClient, *appended: str) -> list[str]:
    """The partitions of the next request after some records."""
    for partition in appended:
        client.append(partition, SIZE)
    found = client.accumulator.drain(is_transactional=False, transaction_version=0)
    return [produce.partition for produce in found]


@pytest.mark.parametrize("release", ["3.3", NEWEST])
def test_batches_are_drained_in_turn(release: str) -> None:
    """RecordAccumulatorTest.testDrainBatches"""
    client = node(release)
    client.accumulator.leaders = {"t-3": 2, "t-4": 2}
    assert drain(client, "t-1", "t-2", "t-3", "t-4") == ["t-1", "t-3"]
    assert drain(client, "t-1", "t-3") == ["t-2", "t-4"]
    assert drain(client) == ["t-1", "t-3"]
    client.machine.put(muted=frozenset({"t-4"}))
    assert drain(client, "t-2", "t-3", "t-4") == ["t-2", "t-3"]


@pytest.mark.parametrize(("release", "second"), [("3.2", "u-3"), ("3.3", "u-1")])
def test_nodes_shared_an_index_before_3_3(release: str, second: str) -> None:
    """KAFKA-13834, RecordAccumulator.drainIndex"""
    client = node(release)
    client.accumulator.leaders = {"u-1": 2, "u-2": 2, "u-3": 2}
    assert drain(client, "t-1", "t-2", "t-3", "u-1", "u-2", "u-3") == ["t-1", second]


def test_every_drain_is_as_kafka_s() -> None:
    client = idempotent(batch_size=1, max_request_size=940, max_in_flight=99)
    for appended, drained in RECORDED:
        for partition, size in appended:
            client.append(partition, size)
        assert drain(client) == drained


@pytest.mark.parametrize(
    ("release", "second"), [("2.0", "t-2"), ("2.1", "t-1"), ("3.2", "t-1"), ("3.3", "t-2")]
)
def test_a_partition_was_left_behind_from_2_1_to_3_2(release: str, second: str) -> None:
    """KAFKA-13834"""
    client = node(release)
    assert drain(client, "t-1", "t-2") == ["t-1"]
    assert drain(client, "t-1") == [second]


def test_a_large_batch_goes_alone() -> None:
    """RecordAccumulatorTest.testPartialDrain, and a comment of drainBatchesForOneNode: "we will
    still eventually send this batch in a single request"."""
    client = idempotent(batch_size=4 * SIZE, max_request_size=2 * ONE)
    assert drain(client, "t-1", "t-2", "t-2", "t-2", "t-3") == ["t-1"]
    assert drain(client) == ["t-2"]
    assert drain(client) == ["t-3"]


def test_a_partition_that_waits_ends_the_drain() -> None:
    """RecordAccumulator.drainBatchesForOneNode: at such a partition `break`, not `continue`."""
    client = node(room=3)
    client.machine.put(unresolved={"t-2": 1})
    assert drain(client, "t-1", "t-2", "t-3") == ["t-1"]
    assert drain(client) == []
    client.machine.put(unresolved={})
    assert drain(client) == ["t-2", "t-3"]


@pytest.mark.parametrize("row", [row.id for row in VISITS.rows])
def test_each_row_is_needed(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tuple(other for other in VISITS.rows if other.id != row)
    monkeypatch.setattr(drain_order, "visits", replace(VISITS, rows=left))
    test = (
        test_a_partition_that_waits_ends_the_drain
        if row == "stopped"
        else test_every_drain_is_as_kafka_s
    )
    with pytest.raises((AssertionError, NotNowError, KeyError)):
        test()
