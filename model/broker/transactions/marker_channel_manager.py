"""The markers that end transactions: their queues by broker, and the effects of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....spec.coordinator import markers
from ...engine.errors import ModelError
from ...engine.machine import Machine
from .transaction_state_manager import ERRORS, PENDING, TransactionStateManager


class IllegalStateError(ModelError):
    """Kafka throws an IllegalStateException here."""


@dataclass
class Marker:
    """Markers of one transaction for one broker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    result: str
    partitions: frozenset[Any]
    completion: int  # the completion that it belongs to
    transaction_version: int  # the transaction's; a leader's checks depend on it (KIP-1228)


@dataclass
class _Markers:
    """The markers that are to be sent, and the completions that wait for them."""

    queued: dict[Any, list[Marker]] = field(default_factory=dict[Any, list[Marker]])
    unknown: list[Marker] = field(default_factory=list[Marker])
    completions: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    retries: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def copy(self) -> _Markers:
        """A copy with collections of its own. It shares the markers, which nobody changes."""
        queued = {broker: list(markers) for broker, markers in self.queued.items()}
        return _Markers(queued, list(self.unknown), dict(self.completions), list(self.retries))


UNAVAILABLE = "UNAVAILABLE"
"""Stands for a leader that exists but isn't known at present."""

Leaders = Callable[[Any], Any]


