"""What a coordinator does around the entry of a transactional id, at real ranges.

Requests are looked up first: does this broker coordinate the id, and does it know it? Requests that
bounded runs have for one partition come for many here. What markers' leaders answer is sorted, and
appends to the log fail with whatever error they fail with.
"""

from __future__ import annotations

from collections.abc import Container

from ...language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
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
    record,
    set_of,
    some,
    to_each,
)
from ..features import (
    expected_epoch,
    newer_epoch_cancels_load,
    own_completion_cancelled,
    producer_fenced_error,
    storage_error_retried,
    two_phase_commit,
    version_2_draft,
)
from ..messages import (
    CONNECTION,
    EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    AddPartitionsToTxnResponse,
    clock,
    producer,
    transaction,
)
from ..messages import Errors as EntryErrors
from .add_partitions import add_partitions_rows
from .entry import (
    TransactionState,
    asked_by,
    failed_fence,
    fencing,
    in_transition,
    is_prepared,
    p,
    partitions,
    pending,
    producer_epoch,
    producer_id,
)
from .log import TABLES as LOG_TABLES
from .log import TRANSITION_FORGOTTEN, tell_all
from .tables import TABLES as ENTRY_TABLES

MAX_TIMEOUT = constant(
    "transaction_max_timeout_ms", 0, 0, 0, real=900_000, meaning="transaction.max.timeout.ms"
)
TWO_PHASE_ENABLED = constant(
    "transaction_two_phase_commit_enable", 0, 0, 0, real=0,
    meaning="1: transaction.two.phase.commit.enable",
)  # fmt: skip
STATE_PARTITIONS = constant(
    "transaction_state_partitions", 1, 1, 1, real=2**31 - 1,
    meaning="transaction.state.log.num.partitions",
)  # fmt: skip
STATE_PARTITION = Key("state_partition", STATE_PARTITIONS)
LEADER_EPOCHS = constant("leader_epochs", 0, 0, 0, real=2**31 - 1, meaning="the largest one")
LEADER_EPOCH = Int(-1, LEADER_EPOCHS, "leader epoch")

ErrorCode = enum(
    "ErrorCode",
    NONE=0,
    CORRUPT_MESSAGE=2,
    UNKNOWN_TOPIC_OR_PARTITION=3,
    NOT_LEADER_OR_FOLLOWER=6,
    REQUEST_TIMED_OUT=7,
    MESSAGE_TOO_LARGE=10,
    COORDINATOR_LOAD_IN_PROGRESS=14,
    COORDINATOR_NOT_AVAILABLE=15,
    NOT_COORDINATOR=16,
    RECORD_LIST_TOO_LARGE=18,
    NOT_ENOUGH_REPLICAS=19,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND=20,
    INVALID_REQUIRED_ACKS=21,
    UNSUPPORTED_VERSION=35,
    INVALID_REQUEST=42,
    UNSUPPORTED_FOR_MESSAGE_FORMAT=43,
    INVALID_PRODUCER_EPOCH=47,
    INVALID_PRODUCER_ID_MAPPING=49,
    INVALID_TRANSACTION_TIMEOUT=50,
    TRANSACTION_COORDINATOR_FENCED=52,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED=53,
    KAFKA_STORAGE_ERROR=56,
    TRANSACTIONAL_ID_NOT_FOUND=105,
    UNKNOWN_SERVER_ERROR=-1,
)

# The lookup -------------------------------------------------------------------------------------

Owned = record("Owned", is_loading=Bool(), coordinator_epoch=LEADER_EPOCH)
Request = enum("Request", "INIT_PRODUCER_ID", "OTHER", "DESCRIBE")
Id = enum("TransactionalId", "NONE", "EMPTY", "GIVEN")
Step = enum(
    "Step", "ANSWER", "PRODUCER_ID_ALONE", "NEW_ENTRY", "GO_ON", "ILLEGAL_ARGUMENT",
)  # fmt: skip

