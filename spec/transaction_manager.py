"""A client's TransactionManager at real ranges: the application's calls, the requests to
coordinators, and what each answer does.

`client`, `producer` and `epoch_bump` have what of it a bounded run explores; here are lookups of
coordinators, offsets of consumer groups, every error code, and calls made out of turn. The
sending side is in `accumulator`. The queue of requests and the results of calls are the caller's to
keep: rows say what becomes of a request, as a `Step`.
"""

from __future__ import annotations

from typing import Any

from .client import (
    ABORTABLE_ERROR,
    ABORTING,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    READY,
    UNINITIALIZED,
    State,
    fences,
    is_completing,
    unless_aborting,
)
from .client_errors import ClientError, is_retriable
from .features import (
    client_epoch_bump,
    failed_abort_fatal,
    transaction_version_2,
    transactional,
    unknown_id_fatal,
    version_2_draft,
)
from .language import (
    Bool,
    Expression,
    Int,
    Machine,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    constant,
    enum,
    event,
    if_,
    lift,
    message,
    set_of,
    size,
    some,
)
from .language.expressions import Operand
from .messages import EPOCH, NO_EPOCH, PARTITION, PRODUCER_ID

API_VERSION = Int(0, 2**15 - 1, "version")
TRANSACTION_VERSION = Int(0, 2, "transaction version")
RETRY_BACKOFF = constant(
    "retry_backoff_ms", 0, 0, 0, real=100, meaning="retry.backoff.ms"
)  # fmt: skip
SHORT_BACKOFF = constant(
    "add_partitions_backoff_ms", 0, 0, 0, real=20,
    meaning="before a transaction's first partition is asked for again while the last one ends",
)  # fmt: skip
BACKOFF = Int(0, 2**31 - 1, "backoff")
BUMPING_VERSION = 3  # of InitProducerId, that names the epoch held
GROUP_VERSION = 3  # of TxnOffsetCommit, that names a member of the group

client = Machine("client", doc="A producer client: its TransactionManager and its accumulator.")
state = client.state_field("state", State)
last_error = client.field("last_error", Optional(ClientError))
producer_id = client.field("producer_id", PRODUCER_ID)
producer_epoch = client.field("producer_epoch", EPOCH, doc="Without one there is no id, either.")
new_partitions = client.field(
    "new_partitions", Set(PARTITION), doc="Written to, and not asked for in the transaction yet."
)
pending_partitions = client.field("pending_partitions", Set(PARTITION), doc="Asked for.")
partitions = client.field("partitions", Set(PARTITION), doc="In the transaction.")
transaction_started = client.field("transaction_started", Bool())
epoch_bump_required = client.field("epoch_bump_required", Bool())
pending_call = client.field(
    "pending_call", Optional(State), doc="What the application's last call has begun."
)
call_acknowledged = client.field(
    "call_acknowledged", Bool(), doc="The application has heard of its end."
)
transaction_coordinator = client.field("transaction_coordinator", Bool(), doc="It is known.")
group_coordinator = client.field("group_coordinator", Bool(), doc="It is known.")
request_in_flight = client.field("request_in_flight", Bool(), doc="To a coordinator.")
init_version = client.field("init_version", API_VERSION, doc="The highest of InitProducerId.")
offsets_version = client.field("offsets_version", API_VERSION, doc="Of TxnOffsetCommit.")
coordinator_bumps = client.field(
    "coordinator_bumps", Bool(), doc="The coordinator takes an epoch that its client holds."
)
finalized_version = client.field(
    "finalized_version", TRANSACTION_VERSION, doc="transaction.version, as brokers last said."
)
is_version_2 = client.field("is_version_2", Bool(), doc="As far as this transaction goes.")
is_closed = client.field("is_closed", Bool(), doc="No call begins anything any more.")

