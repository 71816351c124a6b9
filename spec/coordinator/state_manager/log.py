"""The transaction log: a record is appended, or its append fails, and the entry takes it over.

The entry knows the log's last record by the fields `logged_epoch` and `logged_partitions`, where
that record differs from the entry. A record whose append failed may be in the log, for instance
after a timeout. It is `unsettled` until another record is appended behind it: this coordinator goes
on as if the record weren't there, but the next one reads it.
"""

from __future__ import annotations

from ....language import Bool as Truth
from ....language import (
    Expression,
    Int,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    each,
    event,
    if_,
    record,
    set_of,
    size,
    some,
    to_each,
)
from ....language.expressions import Operand
from ...messages import (
    APPEND_FAILURES,
    EPOCH,
    FAILOVERS,
    NO_EPOCH,
    NO_TIMESTAMP,
    PARTITION,
    PARTITIONS,
    PRODUCER_ID,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    clock,
    connection,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ...releases.features import (
    completes_once,
    overflow_answered,
    previous_id_forgotten,
    transaction_version_2,
)
from .. import entry
from .. import markers as markers  # its fields of the entry come first
from ..entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    c,
    p,
)
from ..requests.end_txn import answer_fencers

logged_epoch = transaction.field(
    "logged_epoch", EPOCH, NO_EPOCH, doc="The producer epoch of the log's last record."
)
logged_partitions = transaction.field(
    "logged_partitions", Set(PARTITION), doc="The partitions of the log's last record."
)

LogRecord = record(
    "LogRecord",
    state=entry.TransactionState,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    last_producer_epoch=EPOCH,
    next_id=Optional(PRODUCER_ID),
    partitions=Set(PARTITION),
    client_transaction_version=Int(0, 2),
)
completed_record = transaction.field(
    "completed_record",
    Optional(LogRecord),
    doc="The record that a second thread will write: the end is complete.",
)
unsettled = transaction.field(
    "unsettled", Optional(LogRecord), doc="The log's last record if its append has failed."
)

log_append = event("log append", event_doc="The pending record has been replicated.")
begin_completion = event("begin completion", event_doc="After the Prepare record was appended.")
append_failure = event(
    "append failure",
    record_kept=Truth(),
    error=Errors,
    event_doc="The append fails, or takes too long; the record may be in the log all the same.",
)

# Answers to the requests that wait for a record -------------------------------------------------


def answer_init(error: Expression, producer_epoch: Operand = NO_EPOCH) -> Sending:
    """The response to InitProducerId."""
    return to_each(
        c,
        (entry.pending == EMPTY) & (entry.asked_by[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=entry.pending_id,
            producer_epoch=producer_epoch,
        ),
    )


def answer_add(error: Expression) -> Sending:
    """The response to a client's AddPartitionsToTxn."""
    return to_each(
        c,
        (entry.pending == ONGOING)
        & ~transaction_version_2
        & (entry.asked_by[c] == connection.at(c)),
        to_each(
            p,
            p.is_in(entry.adding_for[c]),
            AddPartitionsToTxnResponse(
                producer=c, partition=p, error=error, connection=connection.at(c)
            ),
        ),
    )


def answer_add_by_leader(error: Expression) -> Sending:
    """The response to a leader that has a partition added."""
    return to_each(
        c,
        (entry.pending == ONGOING) & transaction_version_2,
        to_each(
            p,
            p.is_in(entry.adding_for[c]),
            AddPartitionsByLeaderResponse(producer=c, partition=p, error=error),
        ),
    )


def answer_end(
    error: Expression,
    when: Expression,
    producer_id: Operand = entry.producer_id,
    producer_epoch: Operand = NO_EPOCH,
) -> Sending:
    """The response to EndTxn."""
    return to_each(
        c,
        when & (entry.asked_by[c] == connection.at(c)),
        EndTxnResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        ),
    )


waits_for_end = entry.pending.is_in(PREPARE_COMMIT, PREPARE_ABORT) | (
    entry.is_prepared & ~entry.pending.is_set
)


def answer_all(error: Expression, fencers: Expression | bool = True) -> tuple[Sending, ...]:
    """The responses to all requests that wait for a record which isn't appended."""
    return (
        answer_fencers(error, fencers),
        answer_init(error),
        answer_add(error),
        answer_add_by_leader(error),
        answer_end(error, waits_for_end),
    )


# The append succeeds ----------------------------------------------------------------------------

rotates = entry.next_id.is_set
"""Whether the completion switches to the next producer id, at epoch 0."""
kept_previous_id = if_(previous_id_forgotten, some(entry.producer_id), entry.previous_id)
end_is_ahead = ~transaction_version_2 & entry.ends_ahead
"""Whether the end was asked for under another epoch than the entry has: nobody completes it."""

