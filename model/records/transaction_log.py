"""Records of `__transaction_state`: a transaction coordinator's entries.

A key has the transactional id, a value its producer, state and partitions. A missing value (a
tombstone) removes the entry. Source: TransactionLog, TransactionLogKey.json,
TransactionLogValue.json.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kio.serial.readers import read_int16
from kio.static.protocol import Entity

from ...spec.coordinator.entry import EMPTY, TransactionState
from ...spec.releases.features import KAFKA, rotation_in_log, transaction_version_2
from .codec.codec import UnknownTag, decode, encode, read, shapes
from .codec.errors import RecordError
from .layouts.schema import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionLogValueV0,
    TransactionPartitions,
)

KEY_VERSION = 0
VALUES: tuple[type[Entity], ...] = (TransactionLogValueV0, TransactionLogValue)
STATES = {status: name for name, status in TransactionState.members}


class UnknownVersionError(RecordError):
    """A key or a value has an unknown version. Kafka skips such a record."""

    def __init__(self, what: str, version: int) -> None:
        self.version = version
        super().__init__("version", f"no {what} of version {version} is known", 0)


@dataclass(frozen=True)
class DecodedValue:
    """A value, its version, and its undeclared tagged fields."""

    version: int
    value: TransactionLogValue
    unknown_tags: tuple[UnknownTag, ...] = ()

    @property
    def state(self) -> str:
        """The state's name in the protocol's tables."""
        return STATES[self.value.transaction_status]

    @property
    def partitions(self) -> tuple[str, ...]:
        """The transaction's partitions in Kafka's form topic-number, sorted by name; empty in the
        state Empty."""
        if self.state == EMPTY.data.member:
            return ()
        topics = self.value.transaction_partitions or ()
        return tuple(sorted(f"{t.topic}-{number}" for t in topics for number in t.partition_ids))


def encode_key(transactional_id: str) -> bytes:
    """The bytes of a transactional id's key. Raises RecordError if the id is too long."""
    return _versioned(KEY_VERSION, encode(TransactionLogKey(transactional_id=transactional_id)))


def decode_key(data: bytes) -> str:
    """The transactional id of a key. Raises UnknownVersionError, and RecordError for wrong
    bytes."""
    version, start = read(read_int16, data, 0, "version")
    if version != KEY_VERSION:
        raise UnknownVersionError("key", version)
    return decode(TransactionLogKey, data, start).entity.transactional_id


def encode_value(value: TransactionLogValue, version: int = 1) -> bytes:
    """The bytes of a value. Raises RecordError for a number out of range, and for a field that this
    version lacks if it isn't the default."""
    if version not in range(len(VALUES)):
        raise RecordError("version", f"{version} is not in 0..{len(VALUES) - 1}")
    kind = VALUES[version]
    known = dict(shapes(kind))
    for field in dataclasses.fields(value):
        if field.name not in known and getattr(value, field.name) != field.default:
            raise RecordError(field.name, f"version {version} has no room for it")
    return _versioned(version, encode(value, kind))


def decode_value(data: bytes) -> DecodedValue:
    """A value of version 0 or 1. Bytes after it are ignored, as in Kafka.

    Raises UnknownVersionError, and RecordError for wrong bytes and for an unknown status.
    """
    version, start = read(read_int16, data, 0, "version")
    if version not in range(len(VALUES)):
        raise UnknownVersionError("value", version)
    decoded = decode(VALUES[version], data, start)
    values = {name: getattr(decoded.entity, name) for name, _ in shapes(VALUES[version])}
    topics = values["transaction_partitions"]
    if topics is not None:
        values["transaction_partitions"] = tuple(
            TransactionPartitions(topic=t.topic, partition_ids=t.partition_ids) for t in topics
        )
    value = TransactionLogValue(**values)
    if value.transaction_status not in STATES:
        reason = f"{value.transaction_status} is not a transaction state"
        raise RecordError("transaction_status", reason, decoded.at["transaction_status"])
    return DecodedValue(version, value, decoded.unknown_tags)


