"""The requests to a transaction coordinator. This module reads the fields, and the oracle
answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any

from ....spec.releases import api_versions
from ...broker.transactions.coordinator import ProducerIdAndEpoch, TransactionCoordinator
from ...cluster import Cluster
from ...permissions import REFUSED_WITH_OTHERS
from ...wire.listener import Answer, Request
from .metadata import Nodes
from .partitions import OFFSETS_TOPIC, Partitions, partition_name, place_of

Transaction = Mapping[str, Any]


class TransactionApis:
    """The answers of transaction coordinators."""

    def __init__(self, cluster: Cluster, nodes: Nodes, partitions: Partitions) -> None:
        self._cluster, self._nodes, self._partitions = cluster, nodes, partitions
        self._other = TransactionCoordinator(protocol=cluster.protocol)
        """A coordinator without ids."""
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "InitProducerId": self.init_producer_id,
            "AddPartitionsToTxn": self.add_partitions,
            "AddOffsetsToTxn": self.add_offsets,
            "EndTxn": self.end_txn,
            "DescribeTransactions": self.describe,
            "ListTransactions": self.list,
        }

    def _of(self, request: Request, transactional_id: str | None) -> TransactionCoordinator:
        """The coordinator of the asked broker: the cluster's if this broker coordinates the id,
        else one without ids."""
        if not transactional_id or self._nodes.coordinator(transactional_id) == request.node:
            return self._cluster.coordinator
        return self._other

    def init_producer_id(self, request: Request) -> Answer:
        """InitProducerId."""
        body = request.fields
        name, timeout_ms = body["transactional_id"], body["transaction_timeout"]
        held = (body.get("producer_id", -1), body.get("producer_epoch", -1))
        expected = None if held == (-1, -1) else held
        answer = self._cluster.init_producer_id(
            name, timeout_ms, expected, api_version=request.version, principal=request.principal,
            coordinator=self._of(request, name),
        )  # fmt: skip
        return _identity(answer)

    def end_txn(self, request: Request) -> Answer:
        """EndTxn."""
        body, result = request.fields, "COMMIT" if request.fields["committed"] else "ABORT"
        name = body["transactional_id"]
        answer = self._cluster.end_txn(
            name, body["producer_id"], body["producer_epoch"], result,
            api_version=request.version, principal=request.principal,
            coordinator=self._of(request, name),
        )  # fmt: skip
        return _identity(answer)

    def add_offsets(self, request: Request) -> Answer:
        """AddOffsetsToTxn."""
        body = request.fields
        name = body["transactional_id"]
        error = self._cluster.add_offsets(
            name, body["producer_id"], body["producer_epoch"], body["group_id"],
            api_version=request.version, principal=request.principal,
            coordinator=self._of(request, name),
        )  # fmt: skip
        return Answer({"error_code": error})

    def add_partitions(self, request: Request) -> Answer:
        """AddPartitionsToTxn for one transaction, or (from version 4 on, from brokers) for
        several."""
        body = request.fields
        if request.version < api_versions.OF_BROKERS:
            one = {
                name: body[f"v3_and_below_{name}"]
                for name in ("transactional_id", "producer_id", "producer_epoch", "topics")
            }
            results = self._added(request, one)
            return Answer({"results_by_topic_v3_and_below": results})
        error = self._cluster.may_add(request.principal, None, request.version)
        if error != "NONE":
            return Answer({"error_code": error})
        return Answer(
            {
                "results_by_transaction": [
                    {
                        "transactional_id": one["transactional_id"],
                        "topic_results": self._added(request, one),
                    }
                    for one in body["transactions"]
                ]
            }
        )

    def _added(self, request: Request, transaction: Transaction) -> list[dict[str, Any]]:
        """The answers for one transaction's partitions, by topic. If a partition doesn't exist,
        none is added (KafkaApis.handleAddPartitionsToTxnRequest)."""
        places = [
            (topic["name"], n) for topic in transaction["topics"] for n in topic["partitions"]
        ]
        unauthorized = self._cluster.unauthorized(
            request.principal,
            transaction["transactional_id"],
            starmap(partition_name, places),
            request.version,
        )
        refused: dict[tuple[str, int], str] = {}
        for place in places:
            error = unauthorized.get(partition_name(*place), REFUSED_WITH_OTHERS)
            if error == REFUSED_WITH_OTHERS:
                error = self._refusal(request, *place)
            if error is not None:
                refused[place] = error
        if refused:
            errors = dict.fromkeys(places, REFUSED_WITH_OTHERS) | refused
        else:
            errors = self._errors(request, transaction, places)
        return [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": n, "partition_error_code": errors[topic["name"], n]}
                    for n in topic["partitions"]
                ],
            }
            for topic in transaction["topics"]
        ]

    def _refusal(self, request: Request, topic: str, number: int) -> str | None:
        """The error of a partition that can't be added, or None. Clients can't add internal
        topics."""
        if topic == OFFSETS_TOPIC:
            is_from_broker = api_versions.is_from_broker(request.version)
            return None if is_from_broker else "TOPIC_AUTHORIZATION_FAILED"
        return None if self._partitions.has(topic, number) else "UNKNOWN_TOPIC_OR_PARTITION"

    def _errors(
        self, request: Request, transaction: Transaction, places: list[tuple[str, int]]
    ) -> dict[tuple[str, int], str]:
        about = (
            transaction["transactional_id"],
            transaction["producer_id"],
            transaction["producer_epoch"],
        )
        partitions = {place: partition_name(*place) for place in places}
        of = self._of(request, about[0])
        if transaction.get("verify_only"):
            answer = of.verify_partitions(*about, partitions.values())
            return {place: answer[name] for place, name in partitions.items()}
        error = self._cluster.add_partitions(
            *about, partitions.values(), api_version=request.version, coordinator=of
        )
        return dict.fromkeys(places, error)

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
        if not name:  # Kafka throws an exception here
            return {"error_code": "INVALID_REQUEST", "transactional_id": name}
        error, entry = self._cluster.may_describe(request.principal, name), None
        if error == "NONE":
            error, entry = self._of(request, name).describe(name)
        state: dict[str, Any] = {
            "error_code": error,
            "transactional_id": name,
            "producer_id": -1,
            "producer_epoch": -1,
            "transaction_start_time": -1,
        }
        if entry is None:
            return state
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(map(place_of, entry.partitions)):
            if self._cluster.use_of(request.principal, topic, "DESCRIBE") == "NONE":
                topics.setdefault(topic, []).append(number)
        return state | {
            "transaction_state": entry.state,
            "transaction_timeout": entry.txn_timeout_ms,
            "transaction_start_time": entry.txn_start_timestamp,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "topics": [{"topic": topic, "partitions": those} for topic, those in topics.items()],
        }

    def list(self, request: Request) -> Answer:
        """ListTransactions."""
        body, coordinator = request.fields, self._cluster.coordinator
        error, names, unknown = coordinator.list_transactions(
            body["producer_id_filters"], body["state_filters"], body.get("duration_filter", -1)
        )
        states: list[dict[str, Any]] = []
        try:
            pattern = re.compile(body.get("transactional_id_pattern") or "")
        except re.error:
            return Answer({"error_code": "INVALID_REGULAR_EXPRESSION"})
        for name in names:
            if pattern.pattern and not pattern.fullmatch(name):
                continue
            entry = coordinator.metadata(name)
            is_here = self._nodes.coordinator(name) == request.node
            may = self._cluster.may_describe(request.principal, name)
            if entry is not None and is_here and may == "NONE":
                states.append(
                    {
                        "transactional_id": name,
                        "producer_id": entry.producer_id,
                        "transaction_state": entry.state,
                    }
                )
        return Answer(
            {
                "error_code": error,
                "unknown_state_filters": unknown,
                "transaction_states": states,
            }
        )


def _identity(answer: ProducerIdAndEpoch) -> Answer:
    return Answer(
        {
            "error_code": answer.error,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }
    )
