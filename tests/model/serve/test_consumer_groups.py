"""Consumer groups whose coordinator assigns partitions (KIP-848), with librdkafka and by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from epochfence.model.serve.server import Server
from epochfence.tests.model.serve.clients import TIMEOUT_S, eventually, in_transactions, librdkafka
from epochfence.tests.model.serve.test_apis import Client

PARTITIONS = 4


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("4.4", topics={"orders": PARTITIONS}) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    one = Client(server)
    with closing(one.connection):
        yield one


class Hand:
    """A member that sends its heartbeats by hand."""

    def __init__(self, client: Client, group: str = "g") -> None:
        self.client, self.group, self.id = client, group, str(uuid4())
        self.epoch = 0
        self.has: set[int] = set()

    def beat(self, **given: Any) -> dict[str, Any]:
        """The answer to a heartbeat; the member does as it says."""
        joins = self.epoch == 0
        topic_id = self.client.server.partitions.ids["orders"]
        owned = [{"topic_id": topic_id, "partitions": sorted(self.has)}] if self.has else []
        fields = {
            "group_id": self.group, "member_id": self.id, "member_epoch": self.epoch,
            "rebalance_timeout": 1000 if joins else -1, "topic_partitions": owned,
            "subscribed_topic_names": ["orders"] if joins else None, "instance_id": None,
            "rack_id": None, "server_assignor": None, "subscribed_topic_regex": None, **given,
        }  # fmt: skip
        told = self.client.ask("ConsumerGroupHeartbeat", **fields)
        if told["error_code"] == "NONE":
            self.epoch = told["member_epoch"]
            if told["assignment"] is not None:
                parts = told["assignment"]["topic_partitions"]
                self.has = {number for topic in parts for number in topic["partitions"]}
        return told


def test_a_partition_is_given_up_before_another_member_has_it(client: Client) -> None:
    first, second = Hand(client), Hand(client)
    first.beat()
    assert first.has == {0, 1, 2, 3}
    second.beat()
    assert second.has == set()  # nothing is free yet
    assert first.beat()["member_epoch"] == 1  # it learns that it gives up two
    assert len(first.has) == 2
    assert second.beat()["assignment"] is None
    assert first.beat()["member_epoch"] == 2  # it has given them up
    second.beat()
    assert second.has == {0, 1, 2, 3} - first.has
    (group,) = client.ask("ConsumerGroupDescribe", group_ids=["g"])["groups"]
    assert (group["group_state"], group["group_epoch"], len(group["members"])) == ("Stable", 2, 2)
    first.beat(member_epoch=-1)
    second.beat()
    assert second.has == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"member_epoch": 2}, "FENCED_MEMBER_EPOCH"),
        ({"member_id": "nobody"}, "UNKNOWN_MEMBER_ID"),
        ({"group_id": "other"}, "GROUP_ID_NOT_FOUND"),
        ({"server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
        ({"member_id": ""}, "INVALID_REQUEST"),
        ({"member_epoch": -3}, "INVALID_REQUEST"),
        ({"subscribed_topic_regex": "("}, "INVALID_REGULAR_EXPRESSION"),
        ({"member_epoch": 0}, "INVALID_REQUEST"),  # it says nothing of its subscription
    ],
)
def test_heartbeats_that_are_refused(client: Client, given: dict[str, Any], error: str) -> None:
    member = Hand(client)
    member.beat()
    assert member.beat(**given)["error_code"] == error


def test_offsets_are_those_of_a_member_in_its_epoch(client: Client) -> None:
    member = Hand(client)
    member.beat()
    topic_id = client.server.partitions.ids["orders"]

    def commit(epoch: int, member_id: str = member.id) -> str:
        part = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        told = client.ask(
            "OffsetCommit",
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[{"topic_id": topic_id, "partitions": [part]}],
        )
        return told["topics"][0]["partitions"][0]["error_code"]

    assert commit(1) == "NONE"
    assert commit(0) == "STALE_MEMBER_EPOCH"
    assert commit(1, "nobody") == "UNKNOWN_MEMBER_ID"
    (listed,) = client.ask("ListGroups", states_filter=[], types_filter=["consumer"])["groups"]
    assert (listed["group_id"], listed["group_state"]) == ("g", "Stable")
    (result,) = client.ask("DeleteGroups", groups_names=["g"])["results"]
    assert result["error_code"] == "NON_EMPTY_GROUP"
    member.beat(member_epoch=-1)
    (result,) = client.ask("DeleteGroups", groups_names=["g"])["results"]
    assert result["error_code"] == "NONE"


def test_offsets_in_a_transaction_are_those_of_a_member_in_its_epoch(client: Client) -> None:
    """KIP-1319: version 6 names topics by ids, and has the group's own errors."""
    member = Hand(client)
    member.beat()
    known = client.server.partitions.ids["orders"]
    told = client.ask("InitProducerId", transactional_id="id", transaction_timeout=60_000)
    producer = {name: told[name] for name in ("producer_id", "producer_epoch")}

    def commit(epoch: int, group_id: str = "g", topic_id: UUID = known, version: int = 6) -> str:
        part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        told = client.ask(
            "TxnOffsetCommit", version, transactional_id="id", group_id=group_id, **producer,
            generation_id_or_member_epoch=epoch, generation_id=epoch, member_id=member.id,
            topics=[{"topic_id": topic_id, "name": "orders", "partitions": [part]}],
        )  # fmt: skip
        return told["topics"][0]["partitions"][0]["error_code"]

    assert commit(1, topic_id=uuid4()) == "UNKNOWN_TOPIC_ID"
    assert commit(0) == "STALE_MEMBER_EPOCH"
    assert commit(0, version=5) == "ILLEGAL_GENERATION"
    assert commit(1, "other") == "GROUP_ID_NOT_FOUND"
    assert commit(1, "other", version=5) == "ILLEGAL_GENERATION"
    assert commit(1) == "NONE"
    assert (
        client.ask("EndTxn", transactional_id="id", committed=True, **producer)["error_code"]
        == "NONE"
    )
    wanted = [{"topic_id": known, "partition_indexes": [0]}]
    groups = [{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": wanted}]
    (group,) = client.ask("OffsetFetch", groups=groups, require_stable=True)["groups"]
    assert group["topics"][0]["partitions"][0]["committed_offset"] == 1


def test_partitions_that_are_added_are_assigned(client: Client) -> None:
    member = Hand(client)
    member.beat()
    topic = {"name": "orders", "count": 6, "assignments": None}
    client.ask("CreatePartitions", topics=[topic], timeout=1000, validate_only=False)
    member.beat()
    assert member.has == set(range(6))


def consumer(server: Server, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )


@pytest.mark.slow(5)
def test_librdkafka_shares_partitions_and_commits_in_transactions(server: Server) -> None:
    first, second = consumer(server), consumer(server)
    for each in (first, second):
        each.subscribe(["orders"])

    def is_shared() -> bool:
        first.poll(0.05)
        second.poll(0.05)
        return len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2

    eventually(is_shared)
    writer = librdkafka(server.bootstrap)
    for number in range(PARTITIONS):
        writer.produce("orders", f"{number}", partition=number)
    assert writer.flush(TIMEOUT_S) == 0
    producer = in_transactions(server.bootstrap, "copy")
    for each in (first, second):
        found = []
        while len(found) < PARTITIONS // 2:
            found += each.consume(1, TIMEOUT_S)
        producer.begin_transaction()
        offsets = [TopicPartition("orders", m.partition(), m.offset() + 1) for m in found]
        producer.send_offsets_to_transaction(offsets, each.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
    second.close()
    places = [TopicPartition("orders", number) for number in range(PARTITIONS)]
    assert [each.offset for each in first.committed(places, TIMEOUT_S)] == [1] * PARTITIONS
    first.close()
