"""The markers that end transactions, as a partition leader takes them.

Before 2.8 (KAFKA-10702) a marker that ended nothing left an entry in the index of aborted
transactions, too: from the marker to itself, where a reader finds no record to drop. A marker that
ends no transaction isn't kept in the log here, but for one whose records are deleted and whose
producer went with them: it keeps the next transaction's marker apart from them.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Optional,
    Row,
    Table,
    any_of,
    append,
    element,
    if_,
    message,
    position,
    sequence_of,
    size,
    some,
)
from ...language.expressions import TRUE, Operand
from ..coordinator.markers import marker_connection
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
    waiting,
)
from ..releases.features import (
    empty_marker_ends_nothing,
    followers_only_warn,
    last_epoch_ends_open,
    marker_is_use,
    ongoing_by_epoch,
    stale_epoch_first,
    state_outlives_records,
    strict_marker_epoch,
    transaction_version_2,
)
from .produce import CHECK_EPOCH, asker, bounded_alone
from .state import (
    REAL_OFFSET,
    Kind,
    LogEntry,
    c,
    log,
    log_end_offset,
    producers,
    unguarded,
    verification_states,
)

_APPEND = "ProducerAppendInfo.appendEndTxnMarker"


MarkerResponse = message(
    "MarkerResponse", asker, only_real=True, error=Errors, first_offset=Optional(REAL_OFFSET),
    message_doc="The start of the transaction that the marker ends, if it ends one.",
)  # fmt: skip
_request = WriteTxnMarkers
_entry, _asked = producers[_request.producer_id], verification_states[_request.producer_id]
_epoch, _opened = _request.producer_epoch, _entry.current_txn_first_offset


def _row(
    name: str, when: Expression, error: Expression, source: str, during: Expression = TRUE, *,
    updates: dict[Expression, Operand] | None = None, first_offset: Expression | None = None,
    only_bounded: bool = False,
) -> Row:  # fmt: skip
    answer = answer_on(
        marker_connection[_request.partition], WriteTxnMarkersResponse, _request.connection,
        partition=_request.partition, error=error,
    )  # fmt: skip
    first = None if first_offset is None else some(first_offset)
    return Row(
        name, when=when, set=updates or {}, reply=bounded_alone(answer),
        send=(MarkerResponse(error=error, first_offset=first),), source=source, during=during,
        only_bounded=only_bounded,
    )  # fmt: skip


def _refused(
    name: str, when: Expression, error: Expression, source: str, during: Expression = TRUE
) -> Row:
    when = when & (~_request.is_replicated | ~followers_only_warn)
    return _row(name, when, error, source, during)


_REFUSALS = (
    _refused(
        "stale epoch", _epoch < _entry.producer_epoch, Errors.INVALID_PRODUCER_EPOCH, CHECK_EPOCH
    ),
    _refused(
        "marker of an earlier transaction",
        _opened.is_set
        & (_epoch == _entry.producer_epoch)
        & ~(last_epoch_ends_open & (_epoch == LARGEST_EPOCH)),
        Errors.INVALID_PRODUCER_EPOCH,
        f"KIP-1228, KAFKA-20090, {CHECK_EPOCH}",
        strict_marker_epoch & transaction_version_2,
    ),
    _refused(
        "coordinator fenced",
        _request.coordinator_epoch < _entry.coordinator_epoch,
        Errors.TRANSACTION_COORDINATOR_FENCED,
        "ProducerAppendInfo.checkCoordinatorEpoch",
    ),
)
_batches = if_(_epoch == _entry.producer_epoch, _entry.batch_metadata, sequence_of())
# whether a question to the coordinator outlives the marker (UnifiedLog.updateProducers): one of
# version 2, whatever the marker's is, at the marker's epoch is about the next transaction
_outlives = ongoing_by_epoch & (
    _asked.is_set & _asked.value.supports_epoch_bump & (_asked.value.epoch == _epoch)
)
_WRITTEN: dict[Expression, Operand] = {
    log_end_offset: log_end_offset + 1,
    _entry.producer_epoch: _epoch,
    _entry.batch_metadata: _batches,
    _entry.coordinator_epoch: _request.coordinator_epoch,
    _entry.last_timestamp: if_(
        marker_is_use,
        _request.timestamp,
        if_(size(_batches) > 0, _entry.last_timestamp, NO_TIMESTAMP),
    ),
    _asked: if_(_outlives, _asked, None),
    # from 4.1 on an older batch is refused for its epoch, whatever becomes of its question
    waiting: unguarded(
        _request.producer_id,
        unless=_outlives & (~stale_epoch_first | (waiting[c].value.producer_epoch == _epoch)),
    ),
}
"""The effect of a marker on its leader, whatever it ends."""
_IN_LOG = append(
    log,
    LogEntry(
        kind=if_(_request.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
        producer_id=_request.producer_id,
        producer_epoch=_epoch,
        record=0,
        txn=None,
    ),
)


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


write_markers = Table(
    partition,
    on=_request,
    response=MarkerResponse,
    others=(transaction,),
    rows=(
        *_REFUSALS,
        _row(
            "end the transaction",
            _opened.is_set,
            Errors.NONE,
            _APPEND,
            updates=_WRITTEN | {log: _IN_LOG, _opened: None},
            first_offset=_opened.value,
        ),
        _row(
            "end what has gone with its records",
            (DELETIONS > 0) & _has_unended(_request.producer_id),
            Errors.NONE,
            f"{_APPEND}, ProducerStateManager.truncateHead before 2.4",
            ~state_outlives_records,
            updates=_WRITTEN | {log: _IN_LOG},
            only_bounded=True,
        ),
        _row(
            "end one that begins here",
            TRUE,
            Errors.NONE,
            f"{_APPEND} before 2.8: a marker that ends nothing is a transaction by itself",
            ~empty_marker_ends_nothing,
            updates=_WRITTEN,
            first_offset=log_end_offset,
        ),
        _row(
            "no transaction to end",
            TRUE,
            Errors.NONE,
            f"{_APPEND}, KAFKA-19999",
            empty_marker_ends_nothing,
            updates=_WRITTEN,
        ),
    ),
)

TABLES = (write_markers,)
