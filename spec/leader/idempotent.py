"""A leader that serves a client without transactional id.

Such a client has no transaction: the coordinator is not asked, and no batch waits for it.
"""

from __future__ import annotations

from ...language import (
    Row,
    Table,
    any_of,
    append,
    constant,
    each,
    if_,
    in_transit,
    push,
    replace,
    sequence_of,
    those,
)
from ..answers import answer_batch
from ..client import state as client
from ..client.batches.epochs import DelayedProduce
from ..messages import (
    LEADER_CHANGES,
    NO_EPOCH,
    NO_TIMESTAMP,
    PRODUCER_EXPIRIES,
    RECORD,
    Errors,
    Produce,
    clock,
    partition,
    producer,
    waiting,
)
from ..releases.features import (
    batches_kept,
    client_epoch_bump,
    idempotent_starts_at_0,
    no_start_in_mid_sequence,
    unknown_producer_accepted,
    unknown_producer_error,
    unknown_sequence_error,
)
from . import recovery
from .produce import AppendResponse, produce_response
from .state import (
    UNKNOWN,
    BatchMetadata,
    Kind,
    LogEntry,
    ProducerStateEntry,
    asks_coordinator,
    c,
    duplicate_batch,
    is_empty,
    log,
    log_end_offset,
    log_start_offset,
    n,
    next_sequence,
    orphaned,
    producers,
    verification_states,
)

REFUSALS = constant(
    "refusals", 1, 0, 1, meaning="1: a leader may refuse a request for good, as one too large"
)
SHORTAGES = constant(
    "shortages", 1, 0, 1, meaning="1: a leader may have too few replicas for a request"
)

refused = in_transit("refused", Produce)
postponed = in_transit("postponed", Produce)

# Produce ------------------------------------------------------------------------------------------

entry = producers[Produce.producer_id]
verification_state = verification_states[Produce.producer_id]


produce = Table(
    partition,
    on=Produce,
    others=(producer,),
    response=AppendResponse,
    rows=(
        Row(
            "no-producer-id",
            "A batch without producer id is not checked",
            when=Produce.producer_epoch == NO_EPOCH,
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=Produce.producer_id,
                        producer_epoch=NO_EPOCH,
                        idempotent_only=True,
                        record=Produce.record,
                    ),
                )
            },
            reply=produce_response(Errors.NONE, log_end_offset),
            source="UnifiedLog.analyzeAndValidateProducerState",
        ),
        Row(
            "unknown-mid-sequence",
            "An unknown producer starts at sequence 0",
            when=(entry.producer_epoch == NO_EPOCH) & (Produce.base_sequence != 0),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            during=idempotent_starts_at_0,
            source="ProducerAppendInfo.checkSequence, as KAFKA-18202 has it for transactions",
        ),
        Row(
            "duplicate",
            "One of the last batches comes again",
            when=(Produce.producer_epoch == entry.producer_epoch)
            & duplicate_batch(entry, Produce.base_sequence, 0).is_set,
            reply=produce_response(
                Errors.NONE, duplicate_batch(entry, Produce.base_sequence, 0).value.last_offset
            ),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "stale-epoch",
            "The epoch is older than the producer's",
            when=Produce.producer_epoch < entry.producer_epoch,
            reply=produce_response(Errors.INVALID_PRODUCER_EPOCH),
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "no-state-mid-sequence",
            "Without batches of the producer, transaction version 2 starts at sequence 0",
            when=verification_state.is_set
            & verification_state.value.supports_epoch_bump
            & (Produce.base_sequence != 0)
            & is_empty(entry),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            during=no_start_in_mid_sequence,
            source="KAFKA-18202, ProducerAppendInfo.checkSequence",
        ),
        Row(
            "above-lowest-sequence",
            "A batch with a lower sequence is being verified",
            when=verification_state.is_set
            & (Produce.base_sequence > verification_state.value.lowest_sequence),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            during=asks_coordinator,
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "last-sequence-unknown",
            "The producer's last sequence is not known",
            when=(
                (entry.producer_epoch == NO_EPOCH)
                | ((Produce.producer_epoch == entry.producer_epoch) & is_empty(entry))
            )
            & (Produce.base_sequence != 0),
            reply=produce_response(
                if_(
                    unknown_producer_error
                    & ((entry.producer_epoch == NO_EPOCH) | unknown_sequence_error),
                    Errors.UNKNOWN_PRODUCER_ID,
                    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                )
            ),
            during=~unknown_producer_accepted,
            source="KAFKA-5793, KAFKA-7298, ProducerAppendInfo.checkSequence before 2.5",
        ),
        Row(
            "new-epoch-mid-sequence",
            "A new epoch starts at sequence 0",
            when=(Produce.producer_epoch != entry.producer_epoch)
            & (Produce.base_sequence != 0)
            & (entry.producer_epoch != NO_EPOCH),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "out-of-order",
            "The sequence does not follow the producer's last one",
            when=(Produce.producer_epoch == entry.producer_epoch)
            & (Produce.base_sequence != next_sequence(entry)),
            reply=produce_response(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "not-transactional",
            "A transaction is open, and the batch is not transactional",
            when=entry.current_txn_first_offset.is_set,
            reply=produce_response(Errors.INVALID_TXN_STATE),
            source="ProducerAppendInfo.appendDataBatch",
        ),
        Row(
            "append",
            "The batch is appended",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=Produce.producer_id,
                        producer_epoch=Produce.producer_epoch,
                        idempotent_only=True,
                        record=Produce.record,
                        txn=Produce.txn,
                    ),
                ),
                entry: ProducerStateEntry(
                    producer_epoch=Produce.producer_epoch,
                    batch_metadata=if_(
                        (Produce.producer_epoch != entry.producer_epoch) | ~batches_kept,
                        sequence_of(
                            BatchMetadata(
                                last_sequence=Produce.base_sequence,
                                last_offset=log_end_offset,
                                offset_delta=0,
                                timestamp=NO_TIMESTAMP,
                            )
                        ),
                        push(
                            entry.batch_metadata,
                            BatchMetadata(
                                last_sequence=Produce.base_sequence,
                                last_offset=log_end_offset,
                                offset_delta=0,
                                timestamp=NO_TIMESTAMP,
                            ),
                        ),
                    ),
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=entry.current_txn_first_offset,
                    last_timestamp=NO_TIMESTAMP,
                ),
            },
            reply=produce_response(Errors.NONE, log_end_offset),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)