has_id = producer_epoch != NO_EPOCH
has_error = state.is_in(ABORTABLE_ERROR, FATAL_ERROR)
completing = is_completing(state)
is_initializing = state == INITIALIZING
drops_undrained = state.is_in(ABORTABLE_ERROR, ABORTING)
"""Whether batches that were never sent are given up, with `reason_to_drop`."""
reason_to_drop = if_(last_error.is_set, last_error.value, ClientError.TRANSACTION_ABORTED)
has_ongoing_transaction = state.is_in(IN_TRANSACTION, COMMITTING, ABORTING, ABORTABLE_ERROR)
_knows_version_2 = transaction_version_2 & ~version_2_draft  # the draft only looked for it
adds_implicitly = _knows_version_2 & is_version_2
can_bump = client_epoch_bump & (~transactional | coordinator_bumps | adds_implicitly)

ClientStep = enum(
    "ClientStep",
    "DONE",  # its result is there
    "RETRY",  # after the backoff
    "LOOK_UP",  # again once its coordinator is found
    "FAIL",  # its result is an error
    "SEND",
    "WAIT",
    "GO_ON",  # with what comes next
)
caller = Machine("caller", doc="Whoever keeps the requests.")
Reaction = message(
    "Reaction", caller, step=ClientStep, error=ClientError, ends_call=Bool(), backoff_ms=BACKOFF,
    message_doc="What becomes of a request. `ends_call`: the pending call fails with the error.",
)  # fmt: skip
CallResponse = message(
    "CallResponse", caller, raises=Optional(ClientError), cause=Optional(ClientError),
    continues=Bool(),
    message_doc="`continues`: the call goes on with the one that is pending, and has its result.",
)  # fmt: skip

_MANAGER = "TransactionManager"

# Errors -----------------------------------------------------------------------------------------

# Where the state doesn't allow it, the background thread goes to FATAL_ERROR.
_may_abort = state.is_in(IN_TRANSACTION, COMMITTING, ABORTABLE_ERROR, INITIALIZING)
TO_ABORTABLE = unless_aborting(state, if_(_may_abort, ABORTABLE_ERROR, FATAL_ERROR))


def abortable(error: Expression) -> dict[Expression, Operand]:
    """The error that the client is in, where it goes `TO_ABORTABLE`."""
    cause = if_(_may_abort, some(error), some(ClientError.ILLEGAL_STATE))
    return {last_error: if_(state == ABORTING, last_error, cause)}


def react(step: Expression, error: Expression = ClientError.NONE, **more: Operand) -> Sending:
    """A reaction; one that tries again waits as usual before."""
    return Reaction(
        step=step, error=error, **{"ends_call": False, "backoff_ms": RETRY_BACKOFF, **more}
    )


def _fatal(
    name: str, when: Expression, error: Expression, source: str, during: Operand = True
) -> Row:
    return Row(
        name,
        when=when,
        during=lift(during),
        goto=FATAL_ERROR,
        set={last_error: some(error)},
        reply=react(ClientStep.FAIL, error, ends_call=pending_call.is_set),
        source=source,
    )


def _abortable(
    name: str,
    when: Expression,
    error: Expression,
    source: str,
    during: Operand = True,
    more: dict[Expression, Operand] | None = None,
) -> Row:
    return Row(
        name,
        when=when,
        during=lift(during),
        goto=TO_ABORTABLE,
        set=abortable(error) | (more or {}),
        reply=react(ClientStep.FAIL, error),
        source=source,
    )


_NEEDS_BUMP: dict[Expression, Operand] = {
    epoch_bump_required: epoch_bump_required | ~adds_implicitly
}


def _moved(error: Expression, coordinator: Expression, source: str) -> Row:
    return Row(
        "the coordinator has moved",
        when=error.is_in(ClientError.COORDINATOR_NOT_AVAILABLE, ClientError.NOT_COORDINATOR),
        set={coordinator: False},
        reply=react(ClientStep.LOOK_UP),
        source=source,
    )


def _again(error: Expression, source: str) -> Row:
    return Row(
        "try again",
        when=is_retriable(error),
        reply=react(ClientStep.RETRY),
        source=source,
    )


def _fenced(error: Expression, source: str) -> Row:
    return _fatal(
        "fenced",
        error.is_in(ClientError.INVALID_PRODUCER_EPOCH, ClientError.PRODUCER_FENCED),
        ClientError.PRODUCER_FENCED,
        source,
    )


