"""One partition's files: its batches taken again by a leader, its index and snapshots beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ....spec.releases.features import state_outlives_records
from ....spec.releases.release import RELEASES
from ...broker.leader import Batch, PartitionLeader
from ...broker.producer_state_manager import Snapshot
from ...engine.errors import ModelError
from ...records import RecordError
from ...records.files import Kind, Row, read_file
from .folder import Finding as Finding
from .folder import Gaps, files_of, lacks_last_snapshot, policy_of, range_of, topic_of
from .snapshots import Known, as_entry, compare

SEQUENCES = 2**31
SNAPSHOT_FOR_EACH_SEGMENT: Final = "2.8"
"""From this release on a snapshot is kept as long as its segment (KAFKA-9393)."""
_WITHOUT_PRODUCERS: Final = "__cluster_metadata"
"""The controllers' log, which begins again from a snapshot of another kind."""


@dataclass(frozen=True)
class Marker:
    """A control record that ends a transaction here."""

    producer_id: int
    producer_epoch: int
    result: str
    offset: int
    file: Path
    byte: int


@dataclass(frozen=True)
class Begun:
    """The first batch of a producer in an epoch, or of its open transaction; `timestamp` is when it
    wrote last, in ms."""

    offset: int
    producer_epoch: int
    timestamp: int
    file: Path
    byte: int | None


@dataclass
class Partition:
    """The content of a partition's folder. Offsets are from `start` up to `end`."""

    name: str
    folder: Path
    start: int = 0
    end: int = 0
    batches: int = 0
    producers: set[int] = field(default_factory=set[int])
    markers: list[Marker] = field(default_factory=list[Marker])
    open: dict[int, Begun] = field(default_factory=dict[int, Begun])
    """Transactions without an end, by producer id."""
    epochs: dict[tuple[int, int], Begun] = field(default_factory=dict[tuple[int, int], Begun])
    """The first transactional batch of each producer id in each epoch."""
    idle_markers: int = 0
    """Markers that end nothing, as of a partition that was added and never written to."""
    index_entries: int = 0
    snapshots: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


def read_partition(
    folder: Path, protocol: str | None = None, policies: Mapping[str, str] | None = None
) -> Partition:
    """The partition in a folder, looked at; `policies` as `policy_of` takes them. Raises OSError,
    and DeclarationError for a release that there isn't."""
    return _Reading(folder, protocol, policies or {}).whole()


@dataclass
class _Stored:
    """A batch in a segment, and the content of its records: whether they are one behind the other,
    and whether any has no key, in all and before the first that is missing."""

    row: Row
    marker: dict[str, Any] = field(default_factory=dict[str, Any])
    records: int = 0
    is_keyless: bool = False
    starts_keyless: bool = False
    is_in_order: bool = True

    def add(self, item: Row) -> None:
        """One of its records."""
        if item.what == "marker":
            self.marker = item.fields
        self.is_in_order &= item.fields["offset"] == self.row.fields["offset"] + self.records
        if item.what == "record" and item.fields["key"] is None:
            self.is_keyless = True
            self.starts_keyless |= self.is_in_order
        self.records += 1

    @property
    def is_full(self) -> bool:
        """Whether a record is at each of its offsets, as LogValidator.validateBatch wants it."""
        fields = self.row.fields
        return self.is_in_order and self.records == fields["last_offset"] - fields["offset"] + 1


