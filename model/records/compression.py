"""What compresses the records of a batch, by its number in the batch's attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import cramjam

Codec: TypeAlias = "tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]"

# Kafka's Java client frames snappy in blocks: this header, two versions, then length and block.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + (1).to_bytes(4) * 2


def _compress_snappy(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return _SNAPPY_HEADER + len(block).to_bytes(4) + block


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    at, blocks = len(_SNAPPY_HEADER), list[bytes]()
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        at += 4
        if length > len(data) - at:
            raise ValueError(f"a snappy block of {length} bytes, where {len(data) - at} are left")
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[at : at + length])))
        at += length
    return b"".join(blocks)


def _codec_of(name: str, module: Any) -> Codec:
    def both(change: Callable[[bytes], Any]) -> Callable[[bytes], bytes]:
        return lambda data: bytes(change(data))

    return name, both(module.compress), both(module.decompress)


# Name, compression, decompression; 0 is none. Source: CompressionType.
CODECS: dict[int, Codec] = {
    1: _codec_of("gzip", cramjam.gzip),
    2: ("snappy", _compress_snappy, _decompress_snappy),
    3: _codec_of("lz4", cramjam.lz4),
    4: _codec_of("zstd", cramjam.zstd),
}


def compress(codec: int, data: bytes) -> bytes:
    """The data as the codec of this number writes it; 0 leaves it as it is.

    Raises ValueError for a number that is no codec.
    """
    return data if codec == 0 else _codec(codec)[1](data)


def decompress(codec: int, data: bytes) -> bytes:
    """What was compressed. Raises ValueError where that can't be told."""
    if codec == 0:
        return data
    name, _, undo = _codec(codec)
    try:
        return undo(data)
    except cramjam.DecompressionError as error:
        raise ValueError(f"{name} can't decompress it: {error}") from None


def codec_name(codec: int) -> str:
    """The codec's name in Kafka. Raises ValueError for a number that is no codec."""
    return "none" if codec == 0 else _codec(codec)[0]


def _codec(codec: int) -> Codec:
    if codec not in CODECS:
        raise ValueError(f"{codec} is no compression type")
    return CODECS[codec]
