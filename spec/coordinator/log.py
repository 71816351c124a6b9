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
from ..features import (
    completes_once,
    overflow_answered,
    previous_id_forgotten,
    transaction_version_2,
)
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
from .end_txn import tell_fencers
from .entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ID_TAKEN,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
    adding_for,
    asked_by,
    c,
    client_transaction_version,
    completing,
    dated,
    ends_ahead,
    failed_fence,
    fence_to_come,
    fenced,
    fenced_for,
    in_transition,
    is_prepared,
    last_producer_epoch,
    next_id,
    p,
    partitions,
    pending,
    pending_epoch,
    pending_id,
    pending_last_epoch,
    pending_partitions,
    pending_start_timestamp,
    pending_timeout_ms,
    pending_update_timestamp,
    pending_version,
    previous_id,
    producer_epoch,
    producer_id,
    state,
    txn_last_update_timestamp,
    txn_start_timestamp,
    txn_timeout_ms,
)
from .markers import completion_dropped

Updates = Mapping[Expression, Operand]

logged_epoch = transaction.field(
    "logged_epoch", EPOCH, NO_EPOCH, doc="The producer epoch of the log's last record."
)
logged_partitions = transaction.field(
    "logged_partitions", Set(PARTITION), doc="The partitions of the log's last record."
)

