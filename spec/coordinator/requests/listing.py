"""ListTransactions at the coordinator: a function, because a listing changes nothing."""

from __future__ import annotations

from collections.abc import Container

from ..entry import TransactionState


def is_listed(
    state: str,
    producer_id: int,
    age_ms: int,
    *,
    producer_ids: Container[int],
    states: Container[str] | None,
    min_duration_ms: int,
) -> bool:
    """Whether ListTransactions lists an entry whose transaction began `age_ms` ago.

    Empty `producer_ids`, no `states` and a `min_duration_ms` below 0 filter nothing.

    TransactionStateManager.listTransactionStates
    """
    return (
        state != TransactionState.DEAD.data.member
        and (not producer_ids or producer_id in producer_ids)
        and (states is None or state in states)
        and (min_duration_ms < 0 or age_ms > min_duration_ms)
    )
