"""A diagnosis as text, as JSON, and as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ...judge.segments.across_partitions import time_of
from ..causes import CAUSES
from ..diagnosis import Case, Diagnosis
from ..evidence import Evidence, Verdict

_MOST: Final = 50
"""The largest number of printed cases of a verdict; --json has all."""
_WORDS: Final = {Verdict.HEALTHY: "healthy", Verdict.HANGS: "hangs", Verdict.UNKNOWN: "not known"}


def lines(found: Diagnosis) -> Iterator[str]:
    """The report in lines: hanging transactions, unknown ones, open ones, and the verdict."""
    evidence = found.evidence
    for note in evidence.notes:
        yield f"note: {note}"
    if not evidence.verifies:
        yield "note: transaction.partition.verification.enable is false on a broker"
    if not evidence.knows_settings:
        yield (
            "note: whether transaction.partition.verification.enable is false isn't known: the "
            "user needs DESCRIBE_CONFIGS on the cluster"
        )
    for verdict in (Verdict.HANGS, Verdict.UNKNOWN, Verdict.HEALTHY):
        cases = [case for case in found.cases if case.verdict is verdict]
        for case in cases[:_MOST]:
            is_known = evidence.release is not None and evidence.knows_settings
            yield from _of_case(case, is_known=is_known)
        if len(cases) > _MOST:
            yield f"{len(cases) - _MOST} more (--json)"
        for problem in found.problems:
            if CAUSES[problem.cause].verdict is verdict:
                yield f"{problem.says}: {CAUSES[problem.cause].what} ({problem.cause})"
    counts = Counter(case.verdict for case in found.cases)
    yield (
        f"{_of(evidence.looked_at, 'partition')} of {_brokers(evidence)}: "
        f"{counts[Verdict.HANGS]} hanging, {counts[Verdict.UNKNOWN]} not known, "
        f"{counts[Verdict.HEALTHY]} open: {found.verdict.name} (exit {found.verdict})"
    )


def _of(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def _brokers(evidence: Evidence) -> str:
    if evidence.release is None:
        return evidence.source
    version = evidence.transaction_version
    level = f", transaction.version {version}" if version else ""
    return f"{evidence.source} (Kafka {evidence.release}{level})"


def _of_case(case: Case, *, is_known: bool) -> Iterator[str]:
    part, of = case.partition, case.open
    since = part.since_ms(of)
    when = f" since {time_of(since)}" if since >= 0 else ""
    hides = of.first_offset == part.last_stable_offset
    stuck = f": last stable offset {part.last_stable_offset}, {_of(part.hidden, 'offset')} hidden"
    yield f"{part.place}{stuck if hides else ''}: {_WORDS[case.verdict]}"
    entry = case.entry
    who = "no transactional id" if entry is None else f"transactional id {entry.transactional_id}"
    state = "" if entry is None else f" ({entry.state}, epoch {entry.producer_epoch})"
    yield (
        f"  open from offset {of.first_offset}{when}: producer {of.producer_id}, epoch "
        f"{of.producer_epoch}; {who}{state}"
    )
    if (span := part.spans.get(of.producer_id)) is not None:
        more = "" if part.is_whole else " at least"
        last = f", the last at {time_of(of.last_ms)}" if of.last_ms >= 0 else ""
        yield (
            f"  written:{more} {_of(span.records, 'record')} in "
            f"{_of(span.batches, 'batch', 'batches')}, offsets {span.first} to {span.last}{last}"
        )
    if part.groups and hides:
        yield f"  groups at this offset: {', '.join(part.groups)}"
    yield f"  cause: {CAUSES[case.cause].what} ({case.cause})"
    for fact in case.facts:
        yield f"    {fact}"
    for bug in case.bugs:
        yield f"  known to leave this: {bug}"
        yield f"    the run: {bug.run}"
    if case.verdict is Verdict.HANGS and not case.bugs and is_known:
        yield (
            "  known to leave this: nothing that these brokers have; an older release or an older "
            "transaction.version may have left it"
        )
    if case.remedy:
        yield f"  remedy: {case.remedy}"
        yield f"  risk: {case.risk}"


def as_json(found: Diagnosis) -> dict[str, Any]:
    """The report as plain data; times are in ms."""
    evidence = found.evidence
    return {
        "verdict": found.verdict.name,
        "source": evidence.source,
        "release": evidence.release,
        "transaction_version": evidence.transaction_version,
        "time": evidence.now_ms,
        "partitions": evidence.looked_at,
        "transactions": [_case_as_json(case) for case in found.cases],
        "problems": [
            {
                "verdict": CAUSES[one.cause].verdict.name,
                "cause": one.cause,
                "what": CAUSES[one.cause].what,
                "says": one.says,
            }
            for one in found.problems
        ],
        "notes": evidence.notes,
    }


def _case_as_json(case: Case) -> dict[str, Any]:
    part, of, entry = case.partition, case.open, case.entry
    span = part.spans.get(of.producer_id)
    return {
        "verdict": case.verdict.name,
        "cause": case.cause,
        "what": CAUSES[case.cause].what,
        "topic": part.place.topic,
        "partition": part.place.number,
        "last_stable_offset": part.last_stable_offset,
        "high_watermark": part.end,
        "groups": part.groups,
        "producer_id": of.producer_id,
        "producer_epoch": of.producer_epoch,
        "first_offset": of.first_offset,
        "since": part.since_ms(of),
        "last_written": of.last_ms,
        "records": None if span is None else span.records,
        "last_offset": None if span is None else span.last,
        "all_read": part.is_whole,
        "entry": None
        if entry is None
        else {
            "transactional_id": entry.transactional_id,
            "state": entry.state,
            "producer_epoch": entry.producer_epoch,
            "partitions": sorted(map(str, entry.partitions)),
            "timeout_ms": entry.timeout_ms,
            "start": entry.start_ms,
        },
        "facts": case.facts,
        "bugs": [bug.name for bug in case.bugs],
        "runs": [bug.run for bug in case.bugs],
        "remedy": case.remedy,
        "risk": case.risk,
    }


_METRICS: Final = (
    ("kafka_server_replicamanager_partitionswithlatetransactionscount", "gauge",
     "Partitions with a transaction that is late (kafka.server:type=ReplicaManager,"
     "name=PartitionsWithLateTransactionsCount)."),
    ("epochfence_doctor_verdict", "gauge", "0 healthy, 12 something hangs, 20 not known."),
    ("epochfence_doctor_transactions", "gauge", "Open transactions by cause."),
    ("kafka_cluster_partition_laststableoffsetlag", "gauge",
     "Offsets hidden from read_committed consumers (kafka.cluster:type=Partition,"
     "name=LastStableOffsetLag)."),
    ("epochfence_doctor_time_seconds", "gauge", "When this was seen."),
)  # fmt: skip


def prometheus(found: Diagnosis) -> str:
    """The diagnosis as Prometheus text, with the names that Kafka's own metrics get."""
    evidence = found.evidence
    causes = Counter(case.cause for case in found.cases)
    values: dict[str, list[str]] = {
        _METRICS[0][0]: [f" {len(found.late)}"],
        _METRICS[1][0]: [f" {int(found.verdict)}"],
        _METRICS[2][0]: [
            f'{{cause="{name}",verdict="{cause.verdict.name}"}} {causes[name]}'
            for name, cause in CAUSES.items()
        ],
        _METRICS[3][0]: [
            f'{{topic="{part.place.topic}",partition="{part.place.number}"}} {part.hidden}'
            for part in evidence.partitions
        ],
        _METRICS[4][0]: [f" {evidence.now_ms / 1000:.3f}"],
    }
    exposition: list[str] = []
    for name, kind, help_text in _METRICS:
        exposition += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        exposition += [f"{name}{value}" for value in values[name]]
    return "\n".join(exposition) + "\n"
