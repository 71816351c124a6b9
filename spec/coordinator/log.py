"""The transaction log: what becomes of a record that is appended, and of the entry with it.

A record is appended, fails to be, or is in the log or not when the next coordinator reads it. That
coordinator knows what the log's last record says: the fields `logged_epoch` and `logged_partitions`
hold what it says otherwise than the entry. A record whose append failed (one that timed out, say)
may be in the log all the same: it is `unsettled` until another record is appended behind it. The
coordinator goes on as if it weren't there, and the next one finds it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...language import Bool as Truth
from ...language import (
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
from ...language.expressions import Operand
from ..messages import (
    APPEND_FAILURES,
    EPOCH,
    FAILOVERS,
    LATEST,
    NO_EPOCH,
    NO_TIMESTAMP,
    PARTITION,
    PARTITIONS,
    PRODUCER_ID,
    REAL,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    clock,
    connection,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ..releases.features import (
    completes_once,
    overflow_answered,
    previous_id_forgotten,
    transaction_version_2,
)
from . import entry
from .end_txn import answer_fencers
from .entry import c, p
from .markers import completion_dropped

Updates = Mapping[Expression, Operand]

logged_epoch = transaction.field(
    "logged_epoch", EPOCH, NO_EPOCH, doc="The producer epoch of the log's last record."
)
logged_partitions = transaction.field(
    "logged_partitions", Set(PARTITION), doc="The partitions of the log's last record."
)

LogRecord = record(
    "LogRecord", state=entry.TransactionState, producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    last_producer_epoch=EPOCH, next_id=Optional(PRODUCER_ID), partitions=Set(PARTITION),
    client_transaction_version=Int(0, 2),
)  # fmt: skip
completed_record = transaction.field(
    "completed_record", Optional(LogRecord), only_bounded=True,
    doc="The record that a second thread will write: the end is complete.",
)  # fmt: skip
unsettled = transaction.field(
    "unsettled", Optional(LogRecord), doc="The log's last record if its append has failed."
)

log_append = event("log append", event_doc="The pending record has been replicated.")
begin_completion = event("begin completion", event_doc="After the Prepare record was appended.")
append_failure = event(
    "append failure",
    record_kept=Truth(),
    event_doc="The append fails, or takes too long; the record may be in the log all the same.",
).at_real_ranges(error=(Errors, Errors.COORDINATOR_NOT_AVAILABLE))


# The content of a record -------------------------------------------------------------------------

NOTHING_PENDING: Updates = {
    entry.pending: None,
    entry.pending_id: entry.producer_id,
    entry.pending_epoch: NO_EPOCH,
    entry.pending_last_epoch: NO_EPOCH,
    entry.pending_partitions: set_of(),
}
_switches = entry.next_id.is_set
_previous_id = if_(previous_id_forgotten, some(entry.producer_id), entry.previous_id)
_dated: Updates = {
    entry.txn_start_timestamp: entry.pending_start_timestamp,
    entry.txn_last_update_timestamp: entry.pending_update_timestamp,
    entry.client_transaction_version: entry.pending_version,
}
_initialized: Updates = {
    entry.producer_id: entry.pending_id,
    entry.producer_epoch: entry.pending_epoch,
    entry.last_producer_epoch: entry.pending_last_epoch,
    logged_epoch: entry.pending_epoch,
    logged_partitions: set_of(),
    entry.previous_id: some(entry.producer_id),
    entry.txn_timeout_ms: entry.pending_timeout_ms,
    **_dated,
    # the start of the transaction before is kept
    entry.txn_start_timestamp: if_(previous_id_forgotten, NO_TIMESTAMP, entry.txn_start_timestamp),
}
_added: Updates = {
    entry.partitions: entry.pending_partitions,
    logged_epoch: entry.producer_epoch,
    logged_partitions: entry.pending_partitions,
    entry.previous_id: _previous_id,
    **_dated,
}
_decided: Updates = {
    entry.producer_epoch: entry.pending_epoch,
    entry.last_producer_epoch: entry.pending_last_epoch,
    logged_epoch: entry.pending_epoch,
    logged_partitions: entry.partitions,
    entry.previous_id: _previous_id,
    entry.failed_fence: False,
    **_dated,
}
_completed: Updates = {
    entry.producer_id: if_(_switches, entry.next_id.value, entry.producer_id),
    entry.producer_epoch: if_(_switches, 0, entry.producer_epoch),
    logged_epoch: if_(_switches, 0, entry.producer_epoch),
    logged_partitions: set_of(),
    entry.previous_id: if_(
        previous_id_forgotten | (entry.pending_version == 2),
        some(entry.producer_id),
        entry.previous_id,
    ),
    entry.next_id: None,
    entry.failed_fence: False,
    **_dated,
}

RECORDS: Mapping[Expression, Updates] = {
    entry.EMPTY: _initialized,
    entry.ONGOING: _added,
    entry.PREPARE_COMMIT: _decided,
    entry.PREPARE_ABORT: _decided,
    entry.COMPLETE_COMMIT: _completed,
    entry.COMPLETE_ABORT: _completed,
}
"""The entry after the record of a state is in the log.

