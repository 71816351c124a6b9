"""Requests around the protocol of transactions: as Kafka answers them, in their newest versions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final
from uuid import uuid4

import pytest

from epochfence.model.records import Record, RecordBatch, decode_batch, encode_batch
from epochfence.model.serve.server import EARLY, Server, offered
from epochfence.model.wire.connection import KNOWN, Connection, Security, request_bytes
from epochfence.spec.access.acls import Acl, Acls
from epochfence.spec.releases.broker_versions import newest_of
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.tests.model.serve.apis_page import LEFT_OUT, kafkas, offers, page
from epochfence.tests.model.serve.clients import TIMEOUT_S

LAST_NAMED = 12
"""The last version of Produce in which topics go by names."""


class Client:
    """A connection that sends the newest version of each API."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = Connection(*server.brokers.addresses[0], Security())

    def ask(self, name: str, version: int | None = None, /, **fields: Any) -> dict[str, Any]:
        newest = self.server.brokers.versions[name][1]
        return self.connection.ask(name, newest if version is None else version, fields)

    def create(self, name: str, **given: Any) -> dict[str, Any]:
        """The answer about a topic that is created."""
        topic = {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
            **given,
        }
        (told,) = self.ask("CreateTopics", topics=[topic])["topics"]
        return told

    def produce(
        self, topic: str, data: bytes, version: int = LAST_NAMED, *, acks: int = -1
    ) -> dict[str, Any]:
        told = self.ask(
            "Produce", version, acks=acks, timeout=1000, transactional_id=None,
            topic_data=[
                {"name": topic, "topic_id": self.server.partitions.ids.get(topic),
                 "partition_data": [{"index": 0, "records": data}]}
            ],
        )  # fmt: skip
        return told["responses"][0]["partition_responses"][0]

    def fetch(self, topic_id: Any, **given: Any) -> dict[str, Any]:
        partition = {
            "partition": 0,
            "fetch_offset": 0,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": 0,
            **given.pop("partition", {}),
        }
        return self.ask(
            "Fetch", max_wait=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1,
            topics=[{"topic_id": topic_id, "partitions": [partition]}], **given,
        )  # fmt: skip

    def offset(self, timestamp: int) -> tuple[int, int]:
        """The offset and timestamp that ListOffsets finds in orders."""
        partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
        topics = [{"name": "orders", "partitions": [partition]}]
        told = self.ask("ListOffsets", replica_id=-1, isolation_level=0, topics=topics)
        (found,) = told["topics"][0]["partitions"]
        return found["offset"], found["timestamp"]


def batch(*timestamps: int, value: bytes = b"x") -> bytes:
    """A batch without producer id, of records with these timestamps (ms)."""
    first = timestamps[0]
    records = tuple(
        Record(offset_delta=n, value=value, timestamp_delta=at - first)
        for n, at in enumerate(timestamps)
    )
    return encode_batch(
        RecordBatch(
            base_offset=0,
            records=records,
            last_offset_delta=len(records) - 1,
            base_timestamp=first,
            max_timestamp=max(timestamps),
        )
    )


@pytest.fixture
def client() -> Iterator[Client]:
    with Server("4.4", topics={"orders": 1}) as server:
        one = Client(server)
        with closing(one.connection):
            yield one


# Versions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASED)
def test_versions_are_those_of_the_release_as_far_as_there_is_a_schema(release: str) -> None:
    newest = newest_of(release)
    for name in newest_of(NEWEST):
        theirs = kafkas(name, release)
        assert (None if theirs is None else theirs[1]) == newest.get(name), name
        first, last = KNOWN[name]
        is_there = theirs is not None and theirs[1] >= first
        if name in EARLY and RELEASED.index(release) < RELEASED.index("4.0.0"):
            is_there = False
        there = (first, min(theirs[1], last)) if theirs is not None and is_there else None
        assert offered(release).get(name) == there, name


def test_the_page_tells_of_each_api_that_is_offered() -> None:
    assert set(offers(NEWEST)) <= set(LEFT_OUT)
    text = page()
    assert all(f"\n| {name} | " in text for name in offers(NEWEST))
    assert "| TxnOffsetCommit | 0 | 0 to 3 | 0 to 3 | 0 to 5 | 0 to 5 | 0 to 6 |" in text
    assert "CreateAcls" in text.splitlines()[-1]


