"""The coordinator's answer about a transaction, at the leader that asked it.

The batch waited for the answer. If the transaction has the partition, the leader checks the batch
and appends it.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    Sending,
    Table,
    append,
    if_,
    lost,
    push,
    sequence_of,
    set_of,
    some,
    updated,
)
from ...language.expressions import Operand
from ..answers import answer_batch
from ..messages import (
    LOSSES,
    NO_EPOCH,
    NO_OFFSET,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    moved,
    partition,
    producer,
    waiting,
)
from ..releases.features import (
    abortable_error,
    batches_kept,
    followers_only_warn,
    no_start_in_mid_sequence,
    offset_errors_unchanged,
    offsets_verified,
    ongoing_by_epoch,
    stale_answer_first,
    stale_epoch_first,
    transaction_version_2,
    verification,
)
from .produce import AppendResponse, append_response
from .state import (
    BatchMetadata,
    Kind,
    LogEntry,
    ProducerStateEntry,
    asks_coordinator,
    asks_coordinator_now,
    duplicate_batch,
    has_ongoing_transaction,
    is_empty,
    log,
    log_end_offset,
    log_start_offset,
    next_sequence,
    orphaned,
    producers,
    unguarded,
    verification_enabled,
    verification_states,
)

asks_about_offsets = asks_coordinator & offsets_verified
"""Whether a leader asks the coordinator about the offsets that a group's coordinator appends."""
asks_about_offsets_now = asks_coordinator_now & offsets_verified
"""The same by its setting."""


# The answer ---------------------------------------------------------------------------------------

answer = AddPartitionsByLeaderResponse
waiting_batch = waiting[answer.producer]
entry = producers[answer.producer_id]
verification_state = verification_states[answer.producer_id]

transient_errors_converted = answer.from_client | ~offset_errors_unchanged
"""Whether a transient error becomes one that every client retries: from 3.8 on a group's
coordinator gets it unchanged."""
is_first = ~has_ongoing_transaction(answer.producer_id, answer.producer_epoch)
"""Whether the batch begins a transaction here."""
stale_epoch = answer.producer_epoch < entry.producer_epoch
same_epoch = answer.producer_epoch == entry.producer_epoch
duplicate = duplicate_batch(entry, answer.last_sequence, answer.offset_delta)
duplicate_offset = duplicate.value.last_offset - duplicate.value.offset_delta
last_offset = log_end_offset + answer.offset_delta
appended_batch = BatchMetadata(
    last_sequence=answer.last_sequence,
    last_offset=last_offset,
    offset_delta=answer.offset_delta,
    timestamp=answer.timestamp,
)


def produce_response(error: Expression, base_offset: Operand = NO_OFFSET) -> Sending:
    """The answer to the client of a bounded run."""
    return answer_batch(
        answer.producer,
        answer.partition,
        waiting_batch.value.record,
        waiting_batch.value.txn,
        error,
        base_offset,
        log_start_offset,
    )


