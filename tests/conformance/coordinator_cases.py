"""coordinator.json on a transaction coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochfence.model import TransactionMetadata
from epochfence.model.broker.transactions.coordinator import IllegalArgumentError
from epochfence.model.broker.transactions.marker_channel_manager import IllegalStateError, Marker
from epochfence.tests.conformance.draft import RELEASE, DraftCoordinator
from epochfence.tests.conformance.harness import Adapter, RaisedError


def metadata_from(given: Mapping[str, Any]) -> TransactionMetadata:
    """A transaction of a case."""
    return TransactionMetadata(
        given["txn_id"], given["producer_id"], given.get("prev_producer_id", -1),
        given.get("next_producer_id", -1), given["producer_epoch"],
        given.get("last_producer_epoch", -1), given.get("txn_timeout_ms", 0), given["state"],
        frozenset(given.get("partitions", ())), given.get("txn_start_ms", -1),
        given.get("last_update_ms", -1), given.get("client_transaction_version", 0),
        given.get("pending_state"), given.get("failed_epoch_fence", False),
    )  # fmt: skip


def metadata_to(metadata: TransactionMetadata | None) -> dict[str, Any] | None:
    """A transaction under the names of the cases."""
    if metadata is None:
        return None
    return {
        "txn_id": metadata.transactional_id,
        "producer_id": metadata.producer_id,
        "prev_producer_id": metadata.previous_producer_id,
        "next_producer_id": metadata.next_producer_id,
        "producer_epoch": metadata.producer_epoch,
        "last_producer_epoch": metadata.last_producer_epoch,
        "txn_timeout_ms": metadata.txn_timeout_ms,
        "state": metadata.state,
        "partitions": sorted(metadata.partitions),
        "txn_start_ms": metadata.txn_start_timestamp,
        "last_update_ms": metadata.txn_last_update_timestamp,
        "client_transaction_version": metadata.client_transaction_version,
        "pending_state": metadata.pending_state,
        "failed_epoch_fence": metadata.has_failed_epoch_fence,
    }


class Coordinator(Adapter):
    """coordinator.json"""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.next_id = given.get("next_producer_id", 0)
        self.leaders = dict(given.get("leaders", {}))
        self.homes = dict(given.get("txn_partition_of", {}))
        self.model = DraftCoordinator(
            protocol=RELEASE,
            transaction_version=given.get("broker_transaction_version", 0),
            now_ms=given.get("now_ms", 0),
            producer_ids=self._new_id,
            leader_of=lambda partition: self.leaders.get(partition, 0),
            state_partition_of=lambda name: self.homes.get(name, 0),
        )
        self.model.keeps_records = True
        self.epoch = given.get("coordinator_epoch", 0)
        self.ownership = given.get("ownership", "ACTIVE")
        self.partitions = {*self.homes.values(), 0}
        for txn in given.get("txns", ()):
            self.model.put(metadata_from(txn))
        self._own(self.ownership, self.epoch)
        self.requests: dict[str, dict[str, list[Marker]]] = {}
        self.in_flight: list[tuple[str | None, Marker]] = []
        for sent in given.get("markers_in_flight", ()):
            self._send(sent)

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _own(self, status: str, epoch: int) -> None:
        self.ownership = status
        for partition in self.partitions:
            if status == "NOT_COORDINATOR":
                entries = dict(self.model.entries)
                self.model.resign(partition)
                self.model.entries.update(entries)
            else:
                self.model.elect(partition, epoch, is_loading=status == "LOADING")

    def _send(self, sent: Mapping[str, Any]) -> None:
        """Markers that are in flight when the case begins."""
        name = sent["txn_id"]
        self.model.send_markers(name, sent["coordinator_epoch"])
        for markers in self.model.drain_markers().values():
            self.in_flight += [(None, marker) for marker in markers]

    def _fresh(self) -> None:
        self.model.records.clear()

    def init_producer_id(
        self,
        txn_id: str | None,
        timeout_ms: int,
        expected_pid: int | None,
        expected_epoch: int | None,
        state_append_error: str = "NONE",
        interleave: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        self._fresh()
        expected = None
        if expected_pid is not None and expected_epoch is not None:
            expected = (expected_pid, expected_epoch)

        def between() -> None:
            assert interleave is not None
            self.model.put(metadata_from(interleave["replace_txn"]))

        answer = self.model.init_producer_id(
            txn_id,
            timeout_ms,
            expected,
            append=state_append_error,
            before_abort=None if interleave is None else between,
        )
        return self._answered(answer)

    def _answered(self, answer: Any) -> dict[str, Any]:
        if answer is None:
            return {"error": None}
        self.last_id = answer.producer_id
        return {
            "error": answer.error,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }

    def observe_producer_id_not(self, wanted: Any) -> bool:
        values = wanted if isinstance(wanted, list) else [wanted]
        return self.last_id not in values

    def add_partitions(
        self,
        txn_id: str | None,
        producer_id: int,
        producer_epoch: int,
        partitions: list[str],
        state_append_error: str = "NONE",
    ) -> dict[str, Any]:
        self._fresh()
        error = self.model.add_partitions(
            txn_id, producer_id, producer_epoch, partitions, append=state_append_error
        )
        return {"error": error}

    def verify_partitions(
        self, txn_id: str | None, producer_id: int, producer_epoch: int, partitions: list[str]
    ) -> dict[str, Any]:
        self._fresh()
        errors = self.model.verify_partitions(txn_id, producer_id, producer_epoch, partitions)
        return {"partition_errors": errors}

    def end_txn(
        self, txn_id: str | None, producer_id: int, producer_epoch: int, result: str,
        client_transaction_version: int, state_append_error: str = "NONE",
    ) -> dict[str, Any]:  # fmt: skip
        self._fresh()
        answer = self.model.end_txn(
            txn_id,
            producer_id,
            producer_epoch,
            result,
            api_version=5 if client_transaction_version == 2 else 4,
            append=state_append_error,
        )
        return self._answered(answer)

    def describe(self, txn_id: str | None) -> dict[str, Any]:
        self._fresh()
        try:
            error, metadata = self.model.describe(txn_id)
        except IllegalArgumentError:
            raise RaisedError("ILLEGAL_ARGUMENT") from None
        return {"error": error, "txn_id": txn_id, **(metadata_to(metadata) or {})}

    def timeout_scan(self, state_append_error: str = "NONE") -> None:
        self._fresh()
        self.model.abort_timed_out(append=state_append_error)

    def set_txn(self, metadata: Mapping[str, Any]) -> None:
        self._fresh()
        self.model.put(metadata_from(metadata))

    def set_ownership(self, status: str, coordinator_epoch: int | None = None) -> None:
        self._fresh()
        self.epoch = self.epoch if coordinator_epoch is None else coordinator_epoch
        self._own(status, self.epoch)

    def resign(self, partition: int, coordinator_epoch: int | None) -> None:
        self._fresh()
        self.model.resign(partition, coordinator_epoch)

    def sleep(self, ms: int) -> None:
        self._fresh()
        self.model.now_ms += ms

    def set_leader(self, partition: str, broker: Any) -> None:
        self._fresh()
        self.leaders[partition] = broker

    def send_markers(self, txn_id: str, coordinator_epoch: int) -> dict[str, Any]:
        self._fresh()
        waiting = self.model.send_markers(txn_id, coordinator_epoch)
        return {"waiting_partitions": sorted(waiting)}

    def drain_markers(
        self, state_append_error: str = "NONE", keep_as: str | None = None
    ) -> dict[str, Any]:
        self._fresh()
        requests = self._raising(lambda: self.model.drain_markers(append=state_append_error))
        for markers in requests.values():
            self.in_flight += [(keep_as, marker) for marker in markers]
        shown = {
            str(broker): [
                {
                    "producer_id": marker.producer_id,
                    "producer_epoch": marker.producer_epoch,
                    "coordinator_epoch": marker.coordinator_epoch,
                    "result": marker.result,
                    "partitions": sorted(marker.partitions),
                }
                for marker in markers
            ]
            for broker, markers in requests.items()
        }
        return {"requests": shown, "request_count": len(shown)}

    def _raising(self, call: Any) -> Any:
        try:
            return call()
        except IllegalStateError:
            raise RaisedError("ILLEGAL_STATE") from None

    def _taken(self, txn_id: str, request: str | None, partitions: Any = None) -> list[Marker]:
        """Takes out the markers of a transaction in progress; those with these partitions first."""
        found = [
            (label, marker)
            for label, marker in self.in_flight
            if marker.transactional_id == txn_id and request in (None, label)
        ]
        if partitions is not None:
            exact = [item for item in found if item[1].partitions >= set(partitions)]
            found = exact[:1] or found[:1]
        for item in found:
            self.in_flight.remove(item)
        return [marker for _, marker in found]

    def marker_response(
        self,
        txn_id: str,
        partition_errors: Mapping[str, str] | None,
        state_append_error: str = "NONE",
        request: str | None = None,
    ) -> dict[str, Any]:
        self._fresh()
        (marker,) = self._taken(txn_id, request, partition_errors or ())
        outcome, again = self._raising(
            lambda: self.model.markers_answered(marker, partition_errors, append=state_append_error)
        )
        return {
            "outcome": outcome,
            "retried_partitions": sorted(again),
            "waiting_partitions": sorted(self.model.waiting_partitions(txn_id)),
        }

    def marker_disconnected(self, txn_id: str, request: str | None = None) -> dict[str, Any]:
        self._fresh()
        markers = self._taken(txn_id, request)
        outcomes = [self.model.marker_lost(marker) for marker in markers]
        again = sorted(p for marker in markers for p in marker.partitions)
        return {"outcome": outcomes[0] if outcomes else None, "retried_partitions": again}

    def remove_markers(self, txn_partition: int) -> None:
        self._fresh()
        self.model.remove_markers(txn_partition)

    def check(self) -> None:
        """Only looks."""
        self._fresh()

    def observe_txns(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {name: metadata_to(self.model.metadata(name)) for name in wanted}

    def observe_appended_count(self, _: Any) -> int:
        return len(self.model.records)

    def observe_appended(self, _: Any) -> list[Any]:
        return [metadata_to(record) for record in self.model.records]

    def observe_ownership(self, _: Any) -> str:
        return self.ownership

    def observe_pending_marker_txns(self, _: Any) -> int:
        return len(self.model.pending_completions)

    def observe_queued(self, _: Any) -> dict[str, int]:
        counts = self.model.queued_markers()
        named = {"unknown" if broker is None else str(broker): n for broker, n in counts.items()}
        return {broker: n for broker, n in named.items() if n}

    def observe_waiting_partitions(self, _: Any) -> list[str]:
        names = list(self.model.entries)
        return sorted(self.model.waiting_partitions(names[0])) if names else []

    def observe_completion_appends(self, _: Any) -> int:
        return self.model.completion_appends

    def observe_completion_coordinator_epoch(self, _: Any) -> int | None:
        return self.model.completion_coordinator_epoch
