"""A batch of two records within a transaction that is too large for its leader.

The first record of a partition goes by itself, and brings the partition into the transaction. The
next two are one batch until it is split, and each part is one record. The client that isn't
transactional has `batch_split`.

Both records are in flight at once only as the whole batch: parts go one by one. Where the leader
refuses the whole for another reason, it answers each record by itself, as it does with one error.
"""

from __future__ import annotations

import dataclasses

from ....language import (
    Bool,
    Change,
    Channel,
    Expression,
    Moved,
    Optional,
    Row,
    Sending,
    System,
    Table,
    Unreached,
    append,
    constant,
    event,
    if_,
    in_transit,
    lift,
    lost,
    message,
    position,
    push,
    replace,
    sequence_of,
    some,
)
from ...answers import answer_batch
from ...client import state as client
from ...client.batches import accumulator
from ...leader import produce
from ...leader import state as leader
from ...leader.state import BatchMetadata, Kind, LogEntry, ProducerStateEntry, duplicate_batch
from ...messages import (
    CRASHES,
    DELETIONS,
    EPOCH,
    EXPIRIES,
    NO_TIMESTAMP,
    OFFSET,
    PARTITION,
    PRODUCER,
    PRODUCER_EXPIRIES,
    PRODUCER_ID,
    RECORDS,
    SEQUENCE,
    TRANSACTION,
    Errors,
    Produce,
    partition,
    producer,
)
from ...releases.features import batches_kept
from .batch_split import LIMIT_CHANGES

LARGE_PARTS = constant("large_parts", 1, 0, 2, meaning="parts that are too large as well")
ALONE, FIRST, SECOND = 0, 1, 2

ProduceWhole = message(
    "ProduceWhole",
    partition,
    producer=PRODUCER,
    partition=PARTITION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=SEQUENCE,
    txn=TRANSACTION,
    message_doc="A batch of two records.",
)
ProduceWholeResponse = message(
    "ProduceWholeResponse",
    producer,
    producer=PRODUCER,
    partition=PARTITION,
    txn=TRANSACTION,
    is_too_large=Bool(),
    message_doc="The batch is appended, or too large.",
)

# The client -------------------------------------------------------------------------------------

drain_whole = event("drain whole", partition=PARTITION)
alone = client.batches[drain_whole.partition][ALONE]
first = client.batches[drain_whole.partition][FIRST]
second = client.batches[drain_whole.partition][SECOND]
base = client.next_sequence[drain_whole.partition]


def whole(where: Expression, base_sequence: Expression) -> Sending:
    """The request that brings the whole batch to its leader."""
    return ProduceWhole(
        producer=producer.this,
        partition=where,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        base_sequence=base_sequence,
        txn=client.txn.value,
    )


