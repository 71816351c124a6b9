"""A client's batches: their records, the order of their sending, and their results.

The rows are `spec.client.accumulator`'s and `spec.client.sender`'s, on the client's machine, which
knows a batch by its number, and `spec.changes.drain_order`'s. Kept here are the records, how many
bytes a batch is expected to have, and how well its topic is compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...language import Expression
from ...spec.changes import drain_order
from ...spec.client import accumulator
from ...spec.client.blocking import BATCH_OVERHEAD as HEADER
from ...spec.client.blocking import room
from ...spec.messages import now
from ..engine.errors import NotNowError
from ..engine.machine import Machine
from .requests import Produce, Record

# What a compression ratio is corrected by. Source: CompressionRatioEstimator.
IMPROVING, DETERIORATING = 0.005, 0.05
SAFETY = 1.05  # how much more room a compressed record is given
_WAITING = ("UNSENT", "QUEUED")
_DONE = ("ACKNOWLEDGED", "FAILED")


@dataclass(eq=False)
class Batch:
    """A batch's records; `ratio` is the expected compression ratio, `limit` its largest size in
    bytes, and `memory` its taken size: none, once they are given back."""

    partition: Any
    records: list[Record]
    ratio: float
    limit: int
    memory: int = 0
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

    `batch_size` is how many bytes a batch may have, `free_memory` how many there are for all of
    them, `max_request_size` for those of one request. `compression_ratio` is the actual compression
    ratio; None: there is none. `leaders` has the node of a partition; all others have node 0.
    """

    def __init__(
        self, machine: Machine, batch_size: int, compression_ratio: float | None,
        free_memory: int, max_request_size: int,
    ) -> None:  # fmt: skip
        self.machine = machine
        self.batch_size = batch_size
        self.free_memory = free_memory
        self.order = Machine(
            (drain_order.begins, drain_order.visits, drain_order.sends),
            drain_order.CLIENTS,
            protocol=machine.protocol,
            constants={"max_request_size": max_request_size},
        )
        self.leaders: dict[Any, Any] = {}
        self._partitions: list[Any] = []
        self._drain_indexes: dict[Any, int] = {}
        self.compression_ratio = compression_ratio
        self.batches: dict[int, Batch] = {}
        self.ratios: dict[Any, float] = {}
        self._opened = self._requests = 0
        self._grown: set[int] = set()

    # Reading ----------------------------------------------------------------------------------

    @property
    def has_incomplete(self) -> bool:
        """Whether the application waits to hear of a batch."""
        return any(not batch.is_done for batch in self.batches.values())

    @property
    def has_undrained(self) -> bool:
        """Whether a batch waits to be sent."""
        return any(self.held(number).status in _WAITING for number in self.batches)

    def incomplete(self) -> list[Record]:
        """The records that the application waits to hear of."""
        open_batches = (batch for batch in self.batches.values() if not batch.is_done)
        return [record for batch in open_batches for record in batch.records]

    def held(self, number: int) -> Any:
        """The machine's state of a batch: a ProducerBatch."""
        return self.machine.at("batches", self.batches[number].partition)[number]

    def details(self, number: int) -> Any:
        """Its further state: BatchDetails."""
        return self.machine.at("details", self.batches[number].partition)[number]

    def number_of(self, record: Record) -> int:
        """The number of the batch that a record is in. Raises NotNowError where it is in none."""
        for number, batch in self.batches.items():
            if record in batch.records and self.held(number).status not in _DONE:
                return number
        raise NotNowError("the record is in no batch any more")

    def _in_order(self) -> list[int]:
        """The batches as they wait in their partitions' queues."""

        def place(number: int) -> tuple[int, int]:
            return self.details(number).place, self.held(number).base_sequence

        return sorted(self.batches, key=place)

    def put(self, number: int, **fields: Any) -> None:
        """Gives some fields of a batch other values."""
        self._put(number, batches=self.held(number)._replace(**fields))

    def put_details(self, number: int, **fields: Any) -> None:
        """The same for its details."""
        self._put(number, details=self.details(number)._replace(**fields))

    def _put(self, number: int, **known: Any) -> None:
        """The machine's state of a batch; None if it has none any more."""
        partition = self.batches[number].partition
        for field, value in known.items():
            every = self.machine[field]
            here = every[partition].copy()
            if value is None:
                here.pop(number, None)
            else:
                here[number] = value
            every[partition] = here
            if not here:
                del every[partition]
            self.machine.put(**{field: every})

    # Appending --------------------------------------------------------------------------------

    @property
    def closed_error(self) -> str | None:
        """The error with which every record is refused, once the client is closed."""
        return self.machine.value(accumulator.append_error)

    def has(self, record: Record) -> bool:
        """Whether the record is in a batch."""
        return any(record in batch.records for batch in self.batches.values())

    def wanted(self, record: Record) -> int:
        """The bytes of memory that the record needs: none where its partition's last batch has
        room for it. The last batch takes nothing more, if not."""
        if self.closed_error or self._place_for(record) is not None:
            return 0
        return room(record.size + HEADER, self.batch_size)

    def take(self, size: int) -> int:
        """Takes so many bytes of memory, or all that is free; returns how many."""
        taken = min(size, self.free_memory)
        self.free_memory -= taken
        return taken

    def give_back(self, size: int) -> None:
        """So many bytes of memory are free again."""
        self.free_memory += size

    def free(self, number: int) -> None:
        """A batch's memory is free again."""
        self.give_back(self.batches[number].memory)
        self.batches[number].memory = 0

    def append(self, record: Record) -> str | None:
        """Puts a record into its partition's last batch where there is room, else into a new one,
        for which there must be memory; the error with which it is refused, if it is."""
        number = self._place_for(record)
        if number is not None:
            error = self.closed_error
            if error is None:
                self.batches[number].records.append(record)
                self._grown.add(number)
            return error
        error = self.machine.value(accumulator.new_batch_error)
        if error is None:
            batch = self._batch(record)
            batch.memory = self.take(room(record.size + HEADER, self.batch_size))
            self._open(batch)
        return error

    def _place_for(self, record: Record) -> int | None:
        for number, last in reversed(self.batches.items()):
            if last.partition == record.partition and self.held(number).status == "UNSENT":
                if self._has_room(last, record):
                    return number
                last.limit = 0  # nothing more comes into it
                self._grown.add(number)
                break
        return None

    def _open(self, batch: Batch) -> None:
        number, now_ms = self._opened, self.machine.value(now)
        self.batches[number] = batch
        if batch.partition not in self._partitions:
            self._partitions.append(batch.partition)
        details = {"count": 1, "place": number, "created_ms": now_ms, "last_attempt_ms": now_ms}
        self._put(number, details=details)
        self._grown.add(number)
        self._opened += 1

    def _count(self) -> None:
        """The records that were added to batches since they were counted."""
        for number in self._grown & self.batches.keys():
            batch = self.batches[number]
            is_full = self._written(batch) >= batch.limit
            self.put_details(number, count=len(batch.records), is_full=is_full)
        self._grown.clear()

    def _batch(self, record: Record) -> Batch:
        ratio = self.ratios.get(topic_of(record.partition), 1.0)
        limit = max(self.batch_size, record.size + HEADER)
        return Batch(record.partition, [record], ratio, limit)

    def _has_room(self, batch: Batch, record: Record) -> bool:
        """MemoryRecordsBuilder.hasRoomFor"""
        written = self._written(batch)
        return written < batch.limit and written + record.size <= batch.limit

    def _written(self, batch: Batch) -> int:
        """The bytes that a batch is expected to have.

        MemoryRecordsBuilder.estimatedBytesWritten
        """
        size = sum(record.size for record in batch.records)
        if self.compression_ratio is not None:
            size = int(size * batch.ratio * SAFETY)
        return HEADER + size

    def _observe_ratio(self, partition: Any, *, is_too_large: bool) -> None:
        """RecordAccumulator.splitAndReenqueue, CompressionRatioEstimator.updateEstimation"""
        observed, topic = self.compression_ratio, topic_of(partition)
        if observed is None:
            return
        expected = self.ratios.get(topic, 1.0)
        if is_too_large:
            least = 1.0
        elif observed > expected:
            least = expected + DETERIORATING
        else:
            least = expected - IMPROVING
        self.ratios[topic] = max(least, observed)

    # Sending ----------------------------------------------------------------------------------

    def drain(self, *, is_transactional: bool, transaction_version: int) -> list[Produce]:
        """The batches of the next request to each node, as far as there are any.

        RecordAccumulator.drain
        """
        self._count()
        heads, found = self._heads(), list[Produce]()
        for node in dict.fromkeys(map(self._node_of, self._partitions)):
            drained = list(self._drain_for_one_node(node, heads))
            for number, sent in drained:
                batch = self.batches[number]
                found.append(Produce(
                    number, batch.partition, sent.base_sequence, sent.producer_id,
                    sent.producer_epoch, is_transactional, transaction_version,
                    tuple(batch.records), self._requests, self.machine.value(now),
                ))  # fmt: skip
            self._requests += bool(drained)
        return found

    def _drain_for_one_node(self, node: Any, heads: Mapping[Any, int]) -> Iterator[tuple[int, Any]]:
        """Batches that go to a node, each with its message.

        RecordAccumulator.drainBatchesForOneNode
        """
        order = self.order
        parts = [part for part in self._partitions if self._node_of(part) == node]
        numbers = {at: heads[part] for at, part in enumerate(parts) if part in heads}
        stopped = {at: self._reads(accumulator.should_stop_drain, n) for at, n in numbers.items()}
        owner = node if order.value(drain_order.drain_index_kept) else None
        order.put(
            parts=len(parts),
            first={at: self.size(number) for at, number in numbers.items()},
            stopped=stopped,
            drain_index=self._drain_indexes.get(owner, 0) % len(parts),
        )
        order.attempt("drain begins")
        while order["start"] is not None:
            at = order["at"]
            if order.handle("visit", partition=at).row == "drain":
                number, part = numbers[at], parts[at]
                (sent,) = self.machine.handle("drain", partition=part, record=number).sent
                self._observe_ratio(part, is_too_large=False)
                yield number, sent
        order.attempt("request sent")
        self._drain_indexes[owner] = order["drain_index"]

    def _node_of(self, partition: Any) -> Any:
        return self.leaders.get(partition, 0)

    def _heads(self) -> dict[Any, int]:
        """The batch that a drain finds at a partition, where it finds one."""
        found: dict[Any, int] = {}
        for number in self._in_order():
            partition = self.batches[number].partition
            if partition not in found and self._reads(accumulator.may_be_drained, number):
                found[partition] = number
        return found

    def _reads(self, condition: Expression, number: int) -> bool:
        """A condition of the rows of `drain`, for one batch."""
        drain = {"partition": self.batches[number].partition, "record": number}
        return self.machine.meaning("drain", condition, (), drain)

    def size(self, number: int) -> int:
        """The bytes of a batch in its sent form, compressed or not."""
        size = sum(record.size for record in self.batches[number].records)
        return HEADER + int(size * (self.compression_ratio or 1))

    def expired(self) -> Iterator[tuple[int, Any]]:
        """Batches whose time is up, with the consequence: first those that wait, the oldest of a
        partition first."""
        for is_sent in (False, True):
            stopped: set[Any] = set()
            for number in self._in_order():
                status, partition = self.held(number).status, self.batches[number].partition
                if (status == "SENT") != is_sent or status in _DONE or partition in stopped:
                    continue
                outcome = self.machine.attempt("batch expires", partition=partition, record=number)
                if outcome is None:
                    stopped.add(partition)
                else:
                    yield number, outcome.reply

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When a batch may be sent again that only waits for that; None: there is none."""
        dues: list[int] = []
        for number, batch in self.batches.items():
            details = self.details(number)
            due = details.last_attempt_ms + details.backoff_ms
            if self.held(number).status == "QUEUED" and due > now_ms:
                self.machine.outside(clock__now=due)
                if self.machine.may("drain", partition=batch.partition, record=number) is not None:
                    dues.append(due)
        self.machine.outside(clock__now=now_ms)
        return min(dues, default=None)

    def split(self, number: int) -> None:
        """A batch that was too large goes again in parts, each with the sequence that its first
        record had.

        RecordAccumulator.splitAndReenqueue, ProducerBatch.split
        """
        whole, partition = self.batches[number], self.batches[number].partition
        held, details = self.held(number), self.details(number)
        whole.is_done = True
        self._observe_ratio(partition, is_too_large=True)
        parts: list[Batch] = []
        for record in whole.records:
            if parts and self._has_room(parts[-1], record):
                parts[-1].records.append(record)
            else:
                parts.append(self._batch(record))
        sequence = held.base_sequence
        for part in parts:
            self.batches[self._opened] = part
            self._put(
                self._opened,
                batches=held._replace(
                    status="QUEUED", base_sequence=sequence, sequence_reset=False, in_retry=False
                ),
                details=details._replace(
                    count=len(part.records),
                    attempts=0,
                    last_attempt_ms=details.created_ms,
                    backoff_ms=0,
                    is_full=self._written(part) >= part.limit,
                ),
            )
            sequence += len(part.records)
            self._opened += 1

    # Giving up --------------------------------------------------------------------------------

    def drop(self, error: str, *, undrained_only: bool) -> list[int]:
        """Gives batches up, all or those that were never sent; which ones.

        RecordAccumulator.abortBatches, abortUndrainedBatches
        """
        found: list[int] = []
        for number, batch in self.batches.items():
            if batch.is_done or (undrained_only and self.held(number).status != "UNSENT"):
                continue
            batch.finish(error)
            self.put(number, status="FAILED")
            found.append(number)
        return found

    def release(self, number: int) -> None:
        """Forgets a batch whose fate is known, unless it stays among those in flight."""
        if self.held(number).status in _DONE and not self.details(number).is_given_up:
            self._put(number, batches=None, details=None)
            del self.batches[number]
