"""A partition's leader, which appends batches and markers: its log, and the machine that checks
them.

The rows are those of `spec.leader`. This module has the rest of the broker: batches, segments, the
index of aborted transactions, the high watermark, and the order of steps (an accepted marker
completes its transaction; a truncated log is read again). In Kafka this is UnifiedLog, with its
ProducerStateManager (`producer_state_manager`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Final, NamedTuple

from ...language import lift
from ...spec.errors import OF_BROKERS
from ...spec.leader import produce
from ...spec.leader.state import asks_coordinator, asks_coordinator_now, last_stable_offset
from ...spec.leader.tables import DRIVEN
from ...spec.leader.verification import asks_about_offsets_now
from ...spec.messages import Errors
from ...spec.releases import api_versions
from ...spec.releases.features import KAFKA, stable_offset_for_all
from ...spec.systems.reductions.leader import LEADER_ALONE
from ..engine.errors import whole
from ..engine.machine import Machine
from .producer_state_manager import MarkerResponse, ProducerStateManager
from .transaction_index import AbortedTxn, TransactionIndex


class Batch(NamedTuple):
    """A batch in the log. `kind` is data, marker or plain (no producer id). Only a marker uses
    `result` and `coordinator_epoch`."""

    kind: str
    base_offset: int
    last_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    transactional: bool = False
    timestamp: int = -1
    result: str = "ABORT"
    coordinator_epoch: int = -1


class GuardResponse(NamedTuple):
    """The answer of `maybe_start_transaction_verification`: an error, or a verification guard; the
    guard is None if no verification is needed."""

    error: str
    guard: int | None


_OFFLINE = "KAFKA_STORAGE_ERROR"


class Refused(NamedTuple):
    """The answer to a batch after a failed write: the log directory is offline until a restart.

    LocalLog.maybeHandleIOException, LogDirFailureChannel. In releases without LocalLog a thread of
    the broker takes the partition offline soon after.
    """

    error: str = _OFFLINE
    first_offset: int = -1
    last_offset: int = -1
    is_duplicate: bool = False


class PartitionLeader:
    """The leader of one partition, with an empty log.

    `protocol` is the release. `now_ms` is the time, which only the caller changes. The other
    parameters are broker settings.
    """

    def __init__(
        self, *, protocol: str | None = None, now_ms: int = 0, verification: bool = True,
        producer_id_expiration_ms: int = 86_400_000, max_transaction_timeout_ms: int = 900_000,
        late_transaction_buffer_ms: int = 300_000,
    ) -> None:  # fmt: skip
        settings = {"producer_id_expiration_ms": producer_id_expiration_ms}
        machine = Machine(
            DRIVEN, KAFKA, protocol=protocol, constants=settings, reductions=LEADER_ALONE
        )
        self.producer_state_manager = ProducerStateManager(machine)
        self.enable_verification(enabled=verification)
        self.now_ms = now_ms
        self._expiration_ms = producer_id_expiration_ms
        self.late_ms = max_transaction_timeout_ms + late_transaction_buffer_ms
        self.batches: list[Batch] = []
        self.segments = [0]
        self.index = TransactionIndex()
        self.index_fails = False
        """Whether writes to the index of aborted transactions fail."""
        self.is_offline = False
        """Whether a write to the leader's directory has failed."""

    def enable_verification(self, *, enabled: bool) -> None:
        """Changes transaction.partition.verification.enable. While it is off, no batch needs a
        guard, and an appended batch removes its guard.

        DynamicProducerStateManagerConfig, UnifiedLog.batchMissingRequiredVerification
        """
        self.machine.put(verification_enabled=enabled)
        fields = _transactional(0, 0)
        self._asks: dict[tuple[str, tuple[str, ...]], bool] = {
            (origin, off): self.machine.meaning("Produce", asks, off, fields)
            for origin, asks in _ASKS.items()
            for off in ((), api_versions.VERSION_1)
        }

    def copy(self) -> PartitionLeader:
        """Another leader in the same state."""
        made = object.__new__(type(self))  # copy.copy takes three times as long
        made.__dict__.update(self.__dict__)
        made.producer_state_manager, made.index = (
            self.producer_state_manager.copy(),
            self.index.copy(),
        )
        made.batches, made.segments = list(self.batches), list(self.segments)
        return made

    @property
    def machine(self) -> Machine:
        """The machine that judges batches and markers."""
        return self.producer_state_manager.machine

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self._now_ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.machine.outside(clock__now=value)
        self._now_ms = value

    # Reading ----------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that hasn't been deleted."""
        return self.machine["log_start_offset"]

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.machine["log_end_offset"]

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are replicated."""
        return self.machine["high_watermark"]

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the first transaction that is open, or whose marker isn't replicated."""
        first = self.producer_state_manager.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which a read_committed consumer gets the records."""
        self.machine.put(first_unstable_offset=self.producer_state_manager.first_unstable_offset)
        return self.machine.value(last_stable_offset)

    def stable_offset_for(self, is_committed: bool) -> int:
        """The last stable offset in the answer to a Fetch, or -1."""
        is_there = is_committed or stable_offset_for_all.data.name in self.machine.features
        return self.last_stable_offset if is_there else -1

    @property
    def has_late_transaction(self) -> bool:
        """Whether the first open transaction is older than every allowed timeout."""
        last = self.producer_state_manager.oldest_txn_last_timestamp
        return last > 0 and self._now_ms - last > self.late_ms

    @property
    def producers(self) -> dict[int, Any]:
        """The state of each producer id: a ProducerStateEntry."""
        return self.producer_state_manager.producers

    def aborted(self, from_offset: int, to_offset: int | None = None) -> tuple[AbortedTxn, ...]:
        """The aborted transactions in the answer to a fetch from `from_offset` to `to_offset`
        (default: the last stable offset)."""
        to_offset = self.last_stable_offset if to_offset is None else to_offset
        whole("from_offset", from_offset, 0)
        whole("to_offset", to_offset, 0)
        return self.index.collect(from_offset, to_offset)[0]

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction of this producer is open here."""
        fields = _transactional(producer_id, producer_epoch)
        return self.machine.meaning("Produce", produce.in_transaction, (), fields)

    # Appending --------------------------------------------------------------------------------

    def append(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, count: int,
        transactional: bool = False, origin: str = "CLIENT", guard: int | None = None,
        timestamp: int | None = None, transaction_version: int | None = None,
    ) -> Any:  # fmt: skip
        """Appends a batch of `count` records, and returns its AppendResponse.

        `guard` is the result of `maybe_start_transaction_verification`. `transaction_version` is
        the request's transaction version (default: the release's).
        """
        whole("count", count, 1)
        if timestamp is None:
            timestamp = self._now_ms
        whole("base_sequence", base_sequence, -1, 2**31 - 1)
        if self.is_offline:
            return Refused()
        last = -1 if base_sequence < 0 else (base_sequence + count - 1) % 2**31
        off = api_versions.before(transaction_version)
        if transactional and self._asks[origin, off]:
            state = self.machine.at("verification_states", producer_id)
            answer = self.machine.handle(
                "AddPartitionsByLeaderResponse", switch_off=off, producer=0, partition=0,
                producer_id=producer_id,
                producer_epoch=producer_epoch, base_sequence=base_sequence, last_sequence=last,
                offset_delta=count - 1, timestamp=timestamp, from_client=origin == "CLIENT",
                error="NONE", guarded=state is not None and guard == state.verification_guard,
            ).reply  # fmt: skip
        else:
            answer = self.machine.handle(
                "Produce", switch_off=off, producer_id=producer_id, producer_epoch=producer_epoch,
                base_sequence=base_sequence, last_sequence=last, offset_delta=count - 1,
                timestamp=timestamp, from_client=origin == "CLIENT",
                from_coordinator=origin == "COORDINATOR", idempotent_only=not transactional,
                beneath_log=False,
            ).reply  # fmt: skip
        if answer.error == "NONE" and not answer.is_duplicate:
            self.producer_state_manager.map_end_offset = answer.last_offset + 1
            if transactional:
                self.producer_state_manager.begun(producer_id, answer.first_offset)
            batch = Batch(
                "data", answer.first_offset, answer.last_offset, producer_id, producer_epoch,
                base_sequence, last, transactional, timestamp,
            )  # fmt: skip
            self.batches.append(batch)
        return answer

    def append_plain(self, count: int) -> None:
        """Appends a batch of `count` records without producer id."""
        whole("count", count, 1)
        base = self.log_end_offset
        self._plain(Batch("plain", base, base + count - 1))

    def append_marker(
        self, *, producer_id: int, producer_epoch: int, result: str, coordinator_epoch: int = 0,
        timestamp: int | None = None, transaction_version: int | None = None,
    ) -> MarkerResponse:  # fmt: skip
        """Appends a marker that ends a transaction, and returns its MarkerResponse."""
        offset = self.log_end_offset
        batch = Batch(
            "marker", offset, offset, producer_id, producer_epoch, transactional=True,
            timestamp=self.now_ms if timestamp is None else timestamp, result=result,
            coordinator_epoch=coordinator_epoch,
        )  # fmt: skip
        if self.is_offline:
            return MarkerResponse(_OFFLINE, None)
        return self._marker(batch, "COORDINATOR", transaction_version)

    def read_again(self, batch: Batch, origin: str = "CLIENT") -> str:
        """Applies a batch of an existing log at its own offsets. Returns NONE if the leader accepts
        it from this origin under some transaction version, else the error. The batch is applied in
        both cases."""
        error = ""
        for version in (2, 0):
            answer = self._apply(batch, origin, version)
            if answer == "NONE":
                return answer
            error = error or answer
        self._apply(batch)
        return error

    def replicate(self, batches: Iterable[Batch]) -> None:
        """Applies batches at their own offsets, as a follower does, without checks. Before 2.5,
        markers are checked."""
        for batch in batches:
            self._apply(batch)

    def _plain(self, batch: Batch) -> None:
        self._goes_to(batch.last_offset + 1)
        self.producer_state_manager.map_end_offset = batch.last_offset + 1
        self.batches.append(batch)

    def _goes_to(self, end: int) -> None:
        self.machine.put(log_end_offset=end)

    def _marker(
        self, batch: Batch, origin: str, transaction_version: int | None = None
    ) -> MarkerResponse:
        map_end = self.producer_state_manager.map_end_offset
        answer = self.producer_state_manager.append_marker(
            producer_id=batch.producer_id, producer_epoch=batch.producer_epoch,
            coordinator_epoch=batch.coordinator_epoch, result=batch.result,
            offset=batch.base_offset, timestamp=batch.timestamp, origin=origin,
            switch_off=api_versions.before(transaction_version),
        )  # fmt: skip
        if answer.error != "NONE":
            return answer
        self.batches.append(batch)
        if answer.completed_txn is not None:
            producer_id, first, last, is_aborted = answer.completed_txn
            if is_aborted and self.index_fails:
                # the marker is in the log by then, and the state is as if it ended nothing
                self.producer_state_manager.map_end_offset = map_end
                self.is_offline = True
                return answer._replace(error=_OFFLINE)
            if is_aborted:
                stable = self.producer_state_manager.last_stable_offset(producer_id, last)
                self.index.append(AbortedTxn(producer_id, first, last, stable))
            self.producer_state_manager.complete_txn(answer.completed_txn)
        return answer

    def _apply(
        self, batch: Batch, origin: str = "REPLICATION", transaction_version: int | None = None
    ) -> str:
        """Appends the batch at its offsets, unless a check refuses it. Returns the error."""
        if batch.kind == "plain":
            self._plain(batch)
            return "NONE"
        if batch.kind == "marker":
            sent_by = "REPLICATION" if origin == "REPLICATION" else "COORDINATOR"
            return self._marker(batch, sent_by, transaction_version).error
        answer = self.producer_state_manager.append(
            producer_id=batch.producer_id, producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence, last_sequence=batch.last_sequence,
            first_offset=batch.base_offset, offset_delta=batch.last_offset - batch.base_offset,
            transactional=batch.transactional, timestamp=batch.timestamp, origin=origin,
            switch_off=api_versions.before(transaction_version),
        )  # fmt: skip
        if answer.error == "NONE":
            self.batches.append(batch)
        return answer.error

    # Verification -----------------------------------------------------------------------------

    def maybe_start_transaction_verification(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int,
        transaction_version: int | None = None,
    ) -> GuardResponse:  # fmt: skip
        """The verification guard of a batch, if the coordinator must verify it.
        `transaction_version` is that of `append`."""
        fields = _transactional(producer_id, producer_epoch, base_sequence)
        off = api_versions.before(transaction_version)
        if not self.machine.meaning("Produce", produce.needs_verification, off, fields):
            return GuardResponse("NONE", None)
        answer = self.machine.handle("Produce", switch_off=off, **fields).reply
        return GuardResponse(answer.error, answer.guard)

    def verdict(self, error: str, *, origin: str = "CLIENT", api_version: int | None = None) -> str:
        """The batch's error after the coordinator's answer `error`; NONE: append it. `api_version`
        is the version of Produce or TxnOffsetCommit (default: the release's newest)."""
        if error == "NONE" or not self.machine.value(asks_coordinator):
            return error
        known = error if error in _KNOWN else "UNKNOWN_SERVER_ERROR"
        request = "Produce" if origin == "CLIENT" else "TxnOffsetCommit"
        off = api_versions.without(request, api_version)
        answer = self.machine.handle(
            "AddPartitionsByLeaderResponse", switch_off=off, producer=0, partition=0,
            error=known, producer_id=0, producer_epoch=0, base_sequence=0, last_sequence=0,
            offset_delta=0, timestamp=0, from_client=origin == "CLIENT", guarded=False,
        ).reply  # fmt: skip
        return answer.error if answer.error != known else error

    # What moves without a batch -----------------------------------------------------------------

    def move_high_watermark(self, offset: int) -> None:
        """Raises the high watermark: the records below `offset` are replicated."""
        whole("offset", offset, 0)
        self.machine.put(high_watermark=min(offset, self.log_end_offset))
        self.producer_state_manager.on_high_watermark_updated(self.high_watermark)

    def remove_expired_producers(self) -> None:
        """Forgets producers that were idle for longer than producer.id.expiration.ms."""
        self.producer_state_manager.remove_expired_producers()

    def expire_producer(self, producer_id: int) -> bool:
        """Forgets a producer as if its expiration time were over. Returns whether it was
        forgotten."""
        self.machine.outside(clock__now=self.now_ms + self._expiration_ms + 1)
        done = self.machine.attempt("producer expires", producer_id=producer_id)
        self.machine.outside(clock__now=self.now_ms)
        return done is not None

    def expire_producers(self) -> None:
        """Forgets all producers without a transaction, and all verification states, as if their
        expiration time were over."""
        self.machine.outside(clock__now=self.now_ms + self._expiration_ms + 1)
        self.producer_state_manager.remove_expired_producers()
        self.machine.outside(clock__now=self.now_ms)

    def roll(self) -> None:
        """Begins a new segment, and takes a snapshot of the producers at its start."""
        end = self.log_end_offset
        if self.segments[-1] != end:
            self.segments.append(end)
        self._take_snapshot(end)

    def delete_records(self, before: int) -> None:
        """Deletes the records below offset `before`."""
        whole("before", before, 0)
        if self.log_start_offset < before <= self.log_end_offset:
            self.producer_state_manager.on_log_start_offset_incremented(before)

    def delete_segments(self, count: int) -> None:
        """Deletes up to `count` of the oldest segments. A segment that is empty or ends above the
        high watermark stays. If all are deleted, a new one is rolled first
        (UnifiedLog.deleteSegments)."""
        ends = [*self.segments[1:], self.log_end_offset]
        there = zip(self.segments[:count], ends[:count], strict=True)
        replicated = takewhile(lambda s: s[0] < s[1] <= self.high_watermark, there)
        deletable = [base for base, _ in replicated]
        if not deletable:
            return
        if len(deletable) == len(self.segments):
            self.roll()
        start = self.segments[len(deletable)]
        self.delete_records(start)
        del self.segments[: len(deletable)]
        for base in deletable:
            self.producer_state_manager.delete_snapshots(base, base)
        self.batches = [batch for batch in self.batches if batch.base_offset >= start]
        self.index.delete_below(start)

    def truncate(self, offset: int) -> None:
        """Removes the records from `offset` on, as a follower does."""
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0]:
            return self.truncate_fully(offset)
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.segments = [base for base in self.segments if base <= offset]
        self.machine.put(log_start_offset=min(offset, self.log_start_offset))
        self._goes_to(offset)
        self.index.truncate(offset)
        self._rebuild(offset)
        self.move_high_watermark(self.high_watermark)

    def truncate_fully(self, offset: int, log_start: int | None = None) -> None:
        """Removes all records. The next one has offset `offset`."""
        self.batches.clear()
        self.segments = [offset]
        self.machine.put(log_start_offset=offset if log_start is None else log_start)
        self._goes_to(offset)
        self.index.truncate(0)
        self.producer_state_manager.truncate_fully_and_start_at(offset)
        self._rebuild(offset)
        self.move_high_watermark(offset)

    # Reading the log again ----------------------------------------------------------------------

    def reopen(self, *, clean: bool = True) -> None:
        """Restarts the broker, which reads the log again. After a `clean` shutdown there is a
        snapshot of the last offset. Otherwise all segments and the transaction index are
        recovered."""
        end = self.log_end_offset
        if clean:
            self.producer_state_manager.take_snapshot()
        self.index_fails = self.is_offline = False
        self.machine.put(verification_states={}, high_watermark=self.log_start_offset)
        if not clean:
            self.index.truncate(0)
            for base, following in zip(self.segments, [*self.segments[1:], end], strict=True):
                self._rebuild(base, is_fresh=True)
                self._replay(base, following, with_index=True)
                self._take_snapshot(following)
            self._remove_strays()
        self._rebuild(end, is_fresh=True, clean=clean)

    def _rebuild(self, end: int, *, is_fresh: bool = False, clean: bool = False) -> None:
        """Rebuilds the producer state at offset `end` from a snapshot and the batches after it.
        `is_fresh`: in a new instance. `clean`: after a clean shutdown.
        (UnifiedLog.rebuildProducerState)"""
        states, newest = self.producer_state_manager, self.segments[-2:]
        if clean and not states.snapshots:
            states.truncate_fully_and_start_at(0)
            for offset in (*newest, end):
                self._take_snapshot(offset)
            return
        was_empty = not (is_fresh or states.producers or states.unreplicated_txns)
        was_empty = was_empty and states.map_end_offset >= end
        start = self.log_start_offset
        states.truncate_and_reload(start, end, is_fresh=is_fresh)
        loaded = max(start, states.map_end_offset)
        if not was_empty:
            for base, following in zip(self.segments, [*self.segments[1:], end], strict=True):
                start = max(base, loaded)
                if min(following, end) <= start:
                    continue
                states.map_end_offset = start
                if base in newest:
                    states.take_snapshot()
                self._replay(start, min(following, end))
        self._take_snapshot(end)

    def _replay(self, start: int, end: int, *, with_index: bool = False) -> None:
        """Applies the batches between two offsets again."""
        batches, index, log_end = self.batches, self.index, self.log_end_offset
        self.batches = []
        if not with_index:
            self.index = TransactionIndex()
        for batch in batches:
            if start <= batch.last_offset < end:
                self._apply(batch)
        self.batches, self.index = batches, index
        self._goes_to(log_end)

    def _take_snapshot(self, offset: int) -> None:
        """Takes a snapshot of the producer state, which ends at this offset."""
        self.producer_state_manager.map_end_offset = offset
        self.producer_state_manager.take_snapshot()

    def _remove_strays(self) -> None:
        """Removes the snapshots at which no segment starts, except the newest one if it is after
        all segments' starts (ProducerStateManager.removeStraySnapshots)."""
        found = self.producer_state_manager.snapshots
        stray = [s.offset for s in found if s.offset not in self.segments]
        kept = {*self.segments, *(offset for offset in stray[-1:] if offset > self.segments[-1])}
        self.producer_state_manager.snapshots = [s for s in found if s.offset in kept]


_KNOWN = frozenset(Errors.names[:OF_BROKERS])
_ASKS: Final = {
    "CLIENT": asks_coordinator_now,
    "COORDINATOR": asks_about_offsets_now,
    "REPLICATION": lift(False),
}
"""For each origin of a transactional batch: whether the leader asks the coordinator about it."""


def _transactional(producer_id: int, producer_epoch: int, base_sequence: int = 0) -> dict[str, Any]:
    """The fields of a Produce with a client's transactional batch of one record."""
    return {
        "producer_id": producer_id, "producer_epoch": producer_epoch,
        "base_sequence": base_sequence, "last_sequence": base_sequence, "offset_delta": 0,
        "timestamp": 0, "idempotent_only": False, "from_client": True,
        "from_coordinator": False, "beneath_log": False,
    }  # fmt: skip
