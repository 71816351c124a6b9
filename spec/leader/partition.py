"""A partition leader: its log, what it remembers of each producer id, and how it takes batches.

Replication is not part of this slice: an appended record is replicated at once, so that the high
watermark is the log's end. A marker that ends no transaction changes nothing that a reader could
see, so that it isn't kept in the log.

A batch is checked and appended in one step, and so is a batch that waited for the coordinator.
Questions to the coordinator go out one by one. A broker queues them, and a newer one for the
transactional id replaces an older one in the queue, which fails as the coordinator would have it
fail, or is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...language import (
    Bool,
    Expression,
    Int,
    Map,
    Message,
    Optional,
    Row,
    Sending,
    Sequence,
    Set,
    Table,
    all_of,
    any_of,
    append,
    constant,
    count_of,
    each,
    element,
    enum,
    if_,
    last,
    lift,
    lost,
    maximum,
    minimum,
    only,
    position,
    push,
    record,
    replace,
    sequence_of,
    set_of,
    size,
    some,
    updated,
    wrap,
)
from ...language.expressions import TRUE, Operand
from ..client.sender import answer_batch
from ..features import (
    no_start_in_mid_sequence,
    ongoing_by_epoch,
    stale_epoch_first,
    transaction_version_2,
    unknown_producer_accepted,
    verification,
    version_2_draft,
)
from ..messages import (
    CACHED_BATCHES,
    COORDINATOR_EPOCH,
    EPOCH,
    LOSSES,
    NO_EPOCH,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    RECORDS,
    SEQUENCE,
    TRANSACTION,
    TRANSACTIONS,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    Produce,
    moved,
    partition,
    producer,
)

Kind = enum("Kind", "DATA", "COMMIT", "ABORT")
LogEntry = record(
    "LogEntry", kind=Kind, producer_id=PRODUCER_ID, producer_epoch=EPOCH, idempotent_only=Bool(),
    record=RECORD, txn=Optional(TRANSACTION),
)  # fmt: skip
SPARE = constant(
    "spare", 1, 1, 8, meaning="entries that a log has room for beyond records and markers"
)
LOG_SIZE = TRANSACTIONS * RECORDS + TRANSACTIONS + SPARE
OFFSET = Int(0, LOG_SIZE, "offset")
BatchMetadata = record("BatchMetadata", last_sequence=SEQUENCE, last_offset=OFFSET)
ProducerStateEntry = record(
    "ProducerStateEntry",
    producer_epoch=EPOCH,
    batches=Sequence(BatchMetadata, CACHED_BATCHES),
    coordinator_epoch=COORDINATOR_EPOCH,
    current_txn_first_offset=Optional(OFFSET),
)
VerificationStateEntry = record(
    "VerificationStateEntry", producer_epoch=EPOCH, lowest_sequence=SEQUENCE
)
Batch = record(
    "Batch", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=SEQUENCE, record=RECORD,
    txn=TRANSACTION, guarded=Bool(),
)  # fmt: skip

log = partition.field(
    "log", Sequence(LogEntry, LOG_SIZE), doc="All that was appended, from offset 0 on."
)
log_start_offset = partition.field(
    "log_start_offset", OFFSET, doc="What lies before it has been deleted."
)
producer_state = partition.field(
    "producer_state", Map(PRODUCER_ID, ProducerStateEntry),
    doc="Of each producer id the epoch of its last batch or marker, its last batches in that epoch,"
    " the highest coordinator epoch of its markers, and where its open transaction starts.",
)  # fmt: skip
verifying = partition.field(
    "verifying", Map(PRODUCER_ID, Optional(VerificationStateEntry)),
    doc="What the coordinator is being asked about.",
)  # fmt: skip
waiting = partition.field(
    "waiting", Map(PRODUCER, Optional(Batch)),
    doc="Batches that wait for the coordinator; `guarded` while their question still counts.",
)  # fmt: skip

orphaned = partition.field(
    "orphaned", Set(PRODUCER),
    doc="Whose question a leader before this one asked: the answer reaches nobody.",
)  # fmt: skip

c = PRODUCER.variable("c")
n = PRODUCER_ID.variable("n")
e = element("e", log)
_start = producer_state[n].current_txn_first_offset
is_open = any_of(n, _start.is_set)
log_end_offset = size(log)
last_stable_offset = maximum(
    count_of(e, all_of(n, _start.is_set.implies(position(e) < _start.value))), log_start_offset
)

# version 2 adds the partition by asking, with verification or without
asks_coordinator = verification | transaction_version_2


def is_ongoing(producer_id: Expression, epoch: Expression) -> Expression:
    """Whether the leader takes a batch of this id and epoch for one of the open transaction."""
    entry = producer_state[producer_id]
    same_epoch = ~ongoing_by_epoch | (entry.producer_epoch == epoch)
    return entry.current_txn_first_offset.is_set & same_epoch


def unguarded(producer_id: Expression, unless: Operand = False) -> Expression:
    """The waiting batches when the questions about a producer id no longer count.

    `unless` is about the waiting batch of client `c`.
    """
    batch = waiting[c]
    concerned = batch.is_set & (batch.value.producer_id == producer_id) & ~lift(unless)
    return each(c, if_(concerned, some(replace(batch.value, guarded=False)), batch))


_ANALYZE = "UnifiedLog.analyzeAndValidateProducerState"
CHECK_EPOCH = "ProducerAppendInfo.checkProducerEpoch"
_SEQUENCE = "ProducerAppendInfo.checkSequence"

Refusal: TypeAlias = Callable[[str, Expression, Expression, str, Expression], Row]


def only_where(there: bool, *rows: Row) -> tuple[Row, ...]:
    """The rows, or none."""
    return rows if there else ()


def validation_rows(
    epoch: Expression,
    sequence: Expression,
    transactional: Expression,
    entry: Expression,
    verified: Expression,
    refused: Refusal,
    *,
    waited: bool,
    epoch_counts: Expression = TRUE,
    sequence_counts: Expression = TRUE,
) -> tuple[Row, ...]:
    """ProducerAppendInfo's checks of a data batch against a producer's `entry`, in their order.

    `refused` makes the row for a name, a condition, an error, its source and its features.
    `epoch_counts` and `sequence_counts` say whether batches of this origin are checked so. A batch
    that `waited` for the coordinator is transactional, and its version is one that knows asking.
    """
    new_epoch = epoch != entry.producer_epoch
    unknown = entry.producer_epoch == NO_EPOCH
    newest = last(entry.batches)
    following = if_(newest.is_set, wrap(newest.value.last_sequence + 1, SEQUENCE), 0)
    out_of_order = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def checked(counts: Expression, condition: Expression) -> Expression:
        return condition if counts.same_as(TRUE) else counts & condition

    def in_sequence(
        name: str, when: Expression, error: Expression, source: str, during: Expression = TRUE
    ) -> Row:
        return refused(name, checked(sequence_counts, when), error, source, during)

    return (
        refused(
            "stale epoch",
            checked(epoch_counts, epoch < entry.producer_epoch),
            Errors.INVALID_PRODUCER_EPOCH,
            CHECK_EPOCH,
            # else it was refused before: in the open transaction it would be of its epoch
            ~(stale_epoch_first & ongoing_by_epoch) if waited else TRUE,
        ),
        in_sequence(
            "starts in mid-sequence",
            verified.is_set & (sequence != 0) & (size(entry.batches) == 0),
            out_of_order,
            "KAFKA-18202",
            no_start_in_mid_sequence & transaction_version_2,
        ),
        in_sequence(
            "above the first to come",
            verified.is_set & (sequence > verified.value.lowest_sequence),
            out_of_order,
            _SEQUENCE,
            asks_coordinator,
        ),
        *only_where(
            not waited,
            in_sequence(
                "last sequence not known",
                (unknown | (~new_epoch & (size(entry.batches) == 0))) & (sequence != 0),
                Errors.UNKNOWN_PRODUCER_ID,
                "KAFKA-5793, KAFKA-7298",
                ~unknown_producer_accepted,
            ),
        ),
        in_sequence(
            "new epoch in mid-sequence",
            new_epoch & (sequence != 0) & ~unknown,
            out_of_order,
            _SEQUENCE,
        ),
        in_sequence("out of order", ~new_epoch & (sequence != following), out_of_order, _SEQUENCE),
        *only_where(
            not waited,
            refused(
                "not transactional in a transaction",
                entry.current_txn_first_offset.is_set & ~transactional,
                Errors.INVALID_TXN_STATE,
                "ProducerAppendInfo.appendDataBatch",
                TRUE,
            ),
        ),
    )


def question_rows(
    starts: Expression, stale: Expression, counts: Expression, refused: Refusal
) -> tuple[Row, ...]:
    """UnifiedLog's checks of a batch that `starts` a transaction, in their order.

    `stale` says that its epoch is, `counts` that the question about it does; `refused` is that of
    `validation_rows`.
    """
    return (
        refused(
            "stale epoch, whatever the answer",
            starts & stale,
            Errors.INVALID_PRODUCER_EPOCH,
            f"KAFKA-19690, {_ANALYZE}",
            stale_epoch_first,
        ),
        refused(
            "question no longer counts",
            starts & ~counts,
            Errors.INVALID_TXN_STATE,
            _ANALYZE,
            verification,
        ),
    )


def append_rows(
    batch: Message | Expression,
    transactional: Expression,
    guarded: Expression | None,
    answer: Callable[[Expression], Sending | None],
    settled: dict[Expression, Expression],
    left_waiting: Expression,
) -> tuple[Row, ...]:
    """The checks of a data batch in their order, for a batch that came in or one that waited.

    `guarded` says whether the question about it still counts (none: there was no need to ask),
    `settled` is what the batch's outcome clears, `left_waiting` the batches that wait after an
    append.
    """
    producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
    entry, verified = producer_state[producer_id], verifying[producer_id]
    new_epoch = epoch != entry.producer_epoch
    stale = epoch < entry.producer_epoch
    opened = entry.current_txn_first_offset.is_set
    cached = element("cached", entry.batches)
    metadata = BatchMetadata(last_sequence=sequence, last_offset=log_end_offset)

    def refused(
        name: str,
        when: Expression,
        error: Expression,
        source: str,
        during: Expression,
    ) -> Row:
        return Row(
            name, when=when, set=dict(settled), reply=answer(error), source=source, during=during
        )

    waited = guarded is not None
    counts = guarded if waited else lift(True)
    starts = ~is_ongoing(producer_id, epoch)
    return (
        Row(
            "duplicate",
            when=~new_epoch & any_of(cached, cached.last_sequence == sequence),
            set=dict(settled),
            reply=answer(Errors.NONE),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        *only_where(waited, *question_rows(starts, stale, counts, refused)),
        *validation_rows(epoch, sequence, transactional, entry, verified, refused, waited=waited),
        Row(
            "append",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        idempotent_only=~transactional,
                        record=batch.record,
                        txn=batch.txn,
                    ),
                ),
                entry.producer_epoch: epoch,
                entry.batches: if_(new_epoch, sequence_of(metadata), push(entry.batches, metadata)),
                entry.current_txn_first_offset: if_(
                    opened | ~transactional, entry.current_txn_first_offset, some(log_end_offset)
                ),
                verified: if_(transactional, None, verified),
                waiting: left_waiting,
            },
            reply=answer(Errors.NONE),
            source="ProducerAppendInfo.appendDataBatch",
        ),
    )


# Produce ---------------------------------------------------------------------------------------

_id, _epoch = Produce.producer_id, Produce.producer_epoch
_transactional = ~Produce.idempotent_only
_asks = asks_coordinator & _transactional & ~is_ongoing(_id, _epoch)
_asked = verifying[_id]


def _produce_answer(error: Expression) -> Sending:
    return answer_batch(Produce.producer, Produce.partition, Produce.record, Produce.txn, error)


produce = Table(
    partition,
    on=Produce,
    elsewhere=(producer,),
    when=~(_asks & (waiting[Produce.producer].is_set | Produce.producer.is_in(orphaned))),
    doc="A producer's second batch waits until the coordinator has answered about its first.",
    rows=(
        Row(
            "stale epoch, before asking",
            when=_asks & (_epoch < producer_state[_id].producer_epoch),
            during=stale_epoch_first & asks_coordinator,
            reply=_produce_answer(Errors.INVALID_PRODUCER_EPOCH),
            source="KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "ask the coordinator",
            when=_asks,
            during=asks_coordinator,
            set={
                _asked: some(
                    if_(
                        ~_asked.is_set | (_asked.value.producer_epoch < _epoch),
                        VerificationStateEntry(
                            producer_epoch=_epoch, lowest_sequence=Produce.base_sequence
                        ),
                        if_(
                            _asked.value.producer_epoch == _epoch,
                            replace(
                                _asked.value,
                                lowest_sequence=minimum(
                                    _asked.value.lowest_sequence, Produce.base_sequence
                                ),
                            ),
                            _asked.value,
                        ),
                    )
                ),
                waiting[Produce.producer]: some(
                    Batch(
                        producer_id=_id,
                        producer_epoch=_epoch,
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
                    producer_id=_id,
                    producer_epoch=_epoch,
                ),
            ),
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
        *append_rows(
            Produce,
            _transactional,
            None,
            _produce_answer,
            {},
            unguarded(_id, unless=~_transactional),
        ),
    ),
)

_answer = AddPartitionsByLeaderResponse
_waiting = waiting[_answer.producer]
_batch = _waiting.value


def _waiting_answer(error: Expression) -> Sending:
    return answer_batch(_answer.producer, _answer.partition, _batch.record, _batch.txn, error)


_done = {_waiting: lift(None)}
_HANDLE = "ReplicaManager.handleProduceAppend"


def verdict_rows(
    error: Expression, refused: Refusal, produced: Expression = TRUE
) -> tuple[Row, ...]:
    """What a leader makes of the coordinator's answer about a batch, where that is an error.

    `refused` makes the row for a name, a condition, an error, its source and its features.
    `produced` says whether the batch came by Produce; a group's coordinator gets the rest as it is.
    """

    def of_produce(condition: Expression) -> Expression:
        return condition if produced.same_as(TRUE) else produced & condition

    return (
        refused(
            "producer fenced",
            error == Errors.PRODUCER_FENCED,
            Errors.INVALID_PRODUCER_EPOCH,
            "AddPartitionsToTxnManager",
            TRUE,
        ),
        refused(
            "coordinator busy",
            of_produce(error == Errors.CONCURRENT_TRANSACTIONS),
            Errors.NOT_ENOUGH_REPLICAS,
            _HANDLE,
            ~transaction_version_2 | version_2_draft,
        ),
        refused(
            "coordinator moved",
            of_produce(error.is_in(*moved)),
            Errors.NOT_ENOUGH_REPLICAS,
            _HANDLE,
            asks_coordinator,
        ),
        refused("refused by the coordinator", error != Errors.NONE, error, _HANDLE, TRUE),
    )


def _refused(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    reply = _waiting_answer(error)
    return Row(name, when=when, set=_done, reply=reply, source=source, during=during)


verified = Table(
    partition,
    on=_answer,
    elsewhere=(producer,),
    rows=only(
        asks_coordinator,
        Row(
            "asked by a leader before",
            when=_answer.producer.is_in(orphaned),
            set={orphaned: orphaned - set_of(_answer.producer)},
        ),
        *verdict_rows(_answer.error, _refused),
        *append_rows(
            _batch,
            lift(True),
            _batch.guarded,
            _waiting_answer,
            _done,
            updated(unguarded(_batch.producer_id), _answer.producer, None),
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
        rows=only(
            asks_coordinator,
            Row(
                "asked by a leader before",
                when=loss.producer.is_in(orphaned),
                set={orphaned: orphaned - set_of(loss.producer)},
            ),
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
                note="Before 3.7.1 the producer is told NETWORK_EXCEPTION, which it takes alike.",
            ),
        ),
    )


FAULTY_EVENTS = (lost(AddPartitionsByLeader), lost(AddPartitionsByLeaderResponse))
TABLES = (
    produce,
    verified,
    _lost_question(AddPartitionsByLeader),
    _lost_question(AddPartitionsByLeaderResponse),
)