log_appended = Table(
    transaction,
    on=log_append,
    others=(producer, producer_id_manager),
    when=entry.in_transition & (~entry.completing | (size(entry.partitions) == 0)),
    source="TransactionMetadata.completeTransitionTo",
    set={
        entry.pending: None,
        entry.pending_epoch: NO_EPOCH,
        entry.pending_last_epoch: NO_EPOCH,
        entry.pending_partitions: set_of(),
        unsettled: None,
    },
    rows=(
        Row(
            "initialized",
            "The producer id and epoch are in the log, and given out",
            when=entry.pending == EMPTY,
            goto=EMPTY,
            set={
                entry.pending_id: entry.producer_id,
                entry.producer_id: entry.pending_id,
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: entry.pending_last_epoch,
                entry.previous_id: some(entry.producer_id),
                entry.txn_timeout_ms: entry.pending_timeout_ms,
                entry.txn_start_timestamp: if_(
                    previous_id_forgotten, NO_TIMESTAMP, entry.txn_start_timestamp
                ),
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: set_of(),
                entry.asked_by: NOBODY,
                entry.adding_for: each(c, set_of()),
            },
            send=(answer_init(Errors.NONE, entry.pending_epoch),),
        ),
        Row(
            "partitions-added",
            "The partitions are in the log, and part of the transaction",
            when=entry.pending == ONGOING,
            goto=ONGOING,
            set={
                entry.pending_id: entry.producer_id,
                entry.partitions: entry.pending_partitions,
                entry.previous_id: kept_previous_id,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.producer_epoch,
                logged_partitions: entry.pending_partitions,
                entry.asked_by: NOBODY,
                entry.adding_for: each(c, set_of()),
            },
            send=(answer_add(Errors.NONE), answer_add_by_leader(Errors.NONE)),
        ),
        Row(
            "commit-prepared",
            "The decision to commit is in the log",
            when=entry.pending == PREPARE_COMMIT,
            goto=PREPARE_COMMIT,
            set={
                entry.pending_id: entry.producer_id,
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: entry.pending_last_epoch,
                entry.previous_id: kept_previous_id,
                entry.failed_fence: False,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: entry.partitions,
                entry.asked_by: if_(end_is_ahead, NOBODY, entry.asked_by),
                entry.fenced_for: if_(
                    end_is_ahead & ~entry.fence_to_come, NOBODY, entry.fenced_for
                ),
            },
            send=(
                answer_end(entry.fenced, end_is_ahead),
                answer_fencers(entry.fenced, end_is_ahead & ~entry.fence_to_come),
            ),
        ),
        Row(
            "abort-prepared",
            "The decision to abort is in the log",
            when=entry.pending == PREPARE_ABORT,
            goto=PREPARE_ABORT,
            set={
                entry.pending_id: entry.producer_id,
                entry.producer_epoch: entry.pending_epoch,
                entry.last_producer_epoch: entry.pending_last_epoch,
                entry.previous_id: kept_previous_id,
                entry.failed_fence: False,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: entry.pending_epoch,
                logged_partitions: entry.partitions,
                entry.asked_by: if_(end_is_ahead, NOBODY, entry.asked_by),
                entry.fenced_for: if_(
                    end_is_ahead & ~entry.fence_to_come, NOBODY, entry.fenced_for
                ),
            },
            send=(
                answer_end(entry.fenced, end_is_ahead),
                answer_fencers(entry.fenced, end_is_ahead & ~entry.fence_to_come),
            ),
        ),
        Row(
            "commit-completed",
            "The completed commit is in the log",
            when=entry.pending == COMPLETE_COMMIT,
            goto=COMPLETE_COMMIT,
            set={
                entry.pending_id: entry.producer_id,
                entry.producer_id: if_(rotates, entry.next_id.value, entry.producer_id),
                entry.producer_epoch: if_(rotates, 0, entry.producer_epoch),
                entry.previous_id: if_(
                    previous_id_forgotten | (entry.pending_version == 2),
                    some(entry.producer_id),
                    entry.previous_id,
                ),
                entry.next_id: None,
                entry.failed_fence: False,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: if_(rotates, 0, entry.producer_epoch),
                logged_partitions: set_of(),
                # Two brokers' answers may come to two threads, which both write the record.
                completed_record: if_(
                    completes_once | (PARTITIONS < 2),
                    None,
                    some(
                        LogRecord(
                            state=entry.pending.value,
                            producer_id=entry.producer_id,
                            producer_epoch=entry.producer_epoch,
                            last_producer_epoch=entry.last_producer_epoch,
                            next_id=None,
                            partitions=set_of(),
                            client_transaction_version=entry.pending_version,
                        )
                    ),
                ),
            },
        ),
        Row(
            "abort-completed",
            "The completed abort is in the log",
            when=entry.pending == COMPLETE_ABORT,
            goto=COMPLETE_ABORT,
            set={
                entry.pending_id: entry.producer_id,
                entry.producer_id: if_(rotates, entry.next_id.value, entry.producer_id),
                entry.producer_epoch: if_(rotates, 0, entry.producer_epoch),
                entry.previous_id: if_(
                    previous_id_forgotten | (entry.pending_version == 2),
                    some(entry.producer_id),
                    entry.previous_id,
                ),
                entry.next_id: None,
                entry.failed_fence: False,
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                logged_epoch: if_(rotates, 0, entry.producer_epoch),
                logged_partitions: set_of(),
                # Two brokers' answers may come to two threads, which both write the record.
                completed_record: if_(
                    completes_once | (PARTITIONS < 2),
                    None,
                    some(
                        LogRecord(
                            state=entry.pending.value,
                            producer_id=entry.producer_id,
                            producer_epoch=entry.producer_epoch,
                            last_producer_epoch=entry.last_producer_epoch,
                            next_id=None,
                            partitions=set_of(),
                            client_transaction_version=entry.pending_version,
                        )
                    ),
                ),
            },
        ),
        Row(
            "forgotten",
            "The tombstone is in the log: the next request makes a new entry, with a new id",
            goto=EMPTY,
            set={
                entry.pending_id: offered_id.value,
                entry.producer_id: offered_id.value,
                entry.producer_epoch: NO_EPOCH,
                entry.last_producer_epoch: NO_EPOCH,
                entry.previous_id: None,
                entry.next_id: None,
                entry.failed_fence: False,
                logged_epoch: NO_EPOCH,
                offered_id: entry.offered_id_after,
            },
            source="TransactionStateManager.writeTombstonesForExpiredTransactionalIds",
        ),
    ),
)