class _Reading:
    def __init__(self, folder: Path, protocol: str | None, policies: Mapping[str, str]) -> None:
        self.found = Partition(folder.name, folder)
        self.leader = PartitionLeader(protocol=protocol, verification=False)
        # offsets are appended by a group's coordinator, whose batches have no sequence
        self.topic = topic_of(folder)
        self.origin = "COORDINATOR" if self.topic == "__consumer_offsets" else "CLIENT"
        self.files = files_of(folder)
        self.found.findings += self.files.findings
        self.logs, self.snapshots = self.files.segments, dict(self.files.snapshots)
        self.indexes = self.files.transaction_indexes
        release = RELEASES[-1] if protocol is None else protocol.partition("+")[0]
        is_kept = RELEASES[RELEASES.index(SNAPSHOT_FOR_EACH_SEGMENT) :]
        self.has_all_snapshots = release in is_kept
        self.may_be_deleted = not self.leader.machine.value(state_outlives_records)
        self.gaps = Gaps(folder, policy_of(folder, policies))
        self.is_known_from_start = True
        self.is_unreadable = False  # something since the last batch
        self.places: dict[int, tuple[Path, int]] = {}
        self.wrote: dict[int, tuple[int, bool]] = {}
        self.newest_ms = -1

    def whole(self) -> Partition:
        """Everything in the folder."""
        found = self.found
        if self.logs:
            self._begin(min(self.logs))
        for base, log in self.logs.items():
            self._roll(base, log)
            for stored in self._batches(log):
                self._compare_snapshots(stored)
                self._take(stored, log)
        if self.topic != _WITHOUT_PRODUCERS and not self.is_unreadable:
            found.findings += lacks_last_snapshot(self.files, found.folder, found.end)
        self._compare_snapshots(None)
        self._compare_index()
        found.findings += self.gaps.finding()
        for txn in self.leader.producer_state_manager.ongoing_txns:
            entry = self.leader.producers[txn.producer_id]
            epoch, since = entry.producer_epoch, entry.last_timestamp
            file, byte = self.places.get(txn.producer_id, (found.folder, None))
            found.open[txn.producer_id] = Begun(txn.first_offset, epoch, since, file, byte)
        return found

    def _say(self, file: Path, byte: int | None, what: str, *, is_damage: bool = False) -> None:
        self.found.findings.append(Finding(file, byte, what, is_damage))

    # The log ------------------------------------------------------------------------------------

    def _begin(self, start: int) -> None:
        """The producers at the start of the log: a snapshot of that offset has them."""
        self.found.start = self.found.end = start
        self.leader.truncate_fully(start)
        if not start or self.topic == _WITHOUT_PRODUCERS:
            return
        path, before = self.snapshots.get(start), len(self.found.findings)
        if path is None:
            what = f"the log begins at offset {start}, without a snapshot of its producers there"
            self._say(self.logs[start], None, what, is_damage=True)
        producers = {} if path is None else self._producers(path)
        self.is_known_from_start = len(self.found.findings) == before
        manager = self.leader.producer_state_manager
        manager.snapshots = [Snapshot(start, producers)]
        manager.truncate_and_reload(start - 1, start, is_fresh=True)

    def _producers(self, path: Path) -> dict[int, dict[str, Any]]:
        """The producers of a snapshot, as far as they may be."""
        found: dict[int, dict[str, Any]] = {}
        for producer_id, (byte, row) in self._entries(path).items():
            try:
                self.leader.machine.put(producers={producer_id: as_entry(row)})
            except ModelError as error:
                self._say(path, byte, f"producer {producer_id} can't have such an entry: {error}")
            else:
                found[producer_id] = as_entry(row)
        return found

    def _roll(self, base: int, log: Path) -> None:
        """A segment begins, where the one before ends."""
        if base > self.found.start and self.has_all_snapshots and base not in self.snapshots:
            what = "the segment has no snapshot of the producers before it"
            if self.topic != _WITHOUT_PRODUCERS:
                self._say(log, None, what, is_damage=True)
        self._lack(base, log, None)

    def _lack(self, offset: int, log: Path, byte: int | None) -> None:
        """Offsets below this one are missing, if any are."""
        end = self.found.end
        if offset > end and not self.is_unreadable:
            self._miss(log, byte, range_of(end, offset))
        self.found.end = max(end, offset)

    def _miss(self, log: Path, byte: int | None, what: str) -> None:
        finding = self.gaps.lack(log, byte, what)
        self.found.findings += [] if finding is None else [finding]

    def _entries(self, path: Path) -> dict[int, tuple[int, dict[str, Any]]]:
        """A snapshot's entries with their places, by producer id."""
        found: dict[int, tuple[int, dict[str, Any]]] = {}
        for byte, row in self._rows(path):
            if row["producer_id"] in found:
                self._say(path, byte, f"producer {row['producer_id']} is there twice")
            found[row["producer_id"]] = byte, row
        return found

    def _rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """The readable part of a snapshot or an index."""
        for item in read_file(path):
            if isinstance(item, Row):
                yield item.byte, item.fields
            else:
                self._unreadable(path, item)

    def _unreadable(self, path: Path, error: RecordError) -> None:
        self._say(path, error.at, f"can't be read: {error}", is_damage=True)

    def _batches(self, log: Path) -> Iterator[_Stored]:
        """A segment's batches."""
        waiting: _Stored | None = None
        for item in read_file(log, Kind.LOG):
            if isinstance(item, RecordError):
                self.is_unreadable = True
                self._unreadable(log, item)
            elif item.what == "batch":
                if waiting is not None:
                    yield waiting
                waiting = _Stored(item)
            elif waiting is not None:
                waiting.add(item)
        if waiting is not None:
            yield waiting

    def _take(self, stored: _Stored, log: Path) -> None:
        found, batch, byte = self.found, _batch(stored), stored.row.byte
        if batch.base_offset < found.end:
            self._say(log, byte, f"offset {batch.base_offset} is there already, or was passed over")
            return
        self._lack(batch.base_offset, log, byte)
        self.gaps.is_keyless |= stored.starts_keyless
        if not stored.is_full and not self.is_unreadable:
            count, size = stored.records, batch.last_offset - batch.base_offset + 1
            what = f"{size - count} of {size} records from offset {batch.base_offset} on are"
            self._miss(log, byte, what)
        self.is_unreadable = False
        self.gaps.is_keyless |= stored.is_keyless
        found.batches += 1
        found.end = batch.last_offset + 1
        if wrong := _never_written(batch, self.origin):
            self._say(log, byte, f"{_shown(batch)}: {wrong}")
        self._append(batch, log, byte)
        self.leader.batches.clear()  # a log may be long, and none of them is asked for again
        if batch.producer_id >= 0:
            self._note(batch, log, byte)
        if batch.kind == "marker":
            self.leader.move_high_watermark(found.end)
        self.newest_ms = max(self.newest_ms, batch.timestamp)

    def _append(self, batch: Batch, log: Path, byte: int) -> None:
        """The leader takes the batch; behind a gap of compaction, as a follower does."""
        if batch.kind == "marker":
            entry = self.leader.machine.at("producers", batch.producer_id)
            self.found.idle_markers += entry.current_txn_first_offset is None
        try:
            self.leader.machine.put(log_end_offset=batch.base_offset)
            if self.gaps.count:
                return self.leader.replicate([batch])
            error = self.leader.read_again(batch, self.origin)
        except ModelError as wrong:
            return self._say(log, byte, f"offset {batch.base_offset}: {wrong}")
        if error != "NONE":
            self._say(log, byte, f"{_shown(batch)}: a leader answers {error}")
        return None

    def _note(self, batch: Batch, log: Path, byte: int) -> None:
        """The data for comparisons with snapshots and other partitions."""
        found, epoch = self.found, batch.producer_epoch
        found.producers.add(batch.producer_id)
        is_marker = batch.kind == "marker"
        self.wrote[batch.producer_id] = batch.last_offset, is_marker
        if is_marker:
            found.markers.append(
                Marker(batch.producer_id, epoch, batch.result, batch.base_offset, log, byte)
            )
        elif batch.transactional and batch.kind == "data":
            begun = Begun(batch.base_offset, epoch, batch.timestamp, log, byte)
            found.epochs.setdefault((batch.producer_id, epoch), begun)
            entry = self.leader.machine.at("producers", batch.producer_id)
            if entry.current_txn_first_offset == batch.base_offset:
                self.places[batch.producer_id] = log, byte

    # Files beside it ----------------------------------------------------------------------------

    def _compare_snapshots(self, following: _Stored | None) -> None:
        """Those of offsets up to this batch (none: all), with the producers as they are now."""
        until = None if following is None else following.row.fields["offset"]
        while self.snapshots:
            offset = next(iter(self.snapshots))
            if until is not None and offset > until:
                return
            path = self.snapshots.pop(offset)
            if offset < self.found.start:
                continue
            self.found.snapshots += 1
            if offset > self.found.end and following is None:
                end = self.found.end
                self._say(path, None, f"is of an offset behind the log, which ends at {end}")
            elif not self.gaps.count:
                self._compare_producers(path, following)

    def _compare_producers(self, path: Path, following: _Stored | None) -> None:
        if following is None:
            log = self.logs[max(self.logs)]
            written = self.newest_ms + max(0, int((_mtime(path) - _mtime(log)) * 1000))
        else:
            written = max(self.newest_ms, following.row.fields["max_timestamp"])
        rows = self._entries(path)
        known = {
            key: Known(entry, *self.wrote.get(key, (-1, False)))
            for key, entry in self.leader.producers.items()
        }
        for byte, what, is_doubtful in compare(
            rows,
            known,
            written_ms=written,
            is_known_from_start=self.is_known_from_start,
            may_be_deleted=self.may_be_deleted,
        ):
            self._say(path, byte, what, is_damage=is_doubtful)

    def _compare_index(self) -> None:
        """The entries of the transaction indexes with those that the markers make."""
        wanted = {entry.last_offset: entry for entry in self.leader.index.entries}
        for base, path in self.indexes.items():
            if base not in self.logs:
                continue
            end = min((other for other in self.logs if other > base), default=self.found.end)
            for byte, row in self._rows(path):
                self.found.index_entries += 1
                if self.gaps.count:
                    continue
                is_here = base <= row["last_offset"] < end
                entry = wanted.pop(row["last_offset"], None) if is_here else None
                indexed = (row["producer_id"], row["first_offset"])
                if entry is None:
                    what = f"no transaction of the segment is aborted at {row['last_offset']}"
                    if self.is_known_from_start:
                        self._say(path, byte, what)
                elif indexed != (entry.producer_id, entry.first_offset):
                    what = f"producer {entry.producer_id}'s from offset {entry.first_offset}"
                    self._say(
                        path, byte, f"producer {indexed[0]}'s from offset {indexed[1]} is {what}"
                    )
                elif row["last_stable_offset"] != entry.last_stable_offset:
                    stable = entry.last_stable_offset
                    self._say(
                        path, byte, f"last stable offset {row['last_stable_offset']} is {stable}"
                    )
        for entry in () if self.gaps.count else wanted.values():
            log = self.logs[max(base for base in self.logs if base <= entry.last_offset)]
            what = f"lacks producer {entry.producer_id}'s, aborted at offset {entry.last_offset}"
            self._say(log.with_suffix(".txnindex"), None, what)


