"""A client's requests to coordinators: which goes next, and what each answer does.

What a client with a transactional id and one without ask for is the same InitProducerId; the rest
is a transaction's.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Table,
    enum,
    event,
    if_,
    lift,
    message,
    minimum,
    set_of,
    size,
)
from ..errors import Errors, asks_again
from ..features import (
    client_epoch_bump,
    errors_told_alike,
    offsets_name_members,
    offsets_retried_by_kind,
    producer_fenced_error,
    retried_by_kind,
    transactional,
    unauthorized_abortable,
)
from ..messages import (
    producer,
)
from .add_partitions import ADDING_AGAIN, added_to_transaction
from .answers import (
    fenced,
    in_transaction,
    is_abortable,
    tried_again,
)
from .end_txn import AFTER_END, COMPLETED, ended
from .init_producer_id import initialized, is_unauthorized
from .state import (
    ABORTABLE_ERROR,
    UNINITIALIZED,
    adding,
    bump_asked,
    must_bump,
    state,
)
from .transaction_manager import (
    BUMPING_VERSION,
    GROUP_VERSION,
    ClientStep,
    Reaction,
    aborting,
    caller,
    coordinator_version,
    fatal,
    finalized_version,
    group_coordinator,
    has_error,
    init_version,
    is_version_2,
    knows_version_2,
    last_error,
    new_partitions,
    offsets_version,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_started,
    transaction_version,
)

_MANAGER = "TransactionManager"


_LOADING, _BUSY = Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.CONCURRENT_TRANSACTIONS
_NO_PARTITION = Errors.UNKNOWN_TOPIC_OR_PARTITION


# Requests ---------------------------------------------------------------------------------------

Request = enum(
    "ClientRequest", "FIND_COORDINATOR", "INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN",
    "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT", "END_TXN",
)  # fmt: skip
Coordinator = enum("CoordinatorType", GROUP=0, TRANSACTION=1)
PRIORITIES = {
    "FIND_COORDINATOR": 0,
    "INIT_PRODUCER_ID": 1,
    "ADD_PARTITIONS_TO_TXN": 2,
    "ADD_OFFSETS_TO_TXN": 2,
    "TXN_OFFSET_COMMIT": 2,
    "END_TXN": 3,
}
"""Requests that wait go in this order, and of the same number as they came."""
BUMP_PRIORITY = 4
"""The place of an InitProducerId for a new epoch: behind the end of its transaction."""

begin_completing = event("begin completing", event_doc="EndTxn is among the requests.")
_bumps = must_bump | (~is_version_2 & (finalized_version >= 2))
completing_begun = Table(
    producer,
    on=begin_completing,
    rows=(
        Row(
            "with the version that brokers say now",
            when=knows_version_2,
            set={
                transaction_version: finalized_version,
                must_bump: _bumps,
                bump_asked: _bumps,
            },
            source="KAFKA-18227",
            note="The EndTxn itself has the version that the transaction began with.",
        ),
        Row(
            "with the same version",
            set={bump_asked: must_bump},
            source=f"{_MANAGER}.beginCompletingTransaction",
        ),
    ),
)


def _needs_none(request: Expression) -> Expression:
    """Whether any broker may be asked.

    TransactionManager.TxnRequestHandler.needsCoordinator
    """
    return (request == Request.FIND_COORDINATOR) | (
        ~transactional & (request == Request.INIT_PRODUCER_ID)
    )


ask_for_partitions = event("ask for partitions")
partitions_asked = Table(
    producer,
    on=ask_for_partitions,
    when=size(new_partitions) > 0,
    rows=(
        Row(
            "ask for them",
            set={
                adding: adding | new_partitions,
                new_partitions: set_of(),
            },
            source=f"{_MANAGER}.addPartitionsToTransactionHandler",
        ),
    ),
)

next_request = event(
    "next request", request=Request, has_incomplete_batches=Bool(),
    event_doc="A request is the first of those that wait.",
)  # fmt: skip
_NEXT = f"{_MANAGER}.nextRequest"
_ends = next_request.request == Request.END_TXN
request_chosen = Table(
    producer,
    on=next_request,
    response=Reaction,
    rows=(
        Row(
            "the end waits for batches",
            when=_ends & next_request.has_incomplete_batches,
            reply=react(ClientStep.WAIT),
            source=_NEXT,
        ),
        Row(
            "not in this state",
            when=has_error
            & ~((state == ABORTABLE_ERROR) & (next_request.request == Request.FIND_COORDINATOR)),
            reply=react(ClientStep.FAIL, last_error.value),
            source=f"{_MANAGER}.maybeTerminateRequestWithError",
        ),
        Row(
            "nothing to end",
            when=_ends & ~transaction_started,
            goto=AFTER_END,
            set=COMPLETED,
            reply=react(ClientStep.DONE),
            source=_NEXT,
        ),
        Row("go on", reply=react(ClientStep.GO_ON), source=_NEXT),
    ),
)

send_request = event(
    "send request", request=Request, is_node_up=Bool(), names_member=Bool(),
    event_doc="`names_member`: the offsets come with a member of the group, not its name alone.",
)  # fmt: skip
_to_group = send_request.request == Request.TXN_OFFSET_COMMIT
_to_anyone = _needs_none(send_request.request)
_known_coordinator = if_(_to_group, group_coordinator, transaction_coordinator)
_SENDS = "Sender.maybeSendAndPollTransactionalRequest"
request_sent = Table(
    producer,
    on=send_request,
    response=Reaction,
    rows=(
        Row(
            "to whom?",
            when=~_to_anyone & ~(_known_coordinator & send_request.is_node_up),
            set={
                group_coordinator: group_coordinator & ~_to_group,
                transaction_coordinator: transaction_coordinator & _to_group,
            },
            reply=react(ClientStep.LOOK_UP),
            source=_SENDS,
        ),
        Row(
            "nobody there",
            when=~send_request.is_node_up,
            reply=react(ClientStep.RETRY),
            source=_SENDS,
        ),
        fatal(
            "an older broker can't take it",
            _to_group & send_request.names_member & (offsets_version < GROUP_VERSION),
            Errors.UNSUPPORTED_VERSION,
            "TxnOffsetCommitRequest.Builder",
            offsets_name_members,
        ),
        Row(
            "send",
            set={
                request_in_flight: True,
                coordinator_version: if_(
                    _to_anyone | _to_group,
                    coordinator_version,
                    minimum(init_version, BUMPING_VERSION),
                ),
            },
            reply=react(ClientStep.SEND),
            source=f"{_SENDS}, {_MANAGER}.handleCoordinatorReady",
        ),
    ),
)

# Answers ----------------------------------------------------------------------------------------

answer_lost = event(
    "answer lost", request=Request, event_doc="The connection closes before the answer."
)
_lost_group = answer_lost.request == Request.TXN_OFFSET_COMMIT
_lost_any = _needs_none(answer_lost.request)
_COMPLETE = f"{_MANAGER}.TxnRequestHandler.onComplete"
answer_was_lost = Table(
    producer,
    on=answer_lost,
    response=Reaction,
    rows=(
        Row(
            "ask anyone again",
            when=_lost_any,
            set={request_in_flight: False},
            reply=react(ClientStep.RETRY),
            source=_COMPLETE,
        ),
        Row(
            "look its coordinator up again",
            set={
                request_in_flight: False,
                group_coordinator: group_coordinator & ~_lost_group,
                transaction_coordinator: transaction_coordinator & _lost_group,
            },
            reply=react(ClientStep.LOOK_UP),
            source=_COMPLETE,
        ),
    ),
)
answer_came = event("answer came")
answer_taken = Table(
    producer, on=answer_came, rows=(Row("read it", set={request_in_flight: False}),)
)
version_mismatch = event("version mismatch")
version_unknown = Table(
    producer,
    on=version_mismatch,
    response=Reaction,
    rows=(fatal("unsupported", lift(True), Errors.UNSUPPORTED_VERSION, _COMPLETE),),
)

found = event("FindCoordinator answered", error=Errors, coordinator=Coordinator)
_FOUND = f"{_MANAGER}.FindCoordinatorHandler.handleResponse"
_is_group = found.coordinator == Coordinator.GROUP
coordinator_found = Table(
    producer,
    on=found,
    response=Reaction,
    rows=(
        Row(
            "found",
            when=found.error == Errors.NONE,
            set={
                group_coordinator: group_coordinator | _is_group,
                transaction_coordinator: transaction_coordinator | ~_is_group,
            },
            reply=react(ClientStep.DONE),
            source=_FOUND,
        ),
        tried_again(found.error, _FOUND, Errors.COORDINATOR_NOT_AVAILABLE),
        fatal(
            "not authorized for the transactional id",
            found.error == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            found.error,
            _FOUND,
        ),
        aborting(
            "abortable",
            (found.error == Errors.GROUP_AUTHORIZATION_FAILED) | is_abortable(found.error),
            found.error,
            _FOUND,
        ),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _FOUND),
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
            "it may be tried again",
            goto=UNINITIALIZED,
            set={last_error: None},
            reply=react(ClientStep.FAIL, last_error.value, ends_call=True),
            source="Sender.shouldHandleAuthorizationError",
        ),
    ),
)

PartitionStep = enum(
    "PartitionStep",
    "TAKEN",
    "REFUSED",  # and so is what was asked
    "UNAUTHORIZED",
    "AGAIN",
    "REQUEST",  # the error is the whole request's
)
PartitionReaction = message("PartitionReaction", caller, step=PartitionStep)
partition_answered = event("AddPartitionsToTxn for a partition", error=Errors)
_ADDED = f"{_MANAGER}.AddPartitionsToTxnHandler.handleResponse"
_told = partition_answered.error
_of_request = (
    asks_again(_told, *ADDING_AGAIN, by_kind=retried_by_kind)
    | is_abortable(_told)
    | _told.is_in(
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.PRODUCER_FENCED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Errors.INVALID_TXN_STATE,
        Errors.INVALID_PRODUCER_ID_MAPPING,
    )
    | (client_epoch_bump & (_told == Errors.UNKNOWN_PRODUCER_ID))
)
partition_told = Table(
    producer,
    on=partition_answered,
    response=PartitionReaction,
    rows=(
        Row(
            "added",
            when=_told == Errors.NONE,
            reply=PartitionReaction(step=PartitionStep.TAKEN),
            source=_ADDED,
        ),
        Row(
            "about the request",
            when=_of_request,
            reply=PartitionReaction(step=PartitionStep.REQUEST),
            source=_ADDED,
        ),
        Row(
            "not authorized",
            when=_told == Errors.TOPIC_AUTHORIZATION_FAILED,
            reply=PartitionReaction(step=PartitionStep.UNAUTHORIZED),
            source=_ADDED,
        ),
        Row("refused", reply=PartitionReaction(step=PartitionStep.REFUSED), source=_ADDED),
    ),
)
offsets_answered = event("AddOffsetsToTxn answered", error=Errors)
_OFFSETS = f"{_MANAGER}.AddOffsetsToTxnHandler.handleResponse"
offsets_added = Table(
    producer,
    on=offsets_answered,
    response=Reaction,
    rows=(
        Row(
            "commit them next",
            when=offsets_answered.error == Errors.NONE,
            set={transaction_started: True},
            reply=react(ClientStep.GO_ON),
            source=_OFFSETS,
        ),
        *in_transaction(offsets_answered.error, _OFFSETS, _LOADING, _BUSY),
        aborting(
            "abortable",
            (offsets_answered.error == Errors.GROUP_AUTHORIZATION_FAILED)
            | is_abortable(offsets_answered.error),
            offsets_answered.error,
            _OFFSETS,
        ),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _OFFSETS),
    ),
)

offset_answered = event("TxnOffsetCommit for a partition", error=Errors)
_COMMITTED = f"{_MANAGER}.TxnOffsetCommitHandler.handleResponse"
_error = offset_answered.error
offset_committed = Table(
    producer,
    on=offset_answered,
    response=Reaction,
    rows=(
        Row(
            "committed",
            when=_error == Errors.NONE,
            reply=react(ClientStep.DONE),
            source=_COMMITTED,
        ),
        Row(
            "the coordinator has moved",
            when=_error.is_in(
                Errors.COORDINATOR_NOT_AVAILABLE,
                Errors.NOT_COORDINATOR,
                Errors.REQUEST_TIMED_OUT,
            ),
            set={group_coordinator: False},
            reply=react(ClientStep.LOOK_UP),
            source=_COMMITTED,
        ),
        tried_again(_error, _COMMITTED, _LOADING, _NO_PARTITION, by_kind=offsets_retried_by_kind),
        aborting(
            "abortable",
            (_error == Errors.GROUP_AUTHORIZATION_FAILED)
            | (offsets_name_members & (_error == Errors.FENCED_INSTANCE_ID))
            | is_abortable(_error),
            _error,
            _COMMITTED,
        ),
        aborting(
            "no longer a member of the group",
            _error.is_in(Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION),
            Errors.COMMIT_FAILED,
            _COMMITTED,
            during=offsets_name_members,
        ),
        fenced(
            _error,
            _COMMITTED,
            if_(errors_told_alike | ~producer_fenced_error, Errors.PRODUCER_FENCED, _error),
        ),
        fatal(
            "not to be mended",
            _error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ),
            _error,
            _COMMITTED,
        ),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _COMMITTED),
    ),
)

TABLES = (
    completing_begun,
    partitions_asked,
    request_chosen,
    request_sent,
    answer_was_lost,
    answer_taken,
    version_unknown,
    coordinator_found,
    initialized,
    given_up,
    partition_told,
    added_to_transaction,
    offsets_added,
    offset_committed,
    ended,
)
