"""What the coordinator begins by itself: the abort of a transaction that is too old."""

from __future__ import annotations

from ...language import Row, Table, if_
from ..features import rotation_on_fence, timeout_bumps_epoch, two_phase_commit
from ..messages import LARGEST_EPOCH, LONGEST, TIMEOUTS, clock, is_past, transaction
from .entry import (
    ONGOING,
    fence_epoch,
    fence_to_come,
    fence_with,
    pending,
    producer_epoch,
    state,
    timeout,
    txn_start_timestamp,
    txn_timeout_ms,
)

transaction_timeout = Table(
    transaction,
    on=timeout,
    when=(TIMEOUTS > 0)
    & (state == ONGOING)
    & ~pending.is_set
    & is_past(txn_start_timestamp + txn_timeout_ms)
    & ~(two_phase_commit & (LONGEST > 0) & (txn_timeout_ms == LONGEST))
    & (rotation_on_fence | (producer_epoch < LARGEST_EPOCH)),
    bounded_when=~fence_to_come,
    others=(clock,),
    rows=(
        Row(
            "fence the open transaction",
            set=fence_with(if_(timeout_bumps_epoch, fence_epoch, producer_epoch)),
            source="KAFKA-6119, TransactionCoordinator.abortTimedOutTransactions",
        ),
    ),
)
