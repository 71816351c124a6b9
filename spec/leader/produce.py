"""How a partition leader takes batches: Produce, and the coordinator's word on those that it asks
about.

A batch is checked and appended in one step, and so is a batch that waited for the coordinator.
Questions to the coordinator go out one by one. A broker queues them, and a newer one for the
transactional id replaces an older one in the queue, which fails as the coordinator would have it
fail, or is tried again. A batch is one record in a bounded run, and its offset is its place in the
log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from ...language import (
    Bool,
    Expression,
    Machine,
    Message,
    Optional,
    Row,
    Sending,
    Table,
    append,
    element,
    first_of,
    if_,
    last,
    lift,
    message,
    push,
    sequence_of,
    size,
    some,
    wrap,
)
from ...language.expressions import TRUE, Operand
from ..answers import answer_batch
from ..features import (
    batches_kept,
    followers_only_warn,
    no_start_in_mid_sequence,
    offsets_verified,
    ongoing_by_epoch,
    stale_answer_first,
    stale_epoch_first,
    unknown_producer_accepted,
    unknown_producer_told,
    unknown_sequence_told,
    verification,
)
from ..messages import (
    ANY_OFFSET,
    NO_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    SEQUENCE,
    AddPartitionsByLeader,
    Batch,
    Errors,
    Produce,
    clock,
    partition,
    producer,
    waiting,
)
from .state import (
    GUARD,
    BatchMetadata,
    Kind,
    LogEntry,
    ProducerStateEntry,
    Refusal,
    asks_coordinator,
    guards,
    has_ongoing_transaction,
    log,
    log_end_offset,
    log_start_offset,
    maybe_create_verification_state_entry,
    only_where,
    orphaned,
    producers,
    unguarded,
    verification_enabled,
    verification_states,
    where,
)

_ANALYZE = "UnifiedLog.analyzeAndValidateProducerState"
CHECK_EPOCH = "ProducerAppendInfo.checkProducerEpoch"
_SEQUENCE = "ProducerAppendInfo.checkSequence"
_FALSE = lift(False)


@dataclass(frozen=True)
class DataBatch:
    """A batch of data as a leader takes it: by default what a client sends in a bounded run, one
    record at the log's end.

    `from_client` says whether sequences are checked, `epoch_counts` whether the epoch is,
    `may_repeat` whether duplicates are looked for. `question` says whether the batch starts a
    transaction that has to be verified, and whether the question about it counts (none: there was
    no need to ask). One that `waited` is transactional, and its version is one that knows asking.
    """

    producer_id: Expression
    producer_epoch: Expression
    base_sequence: Expression
    last_sequence: Expression
    transactional: Expression
    record: Expression
    txn: Expression
    offset_delta: Operand = 0
    timestamp: Operand = NO_TIMESTAMP
    from_client: Expression = TRUE
    epoch_counts: Expression = TRUE
    may_repeat: Expression = TRUE
    question: tuple[Expression, Expression] | None = None
    waited: bool = False


asker = Machine("asker", doc="Whoever appends at real ranges: a client, a coordinator, a fetcher.")
AppendResponse = message(
    "AppendResponse", asker, only_real=True, error=Errors, first_offset=ANY_OFFSET,
    last_offset=ANY_OFFSET, is_duplicate=Bool(), guard=Optional(GUARD),
    message_doc="`is_duplicate`: answered from memory, nothing was appended. `guard`: the "
    "coordinator is to be asked first, under this guard.",
)  # fmt: skip


def appended(
    error: Expression,
    first: Operand = NO_OFFSET,
    last: Operand = NO_OFFSET,
    *,
    is_duplicate: bool = False,
) -> Sending:
    return AppendResponse(
        error=error, first_offset=first, last_offset=last, is_duplicate=is_duplicate, guard=None
    )


Answer: TypeAlias = Callable[[Expression, Operand], Sending | None]
"""The answer to a batch in a bounded run: an error, and the offset that it has got."""


def bounded_alone(sending: Sending | None) -> Sending | None:
    """The message as one of bounded runs alone; a leader at real ranges answers its asker."""
    return None if sending is None else dataclasses.replace(sending, only_bounded=True)


def _validation_rows(batch: DataBatch, refused: Refusal) -> tuple[Row, ...]:
    """ProducerAppendInfo's checks of a data batch, in their order."""
    epoch, sequence = batch.producer_epoch, batch.base_sequence
    entry, verified = producers[batch.producer_id], verification_states[batch.producer_id]
    new_epoch = epoch != entry.producer_epoch
    unknown = entry.producer_epoch == NO_EPOCH
    newest = last(entry.batch_metadata)
    following = if_(newest.is_set, wrap(newest.value.last_sequence + 1, SEQUENCE), 0)
    out_of_order = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_told = unknown_producer_told & (unknown | unknown_sequence_told)

    def in_sequence(
        name: str, when: Expression, error: Expression, source: str, during: Expression = TRUE
    ) -> tuple[Row, ...]:
        """The row, unless no batch of the kind has a sequence."""
        counts = where(batch.from_client, when)
        has_sequence = not batch.from_client.same_as(_FALSE)
        return only_where(has_sequence, refused(name, counts, error, source, during))

    return (
        refused(
            "stale epoch",
            where(batch.epoch_counts, epoch < entry.producer_epoch),
            Errors.INVALID_PRODUCER_EPOCH,
            CHECK_EPOCH,
            # else it was refused before: in the open transaction it would be of its epoch
            ~(stale_epoch_first & ongoing_by_epoch) if batch.waited else TRUE,
        ),
        *in_sequence(
            "starts in mid-sequence",
            verified.is_set
            & verified.value.supports_epoch_bump
            & (sequence != 0)
            & (size(entry.batch_metadata) == 0),
            out_of_order,
            "KAFKA-18202",
            no_start_in_mid_sequence,
        ),
        *in_sequence(
            "above the first to come",
            verified.is_set & (sequence > verified.value.lowest_sequence),
            out_of_order,
            _SEQUENCE,
            asks_coordinator,
        ),
        *only_where(
            not batch.waited,
            *in_sequence(
                "last sequence not known",
                (unknown | (~new_epoch & (size(entry.batch_metadata) == 0))) & (sequence != 0),
                if_(is_told, Errors.UNKNOWN_PRODUCER_ID, out_of_order),
                "KAFKA-5793, KAFKA-7298",
                ~unknown_producer_accepted,
            ),
        ),
        *in_sequence(
            "new epoch in mid-sequence",
            new_epoch & (sequence != 0) & ~unknown,
            out_of_order,
            _SEQUENCE,
        ),
        *in_sequence("out of order", ~new_epoch & (sequence != following), out_of_order, _SEQUENCE),
        *only_where(
            not (batch.waited or batch.transactional.same_as(TRUE)),
            refused(
                "not transactional in a transaction",
                entry.current_txn_first_offset.is_set & ~batch.transactional,
                Errors.INVALID_TXN_STATE,
                "ProducerAppendInfo.appendDataBatch",
                TRUE,
            ),
        ),
    )


