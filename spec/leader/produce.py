"""A partition leader takes a Produce.

The leader checks a batch and appends it in one step. Where the batch may begin a transaction, the
leader first asks the coordinator; `verification` has the answer.

Questions to the coordinator go out one by one. A broker queues them, and a newer one of the same
transactional id replaces an older one in the queue. The older one fails as if the coordinator had
refused it, or is tried again. In a bounded run a batch is one record, and its offset is its place
in the log.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Machine,
    Optional,
    Row,
    Sending,
    Table,
    append,
    if_,
    message,
    push,
    sequence_of,
    some,
)
from ...language.expressions import Operand
from ..answers import answer_batch
from ..messages import (
    ANY_OFFSET,
    NO_EPOCH,
    NO_OFFSET,
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

asker = Machine("asker", doc="A client, a coordinator or a fetcher that appends at real ranges.")
AppendResponse = message(
    "AppendResponse",
    asker,
    error=Errors,
    first_offset=ANY_OFFSET,
    last_offset=ANY_OFFSET,
    is_duplicate=Bool(),
    guard=Optional(leader.GUARD),
    message_doc="`is_duplicate`: the batch was appended before, and nothing is appended now. "
    "`guard`: the broker asks the coordinator first, under this guard.",
)


def append_response(
    error: Expression,
    first: Operand = NO_OFFSET,
    last: Operand = NO_OFFSET,
    *,
    is_duplicate: bool = False,
    guard: Operand = None,
) -> Sending:
    """The answer to a caller at real ranges: an error, or the offsets of the batch."""
    return AppendResponse(
        error=error, first_offset=first, last_offset=last, is_duplicate=is_duplicate, guard=guard
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
    leader.asks_coordinator_now
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
                AddPartitionsByLeader(
                    partition=Produce.partition,
                    producer=Produce.producer,
                    producer_id=Produce.producer_id,
                    producer_epoch=Produce.producer_epoch,
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
