"""The requests to partition leaders: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch,
DeleteRecords, WriteTxnMarkers, DescribeProducers and DescribeLogDirs. The oracle decides about
batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from ....spec.access.acls import CLUSTER_NAME
from ....spec.releases.features import RELEASED
from ...broker.leader import PartitionLeader
from ...cluster import STATE_PARTITIONS, Cluster
from ...records import Flag, RecordBatch, RecordError, decode_batch
from ...wire.listener import LARGEST, LOST, UNANSWERED, Answer, Request, Silence
from ..settings import Settings
from .metadata import Nodes
from .partitions import LEADER_EPOCH, OFFSETS_TOPIC, Partitions, partition_name

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
_NO_SESSION, _NEW_SESSION = -1, 0
"""The session epochs of a Fetch without an existing session (FetchMetadata.isFull)."""
_WRONG_TIMES: Final = "One or more records have been rejected due to invalid timestamp"
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -4, -5, -6
_KNOWN_SINCE: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING: 11,
}
"""The first version of ListOffsets in which each of these special timestamps exists."""
_NEVER: Final = 1 << 15
_ZSTD: Final = 4
_LENGTH_AT, _SHORTEST, _MAGIC_AT, _NEWEST_MAGIC = (8, 12), 14, 16, 2
"""For a batch: the place of its length, the shortest length, the place of its magic byte, and the
newest magic."""
_USES: Final = {
    "Produce": "WRITE", "Fetch": "READ", "ListOffsets": "DESCRIBE", "DescribeProducers": "READ",
    "OffsetForLeaderEpoch": "DESCRIBE", "DeleteRecords": "DELETE",
}  # fmt: skip
"""The operation on topics that each request needs permission for."""
_OF_APIS: Final = frozenset(
    ("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION")
)
"""The errors of Fetch before a log is read (KafkaApis.handleFetchRequest)."""
_UNKNOWN, _NOT_LEADER = "UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"


class LogApis:
    """The answers of partition leaders. `grown` is set when a partition has new data, for waiting
    fetches."""

    def __init__(
        self, cluster: Cluster, nodes: Nodes, partitions: Partitions, settings: Settings
    ) -> None:
        self._cluster, self._nodes, self._partitions = cluster, nodes, partitions
        self._settings = settings
        self._knows_few = RELEASED.index(cluster.protocol) >= RELEASED.index("3.7")
        """Whether min.insync.replicas is limited by the number of replicas
        (Partition.effectiveMinIsr)."""
        self._knows_times = RELEASED.index(cluster.protocol) >= RELEASED.index("3.9")
        """Whether ListOffsets refuses unknown timestamps below 0
        (KafkaApis.handleListOffsetRequestV1AndAbove, ReplicaManager.fetchOffset)."""
        self._lists_none = RELEASED.index(cluster.protocol) >= RELEASED.index("3.0")
        """Whether Fetch has an empty list of aborted transactions, not null, with an error of
        KafkaApis (FetchResponse.partitionResponse)."""
        self.grown = asyncio.Event()
        self.reads_beyond_stable = False
        """A planted bug: read_committed consumers get records beyond the last stable offset."""
        self.answers: Mapping[str, Callable[[Request], Any]] = {
            "Produce": self.produce,
            "Fetch": self.fetch,
            "ListOffsets": self.list_offsets,
            "OffsetForLeaderEpoch": self.offset_for_leader_epoch,
            "DeleteRecords": self.delete_records,
            "WriteTxnMarkers": self.write_markers,
            "DescribeProducers": self.describe_producers,
            "DescribeLogDirs": self.describe_log_dirs,
        }

    def wake(self) -> None:
        """Wakes waiting fetches."""
        self.grown.set()
        self.grown = asyncio.Event()

    def _refusal(self, request: Request, topic: Mapping[str, Any], number: int) -> str | None:
        """The error of a request about a partition, or None: the principal may not use the topic,
        the broker doesn't lead the partition, or the request would write to an internal topic."""
        if self._partitions.is_unknown(topic):
            return "UNKNOWN_TOPIC_ID"
        name = _name(topic)
        if (use := _USES.get(request.name)) is not None:
            error = self._cluster.use_of(request.principal, name, use)
            if error != "NONE":
                return error
        is_change = request.name in ("Produce", "DeleteRecords")
        if is_change and name in self._partitions.internal:
            return "INVALID_TOPIC_EXCEPTION"
        is_there = self._partitions.has(name, number) or (
            name == OFFSETS_TOPIC and not is_change and 0 <= number < STATE_PARTITIONS
        )
        if not is_there:
            return _UNKNOWN
        return None if self._nodes.leader_of(name, number) == request.node else _NOT_LEADER

    # Produce ------------------------------------------------------------------------------------

    def produce(self, request: Request) -> Answer | Silence:
        """Produce. A request with acks=0 gets no answer."""
        body = request.fields
        read = {
            (topic["name"], part["index"]): _batch(part["records"], request.version)
            for topic in body["topic_data"]
            for part in topic["partition_data"]
        }
        refusal = None
        batches = [batch for batch, _ in read.values() if batch is not None]
        if body["acks"] not in (-1, 0, 1):
            refusal = "INVALID_REQUIRED_ACKS"
        elif not body["transactional_id"] and any(map(_is_transactional, batches)):
            refusal = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        else:
            error = self._cluster.may_produce(
                request.principal,
                body["transactional_id"],
                is_transactional=any(map(_is_transactional, batches)),
                is_idempotent=any(batch.producer_id >= 0 for batch in batches),
            )
            refusal = None if error == "NONE" else error
        responses: list[dict[str, Any]] = []
        is_refused = False
        for topic in body["topic_data"]:
            done: list[dict[str, Any]] = []
            for part in topic["partition_data"]:
                place = topic["name"], part["index"]
                batch, error = read[place]
                error = refusal or self._refusal(request, topic, part["index"]) or error
                answer: dict[str, Any] = {"error_code": error}
                if error == "NONE" and batch is not None:
                    answer = self._over_limit(request, place, batch, len(part["records"]))
                if answer["error_code"] == "NONE" and batch is not None:
                    answer = self._append(request, place, batch, part["records"])
                is_refused |= answer["error_code"] != "NONE"
                done.append(
                    {"index": part["index"], "base_offset": -1, "log_append_time": -1, **answer}
                )
            responses.append({**_who(topic), "partition_responses": done})
        self.wake()
        if body["acks"]:
            return Answer({"responses": responses})
        # the closed connection shows the error (KafkaApis.handleProduceRequest)
        return LOST if is_refused else UNANSWERED

    def _over_limit(
        self, request: Request, place: tuple[str, int], batch: RecordBatch, size: int
    ) -> dict[str, Any]:
        """The answer to a batch that exceeds a limit of its topic; NONE without one
        (Partition.appendRecordsToLeader, LogValidator.validateTimestamp)."""
        topic, _ = place
        replicas = len(self._holders(*place))
        least = int(self._settings.topic(topic, "min.insync.replicas"))
        if self._knows_few:
            least = min(least, replicas)
        if request.fields["acks"] == -1 and self._nodes.in_sync(replicas) < least:
            first = self._partitions.leader(*place).log_start_offset
            return {"error_code": "NOT_ENOUGH_REPLICAS", "log_start_offset": first}
        if size > int(self._settings.topic(topic, "max.message.bytes")):
            return {"error_code": "MESSAGE_TOO_LARGE"}
        if wrong := self._wrong_times(topic, batch):
            return {
                "error_code": "INVALID_TIMESTAMP",
                "error_message": _WRONG_TIMES,
                "log_start_offset": self._partitions.leader(*place).log_start_offset,
                "record_errors": [
                    {"batch_index": n, "batch_index_error_message": why} for n, why in wrong
                ],
            }
        return {"error_code": "NONE"}

    def _wrong_times(self, topic: str, batch: RecordBatch) -> list[tuple[int, str]]:
        """The records whose timestamps are too far from the broker's clock, each with a message."""
        limits = self._settings.time_limits(topic)
        if limits is None:
            return []
        first, last = self._cluster.now_ms - limits[0], self._cluster.now_ms + limits[1]
        times = [batch.timestamp_of(record) for record in batch.records]
        return [
            (
                n,
                f"Timestamp {at} of message with offset {n} is out of range. "
                f"The timestamp should be within [{first}, {last}]",
            )
            for n, at in enumerate(times)
            if at != -1 and not first <= at <= last
        ]

    def _append(
        self, request: Request, place: tuple[str, int], batch: RecordBatch, data: bytes
    ) -> dict[str, Any]:
        partition, count = partition_name(*place), batch.last_offset_delta + 1
        leader = self._cluster.leader(partition)
        before = leader.log_end_offset
        if batch.producer_id == -1:
            leader.append_plain(count)
            leader.move_high_watermark(leader.log_end_offset)
            base_offset, error = before, "NONE"
        else:
            answer = self._cluster.produce(
                partition,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                count=count,
                transactional_id=(
                    request.fields["transactional_id"] if _is_transactional(batch) else None
                ),
                api_version=request.version,
            )
            base_offset, error = answer.base_offset, answer.error
        append_time = None
        if leader.log_end_offset > before:
            kind = self._settings.topic(place[0], "message.timestamp.type")
            append_time = self._cluster.now_ms if kind == "LogAppendTime" else None
            self._partitions.keep(partition, before, data, append_time)
        return {
            "error_code": error,
            "base_offset": base_offset,
            "log_start_offset": leader.log_start_offset,
            "log_append_time": -1 if append_time is None else append_time,
        }

    # Fetch --------------------------------------------------------------------------------------

    async def fetch(self, request: Request) -> Answer:
        """Fetch. The answer comes when there are min_bytes, or max_wait is over. There are no
        sessions (FetchManager.newContext)."""
        body = request.fields
        if body.get("session_epoch", _NO_SESSION) not in (_NO_SESSION, _NEW_SESSION):
            return Answer({"error_code": "FETCH_SESSION_ID_NOT_FOUND", "session_id": 0})
        loop = asyncio.get_running_loop()
        until = loop.time() + body["max_wait"] / 1000
        while True:
            responses, size, is_refused = self._fetched(request)
            left = until - loop.time()
            if size >= body["min_bytes"] or is_refused or left <= 0:
                return Answer({"responses": responses, "session_id": 0})
            try:
                async with asyncio.timeout(left):
                    await self.grown.wait()
            except TimeoutError:
                continue

    def _fetched(self, request: Request) -> tuple[list[dict[str, Any]], int, bool]:
        """The answers by topic, their size in bytes, and whether there is an error among them."""
        body, size, is_refused = request.fields, 0, False
        responses: list[dict[str, Any]] = []
        for topic in body["topics"]:
            found: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                most = min(part["partition_max_bytes"], body["max_bytes"] - size)
                error = self._refusal(request, topic, part["partition"]) or _epoch_error(part)
                if error is None:
                    answer = self._read(topic["topic"], part, body["isolation_level"], most, size)
                else:
                    answer = _unread(error)
                    if self._lists_none and error in _OF_APIS:
                        answer["aborted_transactions"] = []
                size += len(answer["records"])
                is_refused |= answer["error_code"] != "NONE"
                found.append(
                    {"partition_index": part["partition"], "preferred_read_replica": -1, **answer}
                )
            responses.append({**_who(topic), "partitions": found})
        return responses, size, is_refused

    def _read(
        self, topic: str, part: Mapping[str, Any], isolation_level: int, most: int, size: int
    ) -> dict[str, Any]:
        number, offset = part["partition"], part["fetch_offset"]
        leader = self._partitions.leader(topic, number)
        if not leader.log_start_offset <= offset <= leader.log_end_offset:
            return _unread("OFFSET_OUT_OF_RANGE")
        answer: dict[str, Any] = {
            "error_code": "NONE",
            "high_watermark": leader.high_watermark,
            "last_stable_offset": leader.stable_offset_for(bool(isolation_level)),
            "log_start_offset": leader.log_start_offset,
            "aborted_transactions": [] if isolation_level else None,
        }
        is_bounded = isolation_level and not self.reads_beyond_stable
        end = leader.last_stable_offset if is_bounded else leader.high_watermark
        read = self._partitions.read(topic, number, offset, end, most, at_least_one=not size)
        answer["records"] = read.data
        if isolation_level and read.data:
            answer["aborted_transactions"] = [
                {"producer_id": txn.producer_id, "first_offset": txn.first_offset}
                for txn in leader.aborted(offset, read.end)
            ]
        return answer

    # Other requests -----------------------------------------------------------------------------

    def list_offsets(self, request: Request) -> Answer:
        """ListOffsets."""
        topics: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            found: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                number = part["partition_index"]
                answer: dict[str, Any] = {
                    "error_code": self._refusal(request, topic, number) or _epoch_error(part),
                    "offset": -1,
                    "timestamp": -1,
                    "leader_epoch": -1,
                }
                if answer["error_code"] is None:
                    is_committed = request.fields.get("isolation_level", 0)
                    answer |= self._offset(
                        topic["name"], number, part["timestamp"], is_committed, request.version
                    )
                found.append({"partition_index": number, **answer})
            topics.append({"name": topic["name"], "partitions": found})
        return Answer({"topics": topics})

    def _offset(
        self, topic: str, number: int, timestamp: int, is_committed: int, version: int
    ) -> dict[str, Any]:
        leader = self._partitions.leader(topic, number)
        is_time = timestamp >= 0 or version < _KNOWN_SINCE.get(timestamp, _NEVER)
        if timestamp < 0 and is_time and self._knows_times:
            return {"error_code": "UNSUPPORTED_VERSION"}
        end = leader.last_stable_offset if is_committed else leader.high_watermark
        answer = {"error_code": "NONE", "offset": -1, "leader_epoch": -1}
        if not is_time and timestamp == LATEST:
            return answer | {"offset": end, "leader_epoch": LEADER_EPOCH}
        if not is_time and timestamp in (EARLIEST, _EARLIEST_LOCAL):
            return answer | {"offset": leader.log_start_offset, "leader_epoch": LEADER_EPOCH}
        if not is_time and timestamp in (_LATEST_TIERED, _EARLIEST_PENDING):
            return answer  # no storage is remote
        if not is_time and timestamp == MAX_TIMESTAMP:
            found = self._partitions.latest(topic, number)
        else:
            found = self._partitions.since(topic, number, timestamp)
        if found is None or found[0] >= end:
            return answer
        return answer | {"offset": found[0], "timestamp": found[1], "leader_epoch": LEADER_EPOCH}

    def offset_for_leader_epoch(self, request: Request) -> Answer:
        """OffsetForLeaderEpoch. All records have the same leader epoch."""
        topics: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            found: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                number = part["partition"]
                error = self._refusal(request, topic, number) or _epoch_error(part)
                answer: dict[str, Any] = {"leader_epoch": -1, "end_offset": -1}
                if error is None and part["leader_epoch"] == LEADER_EPOCH:
                    end = self._partitions.leader(topic["topic"], number).log_end_offset
                    answer = {"leader_epoch": LEADER_EPOCH, "end_offset": end}
                found.append({"partition": number, "error_code": error or "NONE", **answer})
            topics.append({"topic": topic["topic"], "partitions": found})
        return Answer({"topics": topics})

    def delete_records(self, request: Request) -> Answer:
        """DeleteRecords (Partition.deleteRecordsOnLeader)."""
        topics: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            found: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                number, before = part["partition_index"], part["offset"]
                error, low = self._refusal(request, topic, number), -1
                if error is None:
                    leader = self._partitions.leader(topic["name"], number)
                    before = leader.high_watermark if before == -1 else before
                    if not 0 <= before <= leader.high_watermark:
                        error = "OFFSET_OUT_OF_RANGE"
                    else:
                        self._partitions.delete_records(topic["name"], number, before)
                        low = leader.log_start_offset
                found.append(
                    {"partition_index": number, "low_watermark": low, "error_code": error or "NONE"}
                )
            topics.append({"name": topic["name"], "partitions": found})
        return Answer({"topics": topics})

    def describe_log_dirs(self, request: Request) -> Answer:
        """DescribeLogDirs: one directory with the broker's replicas."""
        if not self._cluster.allows(request.principal, "DESCRIBE", "CLUSTER", CLUSTER_NAME):
            return Answer({"error_code": "CLUSTER_AUTHORIZATION_FAILED"})
        body = request.fields["topics"]
        wanted = None if body is None else {each["topic"]: each["partitions"] for each in body}
        topics: list[dict[str, Any]] = []
        for name, count in self._partitions.topics.items():
            numbers = range(count) if wanted is None else wanted.get(name, ())
            found = [
                {"partition_index": number, "partition_size": self._partitions.size(name, number)}
                for number in numbers
                if 0 <= number < count and request.node in self._holders(name, number)
            ]
            if found:
                topics.append({"name": name, "partitions": found})
        return Answer({"results": [{"log_dir": _MEMORY, "topics": topics}]})

    def _holders(self, topic: str, number: int) -> list[int]:
        return self._nodes.replicas_of(topic, number, self._partitions.replicas(topic))

    def write_markers(self, request: Request) -> Answer:
        """WriteTxnMarkers, from any sender that may send it."""
        markers: list[dict[str, Any]] = []
        refusal = self._cluster.may_write_markers(request.principal)
        refused = None if refusal == "NONE" else refusal
        for marker in request.fields["markers"]:
            topics: list[dict[str, Any]] = []
            for topic in marker["topics"]:
                done = [
                    {
                        "partition_index": number,
                        "error_code": refused
                        or self._refusal(request, topic, number)
                        or self._marked(request, marker, partition_name(topic["name"], number)),
                    }
                    for number in topic["partition_indexes"]
                ]
                topics.append({"name": topic["name"], "partitions": done})
            markers.append({"producer_id": marker["producer_id"], "topics": topics})
        self.wake()
        return Answer({"markers": markers})

    def _marked(self, request: Request, marker: Mapping[str, Any], partition: str) -> str:
        return self._cluster.write_marker(
            partition, marker["producer_id"], marker["producer_epoch"],
            "COMMIT" if marker["transaction_result"] else "ABORT", marker["coordinator_epoch"],
            transaction_version=marker.get("transaction_version", 0), api_version=request.version,
        )  # fmt: skip

    def describe_producers(self, request: Request) -> Answer:
        """DescribeProducers."""
        topics: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            found: list[dict[str, Any]] = []
            for number in topic["partition_indexes"]:
                error = self._refusal(request, topic, number)
                leader = self._partitions.leader(topic["name"], number) if error is None else None
                found.append(
                    {
                        "partition_index": number,
                        "error_code": error or "NONE",
                        "active_producers": [] if leader is None else _producers(leader),
                    }
                )
            topics.append({"name": topic["name"], "partitions": found})
        return Answer({"topics": topics})