def _in_transaction(error: Expression, source: str) -> tuple[Row, ...]:
    """What the coordinator may say of a transaction, whichever request it answers."""
    unknown = error == ClientError.UNKNOWN_PRODUCER_ID
    lost = unknown | (~unknown_id_fatal & (error == ClientError.INVALID_PRODUCER_ID_MAPPING))
    return (
        _moved(error, transaction_coordinator, source),
        _again(error, source),
        _fenced(error, source),
        _fatal(
            "not to be mended",
            error.is_in(
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.INVALID_TXN_STATE,
                ClientError.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~lost,
            error,
            source,
        ),
        _abortable(
            "unknown producer id: a new epoch after the abort",
            lost & can_bump,
            error,
            f"{_MANAGER}.abortableErrorIfPossible",
            more=_NEEDS_BUMP,
        ),
        _fatal(
            "unknown producer id, and no new epoch to be had",
            lost,
            error,
            f"{_MANAGER}.abortableErrorIfPossible",
        ),
    )


# Calls ------------------------------------------------------------------------------------------

call_init = event("initTransactions")
call_begin = event("beginTransaction")
call_commit = event("commitTransaction")
call_abort = event("abortTransaction")
call_send = event("send", partition=PARTITION, event_doc="The record's partition is registered.")
call_offsets = event("sendOffsetsToTransaction", names_group=Bool())
call_close = event("close")
begin_completing = event("begin completing", event_doc="EndTxn is among the requests.")
acknowledge = event("acknowledge call", event_doc="The application has heard of a call's end.")


def _raised(
    name: str, when: Expression, error: Expression, source: str, cause: Operand = None
) -> Row:
    reply = CallResponse(raises=some(error), cause=cause, continues=False)
    return Row(name, when=when, reply=reply, source=source)


def _illegal(name: str, when: Expression, source: str) -> Row:
    return _raised(name, when, ClientError.ILLEGAL_STATE, source)


def _refused_in(failed: Expression) -> tuple[Row, ...]:
    """TransactionManager.maybeFailWithError"""
    kept = (
        ClientError.PRODUCER_FENCED,
        ClientError.INVALID_PRODUCER_EPOCH,
        ClientError.ILLEGAL_STATE,
    )
    source = f"{_MANAGER}.maybeFailWithError"
    return (
        _raised(
            "an error that is told as it is",
            failed & last_error.is_set & last_error.value.is_in(*kept),
            last_error.value,
            source,
        ),
        _raised("an error", failed, ClientError.KAFKA_EXCEPTION, source, cause=last_error),
    )


_unfinished = pending_call.is_set & ~call_acknowledged
_NOT_TRANSACTIONAL = _illegal(
    "no transactional id", ~lift(transactional), f"{_MANAGER}.ensureTransactional"
)
_CLOSED = _illegal("closed", is_closed, "KafkaProducer.throwIfProducerClosed")
_PENDING = _illegal("another call must be finished", _unfinished, f"{_MANAGER}.throwIfPendingState")


def _finished_before(begun: Expression) -> tuple[Row, ...]:
    """TransactionManager.handleCachedTransactionRequestResult"""
    source = f"{_MANAGER}.handleCachedTransactionRequestResult"
    return (
        _illegal(
            "another call must be finished", _unfinished & (pending_call != some(begun)), source
        ),
        Row(
            "go on with it",
            when=_unfinished,
            reply=CallResponse(raises=None, cause=None, continues=True),
            source=source,
        ),
    )


def _taken(name: str, source: str, goto: Operand = None, **more: Any) -> Row:
    reply = CallResponse(raises=None, cause=None, continues=False)
    return Row(name, goto=goto, reply=reply, source=source, **more)


def _pending(begun: Expression) -> dict[Expression, Operand]:
    return {pending_call: some(begun), call_acknowledged: False, last_error: None}


initialize = Table(
    client,
    on=call_init,
    response=CallResponse,
    rows=(
        _CLOSED,
        *_refused_in(has_error),
        _NOT_TRANSACTIONAL,
        *_finished_before(INITIALIZING),
        _illegal("initialized before", state != UNINITIALIZED, f"{_MANAGER}.transitionTo"),
        _taken(
            "ask for an epoch",
            f"{_MANAGER}.initializeTransactions",
            goto=INITIALIZING,
            set=_pending(INITIALIZING),
        ),
    ),
)
begin = Table(
    client,
    on=call_begin,
    response=CallResponse,
    rows=(
        _CLOSED,
        _NOT_TRANSACTIONAL,
        _PENDING,
        *_refused_in(has_error),
        _illegal("not ready", state != READY, f"{_MANAGER}.transitionTo"),
        _taken(
            "begin",
            f"{_MANAGER}.beginTransaction",
            goto=IN_TRANSACTION,
            set={
                pending_call: None,
                last_error: None,
                is_version_2: if_(version_2_draft, finalized_version >= 2, is_version_2),
            },
        ),
    ),
)
commit = Table(
    client,
    on=call_commit,
    response=CallResponse,
    rows=(
        _NOT_TRANSACTIONAL,
        *_finished_before(COMMITTING),
        *_refused_in(has_error),
        _illegal("nothing to commit", state != IN_TRANSACTION, f"{_MANAGER}.transitionTo"),
        _taken("commit", f"{_MANAGER}.beginCommit", goto=COMMITTING, set=_pending(COMMITTING)),
    ),
)
abort = Table(
    client,
    on=call_abort,
    response=CallResponse,
    rows=(
        _NOT_TRANSACTIONAL,
        *_finished_before(ABORTING),
        *_refused_in(state == FATAL_ERROR),
        _illegal(
            "nothing to abort",
            ~state.is_in(IN_TRANSACTION, ABORTABLE_ERROR),
            f"{_MANAGER}.transitionTo",
        ),
        _taken(
            "abort",
            f"{_MANAGER}.beginAbort",
            goto=ABORTING,
            set=_pending(ABORTING) | {new_partitions: set_of()},
        ),
    ),
)
_known = call_send.partition.is_in(new_partitions | pending_partitions | partitions)
send = Table(
    client,
    on=call_send,
    response=CallResponse,
    rows=(
        _CLOSED,
        *_refused_in(has_error),
        _PENDING,
        _taken("without a transaction", f"{_MANAGER}.maybeAddPartition", when=~lift(transactional)),
        _illegal(
            "no transaction",
            ~has_id | (state != IN_TRANSACTION),
            f"{_MANAGER}.maybeAddPartition",
        ),
        _taken("known", f"{_MANAGER}.maybeAddPartition", when=_known),
        _taken(
            "added by its first batch",
            f"{_MANAGER}.maybeAddPartition",
            when=adds_implicitly,
            set={
                partitions: partitions | set_of(call_send.partition),
                transaction_started: True,
            },
        ),
        _taken(
            "to be added",
            f"{_MANAGER}.maybeAddPartition",
            set={new_partitions: new_partitions | set_of(call_send.partition)},
        ),
    ),
)
offsets_sent = Table(
    client,
    on=call_offsets,
    response=CallResponse,
    rows=(
        _raised(
            "no group",
            ~call_offsets.names_group,
            ClientError.ILLEGAL_ARGUMENT,
            "KafkaProducer.throwIfInvalidGroupMetadata",
        ),
        _CLOSED,
        _NOT_TRANSACTIONAL,
        _PENDING,
        *_refused_in(has_error),
        _illegal("no transaction", state != IN_TRANSACTION, f"{_MANAGER}.sendOffsetsToTransaction"),
        _taken(
            "take them",
            f"{_MANAGER}.sendOffsetsToTransaction",
            set={transaction_started: transaction_started | adds_implicitly},
        ),
    ),
)
acknowledged = Table(client, on=acknowledge, rows=(Row("heard", set={call_acknowledged: True}),))
closed = Table(client, on=call_close, rows=(Row("close", set={is_closed: True}),))

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

completing_begun = Table(
    client,
    on=begin_completing,
    rows=(
        Row(
            "with the version that brokers say now",
            during=_knows_version_2,
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
_to_anyone = (send_request.request == Request.FIND_COORDINATOR) | (
    ~transactional & (send_request.request == Request.INIT_PRODUCER_ID)
)
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
        _fatal(
            "an older broker can't take it",
            _to_group & send_request.names_member & (offsets_version < GROUP_VERSION),
            ClientError.UNSUPPORTED_VERSION,
            "TxnOffsetCommitRequest.Builder",
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
_lost_any = (answer_lost.request == Request.FIND_COORDINATOR) | (
    ~transactional & (answer_lost.request == Request.INIT_PRODUCER_ID)
)
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
    rows=(_fatal("unsupported", lift(True), ClientError.UNSUPPORTED_VERSION, _COMPLETE),),
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
        _again(found.error, _FOUND),
        _fatal(
            "not authorized for the transactional id",
            found.error == ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            found.error,
            _FOUND,
        ),
        _abortable(
            "abortable",
            found.error.is_in(
                ClientError.GROUP_AUTHORIZATION_FAILED, ClientError.TRANSACTION_ABORTABLE
            ),
            found.error,
            _FOUND,
        ),
        _fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _FOUND),
    ),
)

initialized = event(
    "InitProducerId answered", error=ClientError, producer_id=PRODUCER_ID, producer_epoch=EPOCH
)
_INIT = f"{_MANAGER}.InitProducerIdHandler.handleResponse"
id_given = Table(
    client,
    on=initialized,
    response=Reaction,
    rows=(
        Row(
            "initialized",
            when=initialized.error == ClientError.NONE,
            goto=READY,
            set={
                producer_id: initialized.producer_id,
                producer_epoch: initialized.producer_epoch,
                last_error: None,
                is_version_2: if_(_knows_version_2, finalized_version >= 2, is_version_2),
            },
            reply=react(ClientStep.DONE),
            source=_INIT,
        ),
        _moved(initialized.error, transaction_coordinator, _INIT),
        _again(initialized.error, _INIT),
        _abortable(
            "abortable",
            initialized.error.is_in(
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.CLUSTER_AUTHORIZATION_FAILED,
                ClientError.TRANSACTION_ABORTABLE,
            ),
            initialized.error,
            _INIT,
        ),
        _fenced(initialized.error, _INIT),
        _fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _INIT),
    ),
)

unauthorized = event("give up initializing")
given_up = Table(
    client,
    on=unauthorized,
    response=Reaction,
    when=(state == ABORTABLE_ERROR)
    & last_error.is_set
    & last_error.value.is_in(
        ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ClientError.CLUSTER_AUTHORIZATION_FAILED
    ),
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
_of_request = is_retriable(_told) | _told.is_in(
    ClientError.INVALID_PRODUCER_EPOCH,
    ClientError.PRODUCER_FENCED,
    ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ClientError.INVALID_TXN_STATE,
    ClientError.UNKNOWN_PRODUCER_ID,
    ClientError.INVALID_PRODUCER_ID_MAPPING,
    ClientError.TRANSACTION_ABORTABLE,
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
        *_in_transaction(partitions_answered.error, _ADDED),
        _abortable(
            "abortable",
            partitions_answered.error == ClientError.TRANSACTION_ABORTABLE,
            partitions_answered.error,
            _ADDED,
        ),
        _abortable(
            "not authorized for topics",
            partitions_answered.error == ClientError.TOPIC_AUTHORIZATION_FAILED,
            partitions_answered.error,
            _ADDED,
            more=_NO_LONGER_PENDING,
        ),
        _abortable(
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
        *_in_transaction(offsets_answered.error, _OFFSETS),
        _abortable(
            "abortable",
            offsets_answered.error.is_in(
                ClientError.GROUP_AUTHORIZATION_FAILED, ClientError.TRANSACTION_ABORTABLE
            ),
            offsets_answered.error,
            _OFFSETS,
        ),
        _fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _OFFSETS),
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
        _again(_error, _COMMITTED),
        _abortable(
            "abortable",
            _error.is_in(
                ClientError.GROUP_AUTHORIZATION_FAILED,
                ClientError.FENCED_INSTANCE_ID,
                ClientError.TRANSACTION_ABORTABLE,
            ),
            _error,
            _COMMITTED,
        ),
        _abortable(
            "no longer a member of the group",
            _error.is_in(ClientError.UNKNOWN_MEMBER_ID, ClientError.ILLEGAL_GENERATION),
            ClientError.COMMIT_FAILED,
            _COMMITTED,
        ),
        _fenced(_error, _COMMITTED),
        _fatal(
            "not to be mended",
            _error.is_in(
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ),
            _error,
            _COMMITTED,
        ),
        _fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _COMMITTED),
    ),
)