verified = Table(
    partition,
    on=AddPartitionsByLeaderResponse,
    response=AppendResponse,
    others=(producer,),
    during=asks_coordinator,
    rows=(
        Row(
            "producer-fenced",
            "The producer is fenced: its clients know another error for it",
            when=answer.error == Errors.PRODUCER_FENCED,
            set={waiting_batch: None},
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(append_response(Errors.INVALID_PRODUCER_EPOCH),),
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete",
            note="If batches of two epochs wait to be asked about, the leader answers so to the "
            "older one by itself (AddPartitionsToTxnManager.addTxnData). The coordinator would "
            "fence it, too: it gave the newer epoch.",
        ),
        Row(
            "abortable-unknown",
            "The client is older than TRANSACTION_ABORTABLE",
            when=answer.error == Errors.TRANSACTION_ABORTABLE,
            set={waiting_batch: None},
            reply=produce_response(Errors.INVALID_TXN_STATE),
            send=(append_response(Errors.INVALID_TXN_STATE),),
            during=~abortable_error,
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete",
        ),
        Row(
            "concurrent-transactions",
            "The coordinator still completes the last transaction",
            when=transient_errors_converted & (answer.error == Errors.CONCURRENT_TRANSACTIONS),
            set={waiting_batch: None},
            reply=produce_response(Errors.NOT_ENOUGH_REPLICAS),
            send=(append_response(Errors.NOT_ENOUGH_REPLICAS),),
            during=~transaction_version_2,
            source="ReplicaManager.handleProduceAppend",
        ),
        Row(
            "coordinator-unavailable",
            "The coordinator has moved, or is loading",
            when=transient_errors_converted & answer.error.is_in(*moved),
            set={waiting_batch: None},
            reply=produce_response(Errors.NOT_ENOUGH_REPLICAS),
            send=(append_response(Errors.NOT_ENOUGH_REPLICAS),),
            source="ReplicaManager.handleProduceAppend",
        ),
        Row(
            "refused",
            "The coordinator refuses the batch",
            when=answer.error != Errors.NONE,
            set={waiting_batch: None},
            reply=produce_response(answer.error),
            send=(append_response(answer.error),),
            source="ReplicaManager.handleProduceAppend",
        ),
        Row(
            "duplicate",
            "One of the last batches comes again",
            when=answer.from_client & same_epoch & duplicate.is_set,
            set={waiting_batch: None},
            reply=produce_response(Errors.NONE, duplicate_offset),
            send=(
                append_response(
                    Errors.NONE,
                    duplicate_offset,
                    duplicate.value.last_offset,
                    is_duplicate=True,
                ),
            ),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "stale-epoch-verified",
            "The epoch has become stale while the coordinator was asked",
            when=is_first & stale_epoch,
            set={waiting_batch: None},
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(append_response(Errors.INVALID_PRODUCER_EPOCH),),
            during=stale_epoch_first | stale_answer_first,
            source="KAFKA-19690, UnifiedLog.analyzeAndValidateProducerState",
        ),
        Row(
            "guard-mismatch",
            "The verification guard is no longer the one that counts",
            when=is_first & verification_enabled & ~answer.guarded,
            set={waiting_batch: None},
            reply=produce_response(Errors.INVALID_TXN_STATE),
            send=(append_response(Errors.INVALID_TXN_STATE),),
            during=verification,
            source="UnifiedLog.batchMissingRequiredVerification",
        ),
        Row(
            "stale-epoch",
            "The epoch is older than the producer's",
            when=(answer.from_client | followers_only_warn) & stale_epoch,
            set={waiting_batch: None},
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            send=(append_response(Errors.INVALID_PRODUCER_EPOCH),),
            # with both, a stale batch begins a transaction here, and was refused above
            during=~(stale_epoch_first & ongoing_by_epoch),
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "no-state-mid-sequence",
            "Without batches of the producer, transaction version 2 starts at sequence 0",
            when=answer.from_client
            & verification_state.is_set
            & verification_state.value.supports_epoch_bump
            & (answer.base_sequence != 0)
            & is_empty(entry),
            set={waiting_batch: None},
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            during=no_start_in_mid_sequence,
            source="KAFKA-18202, ProducerAppendInfo.checkSequence",
        ),
        Row(
            "above-lowest-sequence",
            "A batch with a lower sequence is being verified",
            when=answer.from_client
            & verification_state.is_set
            & (answer.base_sequence > verification_state.value.lowest_sequence),
            set={waiting_batch: None},
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            during=asks_coordinator,
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "new-epoch-mid-sequence",
            "A new epoch starts at sequence 0",
            when=answer.from_client
            & ~same_epoch
            & (answer.base_sequence != 0)
            & (entry.producer_epoch != NO_EPOCH),
            set={waiting_batch: None},
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "out-of-order",
            "The sequence does not follow the producer's last one",
            when=answer.from_client & same_epoch & (answer.base_sequence != next_sequence(entry)),
            set={waiting_batch: None},
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            send=(append_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "append",
            "The batch is appended, and may begin a transaction",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=answer.producer_id,
                        producer_epoch=answer.producer_epoch,
                        idempotent_only=False,
                        record=waiting_batch.value.record,
                        txn=waiting_batch.value.txn,
                    ),
                ),
                log_end_offset: last_offset + 1,
                entry: ProducerStateEntry(
                    producer_epoch=answer.producer_epoch,
                    batch_metadata=if_(
                        ~same_epoch | ~batches_kept,
                        sequence_of(appended_batch),
                        push(entry.batch_metadata, appended_batch),
                    ),
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=if_(
                        entry.current_txn_first_offset.is_set,
                        entry.current_txn_first_offset,
                        some(log_end_offset),
                    ),
                    last_timestamp=answer.timestamp,
                ),
                verification_state: None,
                waiting: updated(unguarded(answer.producer_id), answer.producer, None),
            },
            reply=produce_response(Errors.NONE, log_end_offset),
            send=(append_response(Errors.NONE, log_end_offset, last_offset),),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)

# A question or its answer is lost -----------------------------------------------------------------

lost_question = lost(AddPartitionsByLeader)
question_lost = Table(
    partition,
    on=lost_question,
    others=(producer,),
    when=LOSSES > 0,
    during=asks_coordinator,
    rows=(
        Row(
            "earlier-leader",
            "An earlier leader asked: nobody waits for the answer",
            when=lost_question.producer.is_in(orphaned),
            set={orphaned: orphaned - set_of(lost_question.producer)},
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete",
        ),
        Row(
            "network-exception",
            "The question is lost: the producer tries again",
            set={waiting[lost_question.producer]: None},
            send=(
                answer_batch(
                    lost_question.producer,
                    lost_question.partition,
                    waiting[lost_question.producer].value.record,
                    waiting[lost_question.producer].value.txn,
                    Errors.NOT_ENOUGH_REPLICAS,
                ),
            ),
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete, "
            "ReplicaManager.handleProduceAppend",
            note="Before 3.7.1 the producer gets NETWORK_EXCEPTION, and does the same.",
        ),
    ),
)

lost_answer = lost(AddPartitionsByLeaderResponse)
answer_lost = Table(
    partition,
    on=lost_answer,
    others=(producer,),
    when=LOSSES > 0,
    during=asks_coordinator,
    rows=(
        Row(
            "earlier-leader",
            "An earlier leader asked: nobody waits for the answer",
            when=lost_answer.producer.is_in(orphaned),
            set={orphaned: orphaned - set_of(lost_answer.producer)},
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete",
        ),
        Row(
            "network-exception",
            "The answer is lost: the producer tries again",
            set={waiting[lost_answer.producer]: None},
            send=(
                answer_batch(
                    lost_answer.producer,
                    lost_answer.partition,
                    waiting[lost_answer.producer].value.record,
                    waiting[lost_answer.producer].value.txn,
                    Errors.NOT_ENOUGH_REPLICAS,
                ),
            ),
            source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete, "
            "ReplicaManager.handleProduceAppend",
            note="Before 3.7.1 the producer gets NETWORK_EXCEPTION, and does the same.",
        ),
    ),
)

FAULTY_EVENTS = (lost_question, lost_answer)
TABLES = (verified, question_lost, answer_lost)
