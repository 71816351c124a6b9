"""InitProducerId at the coordinator: who gets which producer id and epoch, and who is fenced."""

from __future__ import annotations

from collections.abc import Mapping

from ...language import Expression, Row, Sending, Table, if_, some
from ...language.expressions import Operand
from ..messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    answer_on,
    clock,
    connection,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ..releases.features import expected_epoch, fence_bumps_epoch, rotation_on_fence
from . import entry

Updates = Mapping[Expression, Operand]
_init = "TransactionCoordinator.prepareInitProducerIdTransit"
_is_expected = expected_epoch & (InitProducerId.expected_epoch != NO_EPOCH)
_expected = InitProducerId.expected_epoch
_prepared: Updates = {
    entry.pending: entry.EMPTY,
    entry.pending_id: entry.producer_id,
    entry.pending_timeout_ms: InitProducerId.transaction_timeout_ms,
    **entry.INITIALIZED,
    **entry.asks(InitProducerId),
}
"""The content of each record that it prepares, and the client that waits for it."""


def _init_answer(error: Expression) -> Sending:
    return answer_on(
        connection.at(InitProducerId.producer), InitProducerIdResponse, InitProducerId.connection,
        producer=InitProducerId.producer, error=error, producer_id=entry.producer_id,
        producer_epoch=NO_EPOCH,
    )  # fmt: skip


def rotation(new_id: Expression, records_last: Expression) -> dict[Expression, Expression | int]:
    """The updates that prepare a new producer id, because the epochs of the old one are used up."""
    return {
        entry.pending_id: new_id,
        entry.pending_epoch: 0,
        entry.pending_last_epoch: if_(records_last, entry.producer_epoch, NO_EPOCH),
    }


def increment_rows(
    *, is_expected: Expression, expected: Expression, prepared: Updates, refusal: Sending
) -> tuple[Row, ...]:
    """The rows for the next epoch, with or without an epoch that the producer is expected to hold.

    TransactionMetadata.prepareIncrementProducerEpoch
    """
    source = "TransactionMetadata.prepareIncrementProducerEpoch"
    return (
        Row(
            "new producer",
            when=~is_expected,
            set={
                **prepared,
                entry.pending_epoch: entry.producer_epoch + 1,
                entry.pending_last_epoch: NO_EPOCH,
            },
            source=source,
        ),
        Row(
            "bump of the current epoch",
            when=(expected == entry.producer_epoch) | ~entry.is_known,
            during=expected_epoch,
            set={
                **prepared,
                entry.pending_epoch: entry.producer_epoch + 1,
                entry.pending_last_epoch: entry.producer_epoch,
            },
            source=f"KIP-360, {source}",
        ),
        Row(
            "retry of a bump",
            when=expected == entry.last_producer_epoch,
            during=expected_epoch,
            set={
                **prepared,
                entry.pending_epoch: entry.producer_epoch,
                entry.pending_last_epoch: entry.last_producer_epoch,
            },
            source=f"KIP-360, {source}",
        ),
        Row(
            "stale producer",
            during=expected_epoch,
            reply=refusal,
            source=f"KIP-360, {source}",
        ),
    )


init_producer_id = Table(
    transaction,
    on=InitProducerId,
    others=(producer, clock, producer_id_manager),
    bounded_when=~((entry.state == entry.ONGOING) & ~entry.pending.is_set & entry.fence_to_come),
    rows=(
        Row(
            "transition in progress",
            when=entry.pending.is_set,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "other producer id",
            when=_is_expected
            & entry.is_known
            & (InitProducerId.expected_id != entry.producer_id)
            & ~(
                (entry.previous_id == InitProducerId.expected_id) & (_expected >= LARGEST_EPOCH - 1)
            ),
            during=expected_epoch,
            reply=_init_answer(entry.fenced),
            source="KIP-360, TransactionCoordinator.isValidProducerId",
        ),
        Row(
            "commit or abort in progress",
            when=entry.is_prepared,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "fence at the largest epoch",
            when=(entry.state == entry.ONGOING) & (entry.producer_epoch == LARGEST_EPOCH),
            during=~rotation_on_fence,
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareFenceProducerEpoch before 4.3",
        ),
        Row(
            "fence the open transaction",
            when=entry.state == entry.ONGOING,
            set={
                **entry.fence_with(if_(fence_bumps_epoch, entry.fence_epoch, entry.producer_epoch)),
                entry.fenced_for[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-98, TransactionMetadata.prepareFenceProducerEpoch",
        ),
        Row(
            "epochs used up, other epoch",
            when=entry.exhausted & _is_expected & (_expected != entry.producer_epoch),
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "no producer id to be had",
            when=entry.exhausted & ~offered_id.is_set,
            reply=_init_answer(entry.no_id_error),
            source=f"{entry.NEW_ID}, ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "new producer id",
            when=entry.exhausted,
            set={**_prepared, **rotation(offered_id.value, _is_expected), **entry.ID_TAKEN},
            source="TransactionMetadata.prepareProducerIdRotation",
        ),
        *increment_rows(
            is_expected=_is_expected,
            expected=_expected,
            prepared=_prepared,
            refusal=_init_answer(entry.fenced),
        ),
    ),
)
