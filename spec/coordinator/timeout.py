"""What the coordinator begins by itself: the abort of a transaction that is too old."""

from __future__ import annotations

from ...language import Row, Table, if_
from ..features import (
    rotation_on_fence,
    single_fence_bump,
    timeout_bumps_epoch,
    transaction_version_2,
    two_phase_commit,
)
from ..messages import (
    LARGEST_EPOCH,
    LONGEST,
    NO_EPOCH,
    TIMEOUTS,
    Errors,
    clock,
    is_past,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from .end_txn import FENCE_GIVEN_UP, bumped, needs_id, tell_fencers, with_new_id
from .entry import (
    ENDED,
    FENCE_TAKEN,
    NEW_ID,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_EPOCH_FENCE,
    bumped_epoch,
    continue_fence,
    failed_fence,
    fenced_for,
    fencing,
    last_producer_epoch,
    pending,
    pending_epoch,
    pending_last_epoch,
    producer_epoch,
    state,
    timeout,
    txn_start_timestamp,
    txn_timeout_ms,
)

transaction_timeout = Table(
    transaction,
    on=timeout,
    when=(TIMEOUTS > 0)
    & (state == ONGOING)
    & ~pending.is_set
    & is_past(txn_start_timestamp + txn_timeout_ms)
    & ~(two_phase_commit & (LONGEST > 0) & (txn_timeout_ms == LONGEST))
    & (rotation_on_fence | (producer_epoch < LARGEST_EPOCH)),
    elsewhere=(clock,),
    rows=(
        Row(
            "fence the open transaction",
            set={
                pending: PREPARE_EPOCH_FENCE,
                pending_epoch: if_(
                    failed_fence | ~timeout_bumps_epoch, producer_epoch, bumped_epoch
                ),
            },
            source="KAFKA-6119, TransactionCoordinator.abortTimedOutTransactions",
        ),
    ),
)

fence_continues = Table(
    transaction,
    on=continue_fence,
    elsewhere=(producer, clock, producer_id_manager),
    when=fencing,
    rows=(
        Row(
            "abort with the bumped epoch",
            during=~transaction_version_2,
            set={
                pending: PREPARE_ABORT,
                producer_epoch: pending_epoch,
                pending_last_epoch: FENCE_TAKEN[last_producer_epoch],
            }
            | FENCE_TAKEN
            | ENDED,
            source="TransactionCoordinator.endTransactionWithTV1, not from a client",
        ),
        Row(
            "a second new epoch overflows",
            when=pending_epoch == LARGEST_EPOCH,
            during=transaction_version_2 & ~single_fence_bump,
            note="The transaction stays open, and nobody holds the epoch that could end it.",
            set={
                pending: None,
                pending_epoch: NO_EPOCH,
                producer_epoch: pending_epoch,
                last_producer_epoch: NO_EPOCH,
                fenced_for: NOBODY,
            },
            send=(tell_fencers(Errors.UNKNOWN_SERVER_ERROR),),
            source="TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
        ),
        Row(
            "abort, which bumps the epoch a second time",
            during=transaction_version_2 & ~single_fence_bump,
            set={
                pending: PREPARE_ABORT,
                producer_epoch: pending_epoch,
                pending_epoch: pending_epoch + 1,
                pending_last_epoch: pending_epoch,
            }
            | FENCE_TAKEN
            | ENDED,
            source="TransactionCoordinator.endTransaction in 4.0.0",
        ),
        Row(
            "no producer id to be had",
            when=needs_id & ~offered_id.is_set,
            during=transaction_version_2 & rotation_on_fence,
            set=FENCE_GIVEN_UP,
            send=(tell_fencers(Errors.COORDINATOR_LOAD_IN_PROGRESS),),
            source=NEW_ID,
        ),
        Row(
            "abort with a new producer id",
            when=needs_id,
            during=transaction_version_2 & rotation_on_fence,
            set={pending: PREPARE_ABORT} | with_new_id | ENDED,
            source="KAFKA-20090",
        ),
        Row(
            "abort, which bumps the epoch",
            during=transaction_version_2,
            set={pending: PREPARE_ABORT} | bumped | ENDED,
            source="KAFKA-19367",
        ),
    ),
)
