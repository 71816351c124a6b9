"""Of the transaction coordinator's entry and its log: which change may be pending.

The lemmas are of all releases from 2.5 on.
"""

from __future__ import annotations

from ....language import Expression, all_of, all_true, if_, invariant, position
from ...coordinator import entry as coordinator
from ...coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
)
from ...coordinator.state_manager import log
from ...coordinator.state_manager.log import unsettled
from ...messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    PARTITION,
    offered_id,
)
from ...releases.features import (
    failed_fence_kept,
    rotation_in_log,
    rotation_on_fence,
    transaction_version_2,
)

p = PARTITION.variable("p")


epochs_go_on = rotation_on_fence & rotation_in_log
"""Whether no transactional id is left at the largest epoch without a producer id to go on with."""
is_complete = coordinator.state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
"""Whether the last transaction is over, and no client has begun another."""


def is_followed(of_id: Expression, epoch: Expression) -> Expression:
    """Whether the coordinator's epoch is the one after this pair's. With version 2 the end of its
    transaction gave it."""
    return (of_id == coordinator.producer_id) & (epoch + 1 == coordinator.producer_epoch)


def is_replaced(of_id: Expression, epoch: Expression) -> Expression:
    """Whether the coordinator has the first epoch of the producer id after this pair's, whose
    epochs an end has used up."""
    return all_true(
        coordinator.previous_id == of_id,
        of_id != coordinator.producer_id,
        epoch == LARGEST_EPOCH - 1,
        coordinator.producer_epoch == 0,
    )


def is_handed_out(number: Expression) -> Expression:
    """Whether a producer id has been handed out."""
    return ~offered_id.is_set | (number < offered_id.value)


def _is_next_pair(new_id: Expression, new_epoch: Expression) -> Expression:
    """Whether a producer id and epoch come right after the coordinator's."""
    is_retry = (
        ~transaction_version_2 & (new_epoch == coordinator.producer_epoch) & coordinator.is_known
    )
    same_id = (new_id == coordinator.producer_id) & (
        (new_epoch == coordinator.producer_epoch + 1) | is_retry
    )
    other_id = (position(new_id) > position(coordinator.producer_id)) & (new_epoch == 0)
    return (same_id | other_id) & (new_epoch < LARGEST_EPOCH) & is_handed_out(position(new_id))


def _next_id_fits(new_id: Expression, at_last_epoch: Expression) -> Expression:
    """Whether a next producer id is set exactly where an end uses up the epochs. Where one may be
    missing or lost, it may also be unset."""
    number = position(new_id.value)
    is_new = (number > position(coordinator.producer_id)) & is_handed_out(number)
    is_there = (epochs_go_on & at_last_epoch).implies(new_id.is_set)
    return is_there & new_id.is_set.implies(is_new & at_last_epoch)


pending_ends = coordinator.pending.is_in(PREPARE_COMMIT, PREPARE_ABORT)
fence_fits = (
    coordinator.fence_to_come
    & (coordinator.fence_end.value.producer_id == coordinator.producer_id)
    & (coordinator.fence_end.value.producer_epoch >= coordinator.producer_epoch)
)
pending_fits = invariant(
    "PendingFits",
    (coordinator.state != DEAD)
    & (coordinator.state != PREPARE_EPOCH_FENCE)
    & all_true(
        *(
            (coordinator.pending == target).implies(prepared_in)
            for target, prepared_in in (
                (EMPTY, coordinator.is_settled),
                (ONGOING, coordinator.is_settled | (coordinator.state == ONGOING)),
                (PREPARE_COMMIT, coordinator.state == ONGOING),
                (
                    PREPARE_ABORT,
                    (transaction_version_2 & coordinator.is_settled)
                    | (coordinator.state == ONGOING),
                ),
                (COMPLETE_COMMIT, coordinator.state == PREPARE_COMMIT),
                (COMPLETE_ABORT, coordinator.state == PREPARE_ABORT),
                (DEAD, coordinator.is_settled),
                (
                    PREPARE_EPOCH_FENCE,
                    (coordinator.state == ONGOING)
                    & (coordinator.producer_epoch < LARGEST_EPOCH)
                    & fence_fits,
                ),
            )
        )
    ),
    "A record that is being appended to the transaction log is prepared in a state that may come "
    "before it.",
)
"""A row prepares a record in these states only, and the state stays until it is appended."""


def _is_between(epoch: Expression) -> Expression:
    """Whether an epoch is the log's or the entry's, or between them. Before version 2 the entry is
    ahead where a fence has taken an epoch that isn't in the log."""
    return (epoch >= log.logged_epoch) & (epoch <= coordinator.producer_epoch)


record = unsettled.value
record_ends = record.state.is_in(PREPARE_COMMIT, PREPARE_ABORT)
unsettled_fits = invariant(
    "UnsettledFits",
    unsettled.is_set.implies(
        all_true(
            ~coordinator.is_prepared,
            coordinator.is_known | (record.state == EMPTY),
            record.state.is_in(EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, DEAD),
            (record.state == EMPTY).implies(
                coordinator.is_settled & _is_next_pair(record.producer_id, record.producer_epoch)
            ),
            (record.state == ONGOING).implies(
                (record.producer_id == coordinator.producer_id)
                & if_(
                    transaction_version_2,
                    record.producer_epoch == coordinator.producer_epoch,
                    _is_between(record.producer_epoch),
                )
                & ~record.next_id.is_set
            ),
            record_ends.implies(
                (record.producer_id == coordinator.producer_id)
                & if_(
                    transaction_version_2,
                    record.producer_epoch == coordinator.producer_epoch + 1,
                    _is_between(record.producer_epoch) & (coordinator.state == ONGOING),
                )
            ),
            _next_id_fits(record.next_id, record_ends & (record.producer_epoch == LARGEST_EPOCH)),
        )
    ),
    "A record whose append has failed, and that is in the log, follows the record before it.",
)
"""It was being appended when that failed, and nothing has been appended behind it."""


