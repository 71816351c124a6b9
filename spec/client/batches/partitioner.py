"""Which partition of its topic a record goes to, and how long records without a key stay with one.

These are functions, as a record's partition decides nothing for the protocol; hashing, and the
choice of the next partition, are the caller's.
"""

from __future__ import annotations

from enum import Enum


class Choice(Enum):
    """How the partition of a record is chosen."""

    GIVEN = "KafkaProducer.partition"
    ROUND_ROBIN = "RoundRobinPartitioner.partition"
    KEY_HASH = "BuiltInPartitioner.partitionForKey"
    STICKY = "KIP-794, BuiltInPartitioner.peekCurrentPartitionInfo"


def chosen_by(
    *, is_given: bool, has_key: bool, is_round_robin: bool = False, ignores_keys: bool = False
) -> Choice:
    """How the partition is chosen for a record with a given partition, or with a key, under
    `partitioner.class` (RoundRobinPartitioner or none) and `partitioner.ignore.keys`."""
    if is_given:
        return Choice.GIVEN
    if is_round_robin:
        return Choice.ROUND_ROBIN
    return Choice.KEY_HASH if has_key and not ignores_keys else Choice.STICKY


def switches(produced: int, batch_size: int, *, ends_batch: bool) -> bool:
    """Whether another partition is stuck to after so many bytes for this one; `ends_batch` says
    that the last record has filled its batch.

    BuiltInPartitioner.updatePartitionInfo
    """
    return (produced >= batch_size and ends_batch) or produced >= 2 * batch_size
