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
    Optional,
    Row,
    Sending,
    Set,
    Table,
    constant,
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
    last_epoch_in_log,
    overflow_answered,
    own_completion_cancelled,
    previous_id_forgotten,
    rotation_in_log,
    transaction_version_2,
    unused_id_expires,
    version_2_draft,
)
from ..messages import (
    APPEND_FAILURES,
    EPOCH,
    FAILOVERS,
    FAULTS,
    ID_EXPIRIES,
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
    is_past,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from .end_txn import tell_fencers
from .entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
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
    coordinator_epoch,
    dated,
    ends_ahead,
    failed_fence,
    fence_end,
    fence_to_come,
    fenced,
    fenced_for,
    in_transition,
    is_known,
    is_prepared,
    is_settled,
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
from .markers import completion_dropped, left_behind, marker_connection, marker_sent

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
failover = event(
    "coordinator failover", record_kept=Truth(),
    event_doc="Another broker takes over, with or without the record that is being appended.",
)  # fmt: skip
late_failover = event(
    "coordinator failover after a failed append",
    event_doc="Another broker takes over, and finds the record whose append failed.",
)
expiry = event("transactional id expiry", event_doc="The id has not been in use for long.")

ID_EXPIRATION = constant(
    "transactional_id_expiration_ms", 0, 0, 0, real=604_800_000,
    meaning="transactional.id.expiration.ms",
)  # fmt: skip

# What a record says -----------------------------------------------------------------------------

_NOTHING_PENDING: Updates = {
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
_ends_draft = version_2_draft & (pending_version == 2)
_completed: Updates = {
    producer_id: if_(_switches, next_id.value, producer_id),
    producer_epoch: if_(_switches, 0, producer_epoch),
    logged_epoch: if_(_switches, 0, producer_epoch),
    logged_partitions: set_of(),
    previous_id: if_(
        previous_id_forgotten | (pending_version == 2), some(producer_id), previous_id
    ),
    last_producer_epoch: if_(_ends_draft, producer_epoch, last_producer_epoch),
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

recorded_last_epoch = if_(completing & version_2_draft, producer_epoch, last_producer_epoch)
"""What a Complete record says of the epoch before."""

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

_FORGOTTEN: Updates = {
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
_may_come_back = (LATEST > 0) | offered_id.is_set

# The append succeeds ----------------------------------------------------------------------------

_APPENDED = "TransactionMetadata.completeTransitionTo"
_NOBODY_ASKS: Updates = {asked_by: NOBODY, adding_for: each(c, set_of())}


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
        set={**_NOTHING_PENDING, **RECORDS[target], **more, unsettled: None},
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
            )
        ),
    )
}

