"""A client's requests to coordinators: which goes next, and what each answer does.

What a client with a transactional id and one without ask for is the same InitProducerId; the rest
is a transaction's.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Set,
    Table,
    enum,
    event,
    if_,
    lift,
    message,
    set_of,
    size,
    some,
)
from ...language.expressions import Operand
from ..features import (
    abortable_error,
    client_epoch_bump,
    commit_may_bump,
    errors_told_alike,
    failed_abort_fatal,
    offsets_name_members,
    offsets_retried_by_kind,
    one_way_to_ids,
    producer_fenced_error,
    retried_by_kind,
    transactional,
    unauthorized_abortable,
    unknown_id_fatal,
)
from ..messages import EPOCH, NO_EPOCH, PARTITION, PRODUCER_ID
from .errors import ClientError, asks_again, is_retriable
from .state import ABORTABLE_ERROR, ABORTING, INITIALIZING, READY, UNINITIALIZED
from .transaction_manager import (
    BUMPING_VERSION,
    GROUP_VERSION,
    NEEDS_BUMP,
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    RETRY_BACKOFF,
    SHORT_BACKOFF,
    ClientStep,
    Reaction,
    aborting,
    caller,
    can_bump,
    client,
    completing,
    coordinator_bumps,
    epoch_bump_required,
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
    partitions,
    pending_call,
    pending_partitions,
    producer_epoch,
    producer_id,
    react,
    request_in_flight,
    state,
    transaction_coordinator,
    transaction_started,
)

_MANAGER = "TransactionManager"


def _moved(error: Expression, coordinator: Expression, source: str) -> Row:
    return Row(
        "the coordinator has moved",
        when=error.is_in(ClientError.COORDINATOR_NOT_AVAILABLE, ClientError.NOT_COORDINATOR),
        set={coordinator: False},
        reply=react(ClientStep.LOOK_UP),
        source=source,
    )


_LOADING, _BUSY = ClientError.COORDINATOR_LOAD_IN_PROGRESS, ClientError.CONCURRENT_TRANSACTIONS
_NO_PARTITION = ClientError.UNKNOWN_TOPIC_OR_PARTITION


def _again(
    error: Expression,
    source: str,
    *named: Expression,
    by_kind: Expression = retried_by_kind,
) -> Row:
    return Row(
        "try again",
        when=asks_again(error, *named, by_kind=by_kind),
        reply=react(ClientStep.RETRY),
        source=source,
    )


def _fenced(
    error: Expression,
    source: str,
    told: Expression = ClientError.PRODUCER_FENCED,
    during: Operand = True,
) -> Row:
    return fatal(
        "fenced",
        error.is_in(ClientError.INVALID_PRODUCER_EPOCH, ClientError.PRODUCER_FENCED),
        told,
        source,
        during,
    )


def _is_abortable(error: Expression) -> Expression:
    """Whether the error says that the transaction can only be aborted."""
    return abortable_error & (error == ClientError.TRANSACTION_ABORTABLE)


def _in_transaction(
    error: Expression, source: str, *named: Expression, wraps_state: bool = True
) -> tuple[Row, ...]:
    """What the coordinator may say of a transaction, whichever request it answers.

    The request was tried again after those `named` alone, and where it `wraps_state`, it told
    INVALID_TXN_STATE as one error of many.
    """
    unknown = error == ClientError.UNKNOWN_PRODUCER_ID
    lost = unknown | (~unknown_id_fatal & (error == ClientError.INVALID_PRODUCER_ID_MAPPING))
    wrapped = ~errors_told_alike & (error == ClientError.INVALID_TXN_STATE)
    return (
        _moved(error, transaction_coordinator, source),
        _again(error, source, *named),
        _fenced(error, source),
        fatal(
            "not to be mended",
            error.is_in(
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.INVALID_TXN_STATE,
                ClientError.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~lost,
            if_(wrapped, ClientError.KAFKA_EXCEPTION, error) if wraps_state else error,
            source,
        ),
        aborting(
            "unknown producer id: a new epoch after the abort",
            lost & can_bump,
            error,
            f"{_MANAGER}.abortableErrorIfPossible",
            more=NEEDS_BUMP,
        ),
        fatal(
            "unknown producer id, and no new epoch to be had",
            lost,
            if_(client_epoch_bump, error, ClientError.KAFKA_EXCEPTION),
            f"{_MANAGER}.abortableErrorIfPossible",
        ),
    )


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
completing_begun = Table(
    client,
    on=begin_completing,
    rows=(
        Row(
            "with the version that brokers say now",
            during=knows_version_2,
            set={
                is_version_2: finalized_version >= 2,
                epoch_bump_required: epoch_bump_required
                | (~is_version_2 & (finalized_version >= 2)),
            },
            source="KAFKA-18227",
            note="The EndTxn itself has the version that the transaction began with.",
        ),
        Row("with the same version", source=f"{_MANAGER}.beginCompletingTransaction"),
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
    client,
    on=ask_for_partitions,
    when=size(new_partitions) > 0,
    rows=(
        Row(
            "ask for them",
            set={
                pending_partitions: pending_partitions | new_partitions,
                new_partitions: set_of(),
            },
            source=f"{_MANAGER}.addPartitionsToTransactionHandler",
        ),
    ),
)

# A transaction that has ended, or had nothing in it.
_COMPLETED: dict[Expression, Operand] = {
    last_error: None,
    epoch_bump_required: False,
    transaction_started: False,
    new_partitions: set_of(),
    pending_partitions: set_of(),
    partitions: set_of(),
}
_AFTER_END = if_(epoch_bump_required, INITIALIZING, READY)

next_request = event(
    "next request", request=Request, has_incomplete_batches=Bool(),
    event_doc="A request is the first of those that wait.",
)  # fmt: skip
_NEXT = f"{_MANAGER}.nextRequest"
_ends = next_request.request == Request.END_TXN
request_chosen = Table(
    client,
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
            goto=_AFTER_END,
            set=_COMPLETED,
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
    client,
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
            ClientError.UNSUPPORTED_VERSION,
            "TxnOffsetCommitRequest.Builder",
            offsets_name_members,
        ),
        Row(
            "send",
            set={
                request_in_flight: True,
                coordinator_bumps: if_(
                    _to_anyone | _to_group, coordinator_bumps, init_version >= BUMPING_VERSION
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
    client,
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
answer_taken = Table(client, on=answer_came, rows=(Row("read it", set={request_in_flight: False}),))
version_mismatch = event("version mismatch")
version_unknown = Table(
    client,
    on=version_mismatch,
    response=Reaction,
    rows=(fatal("unsupported", lift(True), ClientError.UNSUPPORTED_VERSION, _COMPLETE),),
)

found = event("FindCoordinator answered", error=ClientError, coordinator=Coordinator)
_FOUND = f"{_MANAGER}.FindCoordinatorHandler.handleResponse"
_is_group = found.coordinator == Coordinator.GROUP
coordinator_found = Table(
    client,
    on=found,
    response=Reaction,
    rows=(
        Row(
            "found",
            when=found.error == ClientError.NONE,
            set={
                group_coordinator: group_coordinator | _is_group,
                transaction_coordinator: transaction_coordinator | ~_is_group,
            },
            reply=react(ClientStep.DONE),
            source=_FOUND,
        ),
        _again(found.error, _FOUND, ClientError.COORDINATOR_NOT_AVAILABLE),
        fatal(
            "not authorized for the transactional id",
            found.error == ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            found.error,
            _FOUND,
        ),
        aborting(
            "abortable",
            (found.error == ClientError.GROUP_AUTHORIZATION_FAILED) | _is_abortable(found.error),
            found.error,
            _FOUND,
        ),
        fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _FOUND),
    ),
)

initialized = event(
    "InitProducerId answered", error=ClientError, producer_id=PRODUCER_ID, producer_epoch=EPOCH
)
_INIT = f"{_MANAGER}.InitProducerIdHandler.handleResponse"


def _is_unauthorized(error: Expression) -> Expression:
    return error.is_in(
        ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ClientError.CLUSTER_AUTHORIZATION_FAILED
    )


_first = pending_call == some(INITIALIZING)  # brokers' versions are looked at after that call
_IN_A_LOOP, _LOOP = ~transactional & ~one_way_to_ids, "Sender.maybeWaitForProducerId before 2.5"
id_given = Table(
    client,
    on=initialized,
    response=Reaction,
    rows=(
        Row(
            "initialized, and not in a state to be ready",
            when=(initialized.error == ClientError.NONE) & ~((state == INITIALIZING) | completing),
            during=~_IN_A_LOOP,
            goto=NOT_ALLOWED,
            set={
                producer_id: initialized.producer_id,
                producer_epoch: initialized.producer_epoch,
                last_error: NOT_ALLOWED_ERROR,
            },
            reply=react(ClientStep.WAIT),
            source=f"{_MANAGER}.transitionTo",
        ),
        Row(
            "initialized",
            when=initialized.error == ClientError.NONE,
            goto=READY,
            set={
                producer_id: initialized.producer_id,
                producer_epoch: initialized.producer_epoch,
                last_error: None,
                is_version_2: if_(_first & knows_version_2, finalized_version >= 2, is_version_2),
            },
            reply=react(ClientStep.DONE),
            source=f"{_INIT}, KafkaProducer.initTransactions",
        ),
        Row(
            "try again with any broker",
            when=is_retriable(initialized.error),
            during=_IN_A_LOOP,
            reply=react(ClientStep.RETRY),
            source=_LOOP,
        ),
        fatal("fatal", lift(True), initialized.error, _LOOP, during=_IN_A_LOOP),
        _moved(initialized.error, transaction_coordinator, _INIT),
        _again(initialized.error, _INIT, _LOADING, _BUSY),
        fatal(
            "not authorized, for good",
            _is_unauthorized(initialized.error),
            initialized.error,
            _INIT,
            during=~unauthorized_abortable,
        ),
        aborting(
            "abortable",
            _is_unauthorized(initialized.error) | _is_abortable(initialized.error),
            initialized.error,
            _INIT,
            during=unauthorized_abortable,
        ),
        _fenced(initialized.error, _INIT, during=producer_fenced_error),
        fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _INIT),
    ),
)

unauthorized = event("give up initializing")
given_up = Table(
    client,
    on=unauthorized,
    response=Reaction,
    when=unauthorized_abortable
    & (state == ABORTABLE_ERROR)
    & last_error.is_set
    & _is_unauthorized(last_error.value),
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
partition_answered = event("AddPartitionsToTxn for a partition", error=ClientError)
_ADDED = f"{_MANAGER}.AddPartitionsToTxnHandler.handleResponse"
_told = partition_answered.error
_ADDING_AGAIN = (_BUSY, _LOADING, _NO_PARTITION)
_of_request = (
    asks_again(_told, *_ADDING_AGAIN, by_kind=retried_by_kind)
    | _is_abortable(_told)
    | _told.is_in(
        ClientError.COORDINATOR_NOT_AVAILABLE,
        ClientError.NOT_COORDINATOR,
        ClientError.INVALID_PRODUCER_EPOCH,
        ClientError.PRODUCER_FENCED,
        ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ClientError.INVALID_TXN_STATE,
        ClientError.INVALID_PRODUCER_ID_MAPPING,
    )
    | (client_epoch_bump & (_told == ClientError.UNKNOWN_PRODUCER_ID))
)
partition_told = Table(
    client,
    on=partition_answered,
    response=PartitionReaction,
    rows=(
        Row(
            "added",
            when=_told == ClientError.NONE,
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
            when=_told == ClientError.TOPIC_AUTHORIZATION_FAILED,
            reply=PartitionReaction(step=PartitionStep.UNAUTHORIZED),
            source=_ADDED,
        ),
        Row("refused", reply=PartitionReaction(step=PartitionStep.REFUSED), source=_ADDED),
    ),
)
partitions_answered = event(
    "AddPartitionsToTxn answered", error=ClientError, partitions=Set(PARTITION),
    event_doc="With the first error about the request, or what the partitions' come to.",
)  # fmt: skip
_asked = partitions_answered.partitions
_NO_LONGER_PENDING: dict[Expression, Operand] = {pending_partitions: pending_partitions - _asked}
partitions_added = Table(
    client,
    on=partitions_answered,
    response=Reaction,
    rows=(
        Row(
            "added",
            when=partitions_answered.error == ClientError.NONE,
            set=_NO_LONGER_PENDING | {partitions: partitions | _asked, transaction_started: True},
            reply=react(ClientStep.DONE),
            source=_ADDED,
        ),
        Row(
            "the transaction before it is ending",
            when=(partitions_answered.error == ClientError.CONCURRENT_TRANSACTIONS)
            & (size(partitions) == 0),
            reply=react(
                ClientStep.RETRY,
                backoff_ms=if_(RETRY_BACKOFF < SHORT_BACKOFF, RETRY_BACKOFF, SHORT_BACKOFF),
            ),
            source=f"{_MANAGER}.AddPartitionsToTxnHandler.maybeOverrideRetryBackoffMs",
        ),
        *_in_transaction(partitions_answered.error, _ADDED, *_ADDING_AGAIN),
        aborting(
            "abortable",
            _is_abortable(partitions_answered.error),
            partitions_answered.error,
            _ADDED,
        ),
        aborting(
            "not authorized for topics",
            partitions_answered.error == ClientError.TOPIC_AUTHORIZATION_FAILED,
            partitions_answered.error,
            _ADDED,
            more=_NO_LONGER_PENDING,
        ),
        aborting(
            "some were refused",
            lift(True),
            ClientError.KAFKA_EXCEPTION,
            _ADDED,
            more=_NO_LONGER_PENDING,
        ),
    ),
)

offsets_answered = event("AddOffsetsToTxn answered", error=ClientError)
_OFFSETS = f"{_MANAGER}.AddOffsetsToTxnHandler.handleResponse"
offsets_added = Table(
    client,
    on=offsets_answered,
    response=Reaction,
    rows=(
        Row(
            "commit them next",
            when=offsets_answered.error == ClientError.NONE,
            set={transaction_started: True},
            reply=react(ClientStep.GO_ON),
            source=_OFFSETS,
        ),
        *_in_transaction(offsets_answered.error, _OFFSETS, _LOADING, _BUSY),
        aborting(
            "abortable",
            (offsets_answered.error == ClientError.GROUP_AUTHORIZATION_FAILED)
            | _is_abortable(offsets_answered.error),
            offsets_answered.error,
            _OFFSETS,
        ),
        fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _OFFSETS),
    ),
)

offset_answered = event("TxnOffsetCommit for a partition", error=ClientError)
_COMMITTED = f"{_MANAGER}.TxnOffsetCommitHandler.handleResponse"
_error = offset_answered.error
offset_committed = Table(
    client,
    on=offset_answered,
    response=Reaction,
    rows=(
        Row(
            "committed",
            when=_error == ClientError.NONE,
            reply=react(ClientStep.DONE),
            source=_COMMITTED,
        ),
        Row(
            "the coordinator has moved",
            when=_error.is_in(
                ClientError.COORDINATOR_NOT_AVAILABLE,
                ClientError.NOT_COORDINATOR,
                ClientError.REQUEST_TIMED_OUT,
            ),
            set={group_coordinator: False},
            reply=react(ClientStep.LOOK_UP),
            source=_COMMITTED,
        ),
        _again(_error, _COMMITTED, _LOADING, _NO_PARTITION, by_kind=offsets_retried_by_kind),
        aborting(
            "abortable",
            (_error == ClientError.GROUP_AUTHORIZATION_FAILED)
            | (offsets_name_members & (_error == ClientError.FENCED_INSTANCE_ID))
            | _is_abortable(_error),
            _error,
            _COMMITTED,
        ),
        aborting(
            "no longer a member of the group",
            _error.is_in(ClientError.UNKNOWN_MEMBER_ID, ClientError.ILLEGAL_GENERATION),
            ClientError.COMMIT_FAILED,
            _COMMITTED,
            during=offsets_name_members,
        ),
        _fenced(
            _error,
            _COMMITTED,
            if_(errors_told_alike | ~producer_fenced_error, ClientError.PRODUCER_FENCED, _error),
        ),
        fatal(
            "not to be mended",
            _error.is_in(
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ),
            _error,
            _COMMITTED,
        ),
        fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _COMMITTED),
    ),
)

end_answered = event(
    "EndTxn answered", error=ClientError, producer_id=PRODUCER_ID, producer_epoch=EPOCH
)
_END = f"{_MANAGER}.EndTxnHandler.handleResponse"
_ended = end_answered.error
_is_told_epoch = knows_version_2 & (end_answered.producer_epoch != NO_EPOCH)
_may_end = if_(epoch_bump_required & ~commit_may_bump, state == ABORTING, completing)
ended = Table(
    client,
    on=end_answered,
    response=Reaction,
    rows=(
        Row(
            "ended, and not in a state for what follows",
            when=(_ended == ClientError.NONE) & ~_may_end,
            goto=NOT_ALLOWED,
            set={last_error: NOT_ALLOWED_ERROR},
            reply=react(ClientStep.WAIT),
            source=f"{_MANAGER}.transitionTo",
        ),
        Row(
            "ended, with a new epoch",
            when=(_ended == ClientError.NONE) & _is_told_epoch,
            goto=_AFTER_END,
            set=_COMPLETED
            | {
                producer_id: end_answered.producer_id,
                producer_epoch: end_answered.producer_epoch,
            },
            reply=react(ClientStep.GO_ON),
            source="KIP-890 part 2",
            note="All sequences start again.",
        ),
        Row(
            "ended",
            when=_ended == ClientError.NONE,
            goto=_AFTER_END,
            set=_COMPLETED,
            reply=react(ClientStep.DONE),
            source=_END,
        ),
        *_in_transaction(_ended, _END, _LOADING, _BUSY, wraps_state=False),
        fatal(
            "an abort that can't be aborted",
            (_ended == ClientError.TRANSACTION_ABORTABLE) & (state == ABORTING),
            ClientError.KAFKA_EXCEPTION,
            "KAFKA-19250",
            during=failed_abort_fatal,
        ),
        aborting("abortable", _is_abortable(_ended), _ended, _END),
        fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _END),
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
    id_given,
    given_up,
    partition_told,
    partitions_added,
    offsets_added,
    offset_committed,
    ended,
)
