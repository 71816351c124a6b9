"""An unclean election of the transaction log's partition: its last record is lost, whether or not
it was acknowledged.

A clean election loses no record that was: `coordinator failover` in `transactions` is that.
"""

from __future__ import annotations

from dataclasses import replace

from ...language import Machine, Optional, Table, constant, event, some
from ..coordinator import log
from ..coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    client_transaction_version,
    last_producer_epoch,
    next_id,
    producer_id,
    state,
)
from ..coordinator.failover import surfaces
from ..coordinator.log import LogRecord, logged_epoch, logged_partitions
from ..messages import NO_EPOCH, clock, producer, producer_id_manager, transaction

LOG_LOSSES = constant(
    "log_losses", 0, 0, 1,
    meaning="1: an unclean election may lose the last record of the transaction log",
)  # fmt: skip
entry = Machine("transaction", None, transaction.doc, state=state)
entry.fields.update(transaction.fields)
before = entry.field(
    "record_before", Optional(LogRecord), doc="The content of the log's record before its last one."
)
_last = LogRecord(
    state=state,
    producer_id=producer_id,
    producer_epoch=logged_epoch,
    last_producer_epoch=last_producer_epoch,
    next_id=next_id,
    partitions=logged_partitions,
    client_transaction_version=client_transaction_version,
)


def remembers(table: Table) -> Table:
    """The table of a record's append, with what the log's last one has said until then."""
    if table.on is not log.log_append:
        return table
    rows = tuple(replace(row, set={**row.set, before: some(_last)}) for row in table.rows)
    return replace(table, rows=rows)


elect_unclean = event(
    "transaction log loses its last record",
    event_doc="Its partition is led by a replica that wasn't in sync; another broker coordinates.",
)

loses_record = Table(
    entry,
    on=elect_unclean,
    others=(producer, producer_id_manager, clock),
    when=(LOG_LOSSES > 0) & before.is_set & (before.value.producer_epoch != NO_EPOCH),
    rows=tuple(
        surfaces(f"{name} is the last again", before.value, target)
        for name, target in (
            ("a new epoch", EMPTY),
            ("an open transaction", ONGOING),
            ("a commit", PREPARE_COMMIT),
            ("an abort", PREPARE_ABORT),
            ("a completed commit", COMPLETE_COMMIT),
            ("a completed abort", COMPLETE_ABORT),
        )
    ),
)
