"""A client's requests to coordinators: which goes next, and what answers about them do.

What a client with a transactional id and one without ask for is the same InitProducerId; the rest
is a transaction's.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Sending,
    Table,
    event,
    if_,
    lift,
    minimum,
    set_of,
    size,
    some,
)
from ..errors import Errors
from ..messages import (
    producer,
)
from ..releases.features import (
    errors_reported_alike,
    offsets_name_members,
    offsets_retried_by_kind,
    stale_epoch_abortable,
    transactional,
    unauthorized_abortable,
)
from ..releases.group_features import load_error_retried
from .add_partitions import added_to_transaction
from .answers import (
    fenced,
    in_transaction,
    is_abortable,
    tried_again,
)
from .end_txn import AFTER_END, COMPLETED, ended, may_complete
from .init_producer_id import initialized, is_unauthorized
from .queue import (
    QUEUE,
    Coordinator,
    Request,
    current,
    in_order,
    is_answer,
    is_asked,
    is_first,
    joins,
    queued,
    sought,
    taken_up,
)
from .state import (
    ABORTABLE_ERROR,
    FATAL_ERROR,
    INITIALIZING,
    UNINITIALIZED,
    adding,
    bump_asked,
    state,
)
from .transaction_manager import (
    BUMPING_VERSION,
    GROUP_VERSION,
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    ClientStep,
    Reaction,
    aborting,
    coordinator_version,
    fatal,
    group_coordinator,
    has_error,
    has_id,
    init_version,
    last_error,
    new_partitions,
    offsets_version,
    react,
    request_in_flight,
    transaction_coordinator,
    transaction_started,
)

_MANAGER = "TransactionManager"


_LOADING, _BUSY = Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.CONCURRENT_TRANSACTIONS
_NO_PARTITION = Errors.UNKNOWN_TOPIC_OR_PARTITION


# Requests ---------------------------------------------------------------------------------------


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
    when=(size(new_partitions) > 0) & in_order,
    rows=(
        Row(
            "ask for them",
            set={
                adding: adding | new_partitions,
                new_partitions: set_of(),
                **joins(Request.ADD_PARTITIONS_TO_TXN),
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
_init = Request.INIT_PRODUCER_ID
_asked = next_request.request
_is_free = ~current.is_set & (size(new_partitions) == 0)
request_chosen = Table(
    producer,
    on=next_request,
    response=Reaction,
    when=(QUEUE == 0) | (_is_free & is_first(_asked, bump_asked)),
    rows=(
        Row(
            "the end waits for batches",
            when=_ends & next_request.has_incomplete_batches,
            reply=react(ClientStep.WAIT),
            source=_NEXT,
        ),
        Row(
            "not in this state",
            when=has_error & ~((state == ABORTABLE_ERROR) & (_asked == Request.FIND_COORDINATOR)),
            set={
                queued: queued - set_of(_asked),
                sought: if_(_asked == Request.FIND_COORDINATOR, set_of(), sought),
            },
            reply=react(ClientStep.FAIL, last_error.value),
            source=f"{_MANAGER}.maybeTerminateRequestWithError",
        ),
        Row(
            "nothing to end, and not in a state for what follows",
            when=_ends & ~transaction_started & ~may_complete,
            goto=NOT_ALLOWED,
            set={last_error: NOT_ALLOWED_ERROR, queued: queued - set_of(_asked)},
            reply=react(ClientStep.STOP),
            source=f"{_NEXT}, {_MANAGER}.transitionTo",
        ),
        Row(
            "nothing to end",
            when=_ends & ~transaction_started,
            goto=AFTER_END,
            set=COMPLETED
            | {
                queued: queued - set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
                current: if_(_init.is_in(queued), some(_init), None),
            },
            reply=react(ClientStep.DONE),
            source=_NEXT,
            note="The request behind it is taken without a look at the state.",
        ),
        Row(
            "go on",
            set={queued: queued - set_of(_asked), current: some(_asked)},
            reply=react(ClientStep.GO_ON),
            source=_NEXT,
        ),
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
    when=(QUEUE == 0) | ((current == some(send_request.request)) & ~request_in_flight),
    rows=taken_up(
        send_request.request,
        Row(
            "no coordinator known",
            when=~_to_anyone & ~(_known_coordinator & send_request.is_node_up),
            set={
                group_coordinator: group_coordinator & ~_to_group,
                transaction_coordinator: transaction_coordinator & _to_group,
            },
            reply=react(ClientStep.LOOK_UP),
            source=_SENDS,
        ),
        Row(
            "not connected",
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
            "send to anyone",
            when=_to_anyone,
            set={request_in_flight: True},
            reply=react(ClientStep.SEND),
            source=_SENDS,
        ),
        Row(
            "send",
            set={
                request_in_flight: True,
                coordinator_version: if_(
                    _to_group, coordinator_version, minimum(init_version, BUMPING_VERSION)
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
    when=is_asked(answer_lost.request),
    rows=taken_up(
        answer_lost.request,
        Row(
            "ask anyone again",
            when=_lost_any,
            reply=react(ClientStep.RETRY),
            source=_COMPLETE,
        ),
        Row(
            "look its coordinator up again",
            set={
                group_coordinator: group_coordinator & ~_lost_group,
                transaction_coordinator: transaction_coordinator & _lost_group,
            },
            reply=react(ClientStep.LOOK_UP),
            source=_COMPLETE,
        ),
    ),
)
version_mismatch = event("version mismatch", request=Request)
version_unknown = Table(
    producer,
    on=version_mismatch,
    response=Reaction,
    when=is_asked(version_mismatch.request),
    rows=taken_up(
        version_mismatch.request,
        fatal("unsupported", lift(True), Errors.UNSUPPORTED_VERSION, _COMPLETE),
    ),
)

found = event("FindCoordinator answered", error=Errors, coordinator=Coordinator)
_FOUND = f"{_MANAGER}.FindCoordinatorHandler.handleResponse"
_is_group = found.coordinator == Coordinator.GROUP
_left = sought - set_of(found.coordinator)
_found = {
    sought: _left,
    queued: if_(size(_left) > 0, queued | set_of(Request.FIND_COORDINATOR), queued),
}
coordinator_found = Table(
    producer,
    on=found,
    response=Reaction,
    when=is_asked(Request.FIND_COORDINATOR) & ((QUEUE == 0) | found.coordinator.is_in(sought)),
    rows=taken_up(
        Request.FIND_COORDINATOR,
        Row(
            "found",
            when=found.error == Errors.NONE,
            set=_found
            | {
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
    & ((QUEUE == 0) | ~request_in_flight)
    & (state == ABORTABLE_ERROR)
    & last_error.is_set
    & is_unauthorized(last_error.value),
    rows=(
        Row(
            "it may be tried again",
            goto=UNINITIALIZED,
            set={last_error: None, queued: set_of(), current: None, sought: set_of()},
            reply=react(ClientStep.FAIL, last_error.value, ends_call=True),
            source="Sender.shouldHandleAuthorizationError",
        ),
    ),
)

offsets_answered = event("AddOffsetsToTxn answered", error=Errors)
_OFFSETS = f"{_MANAGER}.AddOffsetsToTxnHandler.handleResponse"
offsets_added = Table(
    producer,
    on=offsets_answered,
    response=Reaction,
    when=is_asked(Request.ADD_OFFSETS_TO_TXN) & is_answer(offsets_answered.error),
    rows=taken_up(
        Request.ADD_OFFSETS_TO_TXN,
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
        next_one=Request.TXN_OFFSET_COMMIT,
    ),
)

offset_answered = event("TxnOffsetCommit for a partition", error=Errors)
_COMMITTED = f"{_MANAGER}.TxnOffsetCommitHandler.handleResponse"


_MOVED = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR, Errors.REQUEST_TIMED_OUT)


def offset_commit_rows(
    error: Expression, is_no_member: Expression, again: tuple[Sending, ...] = ()
) -> tuple[Row, ...]:
    """The effect of the answer about an offset that is committed in a transaction."""
    return (
        Row(
            "committed",
            when=error == Errors.NONE,
            reply=react(ClientStep.DONE),
            source=_COMMITTED,
        ),
        Row(
            "the coordinator has moved",
            when=error.is_in(*_MOVED),
            set={group_coordinator: False},
            reply=react(ClientStep.LOOK_UP),
            send=again,
            source=_COMMITTED,
        ),
        tried_again(
            error,
            _COMMITTED,
            if_(load_error_retried, _LOADING, _NO_PARTITION),
            _NO_PARTITION,
            by_kind=offsets_retried_by_kind,
            again=again,
        ),
        aborting(
            "abortable",
            (error == Errors.GROUP_AUTHORIZATION_FAILED)
            | (offsets_name_members & (error == Errors.FENCED_INSTANCE_ID))
            | is_abortable(error),
            error,
            _COMMITTED,
        ),
        aborting(
            "no longer a member of the group",
            is_no_member,
            Errors.COMMIT_FAILED,
            _COMMITTED,
            during=offsets_name_members,
        ),
        fenced(
            error,
            _COMMITTED,
            if_(errors_reported_alike | ~stale_epoch_abortable, Errors.PRODUCER_FENCED, error),
        ),
        fatal(
            "fatal error",
            error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ),
            error,
            _COMMITTED,
        ),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _COMMITTED),
    )


_error = offset_answered.error
_is_no_member = _error.is_in(Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION)
offset_committed = Table(
    producer,
    on=offset_answered,
    response=Reaction,
    when=is_asked(Request.TXN_OFFSET_COMMIT) & is_answer(_error),
    rows=taken_up(Request.TXN_OFFSET_COMMIT, *offset_commit_rows(_error, _is_no_member)),
)

want_id = event("want a producer id")
id_wanted = Table(
    producer,
    on=want_id,
    when=~transactional & ~has_id & (state != INITIALIZING) & in_order,
    rows=(
        Row(
            "ask for one",
            when=state == UNINITIALIZED,
            goto=INITIALIZING,
            set={last_error: None, **joins(Request.INIT_PRODUCER_ID)},
            source=f"{_MANAGER}.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
        Row(
            "not in this state",
            goto=FATAL_ERROR,
            set={last_error: some(Errors.ILLEGAL_STATE)},
            source=f"{_MANAGER}.transitionTo",
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
