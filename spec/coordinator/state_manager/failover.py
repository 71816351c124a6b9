"""The coordinator fails over: another broker reads the transaction log and takes over.

It makes the entry of the log's last record. If that record has decided the end of a transaction,
the end is on its way to be complete before the broker takes any request.
"""

from __future__ import annotations

from ....language import Bool as Truth
from ....language import Row, Table, each, event, if_, set_of, size, some
from ...messages import (
    FAILOVERS,
    FAULTS,
    NO_EPOCH,
    NO_TIMESTAMP,
    Errors,
    clock,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ...releases.features import (
    last_epoch_in_log,
    own_completion_cancelled,
    previous_id_forgotten,
    rotation_in_log,
)
from .. import entry
from ..entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    c,
    p,
)
from ..markers import completion_dropped, left_behind, marker_connection, marker_sent
from .log import (
    answer_all,
    kept_previous_id,
    logged_epoch,
    logged_partitions,
    rotates,
    unsettled,
)

failover = event(
    "coordinator failover",
    record_kept=Truth(),
    event_doc="Another broker takes over, with or without the record that is being appended.",
)
late_failover = event(
    "coordinator failover after a failed append",
    event_doc="Another broker takes over, and finds the record whose append failed.",
)

MEMORY_LOST = {
    entry.pending_epoch: NO_EPOCH,
    entry.pending_last_epoch: NO_EPOCH,
    entry.pending_partitions: set_of(),
    unsettled: None,
    entry.failed_fence: False,
    entry.fence_end: None,
    entry.fenced_for: NOBODY,
    entry.ends_ahead: False,
    entry.asked_by: NOBODY,
    entry.adding_for: each(c, set_of()),
    # Before 3.8 answers to the markers of this term may cancel a completion of a later one.
    left_behind: if_(
        own_completion_cancelled | (FAULTS < 3) | (size(marker_sent) == 0),
        left_behind,
        some(entry.coordinator_epoch),
    ),
    completion_dropped: False,
    marker_sent: set_of(),
    marker_connection: each(p, marker_connection[p] + 1),
    entry.coordinator_epoch: entry.coordinator_epoch + 1,
}
"""The updates of every takeover: the next broker knows the log, and nothing else."""

record_is_in_log = (
    failover.record_kept & entry.in_transition & (~entry.completing | (size(entry.partitions) == 0))
)
"""Whether the record that is being appended is in the log."""