# Topic ids ----------------------------------------------------------------------------------------


def test_topics_go_by_ids(client: Client) -> None:
    (topic,) = client.ask("Metadata", topics=[{"name": "orders", "topic_id": None}])["topics"]
    topic_id = topic["topic_id"]
    (same,) = client.ask("Metadata", topics=[{"name": None, "topic_id": topic_id}])["topics"]
    assert same == topic
    assert client.produce("orders", batch(1), 13)["error_code"] == "NONE"
    (found,) = client.fetch(topic_id)["responses"]
    assert found["topic_id"] == topic_id
    assert decode_batch(found["partitions"][0]["records"])[0].records[0].value == b"x"
    offsets = [
        {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": 0,
            "committed_metadata": None,
        }
    ]
    committed = client.ask(
        "OffsetCommit",
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"topic_id": topic_id, "partitions": offsets}],
    )
    assert committed["topics"][0]["partitions"][0]["error_code"] == "NONE"
    wanted = [{"topic_id": topic_id, "partition_indexes": [0]}]
    groups = [{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": wanted}]
    (group,) = client.ask("OffsetFetch", groups=groups, require_stable=True)["groups"]
    (part,) = group["topics"][0]["partitions"]
    assert (part["committed_offset"], part["metadata"]) == (1, "")
    (gone,) = client.ask("DeleteTopics", topics=[{"name": None, "topic_id": topic_id}])["responses"]
    assert (gone["name"], gone["error_code"]) == ("orders", "NONE")


def test_an_id_that_no_topic_has(client: Client) -> None:
    unknown = uuid4()
    (topic,) = client.ask("Metadata", topics=[{"name": None, "topic_id": unknown}])["topics"]
    assert (topic["name"], topic["error_code"]) == (None, "UNKNOWN_TOPIC_ID")
    (found,) = client.fetch(unknown)["responses"]
    assert (found["topic_id"], found["partitions"][0]["error_code"]) == (
        unknown,
        "UNKNOWN_TOPIC_ID",
    )
    (gone,) = client.ask("DeleteTopics", topics=[{"name": None, "topic_id": unknown}])["responses"]
    assert gone["error_code"] == "UNKNOWN_TOPIC_ID"


def test_who_names_a_topic_by_name_and_id(client: Client) -> None:
    both = {"name": "orders", "topic_id": uuid4()}
    (topic,) = client.ask("Metadata", topics=[both])["topics"]
    assert topic["error_code"] == "UNKNOWN_TOPIC_ID"
    (gone,) = client.ask("DeleteTopics", topics=[both])["responses"]
    assert gone["error_code"] == "INVALID_REQUEST"
    assert "orders" in client.server.partitions.topics


@pytest.mark.parametrize(
    ("release", "error"),
    [("2.5", "UNKNOWN_TOPIC_OR_PARTITION"), ("3.6", "INVALID_TOPIC_EXCEPTION")],
)
def test_a_name_that_no_topic_can_have(release: str, error: str) -> None:
    with Server(release, settings={"auto.create.topics.enable": "false"}) as server:
        client = Client(server)
        with closing(client.connection):
            asked = [{"name": "a/b", "topic_id": None}]
            (topic,) = client.ask("Metadata", topics=asked, allow_auto_topic_creation=False)[
                "topics"
            ]
            assert topic["error_code"] == error
            resource = {"resource_type": 2, "resource_name": "a/b", "configuration_keys": None}
            (result,) = client.ask("DescribeConfigs", resources=[resource])["results"]
            assert result["error_code"] == "INVALID_TOPIC_EXCEPTION"


def test_an_internal_topic_is_there_once_its_coordinator_is_looked_for(client: Client) -> None:
    def all_topics() -> list[tuple[str, bool, int]]:
        told = client.ask("Metadata", topics=None)["topics"]
        return [(one["name"], one["is_internal"], len(one["partitions"])) for one in told]

    orders = ("orders", False, 1)
    assert all_topics() == [orders]
    client.ask("FindCoordinator", key_type=0, coordinator_keys=["g"])
    assert all_topics() == [orders, ("__consumer_offsets", True, 50)]
    client.ask("FindCoordinator", key_type=1, coordinator_keys=["t"])
    assert all_topics()[2] == ("__transaction_state", True, 50)


def test_coordinators_of_several_groups(client: Client) -> None:
    told = client.ask("FindCoordinator", key_type=0, coordinator_keys=["a", "b"])["coordinators"]
    assert [(one["key"], one["error_code"], one["node_id"]) for one in told] == [
        ("a", "NONE", 0),
        ("b", "NONE", 0),
    ]
    assert {one["port"] for one in told} == {client.server.brokers.addresses[0][1]}


# Logs ---------------------------------------------------------------------------------------------


def test_offsets_by_the_time_that_clients_give(client: Client) -> None:
    assert client.offset(0) == (-1, -1)
    client.produce("orders", batch(100, 300, 200))
    client.produce("orders", batch(250))
    assert client.offset(100) == (0, 100)
    assert client.offset(101) == (1, 300)
    assert client.offset(300) == (1, 300)
    assert client.offset(301) == (-1, -1)
    assert client.offset(-3) == (1, 300)
    assert client.offset(-4)[0] == 0
    assert client.offset(-1)[0] == 4


def test_offsets_by_the_time_of_the_append(client: Client) -> None:
    configs = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
    assert client.create("by-append", configs=configs)["error_code"] == "NONE"
    now = client.server.cluster.now_ms
    told = client.produce("by-append", batch(100, 300))
    assert told["log_append_time"] >= now
    partition = {"partition_index": 0, "timestamp": 301, "current_leader_epoch": -1}
    topics = [{"name": "by-append", "partitions": [partition]}]
    found = client.ask("ListOffsets", replica_id=-1, isolation_level=0, topics=topics)
    (part,) = found["topics"][0]["partitions"]
    assert (part["offset"], part["timestamp"]) == (0, told["log_append_time"])
    (read,) = client.fetch(client.server.partitions.ids["by-append"])["responses"]
    stored, _ = decode_batch(read["partitions"][0]["records"])
    assert [stored.timestamp_of(one) for one in stored.records] == [told["log_append_time"]] * 2


def test_a_batch_above_the_limit_is_refused(client: Client) -> None:
    large = batch(1, value=bytes(1_048_588))
    assert client.produce("orders", large)["error_code"] == "MESSAGE_TOO_LARGE"
    configs = [{"name": "max.message.bytes", "value": "2000000"}]
    client.create("large", configs=configs)
    assert client.produce("large", large)["error_code"] == "NONE"


def test_a_batch_behind_whose_topic_few_replicas_are_in_sync_is_refused() -> None:
    configs = [{"name": "min.insync.replicas", "value": "2"}]
    with Server("4.4", brokers=3, in_sync=1, settings={"default.replication.factor": "3"}) as three:
        client = Client(three)
        with closing(client.connection):
            for name, replicas in (("alone", 1), ("shared", 3)):
                client.create(name, configs=configs, replication_factor=replicas)
            assert client.produce("alone", batch(1))["error_code"] == "NONE"
            assert client.produce("shared", batch(1))["error_code"] == "NOT_ENOUGH_REPLICAS"
            assert client.produce("shared", batch(1), acks=1)["error_code"] == "NONE"
            asked = [{"name": "shared", "topic_id": None}]
            (topic,) = client.ask("Metadata", topics=asked)["topics"]
            assert topic["partitions"][0]["replica_nodes"] == [0, 1, 2]
            assert topic["partitions"][0]["isr_nodes"] == [0]


def test_until_37_a_topic_with_few_replicas_takes_no_batch_that_all_have_to_get() -> None:
    with Server("3.6", topics={"orders": 1}, settings={"min.insync.replicas": "2"}) as server:
        client = Client(server)
        with closing(client.connection):
            assert client.produce("orders", batch(1), 9)["error_code"] == "NOT_ENOUGH_REPLICAS"
            assert client.produce("orders", batch(1), 9, acks=1)["error_code"] == "NONE"


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("release", "setting", "wrong"),
    [
        ("3.5", None, []),
        ("4.4", None, [1]),
        ("3.5", "message.timestamp.difference.max.ms", [0, 1]),
        ("3.6", "message.timestamp.difference.max.ms", [0, 1]),
        ("4.4", "message.timestamp.before.max.ms", [0, 1]),
    ],
)
def test_timestamps_are_near_the_clock_of_the_broker(
    release: str, setting: str | None, wrong: list[int]
) -> None:
    with Server(release) as server:
        client = Client(server)
        with closing(client.connection):
            configs = [] if setting is None else [{"name": setting, "value": "1000"}]
            assert client.create("orders", configs=configs)["error_code"] == "NONE"
            now = server.cluster.now_ms
            told = client.produce("orders", batch(now - HOUR_MS, now + 2 * HOUR_MS, now), 9)
            assert told["error_code"] == ("INVALID_TIMESTAMP" if wrong else "NONE")
            assert [one["batch_index"] for one in told["record_errors"]] == wrong
            by_append = [*configs, {"name": "message.timestamp.type", "value": "LogAppendTime"}]
            assert client.create("by-append", configs=by_append)["error_code"] == "NONE"
            told = client.produce("by-append", batch(now + 2 * HOUR_MS), 9)
            assert told["error_code"] == "NONE"


def test_who_wants_no_answer_loses_the_connection_by_an_error(client: Client) -> None:
    address = client.server.brokers.addresses[0]

    def sent(topic: str) -> socket.socket:
        parts = [{"index": 0, "records": batch(1)}]
        fields = {
            "acks": 0,
            "timeout": 1000,
            "transactional_id": None,
            "topic_data": [{"name": topic, "partition_data": parts}],
        }
        opened = socket.create_connection(address, timeout=TIMEOUT_S)
        for data in (request_bytes("Produce", 9, fields), request_bytes("ApiVersions", 0, {})):
            opened.sendall(len(data).to_bytes(4) + data)
        return opened

    with sent("orders") as fine, sent("nowhere") as closed:
        assert len(fine.recv(4)) == 4
        with suppress(ConnectionResetError):
            assert closed.recv(4) == b""


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (slice(0, 11), "INVALID_RECORD"),
        (slice(0, 16), "INVALID_RECORD"),
        (slice(0, -1), "INVALID_RECORD"),
        ((16, 3), "CORRUPT_MESSAGE"),
        ((16, 1), "INVALID_RECORD"),
        ((11, 13), "CORRUPT_MESSAGE"),
        ((-1, 1), "CORRUPT_MESSAGE"),
    ],
)
def test_bytes_that_are_no_whole_batch(
    client: Client, changed: slice | tuple[int, int], error: str
) -> None:
    data = bytearray(batch(1))
    if isinstance(changed, slice):
        data = data[changed]
    else:
        data[changed[0]] = changed[1]
    assert client.produce("orders", bytes(data))["error_code"] == error


