"""Transactions by hand, at a served cluster or at a broker: a request at a time."""

from __future__ import annotations

import time
from typing import Any

from epochfence.model.records import Flag, Record, RecordBatch, encode_batch
from epochfence.model.wire.connection import Connection, Security

SOON = frozenset(
    (
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
)
PATIENCE_S = 20
MARKERS_S = 0.5
"""So long a broker's markers may take."""


class Hand:
    """One transactional id's requests, as of a client before transactions of version 2, to the only
    broker. Its topic is `orders`."""

    def __init__(self, bootstrap: str, transactional_id: str = "app") -> None:
        host, _, port = bootstrap.rpartition(":")
        self.connection = Connection(host, int(port), Security())
        self.transactional_id = transactional_id
        self.pair: dict[str, int] = {}
        self._sequences: dict[int, int] = {}

    def _soon(self, name: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while True:
            told = self.connection.ask(name, version, fields)
            if told["error_code"] not in SOON or time.monotonic() > until:
                return told
            time.sleep(0.02)

    def init(self, timeout_ms: int = 60_000) -> str:
        """InitProducerId: an error. The pair is kept. The question for the coordinator has brokers
        make the transaction log."""
        self._soon("FindCoordinator", 1, {"key": self.transactional_id, "key_type": 1})
        asked = {"transactional_id": self.transactional_id, "transaction_timeout": timeout_ms}
        told = self._soon("InitProducerId", 1, asked)
        if told["error_code"] == "NONE":
            self.pair = {name: told[name] for name in ("producer_id", "producer_epoch")}
            self._sequences.clear()
        return told["error_code"]

    def add(self, *partitions: int) -> str:
        """AddPartitionsToTxn: the first error."""
        asked = {"transactional_id": self.transactional_id, **self.pair}
        asked |= {"topics": [{"name": "orders", "partitions": list(partitions or (0,))}]}
        until = time.monotonic() + PATIENCE_S
        while True:
            told = self.connection.ask(
                "AddPartitionsToTxn", 0, {f"v3_and_below_{n}": each for n, each in asked.items()}
            )
            topics = told["results_by_topic_v3_and_below"]
            errors = [one["partition_error_code"] for one in topics[0]["results_by_partition"]]
            if errors[0] not in SOON or time.monotonic() > until:
                return errors[0]
            time.sleep(0.02)

    def write(self, partition: int = 0, *, ago_ms: int = 0, count: int = 1) -> str:
        """Produce: an error. The records are of so long ago."""
        now, first = round(time.time() * 1000) - ago_ms, self._sequences.get(partition, 0)
        records = tuple(Record(offset_delta=number, value=b"v") for number in range(count))
        batch = RecordBatch(
            base_offset=0, records=records, last_offset_delta=count - 1, base_timestamp=now,
            max_timestamp=now, base_sequence=first, attributes=Flag.TRANSACTIONAL, **self.pair,
        )  # fmt: skip
        data = [{"index": partition, "records": encode_batch(batch)}]
        asked = {"transactional_id": self.transactional_id, "acks": -1, "timeout": 10_000}
        asked |= {"topic_data": [{"name": "orders", "partition_data": data}]}
        until = time.monotonic() + PATIENCE_S
        while True:
            told = self.connection.ask("Produce", 3, asked)
            error = told["responses"][0]["partition_responses"][0]["error_code"]
            # a leader that can't ask the coordinator yet answers the second one
            if error not in (*SOON, "NOT_ENOUGH_REPLICAS") or time.monotonic() > until:
                break
            time.sleep(0.02)
        if error == "NONE":
            self._sequences[partition] = first + count
        return error

    def end(self, *, commits: bool) -> str:
        """EndTxn: an error."""
        asked = {"transactional_id": self.transactional_id, **self.pair, "committed": commits}
        return self._soon("EndTxn", 0, asked)["error_code"]

    def begin(self, *, timeout_ms: int = 60_000, partition: int = 0) -> None:
        """A new epoch, and a transaction with a record in this partition."""
        assert self.init(timeout_ms) == "NONE"
        assert self.add(partition) == "NONE"
        error = self.write(partition)
        assert error == "NONE", error

    def hang(self) -> None:
        """A transaction that is aborted, with a record that comes behind its marker: before 3.6 it
        hangs (KAFKA-14402)."""
        self.begin()
        assert self.end(commits=False) == "NONE"
        time.sleep(MARKERS_S)
        until = time.monotonic() + PATIENCE_S
        while (told := self.write()) != "NONE":
            assert time.monotonic() < until, told

    def close(self) -> None:
        """Disconnects."""
        self.connection.close()
