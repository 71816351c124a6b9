"""A client's batches on their way: what is sent of them, and what becomes of their records.

The rows are `spec.client.sender`'s and `spec.client.expiry`'s. Kept here is what is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from .accumulator import Accumulator, topic_of
from .requests import Produce


class Sender:
    """Sends the batches of an `accumulator`, and takes the answers.

    `react` is told what an answer means for the client as a whole, and `is_awaited` says of a
    batch's number whether an answer may still come. `metrics` and `topic_metrics` are what a
    producer counts.
    """

    def __init__(
        self, accumulator: Accumulator, react: Callable[[Any], None],
        is_awaited: Callable[[int], bool],
    ) -> None:  # fmt: skip
        self.accumulator = accumulator
        self.metrics: Counter[str] = Counter()
        self.topic_metrics: dict[Any, Counter[str]] = {}
        self._react = react
        self._is_awaited = is_awaited

    def _count(self, name: str, partition: Any, records: int) -> None:
        self.metrics[name] += records
        self.topic_metrics.setdefault(topic_of(partition), Counter())[name] += records

    def drain(self, *, is_transactional: bool, version: int) -> list[Produce]:
        """What goes now, for a transaction `version`.

        Sender.sendProducerData
        """
        drained = self.accumulator.drain(
            is_transactional=is_transactional, transaction_version=version
        )
        for produce in drained:
            self._count("record-send-total", produce.partition, len(produce.records))
        return drained

    def expire(self) -> bool:
        """Gives up batches whose time is over; whether there are any.

        Sender.failExpiredBatches
        """
        found = False
        for number, reaction in self.accumulator.expired():
            found = True
            self.fail(number, "TIMEOUT", reaction)
            self._release(number)
        return found

    def answer(self, number: int, error: str, base: int = -1, log_start: int = -1) -> None:
        """A leader's answer to a batch.

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
                self._count("record-retry-total", batch.partition, len(batch.records))
            case "SPLIT":
                self.metrics["batch-split-total"] += 1
                self.accumulator.split(number)
            case _:
                self.fail(number, error, reaction)
        self._release(number)

    def fail(self, number: int, error: str, reaction: Any) -> None:
        """A batch has failed; `reaction` is what that means for the client.

        Sender.failBatch
        """
        batch = self.accumulator.batches[number]
        self._count("record-error-total", batch.partition, len(batch.records))
        batch.finish(error)
        self._react(reaction)

    def drop(self, error: str, *, undrained_only: bool) -> bool:
        """Gives batches up, all or those that were never sent; whether there are any."""
        dropped = self.accumulator.drop(error, undrained_only=undrained_only)
        for number in dropped:
            self._release(number)
        return bool(dropped)

    def _release(self, number: int) -> None:
        """Forgets a batch once no answer can be for it."""
        if not self._is_awaited(number):
            self.accumulator.release(number)
