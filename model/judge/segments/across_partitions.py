"""Compares the markers and transactions of a producer id in all partitions with the coordinator's
decisions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ..judge import Finding as Outcome
from .folder import Finding
from .partition import Begun, Marker, Partition
from .transactions import Decision, Newest, Owner, TransactionLog


@dataclass
class OfProducer:
    """All folders' evidence about a producer id: markers, open transactions, and the first batch of
    each epoch, with the partition's folder; and the transaction log's evidence about it: decisions,
    epochs, the newest record, the partitions of what is ongoing, and the transactional ids."""

    producer_id: int
    markers: list[tuple[Path, Marker]] = field(default_factory=list[tuple[Path, Marker]])
    open: list[tuple[Path, Begun]] = field(default_factory=list[tuple[Path, Begun]])
    begun: list[tuple[Path, Begun]] = field(default_factory=list[tuple[Path, Begun]])
    decisions: list[Decision] = field(default_factory=list[Decision])
    epochs: set[int] = field(default_factory=set[int])
    newest: Newest | None = None
    ongoing: set[str] = field(default_factory=set[str])
    owners: dict[Owner, Finding] = field(default_factory=dict[Owner, Finding])

    @property
    def is_known(self) -> bool:
        """Whether the transaction log has this id."""
        return self.newest is not None


@dataclass(frozen=True)
class Scope:
    """The parts that may be compared: the folders of partitions that are there from their start, by
    name; folders that another copy is ahead of; whether the transaction log is whole, whether it
    has the newest record of each transactional id, and whether all its partitions are here."""

    from_start: Mapping[str, Sequence[Path]]
    behind: frozenset[Path]
    is_whole: bool
    has_newest: bool
    has_all: bool


@dataclass
class Between:
    """The result: markers with a decision, those with nothing to compare them with, and the
    findings."""

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
        for producer_id, begun in part.open.items():
            of(producer_id).open.append((part.folder, begun))
        for (producer_id, _), begun in part.epochs.items():
            of(producer_id).begun.append((part.folder, begun))
        return found
    for producer_id, newest in part.newest.items():
        of(producer_id).newest = newest
        of(producer_id).epochs |= part.epochs[producer_id]
        of(producer_id).owners |= part.owners[producer_id]
    for entry in part.entries.values():
        if entry.state == "ONGOING":
            of(entry.producer_id).ongoing |= {*entry.partitions}
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
        found.begun += part.begun
        found.decisions += part.decisions
        found.epochs |= part.epochs
        found.ongoing |= part.ongoing
        for owner, first_record in part.owners.items():  # the same one in any order of folders
            known = found.owners.get(owner, first_record)
            found.owners[owner] = min(known, first_record, key=order)
        candidates = [each for each in (found.newest, part.newest) if each is not None]
        found.newest = max(candidates, key=lambda each: each.timestamp, default=None)
    return found


def is_from_start(part: Partition) -> bool:
    """Whether a partition has all of its markers: none is deleted, and everything can be read."""
    return not part.start and not any(finding.is_damage for finding in part.findings)


def compare(of: OfProducer, scope: Scope) -> Between:
    """Markers beside decisions, both ways, batches beside epochs, and transactions that are open
    for ever."""
    found = Between()
    may_judge = scope.is_whole and (of.is_known or scope.has_all)
    for folder, marker in of.markers:
        what = _of_marker(folder.name, marker, of)
        if not what:
            found.matched += 1
        elif may_judge:
            found.findings.append(Finding(marker.file, marker.byte, what))
        else:
            found.unknown += 1
    for folder, begun in of.open:
        if folder not in scope.behind and not _ends(of, folder.name):
            found.findings.append(_open(of, folder, begun, scope))
    places = {(folder, begun.offset) for folder, begun in of.open}
    for folder, begun in of.begun if may_judge else ():
        if begun.producer_epoch not in of.epochs and (folder, begun.offset) not in places:
            what = f"offset {begun.offset}, {_producer(of, begun)}: no record of the transaction "
            found.findings.append(Finding(begun.file, begun.byte, f"{what}log has this epoch"))
    found.findings += _missing(of, scope)
    found.findings += _twice(of.owners)
    return found


def _twice(owners: Mapping[Owner, Finding]) -> Iterator[Finding]:
    """The first records of a producer id that has several transactional ids, or one in several
    partitions of the transaction log."""
    ids, partitions = ({owner[at] for owner in owners} for at in (0, 1))
    for (name, partition), first_record in owners.items():
        if len(ids) > 1:
            yield first_record
        elif others := partitions - {partition}:
            yield replace(first_record, what=f"{name}: {min(others)} has it as well")


def order(finding: Finding) -> tuple[str, int, str]:
    """The order of findings in a report."""
    return str(finding.file), -1 if finding.byte is None else finding.byte, finding.what


def outcome(*, contradicts: bool, complains: bool, is_whole: bool, is_there: bool) -> Outcome:
    """The verdict of findings. Files that can't be read, and those with nothing to compare them
    with, aren't judged."""
    if contradicts:
        return Outcome.UNEXPLAINED
    return Outcome.EXPLAINED if is_there and is_whole and not complains else Outcome.UNJUDGED


