"""One partition's files: its batches taken again by a leader, its index and snapshots beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...broker.leader import Batch, PartitionLeader
from ...broker.producer_state_manager import Snapshot
from ...engine.errors import ModelError
from ...records import RecordError
from ...records.files import Kind, Row, read_file

SEQUENCES = 2**31


@dataclass(frozen=True)
class Finding:
    """Something that no run of the protocol explains, or that can't be read: where, and what.
    `byte` is where in the file it begins, none where it is about the whole."""

    file: Path
    byte: int | None
    what: str
    is_damage: bool = False

    def __str__(self) -> str:
        place = "" if self.byte is None else f", byte {self.byte}"
        return f"{self.file}{place}: {self.what}"


@dataclass(frozen=True)
class Marker:
    """A control record that ends a transaction here."""

    producer_id: int
    producer_epoch: int
    result: str
    offset: int
    file: Path
    byte: int


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
    open: dict[int, int] = field(default_factory=dict[int, int])
    """Transactions without an end: the first offset of each, by producer id."""
    index_entries: int = 0
    snapshots: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


def read_partition(folder: Path, protocol: str | None = None) -> Partition:
    """The partition in a folder, looked at. Raises OSError, and DeclarationError for a release that
    there isn't."""
    return _Reading(folder, protocol).whole()


class _Reading:
    def __init__(self, folder: Path, protocol: str | None) -> None:
        self.found = Partition(folder.name, folder)
        self.leader = PartitionLeader(protocol=protocol, verification=False)
        # offsets are appended by a group's coordinator, whose batches have no sequence
        of_offsets = folder.name.rpartition("-")[0] == "__consumer_offsets"
        self.origin = "COORDINATOR" if of_offsets else "CLIENT"
        self.logs = sorted(folder.glob("*.log"))
        self.snapshots = sorted(folder.glob("*.snapshot"))
        self.is_known_from_start = True

    def whole(self) -> Partition:
        """Everything in the folder."""
        if self.logs:
            self._begin(int(self.logs[0].stem))
        for log in self.logs:
            for batch, byte in self._batches(log):
                self._compare_snapshots(batch.base_offset)
                self._take(batch, log, byte)
        self._compare_snapshots(None)
        self._compare_index()
        txns = self.leader.producer_state_manager.ongoing_txns
        self.found.open = {txn.producer_id: txn.first_offset for txn in txns}
        return self.found

    def _say(self, file: Path, byte: int | None, what: str, *, is_damage: bool = False) -> None:
        self.found.findings.append(Finding(file, byte, what, is_damage))

    # The log ------------------------------------------------------------------------------------

    def _begin(self, start: int) -> None:
        """The producers at the start of the log: a snapshot of that offset has them."""
        self.found.start = self.found.end = start
        self.leader.truncate_fully(start)
        if not start:
            return
        there = [path for path in self.snapshots if int(path.stem) == start]
        self.is_known_from_start = bool(there)
        for path in there:
            producers = {row["producer_id"]: _as_entry(row) for _, row in self._rows(path)}
            manager = self.leader.producer_state_manager
            manager.snapshots = [Snapshot(start, producers)]
            manager.truncate_and_reload(start - 1, start, is_fresh=True)

    def _rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """The readable part of a snapshot or an index."""
        for item in read_file(path):
            if isinstance(item, Row):
                yield item.byte, item.fields
            else:
                self._unreadable(path, item)

    def _unreadable(self, path: Path, error: RecordError) -> None:
        self._say(path, error.at, f"can't be read: {error}", is_damage=True)

    def _batches(self, log: Path) -> Iterator[tuple[Batch, int]]:
        """A segment's batches, each with its place in the file."""
        waiting: tuple[Row, dict[str, Any]] | None = None
        for item in read_file(log, Kind.LOG):
            if isinstance(item, RecordError):
                self._unreadable(log, item)
            elif item.what == "batch":
                if waiting is not None:
                    yield _batch(*waiting), waiting[0].byte
                waiting = item, {}
            elif item.what == "marker" and waiting is not None:
                waiting = waiting[0], item.fields
        if waiting is not None:
            yield _batch(*waiting), waiting[0].byte

    def _take(self, batch: Batch, log: Path, byte: int) -> None:
        found = self.found
        if batch.base_offset < found.end:
            self._say(log, byte, f"offset {batch.base_offset} is there already, or was passed over")
            return
        found.batches += 1
        found.end = batch.last_offset + 1
        self.leader.machine.put(log_end_offset=batch.base_offset)
        if batch.producer_id >= 0:
            found.producers.add(batch.producer_id)
        try:
            error = self.leader.read_again(batch, self.origin)
        except ModelError as wrong:
            self._say(log, byte, f"offset {batch.base_offset}: {wrong}")
            return
        self.leader.batches.clear()  # a log may be long, and none of them is asked for again
        if error != "NONE":
            self._say(log, byte, f"{_shown(batch)}: a leader answers {error}")
        if batch.kind == "marker":
            marker = Marker(
                batch.producer_id, batch.producer_epoch, batch.result, batch.base_offset, log, byte
            )
            found.markers.append(marker)
            self.leader.move_high_watermark(found.end)

    # Files beside it ----------------------------------------------------------------------------

    def _compare_snapshots(self, until: int | None) -> None:
        """Those of offsets up to this one (none: all), with the producers as they are now."""
        while self.snapshots and (until is None or int(self.snapshots[0].stem) <= until):
            path = self.snapshots.pop(0)
            offset = int(path.stem)
            if offset < self.found.start:
                continue
            self.found.snapshots += 1
            if offset > self.found.end:
                end = self.found.end
                self._say(path, None, f"is of an offset behind the log, which ends at {end}")
                continue
            for byte, row in self._rows(path):
                self._compare_producer(path, byte, row)

    def _compare_producer(self, path: Path, byte: int, row: dict[str, Any]) -> None:
        producer_id = row["producer_id"]
        known = self.leader.producers.get(producer_id)
        if known is None:
            if self.is_known_from_start:
                self._say(path, byte, f"producer {producer_id} has nothing in the log")
            return
        newest = known.batch_metadata[-1:]
        first = known.current_txn_first_offset
        ours = {
            "epoch": known.producer_epoch,
            "last_sequence": newest[0].last_sequence if newest else -1,
            "last_offset": newest[0].last_offset if newest else -1,
            "current_txn_first_offset": -1 if first is None else first,
        }
        for name, value in ours.items():
            if row[name] != value:
                self._say(
                    path,
                    byte,
                    f"producer {producer_id} has {name} {row[name]}, but the log gives {value}",
                )

    def _compare_index(self) -> None:
        """The entries of the transaction indexes with those that the markers make."""
        wanted = {entry.last_offset: entry for entry in self.leader.index.entries}
        for log in self.logs:
            path = log.with_suffix(".txnindex")
            for byte, row in self._rows(path) if path.exists() else ():
                self.found.index_entries += 1
                entry = wanted.pop(row["last_offset"], None)
                told = (row["producer_id"], row["first_offset"])
                if entry is None:
                    what = f"no transaction is aborted at offset {row['last_offset']}"
                    if self.is_known_from_start:
                        self._say(path, byte, what)
                elif told != (entry.producer_id, entry.first_offset):
                    what = f"producer {entry.producer_id}'s from offset {entry.first_offset}"
                    self._say(path, byte, f"producer {told[0]}'s from offset {told[1]} is {what}")
                elif row["last_stable_offset"] != entry.last_stable_offset:
                    stable = entry.last_stable_offset
                    self._say(
                        path, byte, f"last stable offset {row['last_stable_offset']} is {stable}"
                    )
        for entry in wanted.values():
            log = max((log for log in self.logs if int(log.stem) <= entry.last_offset), key=str)
            what = f"lacks producer {entry.producer_id}'s, aborted at offset {entry.last_offset}"
            self._say(log.with_suffix(".txnindex"), None, what)


