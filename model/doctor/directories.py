"""Reads data directories as evidence, also of a running broker, and copies from several brokers.

A copy may be behind its leader's. Then it can't show that an end won't come, unless all copies are
here. The controllers' log or the user (`--complete`) shows that they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kio.serial.readers import read_unsigned_varint

from ...spec.releases import broker_versions
from ..judge.segments.directories import NOTHING, folders_in
from ..judge.segments.folder import PARTITION, files_of, topic_of
from ..judge.segments.transactions import (
    TransactionLog,
    TransactionLogReader,
    are_all,
    is_of_controllers,
    is_of_transactions,
)
from ..records import RecordError
from ..records.codec.codec import read
from ..records.files import Kind, Row, read_file
from .diagnosis import Diagnosis, diagnose
from .evidence import Evidence, Open, Partition, Place, Problem, place_of
from .group_offsets import TOPIC, GroupOffsets
from .logs import Scan, add_log, add_rivals

TRIES: Final = 3
"""The number of tries to read a file that a broker writes to."""
PAUSE_S: Final = 0.2
_NOT_ALL: Final = "its copy here may be behind its leader's: give all copies, with --complete"
_UUID: Final = 16
_REPLICAS: Final = 2
"""The tag of a partition's new replicas in a PartitionChangeRecord."""
MOST_READ: Final = 256 << 20
"""The largest number of bytes that is read for batches of open transactions."""
_FEATURE: Final = "transaction.version"
_USUAL: Final = 50
"""Partitions of `__consumer_offsets` by default (offsets.topic.num.partitions)."""


@dataclass
class _Copy:
    """The open transactions of a copy of a partition, and the errors of reading it."""

    folder: Path
    scan: Scan
    errors: list[str] = field(default_factory=list[str])


def look(
    directories: Sequence[Path], protocol: str | None = None, *, is_complete: bool = False
) -> Diagnosis:
    """The diagnosis from the files in these directories, for brokers of the release `protocol`.
    `is_complete`: they have all copies of every partition. Raises OSError."""
    given = list(folders_in(directories))
    folders = [folder for folder in given if PARTITION.fullmatch(folder.absolute().name)]
    known = _Controllers()
    for folder in filter(is_of_controllers, folders):
        known.read(folder)
    found = Evidence(", ".join(map(str, directories)), 0, protocol, known.transaction_version)
    found.server = "HOST:PORT"
    found.describes_producers = (
        protocol is None or "DescribeProducers" in broker_versions.newest_of(protocol)
    )
    if protocol is None:
        found.notes.append("known bugs are named for the release that --protocol gives")
    logs = {folder for folder in folders if is_of_transactions(folder)}
    copies = _newest(
        _read(folder, found)
        for folder in folders
        if folder not in logs and not is_of_controllers(folder)
    )
    found.looked_at = len(copies)
    newest_ms = max((copy.scan.marked_ms for copy in copies.values()), default=-1)
    read_logs = _read_logs(found, sorted(logs), known, is_complete=is_complete)
    times = [each.timestamp for log in read_logs for each in log.entries.values()]
    newest_ms = max((newest_ms, *times))
    found.now_ms = newest_ms if newest_ms >= 0 else round(time.time() * 1000)
    for log in read_logs:
        add_rivals(found, log)
    for place, copy in copies.items():
        if not copy.scan.open:
            continue
        # read again after the coordinators' records; another copy may be ahead now
        again = _newest(_read(folder, found) for folder in folders if folder.name == str(place))
        if place not in again:
            continue
        both = [
            of
            for producer_id, of in again[place].scan.open.items()
            if producer_id in copy.scan.open
            and copy.scan.open[producer_id].first_offset == of.first_offset
        ]
        if both:
            found.partitions.append(
                _partition(place, again[place], both, known, is_complete=is_complete)
            )
    for folder in given:
        if folder not in folders:
            found.problems += (Problem("not-seen", str(one)) for one in files_of(folder).findings)
    if not given:
        found.problems.append(Problem("not-seen", NOTHING))
    _read_more(found, {place: copy.folder for place, copy in copies.items()})
    _read_groups(found, [copy.folder for copy in copies.values()])
    found.seen = {case.key: 1 for case in diagnose(found).cases}
    return diagnose(found)


def _newest(copies: Iterator[_Copy]) -> dict[Place, _Copy]:
    """The copy of each partition whose end is highest."""
    found: dict[Place, _Copy] = {}
    for copy in copies:
        place = place_of(copy.folder.absolute().name)
        if place not in found or found[place].scan.end < copy.scan.end:
            found[place] = copy
    return found


def _partition(
    place: Place, copy: _Copy, both: list[Open], known: _Controllers, *, is_complete: bool
) -> Partition:
    scan = copy.scan
    first = min(of.first_offset for of in scan.open.values())
    part = Partition(place, first, scan.end, tuple(both), scan.spans)
    part.doubts += copy.errors
    if not is_complete and not known.is_only(place):
        part.doubts.append(f"{place}: {_NOT_ALL}")
    return part


