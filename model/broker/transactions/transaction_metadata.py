"""An entry of the transaction log with Kafka's names, and the record that a transition appends."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....spec.coordinator import entry as transaction
from ...engine.machine import Machine

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


class TransactionMetadata(NamedTuple):
    """A transactional id's entry or log record, with Kafka's names; -1 for absent values."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    txn_timeout_ms: int
    state: str
    partitions: frozenset[Any]
    txn_start_timestamp: int
    txn_last_update_timestamp: int
    client_transaction_version: int
    pending_state: str | None = None
    has_failed_epoch_fence: bool = False


NEW_ENTRY = TransactionMetadata("", 0, -1, -1, -1, -1, 0, "Empty", frozenset(), -1, -1, 0)


def _or_none(producer_id: int) -> int | None:
    return None if producer_id < 0 else producer_id


def state_member(state: str) -> str:
    """The model's name of a state: EMPTY for Empty, PREPARE_COMMIT for PrepareCommit."""
    return "".join(f"_{c}" if c.isupper() else c for c in state).lstrip("_").upper()


def _camel(state: str) -> str:
    return "".join(part.capitalize() for part in state.split("_"))


STATE_NAMES = {_camel(name): number for name, number in transaction.TransactionState.members}
"""States as Kafka spells them, with their numbers in the log."""


def entry_of(metadata: TransactionMetadata, blank: Machine) -> Machine:
    """A machine in the state of `metadata`: a copy of `blank` with other values."""
    entry = blank.copy()
    entry.put(
        producer_id=max(metadata.producer_id, 0),
        previous_id=_or_none(metadata.previous_producer_id),
        next_id=_or_none(metadata.next_producer_id),
        producer_epoch=metadata.producer_epoch,
        last_producer_epoch=metadata.last_producer_epoch,
        txn_timeout_ms=metadata.txn_timeout_ms,
        state=state_member(metadata.state),
        partitions=metadata.partitions,
        txn_start_timestamp=metadata.txn_start_timestamp,
        txn_last_update_timestamp=metadata.txn_last_update_timestamp,
        client_transaction_version=metadata.client_transaction_version,
        pending=metadata.pending_state and state_member(metadata.pending_state),
        failed_fence=metadata.has_failed_epoch_fence,
        logged_epoch=metadata.producer_epoch,
        logged_partitions=metadata.partitions,
    )
    entry.put(
        pending_epoch=metadata.producer_epoch,
        pending_last_epoch=metadata.last_producer_epoch,
        pending_id=max(metadata.producer_id, 0),
        pending_partitions=metadata.partitions,
        pending_start_timestamp=metadata.txn_start_timestamp,
        pending_update_timestamp=metadata.txn_last_update_timestamp,
        pending_version=metadata.client_transaction_version,
        pending_timeout_ms=metadata.txn_timeout_ms,
    )
    return entry


def metadata_of(name: str, entry: Machine) -> TransactionMetadata:
    """The machine's state with Kafka's names."""
    state = entry.state
    previous, following = state["previous_id"], state["next_id"]
    return TransactionMetadata(
        name, state["producer_id"], -1 if previous is None else previous,
        -1 if following is None else following, state["producer_epoch"],
        state["last_producer_epoch"], state["txn_timeout_ms"], _camel(state["state"]),
        state["partitions"], state["txn_start_timestamp"], state["txn_last_update_timestamp"],
        state["client_transaction_version"], state["pending"] and _camel(state["pending"]),
        entry.value(transaction.has_failed_epoch_fence),
    )  # fmt: skip


def record_of(name: str, entry: Machine) -> TransactionMetadata:
    """The record that the pending transition appends to the transaction log."""
    copy, pending = entry.copy(), entry["pending"]
    if pending == "PREPARE_EPOCH_FENCE":  # never appended
        return metadata_of(name, entry)._replace(
            state=_camel(pending),
            previous_producer_id=entry["producer_id"],
            pending_state=None,
            producer_epoch=entry["fence_end"].producer_epoch,
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )
    completes = pending in ("COMPLETE_COMMIT", "COMPLETE_ABORT")
    if completes:
        copy.put(partitions=frozenset())
    copy.handle("log append")
    appended = metadata_of(name, copy)
    return appended._replace(
        previous_producer_id=entry["producer_id"],
        txn_start_timestamp=entry["pending_start_timestamp"],
    )
