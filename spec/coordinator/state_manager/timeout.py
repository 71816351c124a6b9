"""The coordinator aborts a transaction that is older than its timeout."""

from __future__ import annotations

from ....language import Row, Table, if_, some
from ...messages import LARGEST_EPOCH, LONGEST, TIMEOUTS, clock, is_past, transaction
from ...releases.features import rotation_on_fence, timeout_bumps_epoch, two_phase_commit
from .. import entry

has_timed_out = is_past(entry.txn_start_timestamp + entry.txn_timeout_ms)
"""TransactionStateManager.timedOutTransactions"""

transaction_timeout = Table(
    transaction,
    on=entry.timeout,
    when=(TIMEOUTS > 0)
    & (entry.state == entry.ONGOING)
    & ~entry.pending.is_set
    & has_timed_out
    & ~(two_phase_commit & (entry.txn_timeout_ms == LONGEST))
    & (rotation_on_fence | (entry.producer_epoch < LARGEST_EPOCH)),
    others=(clock,),
    source="KAFKA-6119, TransactionCoordinator.abortTimedOutTransactions",
    rows=(
        Row(
            "fence",
            "The transaction is fenced, then aborted",
            set={
                entry.pending: entry.PREPARE_EPOCH_FENCE,
                entry.fence_end: some(
                    entry.FenceEnd(
                        producer_id=entry.producer_id,
                        producer_epoch=if_(
                            timeout_bumps_epoch, entry.fence_epoch, entry.producer_epoch
                        ),
                    )
                ),
            },
        ),
    ),
)
