"""Which broker coordinates a transactional id: elections, loads of the transaction log, and what is
said of a request before the id's entry is looked at.

An id belongs to a partition of the transaction log, whose leader coordinates it. A leader answers
once it has read the log. A load goes on while the broker learns of newer leaders, and a broker
learns of them in their order, late perhaps.
"""

from __future__ import annotations

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
    Sequence,
    Set,
    Table,
    append,
    constant,
    enum,
    event,
    if_,
    message,
    record,
    set_of,
    size,
    some,
    to_each,
)
from ..messages import Errors
from ..releases.features import expected_epoch, newer_epoch_cancels_load, two_phase_commit
from .markers import caller

MAX_TIMEOUT = constant(
    "transaction_max_timeout_ms", 1, 1, 1, real=900_000, meaning="transaction.max.timeout.ms"
)
LEAST_TIMEOUT = constant(
    "least_timeout_ms", 0, 0, 0, real=-(2**31), meaning="that can be asked for"
)
LARGEST_TIMEOUT = constant(
    "largest_timeout_ms", 2, 2, 2, real=2**31 - 1, meaning="that can be asked for"
)
TWO_PHASE_ENABLED = constant(
    "transaction_two_phase_commit_enable", 0, 0, 1, real=0,
    meaning="1: transaction.two.phase.commit.enable",
)  # fmt: skip
STATE_PARTITIONS = constant(
    "transaction_state_partitions", 1, 1, 1, real=2**31 - 1,
    meaning="transaction.state.log.num.partitions",
)  # fmt: skip
BROKERS = constant("brokers", 2, 1, 4, meaning="brokers that may lead the transaction log")
LEADER_EPOCHS = constant(
    "leader_epochs", 2, 0, 4, real=2**31 - 1, meaning="the largest leader epoch, from 0 on"
)
STATE_PARTITION = Key("state_partition", STATE_PARTITIONS)
BROKER = Key("broker", BROKERS)
LEADER_EPOCH = Int(-1, LEADER_EPOCHS, "leader epoch")
GIVEN_MS = Int(LEAST_TIMEOUT, LARGEST_TIMEOUT)

Owned = record("Owned", is_loading=Bool(), coordinator_epoch=LEADER_EPOCH)

coordinator = Machine("coordinator", BROKER, doc="A broker, as the coordinator of ids.")
owned = coordinator.field(
    "owned", Map(STATE_PARTITION, Optional(Owned)),
    doc="The partitions of the transaction log that it leads, as far as it has heard.",
)  # fmt: skip
loads = coordinator.field(
    "loads", Map(STATE_PARTITION, Set(LEADER_EPOCH)),
    doc="The epochs under which it reads a partition; each load has a thread of its own.",
)  # fmt: skip
known = coordinator.field(
    "known", Map(STATE_PARTITION, Optional(LEADER_EPOCH)), only_bounded=True,
    doc="The entry of the id in its memory, by the epoch under which it was made.",
)  # fmt: skip
heard = coordinator.field(
    "heard", LEADER_EPOCH, -1, only_bounded=True, doc="The newest leader epoch that it knows of."
)

cluster = Machine("cluster", doc="The partition of the transaction log, as its replicas have it.")
leaders = cluster.field(
    "leaders", Sequence(BROKER, LEADER_EPOCHS + 1), doc="The leader of each epoch, from 0 on."
)
logged = cluster.field(
    "logged", Optional(LEADER_EPOCH), doc="The entry of the id in the log, as `known` has it."
)

# Elections --------------------------------------------------------------------------------------

LeaderAndIsr = message(
    "LeaderAndIsr", coordinator, broker=BROKER, state_partition=STATE_PARTITION, leads=Bool(),
    coordinator_epoch=Optional(LEADER_EPOCH), carried=("state_partition",),
    message_doc="A broker hears that it leads a partition of the transaction log, or no longer; "
    "with KRaft it replays such a record.",
).at_real_ranges(is_loading=(Bool(), True))  # fmt: skip

b = BROKER.variable("b")
elect = event("elect", other_broker=BROKER)
leader_elected = Table(
    cluster,
    on=elect,
    when=size(leaders) <= LEADER_EPOCHS,
    rows=(
        Row(
            "under the next epoch",
            set={leaders: append(leaders, elect.other_broker)},
            send=(
                to_each(
                    b,
                    True,
                    LeaderAndIsr(
                        broker=b,
                        state_partition=0,
                        leads=b == elect.other_broker,
                        coordinator_epoch=some(size(leaders)),
                    ),
                ),
            ),
            source="ReplicationControlManager, KafkaController",
        ),
    ),
)

