"""Kafka's transaction requests and responses, and the machines that exchange them.

A producer's request to the coordinator carries the number of its connection. A producer that gives
up waiting opens a new connection. The coordinator still processes the earlier requests, but their
answers reach nobody, so no such answer is put in flight.
"""

from __future__ import annotations

from ..language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Message,
    Optional,
    Sending,
    Set,
    constant,
    enum,
    if_,
    message,
    record,
    some,
)
from ..language.expressions import Operand
from .errors import Errors
from .releases.features import abortable_error, producer_fenced_error

PRODUCERS = constant(
    "producers", 2, 1, 4, meaning="client instances that share the transactional id"
)
PARTITIONS = constant("partitions", 2, 1, 4, meaning="partitions written to")
TRANSACTIONS = constant("transactions", 2, 1, 8, meaning="transactions that applications begin")
RECORDS = constant(
    "records",
    1,
    1,
    8,
    meaning="records that an application sends to a partition, in each "
    "transaction where there are any",
)
PRODUCER_IDS = constant(
    "producer_ids", 2, 1, 4, real=2**63 - 1, meaning="producer ids that can be handed out"
)
LARGEST_EPOCH = constant(
    "largest_epoch",
    3,
    2,
    32767,
    real=32767,
    meaning="the largest producer epoch, reserved for the coordinator",
)
LARGEST_SEQUENCE = constant(
    "largest_sequence",
    3,
    1,
    1000,
    real=2**31 - 1,
    meaning="the largest sequence number, after which comes 0",
)
CACHED_BATCHES = constant(
    "cached_batches", 1, 1, 5, real=5, meaning="batches that a leader remembers per producer id"
)
FAULTS = constant(
    "faults",
    1,
    0,
    10,
    real=2**31 - 1,
    meaning="faults in a run, of all kinds together; recovery has no bound",
)
LOSSES = constant("losses", 1, 0, 1, real=1, meaning="1: requests, answers and markers may be lost")
CRASHES = constant("crashes", 1, 0, 1, real=1, meaning="1: client instances may crash")
TIMEOUTS = constant("timeouts", 1, 0, 1, real=1, meaning="1: a transaction may time out")
EXPIRIES = constant("expiries", 1, 0, 1, real=1, meaning="1: a batch in flight may expire")
FAILOVERS = constant("failovers", 1, 0, 1, real=1, meaning="1: the coordinator may fail over")
APPEND_FAILURES = constant(
    "append_failures",
    1,
    0,
    1,
    real=1,
    meaning="1: a record may fail to get into the transaction log",
)
ID_EXPIRIES = constant(
    "id_expiries", 1, 0, 1, real=1, meaning="1: an idle transactional id may expire"
)
PRODUCER_EXPIRIES = constant(
    "producer_expiries",
    1,
    0,
    1,
    real=1,
    meaning="1: a leader may forget a producer that has been idle",
)
DELETIONS = constant("deletions", 1, 0, 1, real=1, meaning="1: the head of a log may be deleted")
LEADER_CHANGES = constant(
    "leader_changes", 1, 0, 1, real=1, meaning="1: a partition's leader may change, or restart"
)
IN_FLIGHT = constant(
    "in_flight", 2, 1, 6, real=5, meaning="batches in flight to a partition at a time"
)
DELAYS = constant(
    "delays",
    1,
    0,
    1,
    real=1,
    meaning="1: a request or marker in flight may be overtaken by its retry",
)

SPARE = constant(
    "spare", 1, 1, 8, meaning="entries that a log has room for beyond records and markers"
)

# A bounded run has one time.
NO_NUMBER = constant("no_number", 0, 0, 0, real=-1, meaning="stands for no time, or no id so far")
LATEST = constant("latest", 0, 0, 0, real=2**63 - 1, meaning="the latest time, in ms")
LONGEST = constant("longest", 0, 0, 0, real=2**31 - 1, meaning="the longest timeout, in ms")
TIMESTAMP = Int(NO_NUMBER, LATEST, "timestamp")
TIMEOUT_MS = Int(0, LONGEST, "timeout")
NO_TIMESTAMP = NO_NUMBER

PRODUCER = Key("producer", PRODUCERS, "producer {letter}")
PARTITION = Key("partition", PARTITIONS)
TRANSACTION = Key("txn", TRANSACTIONS, "transaction {number}")
RECORD = Key("record", RECORDS)
PRODUCER_ID = Key("producer_id", PRODUCER_IDS)