coordinator = Machine("coordinator", doc="A broker, as the coordinator of transactional ids.")
owned = coordinator.field(
    "owned", Map(STATE_PARTITION, Optional(Owned)),
    doc="The partitions of the transaction log that it leads.",
)  # fmt: skip

caller = Machine("caller", doc="Whoever handles the request.")
GIVEN_MS = Int(-(2**31), 2**31 - 1)
LookupResponse = message("LookupResponse", caller, error=ErrorCode, step=Step, timeout_ms=GIVEN_MS)
lookup = event(
    "look up", request=Request, transactional_id=Id, state_partition=STATE_PARTITION,
    is_known=Bool(), is_dead=Bool(), timeout_ms=GIVEN_MS, expects_id=Bool(), expects_epoch=Bool(),
    enable_2pc=Bool(), keep_prepared_txn=Bool(),
    event_doc="`is_known`: there is an entry for the id. From the timeout on, it is what "
    "InitProducerId says.",
)  # fmt: skip


def _answer(error: Expression, step: Expression = Step.ANSWER) -> Sending:
    return LookupResponse(error=error, step=step, timeout_ms=lookup.timeout_ms)


def _goes_on(step: Expression) -> Sending:
    timeout = if_(_two_phase, 2**31 - 1, lookup.timeout_ms)
    return LookupResponse(error=ErrorCode.NONE, step=step, timeout_ms=timeout)


_init = lookup.request == Request.INIT_PRODUCER_ID
_two_phase = two_phase_commit & _init & lookup.enable_2pc
_describe = lookup.request == Request.DESCRIBE
_none = lookup.transactional_id == Id.NONE
_home = owned[lookup.state_partition]
_STATE = "TransactionStateManager.getAndMaybeAddTransactionState"
looked_up = Table(
    coordinator,
    on=lookup,
    response=LookupResponse,
    rows=(
        Row(
            "half of what it holds",
            when=_init & (lookup.expects_id != lookup.expects_epoch),
            during=expected_epoch,
            reply=_answer(ErrorCode.INVALID_REQUEST),
            source="KafkaApis.handleInitProducerIdRequest",
        ),
        Row(
            "no transactional id",
            when=_init & _none,
            reply=_answer(ErrorCode.NONE, Step.PRODUCER_ID_ALONE),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "describe nothing",
            when=_describe & _none,
            reply=_answer(ErrorCode.INVALID_REQUEST, Step.ILLEGAL_ARGUMENT),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "empty transactional id",
            when=lookup.transactional_id != Id.GIVEN,
            reply=_answer(ErrorCode.INVALID_REQUEST),
            source="TransactionCoordinator",
        ),
        Row(
            "no two-phase commit here",
            when=_two_phase & (TWO_PHASE_ENABLED == 0),
            during=two_phase_commit,
            reply=_answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "nothing prepared is kept yet",
            when=_init & lookup.keep_prepared_txn,
            during=two_phase_commit,
            reply=_answer(ErrorCode.UNSUPPORTED_VERSION),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "timeout out of range",
            when=_init
            & ~_two_phase
            & ~((lookup.timeout_ms > 0) & (lookup.timeout_ms <= MAX_TIMEOUT)),
            reply=_answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            source="TransactionStateManager.validateTransactionTimeoutMs",
        ),
        Row(
            "loading",
            when=_home.is_set & _home.value.is_loading,
            reply=_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            source=_STATE,
        ),
        Row(
            "not the coordinator",
            when=~_home.is_set,
            reply=_answer(ErrorCode.NOT_COORDINATOR),
            source=_STATE,
        ),
        Row(
            "new transactional id",
            when=_init & ~lookup.is_known,
            reply=_goes_on(Step.NEW_ENTRY),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "nothing to describe",
            when=_describe & (~lookup.is_known | lookup.is_dead),
            reply=_answer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "unknown transactional id",
            when=~lookup.is_known,
            reply=_answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            source="TransactionCoordinator",
        ),
        Row("known", reply=_goes_on(Step.GO_ON)),
    ),
)

