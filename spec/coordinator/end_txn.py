"""EndTxn at the coordinator: before version 2 of transactions, with it, and in its draft."""

from __future__ import annotations

from ...language import Expression, Row, Sending, Table, if_, only, to_each
from ..features import (
    failed_fence_kept,
    rotation_on_fence,
    single_fence_bump,
    strict_end_txn_epoch,
    transaction_version_2,
    version_2_draft,
)
from ..messages import (
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
from .entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ENDED,
    FENCE_TAKEN,
    ID_TAKEN,
    NEW_ID,
    NOBODY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_TRANSITION,
    asks,
    bumped_epoch,
    c,
    client_transaction_version,
    dated,
    ending,
    ends_ahead,
    entry_version,
    exhausted,
    failed_fence,
    fenced,
    fenced_for,
    fencing,
    in_transition,
    is_known,
    is_prepared,
    is_settled,
    last_producer_epoch,
    next_id,
    pending,
    pending_epoch,
    pending_last_epoch,
    previous_id,
    producer_epoch,
    producer_id,
    same_producer,
    state,
)

_commits = EndTxn.result == Result.COMMIT
_epoch = EndTxn.producer_epoch
_prepare = if_(_commits, PREPARE_COMMIT, PREPARE_ABORT)


def _end_answer(error: Expression, epoch: Expression | int = NO_EPOCH) -> Sending:
    return answer_on(
        connection.at(EndTxn.producer), EndTxnResponse, EndTxn.connection,
        producer=EndTxn.producer, error=error, producer_id=producer_id, producer_epoch=epoch,
    )  # fmt: skip


_busy = _end_answer(Errors.CONCURRENT_TRANSACTIONS)
_invalid = _end_answer(Errors.INVALID_TXN_STATE)


def tell_fencers(error: Expression) -> Sending:
    """The answer to whose InitProducerId made the coordinator abort a transaction."""
    return to_each(
        c,
        fenced_for[c] == connection.at(c),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=producer_id,
            producer_epoch=NO_EPOCH,
        ),
    )


_fencer_waits = tell_fencers(Errors.CONCURRENT_TRANSACTIONS)

_END_1 = "TransactionCoordinator.endTransactionWithTV1"
_end_before_version_2 = only(
    ~transaction_version_2 & ~version_2_draft,
    *same_producer(EndTxn, _end_answer, _END_1),
    Row(
        "other epoch",
        when=if_(EndTxn.is_from_client, _epoch != producer_epoch, _epoch < producer_epoch),
        during=strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="KAFKA-9600",
    ),
    Row(
        "stale epoch",
        when=_epoch < producer_epoch,
        during=~strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="TransactionCoordinator.endTransaction before 2.6",
    ),
    Row("transition in flight", when=in_transition, reply=_busy, source=_END_1),
    Row(
        "abort overtakes a fence",
        when=fencing & ~_commits,
        set={
            pending: PREPARE_ABORT,
            producer_epoch: _epoch,
            pending_epoch: _epoch,
            pending_last_epoch: FENCE_TAKEN[last_producer_epoch],
            fenced_for: NOBODY,
        }
        | FENCE_TAKEN
        | ENDED
        | asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_1,
    ),
    Row(
        "commit meets a fence",
        when=fencing,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=PREPARE_TRANSITION,
    ),
    Row(
        "end",
        when=state == ONGOING,
        set={
            pending: _prepare,
            pending_epoch: producer_epoch,
            pending_last_epoch: last_producer_epoch,
            ends_ahead: ~strict_end_txn_epoch & (_epoch > producer_epoch),
        }
        | ENDED
        | asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already",
        when=state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT),
        reply=_end_answer(Errors.NONE),
        source=_END_1,
    ),
    Row("end under way", when=state == _prepare, reply=_busy, source=_END_1),
    Row("no transaction to end so", reply=_invalid, source=_END_1),
)

