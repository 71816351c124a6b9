"""The transaction coordinator's memory against a replay of `__transaction_state`."""

from __future__ import annotations

from ....language import Change, after, failure, step_property
from ...coordinator import entry
from ...coordinator.state_manager.log import unsettled

takes_over = after(entry.coordinator_epoch) != entry.coordinator_epoch
nothing_in_flight = ~entry.pending.is_set & ~unsettled.is_set & ~entry.failed_fence
memory_is_replay = step_property(
    "MemoryIsReplay",
    (takes_over & nothing_in_flight).implies(
        (after(entry.state) == entry.state)
        & (after(entry.producer_id) == entry.producer_id)
        & (after(entry.producer_epoch) == entry.producer_epoch)
        & (after(entry.last_producer_epoch) == entry.last_producer_epoch)
        & (after(entry.previous_id) == entry.previous_id)
        & (after(entry.next_id) == entry.next_id)
        & ((entry.state != entry.ONGOING) | (after(entry.partitions) == entry.partitions))
    ),
    "A coordinator that reads the transaction log has the entry that the one before it had in "
    "memory, unless a record was on its way into the log.",
    "TransactionStateManager.loadTransactionMetadata; KAFKA-20310, KAFKA-20357",
    failure=failure(
        "memory had {} with epoch {}, the epoch before {}, the id before {} and the next one {}; "
        "a replay has {} with epoch {}, {}, {} and {}",
        entry.producer_id,
        entry.producer_epoch,
        entry.last_producer_epoch,
        entry.previous_id,
        entry.next_id,
        after(entry.producer_id),
        after(entry.producer_epoch),
        after(entry.last_producer_epoch),
        after(entry.previous_id),
        after(entry.next_id),
    ),
)
replayed = Change(
    "replay",
    "The next coordinator's entry is compared with the one before it.",
    properties=(memory_is_replay,),
)