def encode_as_coordinator(
    *, state: str, partitions: Iterable[tuple[str, int]], producer_id: int, producer_epoch: int,
    timeout_ms: int, last_update_ms: int, start_ms: int, previous_producer_id: int = -1,
    next_producer_id: int = -1, client_transaction_version: int = 0,
    transaction_version: int = 2, protocol: str | None = None,
) -> bytes:  # fmt: skip
    """The bytes of a value as a coordinator writes them. `protocol` is the release (default: the
    newest), `transaction_version` the finalized level of `transaction.version`.

    Raises ValueError for partitions in the state Empty, RecordError as `encode_value`, and
    DeclarationError for an unknown release. Source: TransactionLog.valueToBytes.
    """
    features = KAFKA.features_at(protocol or KAFKA.newest)
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    empty = state == EMPTY.data.member
    if empty and by_topic:
        raise ValueError("a transaction that is Empty has no partitions")
    tagged: dict[str, int] = {}
    if KAFKA.holds(rotation_in_log, features):
        tagged |= {
            "previous_producer_id": previous_producer_id,
            "next_producer_id": next_producer_id,
        }
    if KAFKA.holds(transaction_version_2, features):
        tagged["client_transaction_version"] = client_transaction_version
    topics = tuple(
        TransactionPartitions(topic=topic, partition_ids=tuple(numbers))
        for topic, numbers in by_topic.items()
    )
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=dict(TransactionState.members)[state],
        transaction_partitions=None if empty else topics,
        transaction_last_update_timestamp_ms=last_update_ms,
        transaction_start_timestamp_ms=start_ms,
        **tagged,
    )
    return encode_value(value, min(transaction_version, 1))


def _versioned(version: int, body: bytes) -> bytes:
    return version.to_bytes(2) + body


# Kafka's text forms -------------------------------------------------------------------------------


def state_text(state: str) -> str:
    """Kafka's name of a state: PrepareCommit for PREPARE_COMMIT."""
    return "".join(word.capitalize() for word in state.split("_"))


def dump_text(key: bytes, value: bytes | None) -> tuple[str, str | None]:
    """Key and value as in Kafka's dump of log segments (TransactionLog.formatRecordKeyAndValue).
    Partitions are sorted by name.

    Raises RecordError for wrong bytes.
    """
    try:
        transactional_id = decode_key(key)
    except UnknownVersionError as unknown:
        return f"unknown::version={unknown.version}", None
    shown = f"transaction_metadata::transactionalId={transactional_id}"
    if value is None:
        return shown, "<DELETE>"
    found = decode_value(value)
    fields = found.value
    return shown, (
        f"producerId:{fields.producer_id},producerEpoch:{fields.producer_epoch},"
        f"state={state_text(found.state)},partitions=[{','.join(found.partitions)}],"
        f"txnLastUpdateTimestamp={fields.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={fields.transaction_timeout_ms}"
    )


def as_json(data: bytes | None, kinds: Mapping[int, type[Entity]]) -> dict[str, Any] | None:
    """A key or a value as Kafka's console consumer prints it (TransactionLogMessageFormatter).
    Tagged fields with their default are left out. `kinds` are KEY_KINDS or VALUE_KINDS.

    Raises RecordError for wrong bytes.
    """
    if data is None:
        return None
    version, start = read(read_int16, data, 0, "version")
    if version not in kinds:
        return {"version": version, "data": "unknown"}
    kind = kinds[version]
    return {"version": version, "data": _plain(kind, decode(kind, data, start).entity)}


KEY_KINDS: Mapping[int, type[Entity]] = {KEY_VERSION: TransactionLogKey}
VALUE_KINDS: Mapping[int, type[Entity]] = dict(enumerate(VALUES))


def _plain(kind: type[Entity], entity: Entity) -> dict[str, Any]:
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    found: dict[str, Any] = {}
    for name, shape in shapes(kind):
        value: Any = getattr(entity, name)
        if shape.tag is not None and value == defaults[name]:
            continue
        if shape.array and value is not None:
            items: Iterable[Any] = value
            inner = shape.entity
            value = [item if inner is None else _plain(inner, item) for item in items]
        first, *rest = name.split("_")
        found[first + "".join(map(str.capitalize, rest))] = value
    return found
