"""The printed result of `epochfence judge --segments`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .directories import NOTHING, Segments
from .folder import Finding
from .partition import Partition
from .transactions import TransactionLog

MOST = 50  # findings of a partition in print; --json has them all


def lines(found: Segments) -> Iterator[str]:
    """A line for each partition and for each finding, then the verdict."""
    for log in found.transactions:
        yield _of_transactions(log)
        yield from _findings(log.findings)
    for part in found.partitions:
        yield _of_partition(part)
        yield from _findings(part.findings)
    if found.findings:
        yield "between them:"
        yield from _findings(found.findings)
    if not (found.partitions or found.transactions):
        yield NOTHING
    markers = sum(len(part.markers) for part in found.partitions)
    known = f"{found.matched} of {_of(markers, 'marker')} have a decision"
    if found.unknown:
        known += f", {found.unknown} can't be compared with a decision"
    batches = sum(part.batches for part in found.partitions)
    outcome = found.outcome
    yield (
        f"{_of(len(found.partitions), 'partition')}, {_of(batches, 'batch', 'batches')}; {known}: "
        f"{outcome.name} (exit {outcome.exit_code})"
    )


def _of_transactions(log: TransactionLog) -> str:
    whole = "" if log.is_whole else "; not whole: transitions aren't judged"
    return (
        f"{log.folder}: {_of(log.records, 'record')} of {_of(len(log.ids), 'transactional id')}, "
        f"{_of(len(log.decisions), 'decision')}{whole}"
    )


def _of_partition(part: Partition) -> str:
    results = Counter(marker.result for marker in part.markers)
    open_ = f", {len(part.open)} open" if part.open else ""
    idle = part.idle_markers
    open_ += f", {_of(idle, 'marker ends', 'markers end')} nothing" if idle else ""
    return (
        f"{part.folder}: offsets {part.start} to {part.end}, "
        f"{_of(part.batches, 'batch', 'batches')} of {_of(len(part.producers), 'producer')}; "
        f"{_of(results['COMMIT'], 'commit')}, {_of(results['ABORT'], 'abort')}{open_}; "
        f"{_of(part.index_entries, 'index entry', 'index entries')}, "
        f"{_of(part.snapshots, 'snapshot')}"
    )


def _of(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or f'{one}s'}"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings[:MOST]:
        yield f"  {finding}"
    if len(findings) > MOST:
        yield f"  {len(findings) - MOST} more (--json)"