def _question_rows(
    starts: Expression, stale: Expression, counts: Expression, refused: Refusal
) -> tuple[Row, ...]:
    """UnifiedLog's checks of a batch that `starts` a transaction, in their order: whether its epoch
    is `stale`, and whether the question about it `counts`."""
    return (
        refused(
            "stale epoch, whatever the answer",
            starts & stale,
            Errors.INVALID_PRODUCER_EPOCH,
            f"KAFKA-19690, {_ANALYZE}",
            stale_epoch_first | stale_answer_first,
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
    batch: DataBatch,
    answer: Answer,
    settled: Mapping[Expression, Operand] = MappingProxyType({}),
    left_waiting: Expression = waiting,
) -> tuple[Row, ...]:
    """The checks of a data batch in their order, and what appending it changes.

    `settled` is what the batch's outcome clears, `left_waiting` the batches that wait after an
    append.
    """

    def refused(
        name: str,
        when: Expression,
        error: Expression,
        source: str,
        during: Expression,
    ) -> Row:
        return Row(
            name, when=when, set=dict(settled), reply=bounded_alone(answer(error, NO_OFFSET)),
            send=(appended(error),), source=source, during=during,
        )  # fmt: skip

    rows: tuple[Row, ...] = ()
    if batch.question is not None:
        starts, counts = batch.question
        stale = batch.producer_epoch < producers[batch.producer_id].producer_epoch
        rows = _question_rows(starts, stale, counts, refused)
    return (
        *_duplicate_rows(batch, answer, settled),
        *rows,
        *_validation_rows(batch, refused),
        _append_row(batch, answer, left_waiting),
    )


def _duplicate_rows(
    batch: DataBatch, answer: Answer, settled: Mapping[Expression, Operand]
) -> tuple[Row, ...]:
    entry = producers[batch.producer_id]
    cached = element("cached", entry.batch_metadata)
    same = (cached.last_sequence == batch.last_sequence) & (
        cached.offset_delta == batch.offset_delta
    )
    found = first_of(cached, same)
    last_offset = found.value.last_offset
    first_offset = last_offset - found.value.offset_delta
    new_epoch = batch.producer_epoch != entry.producer_epoch
    return only_where(
        not batch.may_repeat.same_as(_FALSE),
        Row(
            "duplicate",
            when=where(batch.may_repeat, ~new_epoch & found.is_set),
            set=dict(settled),
            reply=bounded_alone(answer(Errors.NONE, first_offset)),
            send=(appended(Errors.NONE, first_offset, last_offset, is_duplicate=True),),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
    )


def _append_row(batch: DataBatch, answer: Answer, left_waiting: Expression) -> Row:
    entry, verified = producers[batch.producer_id], verification_states[batch.producer_id]
    new_epoch = batch.producer_epoch != entry.producer_epoch
    opened = entry.current_txn_first_offset
    last_offset = log_end_offset + batch.offset_delta
    metadata = BatchMetadata(
        last_sequence=batch.last_sequence, last_offset=last_offset,
        offset_delta=batch.offset_delta, timestamp=batch.timestamp,
    )  # fmt: skip
    return Row(
        "append",
        set={
            log: append(
                log,
                LogEntry(
                    kind=Kind.DATA,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    idempotent_only=~batch.transactional,
                    record=batch.record,
                    txn=batch.txn,
                ),
            ),
            log_end_offset: last_offset + 1,
            entry: ProducerStateEntry(
                producer_epoch=batch.producer_epoch,
                batch_metadata=if_(
                    new_epoch | ~batches_kept,
                    sequence_of(metadata),
                    push(entry.batch_metadata, metadata),
                ),
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_first_offset=if_(
                    opened.is_set | ~batch.transactional, opened, some(log_end_offset)
                ),
                last_timestamp=batch.timestamp,
            ),
            verified: if_(batch.transactional, None, verified),
            waiting: left_waiting,
        },
        reply=bounded_alone(answer(Errors.NONE, log_end_offset)),
        send=(appended(Errors.NONE, log_end_offset, last_offset),),
        source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
    )


# Produce ---------------------------------------------------------------------------------------


def of_request(batch: Message, transactional: Expression) -> DataBatch:
    """The batch of a request in a bounded run."""
    return DataBatch(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.base_sequence,
        transactional, batch.record, batch.txn,
    )  # fmt: skip


_id, _epoch = Produce.producer_id, Produce.producer_epoch
_transactional = ~Produce.idempotent_only
_is_verified = Produce.from_client | (offsets_verified & Produce.from_coordinator)
in_transaction = has_ongoing_transaction(_id, _epoch)
"""Whether the batch of a request belongs to the transaction that is open."""
asks_first = (
    asks_coordinator
    & verification_enabled
    & _is_verified
    & _transactional
    & ~Produce.beneath_log
    & ~in_transaction
)
"""Whether the coordinator is asked before a request's batch is appended."""


def _produce_answer(error: Expression, offset: Operand = NO_OFFSET) -> Sending:
    return answer_batch(
        Produce.producer, Produce.partition, Produce.record, Produce.txn, error, offset,
        log_start_offset,
    )  # fmt: skip


def asking_rows(
    asks_first: Expression,
    request: Message,
    sequence: Expression,
    record: Operand,
    answer: Answer,
    updates: Mapping[Expression, Operand] = MappingProxyType({}),
) -> tuple[Row, Row]:
    """The rows for a batch of a request that the coordinator is asked about first, and `updates`
    while it waits.

    ReplicaManager.maybeSendPartitionsToTransactionCoordinator
    """
    producer_id, epoch = request.producer_id, request.producer_epoch
    asked = verification_states[producer_id]
    return (
        Row(
            "stale epoch, before asking",
            when=asks_first & (epoch < producers[producer_id].producer_epoch),
            during=stale_epoch_first & asks_coordinator,
            reply=bounded_alone(answer(Errors.INVALID_PRODUCER_EPOCH, NO_OFFSET)),
            send=(appended(Errors.INVALID_PRODUCER_EPOCH),),
            source="KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "ask the coordinator",
            when=asks_first,
            during=asks_coordinator,
            set={
                **maybe_create_verification_state_entry(producer_id, epoch, sequence),
                waiting[request.producer]: some(
                    Batch(
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        base_sequence=sequence,
                        record=record,
                        txn=request.txn,
                        guarded=True,
                    )
                ),
                **updates,
            },
            send=(
                dataclasses.replace(
                    AddPartitionsByLeader(
                        partition=request.partition,
                        producer=request.producer,
                        producer_id=producer_id,
                        producer_epoch=epoch,
                    ),
                    only_bounded=True,
                ),
                AppendResponse(
                    error=Errors.NONE,
                    first_offset=NO_OFFSET,
                    last_offset=NO_OFFSET,
                    is_duplicate=False,
                    guard=some(if_(asked.is_set, asked.value.verification_guard, guards)),
                ),
            ),
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
    )


produce = Table(
    partition,
    on=Produce,
    response=AppendResponse,
    others=(producer, clock),
    bounded_when=~(
        asks_first & (waiting[Produce.producer].is_set | Produce.producer.is_in(orphaned))
    ),
    doc="A producer's second batch waits until the coordinator has answered about its first.",
    rows=(
        *asking_rows(
            asks_first,
            Produce,
            Produce.base_sequence,
            Produce.record,
            _produce_answer,
        ),
        *append_rows(
            replace(
                of_request(Produce, _transactional),
                last_sequence=Produce.last_sequence,
                offset_delta=Produce.offset_delta,
                timestamp=Produce.timestamp,
                from_client=Produce.from_client,
                may_repeat=Produce.from_client & ~Produce.beneath_log,
                epoch_counts=Produce.from_client | (followers_only_warn & Produce.from_coordinator),
            ),
            _produce_answer,
            {},
            unguarded(_id, unless=~_transactional),
        ),
    ),
)

TABLES = (produce,)