elected = event(
    "elected", state_partition=STATE_PARTITION, coordinator_epoch=LEADER_EPOCH, is_loading=Bool()
)
ownership_taken = Table(
    coordinator,
    on=elected,
    rows=(
        Row(
            "take over",
            set={
                owned[elected.state_partition]: some(
                    Owned(
                        is_loading=elected.is_loading, coordinator_epoch=elected.coordinator_epoch
                    )
                )
            },
            source="TransactionCoordinator.onElection",
        ),
    ),
)

resigned = event(
    "resigned", state_partition=STATE_PARTITION, coordinator_epoch=Optional(LEADER_EPOCH)
)
_given_up = owned[resigned.state_partition]
ownership_given_up = Table(
    coordinator,
    on=resigned,
    rows=(
        Row(
            "goes on loading",
            when=_given_up.is_set
            & _given_up.value.is_loading
            & resigned.coordinator_epoch.is_set
            & if_(
                newer_epoch_cancels_load,
                _given_up.value.coordinator_epoch >= resigned.coordinator_epoch.value,
                _given_up.value.coordinator_epoch != resigned.coordinator_epoch.value,
            ),
            source="TransactionStateManager.removeTransactionsForTxnTopicPartition",
        ),
        Row(
            "give up",
            set={_given_up: None},
            source="TransactionStateManager.removeTransactionsForTxnTopicPartition",
        ),
    ),
)

PASSED_ON = {
    # may work later
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    # works at another broker
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    # never works
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
}
"""What a client is told where the log has failed with an error; others as they are.

TransactionStateManager.appendTransactionToLog
"""

COORDINATOR_TABLES = (looked_up, ownership_taken, ownership_given_up)

# An entry's further events ----------------------------------------------------------------------

AddPartitions = message(
    "AddPartitions", transaction, producer=PRODUCER, connection=CONNECTION,
    partitions=Set(PARTITION), producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    client_transaction_version=Int(0, 2), carried=("producer_id",),
    message_doc="AddPartitionsToTxn for several partitions at once.",
)  # fmt: skip


def _add_answer(error: Expression) -> Sending:
    return to_each(
        p,
        p.is_in(AddPartitions.partitions),
        AddPartitionsToTxnResponse(
            producer=AddPartitions.producer, partition=p, error=error,
            connection=AddPartitions.connection,
        ),
    )  # fmt: skip


partitions_added = Table(
    transaction,
    on=AddPartitions,
    elsewhere=(producer, clock),
    rows=add_partitions_rows(
        AddPartitions,
        _add_answer,
        {asked_by[AddPartitions.producer]: some(AddPartitions.connection)},
        AddPartitions.partitions,
        (AddPartitions.partitions - partitions) == set_of(),
        if_(version_2_draft, 0, AddPartitions.client_transaction_version),
    ),
)

append_refused = event(
    "append refused", error=EntryErrors, event_doc="The append to the log has failed."
)
append_was_refused = Table(
    transaction,
    on=append_refused,
    elsewhere=(producer,),
    when=in_transition,
    rows=(
        Row(
            "forget the transition",
            set=TRANSITION_FORGOTTEN,
            send=tell_all(append_refused.error),
            source="TransactionStateManager.appendTransactionToLog",
        ),
    ),
)
has_failed_epoch_fence = failed_fence & ~in_transition
"""A fencing epoch was taken, and its record could not be written."""

server_end = event(
    "end by the server", producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    event_doc="The second half of a fence finds that the fence is gone.",
)  # fmt: skip
EndByServerResponse = message("EndByServerResponse", caller, error=EntryErrors)
_fenced = if_(
    producer_fenced_error, EntryErrors.PRODUCER_FENCED, EntryErrors.INVALID_PRODUCER_EPOCH
)
ended_by_server = Table(
    transaction,
    on=server_end,
    when=~fencing,
    response=EndByServerResponse,
    rows=(
        Row(
            "other producer id",
            when=server_end.producer_id != producer_id,
            reply=EntryErrors.INVALID_PRODUCER_ID_MAPPING,
            source="TransactionCoordinator.endTransaction",
        ),
        Row(
            "stale epoch",
            when=server_end.producer_epoch < producer_epoch,
            reply=_fenced,
            source="TransactionCoordinator.endTransaction",
        ),
        Row(
            "in another's hands",
            reply=EntryErrors.CONCURRENT_TRANSACTIONS,
            source="TransactionCoordinator.endTransaction",
        ),
    ),
)

