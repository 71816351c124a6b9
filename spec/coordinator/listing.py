"""Which transactions ListTransactions tells of: a function, as a listing decides nothing."""

from __future__ import annotations

from collections.abc import Container

from .entry import TransactionState


def is_listed(
    state: str, producer_id: int, age_ms: int, *, producer_ids: Container[int],
    states: Container[str] | None, min_duration_ms: int,
) -> bool:  # fmt: skip
    """Whether ListTransactions lists an entry whose transaction began `age_ms` ago. If there are no
    producer ids, `states` is None or the duration is below 0, they filter nothing.

    TransactionStateManager.listTransactionStates
    """
    return (
        state != TransactionState.DEAD.data.member
        and (not producer_ids or producer_id in producer_ids)
        and (states is None or state in states)
        and (min_duration_ms < 0 or age_ms > min_duration_ms)
    )
