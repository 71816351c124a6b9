"""A client's TransactionManager: its fields beyond the state, and how it fails.

Calls are in `calls`, requests and their answers in `requests`, `init_producer_id`, `add_partitions`
and `end_txn`, the queue of requests in `queue`. Rows give the fate of a request as a `Reaction`, to
whoever drives the client at real ranges.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Expression,
    Int,
    Machine,
    Optional,
    Sending,
    Set,
    constant,
    enum,
    if_,
    message,
    some,
)
from ....language.expressions import Operand
from ...errors import Errors, is_retriable
from ...messages import NO_EPOCH, PARTITION, producer
from ...releases.features import (
    aborted_by_name,
    client_epoch_bump,
    close_ends,
    commit_may_bump,
    failed_batch_abortable,
    illegal_state_fatal,
    stale_epoch_abortable,
    transaction_version_2,
    transactional,
    unauthorized_abortable,
    upgrade_bumps_epoch,
    version_looked_up,
)
from ...releases.proposals import downgrade_waits
from .. import state as client

OLDEST_VERSION = constant(
    "oldest_version",
    2,
    0,
    3,
    real=0,
    meaning="the least that brokers may have as their highest version of a request",
)
NEWEST_VERSION = constant(
    "newest_version", 3, 3, 3, real=2**15 - 1, meaning="the largest version of a request"
)
API_VERSION = Int(OLDEST_VERSION, NEWEST_VERSION, "version")
OLDEST_TRANSACTION_VERSION = constant(
    "oldest_transaction_version",
    2,
    0,
    2,
    real=0,
    meaning="the least transaction.version that brokers may have",
)
TRANSACTION_VERSION = Int(OLDEST_TRANSACTION_VERSION, 2, "transaction version")
RETRY_BACKOFF = constant("retry_backoff_ms", 0, 0, 0, real=100, meaning="retry.backoff.ms")
SHORT_BACKOFF = constant(
    "add_partitions_backoff_ms",
    0,
    0,
    0,
    real=20,
    meaning="before a transaction's first partition is asked for again while the last one ends",
)
BACKOFF = Int(0, 2**31 - 1, "backoff")
BUMPING_VERSION = 3  # of InitProducerId, that names the epoch held
OLDEST_COORDINATOR_VERSION = constant(
    "oldest_coordinator_version",
    BUMPING_VERSION,
    0,
    BUMPING_VERSION,
    real=0,
    meaning="the least that a coordinator may have as its highest version of InitProducerId; with "
    "the largest one it is of the client's release",
)
GROUP_VERSION = 3  # of TxnOffsetCommit, that names a member of the group
EXPLICIT_VERSION = 4  # the last one of transactions before version 2
IMPLICIT_VERSION = 5  # the group's partition needs no AddOffsetsToTxn before
TOPIC_ID_VERSION = 6  # with topic ids in place of names

last_error = producer.field("last_error", Optional(Errors))
new_partitions = producer.field(
    "new_partitions",
    Set(PARTITION),
    doc="Written to, and not asked for in the transaction yet.",
)
transaction_started = producer.field("transaction_started", Bool())
pending_call = producer.field(
    "pending_call",
    Optional(client.State),
    doc="What the application's last call began.",
)
call_acknowledged = producer.field(
    "call_acknowledged", Bool(), doc="The application has heard of its end."
)
CallResult = enum("CallResult", "AWAITED", "FAILED", "LOST")
call_result = producer.field(
    "call_result",
    CallResult,
    doc="The outcome of the last call, without the answers to its requests. FAILED: it raised an "
    "error before them. LOST: nobody answers it, so it waits for good.",
)
lost_result = if_(call_result == CallResult.FAILED, CallResult.FAILED, CallResult.LOST)
"""An answer has come that leads to no state: the waiting call doesn't return."""
transaction_coordinator = producer.field("transaction_coordinator", Bool(), doc="It is known.")
group_coordinator = producer.field("group_coordinator", Bool(), doc="It is known.")
request_in_flight = producer.field("request_in_flight", Bool(), doc="To a coordinator.")
init_version = producer.field(
    "init_version",
    API_VERSION,
    any_initial=True,
    doc="The highest of InitProducerId.",
)
offsets_version = producer.field(
    "offsets_version", API_VERSION, any_initial=True, doc="Of TxnOffsetCommit."
)
coordinator_version = producer.field(
    "coordinator_version",
    Int(OLDEST_COORDINATOR_VERSION, BUMPING_VERSION),
    doc="The highest of InitProducerId that the coordinator takes, as far as it matters.",
)
finalized_version = producer.field(
    "finalized_version",
    TRANSACTION_VERSION,
    any_initial=True,
    doc="transaction.version, as brokers last said.",
)
transaction_version = producer.field(
    "transaction_version",
    TRANSACTION_VERSION,
    doc="transaction.version, as far as this transaction goes.",
)
end_version = producer.field(
    "end_version",
    TRANSACTION_VERSION,
    doc="That of the EndTxn in flight; at real ranges whoever keeps the request knows it.",
)
is_closed = producer.field(
    "is_closed",
    Bool(),
    doc="No call begins anything any more.",
)