def is_lost(of_id: Expression) -> Expression:
    """Whether a client may have got a producer id that a failover has lost: the coordinator is left
    at the largest epoch. That id is older than one whose first epoch is being appended."""
    number = position(of_id)
    return all_true(
        ~rotation_in_log,
        coordinator.producer_epoch == LARGEST_EPOCH,
        number > position(coordinator.producer_id),
        is_handed_out(number),
        (coordinator.pending == EMPTY).implies(number < position(coordinator.pending_id)),
        (unsettled.is_set & (record.state == EMPTY)).implies(number < position(record.producer_id)),
    )


is_ahead = log.logged_epoch != coordinator.producer_epoch
logged_epoch_fits = all_true(
    log.logged_epoch <= coordinator.producer_epoch,
    is_ahead.implies((coordinator.state == ONGOING) & (log.logged_epoch != NO_EPOCH)),
    failed_fence_kept.implies(
        (log.logged_epoch + 1 >= coordinator.producer_epoch)
        & is_ahead.implies(coordinator.failed_fence)
    ),
)
logged_epoch_is_own = invariant(
    "LoggedEpoch",
    if_(transaction_version_2, log.logged_epoch == coordinator.producer_epoch, logged_epoch_fits)
    & (coordinator.is_known | coordinator.is_settled),
    "The entry's epoch is the log's, or before version 2 a fence's, and there is no transaction "
    "without one.",
)
"""An append changes both at once. Before version 2 a fence changes the entry before its record is
in the log."""

ids_given_out = invariant(
    "IdsGivenOut",
    is_handed_out(position(coordinator.producer_id))
    & (coordinator.pending == DEAD).implies(offered_id.is_set),
    "The transactional id's producer id has been handed out, and there is another for when it has "
    "expired.",
)
"""An id is taken from those that are offered, and isn't offered again. A transactional id expires
only while another producer id is offered."""

next_epoch_prepared = invariant(
    "NextEpochPrepared",
    all_true(
        (coordinator.pending == EMPTY).implies(
            _is_next_pair(coordinator.pending_id, coordinator.pending_epoch)
        ),
        pending_ends.implies(
            (
                coordinator.pending_epoch
                == if_(
                    transaction_version_2,
                    coordinator.producer_epoch + 1,
                    coordinator.producer_epoch,
                )
            )
            & coordinator.is_known
        ),
        (~transaction_version_2 & coordinator.fencing).implies(
            coordinator.fence_end.value.producer_epoch == coordinator.fence_epoch
        ),
        coordinator.pending.is_in(ONGOING, DEAD).implies(coordinator.is_known),
        (coordinator.pending == PREPARE_EPOCH_FENCE).implies(~coordinator.next_id.is_set),
        _next_id_fits(
            coordinator.next_id,
            (pending_ends & (coordinator.pending_epoch == LARGEST_EPOCH))
            | (coordinator.is_prepared & (coordinator.producer_epoch == LARGEST_EPOCH)),
        ),
    ),
    "A record that is being appended has the epoch after the last one, or the first one of a new "
    "producer id.",
)
"""A row that prepares a record takes the epoch from the entry, and only an append or a fence
changes the entry's."""

last_epoch = invariant(
    "LastEpochEnds",
    epochs_go_on.implies(
        (coordinator.producer_epoch < LARGEST_EPOCH)
        | (coordinator.is_prepared & coordinator.next_id.is_set)
    ),
    "The largest epoch is only that of an end after which there is a new producer id.",
)
"""The end that uses up the epochs takes the next producer id, and one record has both."""

partitions_logged = invariant(
    "PartitionsLogged",
    all_of(
        p,
        all_true(
            p.is_in(coordinator.partitions).implies(p.is_in(log.logged_partitions)),
            p.is_in(log.logged_partitions).implies(~coordinator.is_settled),
            ((coordinator.state == ONGOING) & p.is_in(log.logged_partitions)).implies(
                p.is_in(coordinator.partitions)
            ),
            ((coordinator.pending == ONGOING) & p.is_in(coordinator.partitions)).implies(
                p.is_in(coordinator.pending_partitions)
            ),
            (unsettled.is_set & p.is_in(coordinator.partitions)).implies(
                p.is_in(record.partitions)
            ),
            (unsettled.is_set & (record.state == EMPTY)).implies(~p.is_in(record.partitions)),
        ),
    ),
    "The partitions of a transaction are in the transaction log.",
)
"""A partition is added by the append of a record that names it, and is taken away only by the
answer to its marker."""

added_at_logged_epoch = invariant(
    "AddedAtLoggedEpoch",
    (coordinator.pending == ONGOING).implies(coordinator.producer_epoch == log.logged_epoch)
    & (unsettled.is_set & (record.state == ONGOING)).implies(
        record.producer_epoch == log.logged_epoch
    ),
    "Partitions are added at the log's epoch.",
)
"""Only a client that holds the entry's epoch adds partitions, and clients get epochs that are in
the log."""

LEMMAS = (
    pending_fits,
    unsettled_fits,
    logged_epoch_is_own,
    ids_given_out,
    next_epoch_prepared,
    last_epoch,
    partitions_logged,
    added_at_logged_epoch,
)
