"""Why a decision is completed: markers that reach their leaders and aren't refused, and the
ranking.

The lemmas are of the releases from 4.0.1 on, and the ranking is with one client.
"""

from __future__ import annotations

from ....language import (
    all_of,
    all_true,
    count_of,
    helps,
    if_,
    in_flight,
    invariant,
    lift,
    position,
    ranking,
    size,
    sum_of,
)
from ...coordinator import entry as coordinator
from ...coordinator.markers import marker_connection, marker_sent, send_marker
from ...coordinator.state_manager.log import begin_completion, log_append
from ...leader import state as leader
from ...messages import (
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    connection,
)

i, p, n = PRODUCER.variable("i"), PARTITION.variable("p"), PRODUCER_ID.variable("n")
_marker, _written = in_flight("m", WriteTxnMarkers, p), in_flight("w", WriteTxnMarkersResponse, p)
marker_link = marker_connection[p]
known = leader.producers.at(p)[n]

leader_behind = invariant(
    "LeaderBehind",
    all_of(
        p,
        n,
        all_true(
            (n == coordinator.producer_id).implies(
                known.producer_epoch <= coordinator.producer_epoch
            ),
            (position(n) > position(coordinator.producer_id)).implies(
                known.producer_epoch == NO_EPOCH
            ),
            known.coordinator_epoch <= coordinator.coordinator_epoch,
        ),
    ),
    "A leader knows of no newer epoch than the coordinator, of the producer or of the coordinator.",
)
"""A leader learns of epochs by batches and markers, which have the coordinator's or older ones."""

marker_of_term = invariant(
    "MarkerOfTerm",
    all_of(
        p,
        _marker,
        (_marker.coordinator_epoch <= coordinator.coordinator_epoch)
        & (_marker.connection == marker_link).implies(
            _marker.coordinator_epoch == coordinator.coordinator_epoch
        ),
    ),
    "A marker on the connection that is open has the coordinator's own epoch.",
)
"""A new coordinator has a larger epoch and opens new connections."""

marker_written = invariant(
    "MarkerWritten",
    all_of(
        p,
        _written,
        (_written.connection == marker_link).implies(_written.error == Errors.NONE),
    ),
    "A leader refuses no marker on the connection that is open.",
)
"""A leader refuses a marker only for an older epoch, and this one has the coordinator's
(MarkerOfTerm), which no leader is ahead of (LeaderBehind)."""

marker_in_flight = invariant(
    "MarkerInFlight",
    all_of(
        p,
        p.is_in(marker_sent).implies(
            count_of(_marker, _marker.connection == marker_link)
            + count_of(_written, _written.connection == marker_link)
            >= 1
        ),
    ),
    "A marker that the coordinator has sent and nobody has answered is in flight, or its answer.",
)
"""A marker stays in flight until it is answered. If it or its answer is lost, the coordinator sends
it again at once."""

LEMMAS = (leader_behind, marker_of_term, marker_written, marker_in_flight)

answers = (
    (in_flight("e", EndTxnResponse, i), coordinator.asked_by),
    (in_flight("t", InitProducerIdResponse, i), coordinator.fenced_for),
)
markers_left = size(coordinator.partitions - marker_sent)
late_answers = sum_of(
    i, sum((count_of(m, m.connection != connection.at(i)) for m, _ in answers), lift(0))
)
markers_in_flight = sum_of(p, 2 * count_of(_marker, lift(True)) + count_of(_written, lift(True)))

prepare_completes = ranking(
    "PrepareCompletes",
    (
        ~coordinator.pending.is_set,
        if_(coordinator.pending.is_set, 0, late_answers),
        size(coordinator.partitions),
        markers_left,
        markers_in_flight,
    ),
    (
        helps(log_append),
        helps(begin_completion),
        # answers on closed connections; answers for the end wait behind them
        *(
            helps(message, ~coordinator.pending.is_set & (waits[i] == connection.at(i)), each=(i,))
            for message, waits in (
                (EndTxnResponse, coordinator.asked_by),
                (InitProducerIdResponse, coordinator.fenced_for),
            )
        ),
        helps(send_marker),
        helps(WriteTxnMarkersResponse),
        helps(WriteTxnMarkers),
    ),
)

RANKINGS = (prepare_completes,)
