"""EndTxn, and its answer: TransactionManager.EndTxnHandler."""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, each, if_, set_of, some, those
from ...errors import Errors, asks_again
from ...messages import (
    NO_EPOCH,
    NO_OFFSET,
    EndTxn,
    EndTxnResponse,
    Result,
    producer,
)
from ...releases.features import (
    client_epoch_bump,
    failed_abort_fatal,
    illegal_state_fatal,
    retried_by_kind,
    transaction_version_2,
)
from ...releases.proposals import downgrade_waits
from ..calls.application import Outcome, acknowledged, application, outcome
from ..state import (
    ABORTING,
    ACKNOWLEDGED,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    NO_ID,
    NO_SEQUENCE,
    READY,
    added,
    adding,
    batches,
    bump_asked,
    ending,
    entry,
    entry_epoch,
    entry_id,
    last_acked,
    last_acked_offset,
    must_bump,
    next_sequence,
    producer_epoch,
    producer_id,
    q,
    reset_entries,
    s,
    state,
    txn,
    unresolved,
)
from .answers import is_abortable, is_unknown_id, unknown_id_error
from .queue import Coordinator, Request, answered, current, queued, sought
from .transaction_manager import (
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    adds_implicitly,
    call_result,
    can_bump,
    finalized_version,
    last_error,
    lost_result,
    may_be_ready,
    may_initialize,
    new_partitions,
    pending_call,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_started,
    transaction_version,
)


def end(result: Expression, on: Expression) -> Sending:
    """EndTxn with the id and epoch that the client has."""
    return EndTxn(
        producer=producer.this,
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        result=result,
    )


result = if_(state == COMMITTING, Result.COMMIT, Result.ABORT)
"""The end in progress."""
version_after_end = if_(downgrade_waits, finalized_version, transaction_version)

AFTER_END = if_(must_bump, INITIALIZING, READY)

may_complete = if_(must_bump, may_initialize | (state == ABORTING), may_be_ready)
"""Whether the state may be the one after the end: TransactionManager.completeTransaction."""

reported_outcome = if_(state == COMMITTING, Outcome.COMMITTED, Outcome.ABORTED)
reported_records = if_(
    state == COMMITTING,
    each(q, those(s, batches[q][s].status == ACKNOWLEDGED)),
    acknowledged.at(txn.value),
)
"""The records that a commit has made visible."""
end_error = EndTxnResponse.error
can_abort = is_abortable(end_error) | (is_unknown_id(end_error) & can_bump)

