"""Data directories of one or more brokers, judged together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..judge import Finding as Outcome
from .partition import Finding, Marker, Partition, read_partition
from .transactions import (
    Decision,
    TransactionLog,
    by_producer,
    is_of_transactions,
    read_transactions,
)

PARTITION = re.compile(r".+-\d+")


@dataclass
class Segments:
    """What directories hold: partitions, the transaction log's partitions, and what is between
    them. `unknown` markers are of producers of which no decision is known any more."""

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
        """What they come to. What can't be read is judged by nobody, and so is what lacks
        something to be compared with."""
        if any(not finding.is_damage for finding in self.every):
            return Outcome.UNEXPLAINED
        is_whole = all(log.is_whole for log in self.transactions) and not self.unknown
        is_there = self.partitions or self.transactions
        return Outcome.EXPLAINED if is_there and is_whole and not self.every else Outcome.UNJUDGED

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "finding": self.outcome.name,
            "partitions": [_partition(part) for part in self.partitions],
            "transaction_logs": [_transactions(part) for part in self.transactions],
            "markers": {"decided": self.matched, "not_known": self.unknown},
            "findings": [
                {"file": str(one.file), "byte": one.byte, "what": one.what, "damage": one.is_damage}
                for one in self.every
            ],
        }


def _partition(part: Partition) -> dict[str, Any]:
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
        "open": [{"producer_id": key, "first_offset": at} for key, at in part.open.items()],
        "index_entries": part.index_entries,
        "snapshots": part.snapshots,
    }


def _transactions(part: TransactionLog) -> dict[str, Any]:
    return {
        "name": part.name,
        "folder": str(part.folder),
        "records": part.records,
        "transactional_ids": len(part.ids),
        "decisions": len(part.decisions),
        "whole": part.is_whole,
    }


def folders_in(directories: Iterable[Path]) -> Iterator[Path]:
    """The partitions' folders in data directories; a partition's own folder is one by itself.
    Raises NotADirectoryError and OSError."""
    for directory in directories:
        if any(directory.glob("*.log")):
            yield directory
            continue
        for folder in sorted(directory.iterdir()):
            if PARTITION.fullmatch(folder.name) and folder.is_dir():
                yield folder


def judge_segments(directories: Iterable[Path], protocol: str | None = None) -> Segments:
    """Judges all partitions in these directories. Raises OSError, and DeclarationError for a
    release that there isn't."""
    found = Segments()
    before = {folder: _files(folder) for folder in folders_in(directories)}
    for folder in before:
        if is_of_transactions(folder):
            found.transactions.append(read_transactions(folder, protocol))
        else:
            found.partitions.append(read_partition(folder, protocol))
    written = {folder for folder, files in before.items() if _files(folder) != files}
    if written:
        _tell_written(found, written)
    else:
        _join(found)
    return found


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The files that are judged, each with its size and when it was written to; none of a folder
    that is gone."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.glob("*"):
        if path.suffix in (".log", ".txnindex", ".snapshot"):
            with suppress(FileNotFoundError):
                told = path.stat()
                found[path.name] = told.st_size, told.st_mtime_ns
    return found


def _tell_written(found: Segments, written: set[Path]) -> None:
    """What was read at different times says nothing of each other: a file and those beside it, or
    markers and decisions."""
    for part in (*found.partitions, *found.transactions):
        if part.folder in written:
            part.findings.clear()
    count = "1 folder was" if len(written) == 1 else f"{len(written)} folders were"
    what = (
        f"{count} written to meanwhile, as a running broker does: nothing is said of them, nor "
        "of markers and decisions; stop the broker, or judge a copy"
    )
    found.findings.append(Finding(min(written), None, what, is_damage=True))


def _join(found: Segments) -> None:
    """Markers beside decisions, both ways, and what is open for ever."""
    decisions = by_producer(d for log in found.transactions for d in log.decisions)
    whole = bool(found.transactions) and all(log.is_whole for log in found.transactions)
    known = {producer for log in found.transactions for producer in log.producers}
    ongoing = {key for log in found.transactions for key in log.ongoing}
    for part in found.partitions:
        for marker in part.markers:
            what = _of_marker(part.name, marker, decisions[marker.producer_id])
            if not what:
                found.matched += 1
            elif whole and marker.producer_id in known:
                found.findings.append(Finding(marker.file, marker.byte, what))
            else:
                found.unknown += 1
        undecided = {d.producer_id for d in _incomplete(decisions.values())}
        for producer_id, first in part.open.items():
            if whole and producer_id in known - ongoing - undecided:
                what = (
                    f"producer {producer_id}'s transaction from offset {first} has no end to come"
                )
                found.findings.append(Finding(part.folder, None, what))
    _missing(found, decisions)


def _of_marker(name: str, marker: Marker, decisions: list[Decision]) -> str:
    """What is wrong with a marker, beside what was decided for its producer."""
    epoch = f"producer {marker.producer_id}, epoch {marker.producer_epoch}"
    place = f"offset {marker.offset}, {epoch}: {marker.result}"
    of_epoch = [d for d in decisions if d.producer_epoch == marker.producer_epoch]
    here = [d for d in of_epoch if name in d.partitions]
    if any(d.result == marker.result for d in here):
        return ""
    if here:
        return f"{place}, where {here[0].transactional_id} decided {here[0].result}"
    return f"{place} is no decision for {name}"


def _incomplete(every: Iterable[list[Decision]]) -> Iterator[Decision]:
    return (d for decisions in every for d in decisions if not d.is_completed)


def _missing(found: Segments, decisions: dict[int, list[Decision]]) -> None:
    """Completed decisions whose marker isn't in a partition that is there from its beginning."""
    for part in found.partitions:
        if part.start or any(finding.is_damage for finding in part.findings):
            continue
        there = {(m.producer_id, m.producer_epoch, m.result) for m in part.markers}
        for decision in (d for each in decisions.values() for d in each if d.is_completed):
            wanted = decision.producer_id, decision.producer_epoch, decision.result
            if part.name in decision.partitions and wanted not in there:
                what = (
                    f"{decision.transactional_id}: {decision.result} of producer {wanted[0]}, "
                    f"epoch {wanted[1]}, is completed, and {part.name} has no such marker"
                )
                found.findings.append(Finding(decision.file, decision.byte, what))
