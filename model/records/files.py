"""Decodes a broker's files while they are read: rows, and an error in the place of a row that can't
be read.

These are log segments (with decoded records for `__transaction_state`, `__consumer_offsets` and
`__cluster_metadata`), producer state snapshots and transaction indexes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from .batch import (
    HEADER_SIZE,
    LIMIT,
    BatchTooLargeError,
    Flag,
    Record,
    RecordBatch,
    decode_framed,
    read_frame,
)
from .codec.compression import codec_name
from .codec.errors import RecordError
from .codec.stream import Stream
from .control import NAMES, decode_control_type, decode_marker
from .metadata_log import decode_metadata
from .offsets_log import decode_group_key, decode_group_value, plain
from .snapshot import read_snapshot
from .transaction_index import read_index
from .transaction_log import decode_key, decode_value


class Kind(Enum):
    """The kinds of files."""

    LOG = "log"
    TRANSACTION_LOG = "transaction-log"
    OFFSETS_LOG = "offsets-log"
    METADATA_LOG = "metadata-log"
    SNAPSHOT = "snapshot"
    TRANSACTION_INDEX = "transaction-index"


@dataclass(frozen=True)
class Row:
    """A decoded row: its kind, the offset of its first byte in the file, and its fields.

    Rows of a compressed batch have the offset of the batch's records.
    """

    byte: int
    what: str
    fields: dict[str, Any]


_TOPICS = {
    "__transaction_state": Kind.TRANSACTION_LOG,
    "__consumer_offsets": Kind.OFFSETS_LOG,
    "__cluster_metadata": Kind.METADATA_LOG,
}


def kind_of(path: Path) -> Kind:
    """The kind of a file with this name on a broker's disk.

    Raises ValueError for an unknown name.
    """
    match path.suffix:
        case ".checkpoint":  # a snapshot of the metadata log
            return Kind.METADATA_LOG
        case ".log":
            partition = re.fullmatch(r"(\w+)-\d+", path.absolute().parent.name)
            return _TOPICS.get(partition[1] if partition else "", Kind.LOG)
        case ".snapshot":
            return Kind.SNAPSHOT
        case ".txnindex":
            return Kind.TRANSACTION_INDEX
        case _:
            raise ValueError(
                f"{path}: its name doesn't end in .log, .checkpoint, .snapshot or .txnindex"
            )


def files_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files below a broker's folder that can be decoded, and the other files."""
    known: list[Path] = []
    others: list[Path] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            kind_of(path)
        except ValueError:
            others.append(path)
        else:
            known.append(path)
    return known, others


def read_file(
    path: Path, kind: Kind | None = None, limit: int = LIMIT
) -> Iterator[Row | RecordError]:
    """The rows of a file in order, with one batch or entry in memory at a time. `path` may also be
    a pipe or device.

    An error is returned in the place of its row. A batch with wrong content, or larger than `limit`
    (see `decode_batch`), is skipped. After an impossible length nothing more is read. `kind`
    overrides the kind by name. Raises ValueError for an unknown name, OSError for a file that can't
    be read.
    """
    chosen = kind or kind_of(path)
    with path.open("rb") as file:
        yield from read_stream(file, chosen, limit)


def read_stream(file: BinaryIO, kind: Kind, limit: int = LIMIT) -> Iterator[Row | RecordError]:
    """The rows of an open file, as in `read_file`."""
    stream = Stream(file)
    try:
        if kind is Kind.SNAPSHOT:
            yield from _snapshot(stream)
        elif kind is Kind.TRANSACTION_INDEX:
            yield from _index(stream)
        else:
            yield from _log(stream, _MEANINGS[kind], limit)
    except RecordError as error:
        yield error


def _snapshot(stream: Stream) -> Iterator[Row]:
    for at, entry in read_snapshot(stream):
        yield Row(at, "producer", asdict(entry))


def _index(stream: Stream) -> Iterator[Row]:
    for at, entry in read_index(stream):
        yield Row(at, "aborted", asdict(entry))


Meaning = Callable[[RecordBatch, Record], "tuple[str, dict[str, Any]]"]


def _log(stream: Stream, meaning: Meaning, limit: int) -> Iterator[Row | RecordError]:
    while not stream.ended:
        start = stream.at
        try:
            framed = read_frame(stream, limit)
        except BatchTooLargeError as error:
            yield error
            continue
        try:
            batch = decode_framed(framed, start, limit)
        except RecordError as error:
            yield error
            continue
        finally:
            del framed  # the data may be large, and its records are copies
        yield Row(start, "batch", _fields(batch))
        for record in batch.records:
            yield _row(batch, record, start + HEADER_SIZE, meaning)


