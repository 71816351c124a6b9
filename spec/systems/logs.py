"""The logs that pictures of the systems show."""

from __future__ import annotations

from ...language import LastRecord, Log, element, position
from ..coordinator import entry as transaction
from ..coordinator.state_manager import log as transaction_log
from ..groups import log as offsets
from ..leader import state as leader
from ..leader.isolation import ending, is_read_committed, log_entry
from ..messages import NO_EPOCH, PARTITION
from ..reading import state as reading
from ..replication import state as replication

on_partition = PARTITION.variable("p")
log_item = log_entry("entry", on_partition)

LEADER = Log(
    "partition",
    log_item,
    position(log_item),
    each=on_partition,
    kind=log_item.kind,
    producer=log_item.producer_id,
    epoch=log_item.producer_epoch,
    record=log_item.record,
    high_watermark=leader.high_watermark.at(on_partition),
    last_stable_offset=leader.last_stable_offset.at(on_partition),
    is_open=(log_item.kind == leader.Kind.DATA)
    & ~log_item.idempotent_only
    & ~ending(log_item, on_partition).is_set,
    is_visible=is_read_committed(log_item, on_partition),
)
"""The log of each partition, as its leader has it."""

TRANSACTION = LastRecord(
    "transaction log",
    {
        "state": transaction.state,
        "id": transaction.producer_id,
        "epoch": transaction_log.logged_epoch,
        "partitions": transaction_log.logged_partitions,
    },
    when=transaction_log.logged_epoch != NO_EPOCH,
)
"""The last record of the transactional id in the transaction log."""

read = element("e", reading.log)

READING = Log(
    "partition",
    read,
    read.offset,
    kind=read.kind,
    producer=read.producer_id,
    record=read.transaction,
    called="txn",
    high_watermark=reading.high_watermark,
    last_stable_offset=reading.last_stable_offset,
    is_open=reading.is_left(read),
    is_visible=(read.kind == leader.Kind.DATA) & ~reading.is_aborted(read),
)
"""The log that a read_committed consumer reads."""

one_replica = replication.REPLICA.variable("r")
copy = element("e", replication.log.at(one_replica))

REPLICA = Log(
    "replica",
    copy,
    position(copy),
    each=one_replica,
    kind=copy.kind,
    producer=copy.producer_id,
    record=copy.record,
    high_watermark=replication.high_watermark.at(one_replica),
)
"""Each broker's copy of the partition."""

stored = element("e", offsets.log)

OFFSETS = Log(
    "__consumer_offsets",
    stored,
    stored.place,
    kind=stored.kind,
    producer=stored.producer_id,
    record=stored.offset,
    called="committed",
    is_open=offsets.is_open(stored),
)
"""The offsets of a group."""
