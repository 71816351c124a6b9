"""Record batches, message format 2: the header with its producer fields, and the records inside.

Source: DefaultRecordBatch, DefaultRecord.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from enum import IntFlag

from crc32c import crc32c
from kio.serial.errors import SerialError
from kio.serial.readers import read_int8, read_signed_varint, read_signed_varlong
from kio.serial.writers import write_int8, write_signed_varint, write_signed_varlong
from kio.static.primitive import i8, i32, i64, svarint, svarlong

from .codec.codec import LIMIT, decode, encode, read
from .codec.compression import TooLargeError, codec_name, compress, decompress
from .codec.errors import RecordError
from .codec.stream import Stream
from .layouts.schema import BatchHeader

MAGIC = 2
RECORD_SIZE = 512  # the memory in bytes of a record without key and value
HEADER_ENTRY_SIZE = 256  # the memory in bytes of a header
COMPRESSION = 0b111  # bits of the attributes for the compression of the records


class Flag(IntFlag):
    """The other bits of a batch's attributes."""

    LOG_APPEND_TIME = 1 << 3
    TRANSACTIONAL = 1 << 4
    CONTROL = 1 << 5
    DELETE_HORIZON = 1 << 6


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record. `offset_delta` and `timestamp_delta` are relative to its batch's base.

    `places` are the byte offsets of a decoded record, its key and its value among its batch's
    records. They aren't part of the record.
    """

    offset_delta: int
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    attributes: int = 0
    places: tuple[int, int, int] = field(default=(0, 0, 0), compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """A batch, without fields that follow from its content: lengths, counts and the CRC.

    -1 means no producer, epoch, sequence or timestamp. `last_offset_delta` may be above that of the
    last record, because compaction may have removed records.
    """

    base_offset: int
    records: tuple[Record, ...]
    last_offset_delta: int
    partition_leader_epoch: int = -1
    attributes: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def codec(self) -> int:
        """The number of the compression codec; 0: none."""
        return self.attributes & COMPRESSION

    @property
    def flags(self) -> Flag:
        """The other attributes."""
        return Flag(self.attributes & sum(Flag))

    def timestamp_of(self, record: Record) -> int:
        """The record's creation or append time in ms."""
        if Flag.LOG_APPEND_TIME in self.flags:
            return self.max_timestamp
        return self.base_timestamp + record.timestamp_delta


def _header(batch: RecordBatch, batch_length: int, crc: int) -> BatchHeader:
    return BatchHeader(
        base_offset=batch.base_offset,
        batch_length=batch_length,
        partition_leader_epoch=batch.partition_leader_epoch,
        magic=MAGIC,
        crc=crc,
        attributes=batch.attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records_count=len(batch.records),
    )


_EMPTY = RecordBatch(base_offset=0, records=(), last_offset_delta=0)
HEADER_SIZE = len(encode(_header(_EMPTY, 0, 0)))
LENGTH_END = 12  # base offset and length; the length counts the bytes after it
CRC_END = 21  # the CRC covers the bytes after it
SMALLEST = HEADER_SIZE - LENGTH_END


def encode_batch(batch: RecordBatch) -> bytes:
    """The batch's bytes, with lengths and CRC.

    Raises RecordError for a number out of range or a compression type that doesn't exist.
    """
    plain = io.BytesIO()
    for record in batch.records:
        body = _encode_record(record)
        write_signed_varint(plain, svarint(len(body)))
        plain.write(body)
    try:
        records = compress(batch.codec, plain.getvalue())
    except ValueError as error:
        raise RecordError("attributes", str(error)) from None
    length = SMALLEST + len(records)
    counted = encode(_header(batch, length, 0))[CRC_END:] + records
    return encode(_header(batch, length, crc32c(counted)))[:CRC_END] + counted


