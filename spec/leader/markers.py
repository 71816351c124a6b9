"""The markers that end transactions, as a partition leader takes them.

Before 2.8 (KAFKA-10702) a marker that ended nothing left an entry in the index of aborted
transactions, too: from the marker to itself, where a reader finds no record to drop. A marker that
ends no transaction isn't kept in the log here, but for one whose records are deleted and whose
producer went with them: it keeps the next transaction's marker apart from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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
    size,
)
from ...language.expressions import TRUE, Operand
from ..coordinator.markers import marker_connection
from ..features import (
    empty_marker_ends_nothing,
    last_epoch_ends_open,
    marker_is_use,
    ongoing_by_epoch,
    stale_epoch_first,
    state_outlives_records,
    strict_marker_epoch,
    transaction_version_2,
)
from ..messages import (
    DELETIONS,
    LARGEST_EPOCH,
    NO_TIMESTAMP,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    partition,
    transaction,
)
from .produce import CHECK_EPOCH
from .state import (
    Kind,
    LogEntry,
    c,
    log,
    log_end_offset,
    producer_state,
    unguarded,
    verifying,
    waiting,
    where,
)

_APPEND = "ProducerAppendInfo.appendEndTxnMarker"


@dataclass(frozen=True)
class Marker:
    """A marker as a leader takes it: by default what a coordinator sends in a bounded run, at the
    log's end. `counts` says whether its epochs are checked."""

    producer_id: Expression
    producer_epoch: Expression
    coordinator_epoch: Expression
    result: Expression
    timestamp: Operand = NO_TIMESTAMP
    offset: Expression = log_end_offset
    counts: Expression = TRUE


MarkerAnswer: TypeAlias = Callable[[Expression, Expression | None], Sending]
"""The answer to a marker: an error, and where the transaction started that it ends."""


def _refusals(marker: Marker, answer: MarkerAnswer) -> tuple[Row, ...]:
    """ProducerAppendInfo's checks of a marker, in their order."""
    entry, epoch = producer_state[marker.producer_id], marker.producer_epoch

    def refused(
        name: str, when: Expression, error: Expression, source: str, during: Expression = TRUE
    ) -> Row:
        when = where(marker.counts, when)
        return Row(name, when=when, reply=answer(error, None), source=source, during=during)

    return (
        refused(
            "stale epoch", epoch < entry.producer_epoch, Errors.INVALID_PRODUCER_EPOCH, CHECK_EPOCH
        ),
        refused(
            "marker of an earlier transaction",
            entry.current_txn_first_offset.is_set
            & (epoch == entry.producer_epoch)
            & ~(last_epoch_ends_open & (epoch == LARGEST_EPOCH)),
            Errors.INVALID_PRODUCER_EPOCH,
            f"KIP-1228, KAFKA-20090, {CHECK_EPOCH}",
            strict_marker_epoch & transaction_version_2,
        ),
        refused(
            "coordinator fenced",
            marker.coordinator_epoch < entry.coordinator_epoch,
            Errors.TRANSACTION_COORDINATOR_FENCED,
            "ProducerAppendInfo.checkCoordinatorEpoch",
        ),
    )


def _outlives(asked: Expression, epoch: Expression) -> Expression:
    """Whether a question to the coordinator outlives a marker of this epoch (UnifiedLog's
    updateProducers): with version 2 a question at the marker's epoch is about the next
    transaction."""
    same_epoch = asked.is_set & (asked.value.producer_epoch == epoch)
    return transaction_version_2 & ongoing_by_epoch & same_epoch


def _written(marker: Marker) -> dict[Expression, Operand]:
    """What a marker changes at the leader that writes it, whatever it ends."""
    epoch = marker.producer_epoch
    entry, asked = producer_state[marker.producer_id], verifying[marker.producer_id]
    batches = if_(epoch == entry.producer_epoch, entry.batches, sequence_of())
    outlives = _outlives(asked, epoch)
    return {
        log_end_offset: marker.offset + 1,
        entry.producer_epoch: epoch,
        entry.batches: batches,
        entry.coordinator_epoch: marker.coordinator_epoch,
        entry.last_timestamp: if_(
            marker_is_use,
            marker.timestamp,
            if_(size(batches) > 0, entry.last_timestamp, NO_TIMESTAMP),
        ),
        asked: if_(outlives, asked, None),
        # from 4.1 on an older batch is refused for its epoch, whatever becomes of its question
        waiting: unguarded(
            marker.producer_id,
            unless=outlives & (~stale_epoch_first | (waiting[c].value.producer_epoch == epoch)),
        ),
    }


def _in_log(marker: Marker) -> Expression:
    entry = LogEntry(
        kind=if_(marker.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        record=0,
        txn=None,
    )
    return append(log, entry)


def _has_unended(producer_id: Expression) -> Expression:
    """Whether a record is in the log whose transaction no marker has ended."""
    left, later = element("left", log), element("later", log)
    ends = (later.kind != Kind.DATA) & (later.producer_id == producer_id)
    return any_of(
        left,
        (left.kind == Kind.DATA)
        & (left.producer_id == producer_id)
        & ~any_of(later, (position(later) > position(left)) & ends),
    )


def marker_rows(marker: Marker, answer: MarkerAnswer, empty: tuple[Row, ...]) -> tuple[Row, ...]:
    """The checks of a marker in their order, and what it ends; `empty` are rows before the last for
    one that finds no open transaction."""
    entry = producer_state[marker.producer_id]
    opened = entry.current_txn_first_offset
    return (
        *_refusals(marker, answer),
        Row(
            "end the transaction",
            when=opened.is_set,
            set=_written(marker) | {log: _in_log(marker), opened: None},
            reply=answer(Errors.NONE, opened.value),
            source=_APPEND,
        ),
        *empty,
        Row(
            "no transaction to end",
            set=_written(marker),
            reply=answer(Errors.NONE, None),
            source=f"{_APPEND}, KAFKA-19999",
        ),
    )


def one_that_begins_here(marker: Marker, reply: Sending) -> Row:
    """Before 2.8 a marker that ends nothing is a transaction by itself."""
    return Row(
        "end one that begins here",
        during=~empty_marker_ends_nothing,
        set=_written(marker),
        reply=reply,
        source=f"{_APPEND} before 2.8",
    )


_request = WriteTxnMarkers
_marker = Marker(
    _request.producer_id, _request.producer_epoch, _request.coordinator_epoch, _request.result
)


def _answer(error: Expression, _: Expression | None) -> Sending:
    return answer_on(
        marker_connection[_request.partition], WriteTxnMarkersResponse, _request.connection,
        partition=_request.partition, error=error,
    )  # fmt: skip


write_markers = Table(
    partition,
    on=WriteTxnMarkers,
    elsewhere=(transaction,),
    rows=marker_rows(
        _marker,
        _answer,
        (
            Row(
                "end what has gone with its records",
                when=(DELETIONS > 0) & _has_unended(_marker.producer_id),
                during=~state_outlives_records,
                set=_written(_marker) | {log: _in_log(_marker)},
                reply=_answer(Errors.NONE, None),
                source=f"{_APPEND}, ProducerStateManager.truncateHead before 2.4",
            ),
        ),
    ),
)

TABLES = (write_markers,)
