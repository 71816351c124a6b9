"""Clients that nobody here wrote talk to the wire layer: what they send is read, and they take what
is answered. Behind it stands no broker, only logs that take everything."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from epochfence.model.records import (
    Flag,
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
    encode_marker,
)
from epochfence.model.serve.server import offered
from epochfence.model.wire.connection import KEYS
from epochfence.model.wire.listener import (
    LOST,
    Answer,
    Brokers,
    Request,
    Silence,
)
from epochfence.model.wire.shapes import plain, shaped

VERSIONS = offered("4.3")
TOPIC = "orders"
NOTHING = Answer({})


class Logs:
    """One partition that takes every batch, and a coordinator that says yes to everything."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.batches: list[RecordBatch] = []
        self.marked = 0
        self.brokers = Brokers(self.handle, VERSIONS)
        self.answers: dict[str, Callable[[Request], Answer | Silence]] = {
            "Metadata": self.metadata,
            "FindCoordinator": lambda _: Answer({"node_id": 0, **self.address}),
            "InitProducerId": lambda _: Answer({"producer_id": 7, "producer_epoch": 0}),
            "AddPartitionsToTxn": self.add_partitions,
            "EndTxn": self.end,
            "Produce": self.produce,
            "ListOffsets": self.list_offsets,
            "Fetch": self.fetch,
        }

    @property
    def address(self) -> dict[str, Any]:
        host, port = self.brokers.addresses[0]
        return {"host": host, "port": port}

    @property
    def end_offset(self) -> int:
        if not self.batches:
            return 0
        return self.batches[-1].base_offset + self.batches[-1].last_offset_delta + 1

    def handle(self, request: Request) -> Answer | Silence:
        self.seen[request.name] += 1
        return self.answers[request.name](request)

    def metadata(self, _: Request) -> Answer:
        partition = {"partition_index": 0, "leader_id": 0, "replica_nodes": [0], "isr_nodes": [0]}
        topic = {"name": TOPIC, "partitions": [partition]}
        broker = {"node_id": 0, **self.address}
        return Answer({"brokers": [broker], "controller_id": 0, "topics": [topic]})

    def add_partitions(self, request: Request) -> Answer:
        topics = [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": "NONE"}
                    for number in topic["partitions"]
                ],
            }
            for topic in request.fields["v3_and_below_topics"]
        ]
        return Answer({"results_by_topic_v3_and_below": topics})

    def append(self, batch: RecordBatch) -> int:
        base = self.end_offset
        self.batches.append(dataclasses.replace(batch, base_offset=base, partition_leader_epoch=0))
        return base

    def end(self, request: Request) -> Answer:
        key, value = encode_marker("COMMIT" if request.fields["committed"] else "ABORT", 0)
        record = Record(offset_delta=0, key=key, value=value)
        self.append(
            RecordBatch(
                base_offset=0,
                records=(record,),
                last_offset_delta=0,
                base_timestamp=0,
                max_timestamp=0,
                producer_id=request.fields["producer_id"],
                producer_epoch=request.fields["producer_epoch"],
                attributes=Flag.CONTROL | Flag.TRANSACTIONAL,
            )
        )
        return NOTHING

    def produce(self, request: Request) -> Answer:
        (topic,) = request.fields["topic_data"]
        (partition,) = topic["partition_data"]
        batch, end = decode_batch(partition["records"])
        assert end == len(partition["records"])
        done = {"index": 0, "base_offset": self.append(batch), "log_append_time": -1}
        return Answer({"responses": [{"name": TOPIC, "partition_responses": [done]}]})

    def list_offsets(self, request: Request) -> Answer:
        (topic,) = request.fields["topics"]
        earliest = topic["partitions"][0]["timestamp"] == -2
        found = {"partition_index": 0, "offset": 0 if earliest else self.end_offset}
        return Answer({"topics": [{"name": TOPIC, "partitions": [found]}]})

    def fetch(self, request: Request) -> Answer:
        if not request.fields["topics"]:
            return Answer({}, after=0.05)
        (topic,) = request.fields["topics"]
        start = topic["partitions"][0]["fetch_offset"]
        left = [b for b in self.batches if b.base_offset + b.last_offset_delta >= start]
        partition = {
            "partition_index": 0,
            "high_watermark": self.end_offset,
            "last_stable_offset": self.end_offset,
            "log_start_offset": 0,
            "aborted_transactions": [],
            "preferred_read_replica": -1,
            "records": b"".join(map(encode_batch, left)),
        }
        found = {"topic": TOPIC, "partitions": [partition]}
        return Answer({"responses": [found]}, after=0 if left else 0.05)

    def values(self) -> list[bytes | None]:
        return [
            record.value
            for batch in self.batches
            if Flag.CONTROL not in batch.flags
            for record in batch.records
        ]


@pytest.fixture
def logs() -> Iterator[Logs]:
    found = Logs()
    with found.brokers:
        yield found


