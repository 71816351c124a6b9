"""producer_state.json and log.json on a partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from epochfence.model import PartitionLeader
from epochfence.model.broker.leader import Batch
from epochfence.model.broker.producer_state_manager import (
    CompletedTxn,
    NotStartedError,
    ProducerStateManager,
)
from epochfence.model.broker.transaction_index import AbortedTxn, NotBehindError
from epochfence.model.engine.machine import Machine
from epochfence.tests.conformance.draft import RELEASE
from epochfence.tests.conformance.harness import Adapter, RaisedError

NOT_IN_MEMORY = "the model has snapshots, but no files of them that others change"
FILES: dict[str, str] = dict.fromkeys(
    (
        "create_snapshot_file",
        "delete_snapshot_file",
        "stash_snapshot_files",
        "restore_stashed_snapshot_files",
        "rescan_snapshots",
        "rescan_on_start",
        "remove_stray_snapshots",
        "mark_snapshot_for_deletion",
        "delete_snapshot_files",
        "snapshot_round_trip",
    ),
    NOT_IN_MEMORY,
)


def entry_of(entry: Any) -> dict[str, Any] | None:
    """A ProducerStateEntry under the names of the cases."""
    if entry is None:
        return None
    oldest, newest = entry.batch_metadata[:1], entry.batch_metadata[-1:]
    return {
        "epoch": entry.producer_epoch,
        "first_seq": first_sequence(oldest[0]) if oldest else -1,
        "last_seq": newest[0].last_sequence if newest else -1,
        "first_data_offset": oldest[0].last_offset - oldest[0].offset_delta if oldest else -1,
        "last_data_offset": newest[0].last_offset if newest else -1,
        "current_txn_first_offset": entry.current_txn_first_offset,
        "coordinator_epoch": entry.coordinator_epoch,
        "last_timestamp": entry.last_timestamp,
    }


def first_sequence(batch: Any) -> int:
    """The first sequence of a batch that is remembered by its last."""
    return (batch.last_sequence - batch.offset_delta) % 2**31


class Labels:
    """The names that a case gives to verification guards."""

    def __init__(self) -> None:
        self.guards: dict[str, int] = {}

    def give(self, label: str, guard: int) -> None:
        """The label stands for this guard; a label used before must stand for the same one."""
        if self.guards.setdefault(label, guard) != guard:
            raise RaisedError(f"guard {label} is another one")

    def of(self, guard: int) -> str | None:
        """The label of a guard."""
        return next((label for label, known in self.guards.items() if known == guard), None)


class OnLeader(Adapter):
    """What both files can ask after any operation."""

    states: ProducerStateManager

    @property
    def machine(self) -> Machine:
        """The machine beneath."""
        return self.states.machine

    def observe_producers(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        known = self.states.producers
        return {producer_id: entry_of(known.get(int(producer_id))) for producer_id in wanted}

    def observe_map_end_offset(self, _: Any) -> int:
        return self.states.map_end_offset

    def observe_first_unstable_offset(self, _: Any) -> int | None:
        return self.states.first_unstable_offset

    def take_snapshot(self) -> None:
        self.states.take_snapshot()

    def offsets(self) -> list[int]:
        """The offsets of the snapshots."""
        return [snapshot.offset for snapshot in self.states.snapshots]

    def observe_snapshot_offsets(self, _: Any) -> list[int]:
        return self.offsets()

    def observe_snapshot_count(self, _: Any) -> int:
        return len(self.offsets())

    def observe_oldest_snapshot_offset(self, _: Any) -> int | None:
        return next(iter(self.offsets()), None)

    def observe_latest_snapshot_offset(self, _: Any) -> int | None:
        return next(reversed(self.offsets()), None)

    def active(self) -> list[int]:
        """The producer ids that are known."""
        return sorted(self.states.producers)


class ProducerState(OnLeader):
    """producer_state.json"""

    skipped_with_tag: ClassVar[Mapping[str, Mapping[str, str]]] = {"snapshot": FILES}

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        names = (
            "producer_id_expiration_ms",
            "max_transaction_timeout_ms",
            "late_transaction_buffer_ms",
        )
        settings = {name: given[name] for name in names if name in given}
        self.now = given.get("now_ms", 0)
        self.leader = PartitionLeader(
            protocol=RELEASE,
            now_ms=self.now,
            **settings,
            verification=given.get("verification_enabled", False),
        )
        self.states = self.leader.producer_state_manager
        self.labels = Labels()
        self.staged: dict[str, dict[str, Any]] = {}

    def append(
        self, pid: int, epoch: int, first_seq: int, last_seq: int, first_offset: int,
        last_offset: int, transactional: bool, timestamp: int | None, origin: str,
    ) -> dict[str, Any]:  # fmt: skip
        batch = (epoch, first_seq, last_seq, first_offset, last_offset, transactional, timestamp)
        return {"error": self._append(self.states, pid, origin, *batch).error}

    def _append(
        self, states: ProducerStateManager, pid: int, origin: str, epoch: int, first_seq: int,
        last_seq: int,
        first_offset: int, last_offset: int, transactional: bool, timestamp: int | None,
    ) -> Any:  # fmt: skip
        return states.append(
            producer_id=pid, producer_epoch=epoch, base_sequence=first_seq,
            last_sequence=last_seq, first_offset=first_offset,
            offset_delta=last_offset - first_offset, transactional=transactional,
            timestamp=self._time(timestamp), origin=origin,
        )  # fmt: skip

    def _time(self, timestamp: int | None) -> int:
        return self.now if timestamp is None else timestamp

    def append_marker(
        self, pid: int, epoch: int, coordinator_epoch: int, result: str, offset: int,
        timestamp: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        origin = "COORDINATOR"
        answer = self._marker(
            self.states, pid, origin, epoch, coordinator_epoch, result, offset, timestamp
        )
        if answer.completed_txn is not None:
            self.states.complete_txn(answer.completed_txn)
        return {"error": answer.error, "completed_txn": completed(answer.completed_txn)}

    def _marker(
        self, states: ProducerStateManager, pid: int, origin: str, epoch: int,
        coordinator_epoch: int, result: str, offset: int, timestamp: int | None,
    ) -> Any:  # fmt: skip
        return states.append_marker(
            producer_id=pid, producer_epoch=epoch, result=result, offset=offset,
            coordinator_epoch=coordinator_epoch, timestamp=self._time(timestamp), origin=origin,
        )  # fmt: skip

    def append_empty_control_batch(self, pid: int, offset: int) -> dict[str, Any]:
        self.states.append_empty_control_batch(pid, offset)
        return {"error": "NONE"}

    def stage_begin(self, handle: str, pid: int, origin: str) -> None:
        self.staged[handle] = {
            "pid": pid,
            "origin": origin,
            "states": self.states.copy(),
            "started": [],
            "batches": self.states.producers.get(pid),
        }

    def stage_append(
        self, handle: str, epoch: int, first_seq: int, last_seq: int, first_offset: int,
        last_offset: int, transactional: bool, timestamp: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        stage = self.staged[handle]
        states, pid = stage["states"], stage["pid"]
        before = {txn.first_offset for txn in states.ongoing_txns}
        answer = self._append(
            states, pid, stage["origin"], epoch, first_seq, last_seq, first_offset, last_offset,
            transactional, timestamp,
        )  # fmt: skip
        stage["started"] += [
            {"pid": txn.producer_id, "first_offset": txn.first_offset}
            for txn in states.ongoing_txns
            if txn.first_offset not in before
        ]
        return {"error": answer.error, **self._staged(stage)}

    def stage_marker(
        self, handle: str, epoch: int, coordinator_epoch: int, result: str, offset: int,
        timestamp: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        stage = self.staged[handle]
        answer = self._marker(
            stage["states"], stage["pid"], stage["origin"], epoch, coordinator_epoch, result,
            offset, timestamp,
        )  # fmt: skip
        done = completed(answer.completed_txn)
        return {"error": answer.error, "completed_txn": done, **self._staged(stage)}

    def _staged(self, stage: Mapping[str, Any]) -> dict[str, Any]:
        """What the update holds: of the batches only its own."""
        entry, before = stage["states"].producers.get(stage["pid"]), stage["batches"]
        if entry is not None and before is not None:
            own = tuple(
                batch for batch in entry.batch_metadata if batch not in before.batch_metadata
            )
            entry = entry._replace(batch_metadata=own)
        return {"staged_entry": entry_of(entry), "started_txns": list(stage["started"])}

    def stage_commit(self, handle: str) -> None:
        stage = self.staged.pop(handle)
        states, pid = stage["states"], stage["pid"]
        self.machine.put(producers=self.states.producers | {pid: states.producers[pid]})
        starts = {txn["first_offset"] for txn in stage["started"]}
        added = [txn for txn in states.ongoing_txns if txn.first_offset in starts]
        self.states.ongoing_txns = sorted([*self.states.ongoing_txns, *added])

    def last_stable_offset_if_completed(
        self, pid: int, first_offset: int, last_offset: int, aborted: bool
    ) -> dict[str, Any]:
        return {"last_stable_offset": self.states.last_stable_offset(pid, last_offset)}

    def complete_txn(
        self, pid: int, first_offset: int, last_offset: int, aborted: bool
    ) -> dict[str, Any]:
        try:
            self.states.complete_txn(CompletedTxn(pid, first_offset, last_offset, aborted))
        except NotStartedError:
            raise RaisedError("ILLEGAL_ARGUMENT") from None
        return {}

    def high_watermark(self, offset: int) -> None:
        self.states.on_high_watermark_updated(offset)

    def verification_start(self, pid: int, seq: int, epoch: int, guard: str) -> None:
        answer = self.leader.maybe_start_transaction_verification(
            producer_id=pid, producer_epoch=epoch, base_sequence=seq
        )
        assert answer.guard is not None  # a question begins
        self.labels.give(guard, answer.guard)

    def verification_clear(self, pid: int) -> None:
        self.machine.put(verification_states=self.machine["verification_states"] | {pid: None})

    def set_config(self, verification_enabled: bool) -> None:
        self.machine.put(verification_enabled=verification_enabled)

    def sleep(self, ms: int) -> None:
        self.now += ms
        self.leader.now_ms = self.now

    def remove_expired(self) -> None:
        self.states.remove_expired_producers()

    def reload(self, fresh: bool, log_start: int, log_end: int, now_ms: int | None) -> None:
        self.leader.now_ms = self.now if now_ms is None else now_ms
        self.states.truncate_and_reload(log_start, log_end, is_fresh=fresh)
        self.leader.now_ms = self.now

    def corrupt_snapshot_file(self, offset: int, how: str) -> None:
        self.states.damage_snapshot(offset)

    def fetch_snapshot(self, offset: int) -> dict[str, Any]:
        return {"found": offset in self.offsets()}

    def delete_snapshots_before(self, offset: int) -> None:
        self.states.delete_snapshots(0, offset - 1)

    def truncate_fully(self, offset: int) -> None:
        self.states.truncate_fully_and_start_at(offset)

    def check(self) -> None:
        """Only looks."""

    def observe_active_producer_count(self, _: Any) -> int:
        return len(self.active())

    def observe_first_undecided_offset(self, _: Any) -> int | None:
        return self.states.first_undecided_offset

    def observe_has_late_transaction(self, _: Any) -> bool:
        return self.leader.has_late_transaction

    def observe_verification(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        states = self.machine["verification_states"]
        found = {pid: states[int(pid)] for pid in wanted}
        return {
            pid: entry
            and {
                "guard": self.labels.of(entry.verification_guard),
                "lowest_seq": entry.lowest_sequence,
                "epoch": entry.epoch,
            }
            for pid, entry in found.items()
        }


def completed(txn: Any) -> dict[str, Any] | None:
    """A completed transaction under the names of the cases."""
    return txn and {
        "pid": txn.producer_id,
        "first_offset": txn.first_offset,
        "last_offset": txn.last_offset,
        "aborted": txn.is_aborted,
    }


class Log(OnLeader):
    """log.json"""

    skipped_with_tag: ClassVar[Mapping[str, Mapping[str, str]]] = {"snapshot": FILES}

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.leader = PartitionLeader(
            protocol=RELEASE,
            now_ms=given.get("now_ms", 0),
            verification=given.get("verification_enabled", False),
            producer_id_expiration_ms=given.get("producer_id_expiration_ms", 86_400_000),
        )
        self.states = self.leader.producer_state_manager
        self.interval = given.get("expiration_check_interval_ms", 600_000)
        self.next_check = self.leader.now_ms + self.interval
        self.labels = Labels()

    def append_plain(self, count: int) -> None:
        self.leader.append_plain(count)

    def append(
        self, pid: int, epoch: int, first_seq: int, count: int, transactional: bool, origin: str,
        guard: str | None,
    ) -> dict[str, Any]:  # fmt: skip
        answer = self.leader.append(
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=first_seq,
            count=count,
            transactional=transactional,
            origin=origin,
            guard=None if guard is None else self.labels.guards.get(guard),
        )
        return {
            "error": answer.error,
            "first_offset": answer.first_offset,
            "last_offset": answer.last_offset,
            "last_minus_first_offset": answer.last_offset - answer.first_offset,
            "duplicate": answer.is_duplicate,
        }

    def append_marker(
        self, pid: int, epoch: int, result: str, coordinator_epoch: int
    ) -> dict[str, Any]:
        answer = self.leader.append_marker(
            producer_id=pid,
            producer_epoch=epoch,
            result=result,
            coordinator_epoch=coordinator_epoch,
        )
        return {"error": answer.error}

    def append_follower(self, batches: Iterable[Mapping[str, Any]]) -> None:
        self.leader.replicate(self._batch(batch) for batch in batches)

    def _batch(self, batch: Mapping[str, Any]) -> Batch:
        last = batch.get("last_offset", batch.get("base_offset", batch.get("offset")))
        return Batch(
            batch["kind"], batch.get("base_offset", last), last, batch.get("pid", -1),
            batch.get("epoch", -1), batch.get("first_seq", -1), batch.get("last_seq", -1),
            batch.get("transactional", False), self.leader.now_ms, batch.get("result", "ABORT"),
            batch.get("coordinator_epoch", 0),
        )  # fmt: skip

    def high_watermark(self, offset: int) -> None:
        self.leader.move_high_watermark(offset)

    def read_committed_bounds(self) -> dict[str, Any]:
        return {}

    def read_committed(self, offset: int) -> dict[str, Any]:
        aborted = [
            {"pid": txn.producer_id, "first_offset": txn.first_offset}
            for txn in self.leader.aborted(offset)
        ]
        return {"empty": offset >= self.leader.last_stable_offset, "aborted": aborted}

    def verification_start(self, pid: int, seq: int, epoch: int, guard: str) -> dict[str, Any]:
        given = self.leader.maybe_start_transaction_verification(
            producer_id=pid, producer_epoch=epoch, base_sequence=seq
        ).guard
        if given is None:
            return {"guard_issued": False}
        label = self.labels.of(given)
        if label is None or label != guard:
            self.labels.guards[guard] = given
        return {"guard_issued": True}

    def observe_guards_differ(self, wanted: list[str]) -> list[str]:
        left, right = (self.labels.guards.get(label) for label in wanted)
        return wanted if left != right else []

    def set_config(self, verification_enabled: bool) -> None:
        self.machine.put(verification_enabled=verification_enabled)

    def sleep(self, ms: int) -> None:
        until = self.leader.now_ms + ms
        while self.next_check <= until:
            self.leader.now_ms = self.next_check
            self.leader.remove_expired_producers()
            self.next_check += self.interval
        self.leader.now_ms = until

    def roll(self) -> None:
        self.leader.roll()

    def increment_log_start(self, offset: int) -> None:
        self.leader.delete_records(offset)

    def delete_old_segments(self, reason: str, oldest: int | None) -> None:
        segments = self.leader.segments
        if reason == "retention_all":
            self.leader.delete_segments(len(segments))
        elif reason == "retention":
            self.leader.delete_segments(oldest or 0)
        else:
            start = self.leader.log_start_offset
            ends = [*segments[1:], self.leader.log_end_offset + 1]
            self.leader.delete_segments(sum(1 for end in ends if end <= start))

    def truncate_to(self, offset: int) -> None:
        self.leader.truncate(offset)

    def truncate_fully_and_start(self, offset: int, log_start: int | None) -> None:
        self.leader.truncate_fully(offset, log_start)

    def reopen(self, clean: bool) -> None:
        self.leader.reopen(clean=clean)

    def fail_txn_index_writes(self) -> None:
        self.leader.index_fails = True

    def txn_index_append(
        self, pid: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> dict[str, Any]:
        try:
            self.leader.index.append(AbortedTxn(pid, first_offset, last_offset, last_stable_offset))
        except NotBehindError:
            raise RaisedError("ILLEGAL_ARGUMENT") from None
        return {}

    def txn_index_collect(self, from_offset: int, to_offset: int) -> dict[str, Any]:
        aborted, is_complete = self.leader.index.collect(from_offset, to_offset)
        return {"aborted_pids": [txn.producer_id for txn in aborted], "complete": is_complete}

    def txn_index_truncate(self, offset: int) -> None:
        self.leader.index.truncate(offset)

    def txn_index_reset(self) -> None:
        self.leader.index.truncate(0)

    def check(self) -> None:
        """Only looks."""

    def _reads(self, offset: int) -> bool:
        """Whether a read_committed fetch from an offset returns data."""
        return self.leader.log_start_offset <= offset < self.leader.last_stable_offset

    def observe_readable_from(self, wanted: int) -> int | None:
        return wanted if self._reads(wanted) else None

    def observe_readable_to(self, wanted: int) -> int | None:
        return wanted if wanted == 0 or self._reads(wanted - 1) else None

    def observe_empty_from(self, wanted: int) -> int | None:
        return None if self._reads(wanted) else wanted

    def observe_empty_to(self, wanted: int) -> int | None:
        return None if self._reads(wanted) else wanted

    def observe_log_start_offset(self, _: Any) -> int:
        return self.leader.log_start_offset

    def observe_log_end_offset(self, _: Any) -> int:
        return self.leader.log_end_offset

    def observe_last_stable_offset(self, _: Any) -> int:
        return self.leader.last_stable_offset

    def observe_active_producers(self, _: Any) -> list[int]:
        return self.active()

    def observe_segment_count(self, _: Any) -> int:
        return len(self.leader.segments)

    def observe_aborted_index(self, _: Any) -> list[dict[str, Any]]:
        return [
            {
                "pid": txn.producer_id,
                "first_offset": txn.first_offset,
                "last_offset": txn.last_offset,
                "last_stable_offset": txn.last_stable_offset,
            }
            for txn in self.leader.index.entries
        ]

    def observe_aborted_index_count(self, _: Any) -> int:
        return len(self.leader.index.entries)

    def observe_stored_batches(self, wanted: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "pid": batch.producer_id,
                "epoch": batch.producer_epoch,
                "first_seq": batch.base_sequence,
                "last_seq": batch.last_sequence,
                "base_offset": batch.base_offset,
                "first_offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "count": batch.last_offset - batch.base_offset + 1,
                "transactional": batch.transactional,
            }
            for batch in self.leader.batches
            if batch.kind != "marker"
        ]

    def observe_ongoing_txn(self, wanted: Mapping[str, Any]) -> dict[str, bool]:
        known = self.states.producers
        return {
            pid: int(pid) in known
            and self.leader.has_ongoing_transaction(int(pid), known[int(pid)].producer_epoch)
            for pid in wanted
        }

    def observe_guards(self, wanted: Mapping[str, Any]) -> dict[str, str | None]:
        states = self.machine["verification_states"]
        found = {pid: states[int(pid)] for pid in wanted}
        return {
            pid: entry and self.labels.of(entry.verification_guard) for pid, entry in found.items()
        }
