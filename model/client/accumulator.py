"""A client's batches: their records, the order of their sending, and their results.

The rows are `spec.client.batches.accumulator`'s and `spec.client.batches.sender`'s, on the client's
machine, which knows a batch by its number, and `spec.changes.clients.drain_order`'s. This module
has the records, the estimated size of a batch in bytes, and the compression ratio of its topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...language import Expression
from ...spec.changes.clients import drain_order
from ...spec.client.batches import accumulator
from ...spec.client.calls.blocking import BATCH_OVERHEAD as HEADER
from ...spec.client.calls.blocking import room
from ...spec.messages import now
from ..engine.errors import NotNowError
from ..engine.machine import Machine
from .requests import Produce, Record

# The steps by which an estimated ratio changes. Source: CompressionRatioEstimator.
IMPROVING, DETERIORATING = 0.005, 0.05
SAFETY = 1.05  # the factor by which a compressed record's estimated size is raised
_WAITING = ("UNSENT", "QUEUED")
_DONE = ("ACKNOWLEDGED", "FAILED")


@dataclass(eq=False)
class Batch:
    """A batch's records. `ratio` is the estimated compression ratio, `limit` the largest size in
    bytes, `memory` the bytes that it holds of buffer.memory: 0 after they are freed."""

    partition: Any
    records: list[Record]
    ratio: float
    limit: int
    memory: int = 0
    is_done: bool = False

    def finish(self, error: str | None = None, base_offset: int = -1) -> None:
        """Completes the batch's records with offsets or an error. Later calls do nothing."""
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

    In bytes: `batch_size` is the limit of a batch, `free_memory` the free part of buffer.memory,
    `max_request_size` the limit of a request. `compression_ratio` is the actual compression ratio;
    None: no compression. `leaders` maps partitions to nodes; the node of other partitions is 0.
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
        """Whether a batch has no result yet."""
        return any(not batch.is_done for batch in self.batches.values())

    @property
    def has_undrained(self) -> bool:
        """Whether a batch waits to be sent."""
        return any(self.held(number).status in _WAITING for number in self.batches)

    def incomplete(self) -> list[Record]:
        """The records without a result."""
        open_batches = (batch for batch in self.batches.values() if not batch.is_done)
        return [record for batch in open_batches for record in batch.records]

    def held(self, number: int) -> Any:
        """The batch's state in the machine: a ProducerBatch."""
        return self.machine.at("batches", self.batches[number].partition)[number]

    def details(self, number: int) -> Any:
        """The batch's other state in the machine: a BatchDetails."""
        return self.machine.at("details", self.batches[number].partition)[number]

    def number_of(self, record: Record) -> int:
        """The number of the batch that has the record. Raises NotNowError if no batch has it."""
        for number, batch in self.batches.items():
            if record in batch.records and self.held(number).status not in _DONE:
                return number
        raise NotNowError("the record isn't in a batch any more")

    def _in_order(self) -> list[int]:
        """The batches' numbers in the order of their partitions' queues."""

        def place(number: int) -> tuple[int, int]:
            return self.details(number).place, self.held(number).base_sequence

        return sorted(self.batches, key=place)

    def put(self, number: int, **fields: Any) -> None:
        """Changes fields of the batch's state."""
        self._put(number, batches=self.held(number)._replace(**fields))

    def put_details(self, number: int, **fields: Any) -> None:
        """Changes fields of the batch's details."""
        self._put(number, details=self.details(number)._replace(**fields))

    def _put(self, number: int, **known: Any) -> None:
        """Sets the batch's values in fields of the machine; None removes the value."""
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
        """The error of every record after the client is closed; None before."""
        return self.machine.value(accumulator.append_error)

    def has(self, record: Record) -> bool:
        """Whether the record is in a batch."""
        return any(record in batch.records for batch in self.batches.values())

    def wanted(self, record: Record) -> int:
        """The bytes of memory that the record needs: 0 if its partition's last batch has room. If
        it has no room, that batch is closed to more records."""
        if self.closed_error or self._place_for(record) is not None:
            return 0
        return room(record.size + HEADER, self.batch_size)

    def take(self, size: int) -> int:
        """Takes `size` bytes of memory, or all free bytes if they are fewer. Returns the number of
        bytes."""
        taken = min(size, self.free_memory)
        self.free_memory -= taken
        return taken

    def give_back(self, size: int) -> None:
        """Frees `size` bytes of memory."""
        self.free_memory += size

    def free(self, number: int) -> None:
        """Frees a batch's memory."""
        self.give_back(self.batches[number].memory)
        self.batches[number].memory = 0

    def append(self, record: Record) -> str | None:
        """Puts a record into its partition's last batch if there is room, else into a new batch.
        The caller makes sure that there is memory. Returns the error of a refused record, or
        None."""
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
                last.limit = 0  # the batch is closed to more records
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
        """Updates the machine's record counts of batches that have grown."""
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
        """The estimated size of a batch in bytes.

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
        """The batches of the next request to each node.

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
        """The batches of a node's next request, each with its message.

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
        """The next batch to drain of each partition that has one."""
        found: dict[Any, int] = {}
        for number in self._in_order():
            partition = self.batches[number].partition
            if partition not in found and self._reads(accumulator.may_be_drained, number):
                found[partition] = number
        return found

    def _reads(self, condition: Expression, number: int) -> bool:
        """The value of a condition of the `drain` rows for one batch."""
        drain = {"partition": self.batches[number].partition, "record": number}
        return self.machine.meaning("drain", condition, (), drain)

    def size(self, number: int) -> int:
        """The bytes of a batch when it is sent, after compression."""
        size = sum(record.size for record in self.batches[number].records)
        return HEADER + int(size * (self.compression_ratio or 1))

    def expired(self) -> Iterator[tuple[int, Any]]:
        """The batches whose delivery timeout is over, each with the reaction. Waiting batches are
        first, then sent ones; the oldest of a partition is first."""
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
        """The time in ms at which the first backoff of a queued batch ends; None without such a
        batch."""
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
        """Splits a batch that was too large. Each part keeps the sequence of its first record.

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
        """Fails all batches, or only those that were never sent. Returns their numbers.

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
        """Forgets a batch that is done, unless it was given up and is still in flight."""
        if self.held(number).status in _DONE and not self.details(number).is_given_up:
            self._put(number, batches=None, details=None)
            del self.batches[number]