@pytest.mark.parametrize(
    ("release", "version", "timestamp", "error", "offset"),
    [
        ("4.4", 11, -5, "NONE", -1),
        ("4.4", 8, -5, "UNSUPPORTED_VERSION", -1),
        ("4.4", 11, -7, "UNSUPPORTED_VERSION", -1),
        ("4.4", 6, -3, "UNSUPPORTED_VERSION", -1),
        ("4.4", 7, -3, "NONE", 1),
        ("3.9", 9, -6, "UNSUPPORTED_VERSION", -1),
        ("3.8", 8, -6, "NONE", 0),
        ("3.6", 8, -5, "NONE", 0),
        ("2.5", 5, -3, "NONE", 0),
    ],
)
def test_times_below_zero_have_a_meaning_from_a_version_on(
    release: str, version: int, timestamp: int, error: str, offset: int
) -> None:
    with Server(release, topics={"orders": 1}) as server:
        client = Client(server)
        with closing(client.connection):
            client.produce("orders", batch(1, 2), 8)
            partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
            topics = [{"name": "orders", "partitions": [partition]}]
            told = client.ask(
                "ListOffsets", version, replica_id=-1, isolation_level=0, topics=topics
            )
            (found,) = told["topics"][0]["partitions"]
            assert (found["error_code"], found["offset"]) == (error, offset)


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, "NONE"), (0, "NONE"), (1, "UNKNOWN_LEADER_EPOCH")]
)
def test_the_epoch_of_the_leader(client: Client, epoch: int, error: str) -> None:
    topic_id = client.server.partitions.ids["orders"]
    (found,) = client.fetch(topic_id, partition={"current_leader_epoch": epoch})["responses"]
    assert found["partitions"][0]["error_code"] == error
    partition = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    topics = [{"topic": "orders", "partitions": [partition]}]
    (topic,) = client.ask("OffsetForLeaderEpoch", replica_id=-1, topics=topics)["topics"]
    (part,) = topic["partitions"]
    end = 0 if error == "NONE" else -1
    assert (part["error_code"], part["leader_epoch"], part["end_offset"]) == (error, end, end)


