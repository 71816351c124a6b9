"""The markers that end transactions, as a partition leader takes them.

Before 2.8 (KAFKA-10702) a marker that ended nothing left an entry in the index of aborted
transactions, too: from the marker to itself, where a reader finds no record to drop. A marker that
ends no transaction isn't kept in the log here, but for one whose records are deleted and whose
producer went with them: it keeps the next transaction's marker apart from them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...language import (
    Expression,
    Row,
    Sending,
    Table,
    any_of,
    append,
    element,
    if_,
    position,
    sequence_of,
)
from ...language.expressions import TRUE
from ..coordinator.markers import marker_connection
from ..features import (
    last_epoch_ends_open,
    ongoing_by_epoch,
    stale_epoch_first,
    state_outlives_records,
    strict_marker_epoch,
    transaction_version_2,
)
from ..messages import (
    DELETIONS,
    LARGEST_EPOCH,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    partition,
    transaction,
)
from .partition import (
    CHECK_EPOCH,
    Kind,
    LogEntry,
    c,
    log,
    producer_state,
    unguarded,
    verifying,
    waiting,
)

_marker = WriteTxnMarkers
_id, _epoch = _marker.producer_id, _marker.producer_epoch
_entry, _asked = producer_state[_id], verifying[_id]
_open = _entry.current_txn_first_offset.is_set
_stale = Errors.INVALID_PRODUCER_EPOCH


def outlives(asked: Expression, epoch: Expression) -> Expression:
    """Whether a question to the coordinator outlives a marker of this epoch (UnifiedLog's
    updateProducers): with version 2 a question at the marker's epoch is about the next
    transaction."""
    same_epoch = asked.is_set & (asked.value.producer_epoch == epoch)
    return transaction_version_2 & ongoing_by_epoch & same_epoch


_written = {
    _entry.producer_epoch: _epoch,
    _entry.batches: if_(_epoch == _entry.producer_epoch, _entry.batches, sequence_of()),
    _entry.coordinator_epoch: _marker.coordinator_epoch,
    _asked: if_(outlives(_asked, _epoch), _asked, None),
    # from 4.1 on an older batch is refused for its epoch, whatever becomes of its question
    waiting: unguarded(
        _id,
        unless=outlives(_asked, _epoch)
        & (~stale_epoch_first | (waiting[c].value.producer_epoch == _epoch)),
    ),
}
_APPEND = "ProducerAppendInfo.appendEndTxnMarker"


def _answer(error: Expression) -> Sending:
    return answer_on(
        marker_connection[_marker.partition], WriteTxnMarkersResponse, _marker.connection,
        partition=_marker.partition, error=error,
    )  # fmt: skip


def refusals(
    epoch: Expression,
    coordinator_epoch: Expression,
    entry: Expression,
    refused: Callable[[str, Expression, Expression, str, Expression], Row],
    counts: Expression = TRUE,
) -> tuple[Row, ...]:
    """ProducerAppendInfo's checks of a marker against a producer's `entry`, in their order.

    `refused` makes the row for a name, a condition, an error, its source and its features;
    `counts` says whether markers of this origin are checked.
    """

    def checked(condition: Expression) -> Expression:
        return condition if counts.same_as(TRUE) else counts & condition

    return (
        refused("stale epoch", checked(epoch < entry.producer_epoch), _stale, CHECK_EPOCH, TRUE),
        refused(
            "marker of an earlier transaction",
            checked(
                entry.current_txn_first_offset.is_set
                & (epoch == entry.producer_epoch)
                & ~(last_epoch_ends_open & (epoch == LARGEST_EPOCH))
            ),
            _stale,
            f"KIP-1228, KAFKA-20090, {CHECK_EPOCH}",
            strict_marker_epoch & transaction_version_2,
        ),
        refused(
            "coordinator fenced",
            checked(coordinator_epoch < entry.coordinator_epoch),
            Errors.TRANSACTION_COORDINATOR_FENCED,
            "ProducerAppendInfo.checkCoordinatorEpoch",
            TRUE,
        ),
    )


def _refused(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    return Row(name, when=when, reply=_answer(error), source=source, during=during)


_in_log = append(
    log,
    LogEntry(
        kind=if_(_marker.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
        producer_id=_id,
        producer_epoch=_epoch,
        record=0,
        txn=None,
    ),
)
_left, _later = element("left", log), element("later", log)
_is_unended = (
    (_left.kind == Kind.DATA)
    & (_left.producer_id == _id)
    & ~any_of(
        _later,
        (position(_later) > position(_left))
        & (_later.kind != Kind.DATA)
        & (_later.producer_id == _id),
    )
)

write_markers = Table(
    partition,
    on=WriteTxnMarkers,
    elsewhere=(transaction,),
    rows=(
        *refusals(_epoch, _marker.coordinator_epoch, _entry, _refused),
        Row(
            "end the transaction",
            when=_open,
            set=_written | {log: _in_log, _entry.current_txn_first_offset: None},
            reply=_answer(Errors.NONE),
            source=_APPEND,
        ),
        Row(
            "end what has gone with its records",
            when=(DELETIONS > 0) & any_of(_left, _is_unended),
            during=~state_outlives_records,
            set=_written | {log: _in_log},
            reply=_answer(Errors.NONE),
            source=f"{_APPEND}, ProducerStateManager.truncateHead before 2.4",
        ),
        Row(
            "no transaction to end",
            set=_written,
            reply=_answer(Errors.NONE),
            source=f"{_APPEND}, KAFKA-19999",
        ),
    ),
)

TABLES = (write_markers,)
