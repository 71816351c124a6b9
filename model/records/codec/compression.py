"""The compression of a batch's records, by its number in the batch's attributes.

Data is decompressed into a buffer of a fixed size, so claimed sizes don't matter.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, TypeAlias

import cramjam

Codec: TypeAlias = "tuple[str, Callable[[bytes], bytes], Callable[[Any, Any], int]]"

# Kafka's Java client frames snappy in blocks: this header, two versions, then length and block.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + (1).to_bytes(4) * 2
_FULL = "failed to write whole buffer"  # cramjam's message if the buffer is too small
_MOST = (1 << 31) - 1  # the largest array in Kafka, in bytes


class TooLargeError(Exception):
    """The decompressed data has more bytes than allowed."""


def _compress_snappy(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return _SNAPPY_HEADER + len(block).to_bytes(4) + block


def _decompress_snappy(data: memoryview, place: memoryview) -> int:
    if bytes(data[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        return _decompress_block(data, place)
    at, size = len(_SNAPPY_HEADER), 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        at += 4
        if length > len(data) - at:
            raise ValueError(f"a snappy block of {length} bytes, where {len(data) - at} are left")
        size += _decompress_block(data[at : at + length], place[size:])
        at += length
    return size


def _decompress_block(data: memoryview, place: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(data) > len(place):
        raise TooLargeError
    return cramjam.snappy.decompress_raw_into(data, place)


def _codec_of(name: str, module: Any) -> Codec:
    return name, lambda data: bytes(module.compress(data)), module.decompress_into


# Name, compression, decompression; 0 is none. Source: CompressionType.
CODECS: dict[int, Codec] = {
    1: _codec_of("gzip", cramjam.gzip),
    2: ("snappy", _compress_snappy, _decompress_snappy),
    3: _codec_of("lz4", cramjam.lz4),
    4: _codec_of("zstd", cramjam.zstd),
}


def compress(codec: int, data: bytes) -> bytes:
    """The data compressed by the codec of this number; 0 leaves it unchanged.

    Raises ValueError for a number that is not a codec.
    """
    return data if codec == 0 else _codec(codec)[1](data)


def decompress(codec: int, data: memoryview, most: int) -> memoryview:
    """The decompressed bytes, at most `most`.

    Raises TooLargeError if there are more, ValueError if the data is damaged.
    """
    if codec == 0:
        return data
    name, _, undo = _codec(codec)
    try:
        # only written pages take memory; the additional byte shows an excess
        place = memoryview(mmap.mmap(-1, min(most, _MOST) + 1))
        size = undo(data, place)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            raise TooLargeError from None
        raise ValueError(f"{name} can't decompress it: {error}") from None
    except (OSError, MemoryError):
        raise TooLargeError from None
    if size > most:
        raise TooLargeError
    return place[:size].toreadonly()


def codec_name(codec: int) -> str:
    """The codec's name in Kafka. Raises ValueError for a number that is not a codec."""
    return "none" if codec == 0 else _codec(codec)[0]


def _codec(codec: int) -> Codec:
    if codec not in CODECS:
        raise ValueError(f"{codec} is not a compression type")
    return CODECS[codec]