def test_there_are_no_fetch_sessions(client: Client) -> None:
    topic_id = client.server.partitions.ids["orders"]
    assert client.fetch(topic_id, session_id=0, session_epoch=0)["session_id"] == 0
    told = client.fetch(topic_id, session_id=7, session_epoch=1)
    assert told["error_code"] == "FETCH_SESSION_ID_NOT_FOUND"
    told = client.fetch(topic_id, session_id=0, session_epoch=1)
    assert told["error_code"] == "FETCH_SESSION_ID_NOT_FOUND"


def test_records_are_deleted(client: Client) -> None:
    for _ in range(3):
        client.produce("orders", batch(1))

    def delete(offset: int) -> tuple[str, int]:
        partitions = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": "orders", "partitions": partitions}]
        told = client.ask("DeleteRecords", topics=topics, timeout=1000)
        (part,) = told["topics"][0]["partitions"]
        return part["error_code"], part["low_watermark"]

    assert delete(2) == ("NONE", 2)
    assert delete(4) == ("OFFSET_OUT_OF_RANGE", -1)
    assert client.offset(-2)[0] == 2
    (found,) = client.fetch(client.server.partitions.ids["orders"])["responses"]
    (part,) = found["partitions"]
    assert part["error_code"] == "OFFSET_OUT_OF_RANGE"
    # ReplicaManager.createLogReadResult
    assert part["high_watermark"] == part["last_stable_offset"] == part["log_start_offset"] == -1
    assert delete(-1) == ("NONE", 3)


