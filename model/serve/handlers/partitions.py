"""Topics, and the bytes of their partitions beside the leaders of the oracle that judge them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...broker.leader import Batch, PartitionLeader
from ...cluster import Cluster
from ...records import Flag, Record, RecordBatch, encode_batch, encode_marker

OFFSETS_TOPIC: Final = "__consumer_offsets"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LEADER_EPOCH = bytes(4)
_EPOCH_AT = 12, 16  # where a batch has it, behind its base offset and length


def partition_name(topic: str, number: int) -> str:
    """The oracle's name of a partition."""
    return f"{topic}-{number}"


def place_of(partition: str) -> tuple[str, int]:
    """A partition's topic and number."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


class Read(NamedTuple):
    """The result of a fetch: whole batches, and where it ends."""

    data: bytes
    end: int


@dataclass
class Partitions:
    """The topics with their counts of partitions, and the bytes of these.

    `made` is how many partitions a topic gets that a client asks for by name.
    """

    cluster: Cluster
    made: int = 1
    topics: dict[str, int] = field(default_factory=dict[str, int])
    _bytes: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])

    def __post_init__(self) -> None:
        self.cluster.coordinator.leader_of = self._leader_of

    def _leader_of(self, partition: str) -> int | None:
        topic, number = place_of(partition)
        return 0 if topic == OFFSETS_TOPIC or self.has(topic, number) else None

    def has(self, topic: str, number: int) -> bool:
        """Whether there is such a partition."""
        return 0 <= number < self.topics.get(topic, 0)

    def create(self, topic: str, count: int) -> str:
        """Makes a topic: an error."""
        if not _NAME.fullmatch(topic) or topic in (".", ".."):
            return "INVALID_TOPIC_EXCEPTION"
        if topic in self.topics:
            return "TOPIC_ALREADY_EXISTS"
        if not 0 < count <= 10_000:
            return "INVALID_PARTITIONS"
        self.topics[topic] = count
        return "NONE"

    def delete(self, topic: str) -> str:
        """Deletes a topic with its data: an error."""
        if topic not in self.topics:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        for number in range(self.topics.pop(topic)):
            self.cluster.leaders.pop(partition_name(topic, number), None)
            self._bytes.pop(partition_name(topic, number), None)
        return "NONE"

    def leader(self, topic: str, number: int) -> PartitionLeader:
        """The leader of a partition."""
        return self.cluster.leader(partition_name(topic, number))

    def keep(self, partition: str, base_offset: int, data: bytes) -> None:
        """Keeps the bytes of a batch that the leader has taken, at the offset that it was given."""
        start, end = _EPOCH_AT
        kept = base_offset.to_bytes(8) + data[8:start] + _LEADER_EPOCH + data[end:]
        self._bytes.setdefault(partition, {})[base_offset] = kept

    def read(
        self, topic: str, number: int, offset: int, end: int, most: int, *, at_least_one: bool
    ) -> Read:
        """The batches from an offset on, below `end`, up to so many bytes."""
        partition = partition_name(topic, number)
        found, size, reached = list[bytes](), 0, offset
        for batch in self._from(partition, offset):
            if batch.last_offset >= end:
                break
            data = self._data(partition, batch)
            if size + len(data) > most and (found or not at_least_one):
                break
            found.append(data)
            size += len(data)
            reached = batch.last_offset + 1
        return Read(b"".join(found), reached)

    def _from(self, partition: str, offset: int) -> Iterator[Batch]:
        batches = self.cluster.leader(partition).batches
        start = bisect_left(batches, offset, key=lambda batch: batch.last_offset)
        return (batches[at] for at in range(start, len(batches)))

    def _data(self, partition: str, batch: Batch) -> bytes:
        kept = self._bytes.setdefault(partition, {})
        if batch.base_offset not in kept:  # one that the cluster has written itself
            kept[batch.base_offset] = _bytes_of(batch)
        return kept[batch.base_offset]

    def first_since(self, topic: str, number: int, timestamp: int) -> Batch | None:
        """The first batch that was appended at a time, in ms, or after it."""
        batches = self._from(partition_name(topic, number), 0)
        return next((batch for batch in batches if batch.timestamp >= timestamp), None)


def _bytes_of(batch: Batch) -> bytes:
    """A marker's bytes, or those of a batch whose records nobody reads."""
    record, attributes = Record(offset_delta=0), Flag(0)
    if batch.transactional:
        attributes |= Flag.TRANSACTIONAL
    if batch.kind == "marker":
        key, value = encode_marker(batch.result, batch.coordinator_epoch)
        record, attributes = Record(offset_delta=0, key=key, value=value), attributes | Flag.CONTROL
    return encode_batch(
        RecordBatch(
            base_offset=batch.base_offset, records=(record,),
            last_offset_delta=batch.last_offset - batch.base_offset, partition_leader_epoch=0,
            base_timestamp=batch.timestamp, max_timestamp=batch.timestamp, attributes=attributes,
            producer_id=batch.producer_id, producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )  # fmt: skip
