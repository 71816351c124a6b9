"""The partition of a transactional id in the transaction log, and batches of tombstones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...engine.errors import text


def java_hash(text: str) -> int:
    """`String.hashCode()`, an int32."""
    value = 0
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=1 << 16)
def partition_for(transactional_id: str, partitions: int = 50) -> int:
    """The partition of the transaction log that an id belongs to.

    TransactionStateManager.partitionFor. Raises WrongTypeError for a wrong id.
    """
    value = java_hash(text("transactional_id", transactional_id))
    return (0 if value == -(2**31) else abs(value)) % partitions


@dataclass
class TombstoneBatch:
    """Tombstones that are appended together."""

    state_partition: int
    transactional_ids: list[str]
    size: int


def add_tombstone(batches: list[TombstoneBatch], partition: int, name: str, max_bytes: int) -> None:
    """Adds a tombstone to the partition's last batch if there is room, else to a new batch.

    MemoryRecordsBuilder.hasRoomFor
    """
    mine = [batch for batch in batches if batch.state_partition == partition]
    if mine:
        size = _record_size(len(mine[-1].transactional_ids), name)
        if mine[-1].size + size <= max_bytes:
            mine[-1].transactional_ids.append(name)
            mine[-1].size += size
            return
    batches.append(TombstoneBatch(partition, [name], BATCH_OVERHEAD + _record_size(0, name)))


BATCH_OVERHEAD = 61


def _record_size(offset_delta: int, name: str) -> int:
    key = 4 + len(name.encode())  # a version and a length, two bytes each
    body = 2 + _varint(offset_delta) + _varint(key) + key + 2
    return body + _varint(body)


def _varint(number: int) -> int:
    """The bytes of a zigzag varint."""
    return max(1, -(-(2 * number).bit_length() // 7))
