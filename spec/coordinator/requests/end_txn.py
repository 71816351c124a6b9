"""EndTxn at the coordinator, and the end of a transaction that the coordinator itself fences.

Kafka has one method for both, `TransactionCoordinator.endTransaction`. A client without transaction
version 2 gets `endTransactionWithTV1`. That makes four tables here. A client is answered under its
own connection; a fence has no client, but answers the InitProducerId requests that caused it.

A fence takes the entry's lock twice, first to fence and then to end. Other requests may come
between the two.
"""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, if_, lift, minimum, some, to_each
from ....language.expressions import Operand
from ...messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    Result,
    answer_on,
    clock,
    connection,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ...releases.features import (
    failed_fence_kept,
    late_commit_fenced,
    late_fence_end_refused,
    rotation_on_fence,
    single_fence_bump,
    transaction_version_2,
)
from ...releases.proposals import retry_by_entry
from .. import entry
from ..entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    c,
)

# Values that the tables share -------------------------------------------------------------------


def answer(error: Expression, producer_epoch: Operand = NO_EPOCH) -> Sending:
    """The response to EndTxn. It goes out only while the connection of the request is open."""
    return answer_on(
        connection.at(EndTxn.producer),
        EndTxnResponse,
        EndTxn.connection,
        producer=EndTxn.producer,
        error=error,
        producer_id=entry.producer_id,
        producer_epoch=producer_epoch,
    )