# The end is decided -----------------------------------------------------------------------------

answers_next_id = transaction_version_2 & overflow_answered & entry.next_id.is_set
"""Whether the response has the producer id after the end, at epoch 0."""

completion_begins = Table(
    transaction,
    on=begin_completion,
    others=(producer, clock),
    when=entry.is_prepared & ~entry.pending.is_set & ~end_is_ahead,
    source="TransactionCoordinator.endTransaction, sendTxnMarkersCallback",
    rows=(
        Row(
            "send-markers",
            "The client is answered, and markers go to the partitions",
            set={
                entry.pending: if_(entry.state == PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by: NOBODY,
                # A fence whose own end is to come answers those that it has fenced.
                entry.fenced_for: if_(entry.fence_to_come, entry.fenced_for, NOBODY),
            },
            send=(
                answer_fencers(Errors.CONCURRENT_TRANSACTIONS, ~entry.fence_to_come),
                answer_end(
                    Errors.NONE,
                    entry.is_prepared,
                    if_(answers_next_id, entry.next_id.value, entry.producer_id),
                    if_(
                        transaction_version_2,
                        if_(answers_next_id, 0, entry.producer_epoch),
                        NO_EPOCH,
                    ),
                ),
            ),
        ),
    ),
)

# The append fails -------------------------------------------------------------------------------

append_fails = Table(
    transaction,
    on=append_failure,
    others=(producer,),
    when=(APPEND_FAILURES > 0)
    & entry.in_transition
    & (~entry.completing | ~append_failure.record_kept)
    & ((FAILOVERS > 0) | ~append_failure.record_kept),
    source="TransactionStateManager.appendTransactionToLog",
    set={
        entry.pending: None,
        entry.pending_id: entry.producer_id,
        entry.pending_epoch: NO_EPOCH,
        entry.pending_last_epoch: NO_EPOCH,
        entry.pending_partitions: set_of(),
        entry.next_id: if_(entry.is_prepared, entry.next_id, None),
        entry.ends_ahead: False,
        entry.asked_by: NOBODY,
        entry.adding_for: each(c, set_of()),
        # A fence whose own end is to come answers those that it has fenced.
        entry.fenced_for: if_(entry.fence_to_come, entry.fenced_for, NOBODY),
    },
    rows=(
        Row(
            "record-in-log",
            "The transition is forgotten, but its record is in the log",
            when=append_failure.record_kept,
            set={
                unsettled: some(
                    LogRecord(
                        state=entry.pending.value,
                        producer_id=if_(
                            entry.pending == EMPTY, entry.pending_id, entry.producer_id
                        ),
                        producer_epoch=if_(
                            entry.pending == ONGOING, entry.producer_epoch, entry.pending_epoch
                        ),
                        last_producer_epoch=if_(
                            entry.pending == ONGOING,
                            entry.last_producer_epoch,
                            entry.pending_last_epoch,
                        ),
                        next_id=entry.next_id,
                        partitions=if_(
                            entry.pending == EMPTY,
                            set_of(),
                            if_(
                                entry.pending == ONGOING,
                                entry.pending_partitions,
                                entry.partitions,
                            ),
                        ),
                        client_transaction_version=entry.pending_version,
                    )
                ),
            },
            send=answer_all(append_failure.error, ~entry.fence_to_come),
        ),
        Row(
            "record-lost",
            "The transition is forgotten, and its record isn't in the log",
            send=answer_all(append_failure.error, ~entry.fence_to_come),
        ),
    ),
)

FAULTY_EVENTS = (append_failure,)
TABLES = (log_appended, completion_begins, append_fails)