log_appended = Table(
    transaction,
    on=log_append,
    elsewhere=(producer, producer_id_manager),
    when=in_transition & (~completing | (size(partitions) == 0)),
    bounded_when=~completion_dropped,
    rows=(
        _appended(
            "producer id given out",
            EMPTY,
            _tell_initialized(Errors.NONE, pending_epoch),
            more=_NOBODY_ASKS,
        ),
        _appended("partitions added", ONGOING, *_tell_added(Errors.NONE), more=_NOBODY_ASKS),
        _appended("commit decided", PREPARE_COMMIT, *_told_ahead, more=_AHEAD),
        _appended("abort decided", PREPARE_ABORT, *_told_ahead, more=_AHEAD),
        _appended("commit completed", COMPLETE_COMMIT, more=_COMPLETED_TWICE),
        _appended("abort completed", COMPLETE_ABORT, more=_COMPLETED_TWICE),
        Row(
            "transactional id forgotten",
            goto=EMPTY,
            set={**_NOTHING_PENDING, **_FORGOTTEN, pending_id: offered_id.value, unsettled: None},
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
    elsewhere=(producer, clock),
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
                        transaction_version_2 | version_2_draft,
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
    **_NOTHING_PENDING,
    **_NOBODY_ASKS,
    **_FENCERS_TOLD,
    ends_ahead: False,
    next_id: if_(is_prepared, next_id, None),
}
_adds = pending == ONGOING
append_fails = Table(
    transaction,
    on=append_failure,
    elsewhere=(producer,),
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

# The coordinator fails over ---------------------------------------------------------------------

_LOADED = "TransactionStateManager.loadTransactionsForTxnTopicPartition"
_memory_lost: Updates = {
    **_NOTHING_PENDING,
    **_NOBODY_ASKS,
    unsettled: None,
    fence_end: None,
    fenced_for: NOBODY,
    ends_ahead: False,
    failed_fence: False,
    left_behind: if_(
        own_completion_cancelled | (FAULTS < 3) | (size(marker_sent) == 0),
        left_behind,
        some(coordinator_epoch),
    ),
    completion_dropped: False,
    marker_sent: set_of(),
    marker_connection: each(p, marker_connection[p] + 1),
    coordinator_epoch: coordinator_epoch + 1,
}


def reloaded(fields: Updates, target: Expression = state) -> Updates:
    """The entry as a new coordinator has it, where the log's last record is of the state `target`
    and says `fields`. An end that is decided is on its way to be complete before any request."""

    def said(of: Expression, in_log: Expression, without: Operand) -> Expression:
        return if_(in_log, fields.get(of, of), without)

    decided = target.is_in(PREPARE_COMMIT, PREPARE_ABORT)
    version = said(client_transaction_version, decided, pending_version)
    return {
        **fields,
        **_memory_lost,
        **{of: if_(decided, at, of) for of, at in dated(version=version).items()},
        pending: if_(decided, if_(target == PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT), None),
        pending_id: fields.get(producer_id, producer_id),
        txn_start_timestamp: if_(
            target == EMPTY, NO_TIMESTAMP, fields.get(txn_start_timestamp, txn_start_timestamp)
        ),
        last_producer_epoch: said(last_producer_epoch, last_epoch_in_log, NO_EPOCH),
        previous_id: said(previous_id, rotation_in_log, None),
        next_id: said(next_id, rotation_in_log, None),
    }


_is_kept = failover.record_kept & in_transition & (~completing | (size(partitions) == 0))


def _found(name: str, target: Expression) -> Row:
    return Row(
        name,
        when=_is_kept & (pending == target),
        goto=target,
        set=reloaded(RECORDS[target], target),
        send=tell_all(Errors.NOT_COORDINATOR),
        source=_LOADED,
    )


fails_over = Table(
    transaction,
    on=failover,
    elsewhere=(producer, producer_id_manager, clock),
    when=(FAILOVERS > 0) & (is_known | pending.is_set) & (~failover.record_kept | _is_kept),
    rows=(
        _found("the new epoch is in the log", EMPTY),
        _found("the new partitions are in the log", ONGOING),
        _found("the commit is in the log", PREPARE_COMMIT),
        _found("the abort is in the log", PREPARE_ABORT),
        _found("the completed commit is in the log", COMPLETE_COMMIT),
        _found("the completed abort is in the log", COMPLETE_ABORT),
        Row(
            "the tombstone is in the log",
            when=_is_kept,
            goto=EMPTY,
            set={**reloaded(_FORGOTTEN), pending_id: offered_id.value},
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
        Row(
            "no new record is in the log",
            set={
                **reloaded({producer_epoch: logged_epoch, partitions: logged_partitions}),
                next_id: if_(rotation_in_log & is_prepared, next_id, None),
            },
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
    ),
)

_record = unsettled.value
_surfaced: Updates = {
    producer_id: _record.producer_id,
    producer_epoch: _record.producer_epoch,
    last_producer_epoch: _record.last_producer_epoch,
    logged_epoch: _record.producer_epoch,
    partitions: _record.partitions,
    logged_partitions: _record.partitions,
    previous_id: some(producer_id),
    next_id: _record.next_id,
}


def _surfaces(name: str, target: Expression, prepared_in: Expression) -> Row:
    """The entry is in the state in which the record was prepared."""
    return Row(
        name,
        when=prepared_in & (_record.state == target),
        goto=target,
        set=reloaded(_surfaced, target),
        send=tell_all(Errors.NOT_COORDINATOR),
        source=_LOADED,
    )


fails_over_late = Table(
    transaction,
    on=late_failover,
    elsewhere=(producer, producer_id_manager, clock),
    when=unsettled.is_set & ((_record.state != DEAD) | _may_come_back),
    doc="The failure of an append and of its coordinator are one fault.",
    rows=(
        _surfaces("the new epoch is in the log", EMPTY, is_settled),
        _surfaces("the new partitions are in the log", ONGOING, is_settled | (state == ONGOING)),
        _surfaces("the commit is in the log", PREPARE_COMMIT, state == ONGOING),
        _surfaces(
            "the abort is in the log",
            PREPARE_ABORT,
            (state == ONGOING) | (transaction_version_2 & is_settled),
        ),
        Row(
            "the tombstone is in the log",
            when=is_settled & (_record.state == DEAD),
            goto=EMPTY,
            set={**reloaded(_FORGOTTEN), pending_id: offered_id.value},
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
    ),
)

# The transactional id expires -------------------------------------------------------------------

expires = Table(
    transaction,
    on=expiry,
    elsewhere=(clock, producer_id_manager),
    when=(ID_EXPIRIES > 0)
    & is_settled
    & ~pending.is_set
    & _may_come_back
    & is_past(txn_last_update_timestamp + ID_EXPIRATION - 1),
    bounded_when=is_known,
    doc="In a bounded run an id without an epoch isn't there.",
    rows=(
        Row(
            "no epoch to prepare",
            when=~is_known,
            during=~unused_id_expires,
            only_real=True,
            source="TransactionMetadata.prepareTransitionTo in 3.4.0, IllegalArgumentException",
            note="The pass over the expired ids ends here.",
        ),
        Row(
            "write a tombstone",
            set={pending: DEAD},
            source="TransactionStateManager.removeExpiredTransactionalIds",
        ),
    ),
)

FAULTY_EVENTS = (append_failure, failover, expiry)
TABLES = (log_appended, completion_begins, append_fails, fails_over, fails_over_late, expires)
