"""Which broker coordinates a transactional id: elections, loads of the transaction log, and the
checks of a request before the coordinator reads the id's entry.

An id belongs to a partition of the transaction log. The leader of the partition coordinates it, and
answers requests once it has read the log. Brokers learn of leaders in order, but may be late. A
load goes on while its broker learns of newer leaders.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Row,
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
from ...messages import Errors
from ...releases.features import expected_epoch, newer_epoch_cancels_load, two_phase_commit
from ..markers import caller

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
    "transaction_two_phase_commit_enable",
    0,
    0,
    1,
    real=0,
    meaning="1: transaction.two.phase.commit.enable",
)
STATE_PARTITIONS = constant(
    "transaction_state_partitions",
    1,
    1,
    1,
    real=2**31 - 1,
    meaning="transaction.state.log.num.partitions",
)
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
    "owned",
    Map(STATE_PARTITION, Optional(Owned)),
    doc="The partitions of the transaction log that it leads, as far as it has heard.",
)
loads = coordinator.field(
    "loads",
    Map(STATE_PARTITION, Set(LEADER_EPOCH)),
    doc="The epochs under which it reads a partition; each load has a thread of its own.",
)
known = coordinator.field(
    "known",
    Map(STATE_PARTITION, Optional(LEADER_EPOCH)),
    doc="The entry of the id in its memory, by the epoch under which it was made.",
)
heard = coordinator.field(
    "heard", LEADER_EPOCH, -1, doc="The newest leader epoch that it knows of."
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
    "LeaderAndIsr",
    coordinator,
    broker=BROKER,
    state_partition=STATE_PARTITION,
    leads=Bool(),
    coordinator_epoch=Optional(LEADER_EPOCH),
    is_loading=Bool(),
    carried=("state_partition",),
    message_doc="A broker hears that it leads a partition of the transaction log, or no longer "
    "does. With KRaft it replays such a record.",
)

b = BROKER.variable("b")
elect = event("elect", other_broker=BROKER)
leader_elected = Table(
    cluster,
    on=elect,
    when=size(leaders) <= LEADER_EPOCHS,
    rows=(
        Row(
            "next-epoch",
            "A broker leads the partition, under the next epoch",
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
                        is_loading=True,
                    ),
                ),
            ),
            source="KafkaController.onReplicaElection, "
            "ReplicationControlManager.generateLeaderAndIsrUpdates",
        ),
    ),
)

owned_partition = owned[LeaderAndIsr.state_partition]
leader_changed = Table(
    coordinator,
    on=LeaderAndIsr,
    rows=(
        Row(
            "elected",
            "The broker leads the partition, and begins to load it",
            when=LeaderAndIsr.leads,
            set={
                owned_partition: some(
                    Owned(
                        is_loading=LeaderAndIsr.is_loading,
                        coordinator_epoch=LeaderAndIsr.coordinator_epoch.value,
                    )
                ),
                loads[LeaderAndIsr.state_partition]: loads[LeaderAndIsr.state_partition]
                | if_(
                    LeaderAndIsr.is_loading,
                    set_of(LeaderAndIsr.coordinator_epoch.value),
                    set_of(),
                ),
                known[LeaderAndIsr.state_partition]: None,
                heard: LeaderAndIsr.coordinator_epoch.value,
            },
            source="TransactionCoordinator.onElection",
        ),
        Row(
            "load-not-cancelled",
            "The broker resigns, but goes on with a load of another epoch",
            when=owned_partition.is_set
            & owned_partition.value.is_loading
            & LeaderAndIsr.coordinator_epoch.is_set
            & if_(
                newer_epoch_cancels_load,
                owned_partition.value.coordinator_epoch >= LeaderAndIsr.coordinator_epoch.value,
                owned_partition.value.coordinator_epoch != LeaderAndIsr.coordinator_epoch.value,
            ),
            set={heard: LeaderAndIsr.coordinator_epoch.value},
            source="TransactionStateManager.removeTransactionsForTxnTopicPartition",
        ),
        Row(
            "resigned",
            "The broker resigns, and forgets the partition",
            set={
                owned_partition: None,
                known[LeaderAndIsr.state_partition]: None,
                heard: LeaderAndIsr.coordinator_epoch.value,
            },
            source="TransactionStateManager.removeTransactionsForTxnTopicPartition",
        ),
    ),
)

# Loads ------------------------------------------------------------------------------------------

end_load = event("load ends", state_partition=STATE_PARTITION, coordinator_epoch=LEADER_EPOCH)
Loaded = message("Loaded", caller, is_taken=Bool())
loading_partition = owned[end_load.state_partition]
load_ended = Table(
    coordinator,
    on=end_load,
    others=(cluster,),
    response=Loaded,
    when=end_load.coordinator_epoch.is_in(loads[end_load.state_partition]),
    source="TransactionStateManager.loadTransactionsForTxnTopicPartition",
    set={
        loads[end_load.state_partition]: loads[end_load.state_partition]
        - set_of(end_load.coordinator_epoch)
    },
    rows=(
        Row(
            "loaded",
            "The broker answers requests from now on",
            when=loading_partition.is_set
            & loading_partition.value.is_loading
            & (loading_partition.value.coordinator_epoch == end_load.coordinator_epoch),
            set={
                loading_partition: some(
                    Owned(is_loading=False, coordinator_epoch=end_load.coordinator_epoch)
                ),
                known[end_load.state_partition]: logged,
            },
            reply=Loaded(is_taken=True),
        ),
        Row(
            "cancelled",
            "The load was cancelled while it went on",
            reply=Loaded(is_taken=False),
        ),
    ),
)

# Requests ---------------------------------------------------------------------------------------

Request = enum("Request", "INIT_PRODUCER_ID", "OTHER", "DESCRIBE")
Id = enum("TransactionalId", "NONE", "EMPTY", "GIVEN")
Step = enum(
    "Step",
    "ANSWER",
    "PRODUCER_ID_ALONE",
    "NEW_ENTRY",
    "GO_ON",
    "ILLEGAL_ARGUMENT",
)
LookupResponse = message("LookupResponse", caller, error=Errors, step=Step, timeout_ms=GIVEN_MS)
lookup = event(
    "look up",
    request=Request,
    transactional_id=Id,
    state_partition=STATE_PARTITION,
    timeout_ms=GIVEN_MS,
    expects_id=Bool(),
    expects_epoch=Bool(),
    enable_2pc=Bool(),
    keep_prepared_txn=Bool(),
    is_known=Bool(),
    is_dead=Bool(),
    event_doc="At the timeout the state is the one that InitProducerId reports.",
)

is_init = lookup.request == Request.INIT_PRODUCER_ID
is_describe = lookup.request == Request.DESCRIBE
enables_2pc = two_phase_commit & is_init & lookup.enable_2pc
timeout_ms = if_(enables_2pc, LARGEST_TIMEOUT, lookup.timeout_ms)
"""A transaction of two-phase commit has no timeout."""
home_partition = owned[lookup.state_partition]
looked_up = Table(
    coordinator,
    on=lookup,
    response=LookupResponse,
    rows=(
        Row(
            "id-without-epoch",
            "InitProducerId names a producer id or an epoch, but not both",
            when=is_init & (lookup.expects_id != lookup.expects_epoch),
            during=expected_epoch,
            reply=LookupResponse(
                error=Errors.INVALID_REQUEST, step=Step.ANSWER, timeout_ms=lookup.timeout_ms
            ),
            source="KafkaApis.handleInitProducerIdRequest",
        ),
        Row(
            "no-transactional-id",
            "InitProducerId of an idempotent producer: a producer id is all that it gets",
            when=is_init & (lookup.transactional_id == Id.NONE),
            reply=LookupResponse(
                error=Errors.NONE, step=Step.PRODUCER_ID_ALONE, timeout_ms=lookup.timeout_ms
            ),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "describe-null-id",
            "DescribeTransactions of no transactional id is an exception",
            when=is_describe & (lookup.transactional_id == Id.NONE),
            reply=LookupResponse(
                error=Errors.INVALID_REQUEST,
                step=Step.ILLEGAL_ARGUMENT,
                timeout_ms=lookup.timeout_ms,
            ),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "empty-transactional-id",
            "The transactional id is empty or missing",
            when=lookup.transactional_id != Id.GIVEN,
            reply=LookupResponse(
                error=Errors.INVALID_REQUEST, step=Step.ANSWER, timeout_ms=lookup.timeout_ms
            ),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "two-phase-commit-disabled",
            "Two-phase commit is asked for, but the broker doesn't enable it",
            when=enables_2pc & (TWO_PHASE_ENABLED == 0),
            during=two_phase_commit,
            reply=LookupResponse(
                error=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                step=Step.ANSWER,
                timeout_ms=lookup.timeout_ms,
            ),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "keep-prepared-unsupported",
            "A prepared transaction can't be kept yet",
            when=is_init & lookup.keep_prepared_txn,
            during=two_phase_commit,
            reply=LookupResponse(
                error=Errors.UNSUPPORTED_VERSION, step=Step.ANSWER, timeout_ms=lookup.timeout_ms
            ),
            source="KIP-939, TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "invalid-timeout",
            "The timeout is out of range",
            when=is_init
            & ~enables_2pc
            & ~((lookup.timeout_ms > 0) & (lookup.timeout_ms <= MAX_TIMEOUT)),
            reply=LookupResponse(
                error=Errors.INVALID_TRANSACTION_TIMEOUT,
                step=Step.ANSWER,
                timeout_ms=lookup.timeout_ms,
            ),
            source="TransactionStateManager.validateTransactionTimeoutMs",
        ),
        Row(
            "loading",
            "The broker loads the partition of the id",
            when=home_partition.is_set & home_partition.value.is_loading,
            reply=LookupResponse(
                error=Errors.COORDINATOR_LOAD_IN_PROGRESS,
                step=Step.ANSWER,
                timeout_ms=lookup.timeout_ms,
            ),
            source="TransactionStateManager.getAndMaybeAddTransactionState",
        ),
        Row(
            "not-coordinator",
            "The broker doesn't lead the partition of the id",
            when=~home_partition.is_set,
            reply=LookupResponse(
                error=Errors.NOT_COORDINATOR, step=Step.ANSWER, timeout_ms=lookup.timeout_ms
            ),
            source="TransactionStateManager.getAndMaybeAddTransactionState",
        ),
        Row(
            "new-entry",
            "InitProducerId of an unknown id makes an entry",
            when=is_init & ~lookup.is_known,
            set={known[lookup.state_partition]: some(home_partition.value.coordinator_epoch)},
            reply=LookupResponse(error=Errors.NONE, step=Step.NEW_ENTRY, timeout_ms=timeout_ms),
            source="TransactionCoordinator.handleInitProducerId",
        ),
        Row(
            "describe-unknown-id",
            "DescribeTransactions of an unknown id",
            when=is_describe & (~lookup.is_known | lookup.is_dead),
            reply=LookupResponse(
                error=Errors.TRANSACTIONAL_ID_NOT_FOUND,
                step=Step.ANSWER,
                timeout_ms=lookup.timeout_ms,
            ),
            source="TransactionCoordinator.handleDescribeTransactions",
        ),
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=~lookup.is_known,
            reply=LookupResponse(
                error=Errors.INVALID_PRODUCER_ID_MAPPING,
                step=Step.ANSWER,
                timeout_ms=lookup.timeout_ms,
            ),
            source="TransactionCoordinator.handleAddPartitionsToTransaction, endTransaction",
        ),
        Row(
            "known",
            "The entry is known, and takes the request",
            reply=LookupResponse(error=Errors.NONE, step=Step.GO_ON, timeout_ms=timeout_ms),
            source="TransactionStateManager.getAndMaybeAddTransactionState",
        ),
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
"""The client's error for an error of the log. Other errors are unchanged.

TransactionStateManager.appendTransactionToLog
"""

append_entry = event("entry appended", state_partition=STATE_PARTITION)
made_entry = known[append_entry.state_partition]
led_partition = owned[append_entry.state_partition]
entry_appended = Table(
    coordinator,
    on=append_entry,
    others=(cluster,),
    when=made_entry.is_set & led_partition.is_set & (logged != made_entry),
    doc="The record of a new entry. The log takes it under the newest leader epoch alone.",
    source="TransactionStateManager.appendTransactionToLog",
    rows=(
        Row(
            "appended",
            "The record is in the log",
            when=led_partition.value.coordinator_epoch == size(leaders) - 1,
            set={logged: made_entry},
        ),
        Row(
            "not-leader",
            "Another broker leads the partition: the client gets NOT_COORDINATOR",
            note="The entry stays.",
        ),
    ),
)

COORDINATOR_TABLES = (leader_changed, load_ended, looked_up)
TABLES = (*COORDINATOR_TABLES, leader_elected, entry_appended)