_partition = LeaderAndIsr.state_partition
_held = owned[_partition]
_new_epoch = LeaderAndIsr.coordinator_epoch
_REMOVE = "TransactionStateManager.removeTransactionsForTxnTopicPartition"
leader_changed = Table(
    coordinator,
    on=LeaderAndIsr,
    rows=(
        Row(
            "take over",
            when=LeaderAndIsr.leads,
            set={
                _held: some(
                    Owned(is_loading=LeaderAndIsr.is_loading, coordinator_epoch=_new_epoch.value)
                ),
                loads[_partition]: loads[_partition]
                | if_(LeaderAndIsr.is_loading, set_of(_new_epoch.value), set_of()),
                known[_partition]: None,
                heard: _new_epoch.value,
            },
            source="TransactionCoordinator.onElection",
        ),
        Row(
            "goes on loading",
            when=_held.is_set
            & _held.value.is_loading
            & _new_epoch.is_set
            & if_(
                newer_epoch_cancels_load,
                _held.value.coordinator_epoch >= _new_epoch.value,
                _held.value.coordinator_epoch != _new_epoch.value,
            ),
            set={heard: _new_epoch.value},
            source=_REMOVE,
        ),
        Row(
            "give up",
            set={_held: None, known[_partition]: None, heard: _new_epoch.value},
            source=_REMOVE,
        ),
    ),
)

end_load = event("load ends", state_partition=STATE_PARTITION, coordinator_epoch=LEADER_EPOCH)
Loaded = message("Loaded", caller, only_real=True, is_taken=Bool())
_loading = owned[end_load.state_partition]
_is_awaited = (
    _loading.is_set
    & _loading.value.is_loading
    & (_loading.value.coordinator_epoch == end_load.coordinator_epoch)
)
_load_ended = {
    loads[end_load.state_partition]: loads[end_load.state_partition]
    - set_of(end_load.coordinator_epoch)
}
_LOAD = "TransactionStateManager.loadTransactionsForTxnTopicPartition"
load_ended = Table(
    coordinator,
    on=end_load,
    others=(cluster,),
    response=Loaded,
    when=end_load.coordinator_epoch.is_in(loads[end_load.state_partition]),
    rows=(
        Row(
            "answer from now on",
            when=_is_awaited,
            set={
                _loading: some(
                    Owned(is_loading=False, coordinator_epoch=end_load.coordinator_epoch)
                ),
                known[end_load.state_partition]: logged,
            }
            | _load_ended,
            reply=Loaded(is_taken=True),
            source=_LOAD,
        ),
        Row(
            "nobody waits for it",
            set=_load_ended,
            reply=Loaded(is_taken=False),
            source=_LOAD,
        ),
    ),
)

# Requests ---------------------------------------------------------------------------------------

Request = enum("Request", "INIT_PRODUCER_ID", "OTHER", "DESCRIBE")
Id = enum("TransactionalId", "NONE", "EMPTY", "GIVEN")
Step = enum(
    "Step", "ANSWER", "PRODUCER_ID_ALONE", "NEW_ENTRY", "GO_ON", "ILLEGAL_ARGUMENT",
)  # fmt: skip
LookupResponse = message(
    "LookupResponse", caller, only_real=True, error=Errors, step=Step, timeout_ms=GIVEN_MS
)
_lookup = event(
    "look up", request=Request, transactional_id=Id, state_partition=STATE_PARTITION,
    timeout_ms=GIVEN_MS, expects_id=Bool(), expects_epoch=Bool(), enable_2pc=Bool(),
    keep_prepared_txn=Bool(),
    event_doc="At the timeout the state is the one that InitProducerId reports.",
)  # fmt: skip
lookup = _lookup.at_real_ranges(
    is_known=(Bool(), known[_lookup.state_partition].is_set), is_dead=(Bool(), False)
)


def _answer(error: Expression, step: Expression = Step.ANSWER) -> Sending:
    return LookupResponse(error=error, step=step, timeout_ms=lookup.timeout_ms)


def _goes_on(step: Expression) -> Sending:
    timeout = if_(_two_phase, LARGEST_TIMEOUT, lookup.timeout_ms)
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
            set={known[lookup.state_partition]: some(_home.value.coordinator_epoch)},
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

# The log ----------------------------------------------------------------------------------------

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
"""What a client gets if the log has failed with an error; other errors are unchanged.

TransactionStateManager.appendTransactionToLog
"""

append_entry = event("entry appended", state_partition=STATE_PARTITION)
_made = known[append_entry.state_partition]
_under = owned[append_entry.state_partition]
entry_appended = Table(
    coordinator,
    on=append_entry,
    others=(cluster,),
    when=_made.is_set & _under.is_set & (logged != _made),
    doc="The record of a new entry. The log takes it under the newest leader epoch alone.",
    rows=(
        Row(
            "in the log",
            when=_under.value.coordinator_epoch == size(leaders) - 1,
            set={logged: _made},
            source="TransactionStateManager.appendTransactionToLog",
        ),
        Row(
            "not the leader",
            source="TransactionStateManager.appendTransactionToLog, NOT_COORDINATOR",
            note="The client gets the error. The entry stays.",
        ),
    ),
)

COORDINATOR_TABLES = (leader_changed, load_ended, looked_up)
TABLES = (*COORDINATOR_TABLES, leader_elected, entry_appended)
