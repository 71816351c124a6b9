"""The requests to a transaction coordinator: fields are taken apart, and the oracle answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...spec import api_versions
from ..broker.coordinator import ProducerIdAndEpoch, TransactionCoordinator
from ..cluster import Cluster, offsets_partition
from .metadata import Nodes
from .partitions import OFFSETS_TOPIC, Partitions, partition_name, place_of
from .wire import Answer, Request

Asked = Mapping[str, Any]


class TransactionApis:
    """The answers of the brokers that coordinate transactional ids."""

    def __init__(self, cluster: Cluster, nodes: Nodes, partitions: Partitions) -> None:
        self._cluster, self._nodes, self._partitions = cluster, nodes, partitions
        self._other = TransactionCoordinator(protocol=cluster.protocol)
        """A broker that coordinates nothing."""
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "InitProducerId": self.init_producer_id,
            "AddPartitionsToTxn": self.add_partitions,
            "AddOffsetsToTxn": self.add_offsets,
            "EndTxn": self.end_txn,
            "DescribeTransactions": self.describe,
            "ListTransactions": self.list,
        }

    def _elsewhere(self, request: Request, transactional_id: str | None) -> bool:
        """Whether another broker than the one that was asked coordinates the id."""
        return (
            bool(transactional_id)
            and self._nodes.coordinator(str(transactional_id)) != request.node
        )

    def init_producer_id(self, request: Request) -> Answer:
        """InitProducerId."""
        asked = request.fields
        name, timeout_ms = asked["transactional_id"], asked["transaction_timeout"]
        held = (asked.get("producer_id", -1), asked.get("producer_epoch", -1))
        expected = None if held == (-1, -1) else held
        told: ProducerIdAndEpoch | None
        if self._elsewhere(request, name):
            told = self._other.init_producer_id(name, timeout_ms, expected)
        else:
            told = self._cluster.init_producer_id(
                name, timeout_ms, expected, api_version=request.version
            )
        return _identity(told)

    def end_txn(self, request: Request) -> Answer:
        """EndTxn."""
        asked, result = request.fields, "COMMIT" if request.fields["committed"] else "ABORT"
        about = (asked["transactional_id"], asked["producer_id"], asked["producer_epoch"], result)
        told: ProducerIdAndEpoch | None
        if self._elsewhere(request, about[0]):
            told = self._other.end_txn(*about)
        else:
            told = self._cluster.end_txn(*about, api_version=request.version)
        return _identity(told)

    def add_offsets(self, request: Request) -> Answer:
        """AddOffsetsToTxn."""
        asked = request.fields
        about = (asked["transactional_id"], asked["producer_id"], asked["producer_epoch"])
        if self._elsewhere(request, about[0]):
            error = self._other.add_partitions(*about, [offsets_partition(asked["group_id"])])
        else:
            error = self._cluster.add_offsets(
                *about, asked["group_id"], api_version=request.version
            )
        return Answer({"error_code": error})

    def add_partitions(self, request: Request) -> Answer:
        """AddPartitionsToTxn: of one transaction, or (from version 4 on) of several."""
        asked = request.fields
        if request.version < api_versions.OF_BROKERS:
            one = {
                name: asked[f"v3_and_below_{name}"]
                for name in ("transactional_id", "producer_id", "producer_epoch", "topics")
            }
            results = self._added(request, one)
            return Answer({"results_by_topic_v3_and_below": results})
        return Answer(
            {
                "results_by_transaction": [
                    {
                        "transactional_id": one["transactional_id"],
                        "topic_results": self._added(request, one),
                    }
                    for one in asked["transactions"]
                ]
            }
        )

    def _added(self, request: Request, asked: Asked) -> list[dict[str, Any]]:
        """The answers to one transaction's partitions, by topic. Where one isn't there, none is
        added (KafkaApis.handleAddPartitionsToTxnRequest)."""
        places = [(topic["name"], n) for topic in asked["topics"] for n in topic["partitions"]]
        refused = {place: error for place in places if (error := self._refusal(request, *place))}
        if refused:
            errors = dict.fromkeys(places, "OPERATION_NOT_ATTEMPTED") | refused
        else:
            errors = self._errors(request, asked, places)
        return [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": n, "partition_error_code": errors[topic["name"], n]}
                    for n in topic["partitions"]
                ],
            }
            for topic in asked["topics"]
        ]

    def _refusal(self, request: Request, topic: str, number: int) -> str | None:
        """Why a partition can't be added: clients may not name internal topics."""
        if topic == OFFSETS_TOPIC:
            is_from_broker = api_versions.is_from_broker(request.version)
            return None if is_from_broker else "TOPIC_AUTHORIZATION_FAILED"
        return None if self._partitions.has(topic, number) else "UNKNOWN_TOPIC_OR_PARTITION"

    def _errors(
        self, request: Request, asked: Asked, places: list[tuple[str, int]]
    ) -> dict[tuple[str, int], str]:
        about = (asked["transactional_id"], asked["producer_id"], asked["producer_epoch"])
        partitions = {place: partition_name(*place) for place in places}
        is_elsewhere = self._elsewhere(request, about[0])
        if asked.get("verify_only"):
            of = self._other if is_elsewhere else self._cluster.coordinator
            told = of.verify_partitions(*about, partitions.values())
            return {place: told[name] for place, name in partitions.items()}
        if is_elsewhere:
            error = self._other.add_partitions(*about, partitions.values())
        else:
            error = self._cluster.add_partitions(
                *about, partitions.values(), api_version=request.version
            )
        return dict.fromkeys(places, str(error))

    def describe(self, request: Request) -> Answer:
        """DescribeTransactions."""
        return Answer(
            {
                "transaction_states": [
                    self._described(request, name) for name in request.fields["transactional_ids"]
                ]
            }
        )

    def _described(self, request: Request, name: str) -> dict[str, Any]:
        of = self._other if self._elsewhere(request, name) else self._cluster.coordinator
        if not name:  # where Kafka throws an exception
            return {"error_code": "INVALID_REQUEST", "transactional_id": name}
        error, entry = of.describe(name)
        state: dict[str, Any] = {
            "error_code": error, "transactional_id": name, "producer_id": -1, "producer_epoch": -1,
            "transaction_start_time": -1,
        }  # fmt: skip
        if entry is None:
            return state
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(map(place_of, entry.partitions)):
            topics.setdefault(topic, []).append(number)
        return state | {
            "transaction_state": entry.state, "transaction_timeout": entry.txn_timeout_ms,
            "transaction_start_time": entry.txn_start_timestamp,
            "producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch,
            "topics": [{"topic": topic, "partitions": those} for topic, those in topics.items()],
        }  # fmt: skip

    def list(self, request: Request) -> Answer:
        """ListTransactions."""
        asked, coordinator = request.fields, self._cluster.coordinator
        error, names, unknown = coordinator.list_transactions(
            asked["producer_id_filters"], asked["state_filters"], asked.get("duration_filter", -1)
        )
        states: list[dict[str, Any]] = []
        for name in names:
            entry = coordinator.metadata(name)
            if entry is not None and self._nodes.coordinator(name) == request.node:
                states.append(
                    {"transactional_id": name, "producer_id": entry.producer_id,
                     "transaction_state": entry.state}
                )  # fmt: skip
        return Answer(
            {
                "error_code": error,
                "unknown_state_filters": unknown,
                "transaction_states": states,
            }
        )


def _identity(told: ProducerIdAndEpoch | None) -> Answer:
    assert told is not None  # every record is acknowledged at once
    return Answer(
        {
            "error_code": told.error,
            "producer_id": told.producer_id,
            "producer_epoch": told.producer_epoch,
        }
    )
