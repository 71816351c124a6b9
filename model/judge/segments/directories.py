"""Data directories of one or more brokers, judged together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..judge import Finding as Outcome
from .across_partitions import (
    OfProducer,
    Scope,
    compare,
    is_from_start,
    of_folder,
    order,
    outcome,
    time_of,
    together,
)
from .folder import JUDGED, PARTITION, Finding, is_there
from .partition import Partition, read_partition
from .policies import all_policies
from .transactions import (
    TransactionLog,
    are_all,
    is_of_controllers,
    is_of_transactions,
    read_transactions,
)

_SET_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)|remote-log-index-cache")
"""Folders that a broker deletes, fills as a partition's next copy or doesn't lead to (UnifiedLog.
logDeleteDirName, logFutureDirName, logStrayDirName), and RemoteIndexCache's."""
NOTHING = "no partition is there: a data directory has a folder for each, TOPIC-N"


@dataclass
class Segments:
    """The contents of directories: partitions, the transaction log's partitions, and the comparison
    of both. `unknown` markers are of producers of which no decision is known any more."""

    partitions: list[Partition] = field(default_factory=list[Partition])
    transactions: list[TransactionLog] = field(default_factory=list[TransactionLog])
    matched: int = 0
    unknown: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def every(self) -> list[Finding]:
        """All findings."""
        parts = (part.findings for part in (*self.partitions, *self.transactions))
        return [finding for part in (*parts, self.findings) for finding in part]

    @property
    def outcome(self) -> Outcome:
        """Their verdict."""
        every = self.every
        return outcome(
            contradicts=any(not finding.is_damage for finding in every),
            complains=bool(every),
            is_whole=all(log.is_whole for log in self.transactions) and not self.unknown,
            is_there=bool(self.partitions or self.transactions),
        )

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "finding": self.outcome.name,
            "partitions": [partition_as_json(part) for part in self.partitions],
            "transaction_logs": [transactions_as_json(part) for part in self.transactions],
            "markers": {"decided": self.matched, "not_known": self.unknown},
            "findings": [
                {"file": str(one.file), "byte": one.byte, "what": one.what, "damage": one.is_damage}
                for one in self.every
            ],
        }


def partition_as_json(part: Partition) -> dict[str, Any]:
    """The content of a partition, as plain data."""
    results = Counter(marker.result for marker in part.markers)
    return {
        "name": part.name,
        "folder": str(part.folder),
        "start": part.start,
        "end": part.end,
        "batches": part.batches,
        "producers": len(part.producers),
        "commits": results["COMMIT"],
        "aborts": results["ABORT"],
        "markers_that_end_nothing": part.idle_markers,
        "open": [
            {
                "producer_id": key,
                "producer_epoch": begun.producer_epoch,
                "first_offset": begun.offset,
                "last_written": time_of(begun.timestamp),
            }
            for key, begun in part.open.items()
        ],
        "index_entries": part.index_entries,
        "snapshots": part.snapshots,
    }


def transactions_as_json(part: TransactionLog) -> dict[str, Any]:
    """The content of a partition of the transaction log, as plain data."""
    return {
        "name": part.name,
        "folder": str(part.folder),
        "records": part.records,
        "transactional_ids": len(part.ids),
        "decisions": len(part.decisions),
        "whole": part.is_whole,
        "has_newest": part.has_newest,
        "spread": str(part.spread),
    }


def folders_in(directories: Iterable[Path]) -> Iterator[Path]:
    """The partitions' folders in data directories; a partition's own folder is one by itself. A
    file or a broken link with a partition's name is among them, and a folder of another name that
    holds a partition's files, but no folder that has been deleted meanwhile. Raises
    NotADirectoryError and OSError."""
    for directory in directories:
        if _is_of_partition(directory):
            yield directory
            continue
        for folder in sorted(directory.iterdir()):
            if PARTITION.fullmatch(folder.name):
                if is_there(folder):
                    yield folder
            elif not _SET_ASIDE.fullmatch(folder.name) and _is_of_partition(folder):
                yield folder


def _is_of_partition(folder: Path) -> bool:
    return folder.is_dir() and any(path.suffix in JUDGED for path in folder.iterdir())


def judge_segments(
    directories: Iterable[Path],
    protocol: str | None = None,
    policies: Mapping[str, str] | None = None,
) -> Segments:
    """Judges all partitions in these directories; `policies` say of topics whether they are
    "compact" or "delete" (of all others under ""). Raises OSError, and DeclarationError for a
    release that there isn't."""
    found = Segments()
    before = {folder: files_in(folder) for folder in folders_in(directories)}
    cleanup = all_policies(filter(is_of_controllers, before), policies)
    for folder in before:
        if is_of_transactions(folder):
            found.transactions.append(read_transactions(folder, protocol))
        else:
            found.partitions.append(read_partition(folder, protocol, cleanup))
    written = {folder for folder, files in before.items() if files_in(folder) != files}
    for part in (*found.partitions, *found.transactions):
        if part.folder in written:  # files read at different times can't be compared
            part.findings.clear()
    if others := [folder for folder in written if not is_of_controllers(folder)]:
        found.findings.append(written_to(min(others), len(others)))
    else:
        _join(found)
    return found


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """The files that are judged, each with its size and when it was written to; none of a folder
    that is gone."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.glob("*"):
        if path.suffix in JUDGED:
            with suppress(FileNotFoundError):
                status = path.stat()
                found[path.name] = status.st_size, status.st_mtime_ns
    return found


def written_to(first: Path, count: int) -> Finding:
    """The sentence about so many folders that were written to while they were read."""
    folders = "1 folder was" if count == 1 else f"{count} folders were"
    what = (
        f"{folders} changed during the run, as by a running broker: not judged, nor are markers "
        "and decisions; stop the broker, or judge a copy"
    )
    return Finding(first, None, what, is_damage=True)


def copies_behind(copies: Iterable[tuple[str, Path, int]]) -> frozenset[Path]:
    """Of copies of partitions, each with name, folder and end, those that another one is ahead of:
    a follower may have been stopped before it had everything."""
    found = list(copies)
    ends: dict[str, int] = {}
    for name, _, end in found:
        ends[name] = max(end, ends.get(name, 0))
    return frozenset(folder for name, folder, end in found if end < ends[name])


def _join(found: Segments) -> None:
    """The comparison of partitions."""
    logs = found.transactions
    from_start: dict[str, list[Path]] = {}
    for part in filter(is_from_start, found.partitions):
        from_start.setdefault(part.name, []).append(part.folder)
    scope = Scope(
        from_start,
        copies_behind((part.name, part.folder, part.end) for part in found.partitions),
        is_whole=bool(logs) and all(log.is_whole for log in logs),
        has_newest=bool(logs) and all(log.has_newest for log in logs),
        has_all=are_all((log.name, log.spread) for log in logs),
    )
    every: dict[int, list[OfProducer]] = {}
    for part in (*found.partitions, *logs):
        for producer_id, of in of_folder(part).items():
            every.setdefault(producer_id, []).append(of)
    for parts in every.values():
        between = compare(together(parts), scope)
        found.matched += between.matched
        found.unknown += between.unknown
        found.findings += between.findings
    found.findings.sort(key=order)