LogRecord = record(
    "LogRecord", state=TransactionState, producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    last_producer_epoch=EPOCH, next_id=Optional(PRODUCER_ID), partitions=Set(PARTITION),
    client_transaction_version=Int(0, 2),
)  # fmt: skip
completed_record = transaction.field(
    "completed_record", Optional(LogRecord), only_bounded=True,
    doc="What a second thread is to write, that the end is complete.",
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


# What a record says -----------------------------------------------------------------------------

NOTHING_PENDING: Updates = {
    pending: None,
    pending_id: producer_id,
    pending_epoch: NO_EPOCH,
    pending_last_epoch: NO_EPOCH,
    pending_partitions: set_of(),
}
_switches = next_id.is_set
_previous_at_all = {previous_id: if_(previous_id_forgotten, some(producer_id), previous_id)}
_dated: Updates = {
    txn_start_timestamp: pending_start_timestamp,
    txn_last_update_timestamp: pending_update_timestamp,
    client_transaction_version: pending_version,
}
_completed: Updates = {
    producer_id: if_(_switches, next_id.value, producer_id),
    producer_epoch: if_(_switches, 0, producer_epoch),
    logged_epoch: if_(_switches, 0, producer_epoch),
    logged_partitions: set_of(),
    previous_id: if_(
        previous_id_forgotten | (pending_version == 2), some(producer_id), previous_id
    ),
    next_id: None,
    failed_fence: False,
} | _dated
_decided: Updates = (
    {
        producer_epoch: pending_epoch,
        last_producer_epoch: pending_last_epoch,
        logged_epoch: pending_epoch,
        logged_partitions: partitions,
        failed_fence: False,
    }
    | _dated
    | _previous_at_all
)

RECORDS: Mapping[Expression, Updates] = {
    EMPTY: {
        producer_id: pending_id,
        producer_epoch: pending_epoch,
        last_producer_epoch: pending_last_epoch,
        logged_epoch: pending_epoch,
        logged_partitions: set_of(),
        previous_id: some(producer_id),
        txn_timeout_ms: pending_timeout_ms,
    }
    | _dated
    # the start of the transaction before is kept
    | {txn_start_timestamp: if_(previous_id_forgotten, NO_TIMESTAMP, txn_start_timestamp)},
    ONGOING: {
        partitions: pending_partitions,
        logged_epoch: producer_epoch,
        logged_partitions: pending_partitions,
    }
    | _dated
    | _previous_at_all,
    PREPARE_COMMIT: _decided,
    PREPARE_ABORT: _decided,
    COMPLETE_COMMIT: _completed,
    COMPLETE_ABORT: _completed,
}
"""What the entry becomes when the record of a state is in the log.

TransactionMetadata.completeTransitionTo
"""

FORGOTTEN: Updates = {
    # the next request about the id makes a new entry, with the next producer id
    producer_id: offered_id.value,
    producer_epoch: NO_EPOCH,
    last_producer_epoch: NO_EPOCH,
    logged_epoch: NO_EPOCH,
    previous_id: None,
    next_id: None,
    failed_fence: False,
} | ID_TAKEN
# a bounded run goes on with a forgotten id as long as there are producer ids for it
may_come_back = (LATEST > 0) | offered_id.is_set

# The append succeeds ----------------------------------------------------------------------------

_APPENDED = "TransactionMetadata.completeTransitionTo"
NOBODY_ASKS: Updates = {asked_by: NOBODY, adding_for: each(c, set_of())}


def _tell_added(error: Expression) -> tuple[Sending, Sending]:
    """The answer to whoever asked for partitions to be added, a client or a leader."""
    wanted = pending == ONGOING
    return (
        to_each(
            c,
            wanted & ~transaction_version_2 & (asked_by[c] == connection.at(c)),
            to_each(
                p,
                p.is_in(adding_for[c]),
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
                p.is_in(adding_for[c]),
                AddPartitionsByLeaderResponse(producer=c, partition=p, error=error),
            ),
        ),
    )


def _tell_initialized(error: Expression, epoch: Operand) -> Sending:
    return to_each(
        c,
        (pending == EMPTY) & (asked_by[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=pending_id,
            producer_epoch=epoch,
        ),
    )


def _tell_ended(when: Expression, error: Expression, new_id: Operand, epoch: Operand) -> Sending:
    return to_each(
        c,
        when & (asked_by[c] == connection.at(c)),
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
        when=pending == target,
        goto=target,
        set={**NOTHING_PENDING, **RECORDS[target], **more, unsettled: None},
        send=send,
        source=_APPENDED,
    )


_ahead = ~transaction_version_2 & ends_ahead
_told_ahead = (
    _tell_ended(_ahead, fenced, producer_id, NO_EPOCH),
    tell_fencers(fenced, _ahead & ~fence_to_come),
)
_AHEAD: Updates = {
    asked_by: if_(_ahead, NOBODY, asked_by),
    fenced_for: if_(_ahead & ~fence_to_come, NOBODY, fenced_for),
}
_FENCERS_TOLD: Updates = {fenced_for: if_(fence_to_come, fenced_for, NOBODY)}
"""Where a client's end has overtaken a fence, its thread will tell who has fenced."""

# two threads have the answers of two brokers
_COMPLETED_TWICE: Updates = {
    completed_record: if_(
        completes_once | (PARTITIONS < 2),
        None,
        some(
            LogRecord(
                state=pending.value,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                last_producer_epoch=last_producer_epoch,
                next_id=None,
                partitions=set_of(),
                client_transaction_version=pending_version,
            )
        ),
    )
}

log_appended = Table(
    transaction,
    on=log_append,
    others=(producer, producer_id_manager),
    when=in_transition & (~completing | (size(partitions) == 0)),
    bounded_when=~completion_dropped,
    rows=(
        _appended(
            "producer id given out",
            EMPTY,
            _tell_initialized(Errors.NONE, pending_epoch),
            more=NOBODY_ASKS,
        ),
        _appended("partitions added", ONGOING, *_tell_added(Errors.NONE), more=NOBODY_ASKS),
        _appended("commit decided", PREPARE_COMMIT, *_told_ahead, more=_AHEAD),
        _appended("abort decided", PREPARE_ABORT, *_told_ahead, more=_AHEAD),
        _appended("commit completed", COMPLETE_COMMIT, more=_COMPLETED_TWICE),
        _appended("abort completed", COMPLETE_ABORT, more=_COMPLETED_TWICE),
        Row(
            "transactional id forgotten",
            goto=EMPTY,
            set={**NOTHING_PENDING, **FORGOTTEN, pending_id: offered_id.value, unsettled: None},
            source="TransactionStateManager.writeTombstonesForExpiredTransactionalIds",
        ),
    ),
)

COMPLETING: Updates = {
    pending: if_(state == PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT)
} | dated(version=client_transaction_version)
"""What is prepared when an end is decided. TransactionMetadata.prepareComplete"""

_new_pair = transaction_version_2 & overflow_answered & next_id.is_set
completion_begins = Table(
    transaction,
    on=begin_completion,
    others=(producer, clock),
    when=is_prepared & ~pending.is_set & ~_ahead,
    rows=(
        Row(
            "answer and send markers",
            set=COMPLETING | {asked_by: NOBODY} | _FENCERS_TOLD,
            send=(
                tell_fencers(Errors.CONCURRENT_TRANSACTIONS, ~fence_to_come),
                _tell_ended(
                    is_prepared,
                    Errors.NONE,
                    if_(_new_pair, next_id.value, producer_id),
                    if_(
                        transaction_version_2,
                        if_(_new_pair, 0, producer_epoch),
                        NO_EPOCH,
                    ),
                ),
            ),
            source="TransactionCoordinator.endTransaction, after the Prepare record",
        ),
    ),
)

# The append fails -------------------------------------------------------------------------------

_awaits_end = pending.is_in(PREPARE_COMMIT, PREPARE_ABORT) | (is_prepared & ~pending.is_set)


def tell_all(error: Expression, fencers: Expression | bool = True) -> tuple[Sending, ...]:
    """The answer to everybody who waits for a record."""
    return (
        tell_fencers(error, fencers),
        _tell_initialized(error, NO_EPOCH),
        *_tell_added(error),
        _tell_ended(_awaits_end, error, producer_id, NO_EPOCH),
    )


_APPEND = "TransactionStateManager.appendTransactionToLog"
TRANSITION_FORGOTTEN: Updates = {
    **NOTHING_PENDING,
    **NOBODY_ASKS,
    **_FENCERS_TOLD,
    ends_ahead: False,
    next_id: if_(is_prepared, next_id, None),
}
_adds = pending == ONGOING
append_fails = Table(
    transaction,
    on=append_failure,
    others=(producer,),
    when=(APPEND_FAILURES > 0)
    & in_transition
    & (~completing | ((REAL == 1) & ~append_failure.record_kept))
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
                        state=pending.value,
                        producer_id=if_(pending == EMPTY, pending_id, producer_id),
                        producer_epoch=if_(_adds, producer_epoch, pending_epoch),
                        last_producer_epoch=if_(_adds, last_producer_epoch, pending_last_epoch),
                        next_id=next_id,
                        partitions=if_(
                            pending == EMPTY,
                            set_of(),
                            if_(_adds, pending_partitions, partitions),
                        ),
                        client_transaction_version=pending_version,
                    )
                ),
            },
            send=tell_all(append_failure.error, ~fence_to_come),
            source=_APPEND,
        ),
        Row(
            "forget the transition",
            set=TRANSITION_FORGOTTEN,
            send=tell_all(append_failure.error, ~fence_to_come),
            source=_APPEND,
        ),
    ),
)

FAULTY_EVENTS = (append_failure,)
TABLES = (log_appended, completion_begins, append_fails)
