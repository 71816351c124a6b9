"""A client's batches: the records in them, which of them are sent when, and what became of them.

The rows are `spec.client.accumulator`'s, on the client's machine, which knows a batch by its
number. Kept here are the records, and how many bytes a batch is expected to have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...spec.client import accumulator as declared
from ..engine.errors import NotNow
from ..engine.machine import Machine


@dataclass(eq=False)
class Record:
    """A record and what became of it: its `offset` (-1: not known), or an `error`."""

    partition: Any
    size: int
    is_done: bool = False
    error: str | None = None
    offset: int = -1


@dataclass(frozen=True, eq=False)
class Produce:
    """A batch as it was sent; `batch` is its number in the machine."""

    batch: int
    partition: Any
    base_sequence: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    transaction_version: int
    records: tuple[Record, ...]
    api: str = "PRODUCE"


@dataclass(eq=False)
class Batch:
    """A batch's records; `ratio` is what compression was expected to come to."""

    records: list[Record]
    ratio: float
    is_done: bool = False

    def finish(self, error: str | None = None, base_offset: int = -1) -> None:
        """Its records are there, or have failed. Only the first time counts."""
        if self.is_done:
            return
        self.is_done = True
        for at, record in enumerate(self.records):
            record.is_done, record.error = True, error
            record.offset = base_offset + at if base_offset >= 0 else -1


def topic_of(partition: Any) -> Any:
    """The topic of a partition: of `"topic-0"`, or of `("topic", 0)`."""
    named: Any = partition
    return named[0] if isinstance(partition, tuple) else str(partition).rpartition("-")[0]


