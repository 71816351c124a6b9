"""A client's requests to coordinators: which goes next, and the effects of their answers.

A client without transactional id asks for a producer id only; the rest belongs to transactions.
"""

from __future__ import annotations

from ....language import Bool, Expression, Row, Table, event, if_, minimum, set_of, size, some
from ...errors import Errors, asks_again
from ...messages import producer
from ...releases.features import (
    errors_reported_alike,
    offsets_name_members,
    offsets_retried_by_kind,
    retried_by_kind,
    stale_epoch_abortable,
    transaction_version_2,
    transactional,
    unauthorized_abortable,
)
from ...releases.group_features import load_error_retried, offsets_by_topic_id
from ..state import (
    ABORTABLE_ERROR,
    FATAL_ERROR,
    INITIALIZING,
    UNINITIALIZED,
    added,
    adding,
    bump_asked,
    details,
    ending,
    given_up_details,
    must_bump,
    state,
    txn,
)
from .add_partitions import added_to_transaction
from .answers import is_abortable, is_unknown_id, unknown_id_error, wrapped_before
from .end_txn import AFTER_END, ended, may_complete, version_after_end
from .init_producer_id import initialized, is_unauthorized
from .queue import (
    Coordinator,
    Request,
    answered,
    current,
    queued,
    sought,
)
from .transaction_manager import (
    BUMPING_VERSION,
    EXPLICIT_VERSION,
    GROUP_VERSION,
    IMPLICIT_VERSION,
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    TO_ABORTABLE,
    TOPIC_ID_VERSION,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    adds_implicitly,
    call_result,
    can_bump,
    coordinator_version,
    group_coordinator,
    has_error,
    has_id,
    init_version,
    last_error,
    new_partitions,
    offsets_version,
    pending_call,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_started,
    transaction_version,
)


def fenced_by_group(error: Expression) -> Expression:
    """The fatal error for a stale epoch: as the coordinator reported it, for a time."""
    return if_(errors_reported_alike | ~stale_epoch_abortable, Errors.PRODUCER_FENCED, error)


def needs_coordinator(request: Expression) -> Expression:
    """Whether a coordinator has to be asked, and not any broker.

    TransactionManager.TxnRequestHandler.needsCoordinator
    """
    return (request != Request.FIND_COORDINATOR) & (
        transactional | (request != Request.INIT_PRODUCER_ID)
    )


def coordinator_type(request: Expression) -> Expression:
    """The kind of the request's coordinator.

    TransactionManager.TxnRequestHandler.coordinatorType
    """
    return if_(request == Request.TXN_OFFSET_COMMIT, Coordinator.GROUP, Coordinator.TRANSACTION)


