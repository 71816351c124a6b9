"""A client: its state, its sequences, its batches, and its part in a transaction.

It is Kafka's TransactionManager with its TxnPartitionMap and the accumulator's queues. A client
either has a transactional id or is idempotent only (`transactional`); a field of one kind alone
keeps its first value in the other.

In a bounded run a batch holds one record, and is known by it. At real ranges it holds many, and is
known by a number within its partition that no batch before it had; its records are the caller's to
keep.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Map,
    Optional,
    Set,
    any_of,
    constant,
    each,
    enum,
    if_,
    lift,
    maximum,
    record,
    replace,
    size,
    some,
    sum_of,
)
from ...language.expressions import Operand
from ..errors import Errors
from ..messages import (
    EPOCH,
    LARGEST_SEQUENCE,
    NO_EPOCH,
    OPTIONAL_OFFSET,
    PARTITION,
    PRODUCER_ID,
    RECORD,
    SEQUENCE,
    TIMESTAMP,
    TRANSACTION,
    producer,
)
from ..releases.features import (
    client_epoch_bump,
    epoch_by_partition,
    stale_epoch_abortable,
    transactional,
    unknown_id_fatal,
)
from .transactions import queue as queue  # its fields of the client come first

FIRST_EPOCH = constant(
    "first_epoch", 2, 0, 1000, real=NO_EPOCH,
    meaning="the producer epoch that the client has come to at the start; none, a client that is "
    "not initialized",
)  # fmt: skip

State = enum(
    "State",
    "UNINITIALIZED",
    "INITIALIZING",
    "READY",
    "IN_TRANSACTION",
    "COMMITTING_TRANSACTION",
    "ABORTING_TRANSACTION",
    "ABORTABLE_ERROR",
    "FATAL_ERROR",
)
UNINITIALIZED, INITIALIZING, READY = State.UNINITIALIZED, State.INITIALIZING, State.READY
IN_TRANSACTION, FATAL_ERROR = State.IN_TRANSACTION, State.FATAL_ERROR
COMMITTING, ABORTING = State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION
ABORTABLE_ERROR = State.ABORTABLE_ERROR

COUNT = Int(0, 2**31 - 1, "count")

Status = enum("BatchStatus", "UNSENT", "SENT", "QUEUED", "ACKNOWLEDGED", "FAILED")
UNSENT, SENT, QUEUED = Status.UNSENT, Status.SENT, Status.QUEUED
ACKNOWLEDGED, FAILED = Status.ACKNOWLEDGED, Status.FAILED
Batch = record(
    "ProducerBatch", status=Status, producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    base_sequence=SEQUENCE, in_retry=Bool(), sequence_reset=Bool(), unanswered=Bool(),
)  # fmt: skip
BatchDetails = record(
    "BatchDetails", count=COUNT, place=COUNT, is_untracked=Bool(), attempts=COUNT,
    created_ms=TIMESTAMP, last_attempt_ms=TIMESTAMP, backoff_ms=COUNT, is_full=Bool(),
    is_given_up=Bool(),
)  # fmt: skip
Entry = enum("TxnPartitionEntry", "KEPT", "ABSENT", "NEW")
KEPT, ABSENT, NEW = Entry.KEPT, Entry.ABSENT, Entry.NEW
NO_SEQUENCE = -1
NO_ID = 0  # which one doesn't matter without an epoch

state = producer.state_field("state", State, if_(FIRST_EPOCH == NO_EPOCH, UNINITIALIZED, READY))
producer_id = producer.field("producer_id", PRODUCER_ID)
producer_epoch = producer.field(
    "producer_epoch",
    EPOCH,
    FIRST_EPOCH,
    doc="The epoch of the whole client. Without one it has no producer id.",
)
batches = producer.field(
    "batches", Map(PARTITION, Map(RECORD, Batch)),
    doc="The application's records, of the transaction if there are any: sent, queued again, or "
    "what was reported to the application.",
)  # fmt: skip
q, s = PARTITION.variable("q"), RECORD.variable("s")
any_batch = batches[q][s]
details = producer.field(
    "details", Map(PARTITION, Map(RECORD, BatchDetails)),
    doc="A batch: `count` records (none: there is no such batch), `place` in the order in which "
    "batches were opened; `is_untracked` once the partition's sequences have been forgotten; "
    "`is_given_up`, and still among those in flight until its leader acknowledges it.",
)  # fmt: skip
next_sequence = producer.field("next_sequence", Map(PARTITION, SEQUENCE))
last_acked = producer.field(
    "last_acked", Map(PARTITION, Int(NO_SEQUENCE, LARGEST_SEQUENCE)), doc="The largest one."
)
last_acked_offset = producer.field(
    "last_acked_offset", Map(PARTITION, OPTIONAL_OFFSET), doc="The largest one."
)
unresolved = producer.field(
    "unresolved", Map(PARTITION, Optional(Int(0, LARGEST_SEQUENCE + 1))),
    doc="The sequence behind a batch that expired after it had been sent: was it appended?",
)  # fmt: skip

entry = producer.field(
    "entry", Map(PARTITION, Entry),
    doc="ABSENT: the sequences are forgotten, while a leader may still answer a batch. NEW: there "
    "is an entry again, and no batch in it yet.",
)  # fmt: skip
entry_id = producer.field("entry_id", Map(PARTITION, PRODUCER_ID))
entry_epoch = producer.field(
    "entry_epoch", Map(PARTITION, EPOCH), doc="With entry_id: what the partition's sequences count."
)

# Without transactional id
bump_for = producer.field(
    "bump_for", Set(PARTITION), doc="Whose batches need a new epoch and new sequences."
)

# With a transactional id
txn = producer.field("txn", Optional(TRANSACTION), doc="The application's transaction.")
adding = producer.field("adding", Set(PARTITION), doc="Asked to be added; at most one at a time.")
added = producer.field("added", Set(PARTITION), doc="In the transaction, as far as is known.")
ending = producer.field(
    "ending", Bool(), doc="EndTxn waits until the outcome of every batch is reported."
)
must_bump = producer.field("must_bump", Bool(), doc="A new epoch is needed after the abort.")
bump_asked = producer.field(
    "bump_asked", Bool(), doc="InitProducerId for a new epoch waits behind EndTxn, or is sent."
)


def is_open(batch: Expression) -> Expression:
    """Whether the application waits to hear of the batch."""
    return batch.status.is_in(SENT, QUEUED)


def is_of_this_id(batch: Expression) -> Expression:
    """Whether the batch counts for the client's producer id; before 2.5 an idempotent client forgot
    those of an id before."""
    same = (state == READY) & (batch.producer_id == producer_id)
    return transactional | client_epoch_bump | same


def tracked(where: Expression, which: Expression) -> Expression:
    """Whether a batch is in the partition's set of batches in flight; a new producer id used to
    empty the set."""
    batch = batches[where][which]
    return is_open(batch) & ~details[where][which].is_untracked & is_of_this_id(batch)


def lower(where: Expression, which: Expression) -> Expression:
    """How many records in flight to a partition have lower sequences than a batch."""
    other = RECORD.variable("lower")
    before = batches[where][other].base_sequence < batches[where][which].base_sequence
    return sum_of(other, if_(tracked(where, other) & before, details[where][other].count, 0))


def has_tracked(where: Expression) -> Expression:
    """TransactionManager.hasInflightBatches"""
    return any_of(s, tracked(where, s) | details[where][s].is_given_up)


def given_up_details() -> Expression:
    """The details of all batches once they are given up without transactional id: none of those in
    flight is taken out of its partition's set.

    Sender.maybeAbortBatches
    """
    stays = is_open(any_batch) & ~transactional
    return each(q, each(s, if_(stays, replace(details[q][s], is_given_up=True), details[q][s])))


def created(where: Expression) -> Expression:
    """A partition's entry, which is made if there is none: TxnPartitionMap.getOrCreate."""
    return if_(entry[where] == ABSENT, NEW, entry[where])


