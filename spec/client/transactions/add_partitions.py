"""AddPartitionsToTxn, and its answer: TransactionManager.AddPartitionsToTxnHandler.

The answer is about one partition. At real ranges a request has several, and whoever keeps it gives
the handler the first error that decides about all of them (`partition_step`).
"""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, enum, if_, set_of, size, some
from ...errors import Errors, asks_again
from ...messages import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    producer,
)
from ...releases.features import client_epoch_bump, retried_by_kind
from ..state import (
    FATAL_ERROR,
    added,
    adding,
    bump_asked,
    ending,
    must_bump,
    producer_epoch,
    producer_id,
    txn,
)
from .answers import is_abortable, is_unknown_id, unknown_id_error, wrapped_before
from .queue import Coordinator, Request, answered, current, queued, sought
from .transaction_manager import (
    RETRY_BACKOFF,
    SHORT_BACKOFF,
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    adds_implicitly,
    call_result,
    can_bump,
    last_error,
    pending_call,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_started,
)

PartitionStep = enum(
    "PartitionStep",
    "TAKEN",
    "REFUSED",  # and so is what was asked
    "UNAUTHORIZED",
    "REQUEST",  # the error is the whole request's
)


def partition_step(error: Expression) -> Expression:
    """The outcome for one of the partitions of a request.

    TransactionManager.AddPartitionsToTxnHandler.handleResponse
    """
    of_request = (
        asks_again(
            error,
            Errors.CONCURRENT_TRANSACTIONS,
            Errors.COORDINATOR_LOAD_IN_PROGRESS,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            by_kind=retried_by_kind,
        )
        | is_abortable(error)
        | error.is_in(
            Errors.COORDINATOR_NOT_AVAILABLE,
            Errors.NOT_COORDINATOR,
            Errors.INVALID_PRODUCER_EPOCH,
            Errors.PRODUCER_FENCED,
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Errors.INVALID_TXN_STATE,
            Errors.INVALID_PRODUCER_ID_MAPPING,
        )
        | (client_epoch_bump & (error == Errors.UNKNOWN_PRODUCER_ID))
    )
    refused = if_(
        error == Errors.TOPIC_AUTHORIZATION_FAILED,
        PartitionStep.UNAUTHORIZED,
        PartitionStep.REFUSED,
    )
    step = if_(of_request, PartitionStep.REQUEST, refused)
    return if_(error == Errors.NONE, PartitionStep.TAKEN, step)


def add(to: Expression, on: Expression) -> Sending:
    """AddPartitionsToTxn for a partition."""
    return AddPartitionsToTxn(
        producer=producer.this,
        partition=to,
        partitions=set_of(to),
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


add_error = AddPartitionsToTxnResponse.error

added_to_transaction = Table(
    producer,
    on=AddPartitionsToTxnResponse,
    response=Reaction,
    rows=(
        Row(
            "added",
            "The partition is in the transaction",
            when=add_error == Errors.NONE,
            set={
                adding: adding - set_of(AddPartitionsToTxnResponse.partition),
                added: added | set_of(AddPartitionsToTxnResponse.partition),
                transaction_started: True,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=add_error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
            set={
                transaction_coordinator: False,
                sought: sought | set_of(Coordinator.TRANSACTION),
                queued: queued | set_of(Request.ADD_PARTITIONS_TO_TXN, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "retry-soon",
            "The transaction before this one is ending: the coordinator is asked again soon",
            when=(add_error == Errors.CONCURRENT_TRANSACTIONS) & (size(added) == 0),
            set={
                queued: queued | set_of(Request.ADD_PARTITIONS_TO_TXN),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.RETRY,
                backoff_ms=if_(RETRY_BACKOFF < SHORT_BACKOFF, RETRY_BACKOFF, SHORT_BACKOFF),
            ),
            source="TransactionManager.AddPartitionsToTxnHandler.maybeOverrideRetryBackoffMs",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=asks_again(
                add_error,
                Errors.CONCURRENT_TRANSACTIONS,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                by_kind=retried_by_kind,
            ),
            set={
                queued: queued | set_of(Request.ADD_PARTITIONS_TO_TXN),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            when=add_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
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
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "fatal",
            "The error is fatal",
            when=add_error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~is_unknown_id(add_error),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(wrapped_before(add_error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, wrapped_before(add_error), ends_call=pending_call.is_set),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "unauthorized-topic",
            "The client isn't authorized for a topic",
            when=add_error == Errors.TOPIC_AUTHORIZATION_FAILED,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(add_error),
                adding: adding - set_of(AddPartitionsToTxnResponse.partition),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, add_error),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
        Row(
            "unknown-id",
            "The producer id is unknown: after the abort the client asks for a new epoch",
            when=is_unknown_id(add_error) & can_bump,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(add_error),
                must_bump: must_bump | ~adds_implicitly,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, add_error),
            source="TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "unknown-id-fatal",
            "The producer id is unknown, and the client can't ask for a new epoch",
            when=is_unknown_id(add_error),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(unknown_id_error(add_error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.FAIL, unknown_id_error(add_error), ends_call=pending_call.is_set
            ),
            source="TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "abortable",
            "The transaction can only be aborted",
            when=is_abortable(add_error),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(add_error),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, add_error),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse, KIP-890",
        ),
        Row(
            "partition-error",
            "Any other error of a partition",
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(Errors.KAFKA_EXCEPTION),
                adding: adding - set_of(AddPartitionsToTxnResponse.partition),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION),
            source="TransactionManager.AddPartitionsToTxnHandler.handleResponse",
        ),
    ),
)
