"""A partition leader: its memory of each producer id, and of its log.

One machine serves bounded runs and runs at real ranges. A bounded run keeps the log itself, a short
sequence with one entry for each batch; an offset is a place in it. At real ranges the broker keeps
the log, and the machine has its end offset. A bounded run has no replication: a record is
replicated as soon as it is appended, so the high watermark is the log's end. At real ranges the
broker moves the high watermark.

A broker that waits for the coordinator keeps the batch with its guard, and has both when the answer
arrives. A bounded run has the batch in `messages.waiting`, and whether its guard still counts.
tests/spec/test_leader_refinement.py takes every event of a small leader on both, and compares.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Map,
    Optional,
    Sequence,
    Set,
    any_of,
    constant,
    each,
    element,
    enum,
    first_of,
    if_,
    last,
    lift,
    maximum,
    minimum,
    record,
    replace,
    size,
    some,
    wrap,
)
from ...language.expressions import Operand
from ..messages import (
    ANY_SEQUENCE,
    CACHED_BATCHES,
    EPOCH,
    FAULTS,
    LARGEST_OFFSET,
    LOG_SIZE,
    NO_NUMBER,
    OFFSET,
    OFFSET_DELTA,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    SEQUENCE,
    TIMESTAMP,
    TRANSACTION,
    now,
    partition,
    waiting,
)
from ..releases.features import (
    ongoing_by_epoch,
    transaction_version_2,
    verification,
)
from ..releases.proposals import newest_question_counts

GUARDS = constant("guards", 0, 0, 0, real=2**63 - 1, meaning="distinct verification guards")
PRODUCER_ID_EXPIRATION = constant(
    "producer_id_expiration_ms", 0, 0, 0, real=86_400_000, meaning="producer.id.expiration.ms"
)

REAL_OFFSET = Int(0, LARGEST_OFFSET, "offset")
GUARD = Int(0, GUARDS, "guard")

Kind = enum("Kind", "DATA", "COMMIT", "ABORT")
LogEntry = record(
    "LogEntry",
    kind=Kind,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    idempotent_only=Bool(),
    record=RECORD,
    txn=Optional(TRANSACTION),
)
BatchMetadata = record(
    "BatchMetadata",
    last_sequence=ANY_SEQUENCE,
    last_offset=OFFSET,
    offset_delta=OFFSET_DELTA,
    timestamp=TIMESTAMP,
)
ProducerStateEntry = record(
    "ProducerStateEntry",
    producer_epoch=EPOCH,
    batch_metadata=Sequence(BatchMetadata, CACHED_BATCHES),
    coordinator_epoch=Int(NO_NUMBER, FAULTS, "coordinator epoch"),
    current_txn_first_offset=Optional(OFFSET),
    last_timestamp=TIMESTAMP,
)
UNKNOWN = ProducerStateEntry()
VerificationStateEntry = record(
    "VerificationStateEntry",
    epoch=EPOCH,
    lowest_sequence=ANY_SEQUENCE,
    verification_guard=GUARD,
    timestamp=TIMESTAMP,
    supports_epoch_bump=Bool(),
)
log = partition.field(
    "log",
    Sequence(LogEntry, LOG_SIZE),
    doc="The appended batches and markers, from offset 0 on.",
)
log_end_offset = partition.field("log_end_offset", OFFSET)
log_start_offset = partition.field(
    "log_start_offset", OFFSET, doc="The records before this offset have been deleted."
)
producers = partition.field(
    "producers",
    Map(PRODUCER_ID, ProducerStateEntry),
    doc="For each producer id: the epoch of its last batch or marker, its last batches in that "
    "epoch, the highest coordinator epoch of its markers, and the start of its open transaction.",
)
verification_states = partition.field(
    "verification_states",
    Map(PRODUCER_ID, Optional(VerificationStateEntry)),
    doc="The batches about which the coordinator is being asked.",
)
guards = partition.field(
    "guards",
    GUARD,
    doc="The number of guards that were created.",
)
verification_enabled = partition.field(
    "verification_enabled",
    Bool(),
    True,
    doc="transaction.partition.verification.enable",
)
orphaned = partition.field(
    "orphaned",
    Set(PRODUCER),
    doc="Clients for which an earlier leader asked: the answer reaches nobody.",
)

c = PRODUCER.variable("c")
n = PRODUCER_ID.variable("n")
e = element("e", log)
start_offset = producers[n].current_txn_first_offset
is_open = any_of(n, start_offset.is_set)
high_watermark = partition.field(
    "high_watermark",
    OFFSET,
    doc="The records below this offset are replicated.",
)
first_unstable_offset = partition.field(
    "first_unstable_offset",
    Optional(OFFSET),
    doc="The start of the first transaction that is open, or whose marker isn't replicated.",
)
last_stable_offset = if_(
    first_unstable_offset.is_set,
    minimum(maximum(first_unstable_offset.value, log_start_offset), high_watermark),
    high_watermark,
)
"""A read_committed reader gets the records below this offset.