_END_2 = "TransactionCoordinator.endTransaction"
_retry_of_bump = (EndTxn.producer_id == producer_id) & (producer_epoch == _epoch + 1)
_retry_of_overflow = (
    (previous_id == EndTxn.producer_id) & (_epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
)
_is_retry = ~fencing & (_retry_of_bump | _retry_of_overflow)
_ends = state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
bumped: dict[Expression, Expression | int | None] = {
    pending_epoch: bumped_epoch,
    pending_last_epoch: producer_epoch,
}
needs_id = exhausted & (rotation_on_fence | ~fencing)


def _id_taken(needed: Expression) -> dict[Expression, Expression]:
    return {offered_id: if_(needed, ID_TAKEN[offered_id], offered_id)}


def _next_id_taken(needed: Expression) -> dict[Expression, Expression]:
    return {next_id: if_(needed, offered_id, None)} | _id_taken(needed)


with_new_id = bumped | _next_id_taken(needs_id)
FENCE_GIVEN_UP: dict[Expression, Expression | int | None] = {
    pending: None,
    pending_epoch: NO_EPOCH,
    fenced_for: NOBODY,
}
_end_version_2 = only(
    transaction_version_2 & ~version_2_draft,
    Row(
        "unknown transactional id",
        when=~is_known & ~pending.is_set,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row("transition in flight", when=in_transition, reply=_busy, source=_END_2),
    Row(
        "other producer id",
        when=(EndTxn.producer_id != producer_id) & ~(_is_retry & _retry_of_overflow),
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other epoch",
        when=~if_(
            is_prepared,
            _is_retry & _retry_of_bump,
            if_(_ends, _is_retry | (_epoch == producer_epoch), _epoch == producer_epoch),
        ),
        reply=_end_answer(fenced),
        source=_END_2,
    ),
    Row(
        "ended so already",
        when=_is_retry & (state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT)),
        reply=_end_answer(Errors.NONE, producer_epoch),
        source=_END_2,
    ),
    Row("ended otherwise already", when=_is_retry & _ends, reply=_invalid, source=_END_2),
    Row("end under way", when=state == _prepare, reply=_busy, source=_END_2),
    Row("other end under way", when=is_prepared, reply=_invalid, source=_END_2),
    Row("commit of nothing", when=_commits & is_settled, reply=_invalid, source=_END_2),
    Row(
        "no producer id for an abort that overtakes a fence",
        when=fencing & ~_commits & needs_id & ~offered_id.is_set,
        during=rotation_on_fence,
        note="The fence finds no fence pending, and holds an epoch that nobody took.",
        set=FENCE_GIVEN_UP,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        send=(
            tell_fencers(
                if_(producer_epoch == LARGEST_EPOCH, Errors.COORDINATOR_LOAD_IN_PROGRESS, fenced)
            ),
        ),
        source=_END_2,
    ),
    Row(
        "no producer id to be had",
        when=needs_id & ~offered_id.is_set,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        source=NEW_ID,
    ),
    Row(
        "commit meets a fence",
        when=fencing & _commits,
        note="Where epochs are used up, a producer id is taken all the same.",
        set=_id_taken(needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=PREPARE_TRANSITION,
    ),
    Row(
        "end at the largest epoch",
        when=(producer_epoch == LARGEST_EPOCH) & (_commits | ~rotation_on_fence),
        note="The producer id that was taken for it is lost.",
        set=_id_taken(needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
    ),
    Row(
        "abort overtakes a fence",
        when=fencing,
        set={
            pending: PREPARE_ABORT,
            last_producer_epoch: if_(single_fence_bump, last_producer_epoch, NO_EPOCH),
            failed_fence: if_(single_fence_bump, failed_fence, failed_fence_kept),
            fenced_for: NOBODY,
        }
        | with_new_id
        | ENDED
        | asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_2,
    ),
    Row(
        "end",
        when=state == ONGOING,
        set={pending: _prepare} | with_new_id | ENDED | asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "abort of nothing",
        set={pending: PREPARE_ABORT} | with_new_id | dated(now, entry_version) | asks(EndTxn),
        source="KIP-890 part 2, the empty abort",
    ),
)

# The draft of version 2: what the request's version is decides what the end does to the epoch,
# what the version of the end before was decides which epochs count.
_bumps_since = ~fencing & (client_transaction_version == 2)
_draft_retry_of_bump = _bumps_since & (producer_epoch == _epoch + 1)
_draft_retry_of_overflow = _bumps_since & (
    (previous_id == EndTxn.producer_id) & (_epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
)
_draft_needs_id = transaction_version_2 & exhausted & ~fencing
_done = state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT)
_end_draft = only(
    version_2_draft,
    Row(
        "unknown transactional id",
        when=~is_known & ~pending.is_set,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other producer id",
        when=(EndTxn.producer_id != producer_id) & ~_draft_retry_of_overflow,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other epoch",
        when=~if_(
            _bumps_since & is_prepared,
            _draft_retry_of_bump,
            if_(
                _bumps_since & state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT),
                _draft_retry_of_bump | _draft_retry_of_overflow,
                if_(EndTxn.is_from_client, _epoch == producer_epoch, _epoch >= producer_epoch),
            ),
        ),
        reply=_end_answer(fenced),
        source=_END_2,
    ),
    Row("transition in flight", when=in_transition, reply=_busy, source=_END_2),
    Row(
        "commit meets a fence",
        when=fencing & _commits,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=PREPARE_TRANSITION,
    ),
    Row(
        "no producer id to be had",
        when=(state == ONGOING) & _draft_needs_id & ~offered_id.is_set,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        source=NEW_ID,
    ),
    Row(
        "end at the largest epoch",
        when=(state == ONGOING) & transaction_version_2 & (producer_epoch == LARGEST_EPOCH),
        set=_id_taken(_draft_needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
    ),
    Row(
        "abort overtakes a fence",
        when=fencing,
        set={
            pending: PREPARE_ABORT,
            producer_epoch: _epoch,
            pending_epoch: if_(transaction_version_2, _epoch + 1, _epoch),
            pending_last_epoch: if_(transaction_version_2, _epoch, NO_EPOCH),
            fenced_for: NOBODY,
        }
        | FENCE_TAKEN
        | ENDED
        | asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_2,
    ),
    Row(
        "end",
        when=state == ONGOING,
        set=ending(_prepare, transaction_version_2)
        | _next_id_taken(_draft_needs_id)
        | asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already",
        when=_done,
        reply=_end_answer(Errors.NONE, producer_epoch),
        source=_END_2,
    ),
    Row("end under way", when=state == _prepare, reply=_busy, source=_END_2),
    Row("no transaction to end so", reply=_invalid, source=_END_2),
)

end_txn = Table(
    transaction,
    on=EndTxn,
    elsewhere=(producer, clock, producer_id_manager),
    rows=_end_before_version_2 + _end_version_2 + _end_draft,
)