is_version_2 = transaction_version == 2
has_id = client.producer_epoch != NO_EPOCH
has_error = client.state.is_in(client.ABORTABLE_ERROR, client.FATAL_ERROR)
completing = client.is_completing(client.state)
is_initializing = client.state == client.INITIALIZING
drops_undrained = client.state.is_in(client.ABORTABLE_ERROR, client.ABORTING)
"""Whether batches that were never sent are given up, with `reason_to_drop`."""
reason_to_drop = if_(
    last_error.is_set,
    last_error.value,
    if_(aborted_by_name, Errors.TRANSACTION_ABORTED, Errors.KAFKA_EXCEPTION),
)
may_initialize = (
    (client.state == client.UNINITIALIZED)
    | (client_epoch_bump & (client.state == client.ABORTING))
    | (commit_may_bump & (client.state == client.COMMITTING))
)
"""TransactionManager.State.isTransitionValid, to INITIALIZING."""
may_be_ready = (client.state == client.INITIALIZING) | completing
"""TransactionManager.State.isTransitionValid, to READY."""
has_ongoing_transaction = client.state.is_in(
    client.IN_TRANSACTION, client.COMMITTING, client.ABORTING, client.ABORTABLE_ERROR
)
aborts_as_it_closes = close_ends & has_ongoing_transaction & ~completing
adds_implicitly = transaction_version_2 & is_version_2
coordinator_bumps = coordinator_version >= BUMPING_VERSION
can_bump = client_epoch_bump & (~transactional | coordinator_bumps | adds_implicitly)
is_upgraded = upgrade_bumps_epoch & ~is_version_2 & (finalized_version >= 2)
goes_back_later = downgrade_waits & is_version_2 & (finalized_version < 2)
next_transaction_version = if_(
    version_looked_up & ~goes_back_later, finalized_version, transaction_version
)
"""The version that brokers name now. The EndTxn itself has the version that the transaction began
with.

TransactionManager.maybeUpdateTransactionV2Enabled, KAFKA-18227
"""
client_side_epoch_bump_required = client.must_bump | is_upgraded
"""Also where the next transaction is the first of version 2.

TransactionManager.maybeUpdateTransactionV2Enabled
"""

ClientStep = enum(
    "ClientStep",
    "DONE",  # its result is there
    "STOP",  # its result is there, and nothing goes next
    "RETRY",  # after the backoff
    "LOOK_UP",  # again once its coordinator is found
    "FAIL",  # its result is an error
    "SPLIT",  # a batch that is too large, which goes again in parts
    "SEND",
    "WAIT",
    "GO_ON",  # with what comes next
)
caller = Machine("caller", doc="Whoever keeps the requests.")
Reaction = message(
    "Reaction",
    caller,
    step=ClientStep,
    error=Errors,
    ends_call=Bool(),
    backoff_ms=BACKOFF,
    version=Int(0, NEWEST_VERSION),
    message_doc="The outcome of a request. `ends_call`: the pending call fails with the error. "
    "`version`: of the TxnOffsetCommit that is sent, and 0 of others.",
)
CallResponse = message(
    "CallResponse",
    caller,
    raises=Optional(Errors),
    cause=Optional(Errors),
    continues=Bool(),
    message_doc="`continues`: the call goes on with the one that is pending, and has its result.",
)

_MANAGER = "TransactionManager"

# Errors -----------------------------------------------------------------------------------------

# What the background thread does where the state doesn't allow what is to be done.
NOT_ALLOWED = if_(illegal_state_fatal, client.FATAL_ERROR, client.state)
NOT_ALLOWED_ERROR = if_(illegal_state_fatal, some(Errors.ILLEGAL_STATE), last_error)

may_abort = client.state.is_in(client.IN_TRANSACTION, client.COMMITTING, client.ABORTABLE_ERROR) | (
    unauthorized_abortable & (client.state == client.INITIALIZING)
)
TO_ABORTABLE = client.unless_aborting(
    client.state, if_(may_abort, client.ABORTABLE_ERROR, NOT_ALLOWED)
)


def abortable_cause(error: Expression) -> Expression:
    """The last error of a client that goes `TO_ABORTABLE`. An abort in progress goes on.

    TransactionManager.transitionToAbortableError
    """
    cause = if_(may_abort, some(error), NOT_ALLOWED_ERROR)
    return if_(client.state == client.ABORTING, last_error, cause)


def react(step: Expression, error: Expression = Errors.NONE, **more: Operand) -> Sending:
    """A reaction; one that tries again waits as usual before."""
    return Reaction(
        step=step,
        error=error,
        **{"ends_call": False, "backoff_ms": RETRY_BACKOFF, "version": 0, **more},
    )


# Failures ---------------------------------------------------------------------------------------


def is_fatal(error: Expression) -> Expression:
    """Whether a batch's error means that its client can never go on.

    TransactionManager.maybeTransitionToErrorState
    """
    return client.fences(error) | error.is_in(
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Errors.UNSUPPORTED_VERSION,
    )


def fatal_error(error: Expression) -> Expression:
    """The fatal error that the client raises for this error of an answer."""
    is_fenced = ~stale_epoch_abortable & (error == Errors.INVALID_PRODUCER_EPOCH)
    return if_(is_fenced, Errors.PRODUCER_FENCED, error)


def batch_error(error: Expression) -> Expression:
    """The error that a transactional client raises for a failed batch.

    TransactionManager.maybeTransitionToErrorState, KAFKA-19176
    """
    by_name = failed_batch_abortable & (is_retriable(error) | (error == Errors.INVALID_TXN_STATE))
    return if_(by_name, Errors.TRANSACTION_ABORTABLE, error)


must_bump_after_abort = client.must_bump | client.bumps_after_abort(
    can_bump, adds_implicitly, client.state
)
"""Whether a client in an abortable error needs a new epoch after the abort: Kafka's
clientSideEpochBumpRequired.

TransactionManager.maybeTransitionToErrorState
"""
