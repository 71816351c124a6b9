"""The trunk that Kafka's cases come from: of 25 October 2024 (commit 1eb7644349), half of 4.0.

It is 3.9, and its coordinator a draft of transactions of version 2. Its clients and leaders knew no
request of that version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from epochfence.language import Expression, Row, Sending, Table, if_, minimum, some
from epochfence.language.expressions import TRUE, rewrite
from epochfence.model import TransactionCoordinator, TransactionMetadata
from epochfence.spec.coordinator import entry, tables
from epochfence.spec.coordinator.requests.add_partitions import (
    add_partitions,
    add_partitions_by_leader,
)
from epochfence.spec.coordinator.requests.end_txn import (
    answer,
    answer_fencers,
    commits,
    complete_state,
    end_txn,
    fence,
    fence_continues,
    prepare_state,
)
from epochfence.spec.coordinator.requests.init_producer_id import init_producer_id
from epochfence.spec.coordinator.state_manager import log
from epochfence.spec.messages import LARGEST_EPOCH, NO_EPOCH, EndTxn, Errors, now, offered_id
from epochfence.spec.releases.features import (
    failed_fence_kept,
    late_fence_end_refused,
    transaction_version_2,
)
from epochfence.tests.conformance.metadata_functions import (
    TABLES,
    Functions,
    end_table,
    ended,
)

RELEASE = "3.9"


rotates_producer_id = transaction_version_2 & entry.exhausted & ~entry.fencing
offered_id_after = if_(rotates_producer_id, entry.offered_id_after, offered_id)

# The request's version decides which epoch the end takes. The version of the end before decides
# which epochs are valid.
bumps_since = ~entry.fencing & (entry.client_transaction_version == 2)
retry_of_bump = bumps_since & (entry.producer_epoch == EndTxn.producer_epoch + 1)
retry_of_overflow = (
    bumps_since
    & (entry.previous_id == EndTxn.producer_id)
    & (EndTxn.producer_epoch == LARGEST_EPOCH - 1)
    & (entry.producer_epoch == 0)
)
is_current = EndTxn.producer_epoch == entry.producer_epoch
fence_retry_of_bump = bumps_since & (entry.producer_epoch == fence.producer_epoch + 1)
fence_retry_of_overflow = (
    bumps_since
    & (entry.previous_id == fence.producer_id)
    & (fence.producer_epoch == LARGEST_EPOCH - 1)
    & (entry.producer_epoch == 0)
)
fence_is_current = fence.producer_epoch == entry.producer_epoch
fence_is_newer = fence.producer_epoch >= entry.producer_epoch

draft_end_txn = replace(
    end_txn,
    rows=(
        Row(
            "unknown-id",
            when=entry.is_absent,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-producer-id",
            when=(EndTxn.producer_id != entry.producer_id) & ~retry_of_overflow,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-epoch",
            when=~if_(
                bumps_since & entry.is_prepared,
                retry_of_bump,
                if_(
                    bumps_since & entry.is_complete,
                    retry_of_bump | retry_of_overflow,
                    if_(bumps_since, is_current, is_current),
                ),
            ),
            reply=answer(entry.fenced),
        ),
        Row(
            "pending",
            when=entry.in_transition,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "commit-during-fence",
            when=entry.fencing & commits,
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
        ),
        Row(
            "no-producer-id",
            when=(entry.state == entry.ONGOING) & rotates_producer_id & ~offered_id.is_set,
            reply=answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        ),
        Row(
            "largest-epoch",
            when=(entry.state == entry.ONGOING)
            & transaction_version_2
            & (entry.producer_epoch == LARGEST_EPOCH),
            set={offered_id: offered_id_after},
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
        ),
        Row(
            "abort-overtakes-fence",
            when=entry.fencing,
            set={
                entry.pending: entry.PREPARE_ABORT,
                entry.producer_epoch: EndTxn.producer_epoch,
                entry.last_producer_epoch: if_(failed_fence_kept, NO_EPOCH, entry.producer_epoch),
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: if_(
                    transaction_version_2,
                    minimum(EndTxn.producer_epoch + 1, LARGEST_EPOCH),
                    EndTxn.producer_epoch,
                ),
                entry.pending_last_epoch: if_(
                    transaction_version_2, EndTxn.producer_epoch, NO_EPOCH
                ),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
        ),
        Row(
            "prepare",
            when=entry.state == entry.ONGOING,
            set={
                entry.pending: prepare_state,
                entry.pending_epoch: if_(
                    transaction_version_2, entry.bumped_epoch, entry.producer_epoch
                ),
                entry.pending_last_epoch: if_(
                    transaction_version_2, entry.producer_epoch, entry.last_producer_epoch
                ),
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.ends_ahead: False,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
        ),
        Row(
            "already-complete",
            when=entry.state == complete_state,
            reply=answer(Errors.NONE, producer_epoch=entry.producer_epoch),
        ),
        Row(
            "already-prepared",
            when=entry.state == prepare_state,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "invalid-state",
            reply=answer(Errors.INVALID_TXN_STATE),
        ),
    ),
)
draft_fence_continues = replace(
    fence_continues,
    rows=(
        Row(
            "unknown-id",
            when=entry.is_absent,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "overtaken",
            when=~entry.fencing,
            during=late_fence_end_refused,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "other-producer-id",
            when=(fence.producer_id != entry.producer_id) & ~fence_retry_of_overflow,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "other-epoch",
            when=~if_(
                bumps_since & entry.is_prepared,
                fence_retry_of_bump,
                if_(
                    bumps_since & entry.is_complete,
                    fence_retry_of_bump | fence_retry_of_overflow,
                    if_(bumps_since, fence_is_current, fence_is_newer),
                ),
            ),
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(entry.fenced),),
        ),
        Row(
            "pending",
            when=entry.in_transition,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "no-producer-id",
            when=(entry.state == entry.ONGOING) & rotates_producer_id & ~offered_id.is_set,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.COORDINATOR_LOAD_IN_PROGRESS),),
        ),
        Row(
            "second-bump-overflows",
            when=entry.fencing & transaction_version_2 & (fence.producer_epoch == LARGEST_EPOCH),
            set={
                entry.pending: None,
                entry.producer_epoch: fence.producer_epoch,
                entry.last_producer_epoch: NO_EPOCH,
                entry.fence_end: None,
                entry.fenced_for: entry.NOBODY,
            },
            send=(answer_fencers(Errors.UNKNOWN_SERVER_ERROR),),
        ),
        Row(
            "largest-epoch",
            when=(entry.state == entry.ONGOING)
            & transaction_version_2
            & (entry.producer_epoch == LARGEST_EPOCH),
            set={
                offered_id: offered_id_after,
                entry.fence_end: None,
                entry.fenced_for: entry.NOBODY,
            },
            send=(answer_fencers(Errors.UNKNOWN_SERVER_ERROR),),
        ),
        Row(
            "abort-with-fence-epoch",
            when=entry.fencing,
            set={
                entry.pending: entry.PREPARE_ABORT,
                entry.producer_epoch: fence.producer_epoch,
                entry.last_producer_epoch: if_(failed_fence_kept, NO_EPOCH, entry.producer_epoch),
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: if_(
                    transaction_version_2,
                    minimum(fence.producer_epoch + 1, LARGEST_EPOCH),
                    fence.producer_epoch,
                ),
                entry.pending_last_epoch: if_(
                    transaction_version_2, fence.producer_epoch, NO_EPOCH
                ),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
                entry.fence_end: None,
            },
        ),
        Row(
            "abort-later-transaction",
            when=entry.state == entry.ONGOING,
            set={
                entry.pending: entry.PREPARE_ABORT,
                entry.pending_epoch: if_(
                    transaction_version_2, entry.bumped_epoch, entry.producer_epoch
                ),
                entry.pending_last_epoch: if_(
                    transaction_version_2, entry.producer_epoch, entry.last_producer_epoch
                ),
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.ends_ahead: ~transaction_version_2
                & (fence.producer_epoch > entry.producer_epoch),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
                entry.fence_end: None,
            },
        ),
        Row(
            "already-complete",
            when=entry.state == entry.COMPLETE_ABORT,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "already-prepared",
            when=entry.state == entry.PREPARE_ABORT,
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "invalid-state",
            set={entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(Errors.INVALID_TXN_STATE),),
        ),
    ),
)


def _forgets_version(row: Row) -> Row:
    """A record with a new epoch or a new partition is of no version."""
    return (
        replace(row, set={**row.set, entry.pending_version: 0})
        if entry.pending_version in row.set
        else row
    )


def _tells_epoch(row: Row) -> Row:
    """The answer to an end has the epoch, whatever the version of its request."""

    def settled(node: Expression) -> Expression | None:
        return TRUE if node is transaction_version_2 else None

    def told(sent: Sending) -> Sending:
        return replace(sent, fields=tuple((n, rewrite(value, settled)) for n, value in sent.fields))

    return replace(row, send=tuple(map(told, row.send)))


def _forgets_epoch(row: Row) -> Row:
    """An end of version 2 that is completed has no epoch before it."""
    if row.id not in ("commit-completed", "abort-completed"):
        return row
    last = if_(entry.pending_version == 2, entry.producer_epoch, entry.last_producer_epoch)
    return replace(row, set={**row.set, entry.last_producer_epoch: last})


def _tables() -> Iterator[Table]:
    changes = {
        init_producer_id: _forgets_version,
        add_partitions: _forgets_version,
        add_partitions_by_leader: _forgets_version,
        log.completion_begins: _tells_epoch,
        log.log_appended: _forgets_epoch,
    }
    ends = {end_txn: draft_end_txn, fence_continues: draft_fence_continues}
    for table in tables.DRIVEN:
        if table in changes:
            rows = tuple(map(changes[table], table.rows))
            assert rows != table.rows, table.name
            yield replace(table, rows=rows)
        else:
            yield ends.get(table, table)


class DraftCoordinator(TransactionCoordinator):
    """The coordinator of that trunk."""

    tables: ClassVar = tuple(_tables())
    features: ClassVar = (transaction_version_2.data.name,)

    def pending_record(self, transactional_id: str) -> TransactionMetadata:
        """See TransactionStateManager: a completed end has the epoch as that before it."""
        record = super().pending_record(transactional_id)
        if record.state in ("CompleteCommit", "CompleteAbort"):
            epoch = self.entries[transactional_id]["producer_epoch"]
            return record._replace(last_producer_epoch=epoch)
        return record


class DraftFunctions(Functions, DraftCoordinator):
    """Its entries, whose functions can be called by themselves."""

    tables: ClassVar = (
        *DraftCoordinator.tables,
        *(end_table(entry.state == entry.ONGOING) if table is ended else table for table in TABLES),
    )