NO_EPOCH = -1  # there is no producer id either
EPOCH = Int(NO_EPOCH, LARGEST_EPOCH, "epoch")
SEQUENCE = Int(0, LARGEST_SEQUENCE, "sequence")
LOG_SIZE = TRANSACTIONS * RECORDS + TRANSACTIONS + SPARE
NO_OFFSET = -1
OFFSET = Int(0, LOG_SIZE, "offset")
OPTIONAL_OFFSET = Int(NO_OFFSET, LOG_SIZE, "offset")
ANY_SEQUENCE = Int(NO_NUMBER, LARGEST_SEQUENCE, "sequence")  # a coordinator's batches have none
LARGEST_DELTA = constant(
    "largest_delta", 0, 0, 0, real=2**31 - 1, meaning="the last record of a batch, counted from 0"
)
LARGEST_OFFSET = constant("largest_offset", 0, 0, 0, real=2**63 - 1, meaning="the largest offset")
ANY_OFFSET = Int(NO_OFFSET, LARGEST_OFFSET, "offset")
OFFSET_DELTA = Int(0, LARGEST_DELTA, "offset delta")
CONNECTION = Int(0, FAULTS, "connection")
COORDINATOR_EPOCH = Int(0, FAULTS, "coordinator epoch")

moved = (
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)
Result = enum("TransactionResult", ABORT=0, COMMIT=1)

# The errors of a response, each with the features of its release. The comments in Kafka's response
# classes list most. Handlers answer with more: CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE,
# UNKNOWN_SERVER_ERROR, and for InitProducerId INVALID_PRODUCER_ID_MAPPING and INVALID_TXN_STATE.
COORDINATOR_ERRORS = {
    Errors.NONE: True,
    Errors.NOT_COORDINATOR: True,
    Errors.COORDINATOR_NOT_AVAILABLE: True,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: True,
    Errors.CONCURRENT_TRANSACTIONS: True,
    Errors.INVALID_PRODUCER_ID_MAPPING: True,
    Errors.INVALID_PRODUCER_EPOCH: True,
    Errors.PRODUCER_FENCED: producer_fenced_error,
    Errors.INVALID_TXN_STATE: True,
    Errors.TRANSACTION_ABORTABLE: abortable_error,
    Errors.UNKNOWN_SERVER_ERROR: True,
}
PRODUCE_ERRORS = {
    Errors.NONE: True,
    Errors.NOT_LEADER_OR_FOLLOWER: True,
    Errors.NOT_ENOUGH_REPLICAS: True,
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER: True,
    Errors.INVALID_PRODUCER_EPOCH: True,
    Errors.UNKNOWN_PRODUCER_ID: True,
    Errors.INVALID_PRODUCER_ID_MAPPING: True,
    Errors.INVALID_TXN_STATE: True,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: True,
    Errors.COORDINATOR_NOT_AVAILABLE: True,
    Errors.CONCURRENT_TRANSACTIONS: True,
    Errors.TRANSACTION_ABORTABLE: abortable_error,
    Errors.UNKNOWN_SERVER_ERROR: True,
}
MARKER_ERRORS = {
    Errors.NONE: True,
    Errors.NOT_LEADER_OR_FOLLOWER: True,
    Errors.NOT_ENOUGH_REPLICAS: True,
    Errors.INVALID_PRODUCER_EPOCH: True,
    Errors.TRANSACTION_COORDINATOR_FENCED: True,
    Errors.UNKNOWN_SERVER_ERROR: True,
}

transaction = Machine(
    "transaction",
    doc="The coordinator's entry for the transactional id.",
    title="Transaction coordinator",
)
partition = Machine(
    "partition",
    PARTITION,
    doc="A partition leader: its log and producer state.",
    title="Leader of {}",
)
producer = Machine(
    "producer",
    PRODUCER,
    doc="A client instance: its TransactionManager, its Sender and its accumulator's queues.",
)

clock = Machine("clock", doc="The time, as a machine reads it.")
now = clock.field("now", TIMESTAMP)


def is_past(deadline: Expression) -> Expression:
    """Whether the deadline has passed."""
    return deadline < now


producer_id_manager = Machine(
    "producer_id_manager", doc="The coordinator's source of producer ids, as far as it sees it."
)
offered_id = producer_id_manager.field(
    "offered_id",
    Optional(Int(0, PRODUCER_IDS - 1)),
    if_(PRODUCER_IDS > 1, some(1), None),
    doc="The answer of generateProducerId; none if there is no id. A transactional id has got 0.",
)

connection = producer.field(
    "connection", CONNECTION, doc="The number of its open connection to the coordinator."
)

# A producer and the coordinator ----------------------------------------------------------------

