"""The markers that end a transaction at its partitions' leaders, as the coordinator sends them."""

from __future__ import annotations

from ...language import Bool as Truth
from ...language import (
    Expression,
    Machine,
    Map,
    Message,
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
    "left_behind", Optional(COORDINATOR_EPOCH), only_bounded=True,
    doc="The term that was over before its markers were answered.",
)  # fmt: skip
completion_dropped = transaction.field(
    "completion_dropped", Truth(), only_bounded=True,
    doc="Nobody waits for the markers of the end in progress any more.",
)  # fmt: skip
marker_connection = transaction.field("marker_connection", Map(PARTITION, CONNECTION))

send_marker = event("send marker", partition=PARTITION)
marker_overtaken = event(
    "marker overtaken", partition=PARTITION,
    event_doc="The leader's connection breaks: the marker is sent again, the old one may arrive.",
)  # fmt: skip

_to = send_marker.partition
_MARKERS = "TransactionMarkerChannelManager"
_answered = WriteTxnMarkersResponse.partition


def _marker(to: Expression, on: Expression) -> Sending:
    return WriteTxnMarkers(
        partition=to,
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        result=if_(pending == COMPLETE_COMMIT, Result.COMMIT, Result.ABORT),
    )


markers_sent = Table(
    transaction,
    on=send_marker,
    when=completing & _to.is_in(partitions) & ~_to.is_in(marker_sent),
    rows=(
        Row(
            "send",
            set={marker_sent: marker_sent | set_of(_to)},
            send=(_marker(_to, marker_connection[_to]),),
            source=f"{_MARKERS}.addTxnMarkersToSend",
        ),
    ),
)

markers_overtaken = Table(
    transaction,
    on=marker_overtaken,
    when=(DELAYS > 0) & marker_overtaken.partition.is_in(marker_sent),
    rows=(
        Row(
            "send again on a new connection",
            during=~markers_in_order,
            set={
                marker_connection[marker_overtaken.partition]: marker_connection[
                    marker_overtaken.partition
                ]
                + 1
            },
            send=(
                _marker(
                    marker_overtaken.partition, marker_connection[marker_overtaken.partition] + 1
                ),
            ),
            source=f"{_MARKERS}, a broker disconnects",
        ),
    ),
)

caller = Machine("caller", doc="A client that asks the coordinator at real ranges.")
Outcome = enum("MarkerOutcome", "IGNORED", "DONE", "RETRY", "CANCEL", "ILLEGAL_STATE")
MarkerVerdict = message("MarkerVerdict", caller, only_real=True, outcome=Outcome)
_HANDLER = "TransactionMarkerRequestCompletionHandler"
_error = WriteTxnMarkersResponse.error
_no_longer_sent = {marker_sent: marker_sent - set_of(_answered)}

markers_answered = Table(
    transaction,
    on=WriteTxnMarkersResponse,
    response=MarkerVerdict,
    rows=(
        Row(
            "on a closed connection",
            when=WriteTxnMarkersResponse.connection != marker_connection[_answered],
            reply=MarkerVerdict(outcome=Outcome.IGNORED),
        ),
        Row(
            "written",
            when=_error.is_in(
                Errors.NONE, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION
            )
            & is_prepared,
            set={partitions: partitions - set_of(_answered)} | _no_longer_sent,
            reply=MarkerVerdict(outcome=Outcome.DONE),
            source=_HANDLER,
        ),
        Row(
            "again",
            when=_error.is_in(
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                Errors.NOT_LEADER_OR_FOLLOWER,
                Errors.NOT_ENOUGH_REPLICAS,
                Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                Errors.REQUEST_TIMED_OUT,
            )
            | (storage_error_retried & (_error == Errors.KAFKA_STORAGE_ERROR)),
            set=_no_longer_sent,
            reply=MarkerVerdict(outcome=Outcome.RETRY),
            source=_HANDLER,
        ),
        Row(
            "refused for good",
            when=_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED),
            reply=MarkerVerdict(outcome=Outcome.CANCEL),
            note="The completion is dropped: the entry stays in its Prepare state.",
            source=_HANDLER,
        ),
        Row(
            "unexpected",
            reply=MarkerVerdict(outcome=Outcome.ILLEGAL_STATE),
            source=_HANDLER,
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
"""The rows for a completion whose record the log has refused; otherwise ILLEGAL_STATE.

TransactionMarkerChannelManager.tryAppendToLog
"""


def _lost_marker(message: Message) -> Table:
    """The leader's connection breaks before the marker, or its answer, has arrived."""
    loss = lost(message)
    return Table(
        transaction,
        on=loss,
        when=LOSSES > 0,
        rows=(
            Row(
                "on a closed connection", when=loss.connection != marker_connection[loss.partition]
            ),
            Row(
                "send again",
                send=(_marker(loss.partition, marker_connection[loss.partition]),),
                source=f"{_MARKERS}, a broker disconnects",
            ),
        ),
    )


FAULTY_EVENTS = (marker_overtaken, lost(WriteTxnMarkers), lost(WriteTxnMarkersResponse))
TABLES = (
    markers_sent,
    markers_overtaken,
    markers_answered,
    _lost_marker(WriteTxnMarkers),
    _lost_marker(WriteTxnMarkersResponse),
)