fails_over = Table(
    transaction,
    on=failover,
    others=(producer, producer_id_manager, clock),
    when=(FAILOVERS > 0)
    & (entry.is_known | entry.pending.is_set)
    & (~failover.record_kept | record_is_in_log),
    source="TransactionStateManager.loadTransactionsForTxnTopicPartition",
    set=MEMORY_LOST,
    rows=(
        Row(
            "epoch-in-log",
            "The log ends with the new producer id and epoch",
            when=record_is_in_log & (entry.pending == EMPTY),
            goto=EMPTY,
            set={
                entry.producer_id: entry.pending_id,
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.pending_last_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, some(entry.producer_id), None),
                entry.next_id: if_(rotation_in_log, entry.next_id, None),
                entry.txn_timeout_ms: entry.pending_timeout_ms,
                entry.txn_start_timestamp: NO_TIMESTAMP,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: set_of(),
                entry.pending: None,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "partitions-in-log",
            "The log ends with the new partitions",
            when=record_is_in_log & (entry.pending == ONGOING),
            goto=ONGOING,
            set={
                entry.partitions: entry.pending_partitions,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, kept_previous_id, None),
                entry.next_id: if_(rotation_in_log, entry.next_id, None),
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.producer_epoch,
                logged_partitions: entry.pending_partitions,
                entry.pending: None,
                entry.pending_id: entry.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "commit-in-log",
            "The log ends with the decision to commit: its completion begins",
            when=record_is_in_log & (entry.pending == PREPARE_COMMIT),
            goto=PREPARE_COMMIT,
            set={
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.pending_last_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, kept_previous_id, None),
                entry.next_id: if_(rotation_in_log, entry.next_id, None),
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: entry.partitions,
                entry.pending: COMPLETE_COMMIT,
                entry.pending_id: entry.producer_id,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "abort-in-log",
            "The log ends with the decision to abort: its completion begins",
            when=record_is_in_log & (entry.pending == PREPARE_ABORT),
            goto=PREPARE_ABORT,
            set={
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.pending_last_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, kept_previous_id, None),
                entry.next_id: if_(rotation_in_log, entry.next_id, None),
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: entry.partitions,
                entry.pending: COMPLETE_ABORT,
                entry.pending_id: entry.producer_id,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "completed-commit-in-log",
            "The log ends with the completed commit",
            when=record_is_in_log & (entry.pending == COMPLETE_COMMIT),
            goto=COMPLETE_COMMIT,
            set={
                entry.producer_id: if_(rotates, entry.next_id.value, entry.producer_id),
                entry.producer_epoch: if_(rotates, 0, entry.producer_epoch),
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(
                    rotation_in_log,
                    if_(
                        previous_id_forgotten | (entry.pending_version == 2),
                        some(entry.producer_id),
                        entry.previous_id,
                    ),
                    None,
                ),
                entry.next_id: None,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: if_(rotates, 0, entry.producer_epoch),
                logged_partitions: set_of(),
                entry.pending: None,
                entry.pending_id: if_(rotates, entry.next_id.value, entry.producer_id),
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "completed-abort-in-log",
            "The log ends with the completed abort",
            when=record_is_in_log & (entry.pending == COMPLETE_ABORT),
            goto=COMPLETE_ABORT,
            set={
                entry.producer_id: if_(rotates, entry.next_id.value, entry.producer_id),
                entry.producer_epoch: if_(rotates, 0, entry.producer_epoch),
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(
                    rotation_in_log,
                    if_(
                        previous_id_forgotten | (entry.pending_version == 2),
                        some(entry.producer_id),
                        entry.previous_id,
                    ),
                    None,
                ),
                entry.next_id: None,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: if_(rotates, 0, entry.producer_epoch),
                logged_partitions: set_of(),
                entry.pending: None,
                entry.pending_id: if_(rotates, entry.next_id.value, entry.producer_id),
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "tombstone-in-log",
            "The log ends with the tombstone: the next request makes a new entry",
            when=record_is_in_log,
            goto=EMPTY,
            set={
                entry.producer_id: offered_id.value,
                entry.producer_epoch: NO_EPOCH,
                entry.last_producer_epoch: NO_EPOCH,
                entry.previous_id: None,
                entry.next_id: None,
                entry.txn_start_timestamp: NO_TIMESTAMP,
                logged_epoch: NO_EPOCH,
                entry.pending: None,
                entry.pending_id: offered_id.value,
                offered_id: entry.offered_id_after,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "no-new-record",
            "The log has no new record; a decided end goes on to be completed",
            set={
                entry.producer_epoch: logged_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, entry.previous_id, None),
                entry.next_id: if_(rotation_in_log & entry.is_prepared, entry.next_id, None),
                entry.partitions: logged_partitions,
                entry.txn_start_timestamp: if_(
                    entry.state == EMPTY, NO_TIMESTAMP, entry.txn_start_timestamp
                ),
                entry.pending: if_(
                    entry.is_prepared,
                    if_(entry.state == PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT),
                    None,
                ),
                entry.pending_id: entry.producer_id,
                entry.pending_start_timestamp: if_(
                    entry.is_prepared, entry.txn_start_timestamp, entry.pending_start_timestamp
                ),
                entry.pending_update_timestamp: if_(
                    entry.is_prepared, now, entry.pending_update_timestamp
                ),
                entry.pending_version: if_(
                    entry.is_prepared, entry.client_transaction_version, entry.pending_version
                ),
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
    ),
)

found = unsettled.value
"""The record that the next broker finds, although its append has failed."""

fails_over_late = Table(
    transaction,
    on=late_failover,
    others=(producer, producer_id_manager, clock),
    when=unsettled.is_set,
    doc="The failure of an append and of its coordinator are one fault.",
    source="TransactionStateManager.loadTransactionsForTxnTopicPartition",
    set=MEMORY_LOST,
    rows=(
        Row(
            "epoch-in-log",
            "The log ends with the new producer id and epoch",
            when=entry.is_settled & (found.state == EMPTY),
            goto=EMPTY,
            set={
                entry.producer_id: found.producer_id,
                entry.producer_epoch: found.producer_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, found.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, some(entry.producer_id), None),
                entry.next_id: if_(rotation_in_log, found.next_id, None),
                entry.partitions: found.partitions,
                entry.txn_start_timestamp: NO_TIMESTAMP,
                entry.client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                entry.pending: None,
                entry.pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "partitions-in-log",
            "The log ends with the new partitions",
            when=(entry.is_settled | (entry.state == ONGOING)) & (found.state == ONGOING),
            goto=ONGOING,
            set={
                entry.producer_id: found.producer_id,
                entry.producer_epoch: found.producer_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, found.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, some(entry.producer_id), None),
                entry.next_id: if_(rotation_in_log, found.next_id, None),
                entry.partitions: found.partitions,
                entry.client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                entry.pending: None,
                entry.pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "commit-in-log",
            "The log ends with the decision to commit: its completion begins",
            when=(entry.state == ONGOING) & (found.state == PREPARE_COMMIT),
            goto=PREPARE_COMMIT,
            set={
                entry.producer_id: found.producer_id,
                entry.producer_epoch: found.producer_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, found.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, some(entry.producer_id), None),
                entry.next_id: if_(rotation_in_log, found.next_id, None),
                entry.partitions: found.partitions,
                entry.client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                entry.pending: COMPLETE_COMMIT,
                entry.pending_id: found.producer_id,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: found.client_transaction_version,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "abort-in-log",
            "The log ends with the decision to abort: its completion begins",
            when=(entry.is_settled | (entry.state == ONGOING)) & (found.state == PREPARE_ABORT),
            goto=PREPARE_ABORT,
            set={
                entry.producer_id: found.producer_id,
                entry.producer_epoch: found.producer_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, found.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, some(entry.producer_id), None),
                entry.next_id: if_(rotation_in_log, found.next_id, None),
                entry.partitions: found.partitions,
                entry.client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                entry.pending: COMPLETE_ABORT,
                entry.pending_id: found.producer_id,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: found.client_transaction_version,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "tombstone-in-log",
            "The log ends with the tombstone: the next request makes a new entry",
            when=entry.is_settled & (found.state == DEAD),
            goto=EMPTY,
            set={
                entry.producer_id: offered_id.value,
                entry.producer_epoch: NO_EPOCH,
                entry.last_producer_epoch: NO_EPOCH,
                entry.previous_id: None,
                entry.next_id: None,
                entry.txn_start_timestamp: NO_TIMESTAMP,
                logged_epoch: NO_EPOCH,
                entry.pending: None,
                entry.pending_id: offered_id.value,
                offered_id: entry.offered_id_after,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
    ),
)

FAULTY_EVENTS = (failover,)
TABLES = (fails_over, fails_over_late)
