"""InitProducerId at the coordinator: who gets which producer id and epoch, and who is fenced.

The table is `TransactionCoordinator.prepareInitProducerIdTransit`, with the two methods of
`TransactionMetadata` that it calls: `prepareIncrementProducerEpoch` and
`prepareProducerIdRotation`.
"""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, if_, some
from ...messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_TIMESTAMP,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    answer_on,
    clock,
    connection,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ...releases.features import expected_epoch, fence_bumps_epoch, rotation_on_fence
from .. import entry

is_expected = expected_epoch & (InitProducerId.expected_epoch != NO_EPOCH)
"""Whether the producer names the id and the epoch that it holds (KIP-360)."""


def answer(error: Expression) -> Sending:
    """The response without an epoch. It goes out only while the request's connection is open."""
    return answer_on(
        connection.at(InitProducerId.producer),
        InitProducerIdResponse,
        InitProducerId.connection,
        producer=InitProducerId.producer,
        error=error,
        producer_id=entry.producer_id,
        producer_epoch=NO_EPOCH,
    )


init_producer_id = Table(
    transaction,
    on=InitProducerId,
    others=(producer, clock, producer_id_manager),
    source="TransactionCoordinator.prepareInitProducerIdTransit",
    rows=(
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.pending.is_set,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "other-producer-id",
            "The producer holds an id that is neither the entry's nor the one before it",
            when=is_expected
            & entry.is_known
            & (InitProducerId.expected_id != entry.producer_id)
            & ~(
                (entry.previous_id == InitProducerId.expected_id)
                & (InitProducerId.expected_epoch >= LARGEST_EPOCH - 1)
            ),
            during=expected_epoch,
            reply=answer(entry.fenced),
            source="KIP-360, TransactionCoordinator.isValidProducerId",
        ),
        Row(
            "prepared",
            "A transaction is ending",
            when=entry.is_prepared,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "fence-at-largest-epoch",
            "A transaction is open, and the fence can't bump the largest epoch",
            when=(entry.state == entry.ONGOING) & (entry.producer_epoch == LARGEST_EPOCH),
            during=~rotation_on_fence,
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareFenceProducerEpoch before 4.3",
        ),
        Row(
            "fence",
            "A transaction is open: it is fenced, then aborted",
            when=entry.state == entry.ONGOING,
            set={
                entry.pending: entry.PREPARE_EPOCH_FENCE,
                entry.fence_end: some(
                    entry.FenceEnd(
                        producer_id=entry.producer_id,
                        producer_epoch=if_(
                            fence_bumps_epoch, entry.fence_epoch, entry.producer_epoch
                        ),
                    )
                ),
                entry.fenced_for[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-98, TransactionMetadata.prepareFenceProducerEpoch",
        ),
        Row(
            "exhausted-other-epoch",
            "The epochs are used up, and the producer holds another epoch",
            when=entry.exhausted
            & is_expected
            & (InitProducerId.expected_epoch != entry.producer_epoch),
            reply=answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "no-producer-id",
            "The epochs are used up, but no new producer id is available",
            when=entry.exhausted & ~offered_id.is_set,
            reply=answer(entry.no_id_error),
            source="RPCProducerIdManager.generateProducerId, "
            "ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "rotate-producer-id",
            "The epochs are used up: a new producer id, at epoch 0",
            when=entry.exhausted,
            set={
                entry.pending: entry.EMPTY,
                entry.pending_id: offered_id.value,
                entry.pending_epoch: 0,
                entry.pending_last_epoch: if_(is_expected, entry.producer_epoch, NO_EPOCH),
                entry.pending_timeout_ms: InitProducerId.transaction_timeout_ms,
                entry.pending_start_timestamp: NO_TIMESTAMP,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
                offered_id: entry.offered_id_after,
            },
            source="TransactionMetadata.prepareProducerIdRotation",
        ),
        Row(
            "increment-epoch",
            "A producer that holds no epoch gets the next one",
            when=~is_expected,
            set={
                entry.pending: entry.EMPTY,
                entry.pending_id: entry.producer_id,
                entry.pending_epoch: entry.producer_epoch + 1,
                entry.pending_last_epoch: NO_EPOCH,
                entry.pending_timeout_ms: InitProducerId.transaction_timeout_ms,
                entry.pending_start_timestamp: NO_TIMESTAMP,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "bump",
            "The producer holds the current epoch, and gets the next one",
            when=(InitProducerId.expected_epoch == entry.producer_epoch) | ~entry.is_known,
            during=expected_epoch,
            set={
                entry.pending: entry.EMPTY,
                entry.pending_id: entry.producer_id,
                entry.pending_epoch: entry.producer_epoch + 1,
                entry.pending_last_epoch: entry.producer_epoch,
                entry.pending_timeout_ms: InitProducerId.transaction_timeout_ms,
                entry.pending_start_timestamp: NO_TIMESTAMP,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-360, TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "retry-of-bump",
            "The producer holds the epoch before: it gets the current one again",
            when=InitProducerId.expected_epoch == entry.last_producer_epoch,
            during=expected_epoch,
            set={
                entry.pending: entry.EMPTY,
                entry.pending_id: entry.producer_id,
                entry.pending_epoch: entry.producer_epoch,
                entry.pending_last_epoch: entry.last_producer_epoch,
                entry.pending_timeout_ms: InitProducerId.transaction_timeout_ms,
                entry.pending_start_timestamp: NO_TIMESTAMP,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-360, TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "stale-producer",
            "The producer holds an older epoch",
            during=expected_epoch,
            reply=answer(entry.fenced),
            source="KIP-360, TransactionMetadata.prepareIncrementProducerEpoch",
        ),
    ),
)
