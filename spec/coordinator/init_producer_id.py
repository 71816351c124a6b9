"""InitProducerId at the coordinator: who gets which producer id and epoch, and who is fenced."""

from __future__ import annotations

from collections.abc import Mapping

from ...language import Expression, Row, Sending, Table, if_, some
from ...language.expressions import Operand
from ..features import expected_epoch, fence_bumps_epoch, rotation_on_fence
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
from .entry import (
    EMPTY,
    ID_TAKEN,
    INITIALIZED,
    NEW_ID,
    ONGOING,
    asks,
    exhausted,
    fence_epoch,
    fence_to_come,
    fence_with,
    fenced,
    fenced_for,
    is_known,
    is_prepared,
    last_producer_epoch,
    no_id_error,
    pending,
    pending_epoch,
    pending_id,
    pending_last_epoch,
    pending_timeout_ms,
    previous_id,
    producer_epoch,
    producer_id,
    state,
)

_init = "TransactionCoordinator.prepareInitProducerIdTransit"
_is_expected = expected_epoch & (InitProducerId.expected_epoch != NO_EPOCH)
_expected = InitProducerId.expected_epoch
_init_asks = (
    {
        pending: EMPTY,
        pending_id: producer_id,
        pending_timeout_ms: InitProducerId.transaction_timeout_ms,
    }
    | INITIALIZED
    | asks(InitProducerId)
)


def _init_answer(error: Expression) -> Sending:
    return answer_on(
        connection.at(InitProducerId.producer), InitProducerIdResponse, InitProducerId.connection,
        producer=InitProducerId.producer, error=error, producer_id=producer_id,
        producer_epoch=NO_EPOCH,
    )  # fmt: skip


def rotation(new_id: Expression, records_last: Expression) -> dict[Expression, Expression | int]:
    """What is prepared when a new producer id replaces one whose epochs are used up."""
    return {
        pending_id: new_id,
        pending_epoch: 0,
        pending_last_epoch: if_(records_last, producer_epoch, NO_EPOCH),
    }


def increment_rows(
    is_expected: Expression,
    expected: Expression,
    prepared: Mapping[Expression, Operand],
    refusal: Sending,
) -> tuple[Row, ...]:
    """The rows for the next epoch, with or without an epoch that the producer is expected to hold.

    TransactionMetadata.prepareIncrementProducerEpoch
    """
    source = "TransactionMetadata.prepareIncrementProducerEpoch"
    return (
        Row(
            "new producer",
            when=~is_expected,
            set={**prepared, pending_epoch: producer_epoch + 1, pending_last_epoch: NO_EPOCH},
            source=source,
        ),
        Row(
            "bump of the current epoch",
            when=(expected == producer_epoch) | ~is_known,
            during=expected_epoch,
            set={**prepared}
            | {pending_epoch: producer_epoch + 1, pending_last_epoch: producer_epoch},
            source=f"KIP-360, {source}",
        ),
        Row(
            "retry of a bump",
            when=expected == last_producer_epoch,
            during=expected_epoch,
            set={**prepared}
            | {pending_epoch: producer_epoch, pending_last_epoch: last_producer_epoch},
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
    bounded_when=~((state == ONGOING) & ~pending.is_set & fence_to_come),
    rows=(
        Row(
            "transition in flight",
            when=pending.is_set,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "other producer id",
            when=_is_expected
            & is_known
            & (InitProducerId.expected_id != producer_id)
            & ~((previous_id == InitProducerId.expected_id) & (_expected >= LARGEST_EPOCH - 1)),
            during=expected_epoch,
            reply=_init_answer(fenced),
            source="KIP-360, TransactionCoordinator.isValidProducerId",
        ),
        Row(
            "commit or abort under way",
            when=is_prepared,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "fence at the largest epoch",
            when=(state == ONGOING) & (producer_epoch == LARGEST_EPOCH),
            during=~rotation_on_fence,
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareFenceProducerEpoch before 4.3",
        ),
        Row(
            "fence the open transaction",
            when=state == ONGOING,
            set=fence_with(if_(fence_bumps_epoch, fence_epoch, producer_epoch))
            | {fenced_for[InitProducerId.producer]: some(InitProducerId.connection)},
            source="KIP-98, TransactionMetadata.prepareFenceProducerEpoch",
        ),
        Row(
            "epochs used up, other epoch",
            when=exhausted & _is_expected & (_expected != producer_epoch),
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "no producer id to be had",
            when=exhausted & ~offered_id.is_set,
            reply=_init_answer(no_id_error),
            source=f"{NEW_ID}, ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "new producer id",
            when=exhausted,
            set=_init_asks | rotation(offered_id.value, _is_expected) | ID_TAKEN,
            source="TransactionMetadata.prepareProducerIdRotation",
        ),
        *increment_rows(_is_expected, _expected, _init_asks, _init_answer(fenced)),
    ),
)