end_answered = event(
    "EndTxn answered", error=ClientError, producer_id=PRODUCER_ID, producer_epoch=EPOCH
)
_END = f"{_MANAGER}.EndTxnHandler.handleResponse"
_ended = end_answered.error
ended = Table(
    client,
    on=end_answered,
    response=Reaction,
    rows=(
        Row(
            "ended, with a new epoch",
            when=(_ended == ClientError.NONE)
            & adds_implicitly
            & (end_answered.producer_epoch != NO_EPOCH),
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
        *_in_transaction(_ended, _END),
        _fatal(
            "an abort that can't be aborted",
            (_ended == ClientError.TRANSACTION_ABORTABLE) & (state == ABORTING),
            _ended,
            "KAFKA-19250",
            during=failed_abort_fatal,
        ),
        _abortable("abortable", _ended == ClientError.TRANSACTION_ABORTABLE, _ended, _END),
        _fatal("unexpected", lift(True), ClientError.KAFKA_EXCEPTION, _END),
    ),
)

# Failures on the way ----------------------------------------------------------------------------

failure = event(
    "failure", error=ClientError,
    event_doc="A record or a batch has failed; whether its client can go on is told here.",
)  # fmt: skip
_TO_ERROR = f"{_MANAGER}.maybeTransitionToErrorState"
failed = Table(
    client,
    on=failure,
    response=Reaction,
    rows=(
        _fatal(
            "fatal",
            failure.error.is_in(
                ClientError.CLUSTER_AUTHORIZATION_FAILED,
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.UNSUPPORTED_VERSION,
            )
            | fences(failure.error, ClientError),
            failure.error,
            _TO_ERROR,
        ),
        Row(
            "the record's alone",
            when=~lift(transactional),
            reply=react(ClientStep.GO_ON),
            source=_TO_ERROR,
        ),
        _abortable(
            "the transaction's",
            lift(True),
            failure.error,
            _TO_ERROR,
            more={
                epoch_bump_required: epoch_bump_required
                | (can_bump & ~adds_implicitly & ~completing)
            },
        ),
    ),
)

raise_error = event("error", error=ClientError, is_fatal=Bool())
error_raised = Table(
    client,
    on=raise_error,
    response=Reaction,
    rows=(
        _fatal(
            "fatal", raise_error.is_fatal, raise_error.error, f"{_MANAGER}.transitionToFatalError"
        ),
        _abortable(
            "abortable",
            lift(True),
            raise_error.error,
            f"{_MANAGER}.transitionToAbortableError",
        ),
    ),
)

want_id = event("want a producer id")
id_wanted = Table(
    client,
    on=want_id,
    when=~transactional & ~has_id & (state != INITIALIZING),
    rows=(
        Row(
            "ask for one",
            when=state == UNINITIALIZED,
            goto=INITIALIZING,
            set={last_error: None},
            source=f"{_MANAGER}.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
        Row(
            "not in this state",
            goto=FATAL_ERROR,
            set={last_error: some(ClientError.ILLEGAL_STATE)},
            source=f"{_MANAGER}.transitionTo",
        ),
    ),
)

CALL_TABLES = (initialize, begin, commit, abort, send, offsets_sent, acknowledged, closed)
REQUEST_TABLES = (
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
    failed,
    error_raised,
    id_wanted,
)
TABLES = CALL_TABLES + REQUEST_TABLES
