"""A client's queues of batches: Kafka's RecordAccumulator.

They decide whether a record is accepted, which batch is sent next, and with which sequence.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Expression,
    Row,
    Sending,
    Set,
    Table,
    all_of,
    any_of,
    any_true,
    constant,
    count_of,
    event,
    if_,
    lift,
    replace,
    set_of,
    some,
    wrap,
)
from ....language.expressions import Operand
from ...errors import Errors
from ...messages import (
    IN_FLIGHT,
    PARTITION,
    RECORD,
    SEQUENCE,
    Produce,
    clock,
    now,
    producer,
)
from ...releases.features import (
    client_epoch_bump,
    epoch_by_partition,
    several_in_flight,
    transactional,
)
from .. import state as client
from ..state import s
from ..transactions.transaction_manager import API_VERSION, completing, has_id, is_closed

LINGER = constant("linger_ms", 0, 0, 0, real=0, meaning="linger.ms")
WITH_PRODUCER_ID = 3  # the first version of Produce whose batches have a producer id

muted = producer.field(
    "muted",
    Set(PARTITION),
    doc="Partitions with a batch in flight, if the order is kept.",
)
keeps_order = producer.field(
    "keeps_order",
    Bool(),
    doc="A partition has one batch in flight at a time: max.in.flight.requests.per.connection is "
    "1.",
)
produce_version = producer.field(
    "produce_version", API_VERSION, doc="The highest version of Produce."
)
hurries = producer.field(
    "hurries",
    Bool(),
    doc="Batches don't wait for more records: `flush` waits for them, or a send waits for memory.",
)

# Appending --------------------------------------------------------------------------------------

append_error = if_(is_closed, some(Errors.KAFKA_EXCEPTION), None)
"""The error that a record is refused with, if any: RecordAccumulator.tryAppend."""
new_batch_error = if_(
    produce_version < WITH_PRODUCER_ID, some(Errors.UNSUPPORTED_VERSION), append_error
)
"""The same for the first record of a batch: RecordAccumulator.recordsBuilder."""

# Draining ---------------------------------------------------------------------------------------

drain = event("drain", partition=PARTITION, record=RECORD)

first = client.batches[drain.partition][drain.record]
details = client.details[drain.partition][drain.record]
other = client.batches[drain.partition][s]
other_details = client.details[drain.partition][s]


def produce(
    partition: Expression, record: Expression, batch: Expression, when: Operand = True
) -> Sending:
    """The request that brings a batch to its leader."""
    # A transactional client has no batch left when it takes a new id or epoch.
    fields = Produce(
        producer=producer.this,
        partition=partition,
        producer_id=if_(transactional, client.producer_id, batch.producer_id),
        producer_epoch=if_(transactional, client.producer_epoch, batch.producer_epoch),
        base_sequence=batch.base_sequence,
        idempotent_only=~transactional,
        record=record,
        txn=if_(transactional, client.txn.value, 0),
    ).fields
    return Sending(Produce, fields, when=lift(when))


def has_stale_producer_id_and_epoch(partition: Expression) -> Expression:
    """Whether a partition's sequences count under an id or an epoch that the client no longer has.
    A transactional client forgets them with its epoch.

    TransactionManager.hasStaleProducerIdAndEpoch
    """
    same = (client.entry_id[partition] == client.producer_id) & (
        client.entry_epoch[partition] == client.producer_epoch
    )
    return client_epoch_bump & ~transactional & ~same


def is_send_to_partition_allowed(partition: Expression) -> Expression:
    """Whether batches may go to a partition.

    TransactionManager.isSendToPartitionAllowed
    """
    is_added = partition.is_in(client.added)
    return (client.state != client.FATAL_ERROR) & (~transactional | is_added)


def numbered(sequence: Operand) -> Expression:
    """A batch as it is sent first, with the client's id and epoch.

    ProducerBatch.setProducerState
    """
    return client.Batch(
        status=client.SENT,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        base_sequence=sequence,
    )


has_sequence = first.status == client.QUEUED
is_unsent = (other.status == client.UNSENT) & (other_details.count > 0)
is_first_of_queue = if_(
    has_sequence,
    all_of(s, (other.status == client.QUEUED).implies(first.base_sequence <= other.base_sequence)),
    (first.status == client.UNSENT)
    & (details.count > 0)
    & ~any_of(
        s,
        (other.status == client.QUEUED) | (is_unsent & (other_details.place < details.place)),
    ),
)
"""RecordAccumulator.insertInSequenceOrder: batches that are sent again stand first."""
waited = now - details.last_attempt_ms
backs_off = (details.attempts > 0) & (waited < details.backoff_ms)
is_ready = any_true(
    has_sequence,
    details.is_full,
    any_of(s, is_unsent & (other_details.place > details.place)),
    waited >= LINGER,
    is_closed,
    completing,
    hurries,
)
"""RecordAccumulator.batchReady"""
has_room = count_of(s, client.is_open(other)) < if_(several_in_flight, IN_FLIGHT, 1)
"""NetworkClient.isReady"""
begins_again = epoch_by_partition & (client.entry[drain.partition] == client.NEW)
"""Whether the partition's entry has no id yet: an answer to an earlier batch doesn't count."""
is_stale = has_stale_producer_id_and_epoch(drain.partition)
in_flight_unfinished = (is_stale & client.has_tracked(drain.partition)) | (
    client.unresolved[drain.partition].is_set
)
is_first_in_flight = ~client.has_tracked(drain.partition) | (
    all_of(
        s,
        client.tracked(drain.partition, s).implies(first.base_sequence <= other.base_sequence),
    )
    & any_of(s, client.tracked(drain.partition, s) & (first.base_sequence == other.base_sequence))
)
should_stop_drain = (
    ~is_send_to_partition_allowed(drain.partition)
    | ~has_id
    | (~has_sequence & in_flight_unfinished)
    | (has_sequence & ~is_first_in_flight)
)
"""RecordAccumulator.shouldStopDrainBatchesForPartition"""
may_be_drained = (
    ~drain.partition.is_in(muted)
    & is_first_of_queue
    & ~backs_off
    & is_ready
    & (has_sequence | has_room)
)
"""Whether a drain finds the batch at its partition."""

drained = Table(
    producer,
    on=drain,
    others=(clock,),
    when=may_be_drained & ~should_stop_drain,
    doc="RecordAccumulator.drainBatchesForOneNode, for the first batch of a partition's queue. A "
    "batch that is sent again goes first, also while a transaction is aborted: the lowest sequence "
    "in flight, and no other.",
    rows=(
        Row(
            "again",
            "The batch is sent again with the same id, epoch and sequence",
            when=has_sequence,
            set={
                first: replace(first, status=client.SENT, sequence_reset=False),
                client.entry[drain.partition]: client.looked_up(drain.partition),
                muted: if_(keeps_order, muted | set_of(drain.partition), muted),
            },
            send=(produce(drain.partition, drain.record, first),),
            source="RecordAccumulator.drainBatchesForOneNode, ProducerBatch.close",
        ),
        Row(
            "new-epoch-mid-sequence",
            "The partition takes the new epoch, and its sequences go on",
            when=is_stale,
            during=client_epoch_bump & ~epoch_by_partition & ~transactional,
            set={
                first: numbered(client.next_sequence[drain.partition]),
                client.next_sequence[drain.partition]: wrap(
                    client.next_sequence[drain.partition] + details.count, SEQUENCE
                ),
                client.entry_id[drain.partition]: client.producer_id,
                client.entry_epoch[drain.partition]: client.producer_epoch,
                muted: if_(keeps_order, muted | set_of(drain.partition), muted),
            },
            send=(
                produce(
                    drain.partition,
                    drain.record,
                    numbered(client.next_sequence[drain.partition]),
                ),
            ),
            source="KAFKA-12152, RecordAccumulator.drainBatchesForOneNode before 2.7.1",
        ),
        Row(
            "new-epoch",
            "The partition takes the new epoch, and its sequences start at 0",
            when=is_stale,
            during=epoch_by_partition & client_epoch_bump & ~transactional,
            set={
                first: numbered(0),
                client.next_sequence[drain.partition]: wrap(lift(0) + details.count, SEQUENCE),
                client.last_acked[drain.partition]: client.NO_SEQUENCE,
                client.entry_id[drain.partition]: client.producer_id,
                client.entry_epoch[drain.partition]: client.producer_epoch,
                muted: if_(keeps_order, muted | set_of(drain.partition), muted),
            },
            send=(produce(drain.partition, drain.record, numbered(0)),),
            source="TransactionManager.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "next-sequence",
            "The batch takes the next sequence",
            set={
                first: numbered(client.next_sequence[drain.partition]),
                client.last_acked[drain.partition]: if_(
                    begins_again, client.NO_SEQUENCE, client.last_acked[drain.partition]
                ),
                client.entry[drain.partition]: client.KEPT,
                client.next_sequence[drain.partition]: wrap(
                    client.next_sequence[drain.partition] + details.count, SEQUENCE
                ),
                muted: if_(keeps_order, muted | set_of(drain.partition), muted),
            },
            send=(
                produce(
                    drain.partition,
                    drain.record,
                    numbered(client.next_sequence[drain.partition]),
                ),
            ),
            source="RecordAccumulator.drainBatchesForOneNode; "
            "TransactionManager.maybeUpdateProducerIdAndEpoch",
        ),
    ),
)
