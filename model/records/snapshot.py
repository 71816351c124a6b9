"""Producer state snapshots: a partition's producers, in a `.snapshot` file.

Source: ProducerStateManager.writeSnapshot and readSnapshot, ProducerSnapshot.json.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from crc32c import crc32c
from kio.serial.readers import read_int16

from .codec.codec import decode, encode, read
from .codec.errors import RecordError
from .codec.stream import Stream
from .layouts.schema import ProducerEntry, SnapshotHeader

VERSION = 1
_VERSION_SIZE = 2
_CRC_SIZE = 4
_HEADER_SIZE = len(encode(SnapshotHeader(crc=0, entries=0)))
_ENTRY_SIZE = len(
    encode(
        ProducerEntry(
            producer_id=0, epoch=0, last_sequence=0, last_offset=0, offset_delta=0, timestamp=0,
            coordinator_epoch=0, current_txn_first_offset=0,
        )
    )
)  # fmt: skip


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot, version 1. Raises RecordError for a number out of range."""
    written = [encode(entry) for entry in entries]
    body = len(written).to_bytes(4) + b"".join(written)
    header = encode(SnapshotHeader(crc=crc32c(body), entries=len(written)))
    return VERSION.to_bytes(_VERSION_SIZE) + header + body[4:]


def decode_snapshot(data: bytes) -> tuple[ProducerEntry, ...]:
    """The entries of a snapshot. Raises RecordError if bytes, version or CRC are wrong."""
    return tuple(entry for _, entry in read_snapshot(Stream(io.BytesIO(data))))


def read_snapshot(stream: Stream) -> Iterator[tuple[int, ProducerEntry]]:
    """The entries of a snapshot while it is read, each with its offset in the file.

    Raises RecordError after the last readable entry. The CRC is checked at the end; if it is wrong,
    every entry may be wrong.
    """
    version, _ = read(read_int16, stream.take(_VERSION_SIZE, "version"), 0, "version")
    if version != VERSION:
        raise RecordError("version", f"{version} is not known, {VERSION} is", 0)
    head = stream.take(_HEADER_SIZE, "crc and number of entries")
    header = decode(SnapshotHeader, head).entity
    computed = crc32c(head[_CRC_SIZE:])
    for index in range(header.entries):
        at = stream.at
        data = stream.take(_ENTRY_SIZE, f"entry {index + 1} of {header.entries}")
        computed = crc32c(data, computed)
        yield at, decode(ProducerEntry, data).entity
    if header.entries < 0:
        raise RecordError("number of entries", f"{header.entries}", _VERSION_SIZE + _CRC_SIZE)
    end = stream.at
    if behind := stream.skip():
        raise RecordError("number of entries", f"{behind} bytes behind the last entry", end)
    if computed != header.crc:
        reason = f"it is {header.crc:#010x}, but {computed:#010x} fits the entries"
        raise RecordError("crc", reason, _VERSION_SIZE)
