"""Consume, process and produce: each record once, whoever the client is."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import Connection, Security
from epochfence.tests.model.serve.clients import TIMEOUT_S, librdkafka, read
from epochfence.tests.model.serve.pipelines import GROUP, PIPELINES


def fill(server: Server, topic: str, count: int) -> list[str]:
    producer = librdkafka(server.bootstrap)
    sent = [f"{n}" for n in range(count)]
    for n, value in enumerate(sent):
        producer.produce(topic, value, partition=n % server.partitions.topics[topic])
    assert producer.flush(TIMEOUT_S) == 0
    return sent


def committed(server: Server, topic: str, group: str = GROUP) -> list[int]:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0})
    places = [TopicPartition(topic, n) for n in range(server.partitions.topics[topic])]
    found = [each.offset for each in consumer.committed(places, TIMEOUT_S)]
    consumer.close()
    return found


@pytest.mark.slow(1)
@pytest.mark.parametrize("client", PIPELINES)
@pytest.mark.parametrize("release", ["2.5", "4.3"])
def test_each_record_is_processed_once(client: str, release: str) -> None:
    with Server(release, topics={"in": 1, "out": 1}) as server:
        sent = fill(server, "in", 6)
        PIPELINES[client](server.bootstrap, 6, (2, 4))
        assert read(server.bootstrap, "out") == sent
        assert len(read(server.bootstrap, "out", committed=False)) == 8
        assert committed(server, "in") == [6]
        assert server.answered["TxnOffsetCommit"] == 8


def test_members_share_partitions_and_take_over() -> None:
    def member() -> Consumer:
        made = Consumer(
            {"bootstrap.servers": server.bootstrap, "group.id": GROUP, "log_level": 0,
             "auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
        )  # fmt: skip
        made.subscribe(["in"])
        return made

    def until(what: list[int]) -> None:
        while sorted(len(each.assignment()) for each in members) != what:
            for each in members:
                each.poll(0.05)

    with Server("4.3", topics={"in": 4}, brokers=3) as server:
        members = [member(), member()]
        until([2, 2])
        members.pop().close()
        until([4])
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)
        members.pop().close()
        admin.delete_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)
        with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
            admin.delete_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)


class Raw:
    """A client that sends the given bytes."""

    def __init__(self, server: Server) -> None:
        self.connection = Connection(*server.brokers.addresses[0], Security())
        asked = {"transactional_id": "id", "transaction_timeout": 60_000}
        told = self.connection.ask("InitProducerId", 1, asked)
        self.producer = {name: told[name] for name in ("producer_id", "producer_epoch")}

    def begin(self) -> None:
        asked = {"transactional_id": "id", "group_id": GROUP, **self.producer}
        assert self.connection.ask("AddOffsetsToTxn", 3, asked)["error_code"] == "NONE"

    def commit_offset(self, offset: int, **member: Any) -> str:
        of = {"committed_offset": offset, "committed_metadata": f"m{offset}"}
        asked = {"transactional_id": "id", "group_id": GROUP, **self.producer, **member}
        asked["topics"] = [{"name": "in", "partitions": [{"partition_index": 0, **of}]}]
        told = self.connection.ask("TxnOffsetCommit", 3, asked)
        return told["topics"][0]["partitions"][0]["error_code"]

    def end(self, *, committed: bool) -> None:
        asked = {"transactional_id": "id", "committed": committed, **self.producer}
        assert self.connection.ask("EndTxn", 3, asked)["error_code"] == "NONE"

    def fetched(self, *, require_stable: bool = False) -> dict[str, Any]:
        topics = [{"name": "in", "partition_indexes": [0]}]
        asked = {"group_id": GROUP, "topics": topics, "require_stable": require_stable}
        (part,) = self.connection.ask("OffsetFetch", 7, asked)["topics"][0]["partitions"]
        return part

    def offset(self, *, require_stable: bool) -> tuple[str, int]:
        part = self.fetched(require_stable=require_stable)
        return part["error_code"], part["committed_offset"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_offset_counts_when_its_transaction_is_committed(is_committed: bool) -> None:
    with Server("3.6", topics={"in": 1}) as server:
        raw = Raw(server)
        assert raw.offset(require_stable=True) == ("NONE", -1)
        raw.begin()
        assert raw.commit_offset(5) == "NONE"
        assert raw.offset(require_stable=True) == ("UNSTABLE_OFFSET_COMMIT", -1)
        assert raw.offset(require_stable=False) == ("NONE", -1)
        raw.end(committed=is_committed)
        assert raw.offset(require_stable=True) == ("NONE", 5 if is_committed else -1)


def test_metadata_is_kept_of_the_committed_offset_and_of_pending_ones_alone() -> None:
    with Server("3.6", topics={"in": 1}) as server:
        raw = Raw(server)
        committed = ""
        for offset in range(20):
            raw.begin()
            assert raw.commit_offset(offset) == "NONE"
            assert raw.fetched()["metadata"] == committed
            raw.end(committed=offset % 3 != 0)
            committed = committed if offset % 3 == 0 else f"m{offset}"
            assert raw.fetched(require_stable=True)["metadata"] == committed
        (kept,) = server.offsets.details.values()
        assert len(kept) <= 4


def test_who_is_no_member_of_the_generation_commits_nothing() -> None:
    with Server("3.6", topics={"in": 1}) as server:
        raw = Raw(server)
        raw.begin()
        refused = raw.commit_offset(5, generation_id=3, member_id="m")
        assert refused == "UNKNOWN_MEMBER_ID"
        raw.end(committed=True)
        assert raw.offset(require_stable=True) == ("NONE", -1)
