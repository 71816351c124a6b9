"""A partition leader: its log, and what it remembers of the transactional producer.

Replication is not part of this slice: an appended record is replicated at once, so that the high
watermark is the log's end. A marker that ends no transaction changes nothing that a reader could
see, so that it isn't kept in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from .features import strict_marker_epoch, transaction_version_2, verification
from .language import (
    Bool,
    Expression,
    Int,
    Map,
    Message,
    Optional,
    Row,
    Sending,
    Sequence,
    Table,
    append,
    each,
    enum,
    if_,
    last,
    lift,
    lost,
    minimum,
    push,
    record,
    replace,
    sequence_of,
    size,
    some,
    updated,
)
from .messages import (
    CACHED_BATCHES,
    EPOCH,
    LARGEST_EPOCH,
    LOSSES,
    NO_EPOCH,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    SEQUENCE,
    TRANSACTION,
    TRANSACTIONS,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    Produce,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    partition,
    producer,
    transaction,
)
from .producer import answer_batch
from .transaction import marker_connection

Kind = enum("Kind", "DATA", "COMMIT", "ABORT")
LogEntry = record(
    "LogEntry", kind=Kind, producer_id=PRODUCER_ID, producer_epoch=EPOCH, record=RECORD,
    txn=Optional(TRANSACTION),
)  # fmt: skip
LOG_SIZE = TRANSACTIONS + TRANSACTIONS + 1
Batch = record(
    "Batch", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=SEQUENCE, record=RECORD,
    txn=TRANSACTION, guarded=Bool(),
)  # fmt: skip
Verification = record("Verification", producer_epoch=EPOCH, lowest_sequence=SEQUENCE)

log = partition.field("log", Sequence(LogEntry, LOG_SIZE))
producer_epoch = partition.field(
    "producer_epoch", EPOCH, NO_EPOCH, doc="Of the last batch or marker."
)
batches = partition.field(
    "batches", Sequence(SEQUENCE, CACHED_BATCHES), doc="The sequences of the last batches."
)
first_offset = partition.field(
    "first_offset", Optional(Int(0, LOG_SIZE)), doc="Where the open transaction starts."
)
verifying = partition.field(
    "verifying", Optional(Verification), doc="What the coordinator is being asked about."
)
waiting = partition.field(
    "waiting", Map(PRODUCER, Optional(Batch)),
    doc="Batches that wait for the coordinator; `guarded` while their question still counts.",
)  # fmt: skip

c = PRODUCER.variable("c")
log_end_offset = size(log)
last_stable_offset = if_(first_offset.is_set, first_offset.value, log_end_offset)
is_open = first_offset.is_set
UNGUARDED = each(
    c, if_(waiting[c].is_set, some(replace(waiting[c].value, guarded=False)), waiting[c])
)

# version 2 adds the partition by asking, with verification or without
asks_coordinator = verification | transaction_version_2

_ANALYZE = "UnifiedLog.analyzeAndValidateProducerState"
_EPOCH = "ProducerAppendInfo.checkProducerEpoch"
_SEQUENCE = "ProducerAppendInfo.checkSequence"


def _append_rows(
    batch: Message | Expression,
    guarded: Expression | None,
    answer: Callable[[Expression], Sending],
    settled: dict[Expression, Expression],
    unguarded: Expression,
) -> tuple[Row, ...]:
    """The checks of a data batch in their order, for a batch that came in or one that waited.

    `guarded` says whether the question about it still counts (none: there was no need to ask),
    `settled` is what the batch's outcome clears, `unguarded` the batches that wait after an append.
    """
    epoch, sequence = batch.producer_epoch, batch.base_sequence
    new_epoch = epoch != producer_epoch
    unknown = producer_epoch == NO_EPOCH
    following = if_(last(batches).is_set, last(batches).value + 1, 0)

    def refused(
        name: str,
        when: Expression,
        error: Expression,
        source: str,
        during: Expression | bool = True,
    ) -> Row:
        return Row(
            name, when=when, set=dict(settled), reply=answer(error), source=source,
            during=lift(during),
        )  # fmt: skip

    unanswered: list[Row] = []
    if guarded is not None:
        late = ~(is_open & ~new_epoch) & (epoch >= producer_epoch) & ~guarded
        unanswered.append(
            refused(
                "question no longer counts", late, Errors.INVALID_TXN_STATE, _ANALYZE, verification
            )
        )
    return (
        Row(
            "duplicate",
            when=~new_epoch & sequence.is_in(batches),
            set=dict(settled),
            reply=answer(Errors.NONE),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        *unanswered,
        refused("stale epoch", epoch < producer_epoch, Errors.INVALID_PRODUCER_EPOCH, _EPOCH),
        refused(
            "starts in mid-sequence",
            verifying.is_set & (sequence != 0) & (size(batches) == 0),
            Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
            "KAFKA-18202",
            transaction_version_2,
        ),
        refused(
            "above the first to come",
            verifying.is_set & (sequence > verifying.value.lowest_sequence),
            Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
            _SEQUENCE,
            asks_coordinator,
        ),
        refused(
            "new epoch in mid-sequence",
            new_epoch & (sequence != 0) & ~unknown,
            Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
            _SEQUENCE,
        ),
        refused(
            "out of order",
            ~new_epoch & ~unknown & (sequence != following),
            Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
            _SEQUENCE,
        ),
        Row(
            "append",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=batch.producer_id,
                        producer_epoch=epoch,
                        record=batch.record,
                        txn=batch.txn,
                    ),
                ),
                producer_epoch: epoch,
                batches: if_(new_epoch, sequence_of(sequence), push(batches, sequence)),
                first_offset: if_(is_open, first_offset, some(log_end_offset)),
                verifying: None,
                waiting: unguarded,
            },
            reply=answer(Errors.NONE),
            source="ProducerAppendInfo.appendDataBatch",
        ),
    )


# Produce ---------------------------------------------------------------------------------------

_ongoing = is_open & (Produce.producer_epoch == producer_epoch)
_asks = asks_coordinator & ~_ongoing


def _produce_answer(error: Expression) -> Sending:
    return answer_batch(Produce.producer, Produce.partition, Produce.record, Produce.txn, error)


produce = Table(
    partition,
    on=Produce,
    elsewhere=(producer,),
    when=~(_asks & waiting[Produce.producer].is_set),
    doc="A producer's second batch waits until the coordinator has answered about its first.",
    rows=(
        Row(
            "stale epoch, before asking",
            when=_asks & (Produce.producer_epoch < producer_epoch),
            during=asks_coordinator,
            reply=_produce_answer(Errors.INVALID_PRODUCER_EPOCH),
            source="UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "ask the coordinator",
            when=_asks,
            during=asks_coordinator,
            set={
                verifying: some(
                    if_(
                        verifying.is_set
                        & (verifying.value.producer_epoch >= Produce.producer_epoch),
                        if_(
                            verifying.value.producer_epoch == Produce.producer_epoch,
                            replace(
                                verifying.value,
                                lowest_sequence=minimum(
                                    verifying.value.lowest_sequence, Produce.base_sequence
                                ),
                            ),
                            verifying.value,
                        ),
                        Verification(
                            producer_epoch=Produce.producer_epoch,
                            lowest_sequence=Produce.base_sequence,
                        ),
                    )
                ),
                waiting[Produce.producer]: some(
                    Batch(
                        producer_id=Produce.producer_id,
                        producer_epoch=Produce.producer_epoch,
                        base_sequence=Produce.base_sequence,
                        record=Produce.record,
                        txn=Produce.txn,
                        guarded=True,
                    )
                ),
            },
            send=(
                AddPartitionsByLeader(
                    partition=Produce.partition,
                    producer=Produce.producer,
                    producer_id=Produce.producer_id,
                    producer_epoch=Produce.producer_epoch,
                ),
            ),
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
        *_append_rows(
            Produce,
            None,
            _produce_answer,
            {},
            UNGUARDED,
        ),
    ),
)

_answer = AddPartitionsByLeaderResponse
_waiting = waiting[_answer.producer]
_batch = _waiting.value


def _waiting_answer(error: Expression) -> Sending:
    return answer_batch(_answer.producer, _answer.partition, _batch.record, _batch.txn, error)


_done = {_waiting: lift(None)}
verified = Table(
    partition,
    on=_answer,
    elsewhere=(producer,),
    rows=(
        Row(
            "producer fenced",
            when=_answer.error == Errors.PRODUCER_FENCED,
            set=_done,
            reply=_waiting_answer(Errors.INVALID_PRODUCER_EPOCH),
            source="AddPartitionsToTxnManager",
        ),
        Row(
            "coordinator busy",
            when=_answer.error == Errors.CONCURRENT_TRANSACTIONS,
            during=~transaction_version_2,
            set=_done,
            reply=_waiting_answer(Errors.NOT_ENOUGH_REPLICAS),
            source="ReplicaManager.handleProduceAppend",
        ),
        Row(
            "refused by the coordinator",
            when=_answer.error != Errors.NONE,
            set=_done,
            reply=_waiting_answer(_answer.error),
            source="ReplicaManager.handleProduceAppend",
        ),
        *_append_rows(
            _batch,
            _batch.guarded,
            _waiting_answer,
            _done,
            updated(UNGUARDED, _answer.producer, None),
        ),
    ),
)

# Markers ---------------------------------------------------------------------------------------

_marker = WriteTxnMarkers
_stale = Errors.INVALID_PRODUCER_EPOCH
_written = {
    producer_epoch: _marker.producer_epoch,
    batches: if_(_marker.producer_epoch == producer_epoch, batches, sequence_of()),
    # version 2: a question at the marker's epoch is about the next transaction
    verifying: if_(
        transaction_version_2
        & verifying.is_set
        & (verifying.value.producer_epoch == _marker.producer_epoch),
        verifying,
        None,
    ),
    waiting: each(
        c,
        if_(
            waiting[c].is_set
            & ~(
                transaction_version_2 & (waiting[c].value.producer_epoch == _marker.producer_epoch)
            ),
            some(replace(waiting[c].value, guarded=False)),
            waiting[c],
        ),
    ),
}


def _marker_answer(error: Expression) -> Sending:
    return answer_on(
        marker_connection[_marker.partition], WriteTxnMarkersResponse, _marker.connection,
        partition=_marker.partition, error=error,
    )  # fmt: skip


write_markers = Table(
    partition,
    on=WriteTxnMarkers,
    elsewhere=(transaction,),
    rows=(
        Row(
            "stale epoch",
            when=_marker.producer_epoch < producer_epoch,
            reply=_marker_answer(_stale),
            source=_EPOCH,
        ),
        Row(
            "marker of an earlier transaction",
            when=is_open
            & (_marker.producer_epoch == producer_epoch)
            & (_marker.producer_epoch != LARGEST_EPOCH),
            during=strict_marker_epoch & transaction_version_2,
            reply=_marker_answer(_stale),
            source="KIP-1228, ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "end the transaction",
            when=is_open,
            set=_written
            | {
                log: append(
                    log,
                    LogEntry(
                        kind=if_(_marker.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
                        producer_id=_marker.producer_id,
                        producer_epoch=_marker.producer_epoch,
                        record=0,
                        txn=None,
                    ),
                ),
                first_offset: None,
            },
            reply=_marker_answer(Errors.NONE),
            source="ProducerAppendInfo.appendEndTxnMarker",
        ),
        Row(
            "no transaction to end",
            set=_written,
            reply=_marker_answer(Errors.NONE),
            source="ProducerAppendInfo.appendEndTxnMarker, KAFKA-19999",
        ),
    ),
)


def _lost_question(message: Message) -> Table:
    """The question, or its answer, is lost: the producer is told to try again."""
    loss = lost(message)
    batch = waiting[loss.producer]
    return Table(
        partition,
        on=loss,
        elsewhere=(producer,),
        when=LOSSES > 0,
        rows=(
            Row(
                "give up",
                set={batch: None},
                send=(
                    answer_batch(
                        loss.producer,
                        loss.partition,
                        batch.value.record,
                        batch.value.txn,
                        Errors.NOT_ENOUGH_REPLICAS,
                    ),
                ),
                source="AddPartitionsToTxnManager, NETWORK_EXCEPTION",
            ),
        ),
    )


FAULTY_EVENTS = (lost(AddPartitionsByLeader), lost(AddPartitionsByLeaderResponse))
TABLES = (
    produce,
    verified,
    write_markers,
    _lost_question(AddPartitionsByLeader),
    _lost_question(AddPartitionsByLeaderResponse),
)
