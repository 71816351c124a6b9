"""Sends a client's batches, and completes their records with the answers.

The rows are `spec.client.batches.sender`'s and `spec.client.batches.expiry`'s. This module records
the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...spec.client.calls.blocking import BATCH_OVERHEAD
from ...spec.messages import now
from ...spec.releases.client_features import memory_kept_in_flight
from .accumulator import Accumulator, topic_of
from .metrics import Metrics
from .requests import Produce


class Sender:
    """Sends the batches of an `accumulator`, and takes the answers.

    `react` applies the reaction to an answer to the whole client. `is_awaited` returns whether the
    batch of a number may still get an answer.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        metrics: Metrics,
        react: Callable[[Any], None],
        is_awaited: Callable[[int], bool],
    ) -> None:
        self.accumulator = accumulator
        self.metrics = metrics
        self._react = react
        self._is_awaited = is_awaited

    def _count(self, sensor: str, of_topic: str, partition: Any, records: int) -> None:
        self.metrics.record(sensor, records)
        self.metrics.record(of_topic, records, topic=topic_of(partition))

    def drain(self, *, is_transactional: bool, version: int) -> list[Produce]:
        """The batches of the next request to each node. `version` is the transaction version.

        Sender.sendProducerData
        """
        drained = self.accumulator.drain(
            is_transactional=is_transactional, transaction_version=version
        )
        records = Counter[int]()
        for produce in drained:
            self._measure(produce)
            records[produce.request] += len(produce.records)
        for count in records.values():
            self.metrics.record("records-per-request", count)
        return drained

    def _measure(self, produce: Produce) -> None:
        """SenderMetrics.updateProduceRequestMetrics"""
        accumulator, metrics = self.accumulator, self.metrics
        topic, number = topic_of(produce.partition), produce.batch
        metrics.topics.add(topic)
        size, ratio = accumulator.size(number), accumulator.compression_ratio or 1
        waited = accumulator.machine.value(now) - accumulator.details(number).created_ms
        largest = max(record.size for record in produce.records)
        metrics.record("records-per-batch", len(produce.records), topic=topic)
        metrics.record("bytes", size, topic=topic)
        metrics.record("compression-rate", ratio, topic=topic)
        metrics.record("batch-size", size)
        metrics.record("queue-time", waited)
        metrics.record("compression-rate", ratio)
        metrics.record("record-size", largest + BATCH_OVERHEAD)

    def expire(self) -> bool:
        """Fails batches whose delivery timeout is over. Returns whether there are any.

        Sender.failExpiredBatches
        """
        found = False
        for number, reaction in self.accumulator.expired():
            found = True
            self.fail(number, "TIMEOUT", reaction)
            self._release(number)
        return found

    def answer(self, number: int, error: str, base: int = -1, log_start: int = -1) -> None:
        """Takes a leader's answer to a batch.

        Sender.completeBatch
        """
        batch = self.accumulator.batches[number]
        reaction = self.accumulator.machine.handle(
            "ProduceResponse", producer=0, partition=batch.partition, record=number, txn=0,
            error=error, base_offset=max(base, -1), log_start_offset=max(log_start, -1),
        ).reply  # fmt: skip
        match reaction.step:
            case "DONE":
                batch.finish(base_offset=base)
            case "RETRY":
                self._count("record-retries", "record-retries", batch.partition, len(batch.records))
            case "SPLIT":
                self.metrics.record("batch-split-rate")
                self.accumulator.split(number)
            case "WAIT":  # the sender has raised an error: the memory isn't freed
                self.accumulator.release(number)
                return
            case _:
                self.fail(number, error, reaction)
        self._release(number)

    def fail(self, number: int, error: str, reaction: Any) -> None:
        """Fails a batch, and applies `reaction` to the client.

        Sender.failBatch
        """
        batch = self.accumulator.batches[number]
        self._count("errors", "record-errors", batch.partition, len(batch.records))
        batch.finish(error)
        self._react(reaction)

    def drop(self, error: str, *, undrained_only: bool) -> bool:
        """Fails all batches, or only those that were never sent. Returns whether there are any."""
        dropped = self.accumulator.drop(error, undrained_only=undrained_only)
        for number in dropped:
            self._release(number)
        return bool(dropped)

    def _release(self, number: int) -> None:
        """Frees a batch's memory, and forgets the batch when no answer to it can come."""
        is_awaited = self._is_awaited(number)
        accumulator = self.accumulator
        keeps = is_awaited and accumulator.machine.value(memory_kept_in_flight)
        if accumulator.batches[number].is_done and not keeps:
            accumulator.free(number)
        if not is_awaited:
            accumulator.release(number)
