"""The coordinator fails over: what the next one reads from the transaction log."""

from __future__ import annotations

from ...language import Bool as Truth
from ...language import Expression, Row, Table, each, event, if_, set_of, size, some
from ...language.expressions import TRUE, Operand
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
from ..releases.features import (
    last_epoch_in_log,
    own_completion_cancelled,
    rotation_in_log,
)
from . import entry
from .entry import p
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
    entry.fence_end: None,
    entry.fenced_for: entry.NOBODY,
    entry.ends_ahead: False,
    entry.failed_fence: False,
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


def reloaded(fields: Updates, target: Expression = entry.state) -> Updates:
    """The entry as a new coordinator has it, where the log's last record is of the state `target`
    and says `fields`. An end that is decided is on its way to be complete before any request."""

    def said(of: Expression, in_log: Expression, without: Operand) -> Expression:
        return if_(in_log, fields.get(of, of), without)

    decided = target.is_in(entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
    version = said(entry.client_transaction_version, decided, entry.pending_version)
    return {
        **fields,
        **_memory_lost,
        **{of: if_(decided, at, of) for of, at in entry.dated(version=version).items()},
        entry.pending: if_(
            decided,
            if_(target == entry.PREPARE_COMMIT, entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT),
            None,
        ),
        entry.pending_id: fields.get(entry.producer_id, entry.producer_id),
        entry.txn_start_timestamp: if_(
            target == entry.EMPTY,
            NO_TIMESTAMP,
            fields.get(entry.txn_start_timestamp, entry.txn_start_timestamp),
        ),
        entry.last_producer_epoch: said(entry.last_producer_epoch, last_epoch_in_log, NO_EPOCH),
        entry.previous_id: said(entry.previous_id, rotation_in_log, None),
        entry.next_id: said(entry.next_id, rotation_in_log, None),
    }


_is_kept = (
    failover.record_kept & entry.in_transition & (~entry.completing | (size(entry.partitions) == 0))
)


def _found(name: str, target: Expression) -> Row:
    return Row(
        name,
        when=_is_kept & (entry.pending == target),
        goto=target,
        set=reloaded(RECORDS[target], target),
        send=tell_all(Errors.NOT_COORDINATOR),
        source=_LOADED,
    )


fails_over = Table(
    transaction,
    on=failover,
    others=(producer, producer_id_manager, clock),
    when=(FAILOVERS > 0)
    & (entry.is_known | entry.pending.is_set)
    & (~failover.record_kept | _is_kept),
    rows=(
        _found("the new epoch is in the log", entry.EMPTY),
        _found("the new partitions are in the log", entry.ONGOING),
        _found("the commit is in the log", entry.PREPARE_COMMIT),
        _found("the abort is in the log", entry.PREPARE_ABORT),
        _found("the completed commit is in the log", entry.COMPLETE_COMMIT),
        _found("the completed abort is in the log", entry.COMPLETE_ABORT),
        Row(
            "the tombstone is in the log",
            when=_is_kept,
            goto=entry.EMPTY,
            set={**reloaded(FORGOTTEN), entry.pending_id: offered_id.value},
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
        Row(
            "no new record is in the log",
            set={
                **reloaded(
                    {entry.producer_epoch: logged_epoch, entry.partitions: logged_partitions}
                ),
                entry.next_id: if_(rotation_in_log & entry.is_prepared, entry.next_id, None),
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
        entry.producer_id: found.producer_id,
        entry.producer_epoch: found.producer_epoch,
        entry.last_producer_epoch: found.last_producer_epoch,
        logged_epoch: found.producer_epoch,
        entry.partitions: found.partitions,
        logged_partitions: found.partitions,
        entry.previous_id: some(entry.producer_id),
        entry.next_id: found.next_id,
        entry.client_transaction_version: found.client_transaction_version,
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
_is_open_or_settled = entry.is_settled | (entry.state == entry.ONGOING)
fails_over_late = Table(
    transaction,
    on=late_failover,
    others=(producer, producer_id_manager, clock),
    when=unsettled.is_set & ((_record.state != entry.DEAD) | may_come_back),
    doc="The failure of an append and of its coordinator are one fault.",
    rows=(
        surfaces("the new epoch is in the log", _record, entry.EMPTY, entry.is_settled),
        surfaces("the new partitions are in the log", _record, entry.ONGOING, _is_open_or_settled),
        surfaces(
            "the commit is in the log", _record, entry.PREPARE_COMMIT, entry.state == entry.ONGOING
        ),
        surfaces("the abort is in the log", _record, entry.PREPARE_ABORT, _is_open_or_settled),
        Row(
            "the tombstone is in the log",
            when=entry.is_settled & (_record.state == entry.DEAD),
            goto=entry.EMPTY,
            set={**reloaded(FORGOTTEN), entry.pending_id: offered_id.value},
            send=tell_all(Errors.NOT_COORDINATOR),
            source=_LOADED,
        ),
    ),
)

FAULTY_EVENTS = (failover,)
TABLES = (fails_over, fails_over_late)
