"""Transaction indexes: the aborted transactions of a segment, in a `.txnindex` file.

Source: TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from kio.serial.readers import read_int16

from .codec.codec import decode, encode, read
from .codec.errors import RecordError
from .codec.stream import Stream
from .layouts.schema import AbortedTransaction

VERSION = 0
_ENTRY_SIZE = 2 + len(
    encode(AbortedTransaction(producer_id=0, first_offset=0, last_offset=0, last_stable_offset=0))
)


def encode_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of an index. Raises RecordError for a number out of range."""
    return b"".join(VERSION.to_bytes(2) + encode(entry) for entry in entries)


def decode_index(data: bytes) -> tuple[AbortedTransaction, ...]:
    """The entries of an index. Raises RecordError if bytes or version are wrong."""
    return tuple(entry for _, entry in read_index(Stream(io.BytesIO(data))))


def read_index(stream: Stream) -> Iterator[tuple[int, AbortedTransaction]]:
    """The entries of an index while it is read, each with its offset in the file.

    Raises RecordError after the last readable entry.
    """
    while not stream.ended:
        at = stream.at
        data = stream.take(_ENTRY_SIZE, "entry")
        version, start = read(read_int16, data, 0, "version")
        if version != VERSION:
            raise RecordError("version", f"{version} is not known, {VERSION} is", at)
        yield at, decode(AbortedTransaction, data, start).entity
