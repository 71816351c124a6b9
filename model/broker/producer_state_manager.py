"""A leader's producer state (ProducerStateManager): its transactions by first offset, and its
snapshots. The rows of `spec.leader` decide which batches are accepted. This module applies them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...spec.leader.recovery import retained
from ..engine.errors import ModelError
from ..engine.machine import Machine


class TxnMetadata(NamedTuple):
    """A transaction: the offsets of its first batch and of its marker."""

    first_offset: int
    producer_id: int
    last_offset: int | None = None


class CompletedTxn(NamedTuple):
    """A transaction that a marker ends."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class MarkerResponse(NamedTuple):
    """The answer to a marker: the error, and the transaction that it ends, if any."""

    error: str
    completed_txn: CompletedTxn | None


class Snapshot(NamedTuple):
    """The producers' states at an offset, each with its newest batch. A corrupt snapshot can't be
    read."""

    offset: int
    producers: Mapping[int, Any]
    is_corrupt: bool = False


class NotStartedError(ModelError):
    """The transaction to complete isn't open."""


class ProducerStateManager:
    """The producers of a partition, with the machine that checks their batches.

    Raises WrongTypeError and OutOfRangeError for impossible values, as `Machine` does.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.ongoing_txns: list[TxnMetadata] = []
        self.unreplicated_txns: list[TxnMetadata] = []
        self.snapshots: list[Snapshot] = []
        self.last_snap_offset = 0
        self.map_end_offset = 0
        self.without_records: frozenset[int] = frozenset()

    def copy(self) -> ProducerStateManager:
        """A manager in the same state."""
        made = object.__new__(ProducerStateManager)  # copy.copy takes three times as long
        made.__dict__.update(self.__dict__)
        made.machine = self.machine.copy()
        made.ongoing_txns, made.unreplicated_txns = (
            list(self.ongoing_txns),
            list(self.unreplicated_txns),
        )
        made.snapshots = list(self.snapshots)
        return made

    @property
    def producers(self) -> dict[int, Any]:
        """The state of each producer id: a ProducerStateEntry."""
        return {key: self.machine.at("producers", key) for key in self.producer_ids}

    @property
    def producer_ids(self) -> tuple[int, ...]:
        """The known producer ids."""
        known = [*self.machine.keys("producers"), *sorted(self.without_records)]
        return tuple(dict.fromkeys(known))

    @property
    def first_undecided_offset(self) -> int | None:
        """The start of the first open transaction."""
        return self.ongoing_txns[0].first_offset if self.ongoing_txns else None

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the first transaction that is open, or whose marker isn't replicated."""
        starts = [
            txns[0].first_offset for txns in (self.ongoing_txns, self.unreplicated_txns) if txns
        ]
        return min(starts, default=None)

    @property
    def oldest_txn_last_timestamp(self) -> int:
        """The last timestamp, in ms, of the first open transaction's producer; -1 without a
        transaction."""
        if not self.ongoing_txns:
            return -1
        return self.machine.at("producers", self.ongoing_txns[0].producer_id).last_timestamp

    # Appending --------------------------------------------------------------------------------

    def append(
        self, *, first_offset: int, origin: str, transactional: bool,
        switch_off: tuple[str, ...] = (), **batch: Any,
    ) -> Any:  # fmt: skip
        """Appends a data batch at its offsets, without the search for duplicates. Returns an
        AppendResponse."""
        end = self.machine["log_end_offset"]
        self.machine.put(log_end_offset=first_offset)
        answer = self.machine.handle(
            "Produce", switch_off=switch_off, **batch, idempotent_only=not transactional,
            from_client=origin == "CLIENT", from_coordinator=origin == "COORDINATOR",
            beneath_log=True,
        ).reply  # fmt: skip
        if answer.error != "NONE":
            self.machine.put(log_end_offset=end)
            return answer
        self.map_end_offset = answer.last_offset + 1
        if transactional:
            self.begun(batch["producer_id"], answer.first_offset)
        return answer

    def begun(self, producer_id: int, first_offset: int) -> None:
        """Notes a transactional batch, which may begin a transaction."""
        entry = self.machine.at("producers", producer_id)
        if entry.current_txn_first_offset == first_offset:
            insort(self.ongoing_txns, TxnMetadata(first_offset, producer_id))

    def append_marker(
        self, *, producer_id: int, offset: int, result: str, origin: str,
        switch_off: tuple[str, ...] = (), **marker: Any,
    ) -> MarkerResponse:  # fmt: skip
        """Appends a marker at its offset. The caller then completes the transaction that it
        ends."""
        end = self.machine["log_end_offset"]
        if end != offset:
            self.machine.put(log_end_offset=offset)
        answer = self.machine.handle(
            "WriteTxnMarkers", switch_off=switch_off, result=result,
            producer_id=producer_id, is_replicated=origin == "REPLICATION", **marker,
        ).reply  # fmt: skip
        if answer.error != "NONE":
            self.machine.put(log_end_offset=end)
            return MarkerResponse(answer.error, None)
        first = answer.first_offset
        self.map_end_offset = offset + 1
        if first is None:
            return MarkerResponse("NONE", None)
        if first == offset:  # until 2.8 a marker that ends nothing is a transaction of its own
            insort(self.ongoing_txns, TxnMetadata(first, producer_id))
        return MarkerResponse("NONE", CompletedTxn(producer_id, first, offset, result == "ABORT"))

    def append_empty_control_batch(self, producer_id: int, offset: int) -> None:
        """Notes an empty batch, left by the cleaner in place of a marker. It makes the producer
        known, and ends no transaction."""
        if producer_id not in self.machine.keys("producers"):
            self.without_records |= {producer_id}
        self.map_end_offset = offset + 1

    def last_stable_offset(self, producer_id: int, last_offset: int) -> int:
        """The last stable offset after this producer's transaction is completed."""
        others = (txn for txn in self.ongoing_txns if txn.producer_id != producer_id)
        return next((txn.first_offset for txn in others), last_offset + 1)

    def complete_txn(self, txn: CompletedTxn) -> None:
        """Completes a transaction whose marker is in the log. Raises NotStartedError."""
        begun = [one for one in self.ongoing_txns if one.first_offset == txn.first_offset]
        if not begun:
            raise NotStartedError(f"no open transaction starts at {txn.first_offset}")
        self.ongoing_txns.remove(begun[0])
        insort(self.unreplicated_txns, begun[0]._replace(last_offset=txn.last_offset))

    # What moves without a batch ---------------------------------------------------------------

    def on_high_watermark_updated(self, offset: int) -> None:
        """Notes that markers below this offset are replicated."""
        self.unreplicated_txns = [
            txn for txn in self.unreplicated_txns if (txn.last_offset or 0) >= offset
        ]

    def on_log_start_offset_incremented(self, offset: int) -> None:
        """Notes that records below this offset are deleted. Before 2.4 this also removes their
        producers."""
        self.machine.attempt("records are deleted", offset=offset)
        self._starts_at(offset)

    def _starts_at(self, offset: int) -> None:
        self.on_high_watermark_updated(offset)
        self.map_end_offset = max(self.map_end_offset, offset)
        self.last_snap_offset = self.snapshots[-1].offset if self.snapshots else offset
        self._drop_gone()

    def _drop_gone(self) -> None:
        """Removes the transactions of unknown producers."""
        known = self.machine.keys("producers")
        self.ongoing_txns = [txn for txn in self.ongoing_txns if txn.producer_id in known]

    def remove_expired_producers(self) -> None:
        """Forgets producers and verification states whose expiration time is over."""
        self._expire_producers()
        for producer_id in self.machine.keys("verification_states"):
            self.machine.attempt("question expires", producer_id=producer_id)

    def _expire_producers(self) -> None:
        self.without_records = frozenset()
        for producer_id in self.machine.keys("producers"):
            self.machine.attempt("producer expires", producer_id=producer_id)

    # Snapshots ----------------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Takes a snapshot, with each producer's newest batch, unless this offset has one
        already."""
        end = self.map_end_offset
        if end <= self.last_snap_offset:
            return
        entries = self.producers.items()
        newest = {
            key: entry._replace(batch_metadata=entry.batch_metadata[-1:]) for key, entry in entries
        }
        self._put_snapshot(Snapshot(end, newest))
        self.last_snap_offset = end

    def damage_snapshot(self, offset: int) -> None:
        """Makes the snapshot at this offset corrupt."""
        self._put_snapshot(Snapshot(offset, {}, is_corrupt=True))

    def _put_snapshot(self, snapshot: Snapshot) -> None:
        others = [one for one in self.snapshots if one.offset != snapshot.offset]
        self.snapshots = sorted([*others, snapshot], key=lambda one: one.offset)

    def delete_snapshots(self, first: int, last: int) -> None:
        """Deletes the snapshots from offset `first` to `last`, both included."""
        self.snapshots = [one for one in self.snapshots if not first <= one.offset <= last]

    def truncate_and_reload(self, log_start: int, log_end: int, *, is_fresh: bool = False) -> None:
        """Resets the state after the log was cut to `log_start`..`log_end`. The caller then appends
        the log from `map_end_offset` on again, as REPLICATION. `is_fresh`: in a new instance, which
        has only the snapshots."""
        self.snapshots = [one for one in self.snapshots if log_start < one.offset <= log_end]
        if log_end == self.map_end_offset and not is_fresh:
            self._drop_without_records()
            self._starts_at(log_start)
            return
        while self.snapshots and self.snapshots[-1].is_corrupt:
            self.snapshots.pop()
        found = self.snapshots[-1] if self.snapshots else Snapshot(log_start, {})
        self.last_snap_offset = self.map_end_offset = found.offset
        self.machine.put(producers=found.producers)
        self._drop_without_records()
        self._expire_producers()
        entries = self.producers.items()
        starts = [(entry.current_txn_first_offset, key) for key, entry in entries]
        self.ongoing_txns = sorted(TxnMetadata(*start) for start in starts if start[0] is not None)
        self.unreplicated_txns = []

    def _drop_without_records(self) -> None:
        self.machine.put(producers=self.machine.value(retained))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forgets all producers, transactions and snapshots."""
        self.machine.put(producers={})
        self.without_records = frozenset()
        self.ongoing_txns, self.unreplicated_txns, self.snapshots = [], [], []
        self.last_snap_offset, self.map_end_offset = 0, offset