# Partitions ---------------------------------------------------------------------------------------


def _read(folder: Path, found: Evidence) -> _Copy:
    """Reads a partition, and repeats this if a broker wrote to it meanwhile."""
    copy = _Copy(folder, Scan())
    for tries in range(TRIES):
        if tries:
            time.sleep(PAUSE_S)
        copy = _read_once(folder)
        if not copy.errors:
            break
    for error in copy.errors:
        problem = Problem("not-seen", error)
        if problem not in found.problems:
            found.problems.append(problem)
    return copy


def _read_once(folder: Path) -> _Copy:
    """Reads a partition from its newest usable snapshot on, which has the transactions that were
    open there. Later snapshots are compared with the segments."""
    files = files_of(folder)
    copy = _Copy(folder, Scan())
    copy.errors += map(str, files.findings)
    if not files.segments:
        return copy
    start, last = min(files.segments), max(files.segments)
    usable = [at for at in files.snapshots if start <= at and (at <= last or start)]
    for offset in sorted(usable, key=lambda at: (at <= last, at), reverse=True):
        if (opens := _of_snapshot(files.snapshots[offset])) is not None:
            copy.scan, start = Scan(opens), offset
            copy.scan.end = offset
            break
    else:
        if start:
            copy.errors.append(f"{folder}: it begins at {start}, without a snapshot of producers")
    first = max((base for base in files.segments if base <= start), default=start)
    end = start
    for base, log in files.segments.items():
        if base < first:
            continue
        if base > end and end > start:
            copy.errors.append(f"{log}: offsets from {end} on are missing before it")
        _scan(copy, log, start)
        end = max(end, copy.scan.end)
    for offset, path in files.snapshots.items():
        copy.errors += _lacking(path, offset, copy.scan.open.values())
    return copy


def _lacking(path: Path, offset: int, opens: Iterable[Open]) -> Iterator[str]:
    """The transactions of `opens` that the snapshot at `offset` should have and lacks."""
    known = {(of.producer_id, of.first_offset) for of in _of_snapshot(path) or ()}
    for of in opens:
        if of.first_offset < offset and (of.producer_id, of.first_offset) not in known:
            yield (
                f"{path}: lacks producer {of.producer_id}, whose transaction is open from offset "
                f"{of.first_offset}"
            )


def _scan(copy: _Copy, log: Path, start: int) -> None:
    skips = False
    try:
        for item in read_file(log, Kind.LOG):
            if isinstance(item, RecordError):
                copy.errors.append(f"{log}: can't be read: {item}")
                continue
            if item.what == "batch":
                skips = item.fields["last_offset"] < start
            if not skips:
                copy.scan.take_row(item)
    except FileNotFoundError:
        copy.errors.append(f"{log}: it was deleted meanwhile")


def _of_snapshot(path: Path) -> list[Open] | None:
    """The open transactions in a snapshot; None if it can't be read."""
    found: list[Open] = []
    try:
        for item in read_file(path, Kind.SNAPSHOT):
            if isinstance(item, RecordError):
                return None
            if item.fields["current_txn_first_offset"] >= 0:
                found.append(_open(item))
    except FileNotFoundError:
        return None
    return found


def _open(item: Row) -> Open:
    fields = item.fields
    return Open(
        fields["producer_id"],
        fields["epoch"],
        fields["current_txn_first_offset"],
        fields["timestamp"],
        fields["coordinator_epoch"],
    )


def _read_more(found: Evidence, folders: Mapping[Place, Path]) -> None:
    """Reads the batches of open transactions, and all markers if the partition has its start."""
    for part in found.partitions:
        segments = files_of(folders[part.place]).segments
        if not segments:
            continue
        first = min(of.first_offset for of in part.open)
        start = 0 if 0 in segments else max((base for base in segments if base <= first), default=0)
        logs = [log for base, log in segments.items() if base >= start]
        if sum(log.stat().st_size for log in logs) > MOST_READ:
            part.is_whole = False
            continue
        copy = _Copy(folders[part.place], Scan())
        for log in logs:
            _scan(copy, log, 0)
        if not copy.errors:
            part.spans = copy.scan.spans
            part.markers = copy.scan.markers if not start else {}


