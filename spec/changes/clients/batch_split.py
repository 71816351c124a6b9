"""A batch of two records that is too large for its leader, and goes again in parts.

The first two records of a partition are one batch until it is split. Each part is one record, as
every other batch of `idempotence` is. The whole batch is the first of its producer id at a leader.
"""

from __future__ import annotations

import dataclasses

from ....language import (
    Bool,
    Change,
    Channel,
    Expression,
    Map,
    Moved,
    Optional,
    Row,
    Sending,
    System,
    Table,
    Unreached,
    append,
    constant,
    enum,
    event,
    in_transit,
    lost,
    message,
    position,
    replace,
    sequence_of,
    some,
)
from ...client import state as client
from ...client.batches import accumulator
from ...leader import idempotent
from ...leader import state as leader
from ...leader.state import BatchMetadata, Kind, LogEntry, ProducerStateEntry, duplicate_batch
from ...messages import (
    DELETIONS,
    EPOCH,
    EXPIRIES,
    NO_TIMESTAMP,
    OFFSET,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    SEQUENCE,
    Errors,
    Produce,
    partition,
    producer,
)
from ...releases.features import client_epoch_bump, epoch_by_partition

LIMIT_CHANGES = constant(
    "limit_changes", 1, 0, 1,
    meaning="1: max.message.bytes may be lowered after the batch was appended",
)  # fmt: skip
FIRST, SECOND = 0, 1
COUNT = 2

Answer = enum("AnswerToBatch", "NONE", "MESSAGE_TOO_LARGE")
ProduceWhole = message(
    "ProduceWhole",
    partition,
    producer=PRODUCER,
    partition=PARTITION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=SEQUENCE,
    message_doc="A batch of two records.",
)
ProduceWholeResponse = message(
    "ProduceWholeResponse", producer, producer=PRODUCER, partition=PARTITION, answer=Answer
)

# The client -------------------------------------------------------------------------------------

client_machine = producer.copy()
in_flight_whole = client_machine.field(
    "in_flight_whole", Map(PARTITION, Bool()), doc="The batch of two records is in flight."
)
drain_whole = event("drain whole", partition=PARTITION)
drained_first = client.batches[drain_whole.partition][FIRST]
drained_second = client.batches[drain_whole.partition][SECOND]


