"""A consumer group that reads one input partition, and instances that process it exactly once.

Each client instance has a consumer, which is a member of the group, and a transactional producer. A
transaction takes one input record, writes one record to the output's partition, and commits the
offset behind its input. The offset goes to a partition of `__consumer_offsets`, whose leader
coordinates the group: so it has the tables of any partition leader, and those of `offsets` besides.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Machine,
    Map,
    Optional,
    Sequence,
    Set,
    any_of,
    constant,
    enum,
    lift,
    message,
    record,
)
from ..errors import Errors
from ..features import abortable_error
from ..messages import (
    CONNECTION,
    EPOCH,
    OFFSET,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    TRANSACTION,
    TRANSACTIONS,
    Result,
    partition,
    producer,
)

INPUTS = constant("inputs", 2, 1, 8, meaning="records in the input's partition")
GENERATIONS = constant(
    "generations", 2, 1, 8, meaning="generations of the group, one after the other"
)

OWN_ID = constant(
    "own_id", 0, 0, 1,
    meaning="1: an instance keeps its producer over rebalances, as one with a transactional id of "
    "its own does (with producers=1)",
)  # fmt: skip

OUTPUT, OFFSETS = lift(0), lift(1)
"""The partitions that a transaction writes to: the output's, and the group's in
`__consumer_offsets`."""
GENERATION = Int(0, GENERATIONS, "generation")  # 0: none so far
INPUT_OFFSET = Int(0, INPUTS, "input offset")

# The group's coordinator -------------------------------------------------------------------------

PendingOffset = record("PendingOffset", offset=INPUT_OFFSET, appended=Optional(OFFSET))
Completion = record("Completion", producer_id=PRODUCER_ID, result=Result)
Verified = record("Verified", generation=GENERATION, connection=CONNECTION)

group = Machine("group", doc="The group, as the leader of its offsets' partition coordinates it.")
generation = group.field("generation", GENERATION)
members = group.field("members", Set(PRODUCER), doc="Of this generation.")
owner = group.field("owner", Optional(PRODUCER), doc="The member that has the input's partition.")
committed = group.field(
    "committed", Optional(PendingOffset), doc="The offset, and where in the log it stands."
)
pending = group.field(
    "pending", Map(PRODUCER_ID, Optional(PendingOffset)),
    doc="Offsets of transactions that haven't ended, by producer id; `appended` is where they "
    "stand in the log, once they do.",
)  # fmt: skip
verifying = group.field(
    "verifying", Map(PRODUCER, Optional(Verified)),
    doc="Of whose offset the transaction's coordinator is being asked.",
)  # fmt: skip
completions = group.field(
    "completions", Sequence(Completion, TRANSACTIONS),
    doc="Markers whose offsets a thread has yet to put in place.",
)  # fmt: skip

n = PRODUCER_ID.variable("n")
is_unstable = any_of(n, pending[n].is_set)
"""Whether a transaction's offset is pending (hasPendingTransactionalOffsets)."""

# An instance -------------------------------------------------------------------------------------

OffsetsState = enum("OffsetsState", "NONE", "COMMITTING", "COMMITTED")
consumer = Machine("consumer", PRODUCER, doc="An instance's consumer, and its poll loop.")
heard = consumer.field("heard", GENERATION, doc="The generation that it knows of.")
is_assigned = consumer.field("is_assigned", Bool(), doc="The input's partition is its own.")
position = consumer.field(
    "position", Optional(INPUT_OFFSET), doc="Of the next record to process, once it is fetched."
)
offsets = consumer.field(
    "offsets", OffsetsState, doc="What has become of the offset of its transaction."
)

processing = Machine("processing", TRANSACTION, doc="What a transaction is about.")
processed = processing.field("processed", INPUT_OFFSET, doc="The input that it processes.")
processed_in = processing.field(
    "processed_in", GENERATION, doc="The generation that its instance took itself for a member of."
)

TxnOffsetCommit = message(
    "TxnOffsetCommit", partition, producer=PRODUCER, partition=PARTITION, connection=CONNECTION,
    producer_id=PRODUCER_ID, producer_epoch=EPOCH, generation=GENERATION, txn=TRANSACTION,
    carried=("producer_id", "txn"),
    message_doc="The offset is the one behind the input of `txn`. Before 2.5 it named no "
    "generation.",
)  # fmt: skip
MemberError = enum("MemberError", "NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
TxnOffsetCommitResponse = message(
    "TxnOffsetCommitResponse", producer, answers=TxnOffsetCommit, error=Errors,
    member_error=MemberError, connection=CONNECTION,
    message_doc="What is wrong with the member is told apart, with UNKNOWN_SERVER_ERROR: a bounded "
    "run has no other answer that says so.",
    errors={
        Errors.NONE: True,
        Errors.COORDINATOR_NOT_AVAILABLE: True,
        Errors.NOT_COORDINATOR: True,
        Errors.COORDINATOR_LOAD_IN_PROGRESS: True,
        Errors.CONCURRENT_TRANSACTIONS: True,
        Errors.INVALID_PRODUCER_ID_MAPPING: True,
        Errors.INVALID_PRODUCER_EPOCH: True,
        Errors.INVALID_TXN_STATE: True,
        Errors.TRANSACTION_ABORTABLE: abortable_error,
        Errors.UNKNOWN_SERVER_ERROR: True,
    },
)  # fmt: skip


def offset_of(txn: Expression) -> Expression:
    """The offset that a transaction commits."""
    return processed.at(txn) + 1
