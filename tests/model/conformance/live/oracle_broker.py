"""A broker that the oracle stands behind, over Kafka's protocol: it conforms, or has a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from epochfence.model.broker.leader import Batch
from epochfence.model.cluster import STATE_PARTITIONS, Cluster
from epochfence.model.conformance.live.cluster.cluster import LOG
from epochfence.model.records import (
    Flag,
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
    encode_marker,
)
from epochfence.model.wire.listener import LOST, Answer, Brokers, Request, Silence

OFFERED = {
    "ApiVersions": (0, 3),
    "FindCoordinator": (0, 3),
    "ListOffsets": (1, 6),
    "AddPartitionsToTxn": (0, 3),
    "Produce": (3, 12),
    "Fetch": (4, 12),
    "InitProducerId": (0, 6),
    "EndTxn": (0, 5),
    "Metadata": (0, 9),
    "CreateTopics": (2, 5),
    "DeleteTopics": (1, 5),
    "DescribeTransactions": (0, 0),
    "SaslHandshake": (1, 1),
    "SaslAuthenticate": (0, 0),
    "DescribeConfigs": (0, 4),
    "WriteTxnMarkers": (1, 2),
}
Fault = Callable[[Request, dict[str, Any]], "dict[str, Any] | Answer | Silence"]


class OracleBroker:
    """The handler of `Brokers`. `fault` changes a response, or has something else come in its
    place; after `dies_after` requests each connection is closed. Its coordinators are in this
    `term`. Broker `leads` leads and coordinates all; `crash` has a broker go for good."""

    def __init__(
        self, protocol: str, *, fault: Fault | None = None, dies_after: int | None = None,
        topics: tuple[str, ...] = (), term: int = 0,
    ) -> None:  # fmt: skip
        self.kafka = Cluster(protocol=protocol)
        for partition in range(STATE_PARTITIONS) if term else ():
            self.kafka.coordinator.elect(partition, term)
        self.term = term
        self.fault, self.dies_after = fault, dies_after
        self.topics = dict.fromkeys(topics, 1)
        self.settings = {"transaction.two.phase.commit.enable": "false"}
        self.asked = 0
        self.leads = 0
        self.crashed: set[int] = set()
        self.crash: Callable[[int], object] = self.crashed.add
        self.addresses: dict[int, tuple[str, int]] = {}

    def __call__(self, request: Request) -> Answer | Silence:
        self.asked += 1
        if self.dies_after is not None and self.asked > self.dies_after:
            return LOST
        if request.node in self.crashed:
            return LOST
        told = getattr(self, request.name)(request.fields, request.version)
        told = told if self.fault is None else self.fault(request, told)
        return Answer(told) if isinstance(told, dict) else told

    def SaslHandshake(self, _: dict[str, Any], __: int) -> dict[str, Any]:
        return {"mechanisms": ["PLAIN"]}

    def SaslAuthenticate(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        is_known = asked["auth_bytes"] == b"\0bob\0a secret"
        return {"error_code": "NONE" if is_known else "SASL_AUTHENTICATION_FAILED"}

    # The cluster ------------------------------------------------------------------------------

    def Metadata(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        wanted = asked["topics"]
        names = self.topics if wanted is None else [topic["name"] for topic in wanted]
        partition = {"leader_id": self.leads, "replica_nodes": [0], "isr_nodes": [0]}
        every: dict[str, list[dict[str, Any]]] = {
            name: [{**partition, "partition_index": n} for n in range(self.topics.get(name, 0))]
            for name in names
        }
        if LOG in every:
            every[LOG] = [
                {**partition, "partition_index": n, "leader_epoch": self.term}
                for n in range(STATE_PARTITIONS)
            ]
        topics = [{"name": name, "partitions": those} for name, those in every.items()]
        brokers = [
            {"node_id": node, "host": host, "port": port}
            for node, (host, port) in self.addresses.items()
            if node not in self.crashed
        ]
        return {"brokers": brokers, "controller_id": self.leads, "topics": topics}

    def CreateTopics(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        for topic in asked["topics"]:
            self.topics[topic["name"]] = topic["num_partitions"]
        return {"topics": [{"name": topic["name"]} for topic in asked["topics"]]}

    def DeleteTopics(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        for name in asked["topic_names"]:
            del self.topics[name]
        return {"responses": [{"name": name} for name in asked["topic_names"]]}

    def FindCoordinator(self, _: dict[str, Any], __: int) -> dict[str, Any]:
        host, port = self.addresses[self.leads]
        return {"node_id": self.leads, "host": host, "port": port}

    def DescribeConfigs(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        (resource,) = asked["resources"]
        names = resource["configuration_keys"]
        configs = [
            {"name": name, "value": value, "config_source": 5}
            for name, value in self.settings.items()
            if name in names
        ]
        return {"results": [{"error_code": "NONE", "configs": configs}]}

    # Transactions -----------------------------------------------------------------------------

    def InitProducerId(self, asked: dict[str, Any], version: int) -> dict[str, Any]:
        held = (asked.get("producer_id", -1), asked.get("producer_epoch", -1))
        told = self.kafka.init_producer_id(
            asked["transactional_id"],
            asked["transaction_timeout"],
            None if held == (-1, -1) else held,
            api_version=version,
            enable_2pc=asked.get("enable2_pc", False),
            keep_prepared_txn=asked.get("keep_prepared_txn", False),
        )
        return _identity(told)

    def EndTxn(self, asked: dict[str, Any], version: int) -> dict[str, Any]:
        told = self.kafka.end_txn(
            asked["transactional_id"],
            asked["producer_id"],
            asked["producer_epoch"],
            "COMMIT" if asked["committed"] else "ABORT",
            api_version=version,
        )
        return _identity(told)

    def AddPartitionsToTxn(self, asked: dict[str, Any], version: int) -> dict[str, Any]:
        topics = asked["v3_and_below_topics"]
        name, producer_id, epoch = (
            asked[f"v3_and_below_{name}"]
            for name in ("transactional_id", "producer_id", "producer_epoch")
        )
        places = [(topic["name"], number) for topic in topics for number in topic["partitions"]]
        error = self.kafka.add_partitions(name, producer_id, epoch, places, api_version=version)
        results = [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": error}
                    for number in topic["partitions"]
                ],
            }
            for topic in topics
        ]
        return {"results_by_topic_v3_and_below": results}

    def DescribeTransactions(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        (name,) = asked["transactional_ids"]
        error, entry = self.kafka.coordinator.describe(name)
        state: dict[str, Any] = {"error_code": error, "transactional_id": name}
        if entry is not None:
            state |= {
                "transaction_state": entry.state,
                "transaction_timeout": entry.txn_timeout_ms,
                "transaction_start_time": 0,
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "topics": [
                    {"topic": topic, "partitions": [number]}
                    for topic, number in sorted(entry.partitions)
                ],
            }
        return {"transaction_states": [state]}

    # Partitions -------------------------------------------------------------------------------

    def Produce(self, asked: dict[str, Any], version: int) -> dict[str, Any]:
        (topic,) = asked["topic_data"]
        (data,) = topic["partition_data"]
        batch, _ = decode_batch(data["records"])
        told = self.kafka.produce(
            (topic["name"], data["index"]),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            count=len(batch.records),
            transactional_id=asked["transactional_id"],
            api_version=version,
        )
        one = {"index": data["index"], "error_code": told.error, "base_offset": told.base_offset}
        return {"responses": [{"name": topic["name"], "partition_responses": [one]}]}

    def WriteTxnMarkers(self, asked: dict[str, Any], version: int) -> dict[str, Any]:
        (marker,) = asked["markers"]
        (topic,) = marker["topics"]
        (number,) = topic["partition_indexes"]
        error = self.kafka.write_marker(
            (topic["name"], number),
            marker["producer_id"],
            marker["producer_epoch"],
            "COMMIT" if marker["transaction_result"] else "ABORT",
            marker["coordinator_epoch"],
            transaction_version=marker.get("transaction_version", 0),
            api_version=version,
        )
        one = {"partition_index": number, "error_code": error}
        topics = [{"name": topic["name"], "partitions": [one]}]
        return {"markers": [{"producer_id": marker["producer_id"], "topics": topics}]}

    def ListOffsets(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        topics: list[dict[str, Any]] = []
        for topic in asked["topics"]:
            found: list[dict[str, Any]] = []
            for one in topic["partitions"]:
                leader = self.kafka.leader((topic["name"], one["partition_index"]))
                is_committed = asked["isolation_level"]
                end = leader.last_stable_offset if is_committed else leader.high_watermark
                found.append({"partition_index": one["partition_index"], "offset": end})
            topics.append({"name": topic["name"], "partitions": found})
        return {"topics": topics}

    def Fetch(self, asked: dict[str, Any], _: int) -> dict[str, Any]:
        (topic,) = asked["topics"]
        (one,) = topic["partitions"]
        leader = self.kafka.leader((topic["topic"], one["partition"]))
        is_committed = bool(asked["isolation_level"])
        end = leader.last_stable_offset if is_committed else leader.high_watermark
        partition = {
            "partition_index": one["partition"],
            "last_stable_offset": leader.stable_offset_for(is_committed),
            "aborted_transactions": [
                {"producer_id": txn.producer_id, "first_offset": txn.first_offset}
                for txn in leader.aborted(0, end)
            ],
            "records": b"".join(_bytes(b) for b in leader.batches if b.last_offset < end),
        }
        return {"responses": [{"topic": topic["topic"], "partitions": [partition]}]}


def _bytes(batch: Batch) -> bytes:
    count = batch.last_offset - batch.base_offset + 1
    records = tuple(Record(offset_delta=n, value=b"v") for n in range(count))
    attributes = Flag.TRANSACTIONAL if batch.transactional else Flag(0)
    if batch.kind == "marker":
        key, value = encode_marker(batch.result, batch.coordinator_epoch)
        records = (Record(offset_delta=0, key=key, value=value),)
        attributes |= Flag.CONTROL
    return encode_batch(
        RecordBatch(
            base_offset=batch.base_offset, records=records, last_offset_delta=count - 1,
            base_timestamp=0, max_timestamp=0, producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence,
            attributes=attributes,
        )
    )  # fmt: skip


def _identity(told: Any) -> dict[str, Any]:
    return {
        "error_code": told.error,
        "producer_id": told.producer_id,
        "producer_epoch": told.producer_epoch,
    }


@contextmanager
def running(
    broker: OracleBroker,
    *,
    features: dict[str, int] | None = None,
    without: tuple[str, ...] = (),
    count: int = 1,
) -> Iterator[str]:
    """Brokers that are asked over TCP: their address. They don't take the requests `without`."""
    told = {"transaction.version": 2, "metadata.version": 30} if features is None else features
    versions = {name: span for name, span in OFFERED.items() if name not in without}
    with Brokers(broker, versions=versions, features=told, count=count) as brokers:
        broker.addresses = brokers.addresses

        def crash(node: int) -> None:
            broker.crashed.add(node)
            brokers.unlisten(node)

        broker.crash = crash
        yield brokers.bootstrap
