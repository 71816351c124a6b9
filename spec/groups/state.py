"""A consumer group that reads one input partition, and instances that process it exactly once.

Each client instance has a consumer, which is a member of the group, and a transactional producer. A
transaction takes one input record, writes one record to the output's partition, and commits the
offset behind its input. The offset goes to a partition of `__consumer_offsets`, whose leader
coordinates the group. It has the tables of any partition leader, and those of `txn_offset_commit`.
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
from ..releases.features import abortable_error

INPUTS = constant("inputs", 2, 1, 8, meaning="records in the input's partition")
GENERATIONS = constant(
    "generations", 2, 1, 8, meaning="generations of the group, one after the other"
)
LEAST_GENERATION = constant(
    "least_generation", 0, -1, 0, real=-(2**31), meaning="that a request can name"
)
LEAST_OFFSET = constant("least_offset", 0, 0, 0, real=-(2**63), meaning="that a request can commit")

OWN_ID = constant(
    "own_id",
    0,
    0,
    1,
    meaning="1: an instance keeps its producer over rebalances, as one with a transactional id of "
    "its own does (with producers=1)",
)

OUTPUT, OFFSETS = lift(0), lift(1)
"""The partitions that a transaction writes to: the output's, and the group's in
`__consumer_offsets`."""
GENERATION = Int(0, GENERATIONS, "generation")  # 0: none so far
NAMED_GENERATION = Int(LEAST_GENERATION, GENERATIONS, "generation")  # below 0: a request names none
INPUT_OFFSET = Int(0, INPUTS, "input offset")
COMMITTED_OFFSET = Int(LEAST_OFFSET, INPUTS, "input offset")  # nobody looks at what it is
INSTANCES = constant("instances", 1, 1, 2, meaning="group instance ids")
INSTANCE = Key("instance", INSTANCES)

# The group's coordinator -------------------------------------------------------------------------

PendingOffset = record("PendingOffset", offset=COMMITTED_OFFSET, appended=Optional(OFFSET))
Heard = enum("Heard", "REPLICATED", "READ", "WHILE_LOADING")
"""How a coordinator learns of a marker: it is replicated, or was read from the log when the
coordinator started, or is replicated during that."""
Completion = record("Completion", producer_id=PRODUCER_ID, result=Result)
Verified = record("Verified", generation=GENERATION, connection=CONNECTION)

group = Machine(
    "group",
    doc="The group, as the leader of its offsets' partition coordinates it. At real ranges there "
    "is one of these for its members, and one for each partition that it has offsets of.",
)
generation = group.field("generation", GENERATION)
members = group.field(
    "members", Set(PRODUCER), doc="Members of this generation; at real ranges by their member ids."
)
owner = group.field("owner", Optional(PRODUCER), doc="The member that has the input's partition.")
committed = group.field(
    "committed", Optional(PendingOffset), doc="The offset, and where in the log it stands."
)
pending = group.field(
    "pending",
    Map(PRODUCER_ID, Optional(PendingOffset)),
    doc="Offsets of transactions that haven't ended, by producer id; `appended` is where they "
    "stand in the log, once they do.",
)
verifying = group.field(
    "verifying",
    Map(PRODUCER, Optional(Verified)),
    doc="Producers whose offset waits for an answer of the transaction's coordinator.",
)
completions = group.field(
    "completions",
    Sequence(Completion, TRANSACTIONS),
    doc="Markers whose offsets a thread has yet to put in place.",
)

# A rebalance takes several requests.
GroupState = enum("GroupState", "EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE")
is_known = group.field(
    "is_known", Bool(), doc="The coordinator has made it, for a request about it."
)
status = group.field("status", GroupState)
leader = group.field("leader", Optional(PRODUCER), doc="The member that assigns the partitions.")
promised = group.field(
    "pending_members",
    Set(PRODUCER),
    doc="Member ids that were handed out, and that nobody has joined with yet.",
)
joined = group.field(
    "awaiting_join",
    Set(PRODUCER),
    doc="Whose JoinGroup waits for the others' in a rebalance.",
)
static = group.field(
    "static_members",
    Map(INSTANCE, Optional(PRODUCER)),
    doc="The member that joined last with an instance id; it counts as long as that is a member.",
)
have_instances = group.field(
    "with_instances", Set(PRODUCER), doc="Member ids that go with an instance id."
)


def has_member(member: Expression) -> Expression:
    """Whether the request names a member, and the group has it (GroupMetadata.has)."""
    return member.is_set & member.value.is_in(members)


def has_static_member(instance: Expression) -> Expression:
    """Whether a member has this instance id (GroupMetadata.hasStaticMember)."""
    holder = static[instance.value]
    return instance.is_set & holder.is_set & holder.value.is_in(members)


def is_static_member_fenced(member: Expression, instance: Expression) -> Expression:
    """Whether another member has this instance id (GroupMetadata.isStaticMemberFenced)."""
    return has_static_member(instance) & (static[instance.value] != member)


n = PRODUCER_ID.variable("n")
is_unstable = any_of(n, pending[n].is_set)
"""Whether a transaction's offset is pending (hasPendingTransactionalOffsets)."""

# An instance -------------------------------------------------------------------------------------

OffsetsState = enum("OffsetsState", "NONE", "COMMITTING", "COMMITTED")
consumer = Machine("consumer", PRODUCER, doc="An instance's consumer, and its poll loop.")
heard = consumer.field("heard", GENERATION, doc="The generation that it knows of.")
is_assigned = consumer.field("is_assigned", Bool(), doc="The input's partition is its own.")
position = consumer.field(
    "position",
    Optional(INPUT_OFFSET),
    doc="The offset of the next record to process, once it is fetched.",
)
offsets = consumer.field(
    "offsets", OffsetsState, doc="The outcome of the offset of its transaction."
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
    "TxnOffsetCommitResponse",
    producer,
    answers=TxnOffsetCommit,
    error=Errors,
    member_error=MemberError,
    connection=CONNECTION,
    message_doc="`member_error` says what is wrong with the member, beside UNKNOWN_SERVER_ERROR: a "
    "bounded run has no other answer for it.",
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
)


def offset_of(txn: Expression) -> Expression:
    """The offset that a transaction commits."""
    return processed.at(txn) + 1
