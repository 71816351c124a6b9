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
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

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
from ..answers import answer_batch, bounded_only
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
from ..releases import features
from . import state as leader

Updates = Mapping[Expression, Operand]
_NOTHING: Updates = MappingProxyType({})
_ANALYZE = "UnifiedLog.analyzeAndValidateProducerState"
CHECK_EPOCH = "ProducerAppendInfo.checkProducerEpoch"
_SEQUENCE = "ProducerAppendInfo.checkSequence"
_FALSE = lift(False)


class Question(NamedTuple):
    """Whether a batch `starts` a transaction, which has to be verified, and whether the question to
    the coordinator about it still `counts`."""

    starts: Expression
    counts: Expression


@dataclass(frozen=True, kw_only=True)
class DataBatch:
    """A batch of data as a leader takes it: by default what a client sends in a bounded run, one
    record at the log's end.

    `from_client` says whether sequences are checked, `epoch_counts` whether the epoch is,
    `may_repeat` whether duplicates are looked for. Without a `question` there was no need to ask.
    One that `waited` is transactional, and its version is one that knows asking.
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
    question: Question | None = None
    waited: bool = False

    @property
    def entry(self) -> Expression:
        """The leader's state for its producer id."""
        return leader.producers[self.producer_id]

    @property
    def verified(self) -> Expression:
        """The state of the question about its producer id."""
        return leader.verification_states[self.producer_id]

    @property
    def has_new_epoch(self) -> Expression:
        return self.producer_epoch != self.entry.producer_epoch


class Check(NamedTuple):
    """A check: where `when` holds, the error is answered. The first one that fails counts."""

    name: str
    when: Expression
    error: Expression
    source: str
    during: Expression = TRUE
    only_real: bool = False

    def refuse(self, reply: Sending | None, *send: Sending, changes: Updates = _NOTHING) -> Row:
        """The row that answers it."""
        return Row(
            self.name, when=self.when, set=dict(changes), reply=reply, send=send,
            source=self.source, during=self.during, only_real=self.only_real,
        )  # fmt: skip


asker = Machine("asker", doc="A client, a coordinator or a fetcher that appends at real ranges.")
AppendResponse = message(
    "AppendResponse", asker, only_real=True, error=Errors, first_offset=ANY_OFFSET,
    last_offset=ANY_OFFSET, is_duplicate=Bool(), guard=Optional(leader.GUARD),
    message_doc="`is_duplicate`: answered from memory, nothing was appended. `guard`: the "
    "coordinator is to be asked first, under this guard.",
)  # fmt: skip


def append_response(
    error: Expression,
    first: Operand = NO_OFFSET,
    last: Operand = NO_OFFSET,
    *,
    is_duplicate: bool = False,
    guard: Operand = None,
) -> Sending:
    return AppendResponse(
        error=error, first_offset=first, last_offset=last, is_duplicate=is_duplicate, guard=guard
    )


Answer: TypeAlias = Callable[[Expression, Operand], Sending | None]
"""The answer to a batch in a bounded run: an error, and the offset that it has got."""


def bounded_alone(sending: Sending | None) -> Sending | None:
    """The message as one of bounded runs alone; a leader at real ranges answers its asker."""
    return None if sending is None else dataclasses.replace(sending, only_bounded=True)


# Asking the coordinator first -------------------------------------------------------------------


