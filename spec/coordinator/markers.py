"""The coordinator sends markers, which end a transaction at the leaders of its partitions."""

from __future__ import annotations

from ...language import Bool as Truth
from ...language import (
    Expression,
    Machine,
    Map,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    enum,
    event,
    if_,
    lift,
    lost,
    message,
    set_of,
)
from ..messages import (
    CONNECTION,
    COORDINATOR_EPOCH,
    DELAYS,
    LOSSES,
    PARTITION,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    transaction,
)
from ..releases.features import markers_in_order, own_completion_cancelled, storage_error_retried
from .entry import (
    COMPLETE_COMMIT,
    completing,
    coordinator_epoch,
    is_prepared,
    partitions,
    pending,
    producer_epoch,
    producer_id,
)

marker_sent = transaction.field("marker_sent", Set(PARTITION), doc="Markers not yet answered.")
left_behind = transaction.field(
    "left_behind",
    Optional(COORDINATOR_EPOCH),
    doc="The term that was over before its markers were answered.",
)
completion_dropped = transaction.field(
    "completion_dropped",
    Truth(),
    doc="Nobody waits any more for the markers of the end in progress.",
)
marker_connection = transaction.field("marker_connection", Map(PARTITION, CONNECTION))

send_marker = event("send marker", partition=PARTITION)
marker_overtaken = event(
    "marker overtaken",
    partition=PARTITION,
    event_doc="The leader's connection breaks: the marker is sent again, the old one may arrive.",
)
marker_lost = lost(WriteTxnMarkers)
answer_lost = lost(WriteTxnMarkersResponse)


def marker(to: Expression, on: Expression) -> Sending:
    """The marker of the end in progress, to the leader of a partition over a connection."""
    return WriteTxnMarkers(
        partition=to,
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        result=if_(pending == COMPLETE_COMMIT, Result.COMMIT, Result.ABORT),
    )


# A marker is sent -------------------------------------------------------------------------------

markers_sent = Table(
    transaction,
    on=send_marker,
    when=completing
    & send_marker.partition.is_in(partitions)
    & ~send_marker.partition.is_in(marker_sent),
    rows=(
        Row(
            "send",
            "A marker goes to a partition that has none yet",
            set={marker_sent: marker_sent | set_of(send_marker.partition)},
            send=(marker(send_marker.partition, marker_connection[send_marker.partition]),),
            source="TransactionMarkerChannelManager.addTxnMarkersToSend",
        ),
    ),
)

# The connection to the leader breaks ------------------------------------------------------------

markers_overtaken = Table(
    transaction,
    on=marker_overtaken,
    when=(DELAYS > 0) & marker_overtaken.partition.is_in(marker_sent),
    rows=(
        Row(
            "send-again",
            "The marker is sent again over a new connection",
            during=~markers_in_order,
            set={
                marker_connection[marker_overtaken.partition]: marker_connection[
                    marker_overtaken.partition
                ]
                + 1
            },
            send=(
                marker(
                    marker_overtaken.partition, marker_connection[marker_overtaken.partition] + 1
                ),
            ),
            source="TransactionMarkerRequestCompletionHandler.onComplete (wasDisconnected)",
        ),
    ),
)

markers_lost = Table(
    transaction,
    on=marker_lost,
    when=LOSSES > 0,
    source="TransactionMarkerRequestCompletionHandler.onComplete (wasDisconnected)",
    rows=(
        Row(
            "closed-connection",
            "The connection has been replaced, and the marker sent over the new one",
            when=marker_lost.connection != marker_connection[marker_lost.partition],
        ),
        Row(
            "send-again",
            "The marker is sent again",
            send=(marker(marker_lost.partition, marker_connection[marker_lost.partition]),),
        ),
    ),
)

answers_lost = Table(
    transaction,
    on=answer_lost,
    when=LOSSES > 0,
    source="TransactionMarkerRequestCompletionHandler.onComplete (wasDisconnected)",
    rows=(
        Row(
            "closed-connection",
            "The connection has been replaced, and the marker sent over the new one",
            when=answer_lost.connection != marker_connection[answer_lost.partition],
        ),
        Row(
            "send-again",
            "The marker is sent again, although it may have been written",
            send=(marker(answer_lost.partition, marker_connection[answer_lost.partition]),),
        ),
    ),
)

# A marker is answered ---------------------------------------------------------------------------

caller = Machine("caller", doc="A client that asks the coordinator at real ranges.")
Outcome = enum("MarkerOutcome", "IGNORED", "DONE", "RETRY", "CANCEL", "ILLEGAL_STATE")
MarkerVerdict = message("MarkerVerdict", caller, outcome=Outcome)

markers_answered = Table(
    transaction,
    on=WriteTxnMarkersResponse,
    response=MarkerVerdict,
    source="TransactionMarkerRequestCompletionHandler.onComplete",
    rows=(
        Row(
            "closed-connection",
            "The answer comes over a connection that has been replaced",
            when=WriteTxnMarkersResponse.connection
            != marker_connection[WriteTxnMarkersResponse.partition],
            reply=MarkerVerdict(outcome=Outcome.IGNORED),
        ),
        Row(
            "written",
            "The marker is in the partition, or the partition can't have one",
            when=WriteTxnMarkersResponse.error.is_in(
                Errors.NONE, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION
            )
            & is_prepared,
            set={
                partitions: partitions - set_of(WriteTxnMarkersResponse.partition),
                marker_sent: marker_sent - set_of(WriteTxnMarkersResponse.partition),
            },
            reply=MarkerVerdict(outcome=Outcome.DONE),
        ),
        Row(
            "retry",
            "The partition can't take a marker now: it is sent again",
            when=WriteTxnMarkersResponse.error.is_in(
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                Errors.NOT_LEADER_OR_FOLLOWER,
                Errors.NOT_ENOUGH_REPLICAS,
                Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                Errors.REQUEST_TIMED_OUT,
            )
            | (
                storage_error_retried
                & (WriteTxnMarkersResponse.error == Errors.KAFKA_STORAGE_ERROR)
            ),
            set={marker_sent: marker_sent - set_of(WriteTxnMarkersResponse.partition)},
            reply=MarkerVerdict(outcome=Outcome.RETRY),
        ),
        Row(
            "cancel",
            "The marker is refused for good, and its completion is dropped",
            when=WriteTxnMarkersResponse.error.is_in(
                Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED
            ),
            reply=MarkerVerdict(outcome=Outcome.CANCEL),
            note="The entry stays in its Prepare state.",
        ),
        Row(
            "unexpected",
            "Any other error is an exception",
            reply=MarkerVerdict(outcome=Outcome.ILLEGAL_STATE),
        ),
    ),
)
cancels_own_only = lift(own_completion_cancelled)
"""Whether a late answer cancels only the completion that its marker was sent for."""
COMPLETION_REFUSED = {
    "COORDINATOR_NOT_AVAILABLE": "RETRY",
    "NOT_COORDINATOR": "CANCEL",  # another coordinator does it
    "COORDINATOR_LOAD_IN_PROGRESS": "CANCEL",
}
"""The outcomes for a completion whose record the log has refused; otherwise ILLEGAL_STATE.

TransactionMarkerChannelManager.tryAppendToLog
"""

FAULTY_EVENTS = (marker_overtaken, marker_lost, answer_lost)
TABLES = (markers_sent, markers_overtaken, markers_answered, markers_lost, answers_lost)
