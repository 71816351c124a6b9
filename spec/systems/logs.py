"""The logs that pictures of the systems show."""

from __future__ import annotations

from ...language import LastRecord, Log, element, position
from ..coordinator import entry as transaction
from ..coordinator import log as transaction_log
from ..groups import log as offsets
from ..leader import state as leader
from ..leader.isolation import ending, is_read_committed, log_entry
from ..messages import NO_EPOCH, PARTITION
from ..reading import state as reading
from ..replication import state as replication

_p = PARTITION.variable("p")
_entry = log_entry("entry", _p)

LEADER = Log(
    "partition",
    _entry,
    position(_entry),
    each=_p,
    kind=_entry.kind,
    producer=_entry.producer_id,
    epoch=_entry.producer_epoch,
    record=_entry.record,
    high_watermark=leader.high_watermark.at(_p),
    last_stable_offset=leader.last_stable_offset.at(_p),
    is_open=(_entry.kind == leader.Kind.DATA)
    & ~_entry.idempotent_only
    & ~ending(_entry, _p).is_set,
    is_visible=is_read_committed(_entry, _p),
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

_read = element("e", reading.log)

READING = Log(
    "partition",
    _read,
    _read.offset,
    kind=_read.kind,
    producer=_read.producer_id,
    record=_read.transaction,
    called="txn",
    high_watermark=reading.high_watermark,
    last_stable_offset=reading.last_stable_offset,
    is_open=reading.is_left(_read),
    is_visible=(_read.kind == leader.Kind.DATA) & ~reading.is_aborted(_read),
)
"""The log that a read_committed consumer reads."""

_r = replication.REPLICA.variable("r")
_copy = element("e", replication.log.at(_r))

REPLICA = Log(
    "replica",
    _copy,
    position(_copy),
    each=_r,
    kind=_copy.kind,
    producer=_copy.producer_id,
    record=_copy.record,
    high_watermark=replication.high_watermark.at(_r),
)
"""Each broker's copy of the partition."""

_stored = element("e", offsets.log)

OFFSETS = Log(
    "__consumer_offsets",
    _stored,
    _stored.place,
    kind=_stored.kind,
    producer=_stored.producer_id,
    record=_stored.offset,
    called="committed",
    is_open=offsets.is_open(_stored),
)
"""The offsets of a group."""
