"""Properties of the brokers that coordinate a transactional id, through elections and loads."""

from __future__ import annotations

from ...language import (
    KnownBug,
    after,
    all_of,
    always_possible,
    any_of,
    failure,
    invariant,
    leads_to,
    size,
    step_property,
)
from ..coordinator.state_manager.ownership import (
    BROKER,
    STATE_PARTITION,
    known,
    leaders,
    logged,
    owned,
)
from ..coordinator.state_manager.ownership import heard as heard_epoch
from ..releases.features import newer_epoch_cancels_load

b, c = BROKER.variable("b"), BROKER.variable("c")
s = STATE_PARTITION.variable("s")
_mine, _other = owned.at(b)[s], owned.at(c)[s]
answers = _mine.is_set & ~_mine.value.is_loading
epoch = _mine.value.coordinator_epoch

one_for_an_epoch = invariant(
    "OneCoordinatorForAnEpoch",
    all_of(
        s,
        b,
        c,
        ((b != c) & _mine.is_set & _other.is_set).implies(epoch != _other.value.coordinator_epoch),
    ),
    "No two brokers coordinate an id under the same coordinator epoch.",
    "TransactionStateManager, the leader epoch of the log's partition",
    failure=failure("{} and {} both coordinate {} under coordinator epoch {}", b, c, s, epoch),
)

only_as_heard = invariant(
    "AnswersOnlyAsHeard",
    all_of(s, b, answers.implies(epoch == heard_epoch.at(b))),
    "A broker that knows of a newer leader of the transaction log no longer answers.",
    "TransactionCoordinator.onResignation",
    KnownBug(
        "KAFKA-18137, mended in 4.0.0", (newer_epoch_cancels_load,), ~newer_epoch_cancels_load
    ),
    failure=failure(
        "{} answers under coordinator epoch {}, and it knows of epoch {}",
        b,
        epoch,
        heard_epoch.at(b),
    ),
)

knows_the_log = invariant(
    "LeaderKnowsTheLog",
    all_of(
        s,
        b,
        (answers & (epoch == size(leaders) - 1) & logged.is_set).implies(known.at(b)[s] == logged),
    ),
    "The newest leader answers only when it knows the id's record in the log.",
    "TransactionStateManager.getAndMaybeAddTransactionState, COORDINATOR_LOAD_IN_PROGRESS",
    failure=failure(
        "{}, the newest leader, answers with the producer id {} where the log has {}",
        b,
        known.at(b)[s],
        logged,
    ),
)

one_entry = step_property(
    "OneEntry",
    logged.is_set.implies(after(logged) == logged),
    "An id that is in the log gets no second entry, and so no second producer id.",
    "TransactionStateManager.putTransactionStateIfNotExists",
    failure=failure("the log's producer id changes from {} to {}", logged, after(logged)),
)

PROPERTIES = (one_for_an_epoch, only_as_heard, knows_the_log, one_entry)

is_loading = _mine.is_set & _mine.value.is_loading
PROGRESS = (
    leads_to(
        "LoadEnds",
        is_loading,
        ~is_loading,
        "A broker that loads a partition of the transaction log answers at last, or gives it up.",
        "TransactionStateManager.loadTransactionsForTxnTopicPartition",
        each=(b, s),
        failure=failure("{} is still loading {}", b, s),
    ),
    always_possible(
        "LeaderCanAnswer",
        (size(leaders) == 0) | all_of(s, any_of(b, answers & (epoch == size(leaders) - 1))),
        "From every state, the newest leader can still come to answer.",
        "TransactionCoordinator.onElection",
        failure=failure(
            "no broker answers for {} under the newest of {} leader epochs", s, size(leaders)
        ),
    ),
)