def time_of(ms: int) -> str:
    """A time as text: in UTC, or the number where it is none of a calendar."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"


def _producer(of: OfProducer, begun: Begun) -> str:
    return f"producer {of.producer_id}, epoch {begun.producer_epoch}"


def _decided(decision: Decision) -> str:
    at = f"in epoch {decision.producer_epoch} at {time_of(decision.timestamp)}"
    return f"{decision.transactional_id} decided {decision.result} {at}"


def _of_marker(name: str, marker: Marker, of: OfProducer) -> str:
    """The error of a marker, compared with the decisions for its producer."""
    epoch = f"producer {marker.producer_id}, epoch {marker.producer_epoch}"
    place = f"offset {marker.offset}, {epoch}: {marker.result}"
    of_epoch = [d for d in of.decisions if d.producer_epoch == marker.producer_epoch]
    here = [d for d in of_epoch if name in d.partitions]
    if any(d.result == marker.result for d in here):
        return ""
    if here:
        return f"{place}, where {_decided(here[0])}"
    if not of.is_known:
        return f"{place} was not decided: no transactional id has had this producer"
    return f"{place} was not decided for {name}"


# Open transactions --------------------------------------------------------------------------------


def _ends(of: OfProducer, name: str) -> bool:
    """Whether a marker for this partition is still to come."""
    decided = (name in d.partitions and not d.is_completed for d in of.decisions)
    return name in of.ongoing or any(decided)


def _open(of: OfProducer, folder: Path, begun: Begun, scope: Scope) -> Finding:
    """A transaction whose end isn't in sight: its identity, when it was written, the coordinator's
    later records, and the known bugs that leave it so."""
    what = f"producer {of.producer_id}'s transaction from offset {begun.offset}"
    when = f"epoch {begun.producer_epoch}, last written at {time_of(begun.timestamp)}"
    if not (scope.has_newest and (of.is_known or scope.has_all)):
        why = "is open, and the transaction log isn't all here: nothing shows whether its end comes"
        return Finding(begun.file, begun.byte, f"{what} {why} ({when})", is_damage=True)
    facts = [when]
    if of.newest is None:
        facts.append("no transactional id has had this producer")
    else:
        state, at = of.newest.state, time_of(of.newest.timestamp)
        facts.append(
            f"{of.newest.transactional_id} is {state} in epoch {of.newest.producer_epoch} since "
            f"{at}"
        )
    here = [d for d in of.decisions if folder.name in d.partitions]
    facts += [_decided(here[-1]) if here else f"nothing was decided for {folder.name}"]
    facts += _causes(of, folder, begun)
    return Finding(begun.file, begun.byte, f"{what} will get no end: {'; '.join(facts)}")


def _causes(of: OfProducer, folder: Path, begun: Begun) -> Iterator[str]:
    """The known bugs that leave this."""
    from ....spec.bugs.hanging import HANGING, Left

    if of.newest is None:
        return
    here = [d for d in of.decisions if folder.name in d.partitions and d.is_completed]
    markers = [m for place, m in of.markers if place == folder]
    if len(markers) < len(here):
        left = Left.MARKER_LEFT_OUT
    elif any(marker.offset < begun.offset for marker in markers):
        left = Left.BEHIND_ITS_MARKER
    elif not here:
        left = Left.NEVER_ADDED
    else:
        return
    yield f"{left.value}, as after " + ", or ".join(map(str, HANGING[left]))


def _missing(of: OfProducer, scope: Scope) -> Iterator[Finding]:
    """Completed decisions without a marker of their own. A decision has one marker or more, and a
    marker is of one decision: before version 2 of transactions many decisions have one epoch, and
    are counted. Each copy of the transaction log is counted by itself."""
    there = Counter((folder, m.producer_epoch, m.result) for folder, m in of.markers)
    wanted: defaultdict[tuple[Path, Path, int, str], list[Decision]] = defaultdict(list)
    for decision in (d for d in of.decisions if d.is_completed):
        for name in dict.fromkeys(decision.partitions):
            for folder in scope.from_start.get(name, ()):
                if folder not in scope.behind:
                    key = decision.file.parent, folder, decision.producer_epoch, decision.result
                    wanted[key].append(decision)
    for (_, folder, epoch, result), decisions in wanted.items():
        count = there[folder, epoch, result]
        what = f"{result} of producer {of.producer_id}, epoch {epoch}, is completed"
        if not count:
            for each in decisions:
                at = time_of(each.timestamp)
                what_of = (
                    f"{each.transactional_id}: {what}, and {folder.name} has no such marker "
                    f"(decided at {at})"
                )
                yield Finding(each.file, each.byte, what_of)
        elif count < len(decisions):
            last = decisions[-1]
            markers = "1 such marker" if count == 1 else f"{count} such markers"
            what_of = (
                f"{last.transactional_id}: {what} {len(decisions)} times, and {folder.name} has "
                f"{markers} (the last was decided at {time_of(last.timestamp)})"
            )
            yield Finding(last.file, last.byte, what_of)