def answer_fencers(error: Expression, when: Expression | bool = True) -> Sending:
    """The responses to the InitProducerId requests that made the coordinator fence."""
    return to_each(
        c,
        lift(when) & (entry.fenced_for[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=entry.producer_id,
            producer_epoch=NO_EPOCH,
        ),
    )


commits = EndTxn.result == Result.COMMIT
prepare_state = if_(commits, PREPARE_COMMIT, PREPARE_ABORT)
complete_state = if_(commits, COMPLETE_COMMIT, COMPLETE_ABORT)
fence = entry.fence_end.value
"""The arguments that the fence has for endTransaction. It always aborts."""

# With KAFKA-9666 a fence takes its epoch before the append, and has no last epoch.
last_epoch_of_fence = if_(failed_fence_kept, NO_EPOCH, entry.producer_epoch)

# EndTxn before transaction version 2 ------------------------------------------------------------

end_txn_tv1 = Table(
    transaction,
    on=EndTxn,
    others=(producer, clock, producer_id_manager),
    during=~transaction_version_2,
    source="TransactionCoordinator.endTransactionWithTV1",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id",
            when=EndTxn.producer_id != entry.producer_id,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-epoch",
            "The entry has another epoch, older or newer",
            when=EndTxn.producer_epoch != entry.producer_epoch,
            during=entry.ends_strictly,
            reply=answer(entry.fenced),
            source="KAFKA-9600",
        ),
        Row(
            "stale-epoch",
            "The entry has a newer epoch",
            when=EndTxn.producer_epoch < entry.producer_epoch,
            during=~entry.ends_strictly,
            reply=answer(entry.fenced),
            source="TransactionCoordinator.handleEndTransaction before 2.6",
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.in_transition,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "abort-overtakes-fence",
            "The client's abort takes the place of the fence's",
            when=entry.fencing & ~commits,
            set={
                entry.pending: PREPARE_ABORT,
                entry.producer_epoch: EndTxn.producer_epoch,
                entry.last_producer_epoch: last_epoch_of_fence,
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: EndTxn.producer_epoch,
                entry.pending_last_epoch: last_epoch_of_fence,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 0,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
        ),
        Row(
            "commit-during-fence",
            "A fence is pending, and a commit can't take its place",
            when=entry.fencing & commits,
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareTransitionTo",
        ),
        Row(
            "prepare",
            "The commit or abort is prepared",
            when=entry.state == ONGOING,
            set={
                entry.pending: prepare_state,
                entry.pending_epoch: entry.producer_epoch,
                entry.pending_last_epoch: entry.last_producer_epoch,
                entry.ends_ahead: ~entry.ends_strictly
                & (EndTxn.producer_epoch > entry.producer_epoch),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 0,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
            source="TransactionMetadata.prepareAbortOrCommit",
        ),
        Row(
            "already-complete",
            "The transaction has ended with this result",
            when=entry.state == complete_state,
            reply=answer(Errors.NONE),
        ),
        Row(
            "already-prepared",
            "The transaction is ending with this result",
            when=entry.state == prepare_state,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "invalid-state",
            "No transaction is open, or it ends with the other result",
            reply=answer(Errors.INVALID_TXN_STATE),
        ),
    ),
)

# EndTxn of transaction version 2 ----------------------------------------------------------------

rotates_producer_id = entry.exhausted & (rotation_on_fence | ~entry.fencing)
"""Whether the end takes a new producer id, because the epochs of the old one are used up."""
offered_id_after = if_(rotates_producer_id, entry.offered_id_after, offered_id)

is_retry_of_bump = (EndTxn.producer_id == entry.producer_id) & (
    entry.producer_epoch == EndTxn.producer_epoch + 1
)
is_retry_of_overflow = (
    (entry.previous_id == EndTxn.producer_id)
    & (EndTxn.producer_epoch == LARGEST_EPOCH - 1)
    & (entry.producer_epoch == 0)
)
is_retry = ~entry.fencing & (is_retry_of_bump | is_retry_of_overflow)
is_current_epoch = EndTxn.producer_epoch == entry.producer_epoch

end_txn_tv2 = Table(
    transaction,
    on=EndTxn,
    others=(producer, clock, producer_id_manager),
    during=transaction_version_2,
    source="TransactionCoordinator.endTransaction",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.in_transition,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id, and this isn't a retry from before it",
            when=(EndTxn.producer_id != entry.producer_id) & ~(is_retry & is_retry_of_overflow),
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "retry-of-unbumped-end",
            "A retry would learn an epoch that the end before didn't bump",
            when=is_retry
            & (entry.is_prepared | entry.is_complete)
            & (entry.client_transaction_version != 2),
            during=retry_by_entry,
            reply=answer(entry.fenced),
        ),
        Row(
            "other-epoch",
            "The epoch is neither the entry's nor that of a retry",
            when=~if_(
                entry.is_prepared,
                is_retry & is_retry_of_bump,
                if_(entry.is_complete, is_retry | is_current_epoch, is_current_epoch),
            ),
            reply=answer(entry.fenced),
        ),
        Row(
            "already-complete",
            "A retry, and the transaction has ended with this result",
            when=is_retry & (entry.state == complete_state),
            reply=answer(Errors.NONE, producer_epoch=entry.producer_epoch),
        ),
        Row(
            "commit-after-abort",
            "A retry of a commit, but the transaction has been aborted",
            when=is_retry & commits & (entry.state == COMPLETE_ABORT),
            during=late_commit_fenced,
            reply=answer(entry.fenced),
            source="KAFKA-20785",
        ),
        Row(
            "complete-otherwise",
            "A retry, and the transaction has ended with the other result",
            when=is_retry & entry.is_complete,
            reply=answer(Errors.INVALID_TXN_STATE),
        ),
        Row(
            "already-prepared",
            "The transaction is ending with this result",
            when=entry.state == prepare_state,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "prepared-otherwise",
            "The transaction is ending with the other result",
            when=entry.is_prepared,
            reply=answer(Errors.INVALID_TXN_STATE),
        ),
        Row(
            "empty-commit",
            "No transaction is open that could be committed",
            when=commits & entry.is_settled,
            reply=answer(Errors.INVALID_TXN_STATE),
        ),
        Row(
            "no-producer-id-over-fence",
            "An abort takes the place of the fence's, but no new producer id is available",
            when=entry.fencing & ~commits & rotates_producer_id & ~offered_id.is_set,
            during=rotation_on_fence,
            set={entry.pending: None},
            reply=answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
            note="The fence then finds no fence pending, and holds an epoch that nobody took.",
        ),
        Row(
            "no-producer-id",
            "The epochs are used up, but no new producer id is available",
            when=rotates_producer_id & ~offered_id.is_set,
            reply=answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "commit-during-fence",
            "A fence is pending, and a commit can't take its place",
            when=entry.fencing & commits,
            set={offered_id: offered_id_after},
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareTransitionTo",
            note="If the epochs are used up, a producer id is taken and lost.",
        ),
        Row(
            "largest-epoch",
            "The entry has the largest epoch, which no end can bump",
            when=(entry.producer_epoch == LARGEST_EPOCH) & (commits | ~rotation_on_fence),
            set={offered_id: offered_id_after},
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
            note="The producer id that was taken for it is lost.",
        ),
        Row(
            "abort-overtakes-fence",
            "The client's abort takes the place of the fence's",
            when=entry.fencing,
            set={
                entry.pending: PREPARE_ABORT,
                entry.producer_epoch: entry.producer_epoch,
                entry.last_producer_epoch: if_(
                    single_fence_bump, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.failed_fence: if_(single_fence_bump, entry.failed_fence, failed_fence_kept),
                entry.pending_epoch: entry.bumped_epoch,
                entry.pending_last_epoch: entry.producer_epoch,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
            source="TransactionCoordinator.endTransaction, KAFKA-19367, KAFKA-20090",
        ),
        Row(
            "prepare",
            "The commit or abort is prepared, with the client's next epoch",
            when=entry.state == ONGOING,
            set={
                entry.pending: prepare_state,
                entry.pending_epoch: entry.bumped_epoch,
                entry.pending_last_epoch: entry.producer_epoch,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
            source="TransactionMetadata.prepareAbortOrCommit",
        ),
        Row(
            "empty-abort",
            "No transaction is open; the abort bumps the epoch",
            set={
                entry.pending: PREPARE_ABORT,
                entry.pending_epoch: entry.bumped_epoch,
                entry.pending_last_epoch: entry.producer_epoch,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: now,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
            source="KIP-890 part 2, the empty abort",
        ),
    ),
)

# The fence's own end before transaction version 2 -----------------------------------------------

fence_end_tv1 = Table(
    transaction,
    on=entry.continue_fence,
    others=(producer, clock, producer_id_manager),
    when=entry.fence_end.is_set,
    during=~transaction_version_2,
    source="TransactionCoordinator.endTransactionWithTV1",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "overtaken",
            "The fence is no longer pending",
            when=~entry.fencing,
            during=late_fence_end_refused,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id by now",
            when=fence.producer_id != entry.producer_id,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "stale-epoch",
            "The entry has a newer epoch by now",
            when=fence.producer_epoch < entry.producer_epoch,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(entry.fenced),),
            source="TransactionCoordinator.handleEndTransaction before 2.6",
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.in_transition,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "abort-with-fence-epoch",
            "The abort is prepared, with the epoch of the fence",
            when=entry.fencing,
            set={
                entry.pending: PREPARE_ABORT,
                entry.producer_epoch: fence.producer_epoch,
                entry.last_producer_epoch: last_epoch_of_fence,
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: fence.producer_epoch,
                entry.pending_last_epoch: last_epoch_of_fence,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 0,
                entry.fence_end: None,
            },
        ),
        Row(
            "abort-later-transaction",
            "The fenced transaction has ended; the abort is of a later one",
            when=entry.state == ONGOING,
            set={
                entry.pending: PREPARE_ABORT,
                entry.pending_epoch: entry.producer_epoch,
                entry.pending_last_epoch: entry.last_producer_epoch,
                entry.ends_ahead: fence.producer_epoch > entry.producer_epoch,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 0,
                entry.fence_end: None,
            },
            source="TransactionMetadata.prepareAbortOrCommit",
        ),
        Row(
            "already-complete",
            "The transaction is aborted already",
            when=entry.state == COMPLETE_ABORT,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "already-prepared",
            "The transaction is being aborted already",
            when=entry.state == PREPARE_ABORT,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "invalid-state",
            "No transaction is open, or it is committed",
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_TXN_STATE),),
        ),
    ),
)

