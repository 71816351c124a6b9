"""A client's TransactionManager at real ranges: what it knows, and how it fails.

`client`, `producer` and `epoch_bump` have what of it a bounded run explores; here are lookups of
coordinators, offsets of consumer groups, every error code, and calls made out of turn. The
application's calls are in `client_calls`, requests and their answers in `client_requests`, the
sending side in `accumulator`. The queue of requests and the results of calls are the caller's to
keep: rows say what becomes of a request, as a `Reaction`.
"""

from __future__ import annotations

from ...language import (
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
    some,
)
from ...language.expressions import Operand
from ..features import (
    aborted_by_name,
    client_epoch_bump,
    close_ends,
    failed_batch_abortable,
    failed_send_counts,
    illegal_state_fatal,
    producer_fenced_error,
    transaction_version_2,
    transactional,
    unauthorized_abortable,
    version_2_draft,
)
from ..messages import EPOCH, NO_EPOCH, PARTITION, PRODUCER_ID
from .errors import ClientError, is_retriable
from .state import (
    ABORTABLE_ERROR,
    ABORTING,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    UNINITIALIZED,
    State,
    bumps_after_abort,
    fences,
    is_completing,
    unless_aborting,
)

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
reason_to_drop = if_(
    last_error.is_set,
    last_error.value,
    if_(aborted_by_name, ClientError.TRANSACTION_ABORTED, ClientError.KAFKA_EXCEPTION),
)
has_ongoing_transaction = state.is_in(IN_TRANSACTION, COMMITTING, ABORTING, ABORTABLE_ERROR)
aborts_as_it_closes = close_ends & has_ongoing_transaction & ~completing
knows_version_2 = transaction_version_2 & ~version_2_draft  # the draft only looked for it
adds_implicitly = knows_version_2 & is_version_2
can_bump = client_epoch_bump & (~transactional | coordinator_bumps | adds_implicitly)
NEEDS_BUMP: dict[Expression, Operand] = {
    epoch_bump_required: epoch_bump_required | ~adds_implicitly
}
"""With implicitly added partitions every end brings a new epoch."""

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

# What the background thread does where the state doesn't allow what is to be done.
NOT_ALLOWED = if_(illegal_state_fatal, FATAL_ERROR, state)
NOT_ALLOWED_ERROR = if_(illegal_state_fatal, some(ClientError.ILLEGAL_STATE), last_error)

_may_abort = state.is_in(IN_TRANSACTION, COMMITTING, ABORTABLE_ERROR) | (
    unauthorized_abortable & (state == INITIALIZING)
)
TO_ABORTABLE = unless_aborting(state, if_(_may_abort, ABORTABLE_ERROR, NOT_ALLOWED))


def abortable(error: Expression) -> dict[Expression, Operand]:
    """The error that the client is in, where it goes `TO_ABORTABLE`."""
    cause = if_(_may_abort, some(error), NOT_ALLOWED_ERROR)
    return {last_error: if_(state == ABORTING, last_error, cause)}


def react(step: Expression, error: Expression = ClientError.NONE, **more: Operand) -> Sending:
    """A reaction; one that tries again waits as usual before."""
    return Reaction(
        step=step, error=error, **{"ends_call": False, "backoff_ms": RETRY_BACKOFF, **more}
    )


def fatal(
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


def aborting(
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


# Failures ---------------------------------------------------------------------------------------

failure = event(
    "failure", error=ClientError,
    event_doc="A batch has failed; whether its client can go on is told here.",
)  # fmt: skip
send_failure = event(
    "send failed", error=ClientError,
    event_doc="A record has failed before it was in a batch, while the application waits.",
)  # fmt: skip
_TO_ERROR = f"{_MANAGER}.maybeTransitionToErrorState"


def _failed(error: Expression, *out_of_turn: Row) -> tuple[Row, ...]:
    return (
        fatal(
            "fatal",
            error.is_in(
                ClientError.CLUSTER_AUTHORIZATION_FAILED,
                ClientError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ClientError.UNSUPPORTED_VERSION,
            )
            | fences(error, ClientError),
            if_(
                ~producer_fenced_error & (error == ClientError.INVALID_PRODUCER_EPOCH),
                ClientError.PRODUCER_FENCED,
                error,
            ),
            _TO_ERROR,
        ),
        Row(
            "the record's alone",
            when=~lift(transactional),
            reply=react(ClientStep.GO_ON),
            source=_TO_ERROR,
        ),
        *out_of_turn,
        aborting(
            "the transaction's",
            lift(True),
            if_(
                failed_batch_abortable
                & (is_retriable(error) | (error == ClientError.INVALID_TXN_STATE)),
                ClientError.TRANSACTION_ABORTABLE,
                error,
            ),
            _TO_ERROR,
            more={
                epoch_bump_required: epoch_bump_required
                | bumps_after_abort(can_bump, adds_implicitly, state)
            },
        ),
    )


failed = Table(client, on=failure, response=Reaction, rows=_failed(failure.error))
send_failed = Table(
    client,
    on=send_failure,
    response=Reaction,
    rows=(
        Row(
            "nobody else's, ever",
            during=~failed_send_counts,
            reply=react(ClientStep.GO_ON),
            source="KafkaProducer.doSend before 3.2",
        ),
        *_failed(
            send_failure.error,
            Row(
                "out of turn",
                when=~_may_abort & (state != ABORTING),
                reply=react(ClientStep.FAIL, ClientError.ILLEGAL_STATE),
                source=f"{_MANAGER}.transitionTo",
            ),
        ),
    ),
)

raise_error = event("error", error=ClientError, is_fatal=Bool())
error_raised = Table(
    client,
    on=raise_error,
    response=Reaction,
    rows=(
        fatal(
            "fatal", raise_error.is_fatal, raise_error.error, f"{_MANAGER}.transitionToFatalError"
        ),
        aborting(
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

TABLES = (failed, send_failed, error_raised, id_wanted)