# A Produce whose connection is closed -------------------------------------------------------------

delayed_entry = producers[DelayedProduce.producer_id]
delayed_verification_state = verification_states[DelayedProduce.producer_id]

delayed_produce = Table(
    partition,
    on=DelayedProduce,
    response=AppendResponse,
    doc="A delayed request is answered on a closed connection: nobody gets the answer.",
    rows=(
        Row(
            "no-producer-id",
            "A batch without producer id is not checked",
            when=DelayedProduce.producer_epoch == NO_EPOCH,
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=DelayedProduce.producer_id,
                        producer_epoch=NO_EPOCH,
                        idempotent_only=True,
                        record=DelayedProduce.record,
                    ),
                )
            },
            source="UnifiedLog.analyzeAndValidateProducerState",
        ),
        Row(
            "unknown-mid-sequence",
            "An unknown producer starts at sequence 0",
            when=(delayed_entry.producer_epoch == NO_EPOCH) & (DelayedProduce.base_sequence != 0),
            during=idempotent_starts_at_0,
            source="ProducerAppendInfo.checkSequence, as KAFKA-18202 has it for transactions",
        ),
        Row(
            "duplicate",
            "One of the last batches comes again",
            when=(DelayedProduce.producer_epoch == delayed_entry.producer_epoch)
            & duplicate_batch(delayed_entry, DelayedProduce.base_sequence, 0).is_set,
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "stale-epoch",
            "The epoch is older than the producer's",
            when=DelayedProduce.producer_epoch < delayed_entry.producer_epoch,
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "no-state-mid-sequence",
            "Without batches of the producer, transaction version 2 starts at sequence 0",
            when=delayed_verification_state.is_set
            & delayed_verification_state.value.supports_epoch_bump
            & (DelayedProduce.base_sequence != 0)
            & is_empty(delayed_entry),
            during=no_start_in_mid_sequence,
            source="KAFKA-18202, ProducerAppendInfo.checkSequence",
        ),
        Row(
            "above-lowest-sequence",
            "A batch with a lower sequence is being verified",
            when=delayed_verification_state.is_set
            & (DelayedProduce.base_sequence > delayed_verification_state.value.lowest_sequence),
            during=asks_coordinator,
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "last-sequence-unknown",
            "The producer's last sequence is not known",
            when=(
                (delayed_entry.producer_epoch == NO_EPOCH)
                | (
                    (DelayedProduce.producer_epoch == delayed_entry.producer_epoch)
                    & is_empty(delayed_entry)
                )
            )
            & (DelayedProduce.base_sequence != 0),
            during=~unknown_producer_accepted,
            source="KAFKA-5793, KAFKA-7298, ProducerAppendInfo.checkSequence before 2.5",
        ),
        Row(
            "new-epoch-mid-sequence",
            "A new epoch starts at sequence 0",
            when=(DelayedProduce.producer_epoch != delayed_entry.producer_epoch)
            & (DelayedProduce.base_sequence != 0)
            & (delayed_entry.producer_epoch != NO_EPOCH),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "out-of-order",
            "The sequence does not follow the producer's last one",
            when=(DelayedProduce.producer_epoch == delayed_entry.producer_epoch)
            & (DelayedProduce.base_sequence != next_sequence(delayed_entry)),
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "not-transactional",
            "A transaction is open, and the batch is not transactional",
            when=delayed_entry.current_txn_first_offset.is_set,
            source="ProducerAppendInfo.appendDataBatch",
        ),
        Row(
            "append",
            "The batch is appended",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=DelayedProduce.producer_id,
                        producer_epoch=DelayedProduce.producer_epoch,
                        idempotent_only=True,
                        record=DelayedProduce.record,
                        txn=DelayedProduce.txn,
                    ),
                ),
                delayed_entry: ProducerStateEntry(
                    producer_epoch=DelayedProduce.producer_epoch,
                    batch_metadata=if_(
                        (DelayedProduce.producer_epoch != delayed_entry.producer_epoch)
                        | ~batches_kept,
                        sequence_of(
                            BatchMetadata(
                                last_sequence=DelayedProduce.base_sequence,
                                last_offset=log_end_offset,
                                offset_delta=0,
                                timestamp=NO_TIMESTAMP,
                            )
                        ),
                        push(
                            delayed_entry.batch_metadata,
                            BatchMetadata(
                                last_sequence=DelayedProduce.base_sequence,
                                last_offset=log_end_offset,
                                offset_delta=0,
                                timestamp=NO_TIMESTAMP,
                            ),
                        ),
                    ),
                    coordinator_epoch=delayed_entry.coordinator_epoch,
                    current_txn_first_offset=delayed_entry.current_txn_first_offset,
                    last_timestamp=NO_TIMESTAMP,
                ),
            },
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    ),
)