# The fence's own end with transaction version 2 -------------------------------------------------

is_fence_retry_of_bump = (fence.producer_id == entry.producer_id) & (
    entry.producer_epoch == fence.producer_epoch + 1
)
is_fence_retry_of_overflow = (
    (entry.previous_id == fence.producer_id)
    & (fence.producer_epoch == LARGEST_EPOCH - 1)
    & (entry.producer_epoch == 0)
)
is_fence_retry = ~entry.fencing & (is_fence_retry_of_bump | is_fence_retry_of_overflow)
is_fence_epoch = if_(
    entry.fencing,
    fence.producer_epoch >= entry.producer_epoch,
    fence.producer_epoch == entry.producer_epoch,
)
# In 4.0.0 the end bumps the epoch that the fence has bumped already.
epoch_to_end = if_(single_fence_bump | ~entry.fencing, entry.producer_epoch, fence.producer_epoch)

fence_end_tv2 = Table(
    transaction,
    on=entry.continue_fence,
    others=(producer, clock, producer_id_manager),
    when=entry.fence_end.is_set,
    during=transaction_version_2,
    source="TransactionCoordinator.endTransaction",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "overtaken",
            "The fence is no longer pending",
            when=~entry.fencing,
            during=late_fence_end_refused,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.in_transition,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id, and this isn't a retry from before it",
            when=(fence.producer_id != entry.producer_id)
            & ~(is_fence_retry & is_fence_retry_of_overflow),
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_PRODUCER_ID_MAPPING),),
        ),
        Row(
            "other-epoch",
            "The epoch is neither the fence's nor that of a retry",
            when=~if_(
                entry.is_prepared,
                is_fence_retry & is_fence_retry_of_bump,
                if_(entry.is_complete, is_fence_retry | is_fence_epoch, is_fence_epoch),
            ),
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(entry.fenced),),
        ),
        Row(
            "already-complete",
            "A retry, and the transaction is aborted",
            when=is_fence_retry & (entry.state == COMPLETE_ABORT),
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "complete-otherwise",
            "A retry, and the transaction is committed",
            when=is_fence_retry & entry.is_complete,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_TXN_STATE),),
        ),
        Row(
            "already-prepared",
            "The transaction is being aborted already",
            when=entry.state == PREPARE_ABORT,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.CONCURRENT_TRANSACTIONS),),
        ),
        Row(
            "prepared-otherwise",
            "The transaction is being committed",
            when=entry.is_prepared,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.INVALID_TXN_STATE),),
        ),
        Row(
            "no-producer-id-for-fence",
            "The epochs are used up, but the fence gets no new producer id",
            when=entry.fencing & rotates_producer_id & ~offered_id.is_set,
            during=rotation_on_fence,
            set={entry.pending: None, entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.COORDINATOR_LOAD_IN_PROGRESS),),
        ),
        Row(
            "no-producer-id",
            "The epochs are used up, but no new producer id is available",
            when=rotates_producer_id & ~offered_id.is_set,
            set={entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.COORDINATOR_LOAD_IN_PROGRESS),),
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "second-bump-overflows",
            "The fence has the largest epoch, which the end can't bump",
            when=entry.fencing & (fence.producer_epoch == LARGEST_EPOCH),
            during=~single_fence_bump,
            set={
                entry.pending: None,
                entry.producer_epoch: fence.producer_epoch,
                entry.last_producer_epoch: NO_EPOCH,
                entry.fence_end: None,
                entry.fenced_for: NOBODY,
            },
            send=(answer_fencers(Errors.UNKNOWN_SERVER_ERROR),),
            source="TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
            note="The transaction stays open, and nobody holds the epoch that could end it.",
        ),
        Row(
            "largest-epoch",
            "The entry has the largest epoch, which no end can bump",
            when=(entry.producer_epoch == LARGEST_EPOCH) & ~rotation_on_fence,
            set={offered_id: offered_id_after, entry.fence_end: None, entry.fenced_for: NOBODY},
            send=(answer_fencers(Errors.UNKNOWN_SERVER_ERROR),),
            source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
            note="The producer id that was taken for it is lost.",
        ),
        Row(
            "abort-and-bump",
            "The abort is prepared, with the epoch after the fenced one",
            when=entry.fencing,
            set={
                entry.pending: PREPARE_ABORT,
                entry.producer_epoch: epoch_to_end,
                entry.last_producer_epoch: if_(
                    single_fence_bump, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.failed_fence: if_(single_fence_bump, entry.failed_fence, failed_fence_kept),
                entry.pending_epoch: minimum(epoch_to_end + 1, LARGEST_EPOCH),
                entry.pending_last_epoch: epoch_to_end,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.fence_end: None,
            },
            source="TransactionCoordinator.endTransaction, KAFKA-19367, KAFKA-20090",
        ),
        Row(
            "abort-later-transaction",
            "The fenced transaction has ended; the abort is of a later one",
            when=entry.state == ONGOING,
            set={
                entry.pending: PREPARE_ABORT,
                entry.pending_epoch: minimum(epoch_to_end + 1, LARGEST_EPOCH),
                entry.pending_last_epoch: epoch_to_end,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.fence_end: None,
            },
            source="TransactionMetadata.prepareAbortOrCommit",
        ),
        Row(
            "empty-abort",
            "No transaction is open; the abort bumps the epoch",
            set={
                entry.pending: PREPARE_ABORT,
                entry.pending_epoch: minimum(epoch_to_end + 1, LARGEST_EPOCH),
                entry.pending_last_epoch: epoch_to_end,
                entry.next_id: if_(rotates_producer_id, offered_id, None),
                offered_id: offered_id_after,
                entry.pending_start_timestamp: now,
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.fence_end: None,
            },
            source="KIP-890 part 2, the empty abort",
        ),
    ),
)

# An event has one table, of both methods: below transaction.version 2, endTransaction calls
# endTransactionWithTV1 at once --------------------------------------------------------------------

end_txn = Table(
    transaction,
    on=EndTxn,
    others=(producer, clock, producer_id_manager),
    rows=(*end_txn_tv1.rows, *end_txn_tv2.rows),
)
fence_continues = Table(
    transaction,
    on=entry.continue_fence,
    others=(producer, clock, producer_id_manager),
    when=entry.fence_end.is_set,
    rows=(*fence_end_tv1.rows, *fence_end_tv2.rows),
)