want_id = event("want a producer id")
id_wanted = Table(
    producer,
    on=want_id,
    when=~transactional & ~has_id & (state != INITIALIZING),
    rows=(
        Row(
            "initialize",
            "InitProducerId is put into the queue",
            when=state == UNINITIALIZED,
            goto=INITIALIZING,
            set={
                last_error: None,
                queued: queued | set_of(Request.INIT_PRODUCER_ID),
            },
            source="TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
        Row(
            "invalid-transition",
            "The client may not be initialized in this state",
            goto=FATAL_ERROR,
            set={last_error: some(Errors.ILLEGAL_STATE)},
            source="TransactionManager.transitionTo",
        ),
    ),
)

ask_for_partitions = event("ask for partitions")
partitions_asked = Table(
    producer,
    on=ask_for_partitions,
    when=size(new_partitions) > 0,
    rows=(
        Row(
            "add-partitions",
            "AddPartitionsToTxn is put into the queue, for all new partitions",
            set={
                adding: adding | new_partitions,
                new_partitions: set_of(),
                queued: queued | set_of(Request.ADD_PARTITIONS_TO_TXN),
            },
            source="TransactionManager.nextRequest, addPartitionsToTransactionHandler",
        ),
    ),
)

next_request = event(
    "next request",
    request=Request,
    has_incomplete_batches=Bool(),
    event_doc="A request is the first of those that wait.",
)
ends = next_request.request == Request.END_TXN
request_chosen = Table(
    producer,
    on=next_request,
    response=Reaction,
    rows=(
        Row(
            "wait-for-batches",
            "EndTxn waits for the batches in flight",
            when=ends & next_request.has_incomplete_batches,
            reply=react(ClientStep.WAIT),
            source="TransactionManager.nextRequest",
        ),
        Row(
            "error",
            "In an error state the request fails; only a look-up may go on to an abort",
            when=has_error
            & ~((state == ABORTABLE_ERROR) & (next_request.request == Request.FIND_COORDINATOR)),
            set={
                queued: queued - set_of(next_request.request),
                sought: if_(next_request.request == Request.FIND_COORDINATOR, set_of(), sought),
            },
            reply=react(ClientStep.FAIL, last_error.value),
            source="TransactionManager.maybeTerminateRequestWithError",
        ),
        Row(
            "nothing-to-end-invalid",
            "The transaction is empty, and the client may not go on to the next state",
            when=ends & ~transaction_started & ~may_complete,
            goto=NOT_ALLOWED,
            set={
                last_error: NOT_ALLOWED_ERROR,
                queued: queued - set_of(next_request.request),
            },
            reply=react(ClientStep.STOP),
            source="TransactionManager.nextRequest, transitionTo",
        ),
        Row(
            "nothing-to-end",
            "The transaction is empty: no EndTxn is sent",
            when=ends & ~transaction_started,
            goto=AFTER_END,
            set={
                txn: None,
                ending: False,
                adding: set_of(),
                added: set_of(),
                new_partitions: set_of(),
                last_error: None,
                must_bump: False,
                transaction_started: False,
                transaction_version: version_after_end,
                queued: queued - set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
                current: if_(
                    Request.INIT_PRODUCER_ID.is_in(queued), some(Request.INIT_PRODUCER_ID), None
                ),
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.nextRequest, completeTransaction",
            note="The request behind it is taken without a look at the state.",
        ),
        Row(
            "next",
            "The request is taken from the queue",
            set={
                queued: queued - set_of(next_request.request),
                current: some(next_request.request),
            },
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.nextRequest",
        ),
    ),
)

send_request = event(
    "send request",
    request=Request,
    is_node_up=Bool(),
    names_member=Bool(),
    knows_topic_ids=Bool(),
    event_doc="`names_member`: the offsets come with a member of the group, not its name alone. "
    "`knows_topic_ids`: metadata had the ids of all their topics.",
)
to_group = send_request.request == Request.TXN_OFFSET_COMMIT
is_coordinator_known = if_(to_group, group_coordinator, transaction_coordinator)
request_sent = Table(
    producer,
    on=send_request,
    response=Reaction,
    rows=(
        Row(
            "coordinator-unknown",
            "The coordinator isn't known, or can't be reached: it is looked up",
            when=needs_coordinator(send_request.request)
            & ~(is_coordinator_known & send_request.is_node_up),
            set={
                group_coordinator: group_coordinator & ~to_group,
                transaction_coordinator: transaction_coordinator & to_group,
                sought: sought | set_of(coordinator_type(send_request.request)),
                queued: queued | set_of(send_request.request, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
        Row(
            "not-connected",
            "No broker can be reached",
            when=~send_request.is_node_up,
            set={
                queued: queued | set_of(send_request.request),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
        Row(
            "unsupported-member",
            "The coordinator's version of TxnOffsetCommit has no members",
            during=offsets_name_members,
            when=to_group & send_request.names_member & (offsets_version < GROUP_VERSION),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.UNSUPPORTED_VERSION),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.UNSUPPORTED_VERSION, ends_call=pending_call.is_set),
            source="TxnOffsetCommitRequest.Builder.build",
        ),
        Row(
            "send-to-any",
            "The request goes to any broker",
            when=~needs_coordinator(send_request.request),
            set={request_in_flight: True},
            reply=react(ClientStep.SEND),
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
        Row(
            "send-offsets-by-topic-id",
            "The offsets go with topic ids",
            during=offsets_by_topic_id,
            when=to_group
            & send_request.knows_topic_ids
            & adds_implicitly
            & (offsets_version >= TOPIC_ID_VERSION),
            set={request_in_flight: True},
            reply=react(ClientStep.SEND, version=TOPIC_ID_VERSION),
            source="TransactionManager.txnOffsetCommitHandler, "
            "TxnOffsetCommitRequest.Builder.build, KIP-1319",
        ),
        Row(
            "send-offsets-by-name",
            "The offsets go with topic names: at most version 5, or 4 in older transactions",
            during=transaction_version_2,
            when=to_group,
            set={request_in_flight: True},
            reply=react(
                ClientStep.SEND,
                version=minimum(
                    offsets_version, if_(adds_implicitly, IMPLICIT_VERSION, EXPLICIT_VERSION)
                ),
            ),
            source="TransactionManager.txnOffsetCommitHandler, "
            "TxnOffsetCommitRequest.Builder.build",
        ),
        Row(
            "send",
            "The request goes to its coordinator",
            set={
                request_in_flight: True,
                coordinator_version: if_(
                    to_group, coordinator_version, minimum(init_version, BUMPING_VERSION)
                ),
            },
            reply=react(ClientStep.SEND),
            source="Sender.maybeSendAndPollTransactionalRequest, "
            "TransactionManager.handleCoordinatorReady",
        ),
    ),
)

answer_lost = event(
    "answer lost", request=Request, event_doc="The connection closes before the answer."
)
lost_by_group = answer_lost.request == Request.TXN_OFFSET_COMMIT
answer_was_lost = Table(
    producer,
    on=answer_lost,
    response=Reaction,
    rows=(
        Row(
            "retry",
            "Any broker is asked again",
            when=~needs_coordinator(answer_lost.request),
            set={
                queued: queued | set_of(answer_lost.request),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.TxnRequestHandler.onComplete",
        ),
        Row(
            "look-up",
            "The coordinator is looked up, then asked again",
            set={
                group_coordinator: group_coordinator & ~lost_by_group,
                transaction_coordinator: transaction_coordinator & lost_by_group,
                sought: sought | set_of(coordinator_type(answer_lost.request)),
                queued: queued | set_of(answer_lost.request, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)
version_mismatch = event("version mismatch", request=Request)
version_unknown = Table(
    producer,
    on=version_mismatch,
    response=Reaction,
    rows=(
        Row(
            "unsupported",
            "The broker has no version of the request that the client has",
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.UNSUPPORTED_VERSION),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.UNSUPPORTED_VERSION, ends_call=pending_call.is_set),
            source="TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

found = event("FindCoordinator answered", error=Errors, coordinator=Coordinator)
still_sought = sought - set_of(found.coordinator)
coordinator_found = Table(
    producer,
    on=found,
    response=Reaction,
    rows=(
        Row(
            "found",
            "The coordinator is known",
            when=found.error == Errors.NONE,
            set={
                group_coordinator: group_coordinator | (found.coordinator == Coordinator.GROUP),
                transaction_coordinator: transaction_coordinator
                | ~(found.coordinator == Coordinator.GROUP),
                sought: still_sought,
                queued: if_(
                    size(still_sought) > 0, queued | set_of(Request.FIND_COORDINATOR), queued
                ),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.FindCoordinatorHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: any broker is asked again",
            when=asks_again(found.error, Errors.COORDINATOR_NOT_AVAILABLE, by_kind=retried_by_kind),
            set={
                queued: queued | set_of(Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.FindCoordinatorHandler.handleResponse",
        ),
        Row(
            "unauthorized",
            "The client isn't authorized for its transactional id",
            when=found.error == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(found.error),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, found.error, ends_call=pending_call.is_set),
            source="TransactionManager.FindCoordinatorHandler.handleResponse",
        ),
        Row(
            "abortable",
            "The client isn't authorized for the group, or can only abort",
            when=(found.error == Errors.GROUP_AUTHORIZATION_FAILED) | is_abortable(found.error),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(found.error),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, found.error),
            source="TransactionManager.FindCoordinatorHandler.handleResponse",
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
            source="TransactionManager.FindCoordinatorHandler.handleResponse",
        ),
    ),
)

unauthorized = event("give up initializing")
given_up = Table(
    producer,
    on=unauthorized,
    response=Reaction,
    when=unauthorized_abortable
    & (state == ABORTABLE_ERROR)
    & last_error.is_set
    & is_unauthorized(last_error.value),
    rows=(
        Row(
            "uninitialized",
            "The client may be initialized again",
            goto=UNINITIALIZED,
            set={
                last_error: None,
                details: given_up_details(),
                queued: set_of(),
                current: None,
                sought: set_of(),
            },
            reply=react(ClientStep.FAIL, last_error.value, ends_call=True),
            source="Sender.shouldHandleAuthorizationError",
        ),
    ),
)

offsets_answered = event("AddOffsetsToTxn answered", error=Errors)
offsets_added = Table(
    producer,
    on=offsets_answered,
    response=Reaction,
    rows=(
        Row(
            "added",
            "The group's partition is in the transaction: TxnOffsetCommit is put into the queue",
            when=offsets_answered.error == Errors.NONE,
            set={
                transaction_started: True,
                queued: queued | set_of(Request.TXN_OFFSET_COMMIT),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=offsets_answered.error.is_in(
                Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR
            ),
            set={
                transaction_coordinator: False,
                sought: sought | set_of(Coordinator.TRANSACTION),
                queued: queued | set_of(Request.ADD_OFFSETS_TO_TXN, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=asks_again(
                offsets_answered.error,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.CONCURRENT_TRANSACTIONS,
                by_kind=retried_by_kind,
            ),
            set={
                queued: queued | set_of(Request.ADD_OFFSETS_TO_TXN),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
        Row(
            "unknown-id",
            "The producer id is unknown: after the abort the client asks for a new epoch",
            when=is_unknown_id(offsets_answered.error) & can_bump,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(offsets_answered.error),
                must_bump: must_bump | ~adds_implicitly,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, offsets_answered.error),
            source="TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "unknown-id-fatal",
            "The producer id is unknown, and the client can't ask for a new epoch",
            when=is_unknown_id(offsets_answered.error),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(unknown_id_error(offsets_answered.error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.FAIL,
                unknown_id_error(offsets_answered.error),
                ends_call=pending_call.is_set,
            ),
            source="TransactionManager.TxnRequestHandler.abortableErrorIfPossible",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            when=offsets_answered.error.is_in(
                Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED
            ),
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
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
        Row(
            "fatal",
            "The error is fatal",
            when=offsets_answered.error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            ),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(wrapped_before(offsets_answered.error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.FAIL,
                wrapped_before(offsets_answered.error),
                ends_call=pending_call.is_set,
            ),
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
        Row(
            "abortable",
            "The client isn't authorized for the group, or can only abort",
            when=(offsets_answered.error == Errors.GROUP_AUTHORIZATION_FAILED)
            | is_abortable(offsets_answered.error),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(offsets_answered.error),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, offsets_answered.error),
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
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
            source="TransactionManager.AddOffsetsToTxnHandler.handleResponse",
        ),
    ),
)

offset_answered = event("TxnOffsetCommit for a partition", error=Errors)
offset_committed = Table(
    producer,
    on=offset_answered,
    response=Reaction,
    rows=(
        Row(
            "committed",
            "The offset is in the transaction",
            when=offset_answered.error == Errors.NONE,
            set={
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=offset_answered.error.is_in(
                Errors.COORDINATOR_NOT_AVAILABLE,
                Errors.NOT_COORDINATOR,
                Errors.REQUEST_TIMED_OUT,
            ),
            set={
                group_coordinator: False,
                sought: sought | set_of(Coordinator.GROUP),
                queued: queued | set_of(Request.TXN_OFFSET_COMMIT, Request.FIND_COORDINATOR),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.LOOK_UP),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=asks_again(
                offset_answered.error,
                if_(
                    load_error_retried,
                    Errors.COORDINATOR_LOAD_IN_PROGRESS,
                    Errors.UNKNOWN_TOPIC_OR_PARTITION,
                ),
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                by_kind=offsets_retried_by_kind,
            ),
            set={
                queued: queued | set_of(Request.TXN_OFFSET_COMMIT),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "abortable",
            "The client isn't authorized for the group, its instance is fenced, or it must abort",
            when=(offset_answered.error == Errors.GROUP_AUTHORIZATION_FAILED)
            | (offsets_name_members & (offset_answered.error == Errors.FENCED_INSTANCE_ID))
            | is_abortable(offset_answered.error),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(offset_answered.error),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, offset_answered.error),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "not-a-member",
            "The consumer is no longer a member of the group",
            during=offsets_name_members,
            when=offset_answered.error.is_in(Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(Errors.COMMIT_FAILED),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.COMMIT_FAILED),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-447",
        ),
        Row(
            "unknown-group-or-stale-epoch",
            "The group is gone, or the consumer's member epoch is an old one",
            during=offsets_by_topic_id,
            when=offset_answered.error.is_in(Errors.GROUP_ID_NOT_FOUND, Errors.STALE_MEMBER_EPOCH),
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(Errors.COMMIT_FAILED),
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, Errors.COMMIT_FAILED),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-1319",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            when=offset_answered.error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(fenced_by_group(offset_answered.error)),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(
                ClientStep.FAIL,
                fenced_by_group(offset_answered.error),
                ends_call=pending_call.is_set,
            ),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "fatal",
            "The error is fatal",
            when=offset_answered.error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(offset_answered.error),
                call_result: CallResult.FAILED,
                request_in_flight: False,
                current: None,
                answered: False,
            },
            reply=react(ClientStep.FAIL, offset_answered.error, ends_call=pending_call.is_set),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
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
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
    ),
)

TABLES = (
    id_wanted,
    partitions_asked,
    request_chosen,
    request_sent,
    answer_was_lost,
    version_unknown,
    coordinator_found,
    initialized,
    given_up,
    added_to_transaction,
    offsets_added,
    offset_committed,
    ended,
)
