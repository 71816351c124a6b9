"""Compares the markers of a producer id in all partitions with the coordinator's decisions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..judge import Finding as Outcome
from .partition import Finding, Marker, Partition
from .transactions import Decision, TransactionLog


@dataclass
class OfProducer:
    """What all folders have of a producer id: markers and open transactions (by their first
    offsets) with the partition's folder, decisions, and whether the transaction log has the id and
    an open transaction of it."""

    producer_id: int
    markers: list[tuple[Path, Marker]] = field(default_factory=list[tuple[Path, Marker]])
    open: list[tuple[Path, int]] = field(default_factory=list[tuple[Path, int]])
    decisions: list[Decision] = field(default_factory=list[Decision])
    is_known: bool = False
    is_ongoing: bool = False


@dataclass
class Between:
    """What comes of it: markers with a decision, those with nothing to compare them with, and what
    is wrong."""

    matched: int = 0
    unknown: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


def of_folder(part: Partition | TransactionLog) -> dict[int, OfProducer]:
    """The data of a folder about each producer id."""
    found: dict[int, OfProducer] = {}

    def of(producer_id: int) -> OfProducer:
        return found.setdefault(producer_id, OfProducer(producer_id))

    if isinstance(part, Partition):
        for marker in part.markers:
            of(marker.producer_id).markers.append((part.folder, marker))
        for producer_id, first in part.open.items():
            of(producer_id).open.append((part.folder, first))
        return found
    for producer_id in part.producers:
        of(producer_id).is_known = True
    for producer_id in part.ongoing:
        of(producer_id).is_ongoing = True
    for decision in part.decisions:
        of(decision.producer_id).decisions.append(decision)
    return found


def together(parts: Iterable[OfProducer]) -> OfProducer:
    """The data of several folders about one producer id."""
    first, *others = parts
    found = OfProducer(first.producer_id)
    for part in (first, *others):
        found.markers += part.markers
        found.open += part.open
        found.decisions += part.decisions
        found.is_known |= part.is_known
        found.is_ongoing |= part.is_ongoing
    return found


def is_from_start(part: Partition) -> bool:
    """Whether a partition has all of its markers: none is deleted, and everything can be read."""
    return not part.start and not any(finding.is_damage for finding in part.findings)


def compare(of: OfProducer, from_start: Mapping[str, Sequence[Path]], *, is_whole: bool) -> Between:
    """Markers beside decisions, both ways, and what is open for ever. `from_start` has the folders
    of partitions that are so, by their names; the transaction log `is_whole` or not."""
    found = Between()
    for folder, marker in of.markers:
        what = _of_marker(folder.name, marker, of.decisions)
        if not what:
            found.matched += 1
        elif is_whole and of.is_known:
            found.findings.append(Finding(marker.file, marker.byte, what))
        else:
            found.unknown += 1
    if is_whole and of.is_known and not of.is_ongoing and all(d.is_completed for d in of.decisions):
        for folder, first in of.open:
            what = f"producer {of.producer_id}'s transaction from offset {first} has no end to come"
            found.findings.append(Finding(folder, None, what))
    found.findings += _missing(of, from_start)
    return found


def order(finding: Finding) -> tuple[str, int, str]:
    """The order of findings in a report."""
    return str(finding.file), -1 if finding.byte is None else finding.byte, finding.what


def outcome(*, contradicts: bool, complains: bool, is_whole: bool, is_there: bool) -> Outcome:
    """What findings come to. What can't be read is judged by nobody, and so is what lacks something
    to be compared with."""
    if contradicts:
        return Outcome.UNEXPLAINED
    return Outcome.EXPLAINED if is_there and is_whole and not complains else Outcome.UNJUDGED


def _of_marker(name: str, marker: Marker, decisions: Sequence[Decision]) -> str:
    """The error of a marker, compared with the decisions for its producer."""
    epoch = f"producer {marker.producer_id}, epoch {marker.producer_epoch}"
    place = f"offset {marker.offset}, {epoch}: {marker.result}"
    of_epoch = [d for d in decisions if d.producer_epoch == marker.producer_epoch]
    here = [d for d in of_epoch if name in d.partitions]
    if any(d.result == marker.result for d in here):
        return ""
    if here:
        return f"{place}, where {here[0].transactional_id} decided {here[0].result}"
    return f"{place} was not decided for {name}"


def _missing(of: OfProducer, from_start: Mapping[str, Sequence[Path]]) -> Iterator[Finding]:
    """Completed decisions without a marker of their own. A decision has one marker or more, and a
    marker is of one decision: before version 2 of transactions many decisions have one epoch, and
    are counted. Each copy of the transaction log is counted by itself."""
    there = Counter((folder, m.producer_epoch, m.result) for folder, m in of.markers)
    wanted: defaultdict[tuple[Path, Path, int, str], list[Decision]] = defaultdict(list)
    for decision in (d for d in of.decisions if d.is_completed):
        for folder in (
            f for name in dict.fromkeys(decision.partitions) for f in from_start.get(name, ())
        ):
            key = decision.file.parent, folder, decision.producer_epoch, decision.result
            wanted[key].append(decision)
    for (_, folder, epoch, result), decisions in wanted.items():
        count = there[folder, epoch, result]
        what = f"{result} of producer {of.producer_id}, epoch {epoch}, is completed"
        if not count:
            for each in decisions:
                what_of = f"{each.transactional_id}: {what}, and {folder.name} has no such marker"
                yield Finding(each.file, each.byte, what_of)
        elif count < len(decisions):
            last = decisions[-1]
            markers = "1 such marker" if count == 1 else f"{count} such markers"
            what_of = (
                f"{last.transactional_id}: {what} {len(decisions)} times, and {folder.name} has "
                f"{markers}"
            )
            yield Finding(last.file, last.byte, what_of)
