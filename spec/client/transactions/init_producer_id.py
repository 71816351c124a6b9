"""InitProducerId, and its answer: TransactionManager.InitProducerIdHandler.

A system of idempotent clients has the answer as an event of its own (`epochs`).
"""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, each, if_, set_of, some
from ...errors import Errors, asks_again, is_retriable
from ...messages import (
    NO_EPOCH,
    NO_OFFSET,
    InitProducerId,
    InitProducerIdResponse,
    producer,
)
from ...releases.features import (
    epoch_by_partition,
    one_way_to_ids,
    retried_by_kind,
    stale_epoch_abortable,
    transactional,
    unauthorized_abortable,
    version_looked_up,
)
from ..state import (
    ABORTING,
    FATAL_ERROR,
    INITIALIZING,
    NO_ID,
    NO_SEQUENCE,
    READY,
    bump_asked,
    ending,
    entry,
    entry_epoch,
    entry_id,
    last_acked,
    last_acked_offset,
    next_sequence,
    producer_epoch,
    producer_id,
    q,
    reset_entries,
    state,
    txn,
    unresolved,
)
from .answers import is_abortable
from .queue import Coordinator, Request, answered, current, queued, sought
from .transaction_manager import (
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    call_result,
    finalized_version,
    last_error,
    may_be_ready,
    pending_call,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_version,
)


def init(on: Expression) -> Sending:
    """InitProducerId. The epoch held is the expected one: none for a client that starts."""
    return InitProducerId(
        producer=producer.this,
        connection=on,
        expected_id=producer_id,
        expected_epoch=producer_epoch,
    )


def is_unauthorized(error: Expression) -> Expression:
    """Whether the client isn't authorized to get a producer id."""
    return error.is_in(
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED
    )


init_error = InitProducerIdResponse.error
asks_in_loop = ~transactional & ~one_way_to_ids
"""Sender.maybeWaitForProducerId before 2.5: a loop outside of the states."""
version_when_asked = if_(~bump_asked & version_looked_up, finalized_version, transaction_version)
version_as_ready = if_(pending_call.is_set, transaction_version, version_when_asked)
"""A call that waits looks transaction.version up as it returns: KafkaProducer.initTransactions."""

sequences_go_on = ~bump_asked & ~epoch_by_partition
"""Whether a client that is initialized again goes on in mid-sequence: InitProducerIdHandler calls
resetSequenceNumbers for a new epoch alone. From 2.7.1 on a partition's next batch starts at 0, here
at once (TransactionManager.maybeUpdateProducerIdAndEpoch)."""

initialized = Table(
    producer,
    on=InitProducerIdResponse,
    response=Reaction,
    rows=(
        Row(
            "invalid-transition",
            "The client may not become ready",
            during=~asks_in_loop,
            when=(init_error == Errors.NONE) & ~may_be_ready,
            goto=NOT_ALLOWED,
            set={
                producer_id: InitProducerIdResponse.producer_id,
                producer_epoch: InitProducerIdResponse.producer_epoch,
                last_error: NOT_ALLOWED_ERROR,
                call_result: if_(
                    (pending_call == some(INITIALIZING)) & (call_result != CallResult.FAILED),
                    CallResult.LOST,
                    call_result,
                ),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.WAIT),
            source="TransactionManager.transitionTo",
        ),
        Row(
            "ready",
            "The client has a producer id and epoch",
            during=transactional,
            when=init_error == Errors.NONE,
            goto=READY,
            set={
                producer_id: InitProducerIdResponse.producer_id,
                producer_epoch: InitProducerIdResponse.producer_epoch,
                next_sequence: each(q, if_(sequences_go_on, next_sequence[q], 0)),
                last_acked: each(q, if_(sequences_go_on, last_acked[q], NO_SEQUENCE)),
                last_acked_offset: each(q, if_(sequences_go_on, last_acked_offset[q], NO_OFFSET)),
                entry_id: each(q, NO_ID),
                entry_epoch: each(q, NO_EPOCH),
                entry: reset_entries(bump_asked),
                unresolved: each(q, None),
                bump_asked: False,
                last_error: None,
                transaction_version: version_as_ready,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.InitProducerIdHandler.handleResponse, resetSequenceNumbers",
        ),
        Row(
            "ready-idempotent",
            "The client has a producer id and epoch; its sequences go on",
            during=~transactional,
            when=init_error == Errors.NONE,
            goto=READY,
            set={
                producer_id: InitProducerIdResponse.producer_id,
                producer_epoch: InitProducerIdResponse.producer_epoch,
                bump_asked: False,
                last_error: None,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.InitProducerIdHandler.handleResponse",
        ),
        Row(
            "retry-in-loop",
            "A retriable error: any broker is asked again",
            during=asks_in_loop,
            when=is_retriable(init_error),
            set={
                queued: queued | set_of(Request.INIT_PRODUCER_ID),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="Sender.maybeWaitForProducerId before 2.5",
        ),
        Row(
            "fatal-in-loop",
            "Any other error is fatal",
            during=asks_in_loop,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(init_error),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, init_error, ends_call=pending_call.is_set),
            source="Sender.maybeWaitForProducerId before 2.5",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=init_error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
            set={
                transaction_coordinator: False,
                sought: sought | set_of(Coordinator.TRANSACTION),
                queued: queued | set_of(Request.INIT_PRODUCER_ID, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.InitProducerIdHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=asks_again(
                init_error,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.CONCURRENT_TRANSACTIONS,
                by_kind=retried_by_kind,
            ),
            set={
                queued: queued | set_of(Request.INIT_PRODUCER_ID),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.InitProducerIdHandler.handleResponse",
        ),
        Row(
            "unauthorized",
            "A client that isn't authorized has failed for good",
            during=~unauthorized_abortable,
            when=is_unauthorized(init_error),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(init_error),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, init_error, ends_call=pending_call.is_set),
            source="TransactionManager.InitProducerIdHandler.handleResponse before 3.6",
        ),
        Row(
            "abortable",
            "The client isn't authorized, or has to abort: it may be initialized again",
            during=unauthorized_abortable,
            when=is_unauthorized(init_error) | is_abortable(init_error),
            goto=TO_ABORTABLE,
            set={
                last_error: if_(
                    (state == ABORTING) & is_unauthorized(init_error),
                    some(init_error),
                    abortable_cause(init_error),
                ),
                bump_asked: False,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, init_error),
            source="TransactionManager.InitProducerIdHandler.handleResponse",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            during=stale_epoch_abortable,
            when=init_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
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
            source="TransactionManager.InitProducerIdHandler.handleResponse, KIP-588",
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
            source="TransactionManager.InitProducerIdHandler.handleResponse",
        ),
    ),
)