def _encode_record(record: Record) -> bytes:
    body = io.BytesIO()
    try:
        write_int8(body, i8(record.attributes))
        write_signed_varlong(body, svarlong(i64(record.timestamp_delta)))
        write_signed_varint(body, svarint(i32(record.offset_delta)))
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        write_signed_varint(body, svarint(len(record.headers)))
        for name, value in record.headers:
            _write_bytes(body, name.encode())
            _write_bytes(body, value)
    except (SerialError, TypeError, ValueError) as error:
        raise RecordError(f"record {record.offset_delta}", str(error)) from None
    return body.getvalue()


def _write_bytes(body: io.BytesIO, data: bytes | None) -> None:
    write_signed_varint(body, svarint(-1 if data is None else len(data)))
    body.write(data or b"")


def decode_batch(data: bytes, at: int = 0, limit: int = LIMIT) -> tuple[RecordBatch, int]:
    """The batch at byte offset `at`, and the offset after it. `limit` bounds its size in bytes:
    encoded, decompressed, and in memory.

    Raises RecordError if a length, the CRC, the message format or a record is wrong, or if the
    batch is larger.
    """
    file = io.BytesIO(data)
    file.seek(at)
    stream = Stream(file)
    stream.at = at
    framed = read_frame(stream, limit)
    return decode_framed(framed, at, limit), stream.at


class BatchTooLargeError(RecordError):
    """A batch is larger than the limit. The bytes after it can be read."""

    def __init__(self, field: str, what: str, limit: int, at: int) -> None:
        super().__init__(field, f"{what} more than the limit of {limit / 2**20:,g} MiB", at)


def read_frame(stream: Stream, limit: int = LIMIT) -> bytearray:
    """The bytes of the next batch in a log. Only its length is checked.

    Raises RecordError if the length is impossible, or the file ends before. Raises
    BatchTooLargeError for a batch above the limit, after skipping it.
    """
    start = stream.at
    head = stream.take(LENGTH_END, "base_offset and batch_length")
    length = int.from_bytes(head[8:], signed=True)
    if length < SMALLEST:
        reason = f"{length} bytes, where the rest of a header alone has {SMALLEST}"
        raise RecordError("batch_length", reason, start + 8)
    fits = length <= limit
    rest = stream.read(length) if fits else bytearray()
    there = len(rest) if fits else stream.skip(length)
    if there < length:
        reason = f"{length} bytes, where {there} are left in the file"
        raise RecordError("batch_length", reason, start + 8)
    if not fits:
        raise BatchTooLargeError("batch_length", f"{length} bytes are", limit, start + 8)
    rest[:0] = head
    return rest


def decode_framed(framed: bytes | bytearray, start: int = 0, limit: int = LIMIT) -> RecordBatch:
    """The batch in these bytes. `start` is their offset, for errors.

    Raises RecordError if the CRC, the message format or a record is wrong, and BatchTooLargeError
    if the records are larger than `limit`.
    """
    data = memoryview(framed).toreadonly()
    header = decode(BatchHeader, bytes(data[:HEADER_SIZE]))
    found, at = header.entity, header.at
    if found.magic != MAGIC:
        reason = f"message format {found.magic} is not decoded, {MAGIC} is"
        raise RecordError("magic", reason, start + at["magic"])
    computed = crc32c(data[CRC_END:])
    if computed != found.crc:
        reason = f"it is {found.crc:#010x}, but {computed:#010x} fits the batch"
        raise RecordError("crc", reason, start + at["crc"])
    codec = found.attributes & COMPRESSION
    try:
        codec_name(codec)
    except ValueError as error:
        raise RecordError("attributes", str(error), start + at["attributes"]) from None
    count = found.records_count
    if count * RECORD_SIZE > limit:
        raise BatchTooLargeError(
            "records_count", f"{count} records take", limit, start + at["records_count"]
        )
    try:
        plain = decompress(codec, data[HEADER_SIZE:], limit)
    except TooLargeError:
        what = "decompressed, they are"
        raise BatchTooLargeError("records", what, limit, start + HEADER_SIZE) from None
    except ValueError as error:
        raise RecordError("records", str(error), start + HEADER_SIZE) from None
    if not 0 <= count <= len(plain):
        reason = f"{count} records in {len(plain)} bytes"
        raise RecordError("records_count", reason, start + at["records_count"])
    try:
        records = _decode_records(plain, count, limit - count * RECORD_SIZE)
    except _TooManyHeadersError:
        what = "the headers of its records take"
        raise BatchTooLargeError("headers", what, limit, start + HEADER_SIZE) from None
    except RecordError as error:
        if codec == 0:
            raise error.within(start + HEADER_SIZE) from None
        # An offset in decompressed data isn't one in the file.
        reason = f"{error.reason} (byte {error.at} of what was decompressed)"
        raise RecordError(error.field, reason, start + HEADER_SIZE) from None
    return RecordBatch(
        base_offset=found.base_offset,
        records=records,
        last_offset_delta=found.last_offset_delta,
        partition_leader_epoch=found.partition_leader_epoch,
        attributes=found.attributes,
        base_timestamp=found.base_timestamp,
        max_timestamp=found.max_timestamp,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=found.base_sequence,
    )