def _as_entry(row: dict[str, Any]) -> dict[str, Any]:
    """A snapshot's entry as the machine has it."""
    batch = row["last_sequence"], row["last_offset"], row["offset_delta"], row["timestamp"]
    first = row["current_txn_first_offset"]
    return {
        "producer_epoch": row["epoch"],
        "batch_metadata": [batch] if row["last_offset"] >= 0 else [],
        "coordinator_epoch": row["coordinator_epoch"],
        "current_txn_first_offset": None if first < 0 else first,
        "last_timestamp": row["timestamp"],
    }


def _batch(row: Row, marker: dict[str, Any]) -> Batch:
    fields = row.fields
    plain = fields["producer_id"] < 0 or (fields["control"] and not marker)
    base, last = fields["base_sequence"], fields["last_offset"] - fields["offset"]
    return Batch(
        "marker" if marker else "plain" if plain else "data",
        fields["offset"], fields["last_offset"], fields["producer_id"], fields["producer_epoch"],
        base, -1 if base < 0 else (base + last) % SEQUENCES, fields["transactional"],
        fields["max_timestamp"], marker.get("result", "ABORT"), marker.get("coordinator_epoch", -1),
    )  # fmt: skip


def _shown(batch: Batch) -> str:
    what = f"offset {batch.base_offset}, producer {batch.producer_id}, epoch {batch.producer_epoch}"
    if batch.kind == "marker":
        return f"{what}, {batch.result}"
    return f"{what}, sequence {batch.base_sequence}"