# A Produce that is refused whatever it says -------------------------------------------------------

produce_refused = Table(
    partition,
    on=refused,
    others=(producer,),
    when=REFUSALS > 0,
    rows=(
        Row(
            "refuse",
            "The request is refused for good",
            reply=answer_batch(
                refused.producer,
                refused.partition,
                refused.record,
                refused.txn,
                Errors.UNKNOWN_SERVER_ERROR,
                log_start_offset=log_start_offset,
            ),
            source="ReplicaManager.appendToLocalLog",
        ),
    ),
)

produce_postponed = Table(
    partition,
    on=postponed,
    others=(producer,),
    when=SHORTAGES > 0,
    rows=(
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync",
            reply=answer_batch(
                postponed.producer,
                postponed.partition,
                postponed.record,
                postponed.txn,
                Errors.NOT_ENOUGH_REPLICAS,
                log_start_offset=log_start_offset,
            ),
            source="Partition.appendRecordsToLeader, ReplicaManager.appendToLocalLog",
        ),
    ),
)

# What a leader forgets ----------------------------------------------------------------------------

r = RECORD.variable("r")
batch_is_open = any_of(r, client.is_open(client.batches.at(0)[partition.this][r]))
expiring = producers[recovery.expire_producer.producer_id]
producer_expires = Table(
    partition,
    on=recovery.expire_producer,
    others=(producer, clock),
    when=(PRODUCER_EXPIRIES > 0)
    & (expiring.producer_epoch != NO_EPOCH)
    & ~expiring.current_txn_first_offset.is_set
    & recovery.is_producer_expired
    & client_epoch_bump
    & ~batch_is_open,
    doc="A producer expires later than its batches (producer.id.expiration.ms, "
    "delivery.timeout.ms) and, before 2.5, later than its records are deleted.",
    rows=(
        Row(
            "expire",
            "The producer is forgotten",
            set={expiring: UNKNOWN},
            source="ProducerStateManager.removeExpiredProducers",
        ),
    ),
)

known_entry = producers[n]
leader_changes = Table(
    partition,
    on=recovery.change_leader,
    when=LEADER_CHANGES > 0,
    doc="No batch waits for the coordinator, so none is answered.",
    rows=(
        Row(
            "lose-verification-state",
            "The new leader has the log; one that reads a snapshot has the newest batch alone",
            set={
                producers: each(
                    n,
                    if_(
                        recovery.change_leader.from_snapshot,
                        if_(
                            recovery.is_in_snapshot,
                            replace(known_entry, batch_metadata=recovery.newest_batch_alone),
                            UNKNOWN,
                        ),
                        known_entry,
                    ),
                ),
                verification_states: each(n, None),
                waiting: each(c, None),
                orphaned: orphaned | those(c, waiting[c].is_set),
            },
            source="ProducerStateManager.loadFromSnapshot, UnifiedLog.rebuildProducerState",
        ),
    ),
)

FAULTY_EVENTS = (
    refused,
    postponed,
    recovery.expire_producer,
    recovery.delete_records,
    recovery.change_leader,
)
TABLES = (
    produce,
    delayed_produce,
    produce_refused,
    produce_postponed,
    producer_expires,
    recovery.records_deleted,
    leader_changes,
)