# Topics and settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "NONE"),
        ({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR"),
        ({"replication_factor": 2}, "INVALID_REPLICATION_FACTOR"),
        ({"num_partitions": 0}, "INVALID_PARTITIONS"),
        ({"configs": [{"name": "no.such", "value": "1"}]}, "INVALID_CONFIG"),
        ({"configs": [{"name": "retention.ms", "value": "soon"}]}, "INVALID_CONFIG"),
        ({"configs": [{"name": "retention.ms", "value": None}]}, "INVALID_CONFIG"),
        ({"configs": [{"name": "retention.ms", "value": "1"}]}, "NONE"),
        ({"assignments": [{"partition_index": 0, "broker_ids": [0]}]}, "INVALID_REQUEST"),
        ({"assignments": [{"partition_index": 1, "broker_ids": [0]}], "num_partitions": -1,
          "replication_factor": -1}, "INVALID_REPLICA_ASSIGNMENT"),
    ],
)  # fmt: skip
def test_topics_that_can_and_cant_be_made(client: Client, given: Any, error: str) -> None:
    told = client.create("made", **given)
    assert told["error_code"] == error
    assert ("made" in client.server.partitions.topics) == (error == "NONE")
    assert (told["topic_id"] is None) == (error != "NONE")
    values = {each["name"]: (each["value"], each["config_source"]) for each in told["configs"]}
    assert bool(values) == (error == "NONE")
    if values:
        own = {each["name"]: each["value"] for each in given.get("configs", ())}
        assert values["retention.ms"] == (("1", 1) if own else ("604800000", 5))


def test_names_that_collide(client: Client) -> None:
    assert client.create("a.b")["error_code"] == "NONE"
    assert client.create("a_b")["error_code"] == "INVALID_TOPIC_EXCEPTION"
    assert client.create("a-b")["error_code"] == "NONE"