drains_whole = Table(
    producer,
    on=drain_whole,
    when=(client.state == client.IN_TRANSACTION)
    & (alone.status == client.ACKNOWLEDGED)
    & (first.status == client.UNSENT)
    & (second.status == client.UNSENT),
    doc="RecordAccumulator.drainBatchesForOneNode, for the batch of two records.",
    rows=(
        Row(
            "next-sequence",
            "The batch takes the next two sequences",
            set={
                first: accumulator.numbered(base),
                second: accumulator.numbered(base + 1),
                base: base + 2,
            },
            send=(whole(drain_whole.partition, base),),
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

answered = ProduceWholeResponse.partition
first_batch, second_batch = client.batches[answered][FIRST], client.batches[answered][SECOND]
is_awaited = (
    (first_batch.status == client.SENT)
    & (second_batch.status == client.SENT)
    & (client.txn == some(ProduceWholeResponse.txn))
)
completes_whole = Table(
    producer,
    on=ProduceWholeResponse,
    doc="Sender.completeBatch, for the batch of two records.",
    rows=(
        Row(
            "not-awaited",
            "Nobody waits for the answer any more",
            when=~is_awaited,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "too-large",
            "The batch is split: each part has the sequence of its first record, and is not tried",
            when=ProduceWholeResponse.is_too_large,
            set={
                first_batch: replace(first_batch, status=client.QUEUED),
                second_batch: replace(second_batch, status=client.QUEUED),
            },
            source="Sender.completeBatch, RecordAccumulator.splitAndReenqueue, ProducerBatch.split",
        ),
        Row(
            "acknowledged",
            "The batch is acknowledged",
            set={
                first_batch: replace(first_batch, status=client.ACKNOWLEDGED),
                second_batch: replace(second_batch, status=client.ACKNOWLEDGED),
                client.last_acked[answered]: second_batch.base_sequence,
            },
            source="TransactionManager.handleCompletedBatch",
        ),
    ),
)

lost_response = lost(ProduceWholeResponse)
lost_first = client.batches[lost_response.partition][FIRST]
lost_second = client.batches[lost_response.partition][SECOND]
is_lost_to_client = (
    (lost_first.status == client.SENT)
    & (lost_second.status == client.SENT)
    & (client.txn == some(lost_response.txn))
)
loses_whole = Table(
    producer,
    on=lost_response,
    when=is_lost_to_client,
    rows=(
        Row(
            "again",
            "The answer is lost, and the batch is sent again",
            set={
                lost_first: replace(lost_first, in_retry=True, unanswered=True),
                lost_second: replace(lost_second, in_retry=True, unanswered=True),
            },
            send=(whole(lost_response.partition, lost_first.base_sequence),),
            source="NetworkClient.handleDisconnections, Sender.canRetry",
        ),
    ),
)

# The leader -------------------------------------------------------------------------------------

leader_machine = partition.copy()
whole_offset = leader_machine.field(
    "whole_offset",
    Optional(OFFSET),
    doc="The last offset of the last batch of two records in the log.",
)
entry = leader.producers[ProduceWhole.producer_id]
same_epoch = ProduceWhole.producer_epoch == entry.producer_epoch
duplicate_whole = duplicate_batch(entry, ProduceWhole.base_sequence + 1, 0)
in_transaction = leader.has_ongoing_transaction(
    ProduceWhole.producer_id, ProduceWhole.producer_epoch
)
appended_batch = BatchMetadata(
    last_sequence=ProduceWhole.base_sequence + 1,
    last_offset=leader.log_end_offset + 1,
    offset_delta=0,
    timestamp=NO_TIMESTAMP,
)


def record_entry(which: int) -> Expression:
    return LogEntry(
        kind=Kind.DATA,
        producer_id=ProduceWhole.producer_id,
        producer_epoch=ProduceWhole.producer_epoch,
        idempotent_only=False,
        record=which,
        txn=ProduceWhole.txn,
    )


def refusal(which: int, error: Expression) -> Sending:
    """The answer to one of the records of a whole batch that is refused."""
    return answer_batch(
        ProduceWhole.producer, ProduceWhole.partition, lift(which), ProduceWhole.txn, error
    )


def whole_response(*, is_too_large: bool) -> Sending:
    return ProduceWholeResponse(
        producer=ProduceWhole.producer,
        partition=ProduceWhole.partition,
        txn=ProduceWhole.txn,
        is_too_large=is_too_large,
    )


produces_whole = Table(
    leader_machine,
    on=ProduceWhole,
    others=(producer,),
    rows=(
        Row(
            "duplicate",
            "The batch comes again",
            when=same_epoch & duplicate_whole.is_set,
            send=(whole_response(is_too_large=False),),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "stale-epoch",
            "The epoch is older than the producer's",
            when=ProduceWhole.producer_epoch < entry.producer_epoch,
            send=(
                refusal(FIRST, Errors.INVALID_PRODUCER_EPOCH),
                refusal(SECOND, Errors.INVALID_PRODUCER_EPOCH),
            ),
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "transaction-over",
            "The transaction is over: the coordinator refuses what it is asked",
            when=~in_transaction,
            during=leader.asks_coordinator,
            send=(
                refusal(FIRST, Errors.INVALID_TXN_STATE),
                refusal(SECOND, Errors.INVALID_TXN_STATE),
            ),
            source="ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
        Row(
            "out-of-order",
            "The sequence does not follow the producer's last one",
            when=~same_epoch | (ProduceWhole.base_sequence != leader.next_sequence(entry)),
            send=(
                refusal(FIRST, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
                refusal(SECOND, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "append",
            "Both records are appended",
            set={
                leader.log: append(append(leader.log, record_entry(FIRST)), record_entry(SECOND)),
                leader.log_end_offset: leader.log_end_offset + 2,
                whole_offset: some(leader.log_end_offset + 1),
                entry: ProducerStateEntry(
                    producer_epoch=ProduceWhole.producer_epoch,
                    batch_metadata=if_(
                        ~batches_kept,
                        sequence_of(appended_batch),
                        push(entry.batch_metadata, appended_batch),
                    ),
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=if_(
                        entry.current_txn_first_offset.is_set,
                        entry.current_txn_first_offset,
                        some(leader.log_end_offset),
                    ),
                    last_timestamp=NO_TIMESTAMP,
                ),
            },
            send=(whole_response(is_too_large=False),),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)

too_large = in_transit("too large", ProduceWhole)
appended_before = duplicate_batch(
    leader.producers[too_large.producer_id], too_large.base_sequence + 1, 0
)
refuses_whole = Table(
    leader_machine,
    on=too_large,
    when=(LIMIT_CHANGES > 0) | ~appended_before.is_set,
    doc="UnifiedLog.append checks sizes before it looks for duplicates.",
    rows=(
        Row(
            "refuse",
            "The batch is above max.message.bytes",
            send=(
                ProduceWholeResponse(
                    producer=too_large.producer,
                    partition=too_large.partition,
                    txn=too_large.txn,
                    is_too_large=True,
                ),
            ),
            source="UnifiedLog.analyzeAndValidateRecords",
        ),
    ),
)

large_part = in_transit("part too large", Produce)
refuses_part = Table(
    leader_machine,
    on=large_part,
    others=(producer,),
    when=position(large_part.record) > ALONE,
    rows=(
        Row(
            "refuse",
            "A part of one record is above max.message.bytes, too",
            send=(
                answer_batch(
                    large_part.producer,
                    large_part.partition,
                    large_part.record,
                    large_part.txn,
                    Errors.UNKNOWN_SERVER_ERROR,
                ),
            ),
            source="UnifiedLog.analyzeAndValidateRecords",
            note="MESSAGE_TOO_LARGE of one record fails its batch as this error does.",
        ),
    ),
)

# A part -----------------------------------------------------------------------------------------

drained = accumulator.drain
is_queued = client.batches[drained.partition][drained.record].status == client.QUEUED

split = (
    Change(
        "split",
        "Two records of a partition are a batch that may be too large.",
        moved=Moved({}, {partition: leader_machine}),
        tables=(
            drains_whole,
            completes_whole,
            loses_whole,
            produces_whole,
            refuses_whole,
            refuses_part,
        ),
        channels=(Channel(ProduceWhole, 1), Channel(ProduceWholeResponse, 1)),
        constants=(LIMIT_CHANGES, LARGE_PARTS),
        budgets={lost_response: 1, large_part: LARGE_PARTS},
        fixed={RECORDS: 3, EXPIRIES: 0, DELETIONS: 0, CRASHES: 0, PRODUCER_EXPIRIES: 0},
    )
    .table("producer.drain")
    .only_when(is_queued | (position(drained.record) == ALONE))
    .table("partition.Produce")
    .before(
        "duplicate",
        Row(
            "part-of-a-batch",
            "The part is in the log as a part of a batch, which is no duplicate of it",
            when=produce.same_epoch
            & produce.duplicate_batch.is_set
            & (some(produce.duplicate_batch.value.last_offset) == whole_offset),
            reply=produce.produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            source="ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkSequence",
            note="Both sequences of a duplicate are those of the remembered batch.",
        ),
    )
)

UNREACHED = (
    Unreached(
        "parts go one by one, the lowest sequence first: the leader has refused the first one "
        "before",
        ("partition.Produce/part-of-a-batch",),
    ),
    Unreached(
        "a client ends its transaction once it knows the outcome of each batch",
        ("producer.ProduceWholeResponse/not-awaited",),
    ),
    Unreached(
        "the record before the batch is acknowledged, and only a marker of a later epoch can end "
        "its transaction before the batch comes",
        ("partition.ProduceWhole/transaction-over", "partition.ProduceWhole/out-of-order"),
    ),
)


def varied(system: System) -> System:
    """`transactions` with a batch that may be split."""
    changed = system + split
    return dataclasses.replace(changed, unreached=(*changed.unreached, *UNREACHED))
