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
    Table,
    constant,
    enum,
    event,
    if_,
    message,
    record,
    some,
)
from ..features import (
    expected_epoch,
    newer_epoch_cancels_load,
    two_phase_commit,
)
from ..messages import (
    Errors,
)
from .entry import (
    TransactionState,
)
from .log import TABLES as LOG_TABLES
from .markers import caller, markers_answered
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

GIVEN_MS = Int(-(2**31), 2**31 - 1)
LookupResponse = message("LookupResponse", caller, error=Errors, step=Step, timeout_ms=GIVEN_MS)
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
    return LookupResponse(error=Errors.NONE, step=step, timeout_ms=timeout)


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
            reply=_answer(Errors.INVALID_REQUEST),
            source="KafkaApis.handleInitProducerIdRequest",
        ),
        Row(
            "no transactional id",
            when=_init & _none,
            reply=_answer(Errors.NONE, Step.PRODUCER_ID_ALONE),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "describe nothing",
            when=_describe & _none,
            reply=_answer(Errors.INVALID_REQUEST, Step.ILLEGAL_ARGUMENT),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "empty transactional id",
            when=lookup.transactional_id != Id.GIVEN,
            reply=_answer(Errors.INVALID_REQUEST),
            source="TransactionCoordinator",
        ),
        Row(
            "no two-phase commit here",
            when=_two_phase & (TWO_PHASE_ENABLED == 0),
            during=two_phase_commit,
            reply=_answer(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "nothing prepared is kept yet",
            when=_init & lookup.keep_prepared_txn,
            during=two_phase_commit,
            reply=_answer(Errors.UNSUPPORTED_VERSION),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "timeout out of range",
            when=_init
            & ~_two_phase
            & ~((lookup.timeout_ms > 0) & (lookup.timeout_ms <= MAX_TIMEOUT)),
            reply=_answer(Errors.INVALID_TRANSACTION_TIMEOUT),
            source="TransactionStateManager.validateTransactionTimeoutMs",
        ),
        Row(
            "loading",
            when=_home.is_set & _home.value.is_loading,
            reply=_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
            source=_STATE,
        ),
        Row(
            "not the coordinator",
            when=~_home.is_set,
            reply=_answer(Errors.NOT_COORDINATOR),
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
            reply=_answer(Errors.TRANSACTIONAL_ID_NOT_FOUND),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "unknown transactional id",
            when=~lookup.is_known,
            reply=_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
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

COORDINATOR_TABLES = (looked_up, ownership_taken, ownership_given_up)

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


TABLES = (*ENTRY_TABLES, *LOG_TABLES, markers_answered)
