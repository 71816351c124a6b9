"""The markers that end a transaction at its partitions' leaders, as the coordinator sends them."""

from __future__ import annotations

from ...language import Expression, Map, Message, Row, Sending, Set, Table, event, if_, lost, set_of
from ..messages import (
    CONNECTION,
    DELAYS,
    LOSSES,
    PARTITION,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    transaction,
)
from .entry import (
    COMPLETE_COMMIT,
    completing,
    coordinator_epoch,
    partitions,
    pending,
    producer_epoch,
    producer_id,
)

marker_sent = transaction.field("marker_sent", Set(PARTITION), doc="Markers not yet answered.")
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

markers_answered = Table(
    transaction,
    on=WriteTxnMarkersResponse,
    rows=(
        Row(
            "on a closed connection",
            when=WriteTxnMarkersResponse.connection != marker_connection[_answered],
        ),
        Row(
            "written",
            when=WriteTxnMarkersResponse.error == Errors.NONE,
            set={
                partitions: partitions - set_of(_answered),
                marker_sent: marker_sent - set_of(_answered),
            },
            source="TransactionMarkerRequestCompletionHandler",
        ),
        Row(
            "refused for good",
            note="The completion is dropped: the entry stays in its Prepare state.",
            source="TransactionMarkerRequestCompletionHandler",
        ),
    ),
)


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