# What a marker's leader answers -----------------------------------------------------------------

Outcome = enum("MarkerOutcome", "DONE", "RETRY", "CANCEL", "ILLEGAL_STATE")
MarkerVerdict = message("MarkerVerdict", caller, outcome=Outcome)
marker_answered = event("marker answered", partition=PARTITION, error=ErrorCode)
_written = marker_answered.error.is_in(
    ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION
)
_HANDLER = "TransactionMarkerRequestCompletionHandler"
cancels_own_only = lift(own_completion_cancelled)
"""Whether what a late answer cancels is only the completion that its marker was sent for."""
answered = Table(
    transaction,
    on=marker_answered,
    response=MarkerVerdict,
    rows=(
        Row(
            "written, or never to be",
            when=_written & is_prepared,
            set={partitions: partitions - set_of(marker_answered.partition)},
            reply=MarkerVerdict(outcome=Outcome.DONE),
            source=_HANDLER,
        ),
        Row(
            "again",
            when=marker_answered.error.is_in(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                ErrorCode.REQUEST_TIMED_OUT,
            )
            | (storage_error_retried & (marker_answered.error == ErrorCode.KAFKA_STORAGE_ERROR)),
            reply=MarkerVerdict(outcome=Outcome.RETRY),
            source=_HANDLER,
        ),
        Row(
            "refused for good",
            when=marker_answered.error.is_in(
                ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED
            ),
            reply=MarkerVerdict(outcome=Outcome.CANCEL),
            source=_HANDLER,
            note="The entry stays in its Prepare state.",
        ),
        Row(
            "unexpected",
            reply=MarkerVerdict(outcome=Outcome.ILLEGAL_STATE),
            source=_HANDLER,
        ),
    ),
)

completion_refused = event("completion refused", error=ErrorCode)
completion_was_refused = Table(
    transaction,
    on=completion_refused,
    response=MarkerVerdict,
    doc="The append of a Complete record has failed.",
    rows=(
        Row(
            "append again",
            when=completion_refused.error == ErrorCode.COORDINATOR_NOT_AVAILABLE,
            reply=MarkerVerdict(outcome=Outcome.RETRY),
            source="TransactionMarkerChannelManager.tryAppendToLog",
        ),
        Row(
            "another coordinator does it",
            when=completion_refused.error.is_in(
                ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ),
            set={pending: None},
            reply=MarkerVerdict(outcome=Outcome.CANCEL),
            source="TransactionMarkerChannelManager.tryAppendToLog",
        ),
        Row(
            "unexpected",
            set={pending: None},
            reply=MarkerVerdict(outcome=Outcome.ILLEGAL_STATE),
            source="TransactionMarkerChannelManager.tryAppendToLog",
        ),
    ),
)

TABLES = (
    *ENTRY_TABLES,
    *LOG_TABLES,
    partitions_added,
    append_was_refused,
    ended_by_server,
    answered,
    completion_was_refused,
)

# Listing ----------------------------------------------------------------------------------------


def is_listed(
    state: str, producer_id: int, age_ms: int, *, producer_ids: Container[int],
    states: Container[str] | None, min_duration_ms: int,
) -> bool:  # fmt: skip
    """Whether ListTransactions tells of an entry, whose transaction began `age_ms` ago. Where
    there are no producer ids, `states` is None or the duration below 0, they filter nothing.

    TransactionStateManager.listTransactionStates
    """
    return (
        state != TransactionState.DEAD.data.member
        and (not producer_ids or producer_id in producer_ids)
        and (states is None or state in states)
        and (min_duration_ms < 0 or age_ms > min_duration_ms)
    )