def librdkafka(logs: Logs, **settings: Any) -> Producer:
    quiet = {"bootstrap.servers": logs.brokers.bootstrap, "linger.ms": 5, "log_level": 0}
    return Producer({**quiet, **settings})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_s_batches_are_read(logs: Logs, codec: str) -> None:
    producer = librdkafka(logs, **{"enable.idempotence": True, "compression.type": codec})
    sent = [f"value {n}".encode() * 20 for n in range(50)]
    for value in sent:
        producer.produce(TOPIC, value, key=b"k", partition=0, headers=[("trace", b"1")])
    assert producer.flush(20) == 0
    assert logs.values() == sent
    sequences = [(b.producer_id, b.producer_epoch, b.base_sequence) for b in logs.batches]
    assert sequences == [(7, 0, b.base_offset) for b in logs.batches]
    assert logs.batches[0].records[0].headers == (("trace", b"1"),)
    assert (logs.batches[0].codec != 0) == (codec != "none")


def test_librdkafka_s_transaction_and_what_it_reads_of_it(logs: Logs) -> None:
    producer = librdkafka(logs, **{"transactional.id": "id"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for n in range(3):
        producer.produce(TOPIC, f"{n}".encode(), partition=0)
    producer.commit_transaction(20)
    assert logs.seen["EndTxn"] == 1
    assert logs.values() == [b"0", b"1", b"2"]
    assert all(Flag.TRANSACTIONAL in batch.flags for batch in logs.batches)

    consumer = Consumer(
        {
            "bootstrap.servers": logs.brokers.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([ConfluentTopicPartition(TOPIC, 0, 0)])
    read: list[bytes | None] = []
    while len(read) < 3:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == [b"0", b"1", b"2"]


def test_aiokafka_s_transaction_and_what_it_reads_of_it(logs: Logs) -> None:
    async def run() -> list[bytes | None]:
        servers = logs.brokers.bootstrap
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="id")
        async with producer, producer.transaction():
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            await producer.send_and_wait(TOPIC, b"1", partition=0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level="read_committed", enable_auto_commit=False
        )
        async with consumer:
            partition = TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            return [(await consumer.getone()).value for _ in range(2)]

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [b"0", b"1"]
    assert logs.values() == [b"0", b"1"]


def test_an_error_reaches_the_client(logs: Logs) -> None:
    fenced = Answer({"error_code": "PRODUCER_FENCED", "producer_id": -1, "producer_epoch": -1})
    logs.answers["InitProducerId"] = lambda _: fenced
    producer = librdkafka(logs, **{"transactional.id": "id"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(20)
    assert raised.value.args[0].fatal()


@pytest.mark.slow(1)
def test_a_lost_answer_is_asked_for_again(logs: Logs) -> None:
    def first_lost(request: Request) -> Answer | Silence:
        answer = logs.produce(request)
        return LOST if logs.seen["Produce"] == 1 else answer

    logs.answers["Produce"] = first_lost
    producer = librdkafka(logs, **{"enable.idempotence": True})
    producer.produce(TOPIC, b"once", partition=0)
    assert producer.flush(20) == 0
    assert logs.values() == [b"once", b"once"]  # nothing here knows of duplicates
    assert {batch.base_sequence for batch in logs.batches} == {0}


def test_a_failing_handler_is_heard_of_at_the_end() -> None:
    def fails(request: Request) -> Answer:
        raise LookupError(request.name)

    request = KEYS["Metadata"].to_bytes(2) + b"\0\0\0\0\0\1\xff\xff\0\0\0\0"
    brokers = Brokers(fails, VERSIONS)

    def ask() -> None:
        with brokers, socket.create_connection(brokers.addresses[0]) as client:
            client.sendall(len(request).to_bytes(4) + request)
            assert client.recv(1) == b""

    with pytest.raises(LookupError, match="Metadata"):
        ask()


@pytest.mark.parametrize(("version", "answered", "error"), [(4, 4, 0), (5, 0, 35)])
def test_versions_and_features_are_told(version: int, answered: int, error: int) -> None:
    key = KEYS["ApiVersions"]
    header = key.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\1\xff\xff\0"
    request = header + b"\2a\2b\0"  # name and version of the client's software
    with (
        Brokers(lambda _: NOTHING, VERSIONS, features={"transaction.version": 2}) as brokers,
        socket.create_connection(brokers.addresses[0]) as client,
    ):
        client.sendall(len(request).to_bytes(4) + request)
        size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
        data = client.recv(size, socket.MSG_WAITALL)
    response: Any = load_response_schema(key, answered)
    told, end = entity_reader(response)(data, 4)
    fields = plain(told)
    assert (data[:4], end, told.error_code) == (b"\0\0\0\1", size - 4, error)
    assert {"api_key": key, "min_version": 0, "max_version": 4} in fields["api_keys"]
    if error:  # a client that got all versions would never learn of the features (KIP-511)
        assert len(fields["api_keys"]) == 1
    else:
        (feature,) = fields["finalized_features"]
        assert (feature["name"], feature["max_version_level"]) == ("transaction.version", 2)


def test_each_broker_has_a_port_of_its_own() -> None:
    with Brokers(lambda _: NOTHING, VERSIONS, count=3) as brokers:
        assert len(set(brokers.addresses.values())) == 3
        assert brokers.bootstrap.count(",") == 2


EVERY = [
    (name, version) for name, (low, high) in VERSIONS.items() for version in range(low, high + 1)
]


@pytest.mark.slow(1)
@given(st.sampled_from(EVERY))
def test_every_version_can_be_filled_from_nothing_and_comes_back(what: tuple[str, int]) -> None:
    name, version = what
    for load in (load_request_schema, load_response_schema):
        schema = load(KEYS[name], version)
        empty = shaped(schema, {"of another version": 1})
        assert shaped(schema, plain(empty)) == empty