def reset_entries(bumps: Operand) -> Expression:
    """The entries under a new id or epoch: a new epoch removes them, a client that is initialized
    again keeps them until the next batch. Nobody misses one if no leader has a batch to answer.

    TransactionManager.resetSequenceNumbers
    """
    is_awaited = any_of(s, details[q][s].count > 0)
    return each(q, if_(is_awaited, if_(lift(bumps) | (entry[q] == ABSENT), ABSENT, NEW), KEPT))


def looked_up(where: Expression) -> Expression:
    """A partition's entry once its batches in flight have been looked for: from 2.7.1 on there is
    one then.

    TransactionManager.hasInflightBatches
    """
    return if_(epoch_by_partition, created(where), entry[where])


def is_completing(state: Expression) -> Expression:
    """Whether the client ends a transaction.

    TransactionManager.isCompleting
    """
    return state.is_in(COMMITTING, ABORTING)


def fences(error: Expression) -> Expression:
    """Whether a leader's error means that the client can never go on.

    TransactionManager.maybeTransitionToErrorState, KIP-588, KAFKA-18019
    """
    return (
        (error == Errors.PRODUCER_FENCED)
        | (~stale_epoch_abortable & (error == Errors.INVALID_PRODUCER_EPOCH))
        | (unknown_id_fatal & (error == Errors.INVALID_PRODUCER_ID_MAPPING))
    )