class Accumulator:
    """The batches of a client, by number, on its `machine`.

    `compression_ratio` is what compression comes to; None: there is none.
    """

    def __init__(self, machine: Machine, compression_ratio: float | None) -> None:
        self.machine = machine
        self.compression_ratio = compression_ratio
        self.batches: dict[int, Batch] = {}
        self._free: list[int] = []

    # Reading ----------------------------------------------------------------------------------

    @property
    def has_incomplete(self) -> bool:
        """Whether the application waits to hear of a batch."""
        return any(not batch.is_done for batch in self.batches.values())

    @property
    def has_undrained(self) -> bool:
        """Whether a batch waits to be sent."""
        return any(self.held(number).stage in ("UNSENT", "QUEUED") for number in self.batches)

    def held(self, number: int) -> Any:
        """What the machine knows of a batch: a ClientBatch."""
        return self.machine.at("client_batches", number)

    def number_of(self, record: Record) -> int:
        """The number of the batch that a record is in. Raises NotNow where it is in none."""
        for number, batch in self.batches.items():
            if record in batch.records and self.held(number).stage != "GONE":
                return number
        raise NotNow("the record is in no batch any more")

    def _in_order(self) -> list[int]:
        """The batches as they wait in their partitions' queues."""

        def place(number: int) -> tuple[int, int]:
            held = self.held(number)
            return held.place, held.base_sequence

        return sorted(self.batches, key=place)

    # Appending --------------------------------------------------------------------------------

    def append(self, record: Record) -> str | None:
        """Puts a record into its partition's last batch where there is room, else into a new one;
        the error with which it is refused, if it is."""
        for number, batch in reversed(self.batches.items()):
            held = self.held(number)
            if held.stage == "UNSENT" and held.partition == record.partition:
                if self._fits(number, batch, record):
                    return None
                break
        batch = Batch([record], self._expected_ratio(record.partition))
        number = self._number()
        answer = self.machine.handle(
            "open batch", batch=number, partition=record.partition, size=record.size,
            written=self._written(batch),
        ).reply  # fmt: skip
        if answer.raises is None:
            self.batches[number] = batch
        else:
            self._free.append(number)
        return answer.raises

    def _number(self) -> int:
        return self._free.pop() if self._free else len(self.batches)

    def _fits(self, number: int, batch: Batch, record: Record) -> bool:
        """Appends a record to a batch, if there is room."""
        batch.records.append(record)
        written = self._written(batch)
        answer = self.machine.handle(
            "append record", batch=number, size=record.size, written=written
        ).reply
        if answer.is_full:
            batch.records.pop()
        return not answer.is_full

    def _written(self, batch: Batch) -> int:
        """The bytes that a batch is expected to have.

        MemoryRecordsBuilder.estimatedBytesWritten
        """
        size = sum(record.size for record in batch.records)
        if self.compression_ratio is not None:
            size = int(size * batch.ratio * declared.SAFETY)
        return declared.HEADER + size

    def _expected_ratio(self, partition: Any) -> float:
        ratio = self.machine["ratios"][topic_of(partition)]
        return 1.0 if ratio is None else ratio / declared.ONE

    def _observe_ratio(self, partition: Any, *, is_too_large: bool) -> None:
        if self.compression_ratio is not None:
            self.machine.handle(
                "batch compressed", topic=topic_of(partition), is_too_large=is_too_large,
                ratio=max(1, round(self.compression_ratio * declared.ONE)),
            )  # fmt: skip

    # Sending ----------------------------------------------------------------------------------

    def drain(self, *, is_transactional: bool, transaction_version: int) -> list[Produce]:
        """Of each partition the batch that may go now, if there is one.

        RecordAccumulator.drain
        """
        found: dict[Any, Produce] = {}
        for number in self._in_order():
            partition = self.held(number).partition
            if partition in found or self.machine.attempt("drain batch", batch=number) is None:
                continue
            held = self.held(number)
            self._observe_ratio(partition, is_too_large=False)
            found[partition] = Produce(
                number, partition, held.base_sequence, held.producer_id, held.producer_epoch,
                is_transactional, transaction_version, tuple(self.batches[number].records),
            )  # fmt: skip
        return list(found.values())

    def expired(self) -> Iterator[int]:
        """Batches whose time is up: first those that wait, the oldest of a partition first."""
        for is_sent in (False, True):
            stopped: set[Any] = set()
            for number in self._in_order():
                held = self.held(number)
                if (held.stage == "SENT") != is_sent or held.stage == "GONE":
                    continue
                if held.partition in stopped:
                    continue
                if self.machine.attempt("expire", batch=number) is None:
                    stopped.add(held.partition)
                else:
                    yield number

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When a batch may be sent again that only waits for that; None: there is none."""
        dues: list[int] = []
        for number in self.batches:
            held = self.held(number)
            due = held.last_attempt_ms + held.backoff_ms
            if held.stage == "QUEUED" and due > now_ms:
                self.machine.outside(clock__now=due)
                if self.machine.may("drain batch", batch=number) is not None:
                    dues.append(due)
        self.machine.outside(clock__now=now_ms)
        return min(dues, default=None)

    def restart(self, partition: Any) -> None:
        """Numbers a partition's batches in flight anew, from 0, in the order that they have."""
        batches = self.machine["client_batches"]
        tracked = (n for n, b in batches.items() if b.is_tracked and b.partition == partition)
        in_order = sorted(tracked, key=lambda number: batches[number].base_sequence)
        self.machine.handle("start at the beginning", partition=partition)
        for number in in_order:
            self.machine.handle("renumber", batch=number)

    def split(self, number: int) -> None:
        """A batch that was too large goes again in parts.

        RecordAccumulator.splitAndReenqueue
        """
        whole, partition = self.batches[number], self.held(number).partition
        whole.is_done = True
        self._observe_ratio(partition, is_too_large=True)
        part: tuple[int, Batch] | None = None
        for before, record in enumerate(whole.records):
            if part is not None and self._fits(*part, record):
                continue
            batch = Batch([record], self._expected_ratio(partition))
            part = (self._number(), batch)
            self.batches[part[0]] = batch
            self.machine.handle(
                "split off", batch=part[0], whole=number, before=before, size=record.size,
                written=self._written(batch),
            )  # fmt: skip

    # Giving up --------------------------------------------------------------------------------

    def drop(self, error: str, *, undrained_only: bool) -> list[int]:
        """Gives batches up, all or those that were never sent; which ones."""
        found: list[int] = []
        for number, batch in self.batches.items():
            if batch.is_done or (undrained_only and self.held(number).stage != "UNSENT"):
                continue
            batch.finish(error)
            self.machine.handle("drop batch", batch=number)
            found.append(number)
        return found

    def release(self, number: int) -> None:
        """Forgets a batch whose fate is known."""
        if self.held(number).stage == "GONE":
            self.machine.handle("release batch", batch=number)
            del self.batches[number]
            self._free.append(number)