TransactionMetadata.completeTransitionTo
"""

FORGOTTEN: Updates = {
    # the next request about the id makes a new entry, with the next producer id
    entry.producer_id: offered_id.value,
    entry.producer_epoch: NO_EPOCH,
    entry.last_producer_epoch: NO_EPOCH,
    logged_epoch: NO_EPOCH,
    entry.previous_id: None,
    entry.next_id: None,
    entry.failed_fence: False,
} | entry.ID_TAKEN
# a bounded run goes on with a forgotten id as long as there are producer ids for it
may_come_back = (LATEST > 0) | offered_id.is_set

# The append succeeds ----------------------------------------------------------------------------

_APPENDED = "TransactionMetadata.completeTransitionTo"
NOBODY_ASKS: Updates = {entry.asked_by: entry.NOBODY, entry.adding_for: each(c, set_of())}


def _tell_added(error: Expression) -> tuple[Sending, Sending]:
    """The answer to whoever asked for partitions to be added, a client or a leader."""
    wanted = entry.pending == entry.ONGOING
    return (
        to_each(
            c,
            wanted & ~transaction_version_2 & (entry.asked_by[c] == connection.at(c)),
            to_each(
                p,
                p.is_in(entry.adding_for[c]),
                AddPartitionsToTxnResponse(
                    producer=c, partition=p, error=error, connection=connection.at(c)
                ),
            ),
        ),
        to_each(
            c,
            wanted & transaction_version_2,
            to_each(
                p,
                p.is_in(entry.adding_for[c]),
                AddPartitionsByLeaderResponse(producer=c, partition=p, error=error),
            ),
        ),
    )


def _tell_initialized(error: Expression, epoch: Operand) -> Sending:
    return to_each(
        c,
        (entry.pending == entry.EMPTY) & (entry.asked_by[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=entry.pending_id,
            producer_epoch=epoch,
        ),
    )


def _tell_ended(when: Expression, error: Expression, new_id: Operand, epoch: Operand) -> Sending:
    return to_each(
        c,
        when & (entry.asked_by[c] == connection.at(c)),
        EndTxnResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=new_id,
            producer_epoch=epoch,
        ),
    )


def _appended(name: str, target: Expression, *send: Sending, more: Updates) -> Row:
    return Row(
        name,
        when=entry.pending == target,
        goto=target,
        set={**NOTHING_PENDING, **RECORDS[target], **more, unsettled: None},
        send=send,
        source=_APPENDED,
    )


_ahead = ~transaction_version_2 & entry.ends_ahead
_answered_ahead = (
    _tell_ended(_ahead, entry.fenced, entry.producer_id, NO_EPOCH),
    answer_fencers(entry.fenced, _ahead & ~entry.fence_to_come),
)
_AHEAD: Updates = {
    entry.asked_by: if_(_ahead, entry.NOBODY, entry.asked_by),
    entry.fenced_for: if_(_ahead & ~entry.fence_to_come, entry.NOBODY, entry.fenced_for),
}
_FENCERS_ANSWERED: Updates = {
    entry.fenced_for: if_(entry.fence_to_come, entry.fenced_for, entry.NOBODY)
}
"""If a client's end has overtaken a fence, the fence's thread answers those that have fenced."""

# two threads have the answers of two brokers
_COMPLETED_TWICE: Updates = {
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
    )
}

log_appended = Table(
    transaction,
    on=log_append,
    others=(producer, producer_id_manager),
    when=entry.in_transition & (~entry.completing | (size(entry.partitions) == 0)),
    bounded_when=~completion_dropped,
    rows=(
        _appended(
            "producer id given out",
            entry.EMPTY,
            _tell_initialized(Errors.NONE, entry.pending_epoch),
            more=NOBODY_ASKS,
        ),
        _appended("partitions added", entry.ONGOING, *_tell_added(Errors.NONE), more=NOBODY_ASKS),
        _appended("commit decided", entry.PREPARE_COMMIT, *_answered_ahead, more=_AHEAD),
        _appended("abort decided", entry.PREPARE_ABORT, *_answered_ahead, more=_AHEAD),
        _appended("commit completed", entry.COMPLETE_COMMIT, more=_COMPLETED_TWICE),
        _appended("abort completed", entry.COMPLETE_ABORT, more=_COMPLETED_TWICE),
        Row(
            "transactional id forgotten",
            goto=entry.EMPTY,
            set={
                **NOTHING_PENDING,
                **FORGOTTEN,
                entry.pending_id: offered_id.value,
                unsettled: None,
            },
            source="TransactionStateManager.writeTombstonesForExpiredTransactionalIds",
        ),
    ),
)

COMPLETING: Updates = {
    entry.pending: if_(
        entry.state == entry.PREPARE_COMMIT, entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT
    )
} | entry.dated(version=entry.client_transaction_version)
"""The updates that prepare a decided end."""

_new_pair = transaction_version_2 & overflow_answered & entry.next_id.is_set
completion_begins = Table(
    transaction,
    on=begin_completion,
    others=(producer, clock),
    when=entry.is_prepared & ~entry.pending.is_set & ~_ahead,
    rows=(
        Row(
            "answer and send markers",
            set=COMPLETING | {entry.asked_by: entry.NOBODY} | _FENCERS_ANSWERED,
            send=(
                answer_fencers(Errors.CONCURRENT_TRANSACTIONS, ~entry.fence_to_come),
                _tell_ended(
                    entry.is_prepared,
                    Errors.NONE,
                    if_(_new_pair, entry.next_id.value, entry.producer_id),
                    if_(
                        transaction_version_2,
                        if_(_new_pair, 0, entry.producer_epoch),
                        NO_EPOCH,
                    ),
                ),
            ),
            source="TransactionCoordinator.endTransaction, after the Prepare record",
        ),
    ),
)

# The append fails -------------------------------------------------------------------------------

_awaits_end = entry.pending.is_in(entry.PREPARE_COMMIT, entry.PREPARE_ABORT) | (
    entry.is_prepared & ~entry.pending.is_set
)


def tell_all(error: Expression, fencers: Expression | bool = True) -> tuple[Sending, ...]:
    """The answer to everybody who waits for a record."""
    return (
        answer_fencers(error, fencers),
        _tell_initialized(error, NO_EPOCH),
        *_tell_added(error),
        _tell_ended(_awaits_end, error, entry.producer_id, NO_EPOCH),
    )


_APPEND = "TransactionStateManager.appendTransactionToLog"
TRANSITION_FORGOTTEN: Updates = {
    **NOTHING_PENDING,
    **NOBODY_ASKS,
    **_FENCERS_ANSWERED,
    entry.ends_ahead: False,
    entry.next_id: if_(entry.is_prepared, entry.next_id, None),
}
_adds = entry.pending == entry.ONGOING
append_fails = Table(
    transaction,
    on=append_failure,
    others=(producer,),
    when=(APPEND_FAILURES > 0)
    & entry.in_transition
    & (~entry.completing | ((REAL == 1) & ~append_failure.record_kept))
    & ((FAILOVERS > 0) | ~append_failure.record_kept),
    doc="A Complete record is appended again, so that its failure is a delay in a bounded run.",
    rows=(
        Row(
            "forget the transition, whose record is in the log",
            when=append_failure.record_kept,
            set={
                **TRANSITION_FORGOTTEN,
                unsettled: some(
                    LogRecord(
                        state=entry.pending.value,
                        producer_id=if_(
                            entry.pending == entry.EMPTY, entry.pending_id, entry.producer_id
                        ),
                        producer_epoch=if_(_adds, entry.producer_epoch, entry.pending_epoch),
                        last_producer_epoch=if_(
                            _adds, entry.last_producer_epoch, entry.pending_last_epoch
                        ),
                        next_id=entry.next_id,
                        partitions=if_(
                            entry.pending == entry.EMPTY,
                            set_of(),
                            if_(_adds, entry.pending_partitions, entry.partitions),
                        ),
                        client_transaction_version=entry.pending_version,
                    )
                ),
            },
            send=tell_all(append_failure.error, ~entry.fence_to_come),
            source=_APPEND,
        ),
        Row(
            "forget the transition",
            set=TRANSITION_FORGOTTEN,
            send=tell_all(append_failure.error, ~entry.fence_to_come),
            source=_APPEND,
        ),
    ),
)

FAULTY_EVENTS = (append_failure,)
TABLES = (log_appended, completion_begins, append_fails)
