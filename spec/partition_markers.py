"""The markers that end transactions, as a partition leader takes them.

Before 2.8 (KAFKA-10702) a marker that ended nothing left an entry in the index of aborted
transactions, too: from the marker to itself, where a reader finds no record to drop.
"""

from __future__ import annotations

from .features import last_epoch_ends_open, strict_marker_epoch, transaction_version_2
from .language import Expression, Row, Sending, Table, append, if_, sequence_of
from .markers import marker_connection
from .messages import (
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

_written = {
    _entry.producer_epoch: _epoch,
    _entry.batches: if_(_epoch == _entry.producer_epoch, _entry.batches, sequence_of()),
    _entry.coordinator_epoch: _marker.coordinator_epoch,
    # version 2: a question at the marker's epoch is about the next transaction
    _asked: if_(
        transaction_version_2 & _asked.is_set & (_asked.value.producer_epoch == _epoch),
        _asked,
        None,
    ),
    waiting: unguarded(
        _id, unless=transaction_version_2 & (waiting[c].value.producer_epoch == _epoch)
    ),
}
_APPEND = "ProducerAppendInfo.appendEndTxnMarker"


def _answer(error: Expression) -> Sending:
    return answer_on(
        marker_connection[_marker.partition], WriteTxnMarkersResponse, _marker.connection,
        partition=_marker.partition, error=error,
    )  # fmt: skip


write_markers = Table(
    partition,
    on=WriteTxnMarkers,
    elsewhere=(transaction,),
    rows=(
        Row(
            "stale epoch",
            when=_epoch < _entry.producer_epoch,
            reply=_answer(_stale),
            source=CHECK_EPOCH,
        ),
        Row(
            "marker of an earlier transaction",
            when=_open
            & (_epoch == _entry.producer_epoch)
            & ~(last_epoch_ends_open & (_epoch == LARGEST_EPOCH)),
            during=strict_marker_epoch & transaction_version_2,
            reply=_answer(_stale),
            source=f"KIP-1228, KAFKA-20090, {CHECK_EPOCH}",
        ),
        Row(
            "coordinator fenced",
            when=_marker.coordinator_epoch < _entry.coordinator_epoch,
            reply=_answer(Errors.TRANSACTION_COORDINATOR_FENCED),
            source="ProducerAppendInfo.checkCoordinatorEpoch",
        ),
        Row(
            "end the transaction",
            when=_open,
            set=_written
            | {
                log: append(
                    log,
                    LogEntry(
                        kind=if_(_marker.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
                        producer_id=_id,
                        producer_epoch=_epoch,
                        record=0,
                        txn=None,
                    ),
                ),
                _entry.current_txn_first_offset: None,
            },
            reply=_answer(Errors.NONE),
            source=_APPEND,
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