def asking_rows(
    request: Message, *, asks_first: Expression, sequence: Expression, record: Operand,
    answer: Answer, asked: Updates = _NOTHING,
) -> tuple[Row, Row]:  # fmt: skip
    """The rows for a batch of a request that the coordinator is asked about first, and what is
    `asked` while it waits.

    ReplicaManager.maybeSendPartitionsToTransactionCoordinator
    """
    producer_id, epoch = request.producer_id, request.producer_epoch
    state = leader.verification_states[producer_id]
    guard = if_(state.is_set, state.value.verification_guard, leader.guards)
    waits = Batch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, record=record,
        txn=request.txn, guarded=True,
    )  # fmt: skip
    question = AddPartitionsByLeader(
        partition=request.partition, producer=request.producer, producer_id=producer_id,
        producer_epoch=epoch,
    )  # fmt: skip
    stale = Check(
        "stale epoch, before asking",
        asks_first & (epoch < leader.producers[producer_id].producer_epoch),
        Errors.INVALID_PRODUCER_EPOCH,
        "KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        features.stale_epoch_first & leader.asks_coordinator,
    )
    return (
        _refused(stale, answer),
        Row(
            "ask the coordinator",
            when=asks_first,
            during=leader.asks_coordinator,
            set={
                state: some(leader.verification_state_entry(producer_id, epoch, sequence)),
                leader.guards: if_(state.is_set, leader.guards, leader.guards + 1),
                waiting[request.producer]: some(waits),
                **asked,
            },
            send=(
                dataclasses.replace(question, only_bounded=True),
                append_response(Errors.NONE, guard=some(guard)),
            ),
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
    )


# The checks of a batch, in their order, and its append -----------------------------------------


def append_rows(
    batch: DataBatch, answer: Answer, *, settled: Updates = _NOTHING,
    left_waiting: Expression = waiting, stored: Updates = _NOTHING,
) -> tuple[Row, ...]:  # fmt: skip
    """The checks of a data batch in their order, and what appending it changes.

    `settled` is what the batch's outcome clears, `left_waiting` the batches that wait after an
    append, `stored` what else an append changes.
    """
    checks = (*_question(batch), *_epoch(batch), *_sequence(batch), *_transaction(batch))
    return (
        *_duplicate_rows(batch, answer, settled),
        *(_refused(check, answer, settled) for check in checks),
        _append_row(batch, answer, left_waiting, stored),
    )


def _refused(check: Check, answer: Answer, changes: Updates = _NOTHING) -> Row:
    reply = bounded_alone(answer(check.error, NO_OFFSET))
    return check.refuse(reply, append_response(check.error), changes=changes)


def _duplicate_rows(batch: DataBatch, answer: Answer, settled: Updates) -> tuple[Row, ...]:
    """One of the last batches comes again."""
    cached = element("cached", batch.entry.batch_metadata)
    same = (cached.last_sequence == batch.last_sequence) & (
        cached.offset_delta == batch.offset_delta
    )
    found = first_of(cached, same)
    last_offset = found.value.last_offset
    first_offset = last_offset - found.value.offset_delta
    return leader.only_where(
        not batch.may_repeat.same_as(_FALSE),
        Row(
            "duplicate",
            when=leader.where(batch.may_repeat, ~batch.has_new_epoch & found.is_set),
            set=dict(settled),
            reply=bounded_alone(answer(Errors.NONE, first_offset)),
            send=(append_response(Errors.NONE, first_offset, last_offset, is_duplicate=True),),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
    )


def _question(batch: DataBatch) -> tuple[Check, ...]:
    """UnifiedLog's checks of a batch that starts a transaction."""
    if batch.question is None:
        return ()
    starts, counts = batch.question
    return (
        Check(
            "stale epoch, whatever the answer",
            starts & (batch.producer_epoch < batch.entry.producer_epoch),
            Errors.INVALID_PRODUCER_EPOCH,
            f"KAFKA-19690, {_ANALYZE}",
            features.stale_epoch_first | features.stale_answer_first,
        ),
        Check(
            "question no longer counts",
            starts & ~counts,
            Errors.INVALID_TXN_STATE,
            _ANALYZE,
            features.verification,
        ),
    )


def _epoch(batch: DataBatch) -> tuple[Check, ...]:
    """ProducerAppendInfo.checkProducerEpoch"""
    # else it was refused before: in the open transaction it would be of its epoch
    refused_before = features.stale_epoch_first & features.ongoing_by_epoch
    stale = batch.producer_epoch < batch.entry.producer_epoch
    return (
        Check(
            "stale epoch",
            leader.where(batch.epoch_counts, stale),
            Errors.INVALID_PRODUCER_EPOCH,
            CHECK_EPOCH,
            ~refused_before if batch.waited else TRUE,
        ),
    )


def _sequence(batch: DataBatch) -> tuple[Check, ...]:
    """ProducerAppendInfo.checkSequence, unless no batch of the kind has a sequence."""
    sequence, new_epoch = batch.base_sequence, batch.has_new_epoch
    entry, verified = batch.entry, batch.verified
    unknown = entry.producer_epoch == NO_EPOCH
    without_batches = size(entry.batch_metadata) == 0
    newest = last(entry.batch_metadata)
    following = if_(newest.is_set, wrap(newest.value.last_sequence + 1, SEQUENCE), 0)
    out_of_order = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_unknown = features.unknown_producer_error & (unknown | features.unknown_sequence_error)
    checks = (
        Check(
            "starts in mid-sequence",
            verified.is_set
            & verified.value.supports_epoch_bump
            & (sequence != 0)
            & without_batches,
            out_of_order,
            "KAFKA-18202",
            features.no_start_in_mid_sequence,
        ),
        Check(
            "above the first to come",
            verified.is_set & (sequence > verified.value.lowest_sequence),
            out_of_order,
            _SEQUENCE,
            leader.asks_coordinator,
        ),
        Check(
            "last sequence not known",
            (unknown | (~new_epoch & without_batches)) & (sequence != 0),
            if_(is_unknown, Errors.UNKNOWN_PRODUCER_ID, out_of_order),
            "KAFKA-5793, KAFKA-7298",
            ~features.unknown_producer_accepted,
        ),
        Check(
            "new epoch in mid-sequence",
            new_epoch & (sequence != 0) & ~unknown,
            out_of_order,
            _SEQUENCE,
        ),
        Check("out of order", ~new_epoch & (sequence != following), out_of_order, _SEQUENCE),
    )
    return tuple(
        check._replace(when=leader.where(batch.from_client, check.when))
        for check in checks
        if not batch.from_client.same_as(_FALSE)
        if not (batch.waited and check.name == "last sequence not known")
    )


def _transaction(batch: DataBatch) -> tuple[Check, ...]:
    """ProducerAppendInfo.appendDataBatch: one that isn't transactional, while a transaction is
    open."""
    check = Check(
        "not transactional in a transaction",
        batch.entry.current_txn_first_offset.is_set & ~batch.transactional,
        Errors.INVALID_TXN_STATE,
        "ProducerAppendInfo.appendDataBatch",
    )
    return () if batch.waited or batch.transactional.same_as(TRUE) else (check,)


def _append_row(batch: DataBatch, answer: Answer, left_waiting: Expression, stored: Updates) -> Row:
    entry, end = batch.entry, leader.log_end_offset
    last_offset = end + batch.offset_delta
    opened = entry.current_txn_first_offset
    metadata = leader.BatchMetadata(
        last_sequence=batch.last_sequence, last_offset=last_offset,
        offset_delta=batch.offset_delta, timestamp=batch.timestamp,
    )  # fmt: skip
    return Row(
        "append",
        set={
            leader.log: append(
                leader.log,
                leader.LogEntry(
                    kind=leader.Kind.DATA,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    idempotent_only=~batch.transactional,
                    record=batch.record,
                    txn=batch.txn,
                ),
            ),
            leader.log_end_offset: last_offset + 1,
            entry: leader.ProducerStateEntry(
                producer_epoch=batch.producer_epoch,
                batch_metadata=if_(
                    batch.has_new_epoch | ~features.batches_kept,
                    sequence_of(metadata),
                    push(entry.batch_metadata, metadata),
                ),
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_first_offset=if_(
                    opened.is_set | ~batch.transactional, opened, some(end)
                ),
                last_timestamp=batch.timestamp,
            ),
            batch.verified: if_(batch.transactional, None, batch.verified),
            waiting: left_waiting,
            **stored,
        },
        reply=bounded_alone(answer(Errors.NONE, end)),
        send=(append_response(Errors.NONE, end, last_offset),),
        source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
    )


# Produce ---------------------------------------------------------------------------------------

entry = leader.producers[Produce.producer_id]
verification_state = leader.verification_states[Produce.producer_id]
is_transactional = ~Produce.idempotent_only
from_client_or_coordinator = Produce.from_client | (
    features.offsets_verified & Produce.from_coordinator
)
in_transaction = leader.has_ongoing_transaction(Produce.producer_id, Produce.producer_epoch)
"""Whether the batch belongs to the transaction that is open."""
needs_verification = (
    leader.asks_coordinator
    & leader.verification_enabled
    & from_client_or_coordinator
    & is_transactional
    & ~Produce.beneath_log
    & ~in_transaction
)
"""Whether the leader asks the coordinator before it appends the batch."""

stale_epoch = Produce.producer_epoch < entry.producer_epoch
same_epoch = Produce.producer_epoch == entry.producer_epoch
duplicate_batch = leader.duplicate_batch(entry, Produce.last_sequence, Produce.offset_delta)
duplicate_offset = duplicate_batch.value.last_offset - duplicate_batch.value.offset_delta
last_offset = leader.log_end_offset + Produce.offset_delta
appended_batch = leader.BatchMetadata(
    last_sequence=Produce.last_sequence,
    last_offset=last_offset,
    offset_delta=Produce.offset_delta,
    timestamp=Produce.timestamp,
)


def produce_response(error: Expression, base_offset: Operand = NO_OFFSET) -> Sending:
    """The answer to the client of a bounded run."""
    return answer_batch(
        Produce.producer,
        Produce.partition,
        Produce.record,
        Produce.txn,
        error,
        base_offset,
        leader.log_start_offset,
    )


produce = Table(
    partition,
    on=Produce,
    response=AppendResponse,
    others=(producer, clock),
    bounded_when=~(
        needs_verification
        & (waiting[Produce.producer].is_set | Produce.producer.is_in(leader.orphaned))
    ),
    doc="A producer's second batch waits until the coordinator has answered about its first.",
    rows=(
        Row(
            "stale-epoch-unverified",
            "The epoch is stale: the coordinator is not asked",
            when=needs_verification & stale_epoch,
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(append_response(Errors.INVALID_PRODUCER_EPOCH),),
            during=features.stale_epoch_first & leader.asks_coordinator,
            source="KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "verify",
            "The leader asks the coordinator about the transaction",
            when=needs_verification,
            set={
                verification_state: some(
                    leader.verification_state_entry(
                        Produce.producer_id, Produce.producer_epoch, Produce.base_sequence
                    )
                ),
                leader.guards: if_(verification_state.is_set, leader.guards, leader.guards + 1),
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
                bounded_only(
                    AddPartitionsByLeader(
                        partition=Produce.partition,
                        producer=Produce.producer,
                        producer_id=Produce.producer_id,
                        producer_epoch=Produce.producer_epoch,
                    )
                ),
                append_response(
                    Errors.NONE,
                    guard=some(
                        if_(
                            verification_state.is_set,
                            verification_state.value.verification_guard,
                            leader.guards,
                        )
                    ),
                ),
            ),
            during=leader.asks_coordinator,
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
        Row(
            "duplicate",
            "One of the last batches comes again",
            when=Produce.from_client & ~Produce.beneath_log & same_epoch & duplicate_batch.is_set,
            reply=produce_response(Errors.NONE, duplicate_offset),
            send=(
                append_response(
                    Errors.NONE,
                    duplicate_offset,
                    duplicate_batch.value.last_offset,
                    is_duplicate=True,
                ),
            ),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "stale-epoch",
            "The epoch is older than the producer's",
            when=(Produce.from_client | (features.followers_only_warn & Produce.from_coordinator))
            & stale_epoch,
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(append_response(Errors.INVALID_PRODUCER_EPOCH),),
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "no-state-mid-sequence",
            "Without batches of the producer, transaction version 2 starts at sequence 0",
            when=Produce.from_client
            & verification_state.is_set
            & verification_state.value.supports_epoch_bump
            & (Produce.base_sequence != 0)
            & leader.is_empty(entry),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            during=features.no_start_in_mid_sequence,
            source="KAFKA-18202, ProducerAppendInfo.checkSequence",
        ),
        Row(
            "above-lowest-sequence",
            "A batch with a lower sequence is being verified",
            when=Produce.from_client
            & verification_state.is_set
            & (Produce.base_sequence > verification_state.value.lowest_sequence),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            during=leader.asks_coordinator,
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "last-sequence-unknown",
            "The producer's last sequence is not known",
            when=Produce.from_client
            & ((entry.producer_epoch == NO_EPOCH) | (same_epoch & leader.is_empty(entry)))
            & (Produce.base_sequence != 0),
            reply=produce_response(
                if_(
                    features.unknown_producer_error
                    & ((entry.producer_epoch == NO_EPOCH) | features.unknown_sequence_error),
                    Errors.UNKNOWN_PRODUCER_ID,
                    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                )
            ),
            send=(
                append_response(
                    if_(
                        features.unknown_producer_error
                        & ((entry.producer_epoch == NO_EPOCH) | features.unknown_sequence_error),
                        Errors.UNKNOWN_PRODUCER_ID,
                        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    )
                ),
            ),
            during=~features.unknown_producer_accepted,
            source="KAFKA-5793, KAFKA-7298, ProducerAppendInfo.checkSequence before 2.5",
        ),
        Row(
            "new-epoch-mid-sequence",
            "A new epoch starts at sequence 0",
            when=Produce.from_client
            & ~same_epoch
            & (Produce.base_sequence != 0)
            & (entry.producer_epoch != NO_EPOCH),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "out-of-order",
            "The sequence does not follow the producer's last one",
            when=Produce.from_client
            & same_epoch
            & (Produce.base_sequence != leader.next_sequence(entry)),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "not-transactional",
            "A transaction is open, and the batch is not transactional",
            when=entry.current_txn_first_offset.is_set & ~is_transactional,
            reply=produce_response(Errors.INVALID_TXN_STATE),
            send=(append_response(Errors.INVALID_TXN_STATE),),
            source="ProducerAppendInfo.appendDataBatch",
        ),
        Row(
            "append",
            "The batch is appended, and may begin a transaction",
            set={
                leader.log: append(
                    leader.log,
                    leader.LogEntry(
                        kind=leader.Kind.DATA,
                        producer_id=Produce.producer_id,
                        producer_epoch=Produce.producer_epoch,
                        idempotent_only=~is_transactional,
                        record=Produce.record,
                        txn=Produce.txn,
                    ),
                ),
                leader.log_end_offset: last_offset + 1,
                entry: leader.ProducerStateEntry(
                    producer_epoch=Produce.producer_epoch,
                    batch_metadata=if_(
                        ~same_epoch | ~features.batches_kept,
                        sequence_of(appended_batch),
                        push(entry.batch_metadata, appended_batch),
                    ),
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=if_(
                        entry.current_txn_first_offset.is_set | ~is_transactional,
                        entry.current_txn_first_offset,
                        some(leader.log_end_offset),
                    ),
                    last_timestamp=Produce.timestamp,
                ),
                verification_state: if_(is_transactional, None, verification_state),
                waiting: leader.unguarded(Produce.producer_id, unless=~is_transactional),
            },
            reply=produce_response(Errors.NONE, leader.log_end_offset),
            send=(append_response(Errors.NONE, leader.log_end_offset, last_offset),),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)

TABLES = (produce,)
