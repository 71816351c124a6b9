"""The coordinator fails over: what the next one reads from the transaction log."""

from __future__ import annotations

from ...language import Bool as Truth
from ...language import Expression, Row, Table, each, event, if_, set_of, size, some
from ...language.expressions import TRUE, Operand
from ..features import (
    last_epoch_in_log,
    own_completion_cancelled,
    rotation_in_log,
)
from ..messages import (
    FAILOVERS,
    FAULTS,
    NO_EPOCH,
    NO_TIMESTAMP,
    Errors,
    clock,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from .entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    client_transaction_version,
    completing,
    coordinator_epoch,
    dated,
    ends_ahead,
    failed_fence,
    fence_end,
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
    pending_id,
    pending_version,
    previous_id,
    producer_epoch,
    producer_id,
    state,
    txn_start_timestamp,
)
from .log import (
    FORGOTTEN,
    NOBODY_ASKS,
    NOTHING_PENDING,
    RECORDS,
    Updates,
    logged_epoch,
    logged_partitions,
    may_come_back,
    tell_all,
    unsettled,
)
from .markers import completion_dropped, left_behind, marker_connection, marker_sent

failover = event(
    "coordinator failover", record_kept=Truth(),
    event_doc="Another broker takes over, with or without the record that is being appended.",
)  # fmt: skip
late_failover = event(
    "coordinator failover after a failed append",
    event_doc="Another broker takes over, and finds the record whose append failed.",
)

_LOADED = "TransactionStateManager.loadTransactionsForTxnTopicPartition"
_memory_lost: Updates = {
    **NOTHING_PENDING,
    **NOBODY_ASKS,
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
    others=(producer, producer_id_manager, clock),
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
            set={**reloaded(FORGOTTEN), pending_id: offered_id.value},
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


def surfaces(
    name: str, found: Expression, target: Expression, prepared_in: Expression = TRUE
) -> Row:
    """The row of a coordinator that finds a record of the state `target` as the log's last, which
    was prepared in a state that the entry is in."""
    fields: Updates = {
        producer_id: found.producer_id,
        producer_epoch: found.producer_epoch,
        last_producer_epoch: found.last_producer_epoch,
        logged_epoch: found.producer_epoch,
        partitions: found.partitions,
        logged_partitions: found.partitions,
        previous_id: some(producer_id),
        next_id: found.next_id,
        client_transaction_version: found.client_transaction_version,
    }
    return Row(
        name,
        when=prepared_in & (found.state == target),
        goto=target,
        set=reloaded(fields, target),
        send=tell_all(Errors.NOT_COORDINATOR),
        source=_LOADED,
    )


_record = unsettled.value
_is_open_or_settled = is_settled | (state == ONGOING)
fails_over_late = Table(
    transaction,
    on=late_failover,
    others=(producer, producer_id_manager, clock),
    when=unsettled.is_set & ((_record.state != DEAD) | may_come_back),
    doc="The failure of an append and of its coordinator are one fault.",
    rows=(
        surfaces("the new epoch is in the log", _record, EMPTY, is_settled),
        surfaces("the new partitions are in the log", _record, ONGOING, _is_open_or_settled),
        surfaces("the commit is in the log", _record, PREPARE_COMMIT, state == ONGOING),
        surfaces("the abort is in the log", _record, PREPARE_ABORT, _is_open_or_settled),
        Row(
            "the tombstone is in the log",
            when=is_settled & (_record.state == DEAD),
            goto=EMPTY,
            set={**reloaded(FORGOTTEN), pending_id: offered_id.value},
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
    ),
)

FAULTY_EVENTS = (failover,)
TABLES = (fails_over, fails_over_late)