def _read_groups(found: Evidence, folders: Iterable[Path]) -> None:
    """Finds the groups that wait at a last stable offset, in the copies of `__consumer_offsets`
    here."""
    if not found.partitions:
        return
    logs = {
        folder: list(files_of(folder).segments.values())
        for folder in folders
        if topic_of(folder.absolute()) == TOPIC
    }
    size = sum(log.stat().st_size for those in logs.values() for log in those)
    if not logs or size > MOST_READ:
        why = f"{TOPIC} isn't here" if not logs else f"{TOPIC} is larger than {MOST_READ >> 20} MiB"
        found.notes.append(f"waiting groups aren't known: {why}")
        return
    for segments in logs.values():
        offsets = GroupOffsets()
        errors = list(filter(None, map(offsets.read, segments)))
        found.notes += (f"waiting groups may not all be known: {error}" for error in errors[:1])
        offsets.add_waiting(found.partitions)
    if len(logs) < _USUAL:
        has = "1 partition" if len(logs) == 1 else f"{len(logs)} partitions"
        found.notes.append(f"waiting groups are those of {has} of {TOPIC}; {_USUAL} are usual")


# The transaction log ------------------------------------------------------------------------------


def _read_logs(
    found: Evidence, folders: list[Path], known: _Controllers, *, is_complete: bool
) -> list[TransactionLog]:
    """Reads the coordinators' records from the copies with the highest ends."""
    ahead: dict[str, TransactionLogReader] = {}
    for folder in folders:
        reader = _of_log(folder)
        name = reader.found.name
        if name not in ahead or ahead[name].end < reader.end:
            ahead[name] = reader
    for name, reader in ahead.items():
        log, doubt = reader.found, ""
        if not log.has_newest:
            why = log.findings[0] if log.findings else "it doesn't begin at offset 0"
            doubt = f"{name}: {why}"
        elif not is_complete and not known.is_only(place_of(name)):
            doubt = f"{name}: {_NOT_ALL}"
        if doubt:
            found.doubts.append(doubt)
        add_log(found, log, doubt)
    if not are_all((name, reader.found.spread) for name, reader in ahead.items()):
        found.doubts.append("the transaction log isn't all here: some entries may be elsewhere")
    found.has_all_decisions = bool(ahead) and all(
        reader.found.is_whole for reader in ahead.values()
    )
    return [reader.found for reader in ahead.values()]


def _of_log(folder: Path) -> TransactionLogReader:
    """Reads a partition of the transaction log, and repeats this if a broker wrote to it
    meanwhile."""
    reader = TransactionLogReader(folder)
    for tries in range(TRIES):
        if tries:
            time.sleep(PAUSE_S)
        reader = TransactionLogReader(folder)
        reader.whole()
        if not any("can't be read" in each.what for each in reader.found.findings):
            break
    return reader


# The controllers' log -----------------------------------------------------------------------------


class _Controllers:
    """The numbers of replicas and the level of transaction.version, from the controllers' log."""

    def __init__(self) -> None:
        self.transaction_version: int | None = None
        self._names: dict[bytes, str] = {}
        self._replicas: dict[tuple[bytes, int], int] = {}

    def read(self, folder: Path) -> None:
        """Reads snapshots and the records after them. Unreadable records are skipped."""
        paths = sorted(path for path in folder.iterdir() if path.suffix in (".checkpoint", ".log"))
        for path in sorted(paths, key=lambda each: each.suffix):
            for item in read_file(path, Kind.METADATA_LOG):
                if isinstance(item, Row) and item.what == "metadata":
                    with suppress(RecordError, UnicodeDecodeError):
                        self._take(item.fields)

    def _take(self, fields: Mapping[str, Any]) -> None:
        value: bytes = fields.get("value", b"")
        match fields["type"]:
            case "FeatureLevelRecord" if fields.get("name") == _FEATURE:
                self.transaction_version = fields["feature_level"]
            case "TopicRecord":
                size, at = read(read_unsigned_varint, value, 0, "name")
                name, at = value[at : at + size - 1], at + size - 1
                self._names[value[at : at + _UUID]] = name.decode()
            case "PartitionRecord":
                topic, at = value[4 : 4 + _UUID], 4 + _UUID
                count, _ = read(read_unsigned_varint, value, at, "replicas")
                self._replicas[topic, int.from_bytes(value[:4])] = count - 1
            case "PartitionChangeRecord":
                if _REPLICAS in _tags(value, 4 + _UUID):  # a reassignment
                    key = value[4 : 4 + _UUID], int.from_bytes(value[:4])
                    self._replicas.pop(key, None)
            case _:
                pass

    def is_only(self, place: Place) -> bool:
        """Whether a partition is known to have one replica."""
        counts = {
            count
            for (topic, number), count in self._replicas.items()
            if self._names.get(topic) == place.topic and number == place.number
        }
        return counts == {1}


def _tags(value: bytes, at: int) -> set[int]:
    """The tags of a record's tagged fields."""
    found: set[int] = set()
    count, at = read(read_unsigned_varint, value, at, "tags")
    for _ in range(count):
        tag, at = read(read_unsigned_varint, value, at, "tag")
        size, at = read(read_unsigned_varint, value, at, "size")
        found.add(tag)
        at += size
    return found
