"""The layouts of Kafka's records on disk, declared as kio's messages are. kio itself has only
control records (`control`).

A field's metadata has its type on the wire (`kafka_type`), and its number in the tagged section
(`tag`). No `from __future__ import annotations` here: kio reads the types.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

INT8 = {"kafka_type": "int8"}
INT16 = {"kafka_type": "int16"}
INT32 = {"kafka_type": "int32"}
INT64 = {"kafka_type": "int64"}
UINT32 = {"kafka_type": "uint32"}
STRING = {"kafka_type": "string"}


class Layout:
    """The class variables that kio needs in an entity, by default for version 0."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False


# __transaction_state ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey(Layout):
    """The key of a record in `__transaction_state` (TransactionLogKey.json)."""

    transactional_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPartitionsV0(Layout):
    """A topic's partitions in a transaction, version 0."""

    topic: str = field(metadata=STRING)
    partition_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValueV0(Layout):
    """The value of a record in `__transaction_state`, version 0 (TransactionLogValue.json). Times
    are in ms."""

    producer_id: int = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    transaction_timeout_ms: int = field(metadata=INT32)
    transaction_status: int = field(metadata=INT8)
    transaction_partitions: tuple[TransactionPartitionsV0, ...] | None
    transaction_last_update_timestamp_ms: int = field(metadata=INT64)
    transaction_start_timestamp_ms: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPartitions(TransactionPartitionsV0):
    """A topic's partitions in a transaction."""

    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue(TransactionLogValueV0):
    """The value of a record in `__transaction_state`, version 1: with tagged fields, which are
    omitted if they have their default."""

    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    transaction_partitions: tuple[TransactionPartitions, ...] | None
    previous_producer_id: int = field(metadata=INT64 | {"tag": 0}, default=-1)
    next_producer_id: int = field(metadata=INT64 | {"tag": 1}, default=-1)
    client_transaction_version: int = field(metadata=INT16 | {"tag": 2}, default=0)


# A partition's files ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry(Layout):
    """A partition's state of a producer id, in a snapshot (ProducerSnapshot.json).

    `last_offset` is -1 without a remembered batch, `current_txn_first_offset` without an open
    transaction.
    """

    producer_id: int = field(metadata=INT64)
    epoch: int = field(metadata=INT16)
    last_sequence: int = field(metadata=INT32)
    last_offset: int = field(metadata=INT64)
    offset_delta: int = field(metadata=INT32)
    timestamp: int = field(metadata=INT64)
    coordinator_epoch: int = field(metadata=INT32)
    current_txn_first_offset: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader(Layout):
    """The header of a snapshot, after its version. `crc` is the CRC-32C of all following bytes."""

    crc: int = field(metadata=UINT32)
    entries: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction(Layout):
    """An entry of a transaction index (AbortedTxn). `last_offset` is that of the abort marker."""

    producer_id: int = field(metadata=INT64)
    first_offset: int = field(metadata=INT64)
    last_offset: int = field(metadata=INT64)
    last_stable_offset: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader(Layout):
    """The header of a batch, message format 2 (DefaultRecordBatch).

    `batch_length` is the number of bytes after it, `crc` the CRC-32C of all bytes after it.
    """

    base_offset: int = field(metadata=INT64)
    batch_length: int = field(metadata=INT32)
    partition_leader_epoch: int = field(metadata=INT32)
    magic: int = field(metadata=INT8)
    crc: int = field(metadata=UINT32)
    attributes: int = field(metadata=INT16)
    last_offset_delta: int = field(metadata=INT32)
    base_timestamp: int = field(metadata=INT64)
    max_timestamp: int = field(metadata=INT64)
    producer_id: int = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    base_sequence: int = field(metadata=INT32)
    records_count: int = field(metadata=INT32)