ended = Table(
    producer,
    on=EndTxnResponse,
    response=Reaction,
    others=(application,),
    rows=(
        Row(
            "invalid-transition-fatal",
            "The client may not go on to the next state: that is fatal",
            during=illegal_state_fatal,
            when=(end_error == Errors.NONE) & ~may_complete,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.ILLEGAL_STATE),
                # a client that is ready by then has had the answer to InitProducerId instead
                call_result: if_(state.is_in(READY, IN_TRANSACTION), call_result, lost_result),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.WAIT),
            source="TransactionManager.transitionTo, KAFKA-14831",
        ),
        Row(
            "invalid-transition",
            "The client may not go on to the next state, and stays in its own",
            during=~illegal_state_fatal,
            when=(end_error == Errors.NONE) & ~may_complete,
            set={
                outcome.at(txn.value): reported_outcome,
                acknowledged.at(txn.value): reported_records,
                txn: None,
                ending: False,
                # initTransactions is answered by another request: an earlier call asked for the end
                call_result: if_(pending_call == some(INITIALIZING), call_result, lost_result),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.WAIT),
            source="TransactionManager.completeTransaction",
            note="Nothing was completed, as where an abort has failed; the next request goes out.",
        ),
        Row(
            "ended-new-epoch",
            "The transaction has ended; all sequences start again with the new epoch",
            during=transaction_version_2,
            when=(end_error == Errors.NONE) & (EndTxnResponse.producer_epoch != NO_EPOCH),
            goto=AFTER_END,
            set={
                producer_id: EndTxnResponse.producer_id,
                producer_epoch: EndTxnResponse.producer_epoch,
                next_sequence: each(q, 0),
                last_acked: each(q, NO_SEQUENCE),
                last_acked_offset: each(q, NO_OFFSET),
                entry_id: each(q, NO_ID),
                entry_epoch: each(q, NO_EPOCH),
                entry: reset_entries(True),
                unresolved: each(q, None),
                outcome.at(txn.value): reported_outcome,
                acknowledged.at(txn.value): reported_records,
                txn: None,
                ending: False,
                adding: set_of(),
                added: set_of(),
                new_partitions: set_of(),
                last_error: None,
                must_bump: False,
                transaction_started: False,
                transaction_version: version_after_end,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.EndTxnHandler.handleResponse, KIP-890",
        ),
        Row(
            "ended",
            "The transaction has ended",
            when=end_error == Errors.NONE,
            goto=AFTER_END,
            set={
                outcome.at(txn.value): reported_outcome,
                acknowledged.at(txn.value): reported_records,
                txn: None,
                ending: False,
                adding: set_of(),
                added: set_of(),
                new_partitions: set_of(),
                last_error: None,
                must_bump: False,
                transaction_started: False,
                transaction_version: version_after_end,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.EndTxnHandler.handleResponse, completeTransaction; KIP-360",
            note="If batches expired while aborting, the client needs a new epoch. Nobody has "
            "asked for it, so the client waits for good.",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=end_error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
            set={
                transaction_coordinator: False,
                sought: sought | set_of(Coordinator.TRANSACTION),
                queued: queued | set_of(Request.END_TXN, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.EndTxnHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=asks_again(
                end_error,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.CONCURRENT_TRANSACTIONS,
                by_kind=retried_by_kind,
            ),
            set={
                queued: queued | set_of(Request.END_TXN),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.EndTxnHandler.handleResponse",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            when=end_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.PRODUCER_FENCED),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.PRODUCER_FENCED, ends_call=pending_call.is_set),
            source="TransactionManager.EndTxnHandler.handleResponse",
        ),
        Row(
            "fatal",
            "The error is fatal",
            when=end_error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~is_unknown_id(end_error),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(end_error),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, end_error, ends_call=pending_call.is_set),
            source="TransactionManager.EndTxnHandler.handleResponse",
        ),
        Row(
            "unknown-id-fatal",
            "The producer id is unknown, and the client can't ask for a new epoch",
            when=is_unknown_id(end_error) & ~can_bump,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(unknown_id_error(end_error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.FAIL, unknown_id_error(end_error), ends_call=pending_call.is_set
            ),
            source="TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "abortable-in-abort",
            "An abort can't be aborted",
            during=failed_abort_fatal,
            when=is_abortable(end_error) & (state == ABORTING),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source="TransactionManager.EndTxnHandler.handleResponse, KAFKA-19250",
        ),
        Row(
            "abortable",
            "The transaction can only be aborted",
            during=client_epoch_bump,
            when=can_abort & (state != ABORTING),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(end_error),
                must_bump: must_bump | (is_unknown_id(end_error) & ~adds_implicitly),
                bump_asked: False,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, end_error),
            source="TransactionManager.EndTxnHandler.handleResponse, "
            "TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "abort-failed-bump",
            "The abort has failed, and InitProducerId is next in the queue",
            during=client_epoch_bump,
            when=can_abort & bump_asked,
            set={
                outcome.at(txn.value): reported_outcome,
                acknowledged.at(txn.value): reported_records,
                txn: None,
                ending: False,
                must_bump: must_bump | (is_unknown_id(end_error) & ~adds_implicitly),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, end_error),
            source="TransactionManager.transitionToAbortableError",
            note="The error is ignored and the next request is sent. The client's state doesn't "
            "change. No transaction was completed, so its partitions and the need for a new epoch "
            "remain for the next one.",
        ),
        Row(
            "abort-failed",
            "The abort has failed: the call raises, and the state doesn't change",
            during=client_epoch_bump,
            when=can_abort,
            set={
                txn: None,
                ending: False,
                must_bump: must_bump | (is_unknown_id(end_error) & ~adds_implicitly),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, end_error),
            source="TransactionManager.transitionToAbortableError, KAFKA-19250",
            note="Only initTransactions may follow. The partitions stay for the next transaction.",
        ),
        Row(
            "unexpected",
            "Any other error is fatal",
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source="TransactionManager.EndTxnHandler.handleResponse",
        ),
    ),
)