UnifiedLog.lastStableOffset, maybeIncrementFirstUnstableOffset
"""

# version 2 adds the partition by asking, with verification or without
asks_coordinator = verification | transaction_version_2
"""Whether a leader asks the coordinator about a transaction's first batch."""
asks_coordinator_now = (verification & verification_enabled) | transaction_version_2
"""The same by its setting: a batch of version 2 is added even if verification is off.

ReplicaManager.maybeSendPartitionsToTransactionCoordinator
"""


def is_idle(timestamp: Expression) -> Expression:
    """Whether producer.id.expiration.ms has passed since then."""
    return now - timestamp >= PRODUCER_ID_EXPIRATION


def has_ongoing_transaction(producer_id: Expression, epoch: Expression) -> Expression:
    """Whether the leader takes a batch of this id and epoch for one of the open transaction
    (UnifiedLog.hasOngoingTransaction)."""
    entry = producers[producer_id]
    same_epoch = ~ongoing_by_epoch | (entry.producer_epoch == epoch)
    return entry.current_txn_first_offset.is_set & same_epoch


def is_empty(entry: Expression) -> Expression:
    """Whether no batch of a producer is remembered (ProducerStateEntry.isEmpty)."""
    return size(entry.batch_metadata) == 0


def next_sequence(entry: Expression) -> Expression:
    """The sequence that follows a producer's last batch (ProducerAppendInfo.inSequence)."""
    newest = last(entry.batch_metadata)
    return if_(newest.is_set, wrap(newest.value.last_sequence + 1, SEQUENCE), 0)


def duplicate_batch(
    entry: Expression, last_sequence: Expression, offset_delta: Operand
) -> Expression:
    """The remembered batch with this last sequence and length, if there is one.

    ProducerStateEntry.batchWithSequenceRange
    """
    cached = element("cached", entry.batch_metadata)
    return first_of(
        cached, (cached.last_sequence == last_sequence) & (cached.offset_delta == offset_delta)
    )


def verification_state_entry(
    producer_id: Expression, epoch: Expression, sequence: Expression
) -> Expression:
    """The entry for a batch about which the coordinator is asked: a new one, or the one that is
    there with this batch in it.

    ProducerStateManager.maybeCreateVerificationStateEntry,
    VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch
    """
    state = verification_states[producer_id]
    entry = state.value
    first = VerificationStateEntry(
        epoch=epoch,
        lowest_sequence=sequence,
        verification_guard=guards,
        timestamp=now,
        supports_epoch_bump=transaction_version_2,
    )
    lowest = if_(
        entry.epoch < epoch,
        sequence,
        if_(
            entry.epoch == epoch,
            minimum(entry.lowest_sequence, sequence),
            entry.lowest_sequence,
        ),
    )
    updated = replace(
        entry,
        lowest_sequence=lowest,
        epoch=maximum(entry.epoch, epoch),
        supports_epoch_bump=if_(
            newest_question_counts & (entry.epoch < epoch),
            transaction_version_2,
            entry.supports_epoch_bump,
        ),
    )
    return if_(state.is_set, updated, first)


def unguarded(producer_id: Expression, unless: Operand = False) -> Expression:
    """The waiting batches when the questions about a producer id no longer count.

    `unless` is about the waiting batch of client `c`.
    """
    batch = waiting[c]
    concerned = batch.is_set & (batch.value.producer_id == producer_id) & ~lift(unless)
    return each(c, if_(concerned, some(replace(batch.value, guarded=False)), batch))