class _TooManyHeadersError(Exception):
    """The headers need more memory than allowed."""


def _decode_records(data: memoryview, count: int, room: int) -> tuple[Record, ...]:
    """The records. `room` bounds the bytes of their headers in memory. Raises RecordError,
    _TooManyHeadersError."""
    records: list[Record] = []
    at = 0
    for index in range(count):
        where = f"record {index + 1} of {count}"
        start = at
        length, at = read(read_signed_varint, data, at, where)
        if not 0 <= length <= len(data) - at:
            reason = f"{length} bytes, where {len(data) - at} are left in the batch"
            raise RecordError(where, reason, start)
        end = at + length
        try:
            records.append(_decode_record(data[at:end], start, at, room))
            room -= len(records[-1].headers) * HEADER_ENTRY_SIZE
        except RecordError as error:
            raise error.within(at, f"{where}, ") from None
        at = end
    if at != len(data):
        raise RecordError("records", f"{len(data) - at} bytes behind the last one", at)
    return tuple(records)


def _decode_record(data: memoryview, place: int, base: int, room: int) -> Record:
    """The record in these bytes. `place` is the offset of its length, `base` that of the bytes,
    `room` the bound of its headers' bytes in memory."""
    attributes, at = read(read_int8, data, 0, "attributes")
    timestamp_delta, at = read(read_signed_varlong, data, at, "timestamp_delta")
    offset_delta, at = read(read_signed_varint, data, at, "offset_delta")
    key, value_at = _read_bytes(data, at, "key")
    value, at = _read_bytes(data, value_at, "value")
    places = (place, base + value_at - len(key or b""), base + at - len(value or b""))
    start = at
    count, at = read(read_signed_varint, data, at, "headers")
    if not 0 <= count <= len(data) - at:
        reason = f"{count} headers, where {len(data) - at} bytes are left in the record"
        raise RecordError("headers", reason, start)
    if count * HEADER_ENTRY_SIZE > room:
        raise _TooManyHeadersError
    headers: list[tuple[str, bytes | None]] = []
    for index in range(count):
        start = at
        name, at = _read_bytes(data, at, f"header {index + 1}, key")
        if name is None:
            raise RecordError(f"header {index + 1}, key", "is null", start)
        try:
            text = name.decode()
        except UnicodeDecodeError as error:
            reason = f"no UTF-8: {error.reason}"
            raise RecordError(f"header {index + 1}, key", reason, start) from None
        content, at = _read_bytes(data, at, f"header {index + 1}, value")
        headers.append((text, content))
    if at != len(data):
        raise RecordError("length", f"{len(data) - at} bytes behind the last header", at)
    return Record(
        offset_delta=offset_delta,
        timestamp_delta=timestamp_delta,
        key=key,
        value=value,
        headers=tuple(headers),
        attributes=attributes,
        places=places,
    )


def _read_bytes(data: memoryview, at: int, field: str) -> tuple[bytes | None, int]:
    start = at
    length, at = read(read_signed_varint, data, at, field)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        reason = f"{length} bytes, where {len(data) - at} are left in the record"
        raise RecordError(field, reason, start)
    return bytes(data[at : at + length]), at + length
