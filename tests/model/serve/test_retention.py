"""The records that brokers don't keep: by size, by age, and those that they write themselves."""

from __future__ import annotations

import gc
import time
from contextlib import closing
from dataclasses import replace

import pytest

from epochfence.model.records import Flag, decode_batch, encode_batch
from epochfence.model.serve.handlers import partitions
from epochfence.model.serve.server import Server
from epochfence.tests.model.serve.test_apis import Client, batch


def test_the_oldest_segments_go_where_a_topic_keeps_no_more() -> None:
    data = batch(1, value=bytes(1000))
    settings = {"log.segment.bytes": str(2 * len(data)), "log.retention.bytes": str(3 * len(data))}
    with Server("3.9", topics={"orders": 1}, settings=settings) as server:
        client = Client(server)
        with closing(client.connection):
            for _ in range(20):
                assert client.produce("orders", data, 9)["error_code"] == "NONE"
            assert client.offset(-2)[0] == 16
            assert client.offset(-1)[0] == 20
            assert server.partitions.size("orders", 0) == 4 * len(data)


def test_records_that_are_too_old_go() -> None:
    hour = 3_600_000
    data = batch(now_ms() - 2 * hour)
    settings = {"log.retention.ms": str(hour), "log.retention.check.interval.ms": "1"}
    with Server("3.9", topics={"orders": 1, "kept": 1}, settings=settings) as server:
        client = Client(server)
        with closing(client.connection):
            configs = [{"name": "cleanup.policy", "value": "compact", "config_operation": 0}]
            resource = {"resource_type": 2, "resource_name": "kept", "configs": configs}
            client.ask("IncrementalAlterConfigs", resources=[resource], validate_only=False)
            for topic in ("orders", "kept"):
                assert client.produce(topic, data, 9)["error_code"] == "NONE"
            until = time.monotonic() + 10
            while client.offset(-2)[0] < 1 and time.monotonic() < until:
                time.sleep(0.05)
            assert client.offset(-2)[0] == client.offset(-1)[0] == 1
            assert client.produce("orders", batch(now_ms()), 9)["base_offset"] == 1
            time.sleep(0.3)
            assert client.offset(-2)[0] == 1
            assert server.partitions.leader("kept", 0).log_start_offset == 0
            assert server.partitions.leader("orders", 0).segments == [1]


def test_markers_count_where_a_topic_keeps_no_more() -> None:
    settings = {"log.segment.bytes": "780", "log.retention.bytes": "780"}
    with Server("4.4", topics={"orders": 1}, settings=settings) as server:
        client = Client(server)
        topics = [{"name": "orders", "partition_indexes": [0]}]
        marker = {
            "producer_id": 1000, "producer_epoch": 0, "transaction_result": False,
            "topics": topics, "coordinator_epoch": 0, "transaction_version": 0,
        }  # fmt: skip
        with closing(client.connection):
            for _ in range(50):
                client.ask("WriteTxnMarkers", markers=[marker])
                server.brokers.do(counted(server))
        leader = server.partitions.leader("orders", 0)
        assert leader.log_end_offset == 50
        assert 10 <= len(leader.batches) <= 20


def test_few_of_the_groups_offsets_are_kept_as_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "OFFSETS_BYTES", 10 * partitions.MARKER_BYTES)
    with Server("4.4", topics={"orders": 1}) as server:
        client = Client(server)
        with closing(client.connection):
            for offset in range(50):
                part = {"partition_index": 0, "committed_offset": offset}
                told = client.ask(
                    "OffsetCommit", 8, group_id="group", member_id="", generation_id=-1,
                    generation_id_or_member_epoch=-1,
                    topics=[{"name": "orders", "partitions": [{**part, "committed_metadata": ""}]}],
                )  # fmt: skip
                assert told["topics"][0]["partitions"][0]["error_code"] == "NONE"
                server.brokers.do(counted(server))
            (leader,) = (
                leader
                for name, leader in server.cluster.leaders.items()
                if name.startswith(partitions.OFFSETS_TOPIC)
            )
            assert leader.log_end_offset == 50
            assert 10 <= len(leader.batches) <= 20
            groups = [{"group_id": "group", "topics": None, "member_id": None, "member_epoch": -1}]
            told = client.ask("OffsetFetch", groups=groups, require_stable=True)
            (topic,) = told["groups"][0]["topics"]
            assert topic["partitions"][0]["committed_offset"] == 49


def test_transactions_leave_no_objects_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed and aborted ones, with a record and an offset each."""
    monkeypatch.setattr(partitions, "OFFSETS_BYTES", 10 * partitions.MARKER_BYTES)
    settings = {"log.segment.bytes": "1000", "log.retention.bytes": "1000"}
    with Server("4.4", topics={"orders": 1}, settings=settings) as server:
        client, objects = Client(server), list[int]()
        with closing(client.connection):
            for _ in range(3):
                for _ in range(20):
                    in_transactions(client, 10)
                server.brokers.do(counted(server))
                gc.collect()
                objects.append(len(gc.get_objects()))
        assert server.partitions.leader("orders", 0).log_end_offset == 2 * 3 * 20 * 10
        assert objects[2] - objects[1] < 100  # of 200 transactions


def in_transactions(client: Client, count: int) -> None:
    """Transactions of a record and an offset, of which half are aborted."""
    told = client.ask("InitProducerId", transactional_id="id", transaction_timeout=60_000)
    plain = replace(
        decode_batch(batch(now_ms()))[0], attributes=Flag.TRANSACTIONAL, base_sequence=0
    )
    for n in range(count):
        producer = {name: told[name] for name in ("producer_id", "producer_epoch")}
        part = {"index": 0, "records": encode_batch(replace(plain, **producer))}
        topic = {"topic_id": client.server.partitions.ids["orders"], "partition_data": [part]}
        (of_topic,) = client.ask(
            "Produce", acks=-1, timeout=1000, transactional_id="id", topic_data=[topic]
        )["responses"]
        assert of_topic["partition_responses"][0]["error_code"] == "NONE"
        offset = {"partition_index": 0, "committed_offset": n, "committed_metadata": ""}
        told = client.ask(
            "TxnOffsetCommit", 5, transactional_id="id", group_id="group", **producer,
            generation_id=-1, member_id="", topics=[{"name": "orders", "partitions": [offset]}],
        )  # fmt: skip
        assert told["topics"][0]["partitions"][0]["error_code"] == "NONE"
        told = client.ask("EndTxn", transactional_id="id", committed=bool(n % 2), **producer)
        assert told["error_code"] == "NONE"


async def counted(server: Server) -> None:
    server.partitions.count_all()


def now_ms() -> int:
    return round(time.time() * 1000)