def whole(where: Expression, batch: Expression) -> Sending:
    """The request that brings the whole batch to its leader."""
    return ProduceWhole(
        producer=producer.this,
        partition=where,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


drains_whole = Table(
    client_machine,
    on=drain_whole,
    when=(client.state == client.READY)
    & (drained_first.status == client.UNSENT)
    & ~in_flight_whole[drain_whole.partition],
    doc="RecordAccumulator.drainBatchesForOneNode, for the batch of two records.",
    rows=(
        Row(
            "new-epoch",
            "The batch takes the first two sequences of the epoch",
            during=epoch_by_partition & client_epoch_bump,
            set={
                drained_first: accumulator.numbered(0),
                drained_second: accumulator.numbered(1),
                client.next_sequence[drain_whole.partition]: COUNT,
                client.last_acked[drain_whole.partition]: client.NO_SEQUENCE,
                client.entry_id[drain_whole.partition]: client.producer_id,
                client.entry_epoch[drain_whole.partition]: client.producer_epoch,
                in_flight_whole[drain_whole.partition]: True,
            },
            send=(whole(drain_whole.partition, accumulator.numbered(0)),),
            source="TransactionManager.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "next-sequence",
            "The batch takes the next two sequences",
            set={
                drained_first: accumulator.numbered(0),
                drained_second: accumulator.numbered(1),
                client.next_sequence[drain_whole.partition]: COUNT,
                in_flight_whole[drain_whole.partition]: True,
            },
            send=(whole(drain_whole.partition, accumulator.numbered(0)),),
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

answered = ProduceWholeResponse.partition
first_batch, second_batch = client.batches[answered][FIRST], client.batches[answered][SECOND]
completes_whole = Table(
    client_machine,
    on=ProduceWholeResponse,
    doc="Sender.completeBatch, for the batch of two records.",
    rows=(
        Row(
            "too-large",
            "The batch is split: each part has the sequence of its first record, and is not tried",
            when=ProduceWholeResponse.answer == Answer.MESSAGE_TOO_LARGE,
            set={
                first_batch: replace(first_batch, status=client.QUEUED),
                second_batch: replace(second_batch, status=client.QUEUED),
                in_flight_whole[answered]: False,
            },
            source="Sender.completeBatch, RecordAccumulator.splitAndReenqueue, ProducerBatch.split",
        ),
        Row(
            "acknowledged",
            "The batch is acknowledged",
            set={
                first_batch: client.Batch(status=client.ACKNOWLEDGED),
                second_batch: client.Batch(status=client.ACKNOWLEDGED),
                client.last_acked[answered]: 1,
                in_flight_whole[answered]: False,
            },
            source="TransactionManager.handleCompletedBatch",
        ),
    ),
)

lost_response = lost(ProduceWholeResponse)
lost_first = client.batches[lost_response.partition][FIRST]
lost_second = client.batches[lost_response.partition][SECOND]
loses_whole = Table(
    client_machine,
    on=lost_response,
    rows=(
        Row(
            "again",
            "The answer is lost, and the batch is sent again",
            set={
                lost_first: replace(lost_first, unanswered=True),
                lost_second: replace(lost_second, unanswered=True),
            },
            send=(whole(lost_response.partition, lost_first),),
            source="NetworkClient.handleDisconnections, Sender.canRetry",
        ),
    ),
)

# The leader -------------------------------------------------------------------------------------

leader_machine = partition.copy()
whole_offset = leader_machine.field(
    "whole_offset",
    Optional(OFFSET),
    doc="The last offset of the batch of two records, once it is in the log.",
)
entry = leader.producers[ProduceWhole.producer_id]


def record_entry(which: int) -> Expression:
    return LogEntry(
        kind=Kind.DATA,
        producer_id=ProduceWhole.producer_id,
        producer_epoch=ProduceWhole.producer_epoch,
        idempotent_only=True,
        record=which,
        txn=some(0),
    )


produces_whole = Table(
    leader_machine,
    on=ProduceWhole,
    rows=(
        Row(
            "duplicate",
            "The batch comes again",
            when=whole_offset.is_set,
            send=(
                ProduceWholeResponse(
                    producer=ProduceWhole.producer,
                    partition=ProduceWhole.partition,
                    answer=Answer.NONE,
                ),
            ),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "append",
            "Both records are appended",
            set={
                leader.log: append(append(leader.log, record_entry(FIRST)), record_entry(SECOND)),
                whole_offset: some(leader.log_end_offset + 1),
                entry: ProducerStateEntry(
                    producer_epoch=ProduceWhole.producer_epoch,
                    batch_metadata=sequence_of(
                        BatchMetadata(
                            last_sequence=ProduceWhole.base_sequence + 1,
                            last_offset=leader.log_end_offset + 1,
                            offset_delta=0,
                            timestamp=NO_TIMESTAMP,
                        )
                    ),
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=entry.current_txn_first_offset,
                    last_timestamp=NO_TIMESTAMP,
                ),
            },
            send=(
                ProduceWholeResponse(
                    producer=ProduceWhole.producer,
                    partition=ProduceWhole.partition,
                    answer=Answer.NONE,
                ),
            ),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)

too_large = in_transit("too large", ProduceWhole)
refuses_whole = Table(
    leader_machine,
    on=too_large,
    when=(LIMIT_CHANGES > 0) | ~whole_offset.is_set,
    doc="UnifiedLog.append checks sizes before it looks for duplicates.",
    rows=(
        Row(
            "refuse",
            "The batch is above max.message.bytes",
            send=(
                ProduceWholeResponse(
                    producer=too_large.producer,
                    partition=too_large.partition,
                    answer=Answer.MESSAGE_TOO_LARGE,
                ),
            ),
            source="UnifiedLog.analyzeAndValidateRecords",
        ),
    ),
)

# A part -----------------------------------------------------------------------------------------

drained = accumulator.drain
is_part = client.batches[drained.partition][drained.record].status == client.QUEUED
is_behind_whole = (
    (position(drained.record) > SECOND)
    & (client.batches[drained.partition][FIRST].status != client.UNSENT)
    & ~in_flight_whole[drained.partition]
)
duplicate = duplicate_batch(idempotent.entry, Produce.base_sequence, 0)

split = (
    Change(
        "split",
        "The first two records of a partition are a batch that may be too large.",
        moved=Moved({}, {producer: client_machine, partition: leader_machine}),
        tables=(drains_whole, completes_whole, loses_whole, produces_whole, refuses_whole),
        channels=(Channel(ProduceWhole, 1), Channel(ProduceWholeResponse, 1)),
        constants=(LIMIT_CHANGES,),
        budgets={lost_response: 1},
        fixed={EXPIRIES: 0, DELETIONS: 0},
    )
    .without_properties("ProduceIsAnswered")
    .table("producer.drain")
    .only_when(is_part | is_behind_whole)
    .table("partition.Produce")
    .before(
        "duplicate",
        Row(
            "part-of-a-batch",
            "The part is in the log as a part of a batch, which is no duplicate of it",
            when=(Produce.producer_epoch == idempotent.entry.producer_epoch)
            & duplicate.is_set
            & (some(duplicate.value.last_offset) == whole_offset),
            reply=idempotent.produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            source="ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkSequence",
            note="Both sequences of a duplicate are those of the remembered batch.",
        ),
    )
)

IN_ORDER = Unreached(
    "parts go one by one, the lowest sequence first: the leader has refused the first one before",
    ("partition.Produce/part-of-a-batch",),
)


def varied(system: System) -> System:
    """`idempotence` with a batch that may be split."""
    changed = system + split
    return dataclasses.replace(changed, unreached=(*changed.unreached, IN_ORDER))