class TransactionMarkerChannelManager(TransactionStateManager):
    """The markers of transactions whose end is decided, by destination broker.

    `leader_of` returns the broker that leads a partition; None: the partition doesn't exist,
    `UNAVAILABLE`: the leader isn't known. With `holds_completions` the completion of an end that
    needs no marker is `PENDING`.
    """

    def __init__(
        self, *, leader_of: Leaders | None, holds_completions: bool, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.leader_of: Leaders = leader_of or (lambda _: 0)
        self.holds_completions = holds_completions
        self._markers = _Markers()
        self.completion_appends = 0
        self.completion_coordinator_epoch: int | None = None

    def send_markers(self, transactional_id: str, coordinator_epoch: int) -> frozenset[Any]:
        """Queues the markers of a transaction whose end is decided. Returns the partitions that
        wait for a marker."""
        entry = self._at_now(self.entries[transactional_id])
        if entry["pending"] is None:
            entry.handle("begin completion")
        mark = next(self._tokens)
        self._markers.completions[transactional_id] = (mark, coordinator_epoch)
        self._enqueue(self._marker(transactional_id, entry, mark, coordinator_epoch))
        if not entry["partitions"]:
            self._maybe_complete(transactional_id, self._completion(transactional_id))
        return self.waiting_partitions(transactional_id)

    def _completion(self, transactional_id: str) -> str:
        """The log's answer to the record of a completion that needs no marker."""
        del transactional_id
        return PENDING if self.holds_completions else "NONE"

    def waiting_partitions(self, transactional_id: str) -> frozenset[Any]:
        """The partitions without a written marker."""
        entry = self.entries.get(transactional_id)
        return frozenset() if entry is None else entry["partitions"]

    def _marker(self, name: str, entry: Machine, mark: int, coordinator_epoch: int) -> Marker:
        result = "COMMIT" if entry["state"] == "PREPARE_COMMIT" else "ABORT"
        return Marker(
            name, entry["producer_id"], entry["producer_epoch"], coordinator_epoch, result,
            entry["partitions"], mark, entry["client_transaction_version"],
        )  # fmt: skip

    def _enqueue(self, marker: Marker) -> None:
        """Puts a transaction's markers into the queues of their partitions' leaders."""
        by_broker: dict[Any, list[Any]] = {}
        for partition in sorted(marker.partitions, key=str):
            by_broker.setdefault(self.leader_of(partition), []).append(partition)
        for broker, partitions in by_broker.items():
            part = (
                marker if len(by_broker) == 1 else replace(marker, partitions=frozenset(partitions))
            )
            if broker == UNAVAILABLE:
                self._markers.unknown.append(part)
            elif broker is not None:
                self._markers.queued.setdefault(broker, []).append(part)
            elif self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
                self._cancel(marker)
            else:  # deleted partitions need no marker
                for partition in partitions:
                    self._answer(marker, partition, "NONE")
                name = marker.transactional_id
                self._maybe_complete(name, self._completion(name))

    def _answer(self, marker: Marker, partition: Any, error: str) -> str:
        entry = self._at_now(self.entries[marker.transactional_id])
        return entry.handle(
            "WriteTxnMarkersResponse",
            partition=partition,
            connection=entry.at("marker_connection", partition),
            error=error if error in ERRORS else "UNKNOWN_SERVER_ERROR",
        ).reply.outcome

    def _cancel(self, marker: Marker) -> None:
        known = self._markers.completions.get(marker.transactional_id)
        own_only = self._blank.value(markers.cancels_own_only)
        if known is not None and (known[0] == marker.completion or not own_only):
            del self._markers.completions[marker.transactional_id]

    def _maybe_complete(self, name: str, append: str) -> bool:
        """Writes the completion of a transaction whose markers are all written."""
        known = self._markers.completions.get(name)
        if known is None or self.waiting_partitions(name):
            return False
        del self._markers.completions[name]
        if self.owner_epoch(name) == known[1]:
            self._complete(name, known[1], append)
        return True

    def _complete(self, name: str, coordinator_epoch: int, append: str) -> None:
        self.completion_appends += 1
        self.completion_coordinator_epoch = coordinator_epoch
        entry = self._at_now(self.entries[name])
        if self.keeps_records:
            self.records.append(self.pending_record(name))
        if append == PENDING:
            return
        if append == "NONE":
            entry.handle("log append")
            return
        outcome = markers.COMPLETION_REFUSED.get(append)
        if outcome == "RETRY":
            self._markers.retries.append((name, coordinator_epoch))
            return
        self._refuse(entry, append)
        if outcome is None:
            raise IllegalStateError(f"{append} for the completion of {name}")

    def drain_markers(self, *, append: str = "NONE") -> dict[Any, list[Marker]]:
        """The markers that can be sent now, by broker. Completions whose append failed are retried
        first."""
        retries, self._markers.retries = self._markers.retries, []
        for name, coordinator_epoch in retries:
            self._complete(name, coordinator_epoch, append)
        unknown, self._markers.unknown = self._markers.unknown, []
        for marker in unknown:
            self._enqueue(marker)
        queued, self._markers.queued = self._markers.queued, {}
        return {broker: markers for broker, markers in queued.items() if markers}

    def markers_answered(
        self, marker: Marker, errors: Mapping[Any, str] | None, *, append: str = "NONE"
    ) -> tuple[str, frozenset[Any]]:
        """Takes a broker's answer to a marker, an error for each partition. Returns the outcome
        (COMPLETION_WRITTEN if no partition is left, WAITING, RETRY or CANCELLED) and the partitions
        that are retried.

        Raises IllegalStateError for impossible errors, and if the answer lacks the producer id.
        """
        if errors is None:
            raise IllegalStateError(f"no answer for producer id {marker.producer_id}")
        if self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
            self._cancel(marker)
            return "CANCELLED", frozenset()
        outcomes: dict[Any, str] = {}
        for partition, error in errors.items():
            outcomes[partition] = self._answer(marker, partition, error)
            if outcomes[partition] == "ILLEGAL_STATE":
                raise IllegalStateError(f"{error} for a marker to {partition}")
        if "CANCEL" in outcomes.values():
            self._cancel(marker)
            return "CANCELLED", frozenset()
        again = frozenset(part for part, outcome in outcomes.items() if outcome == "RETRY")
        if again:
            self._enqueue(replace(marker, partitions=again))
            return "RETRY", again
        done = self._maybe_complete(marker.transactional_id, append)
        return ("COMPLETION_WRITTEN" if done else "WAITING"), frozenset()

    def marker_lost(self, marker: Marker) -> str:
        """Notes that the connection broke before the answer. Returns RETRY or CANCELLED."""
        if self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
            self._cancel(marker)
            return "CANCELLED"
        self._enqueue(marker)
        return "RETRY"

    def remove_markers(self, state_partition: int) -> None:
        """Removes the markers of transactional ids in this partition of the log."""
        for queue in (self._markers.unknown, *self._markers.queued.values()):
            for marker in list(queue):
                if self.state_partition_of(marker.transactional_id) == state_partition:
                    queue.remove(marker)
                    self._cancel(marker)

    @property
    def pending_completions(self) -> frozenset[str]:
        """The transactional ids whose markers are not all written."""
        return frozenset(self._markers.completions)

    def queued_markers(self) -> dict[Any, int]:
        """The number of queued markers for each broker; None stands for unknown leaders."""
        counts = {broker: len(markers) for broker, markers in self._markers.queued.items()}
        return {None: len(self._markers.unknown), **counts}
