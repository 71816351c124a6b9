"""The markers that end transactions, at a partition leader.

Before 2.8 (KAFKA-10702) a marker that ended nothing left an entry in the transaction index as well:
from the marker to itself, where a reader finds no record to drop. The log of a bounded run has no
marker that ends nothing. It has one exception: the records were deleted, and the producer was
forgotten with them. That marker keeps the records apart from those of the next transaction.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Optional,
    Row,
    Sending,
    Table,
    append,
    if_,
    message,
    sequence_of,
    size,
    some,
)
from ..coordinator.markers import marker_connection
from ..messages import (
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
    strict_marker_epoch,
    transaction_version_2,
)
from .produce import asker
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

MarkerResponse = message(
    "MarkerResponse",
    asker,
    error=Errors,
    first_offset=Optional(REAL_OFFSET),
    message_doc="The start of the transaction that the marker ends, if it ends one.",
)

entry = producers[WriteTxnMarkers.producer_id]
verification_state = verification_states[WriteTxnMarkers.producer_id]
is_validated = ~WriteTxnMarkers.is_replicated | ~followers_only_warn
"""Whether a wrong epoch is refused: a follower only warns."""
batches_of_epoch = if_(
    WriteTxnMarkers.producer_epoch == entry.producer_epoch, entry.batch_metadata, sequence_of()
)
"""The batches that stay (ProducerStateEntry.maybeUpdateProducerEpoch)."""
last_timestamp = if_(
    marker_is_use,
    WriteTxnMarkers.timestamp,
    if_(size(batches_of_epoch) > 0, entry.last_timestamp, NO_TIMESTAMP),
)
keeps_verification_state = ongoing_by_epoch & (
    verification_state.is_set
    & verification_state.value.supports_epoch_bump
    & (verification_state.value.epoch == WriteTxnMarkers.producer_epoch)
)
"""Whether the question to the coordinator is about the next transaction: with version 2, one of the
marker's own epoch is (UnifiedLog.updateProducers)."""
# from 4.1 on an older batch is refused for its epoch, whatever becomes of its question
waiting_after = unguarded(
    WriteTxnMarkers.producer_id,
    unless=keeps_verification_state
    & (~stale_epoch_first | (waiting[c].value.producer_epoch == WriteTxnMarkers.producer_epoch)),
)
"""The batches that wait for the coordinator, and whether their question still counts."""
log_with_marker = append(
    log,
    LogEntry(
        kind=if_(WriteTxnMarkers.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
        producer_id=WriteTxnMarkers.producer_id,
        producer_epoch=WriteTxnMarkers.producer_epoch,
        record=0,
        txn=None,
    ),
)


def markers_response(error: Expression) -> Sending:
    """The answer to the coordinator, if its connection is still open."""
    return answer_on(
        marker_connection[WriteTxnMarkers.partition],
        WriteTxnMarkersResponse,
        WriteTxnMarkers.connection,
        partition=WriteTxnMarkers.partition,
        error=error,
    )


write_markers = Table(
    partition,
    on=WriteTxnMarkers,
    response=MarkerResponse,
    others=(transaction,),
    rows=(
        Row(
            "stale-epoch",
            "The marker's epoch is older than the producer's",
            when=(WriteTxnMarkers.producer_epoch < entry.producer_epoch) & is_validated,
            reply=markers_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(MarkerResponse(error=Errors.INVALID_PRODUCER_EPOCH, first_offset=None),),
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "same-epoch",
            "A transaction of the marker's epoch is open: the marker is of an earlier one",
            when=(
                entry.current_txn_first_offset.is_set
                & (WriteTxnMarkers.producer_epoch == entry.producer_epoch)
                & ~(last_epoch_ends_open & (WriteTxnMarkers.producer_epoch == LARGEST_EPOCH))
            )
            & is_validated,
            reply=markers_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(MarkerResponse(error=Errors.INVALID_PRODUCER_EPOCH, first_offset=None),),
            during=strict_marker_epoch & transaction_version_2,
            source="KIP-1228, KAFKA-20090, ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "coordinator-fenced",
            "A newer coordinator has written a marker",
            when=(WriteTxnMarkers.coordinator_epoch < entry.coordinator_epoch) & is_validated,
            reply=markers_response(Errors.TRANSACTION_COORDINATOR_FENCED),
            send=(MarkerResponse(error=Errors.TRANSACTION_COORDINATOR_FENCED, first_offset=None),),
            source="ProducerAppendInfo.checkCoordinatorEpoch",
        ),
        Row(
            "end-transaction",
            "The marker ends the open transaction",
            when=entry.current_txn_first_offset.is_set,
            set={
                log: log_with_marker,
                log_end_offset: log_end_offset + 1,
                entry.producer_epoch: WriteTxnMarkers.producer_epoch,
                entry.batch_metadata: batches_of_epoch,
                entry.coordinator_epoch: WriteTxnMarkers.coordinator_epoch,
                entry.current_txn_first_offset: None,
                entry.last_timestamp: last_timestamp,
                verification_state: if_(keeps_verification_state, verification_state, None),
                waiting: waiting_after,
            },
            reply=markers_response(Errors.NONE),
            send=(
                MarkerResponse(
                    error=Errors.NONE, first_offset=some(entry.current_txn_first_offset.value)
                ),
            ),
            source="ProducerAppendInfo.appendEndTxnMarker",
        ),
        Row(
            "empty-transaction",
            "A marker that ends nothing is a transaction by itself",
            set={
                log_end_offset: log_end_offset + 1,
                entry.producer_epoch: WriteTxnMarkers.producer_epoch,
                entry.batch_metadata: batches_of_epoch,
                entry.coordinator_epoch: WriteTxnMarkers.coordinator_epoch,
                entry.last_timestamp: last_timestamp,
                verification_state: if_(keeps_verification_state, verification_state, None),
                waiting: waiting_after,
            },
            reply=markers_response(Errors.NONE),
            send=(MarkerResponse(error=Errors.NONE, first_offset=some(log_end_offset)),),
            during=~empty_marker_ends_nothing,
            source="KAFKA-10702, ProducerAppendInfo.appendEndTxnMarker before 2.8",
        ),
        Row(
            "no-transaction",
            "No transaction is open: the marker is written, and ends nothing",
            set={
                log_end_offset: log_end_offset + 1,
                entry.producer_epoch: WriteTxnMarkers.producer_epoch,
                entry.batch_metadata: batches_of_epoch,
                entry.coordinator_epoch: WriteTxnMarkers.coordinator_epoch,
                entry.last_timestamp: last_timestamp,
                verification_state: if_(keeps_verification_state, verification_state, None),
                waiting: waiting_after,
            },
            reply=markers_response(Errors.NONE),
            send=(MarkerResponse(error=Errors.NONE, first_offset=None),),
            during=empty_marker_ends_nothing,
            source="ProducerAppendInfo.appendEndTxnMarker, KAFKA-19999",
        ),
    ),
)

TABLES = (write_markers,)