_MEMORY: Final = "/memory"
"""The name of the log directory."""


def _name(topic: Mapping[str, Any]) -> str:
    """The name of a topic in a request. The key differs between requests."""
    return topic["topic"] if "topic" in topic else topic["name"]


def _who(topic: Mapping[str, Any]) -> dict[str, Any]:
    """The topic's name, id or both in an answer, as in its request."""
    keys = ("name", "topic", "topic_id")
    return {key: topic[key] for key in keys if key in topic}


def _unread(error: str) -> dict[str, Any]:
    """The fetch result of a partition with an error (ReplicaManager.createLogReadResult)."""
    nothing = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1}
    return {"error_code": error, **nothing, "records": b"", "aborted_transactions": None}


def _epoch_error(part: Mapping[str, Any]) -> str | None:
    """The error of a client with another leader epoch, or None
    (Partition.checkCurrentLeaderEpoch)."""
    given = part.get("current_leader_epoch", -1)
    if given > LEADER_EPOCH:
        return "UNKNOWN_LEADER_EPOCH"
    return "FENCED_LEADER_EPOCH" if 0 <= given < LEADER_EPOCH else None


def _is_transactional(batch: RecordBatch) -> bool:
    return Flag.TRANSACTIONAL in batch.flags


def _batch(data: bytes | None, version: int) -> tuple[RecordBatch | None, str]:
    """The only batch of a partition, or None with an error (ProduceRequest.validateRecords,
    LogValidator)."""
    if not data:
        return None, "INVALID_RECORD"
    if (wrong := _framing_error(data)) is not None:
        return None, wrong
    try:
        batch, end = decode_batch(data, limit=LARGEST)
    except RecordError as error:
        return None, "INVALID_RECORD" if error.field == "magic" else "CORRUPT_MESSAGE"
    if batch.codec == _ZSTD and version < 7:
        return None, "UNSUPPORTED_COMPRESSION_TYPE"
    is_whole = batch.records and len(batch.records) == batch.last_offset_delta + 1
    if end != len(data) or Flag.CONTROL in batch.flags or not is_whole:
        return None, "INVALID_RECORD"
    if _is_transactional(batch) and batch.producer_id == -1:
        return None, "INVALID_RECORD"
    return batch, "NONE"


def _framing_error(data: bytes) -> str | None:
    """The error of bytes that don't begin with a complete batch, or None
    (ByteBufferLogInputStream.nextBatchSize)."""
    if len(data) < _LENGTH_AT[1]:
        return "INVALID_RECORD"
    length = int.from_bytes(data[slice(*_LENGTH_AT)], signed=True)
    if length < _SHORTEST:
        return "CORRUPT_MESSAGE"
    if len(data) <= _MAGIC_AT:
        return "INVALID_RECORD"
    if not 0 <= int.from_bytes(data[_MAGIC_AT : _MAGIC_AT + 1], signed=True) <= _NEWEST_MAGIC:
        return "CORRUPT_MESSAGE"
    return "INVALID_RECORD" if len(data) < _LENGTH_AT[1] + length else None


def _producers(leader: PartitionLeader) -> list[dict[str, Any]]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": (
                entry.batch_metadata[-1].last_sequence if entry.batch_metadata else -1
            ),
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": (
                -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
            ),
        }
        for producer_id, entry in leader.producers.items()
    ]
