"""Topics, and the bytes of their partitions. The oracle's leaders decide about the batches."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from crc32c import crc32c

from ...broker.leader import Batch, PartitionLeader
from ...cluster import STATE_PARTITIONS, Cluster
from ...records import Flag, Record, RecordBatch, decode_batch, encode_batch, encode_marker
from ..settings import Settings

OFFSETS_TOPIC: Final = "__consumer_offsets"
LOG_TOPIC: Final = "__transaction_state"
"""The transaction log. It has no records here; Metadata shows its partitions."""
LEADER_EPOCH: Final = 0
"""The leader epoch of all partitions: leaders never change."""
MARKER_BYTES: Final = 78
"""The size of a marker in bytes. Every batch that the cluster itself writes counts as this size."""
OFFSETS_BYTES: Final = 1000 * MARKER_BYTES
LONGEST_NAME: Final = 249
MOST_PARTITIONS: Final = 10_000
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_EPOCH_AT = 12, 16  # after a batch's base offset and length
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = (17, 21), (21, 23), (35, 43)


def partition_name(topic: str, number: int) -> str:
    """The oracle's name of a partition."""
    return f"{topic}-{number}"


def place_of(partition: str) -> tuple[str, int]:
    """A partition's topic and number."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


@dataclass
class Segment:
    """A segment of a partition: its bytes, and the largest timestamp of a record (ms)."""

    size: int = 0
    last_ms: int = -1


class Read(NamedTuple):
    """The result of a fetch: whole batches, and the offset after them."""

    data: bytes
    end: int


@dataclass
class Partitions:
    """The topics with their numbers of partitions, and the partitions' bytes.

    `made` is the number of partitions of an automatically created topic.
    """

    cluster: Cluster
    settings: Settings
    made: int = 1
    topics: dict[str, int] = field(default_factory=dict[str, int])
    ids: dict[str, UUID] = field(default_factory=dict[str, UUID])
    """The topics' ids, by name."""
    internal: set[str] = field(default_factory=set[str])
    """The existing internal topics. Kafka creates one when a client looks for a coordinator."""
    factors: dict[str, int] = field(default_factory=dict[str, int])
    """The replication factors of topics, if they aren't the default."""
    _names: dict[UUID, str] = field(default_factory=dict[UUID, str])
    _bytes: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])
    _segments: dict[str, list[Segment]] = field(default_factory=dict[str, list[Segment]])
    _ends: dict[str, int] = field(default_factory=dict[str, int])
    """The offset up to which a partition's batches are counted in its segments."""

    def __post_init__(self) -> None:
        self.cluster.coordinator.leader_of = self._leader_of
        for name in (OFFSETS_TOPIC, LOG_TOPIC):
            self._identify(name)

    def _identify(self, topic: str) -> None:
        self.ids[topic] = uuid4()
        self._names[self.ids[topic]] = topic

    def name_of(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with this id, or None."""
        return None if topic_id is None else self._names.get(topic_id)

    def is_unknown(self, topic: Mapping[str, Any]) -> bool:
        """Whether a request names a topic by an id that no topic has."""
        return "topic_id" in topic and self.name_of(topic["topic_id"]) is None

    def _leader_of(self, partition: str) -> int | None:
        topic, number = place_of(partition)
        return 0 if topic == OFFSETS_TOPIC or self.has(topic, number) else None

    def has(self, topic: str, number: int) -> bool:
        """Whether the partition exists."""
        return 0 <= number < self.topics.get(topic, 0)

    @property
    def names(self) -> list[str]:
        """The names of all topics."""
        return [*self.topics, *sorted(self.internal)]

    def count(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if it doesn't exist."""
        return STATE_PARTITIONS if topic in self.internal else self.topics.get(topic, 0)

    def is_name(self, topic: str) -> bool:
        """Whether a topic can have this name (Topic.validate)."""
        return bool(_NAME.fullmatch(topic)) and topic not in (".", "..")

    def refusal(self, topic: str) -> tuple[str, str] | None:
        """The error if a topic of this name can't be created, with Kafka's message (Topic.validate,
        ReplicationControlManager); None if it can."""
        if topic in self.topics or topic in (OFFSETS_TOPIC, LOG_TOPIC):
            return "TOPIC_ALREADY_EXISTS", f"Topic '{topic}' already exists."
        why = None
        if not topic:
            why = "the empty string is not allowed"
        elif topic in (".", ".."):
            why = f"'{topic}' is not allowed"
        elif len(topic) > LONGEST_NAME:
            why = f"the length of '{topic}' is longer than the max allowed length {LONGEST_NAME}"
        elif not self.is_name(topic):
            why = f"'{topic}' contains one or more characters other than ASCII alphanumerics, "
            why += "'.', '_' and '-'"
        if why is not None:
            return "INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {why}"
        for other in self.topics:
            if _collides(topic, other):
                why = f"Topic '{topic}' collides with existing topic: {other}"
                return "INVALID_TOPIC_EXCEPTION", why
        return None

    def create(self, topic: str, count: int, settings: Mapping[str, str] | None = None) -> str:
        """Creates a topic; returns the error."""
        if (refused := self.refusal(topic)) is not None:
            return refused[0]
        if not 0 < count <= MOST_PARTITIONS:
            return "INVALID_PARTITIONS"
        self.topics[topic] = count
        self._identify(topic)
        self.settings.set(topic, settings or {})
        return "NONE"

    def delete(self, topic: str) -> str:
        """Deletes a topic with its data; returns the error."""
        if topic not in self.topics:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        for number in range(self.topics.pop(topic)):
            self.cluster.leaders.pop(partition_name(topic, number), None)
            for kept in (self._bytes, self._segments, self._ends):
                kept.pop(partition_name(topic, number), None)
        del self._names[self.ids.pop(topic)]
        self.factors.pop(topic, None)
        self.settings.forget(topic)
        return "NONE"

    def replicas(self, topic: str) -> int:
        """The number of replicas of a topic's partitions."""
        return self.factors.get(topic, self.settings.number("default.replication.factor"))

    def leader(self, topic: str, number: int) -> PartitionLeader:
        """The leader of a partition."""
        return self.cluster.leader(partition_name(topic, number))

    def keep(self, partition: str, base_offset: int, data: bytes, append_time: int | None) -> None:
        """Keeps the bytes of an appended batch. `append_time` (ms) replaces its timestamps, if it
        isn't None (DefaultRecordBatch.setMaxTimestamp)."""
        kept = bytearray(data)
        kept[:8] = base_offset.to_bytes(8)
        kept[slice(*_EPOCH_AT)] = LEADER_EPOCH.to_bytes(4)
        if append_time is not None:
            attributes = int.from_bytes(kept[slice(*_ATTRIBUTES_AT)]) | Flag.LOG_APPEND_TIME
            kept[slice(*_ATTRIBUTES_AT)] = attributes.to_bytes(2)
            kept[slice(*_MAX_TIMESTAMP_AT)] = append_time.to_bytes(8)
            kept[slice(*_CRC_AT)] = crc32c(kept[_ATTRIBUTES_AT[0] :]).to_bytes(4)
        self._bytes.setdefault(partition, {})[base_offset] = bytes(kept)
        own = base_offset - self._ends.get(partition, 0)
        self._count(partition, own * MARKER_BYTES + len(kept), _max_timestamp(kept))

    def _count(self, partition: str, size: int, last_ms: int) -> None:
        """Counts new batches of a partition. Rolls a full segment, and deletes the oldest segments
        beyond retention.bytes (UnifiedLog.deleteRetentionSizeBreachedSegments, at once). A segment
        without a timestamp has the time of its last batch (LogSegment.largestTimestamp)."""
        topic, _ = place_of(partition)
        leader, segments = self.cluster.leader(partition), self._of(partition)
        self._ends[partition] = leader.log_end_offset
        segments[-1].size += size
        last_ms = last_ms if last_ms >= 0 else self.cluster.now_ms
        segments[-1].last_ms = max(segments[-1].last_ms, last_ms)
        most = self._number(topic, "retention.bytes")
        if segments[-1].size >= self._number(topic, "segment.bytes"):
            leader.roll()
            segments.append(Segment())
        total = sum(each.size for each in segments)
        while 0 <= most <= total - segments[0].size and len(segments) > 1:
            total -= segments[0].size
            if not self._drop_oldest(partition):
                return

    def _number(self, topic: str, name: str) -> int:
        """A setting of a topic; -1: no limit. Of the offsets topic only the newest batches are
        kept: the tables replace its compacted log."""
        if topic == OFFSETS_TOPIC:
            return OFFSETS_BYTES if name in ("segment.bytes", "retention.bytes") else -1
        is_kept = name.startswith("retention.") and "delete" not in self.settings.topic(
            topic, "cleanup.policy"
        )
        return -1 if is_kept else int(self.settings.topic(topic, name))

    def _of(self, partition: str) -> list[Segment]:
        return self._segments.setdefault(partition, [Segment()])

    def _drop_oldest(self, partition: str) -> bool:
        """Deletes the oldest segment of a partition if it is replicated. In the offsets topic it
        must also be below the last stable offset. Returns whether it was deleted."""
        leader, segments = self.cluster.leader(partition), self._of(partition)
        end = leader.segments[1] if len(leader.segments) > 1 else leader.log_end_offset
        is_of_groups = place_of(partition)[0] == OFFSETS_TOPIC
        most = leader.last_stable_offset if is_of_groups else leader.high_watermark
        if not leader.segments[0] < end <= most:
            return False
        leader.delete_segments(1)
        segments.pop(0)
        if not segments:
            segments.append(Segment())
        self._forget_bytes(partition, leader.log_start_offset)
        return True

    def count_all(self) -> None:
        """Counts batches at the ends of logs that the cluster itself has written."""
        for partition, leader in [*self.cluster.leaders.items()]:
            own = leader.log_end_offset - self._ends.get(partition, 0)
            if own:
                self._count(partition, own * MARKER_BYTES, self.cluster.now_ms)

    def clean(self) -> None:
        """Deletes the segments whose records are older than retention.ms, and those below the log
        start offset (UnifiedLog.deleteOldSegments)."""
        for partition, leader in [*self.cluster.leaders.items()]:
            topic, _ = place_of(partition)
            longest, segments = self._number(topic, "retention.ms"), self._of(partition)
            while (
                len(leader.segments) > 1 and leader.segments[1] <= leader.log_start_offset
            ) or 0 <= longest < self.cluster.now_ms - segments[0].last_ms:
                if not self._drop_oldest(partition):
                    break

    def size(self, topic: str, number: int) -> int:
        """The bytes of a partition's batches."""
        return sum(map(len, self._bytes.get(partition_name(topic, number), {}).values()))

    def delete_records(self, topic: str, number: int, before: int) -> None:
        """Deletes the records of a partition below an offset, and the bytes of their batches."""
        partition = partition_name(topic, number)
        self.cluster.leader(partition).delete_records(before)
        self._forget_bytes(partition, before)

    def _forget_bytes(self, partition: str, before: int) -> None:
        """Drops the bytes of batches that are entirely below an offset."""
        kept = self._bytes.get(partition, {})
        batches = self.cluster.leader(partition).batches
        first = next((b.base_offset for b in batches if b.last_offset >= before), before)
        for offset in [offset for offset in kept if offset < first]:
            del kept[offset]

    def read(
        self, topic: str, number: int, offset: int, end: int, most: int, *, at_least_one: bool
    ) -> Read:
        """The batches from an offset on, below `end`, with at most `most` bytes."""
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
        if batch.base_offset not in kept:  # the cluster itself has written the batch
            kept[batch.base_offset] = _bytes_of(batch)
        return kept[batch.base_offset]

    def since(self, topic: str, number: int, timestamp: int) -> tuple[int, int] | None:
        """The first record whose timestamp (ms) is at least this: its offset and timestamp
        (LogSegment.findOffsetByTimestamp)."""
        partition, start = (
            partition_name(topic, number),
            self.leader(topic, number).log_start_offset,
        )
        for batch in self._from(partition, start):
            data = self._data(partition, batch)
            if _max_timestamp(data) < timestamp:
                continue
            decoded, _ = decode_batch(data)
            for record in decoded.records:
                offset = decoded.base_offset + record.offset_delta
                if decoded.timestamp_of(record) >= timestamp and offset >= start:
                    return offset, decoded.timestamp_of(record)
        return None

    def latest(self, topic: str, number: int) -> tuple[int, int] | None:
        """The first record with the largest timestamp: its offset and timestamp."""
        partition, start = (
            partition_name(topic, number),
            self.leader(topic, number).log_start_offset,
        )
        largest = [_max_timestamp(self._data(partition, b)) for b in self._from(partition, start)]
        return self.since(topic, number, max(largest)) if largest else None


def _max_timestamp(data: bytes | bytearray) -> int:
    return int.from_bytes(data[slice(*_MAX_TIMESTAMP_AT)], signed=True)


def _collides(topic: str, other: str) -> bool:
    """Whether two topics have the same name in metrics (Topic.hasCollision)."""
    return topic.replace(".", "_") == other.replace(".", "_")


def _bytes_of(batch: Batch) -> bytes:
    """The bytes of a marker, or of a batch that the cluster itself writes."""
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