def test_settings_of_a_topic_are_told_and_changed(client: Client) -> None:
    def told(key: str) -> tuple[str, int]:
        resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": [key]}
        (result,) = client.ask("DescribeConfigs", resources=[resource])["results"]
        (config,) = result["configs"]
        return config["value"], config["config_source"]

    def alter(name: str, operation: int, value: str | None) -> str:
        config = {"name": name, "config_operation": operation, "value": value}
        resource = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
        answer = client.ask("IncrementalAlterConfigs", resources=[resource], validate_only=False)
        return answer["responses"][0]["error_code"]

    assert told("retention.ms") == ("604800000", 5)
    assert alter("retention.ms", 0, "1") == "NONE"
    assert told("retention.ms") == ("1", 1)
    assert alter("retention.ms", 1, None) == "NONE"
    assert told("retention.ms") == ("604800000", 5)
    assert alter("cleanup.policy", 2, "compact") == "NONE"
    assert told("cleanup.policy") == ("delete,compact", 1)
    assert alter("cleanup.policy", 3, "delete") == "NONE"
    assert told("cleanup.policy") == ("compact", 1)
    assert alter("retention.ms", 2, "1") == "INVALID_CONFIG"
    assert alter("no.such", 0, "1") == "INVALID_CONFIG"
    assert alter("no.such", 1, None) == "NONE"
    assert alter("retention.ms", 0, None) == "INVALID_REQUEST"
    config = {"name": "max.message.bytes", "value": "10"}
    resource = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
    client.ask("AlterConfigs", resources=[resource], validate_only=False)
    assert told("cleanup.policy") == ("delete", 5)
    assert client.produce("orders", batch(1))["error_code"] == "MESSAGE_TOO_LARGE"
    broker = {"resource_type": 4, "resource_name": "0", "configuration_keys": None}
    (result,) = client.ask("DescribeConfigs", resources=[broker])["results"]
    assert {"message.max.bytes", "auto.create.topics.enable"} <= {
        each["name"] for each in result["configs"]
    }


READS: Final = 1 << 3 | 1 << 8  # READ, and DESCRIBE, which READ includes


@pytest.mark.parametrize(
    ("release", "all_on_group"), [("3.6", 0b1_0100_1000), ("4.4", 0b1101_0100_1000)]
)
def test_operations_that_who_asks_may_carry_out(release: str, all_on_group: int) -> None:
    readers = [Acl("User:ANONYMOUS", "READ", kind, "orders") for kind in ("TOPIC", "GROUP")]
    with Server(release, topics={"orders": 1}) as server:
        client = Client(server)
        with closing(client.connection):
            offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            topics = [{"name": "orders", "partitions": [offset]}]
            member = {"generation_id": -1, "generation_id_or_member_epoch": -1, "member_id": ""}
            client.ask("OffsetCommit", 8, group_id="orders", **member, topics=topics)
            asked = [{"name": "orders", "topic_id": None}]

            def told() -> tuple[int, int, int]:
                metadata = client.ask(
                    "Metadata", topics=asked, include_topic_authorized_operations=True
                )
                groups = client.ask(
                    "DescribeGroups", groups=["orders"], include_authorized_operations=True
                )
                cluster = client.ask("DescribeCluster", include_cluster_authorized_operations=True)
                return (
                    metadata["topics"][0]["topic_authorized_operations"],
                    groups["groups"][0]["authorized_operations"],
                    cluster["cluster_authorized_operations"],
                )

            assert told() == (0b1101_1111_1000, all_on_group, 0b1_1111_1010_0000)
            server.cluster.acls = Acls(tuple(readers))
            assert told() == (READS, READS, 0)
            quiet = client.ask("Metadata", topics=asked)
            assert quiet["topics"][0]["topic_authorized_operations"] == -(2**31)