def _batch(stored: _Stored) -> Batch:
    fields, marker = stored.row.fields, stored.marker
    plain = fields["producer_id"] < 0 or (fields["control"] and not marker)
    base, last = fields["base_sequence"], fields["last_offset"] - fields["offset"]
    return Batch(
        "marker" if marker else "plain" if plain else "data",
        fields["offset"], fields["last_offset"], fields["producer_id"], fields["producer_epoch"],
        base, -1 if base < 0 else (base + last) % SEQUENCES, fields["transactional"],
        fields["max_timestamp"], marker.get("result", "ABORT"), marker.get("coordinator_epoch", -1),
    )  # fmt: skip


def _never_written(batch: Batch, origin: str) -> str:
    """Why nobody writes such a batch, if so (MemoryRecordsBuilder.writeDefaultBatchHeader and its
    constructor; MemoryRecords.writeEndTransactionalMarker)."""
    if batch.producer_id >= 0 and batch.producer_epoch < 0:
        return "a producer with an id has an epoch"
    if batch.producer_id < 0 and batch.transactional:
        return "a transactional batch has a producer id"
    if batch.kind == "data" and batch.base_sequence < 0 and origin == "CLIENT":
        return "a client's batch has a sequence"
    if batch.kind != "marker":
        return ""
    if not batch.transactional:
        return "a marker's batch is transactional"
    if batch.base_sequence >= 0:
        return "a marker has no sequence"
    return "" if batch.last_offset == batch.base_offset else "a marker is the one record of a batch"


def _mtime(path: Path) -> float:
    return path.stat().st_mtime


def _shown(batch: Batch) -> str:
    what = f"offset {batch.base_offset}, producer {batch.producer_id}, epoch {batch.producer_epoch}"
    if batch.kind == "marker":
        return f"{what}, {batch.result}"
    return f"{what}, sequence {batch.base_sequence}"
