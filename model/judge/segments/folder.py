"""The files of a partition's folder, by the offsets in their names; and whether its topic is
compacted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LARGEST_OFFSET: Final = 2**63 - 1
JUDGED: Final = (".log", ".txnindex", ".snapshot")
INDEXES: Final = (".index", ".timeindex", ".txnindex")
PARTITION: Final = re.compile(r".+-\d+")
CLEAN: Final = ".kafka_cleanshutdown"
_NAME: Final = re.compile(r"[0-9]{20}")
_BY_OFFSET: Final = re.compile(r"[0-9]{20}\..*")
_DROPPED: Final = re.compile(
    r"[0-9]{20}\.((log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned)|\w*index\.swap)"
)
"""Files that a broker deletes, or makes again from a segment, when it starts
(LogLoader.removeTempFilesAndCollectSwapFiles)."""
SWAP: Final = ".log.swap"
COMPACT, DELETE = "compact", "delete"
_POLICIES: Final = {
    "__consumer_offsets": COMPACT,
    "__transaction_state": COMPACT,
    "__cluster_metadata": DELETE,
    "__share_group_state": DELETE,
}
"""Topics that a broker creates (GroupCoordinator, TransactionLog, ShareCoordinator)."""


@dataclass(frozen=True)
class Finding:
    """Something that no run of the protocol explains, or that can't be read or compared: its place
    and a sentence. `byte` is where in the file it begins, none where it is about the whole."""

    file: Path
    byte: int | None
    what: str
    is_damage: bool = False

    def __str__(self) -> str:
        place = "" if self.byte is None else f", byte {self.byte}"
        return f"{self.file}{place}: {self.what}"


@dataclass
class Files:
    """Segments, snapshots and transaction indexes by their offsets, in order, and the findings
    about names. All of them are files: a FIFO or a device may have no end."""

    segments: dict[int, Path] = field(default_factory=dict[int, Path])
    snapshots: dict[int, Path] = field(default_factory=dict[int, Path])
    transaction_indexes: dict[int, Path] = field(default_factory=dict[int, Path])
    findings: list[Finding] = field(default_factory=list[Finding])


def files_of(folder: Path) -> Files:
    """The files of a partition. Raises OSError.

    A broker names them by an offset of 20 digits (LogFileUtils.filenamePrefixFromOffset). It
    removes an index without its segment when it starts (LogLoader.loadSegmentFiles), as a crash in
    the middle of a deletion leaves such.
    """
    found, indexes = Files(), list[Path]()
    if not folder.is_dir() and is_there(folder):
        found.findings.append(
            Finding(folder, None, "isn't read: it isn't a folder", is_damage=True)
        )
        return found
    if not PARTITION.fullmatch(folder.absolute().name):
        what = "isn't read: its name isn't that of a partition, TOPIC-N"
        found.findings.append(Finding(folder, None, what, is_damage=True))
        return found
    for path in sorted(folder.iterdir()):
        if path.suffix not in (*JUDGED, *INDEXES):
            if _BY_OFFSET.fullmatch(path.name) and not _DROPPED.fullmatch(path.name):
                found.findings.append(_misnamed(path))
            continue
        if not path.is_file():
            if is_there(path):  # a folder, or a broken link; a running broker deletes files
                what = "isn't read: it isn't a file"
                found.findings.append(Finding(path, None, what, is_damage=True))
        elif not _NAME.fullmatch(path.stem) or int(path.stem) > LARGEST_OFFSET:
            what = "isn't read: its name isn't an offset of 20 digits"
            found.findings.append(Finding(path, None, what, is_damage=True))
        elif path.suffix == ".log":
            found.segments[int(path.stem)] = path
        elif path.suffix == ".snapshot":
            found.snapshots[int(path.stem)] = path
        else:
            indexes.append(path)
            if path.suffix == ".txnindex":
                found.transaction_indexes[int(path.stem)] = path
    if not found.segments:
        what = "no segment (.log) is there: nothing of the partition can be judged"
        found.findings.append(Finding(folder, None, what, is_damage=True))
    for path in indexes:
        if int(path.stem) not in found.segments:
            what = f"is an index without its segment {path.stem}.log"
            found.findings.append(Finding(path, None, what, is_damage=True))
    return found


def is_there(path: Path) -> bool:
    """Whether a folder has this name, be it of a broken link."""
    return path.is_symlink() or path.exists()


def _misnamed(path: Path) -> Finding:
    """The sentence about a file with an offset in its name that may be a segment."""
    what = "isn't read: no broker gives a file this name"
    if path.name.endswith(SWAP):
        what = "isn't read: a broker that starts puts it in the place of the segments in its range"
    return Finding(path, None, what, is_damage=True)


def lacks_last_snapshot(files: Files, folder: Path, end: int) -> Iterator[Finding]:
    """A finding where the log's end has no snapshot, but its broker has been shut down cleanly.

    Then it took one of every log (UnifiedLog.close, Log.close), and wrote `.kafka_cleanshutdown`
    last (LogManager.shutdown). It deletes that file when it starts. A running broker has no
    snapshot at the end of a log, nor has one that crashed.
    """
    if not end or end in files.snapshots or not (folder.absolute().parent / CLEAN).exists():
        return
    what = f"no snapshot of the producers is at its end, {end}, but the broker was shut down"
    yield Finding(folder, None, f"{what} cleanly", is_damage=True)


def topic_of(folder: Path) -> str:
    """The topic of a partition's folder."""
    return folder.name.rpartition("-")[0]


def policy_of(folder: Path, policies: Mapping[str, str]) -> str | None:
    """Whether the topic of a folder is compacted: "compact" or "delete", or None if nothing says
    so. `policies` are by topic; the one of "" is of all others that brokers don't create."""
    topic = topic_of(folder)
    return policies.get(topic) or _POLICIES.get(topic) or policies.get("")


def range_of(first: int, end: int) -> str:
    """Offsets from one up to another, in words."""
    return f"offset {first} is" if end == first + 1 else f"offsets {first} to {end - 1} are"


@dataclass
class Gaps:
    """Offsets that a log lacks. A leader assigns offsets without gaps; only compaction leaves any.

    It discards records without a key (Cleaner.shouldRetainRecord), from the start of the log on. So
    a log with such a record (`is_keyless`) has no gap of compaction behind it.
    """

    folder: Path
    policy: str | None
    is_keyless: bool = False
    count: int = 0
    first: tuple[Path, int | None, str] | None = None

    def lack(self, file: Path, byte: int | None, what: str) -> Finding | None:
        """A gap here as a contradiction, or None where compaction may have removed it: then
        `finding` says so of all such places."""
        if self.policy == DELETE or (self.policy is None and self.is_keyless):
            why = "a leader leaves out no offset, and this log isn't compacted"
            return Finding(file, byte, f"{what} missing: {why}")
        self.count += 1
        self.first = self.first or (file, byte, what)
        return None

    def finding(self) -> Iterator[Finding]:
        """The gaps that compaction may have left, in one sentence."""
        if self.first is None:
            return
        file, byte, what = self.first
        more = f" (and {self.count - 1} more places)" if self.count > 1 else ""
        why = "as compaction leaves it: what lies behind isn't judged"
        if self.policy is None:
            topic = topic_of(self.folder)
            why += f"; if {topic} isn't compacted, add --cleanup-policy {topic}=delete"
        yield Finding(file, byte, f"{what} missing{more}, {why}", is_damage=True)