def test_partitions_are_added(client: Client) -> None:
    def add(name: str, count: int, assigned: Any = None) -> str:
        topic = {"name": name, "count": count, "assignments": assigned}
        told = client.ask("CreatePartitions", topics=[topic], timeout=1000, validate_only=False)
        return told["results"][0]["error_code"]

    assert add("orders", 3) == "NONE"
    assert client.server.partitions.topics["orders"] == 3
    assert add("orders", 3) == "INVALID_PARTITIONS"
    assert add("nowhere", 3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert add("orders", 5, [{"broker_ids": [0]}]) == "INVALID_REPLICA_ASSIGNMENT"


def test_the_cluster_and_its_directories(client: Client) -> None:
    client.produce("orders", batch(1))
    told = client.ask("DescribeCluster", endpoint_type=1)
    assert [one["broker_id"] for one in told["brokers"]] == [0]
    assert (
        client.ask("DescribeCluster", endpoint_type=2)["error_code"] == "MISMATCHED_ENDPOINT_TYPE"
    )
    assert (
        client.ask("DescribeCluster", endpoint_type=3)["error_code"] == "UNSUPPORTED_ENDPOINT_TYPE"
    )
    (directory,) = client.ask("DescribeLogDirs", topics=None)["results"]
    (topic,) = directory["topics"]
    assert topic["partitions"][0]["partition_size"] == len(batch(1))


# Groups -------------------------------------------------------------------------------------------


def subscription(*topics: str) -> bytes:
    """A member's subscription, in version 0 of ConsumerProtocolSubscription."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"


def test_groups_are_described_and_offsets_deleted(client: Client) -> None:
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("orders")}],
    }
    joined = client.ask("JoinGroup", 5, **fields, member_id="")
    member = joined["member_id"]
    joined = client.ask("JoinGroup", 5, **fields, member_id=member)
    client.ask(
        "SyncGroup", group_id="g", member_id=member, generation_id=joined["generation_id"],
        group_instance_id=None, protocol_type="consumer", protocol_name="range",
        assignments=[{"member_id": member, "assignment": b"mine"}],
    )  # fmt: skip
    group, dead = client.ask("DescribeGroups", groups=["g", "none"])["groups"]
    assert (group["group_state"], group["protocol_data"]) == ("Stable", "range")
    (one,) = group["members"]
    assert (one["member_id"], one["client_id"], one["member_assignment"]) == (
        member,
        "epochfence",
        b"mine",
    )
    assert (dead["group_state"], dead["error_code"]) == ("Dead", "GROUP_ID_NOT_FOUND")
    (listed,) = client.ask("ListGroups", states_filter=["stable"], types_filter=["Classic"])[
        "groups"
    ]
    assert (listed["group_id"], listed["group_type"]) == ("g", "classic")
    assert client.ask("ListGroups", states_filter=[], types_filter=["consumer"])["groups"] == []

    def delete(topic: str) -> dict[str, Any]:
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        return client.ask("OffsetDelete", group_id="g", topics=topics)

    client.create("other")
    assert delete("orders")["topics"][0]["partitions"][0]["error_code"] == (
        "GROUP_SUBSCRIBED_TO_TOPIC"
    )
    assert delete("other")["topics"][0]["partitions"][0]["error_code"] == "NONE"


def test_who_asks_about_a_group_doesnt_make_it(client: Client) -> None:
    told = client.ask(
        "Heartbeat", group_id="g", generation_id=1, member_id="m", group_instance_id=None
    )
    assert told["error_code"] == "UNKNOWN_MEMBER_ID"
    assert client.ask("ListGroups", states_filter=[], types_filter=[])["groups"] == []
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    told = client.ask("OffsetDelete", group_id="g", topics=topics)
    assert told["error_code"] == "GROUP_ID_NOT_FOUND"
    (group,) = client.ask("DescribeGroups", groups=["g"])["groups"]
    assert group["error_code"] == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize(("release", "is_gone"), [("3.9", True), ("4.0.0", False)])
def test_a_group_without_members_goes_with_its_last_offset(release: str, is_gone: bool) -> None:
    """Of groups, the empty id may be that of one, too."""
    with Server(release, topics={"orders": 1}) as server:
        client = Client(server)
        with closing(client.connection):
            for group in ("g", ""):
                offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
                client.ask(
                    "OffsetCommit", 8, group_id=group, member_id="", generation_id=-1,
                    generation_id_or_member_epoch=-1,
                    topics=[{"name": "orders", "partitions": [offset]}],
                )  # fmt: skip
            topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
            assert client.ask("OffsetDelete", group_id="g", topics=topics)["error_code"] == "NONE"
            groups = client.ask("DescribeGroups", 5, groups=["g", ""])["groups"]
    states = [(group["error_code"], group["group_state"]) for group in groups]
    assert states == [("NONE", "Dead" if is_gone else "Empty"), ("NONE", "Empty")]


@pytest.mark.parametrize(("release", "listed"), [("2.8", None), ("3.0", [])])
def test_what_is_listed_of_a_partition_that_isnt_there(release: str, listed: object) -> None:
    with Server(release, topics={"orders": 1}) as server:
        client = Client(server)
        with closing(client.connection):
            part = {"partition": 7, "fetch_offset": 0, "partition_max_bytes": 1}
            told = client.ask(
                "Fetch", 12, max_wait=0, min_bytes=1, max_bytes=1, isolation_level=1,
                topics=[{"topic": "orders", "partitions": [part]}],
            )  # fmt: skip
    (found,) = told["responses"][0]["partitions"]
    assert found["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert found["aborted_transactions"] == listed


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "a.b"}, "Topic 'a.b' collides with existing topic: a_b"),
        ({"name": ""}, "Topic name is invalid: the empty string is not allowed"),
        ({"name": ".."}, "Topic name is invalid: '..' is not allowed"),
        ({"name": "a/b"}, "Topic name is invalid: 'a/b' contains one or more characters other"),
        ({"name": "x" * 250}, "is longer than the max allowed length 249"),
        ({"name": "a_b"}, "Topic 'a_b' already exists."),
        ({"name": "c", "replication_factor": 0}, "Replication factor must be larger than 0"),
        ({"name": "c", "replication_factor": 2}, "because only 1 broker"),
        ({"name": "c", "configs": [{"name": "flush.ms", "value": "x"}]}, "Not a number of type"),
        ({"name": "c", "configs": [{"name": "flush.ms", "value": "-1"}]}, "must be at least 0"),
        ({"name": "c", "configs": [{"name": "preallocate", "value": "x"}]}, "true or false"),
        (
            {"name": "c", "configs": [{"name": "cleanup.policy", "value": "x"}]},
            "String must be one of: compact, delete",
        ),
    ],
)
def test_a_topic_that_isnt_made_has_a_reason(
    client: Client, given: dict[str, Any], why: str
) -> None:
    client.create("a_b")
    given = dict(given)
    told = client.create(given.pop("name"), **given)
    assert why in told["error_message"]


def test_a_long_text_beside_an_offset_is_refused(client: Client) -> None:
    client.create("other")

    def part(metadata: str) -> list[dict[str, Any]]:
        return [
            {
                "partition_index": 0,
                "committed_offset": 1,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
            }
        ]

    topics = [
        {"name": "orders", "partitions": part("x" * 4096)},
        {"name": "other", "partitions": part("x" * 4097)},
    ]
    told = client.ask(
        "OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=-1, generation_id=-1,
        member_id="", topics=topics,
    )  # fmt: skip
    errors = [topic["partitions"][0]["error_code"] for topic in told["topics"]]
    assert errors == ["NONE", "OFFSET_METADATA_TOO_LARGE"]


# Options ------------------------------------------------------------------------------------------


def test_settings_of_brokers_replicas_racks_and_an_advertised_host() -> None:
    settings = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": "2",
        "group.min.session.timeout.ms": "1",
    }
    with Server(
        "4.4",
        brokers=3,
        topics={"orders": 3},
        settings=settings,
        racks=("a", "b"),
        advertised="localhost",
    ) as server:
        assert server.bootstrap.startswith("localhost:")
        client = Client(server)
        with closing(client.connection):
            asked = [{"name": name, "topic_id": None} for name in ("orders", "nowhere")]
            told = client.ask("Metadata", topics=asked, allow_auto_topic_creation=True)
    assert [(one["host"], one["rack"]) for one in told["brokers"]] == [
        ("localhost", "a"),
        ("localhost", "b"),
        ("localhost", "a"),
    ]
    orders, nowhere = told["topics"]
    assert nowhere["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [(one["replica_nodes"], one["isr_nodes"]) for one in orders["partitions"]] == [
        ([0, 1], [0, 1]),
        ([1, 2], [1, 2]),
        ([2, 0], [2, 0]),
    ]


@pytest.mark.parametrize("given", [{"no.such": "1"}, {"num.partitions": "many"}])
def test_settings_that_brokers_dont_heed_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        Server("4.4", settings=given)
