"""librdkafka's mock cluster as a system under test: what comes with the client, asked over TCP.

It is started by a producer of confluent_kafka with `test.mock.num.brokers`; its address is in that
producer's metadata. All adapters share one cluster, each with names of its own in it.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import Any

from confluent_kafka import Producer
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from epochfence.model.conformance.session import System
from epochfence.model.records import Flag, Record, RecordBatch, encode_batch
from epochfence.model.wire.connection import KEYS
from epochfence.model.wire.shapes import plain, shaped

VERSIONS = {"Metadata": 4, "Produce": 8, "InitProducerId": 4, "AddPartitionsToTxn": 1, "EndTxn": 1}


class Connection:
    """A connection to a broker."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=20)

    def ask(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request, both as plain dictionaries."""
        key, version = KEYS[name], VERSIONS[name]
        request, response = load_request_schema(key, version), load_response_schema(key, version)
        header: Any = request.__header_schema__
        values = {"request_api_key": key, "request_api_version": version, "correlation_id": 7}
        buffer = io.BytesIO()
        entity_writer(header)(buffer, shaped(header, values))
        entity_writer(request)(buffer, shaped(request, fields))
        data = buffer.getvalue()
        self.socket.sendall(len(data).to_bytes(4) + data)
        size = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL))
        answer = self.socket.recv(size, socket.MSG_WAITALL)
        _, at = entity_reader(response.__header_schema__)(answer, 0)
        found, _ = entity_reader(response)(answer, at)
        return plain(found)


class Mock:
    """A running mock cluster of one broker."""

    def __init__(self) -> None:
        settings = {"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0}
        self.producer = Producer(settings)  # the cluster ends with it
        (broker,) = self.producer.list_topics(timeout=20).brokers.values()
        self.connection = Connection(broker.host, broker.port)
        self.users = count()
        self.given = set[int]()  # producer ids


@cache
def mock() -> Mock:
    """The mock cluster of this process."""
    return Mock()


class MockSystem(System):
    """The adapter. A partition `t-0` is partition 0 of a topic of this adapter's own."""

    requests = frozenset(("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"))

    def __init__(self) -> None:
        self.mock = mock()
        self.number = next(self.mock.users)
        self.topics: set[str] = set()

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """See System."""
        asks = {
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add,
            "Produce": self._produce,
            "EndTxn": self._end,
        }
        return asks[request](fields)

    def _name(self, name: str | None) -> str | None:
        return name and f"{name}-{self.number}"

    def _place(self, partition: str) -> tuple[str, int]:
        topic, _, number = partition.rpartition("-")
        name = f"{topic}-{self.number}"
        if name not in self.topics:
            self.topics.add(name)
            self.mock.connection.ask(
                "Metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": True}
            )
        return name, int(number)

    def _init(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        held = {"producer_id": -1, "producer_epoch": -1}
        asked = {**held, **fields, "transactional_id": self._name(fields["transactional_id"])}
        asked.setdefault("transaction_timeout_ms", 60_000)
        asked["transaction_timeout"] = asked["transaction_timeout_ms"]
        found = self.mock.connection.ask("InitProducerId", asked)
        # The mock draws one of 900,000 ids and doesn't look whether it has drawn it before.
        while asked["producer_id"] == -1 and found["producer_id"] in self.mock.given:
            found = self.mock.connection.ask("InitProducerId", asked)
        self.mock.given.add(found["producer_id"])
        return {
            "error": found["error_code"],
            "producer_id": found["producer_id"],
            "producer_epoch": found["producer_epoch"],
        }

    def _add(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        name = self._name(fields["transactional_id"])
        found = self.mock.connection.ask(
            "AddPartitionsToTxn",
            {
                "v3_and_below_transactional_id": name,
                "v3_and_below_producer_id": fields["producer_id"],
                "v3_and_below_producer_epoch": fields["producer_epoch"],
                "v3_and_below_topics": [
                    {"name": topic, "partitions": [number]}
                    for topic, number in map(self._place, fields["partitions"])
                ],
            },
        )
        (topic, *_) = found["results_by_topic_v3_and_below"]
        return {"error": topic["results_by_partition"][0]["partition_error_code"]}

    def _produce(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        records = tuple(Record(offset_delta=n, value=b"v") for n in range(fields.get("count", 1)))
        name = self._name(fields.get("transactional_id"))
        batch = RecordBatch(
            base_offset=0, records=records, last_offset_delta=len(records) - 1, base_timestamp=0,
            max_timestamp=0, producer_id=fields["producer_id"],
            producer_epoch=fields["producer_epoch"], base_sequence=fields["base_sequence"],
            attributes=Flag.TRANSACTIONAL if name else Flag(0),
        )  # fmt: skip
        data = [{"index": number, "records": encode_batch(batch)}]
        asked = {"transactional_id": name, "acks": -1, "timeout": 20_000}
        asked["topic_data"] = [{"name": topic, "partition_data": data}]
        found = self.mock.connection.ask("Produce", asked)
        (partition,) = found["responses"][0]["partition_responses"]
        return {"error": partition["error_code"], "base_offset": partition["base_offset"]}

    def _end(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = {**fields, "transactional_id": self._name(fields["transactional_id"])}
        found = self.mock.connection.ask(
            "EndTxn", {**asked, "committed": fields["result"] == "COMMIT"}
        )
        return {"error": found["error_code"]}
