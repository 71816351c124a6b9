"""coordinator_metadata.json: the entry's own functions, and the coordinator's table of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from epochfence.model import TransactionMetadata, partition_for
from epochfence.model.broker.transactions.coordinator import IllegalArgumentError
from epochfence.model.broker.transactions.marker_channel_manager import IllegalStateError
from epochfence.model.broker.transactions.transaction_log import TombstoneBatch
from epochfence.model.broker.transactions.transaction_metadata import NEW_ENTRY, STATE_NAMES
from epochfence.spec.coordinator import entry as transaction
from epochfence.tests.conformance.coordinator_cases import metadata_from, metadata_to
from epochfence.tests.conformance.draft import RELEASE, DraftFunctions
from epochfence.tests.conformance.harness import Adapter, RaisedError


class CoordinatorMetadata(Adapter):
    """coordinator_metadata.json"""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        config = given.get("config", {})
        self.partitions = given.get("num_partitions", 1)
        self.version = given.get("broker_transaction_version", 0)
        self.model = DraftFunctions(
            protocol=RELEASE,
            transaction_version=self.version,
            now_ms=given.get("now_ms", 0),
            state_partition_of=lambda name: partition_for(name, self.partitions),
            transactional_id_expiration_ms=config.get("transactional_id_expiration_ms", 604800000),
            transaction_max_timeout_ms=config.get("transaction_max_timeout_ms", 900_000),
        )
        self.prepared: dict[str, TransactionMetadata] = {}
        self.loads: dict[int, Mapping[str, Any]] = {}
        self.batches: list[TombstoneBatch] = []
        if "metadata" in given:
            self.model.put(metadata_from(given["metadata"]))

    # One transaction

    def _prepare(
        self, txn_id: str, event: str, now_ms: int | None = None, **fields: Any
    ) -> dict[str, Any]:
        before = self.model.now_ms
        self.model.now_ms = before if now_ms is None else now_ms
        try:
            error = self.model.prepare(txn_id, event, **fields)
        except IllegalStateError:
            raise RaisedError("ILLEGAL_STATE") from None
        except IllegalArgumentError:
            raise RaisedError("ILLEGAL_ARGUMENT") from None
        finally:
            self.model.now_ms = before
        if error != "NONE":
            return {"error": error}
        self.prepared[txn_id] = self.model.pending_record(txn_id)
        return {"error": error, "transition": metadata_to(self.prepared[txn_id])}

    def prepare_increment_epoch(
        self, txn_id: str, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> dict[str, Any]:
        return self._prepare(
            txn_id,
            "prepare increment epoch",
            now_ms,
            timeout_ms=timeout_ms,
            expected_epoch=expected_epoch,
        )

    def prepare_rotate_producer_id(
        self,
        txn_id: str,
        new_producer_id: int,
        timeout_ms: int,
        now_ms: int,
        record_last_epoch: bool,
    ) -> dict[str, Any]:
        return self._prepare(
            txn_id,
            "prepare producer id rotation",
            now_ms,
            new_producer_id=new_producer_id,
            timeout_ms=timeout_ms,
            records_last_epoch=record_last_epoch,
        )

    def prepare_add_partitions(
        self, txn_id: str, partitions: list[str], now_ms: int
    ) -> dict[str, Any]:
        added = frozenset(partitions)
        return self._prepare(txn_id, "prepare add partitions", now_ms, partitions=added)

    def prepare_end(
        self,
        txn_id: str,
        target: str,
        client_transaction_version: int,
        next_producer_id: int,
        now_ms: int,
    ) -> dict[str, Any]:
        return self._prepare(
            txn_id,
            "prepare abort or commit",
            now_ms,
            target=_member(target),
            client_transaction_version=client_transaction_version,
            next_producer_id=None if next_producer_id < 0 else next_producer_id,
        )

    def prepare_complete(self, txn_id: str, now_ms: int) -> dict[str, Any]:
        return self._prepare(txn_id, "prepare complete", now_ms)

    def prepare_fence_epoch(self, txn_id: str) -> dict[str, Any]:
        return self._prepare(txn_id, "prepare fence")

    def complete_transition(self, txn_id: str) -> dict[str, Any]:
        return _raising(lambda: {"metadata": self._complete(txn_id)})

    def _complete(self, txn_id: str) -> Any:
        return metadata_to(self.model.complete(self.prepared[txn_id]))

    def clear_pending(self, txn_id: str) -> None:
        self.model.entries[txn_id].put(pending=None)

    def mutate_txn(self, txn_id: str, set: Mapping[str, Any]) -> None:
        """Overwrites fields; what is prepared stays."""
        known = metadata_to(self.model.metadata(txn_id))
        assert known is not None
        self.model.put(metadata_from({**known, **set}))

    def check(self, txn_id: str) -> dict[str, Any]:
        entry = self.model.entries[txn_id]
        return {
            "epoch_exhausted": entry.value(transaction.exhausted),
            "metadata": metadata_to(self.model.metadata(txn_id)),
        }

    def state_id(self, name: str, id: int) -> dict[str, Any]:
        found = next((state for state, number in STATE_NAMES.items() if number == id), None)
        entry = NEW_ENTRY._replace(transactional_id="x", state=name)
        self.model.put(entry)
        self.model.elect(self.model.state_partition_of("x"), 0)
        visible = self.model.list_transactions()[1] == ["x"]
        return {"state": found, "id": STATE_NAMES[name], "admin_visible": visible}

    def all_states(self) -> dict[str, Any]:
        return {"states": sorted(STATE_NAMES)}

    # The table of entries

    def partition_for(self, txn_id: str) -> dict[str, Any]:
        return {"partition": partition_for(txn_id, self.partitions)}

    def validate_timeout(self, timeout_ms: int) -> dict[str, Any]:
        answer = self.model.lookup("INIT_PRODUCER_ID", "x", timeout_ms)
        return {"valid": answer.error != "INVALID_TRANSACTION_TIMEOUT"}

    def broker_transaction_version(self) -> dict[str, Any]:
        return {"version": self.model.transaction_version}

    def own_partition(self, partition: int, coordinator_epoch: int) -> None:
        self.model.elect(partition, coordinator_epoch)

    def mark_loading(self, partition: int, coordinator_epoch: int) -> None:
        self.model.elect(partition, coordinator_epoch, is_loading=True)

    def resign(self, partition: int, coordinator_epoch: int | None) -> None:
        self.model.resign(partition, coordinator_epoch)

    def load_from_log(
        self,
        partition: int,
        coordinator_epoch: int,
        records: list[Any],
        log_start: int,
        log_end: int | None = None,
    ) -> dict[str, Any]:
        return self._loaded(self.model.load(partition, coordinator_epoch, _records(records)))

    def _loaded(self, driven: list[str]) -> dict[str, Any]:
        results = {
            marker.transactional_id: marker.result
            for markers in self.model.drain_markers().values()
            for marker in markers
        }
        sent = [{"txn_id": name, "result": results.get(name)} for name in driven]
        return {
            "markers_sent_for": driven,
            "markers_sent": sent,
            "txn_count": len(self.model.entries),
        }

    def begin_load(self, partition: int, coordinator_epoch: int, **rest: Any) -> None:
        self.loads[partition] = {"coordinator_epoch": coordinator_epoch, **rest}
        self.model.elect(partition, coordinator_epoch, is_loading=True)

    def finish_load(
        self, partition: int | None = None, coordinator_epoch: int | None = None, **rest: Any
    ) -> dict[str, Any]:
        partition = next(iter(self.loads)) if partition is None else partition
        begun = self.loads.pop(partition)
        records = {**begun, **rest}.get("records", [])
        return self._loaded(
            self.model.end_load(partition, begun["coordinator_epoch"], _records(records))
        )

    def get_txn(self, txn_id: str) -> dict[str, Any]:
        answer = self.model.lookup("OTHER", txn_id)
        if answer.error in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"):
            return {"error": answer.error}
        return {
            "error": "NONE",
            "exists": answer.step == "GO_ON",
            "coordinator_epoch": self.model.owner_epoch(txn_id),
            "metadata": metadata_to(self.model.metadata(txn_id)),
        }

    def put_txn(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        found = self.get_txn(metadata["txn_id"])
        if found["error"] == "NONE" and not found["exists"]:
            self.model.put(metadata_from(metadata))
        return self.get_txn(metadata["txn_id"])

    def put_many(
        self, prefix: str, first: int, last: int, state: str, txn_timeout_ms: int,
        last_update_ms: int,
    ) -> None:  # fmt: skip
        for number in range(first, last + 1):
            self.model.put(
                NEW_ENTRY._replace(
                    transactional_id=f"{prefix}{number}",
                    producer_id=number,
                    producer_epoch=0,
                    state=state,
                    txn_timeout_ms=txn_timeout_ms,
                    txn_last_update_timestamp=last_update_ms,
                )
            )

    def append_transition(
        self,
        txn_id: str,
        coordinator_epoch: int,
        log_result: str,
        keep_pending_for_retry: bool = False,
    ) -> dict[str, Any]:
        def append() -> dict[str, Any]:
            error = self.model.append(
                self.prepared[txn_id],
                coordinator_epoch,
                log_result,
                keeps_pending_for_retry=keep_pending_for_retry,
            )
            return {"error": error, "metadata": metadata_to(self.model.metadata(txn_id))}

        return _raising(append)

    def list_transactions(
        self, producer_ids: list[int], states: list[str], min_duration_ms: int
    ) -> dict[str, Any]:
        error, ids, unknown = self.model.list_transactions(producer_ids, states, min_duration_ms)
        return {"error": error, "txn_ids": sorted(ids), "unknown_state_filters": sorted(unknown)}

    def timed_out_scan(self) -> dict[str, Any]:
        return {"timed_out": sorted(self.model.timed_out())}

    def expire_txn_ids(
        self, log_result: str, offline_partitions: Iterable[int], max_batch_bytes: int
    ) -> dict[str, Any]:
        self.batches = self.model.expire(
            append=log_result, offline=offline_partitions, max_batch_bytes=max_batch_bytes
        )
        ids = sorted(name for batch in self.batches for name in batch.transactional_ids)
        return {
            "tombstones": ids,
            "tombstone_count": len(ids),
            "attempted": ids,
            "expirable_after": sorted(self.model.expirable()),
        }

    def observe_min_batches_per_partition(self, wanted: int) -> int:
        partitions = [batch.state_partition for batch in self.batches]
        fewest = min(map(partitions.count, set(partitions)), default=0)
        return wanted if fewest >= wanted else fewest

    def observe_every_batch_below_bytes(self, wanted: int) -> int:
        largest = max((batch.size for batch in self.batches), default=0)
        return wanted if largest < wanted else largest

    def sleep(self, ms: int) -> None:
        self.model.now_ms += ms

    def observe_loading(self, _: Any) -> bool:
        return self.model.is_loading()


def _member(state: str) -> str:
    number = STATE_NAMES[state]
    return transaction.TransactionState.names[number]


def _records(records: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Any]]:
    """The records of a log; those of unknown versions are skipped."""
    for record in records:
        if "txn_id" in record:
            value = record["value"]
            yield record["txn_id"], value and metadata_from(value)


def _raising(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except IllegalStateError:
        raise RaisedError("ILLEGAL_STATE") from None