def is_behind_another(
    mark: Expression, sequence_reset: Expression, sequence: Expression, acked: Expression
) -> Expression:
    """Whether a batch that is out of order only waits for another one to be appended. `mark` is the
    partition's unresolved sequence, `acked` the last one acknowledged.

    TransactionManager.canRetry
    """
    return ~mark.is_set & (sequence_reset | ~(sequence == acked + 1))


def loses_order(mark: Expression, sequence: Expression) -> Expression:
    """Whether a batch that is out of order and waits for none asks for a new epoch: with a sequence
    unresolved only the one right behind it does.

    TransactionManager.canRetry
    """
    return ~mark.is_set | (mark == sequence)


def marked(mark: Expression, behind: Expression) -> Expression:
    """The unresolved sequence once another batch has expired, `behind` which it is.

    TransactionManager.markSequenceUnresolved
    """
    return some(if_(mark.is_set, maximum(mark.value, behind), behind))


def all_appended(following: Expression, acked: Expression) -> Expression:
    """Whether what was sent last is what was acknowledged last: what expired was appended, too.

    TransactionManager.isNextSequence
    """
    return following - acked == 1


def bumps_after_abort(
    can_bump: Expression, adds_implicitly: Expression, state: Expression
) -> Expression:
    """Whether after an abortable error the client needs a new epoch once it has aborted. With
    implicitly added partitions every end brings one, and an end in progress is past that.

    TransactionManager.maybeTransitionToErrorState
    """
    return can_bump & ~adds_implicitly & ~is_completing(state)


def unless_aborting(state: Expression, to: Expression) -> Expression:
    """The state after an abortable error: an abort in progress goes on.

    TransactionManager.transitionToAbortableError
    """
    return if_(state == ABORTING, ABORTING, to)


settled = ~any_of(q, unresolved[q].is_set | any_of(s, is_open(any_batch)))
started = (size(added) > 0) | any_of(q, any_of(s, any_batch.status != UNSENT))
waits_for_id = (state == INITIALIZING) | (is_completing(state) & ~txn.is_set & bump_asked)
"""Whether InitProducerId is in flight: also where the end before it hasn't changed the state."""
can_only_close = ~bump_asked & if_(
    state == INITIALIZING, producer_epoch != NO_EPOCH, (state == ABORTING) & ~txn.is_set
)
"""Whether nothing follows: an abort has failed, or nobody asks for the epoch that is needed."""

NO_BATCHES = each(q, each(s, Batch()))
"""The batches of a transaction that is over. At real ranges whoever waits for them keeps them."""
forgotten_batches = each(
    q,
    each(
        s,
        if_(
            transactional,
            Batch(),
            if_(any_batch.status == ACKNOWLEDGED, any_batch, Batch(status=FAILED)),
        ),
    ),
)
"""The batches of a client in FATAL_ERROR, in a bounded run: nothing is sent any more, and the
batches in flight have failed."""
