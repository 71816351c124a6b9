"""Of partition leaders and the coordinator: open transactions, and markers in flight.

The lemmas are of all releases from 2.5 on; of open transactions only where a leader asks the
coordinator (from 3.6 on).
"""

from __future__ import annotations

from collections.abc import Callable

from ....language import (
    Expression,
    all_of,
    all_true,
    count_of,
    if_,
    in_flight,
    invariant,
    lift,
    position,
)
from ...coordinator import entry as coordinator
from ...coordinator.entry import ONGOING, PREPARE_COMMIT
from ...coordinator.markers import marker_connection, marker_sent
from ...coordinator.state_manager import log
from ...leader import state as leader
from ...messages import (
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from ...releases.features import stale_epoch_first, transaction_version_2
from ..counting import one

i = PRODUCER.variable("i")
# Transactions at leaders -------------------------------------------------------------------------

p, n = PARTITION.variable("p"), PRODUCER_ID.variable("n")
producer_entry = leader.producers.at(p)[n]
waiting = leader.waiting.at(p)[i]
question = in_flight("q", AddPartitionsByLeader, p, i)
answer = in_flight("a", AddPartitionsByLeaderResponse, p, i)
is_orphaned = i.is_in(leader.orphaned.at(p))
is_adding = p.is_in(coordinator.adding_for[i])
adds = transaction_version_2 & is_adding  # before version 2 it is the client that asks for it


one_question = invariant(
    "OneQuestion",
    all_of(
        p,
        i,
        (
            count_of(question, lift(True)) + count_of(answer, lift(True)) + one(adds)
            <= one(waiting.is_set | is_orphaned)
        )
        & ~(waiting.is_set & is_orphaned)
        & is_adding.implies(
            (coordinator.pending == ONGOING) & p.is_in(coordinator.pending_partitions)
        )
        & all_of(
            question,
            is_orphaned
            | (
                (question.producer_id == waiting.value.producer_id)
                & (question.producer_epoch == waiting.value.producer_epoch)
            ),
        ),
    ),
    "A leader asks the coordinator about one batch of a client at a time.",
)
"""A leader keeps the batch that it asks about until the answer comes. If the leader changes, the
answer reaches nobody, and until then there is no other question."""


def _is_live(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a partition is in the transaction that has this epoch, and not known to be ended.
    Before version 2 an open transaction has the log's epoch."""
    of_epoch = if_(
        coordinator.is_prepared,
        epoch + 1 == coordinator.producer_epoch,
        (coordinator.state == ONGOING) & (epoch == coordinator.producer_epoch),
    )
    of_epoch_before = (coordinator.state == ONGOING).implies(epoch >= log.logged_epoch)
    return all_true(
        p.is_in(coordinator.partitions),
        of_id == coordinator.producer_id,
        if_(transaction_version_2, of_epoch, of_epoch_before),
    )


# Before 4.1 the question about an older batch outlives a marker; the batch is refused for its epoch
known_epoch = leader.producers.at(p)[waiting.value.producer_id].producer_epoch
is_not_stale = stale_epoch_first | (waiting.value.producer_epoch >= known_epoch)


def _each_admitted(says: Callable[[Expression, Expression], Expression]) -> Expression:
    """Whether it holds of the producer id and epoch of each batch for partition `p` that the
    coordinator has admitted, as long as that counts."""
    counts = all_true(
        answer.error == Errors.NONE, waiting.is_set, waiting.value.guarded, is_not_stale
    )
    pair = waiting.value.producer_id, waiting.value.producer_epoch
    return all_of(i, answer, counts.implies(says(*pair)))


def _each_open(says: Callable[[Expression, Expression], Expression]) -> Expression:
    """Whether it holds of the producer id and epoch of each transaction that is open at partition
    `p`."""
    return all_of(
        n,
        producer_entry.current_txn_first_offset.is_set.implies(
            says(n, producer_entry.producer_epoch)
        ),
    )


def each_live(says: Callable[[Expression, Expression], Expression]) -> Expression:
    """Whether it holds of the producer id and epoch of all that a leader may append now, where it
    asks the coordinator."""
    return leader.asks_coordinator.implies(all_of(p, _each_admitted(says) & _each_open(says)))


admitted = invariant(
    "Admitted",
    all_of(
        p,
        _each_admitted(_is_live)
        & all_of(
            i,
            (adds & waiting.is_set).implies(
                (waiting.value.producer_id == coordinator.producer_id)
                & (waiting.value.producer_epoch == coordinator.producer_epoch)
            ),
        ),
    ),
    "A batch that the coordinator admits is of its transaction, unless its question no longer "
    "counts.",
)
"""The coordinator says yes while the partition is in the batch's transaction. The partition leaves
it when the marker is written, and the leader refuses the batch from then on."""

open_is_live = invariant(
    "OpenIsLive",
    leader.asks_coordinator.implies(all_of(p, _each_open(_is_live))),
    "A transaction that is open at a leader is the coordinator's transaction.",
)
"""A batch that is admitted opens it (Admitted). The marker closes it before the coordinator takes
the partition away (MarkerEnds)."""

# Markers -----------------------------------------------------------------------------------------

_marker, _written = in_flight("m", WriteTxnMarkers, p), in_flight("w", WriteTxnMarkersResponse, p)
marker_link = marker_connection[p]
own = leader.producers.at(p)[coordinator.producer_id]

marker_decided = invariant(
    "MarkerDecided",
    transaction_version_2.implies(
        all_of(
            p,
            _marker,
            (
                (position(_marker.producer_id) < position(coordinator.producer_id))
                | (
                    (_marker.producer_id == coordinator.producer_id)
                    & (_marker.producer_epoch <= coordinator.producer_epoch)
                )
            )
            & (
                coordinator.is_prepared
                & (_marker.producer_id == coordinator.producer_id)
                & (_marker.producer_epoch == coordinator.producer_epoch)
            ).implies((_marker.result == Result.COMMIT) == (coordinator.state == PREPARE_COMMIT)),
        )
    ),
    "A marker in flight has the coordinator's epoch and decision, or an older epoch.",
)
"""A marker has the epoch and the decision of the record in the log, and a decision is never taken
back."""

one_marker = invariant(
    "OneMarker",
    all_of(
        p,
        all_true(
            all_of(
                _marker,
                (_marker.connection <= marker_link)
                & (_marker.connection == marker_link).implies(
                    (_marker.producer_id == coordinator.producer_id)
                    & (_marker.producer_epoch == coordinator.producer_epoch)
                ),
            ),
            all_of(_written, _written.connection <= marker_link),
            count_of(_marker, _marker.connection == marker_link)
            + count_of(_written, _written.connection == marker_link)
            <= one(p.is_in(marker_sent)),
            p.is_in(marker_sent).implies(
                coordinator.is_prepared & coordinator.completing & p.is_in(coordinator.partitions)
            ),
        ),
    ),
    "One marker to a leader, or its answer, is in flight on the connection that is open.",
)
"""The coordinator sends one marker on a connection. It opens a new connection before it sends
another one."""

marker_ends = invariant(
    "MarkerEnds",
    leader.asks_coordinator.implies(
        all_of(
            p,
            _written,
            ((_written.connection == marker_link) & (_written.error == Errors.NONE)).implies(
                (own.producer_epoch >= coordinator.producer_epoch)
                & ~own.current_txn_first_offset.is_set
                & all_of(
                    i,
                    all_true(
                        stale_epoch_first,
                        waiting.is_set,
                        waiting.value.guarded,
                        waiting.value.producer_id == coordinator.producer_id,
                    ).implies(waiting.value.producer_epoch >= coordinator.producer_epoch)
                    & all_of(
                        answer,
                        all_true(
                            ~transaction_version_2,
                            answer.error == Errors.NONE,
                            waiting.is_set,
                            waiting.value.guarded,
                        ).implies(waiting.value.producer_id != coordinator.producer_id),
                    ),
                )
            ),
        )
    ),
    "Once a marker has been written, the transaction is over, and no batch of it is admitted.",
)
"""The row that writes the marker closes the transaction and sets the epoch, for which the leader
refuses older batches."""

LEMMAS = (
    one_question,
    admitted,
    open_is_live,
    marker_decided,
    one_marker,
    marker_ends,
)