InitProducerId = message(
    "InitProducerId",
    transaction,
    producer=PRODUCER,
    connection=CONNECTION,
    expected_id=PRODUCER_ID,
    expected_epoch=EPOCH,
    transaction_timeout_ms=TIMEOUT_MS,
    carried=("expected_id",),
)
InitProducerIdResponse = message(
    "InitProducerIdResponse",
    producer,
    answers=InitProducerId,
    error=Errors,
    connection=CONNECTION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    carried=("producer_id",),
    errors=COORDINATOR_ERRORS,
)
AddPartitionsToTxn = message(
    "AddPartitionsToTxn",
    transaction,
    producer=PRODUCER,
    partition=PARTITION,
    connection=CONNECTION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    partitions=Set(PARTITION),
    client_transaction_version=Int(0, 2),
    carried=("producer_id",),
    message_doc="In a bounded run it is about one partition.",
)
AddPartitionsToTxnResponse = message(
    "AddPartitionsToTxnResponse",
    producer,
    answers=AddPartitionsToTxn,
    error=Errors,
    connection=CONNECTION,
    errors=COORDINATOR_ERRORS,
)
EndTxn = message(
    "EndTxn",
    transaction,
    producer=PRODUCER,
    connection=CONNECTION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    result=Result,
    carried=("producer_id",),
)
EndTxnResponse = message(
    "EndTxnResponse",
    producer,
    answers=EndTxn,
    error=Errors,
    connection=CONNECTION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    carried=("producer_id",),
    errors=COORDINATOR_ERRORS,
)

# A producer and a leader -----------------------------------------------------------------------

Produce = message(
    "Produce",
    partition,
    producer=PRODUCER,
    partition=PARTITION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=ANY_SEQUENCE,
    idempotent_only=Bool(),
    record=RECORD,
    txn=TRANSACTION,
    last_sequence=ANY_SEQUENCE,
    offset_delta=OFFSET_DELTA,
    timestamp=TIMESTAMP,
    from_client=Bool(),
    from_coordinator=Bool(),
    beneath_log=Bool(),
    carried=("producer_id", "record", "txn"),
    message_doc="A batch of one record, so that its base sequence is its last. It is transactional "
    "unless it comes from a client without transactional id, which is idempotent only. At real "
    "ranges a group's coordinator or a follower's fetcher may append it as well, and it may come "
    "beneath UnifiedLog, to the producer state alone.",
)
ProduceResponse = message(
    "ProduceResponse",
    producer,
    answers=Produce,
    error=Errors,
    record=RECORD,
    txn=TRANSACTION,
    base_offset=OPTIONAL_OFFSET,
    log_start_offset=OPTIONAL_OFFSET,
    carried=("record", "txn"),
    errors=PRODUCE_ERRORS,
)

# A leader and the coordinator ------------------------------------------------------------------

AddPartitionsByLeader = message(
    "AddPartitionsByLeader",
    transaction,
    message_title="AddPartitionsToTxn v4",
    partition=PARTITION,
    producer=PRODUCER,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    carried=("producer_id",),
    message_doc="AddPartitionsToTxn version 4 and above, which a leader sends for a Produce: with "
    "transaction version 2 to add the partition, before it only to verify that it was added.",
)
AddPartitionsByLeaderResponse = message(
    "AddPartitionsByLeaderResponse",
    partition,
    message_title="AddPartitionsToTxn v4 response",
    answers=AddPartitionsByLeader,
    error=Errors,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=ANY_SEQUENCE,
    last_sequence=ANY_SEQUENCE,
    guarded=Bool(),
    offset_delta=OFFSET_DELTA,
    timestamp=TIMESTAMP,
    from_client=Bool(),
    carried=("producer_id",),
    errors=COORDINATOR_ERRORS,
    message_doc="At real ranges with the batch that it is about, which the broker keeps itself.",
)
Batch = record(
    "Batch",
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=ANY_SEQUENCE,
    record=RECORD,
    txn=TRANSACTION,
    guarded=Bool(),
)
waiting = partition.field(
    "waiting",
    Map(PRODUCER, Optional(Batch)),
    doc="Batches that wait for the coordinator; `guarded` while their question still counts.",
)
WriteTxnMarkers = message(
    "WriteTxnMarkers",
    partition,
    partition=PARTITION,
    connection=CONNECTION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    result=Result,
    coordinator_epoch=Int(NO_NUMBER, FAULTS, "coordinator epoch"),
    timestamp=TIMESTAMP,
    is_replicated=Bool(),
    carried=("producer_id",),
)
WriteTxnMarkersResponse = message(
    "WriteTxnMarkersResponse",
    transaction,
    answers=WriteTxnMarkers,
    error=Errors,
    connection=CONNECTION,
    errors=MARKER_ERRORS,
)


def answer_on(
    open_connection: Expression, response: Message, asked_on: Expression, **fields: Operand
) -> Sending:
    """The response, if the connection that the request came on is still open."""
    return Sending(
        response,
        response(connection=asked_on, **fields).fields,
        when=open_connection == asked_on,
    )