def _row(batch: RecordBatch, record: Record, base: int, meaning: Meaning) -> Row | RecordError:
    fields: dict[str, Any] = {
        "offset": batch.base_offset + record.offset_delta,
        "timestamp": batch.timestamp_of(record),
    }
    plain = batch.codec == 0
    try:
        if Flag.CONTROL in batch.flags:
            what, more = _control(batch, record)
        else:
            what, more = meaning(batch, record)
    except RecordError as error:
        where = f"offset {fields['offset']}, "
        return error.within(base, where) if plain else RecordError(where, str(error), base)
    return Row(base + (record.places[0] if plain else 0), what, fields | more)


def _fields(batch: RecordBatch) -> dict[str, Any]:
    return {
        "offset": batch.base_offset,
        "last_offset": batch.base_offset + batch.last_offset_delta,
        "records": len(batch.records),
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": Flag.TRANSACTIONAL in batch.flags,
        "control": Flag.CONTROL in batch.flags,
        "compression": codec_name(batch.codec),
        "partition_leader_epoch": batch.partition_leader_epoch,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
    }


def _control(batch: RecordBatch, record: Record) -> tuple[str, dict[str, Any]]:
    _, key_at, value_at = record.places
    with _Placed(key_at, "key, "):
        number = decode_control_type(record.key or b"")
    producer = {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
    if number not in NAMES:
        return "control", {"type": number, **producer, "value": record.value}
    with _Placed(value_at, "value, "):
        marker = decode_marker(NAMES[number], record.value or b"")
    return "marker", {"result": NAMES[number], **producer, **asdict(marker)}


def _plain(batch: RecordBatch, record: Record) -> tuple[str, dict[str, Any]]:
    headers = {"headers": record.headers} if record.headers else {}
    return "record", {"key": record.key, "value": record.value, **headers}


def _transaction(batch: RecordBatch, record: Record) -> tuple[str, dict[str, Any]]:
    _, key_at, value_at = record.places
    with _Placed(key_at, "key, "):
        fields: dict[str, Any] = {"transactional_id": decode_key(record.key or b"")}
    if record.value is None:
        return "tombstone", fields
    with _Placed(value_at, "value, "):
        found = decode_value(record.value)
    value = found.value
    fields |= {
        "state": found.state,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "partitions": found.partitions,
        "transaction_timeout_ms": value.transaction_timeout_ms,
        "transaction_start_timestamp_ms": value.transaction_start_timestamp_ms,
        "transaction_last_update_timestamp_ms": value.transaction_last_update_timestamp_ms,
        "previous_producer_id": value.previous_producer_id,
        "next_producer_id": value.next_producer_id,
        "client_transaction_version": value.client_transaction_version,
        "version": found.version,
    }
    if found.unknown_tags:
        fields["unknown_tags"] = [asdict(tag) for tag in found.unknown_tags]
    return "transaction", fields


_OWN_NAMES = {"offset": "committed_offset", "version": "metadata_version", "timestamp": "found_at"}
"""New names for fields of a group's values that a record also has."""
_GROUP_ROWS = {
    "LEGACY_OFFSET_COMMIT": "offset",
    "OFFSET_COMMIT": "offset",
    "GROUP_METADATA": "group",
}


def _group(batch: RecordBatch, record: Record) -> tuple[str, dict[str, Any]]:
    _, key_at, value_at = record.places
    with _Placed(key_at, "key, "):
        kind, key = decode_group_key(record.key or b"")
    fields: dict[str, Any] = {"type": kind.name, **plain(key)}
    if record.value is None:
        return "tombstone", fields
    with _Placed(value_at, "value, "):
        found = decode_group_value(kind, record.value)
    value = {_OWN_NAMES.get(name, name): each for name, each in plain(found.value).items()}
    fields |= {**value, "version": found.version}
    if found.unknown_tags:
        fields["unknown_tags"] = [asdict(tag) for tag in found.unknown_tags]
    return _GROUP_ROWS.get(kind.name, "group record"), fields


def _metadata(batch: RecordBatch, record: Record) -> tuple[str, dict[str, Any]]:
    _, _, value_at = record.places
    with _Placed(value_at, "value, "):
        return "metadata", decode_metadata(record.value or b"")


class _Placed:
    """Adds the place of the decoded part to errors in the block."""

    def __init__(self, at: int, path: str) -> None:
        self.at, self.path = at, path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RecordError):
            raise error.within(self.at, self.path) from None


_MEANINGS = {
    Kind.LOG: _plain,
    Kind.TRANSACTION_LOG: _transaction,
    Kind.OFFSETS_LOG: _group,
    Kind.METADATA_LOG: _metadata,
}
