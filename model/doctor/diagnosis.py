"""The diagnosis from the evidence: a cause for each open transaction, the known bugs that leave it,
and the remedy with its risk.

A transaction that a coordinator may still end isn't called hanging. In doubt, the verdict is
UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...spec.bugs.hanging import HANGING, Cause, Left
from ...spec.releases.features import RELEASED
from ..broker.transactions.transaction_log import partition_for
from ..judge.segments.across_partitions import time_of
from ..judge.segments.transactions import Decision
from .causes import CAUSES
from .evidence import (
    DECIDED,
    ONGOING,
    Entry,
    Evidence,
    Open,
    Partition,
    Problem,
    Verdict,
)

LATE_MS: Final = 5 * 60_000
"""The time in ms after its timeout from which a transaction is late, as in Kafka's metric
(ProducerStateManager.LATE_TRANSACTION_BUFFER_MS)."""
NO_TIMEOUT: Final = 2**31 - 1
LAST_EPOCH: Final = 32_767
FEW_LEFT: Final = 767
"""The number of remaining epochs below which they are nearly used up."""
_TOOL: Final = "kafka-transactions.sh"
_VERIFIED_SINCE: Final = "3.6"
"""From this release on leaders ask the coordinator before they append (KIP-890)."""


@dataclass
class Case:
    """An open transaction, with its cause (a key of `CAUSES`), the coordinator's entry, further
    facts, and the known bugs of the brokers' release that leave such a transaction."""

    partition: Partition
    open: Open
    cause: str
    entry: Entry | None = None
    facts: list[str] = field(default_factory=list[str])
    bugs: list[Cause] = field(default_factory=list[Cause])
    remedy: str = ""
    risk: str = ""

    @property
    def verdict(self) -> Verdict:
        """The cause's verdict."""
        return CAUSES[self.cause].verdict

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal at another time for the same transaction in the same state."""
        state = None if self.entry is None else self.entry.state
        return key_of(self.partition, self.open, state)


def key_of(partition: Partition, of: Open, state: str | None) -> tuple[Any, ...]:
    """The key of an open transaction whose entry is in this state."""
    return (partition.place, of.producer_id, of.producer_epoch, of.first_offset, state)


@dataclass
class Diagnosis:
    """The result: the evidence, the open transactions, and other problems."""

    evidence: Evidence
    cases: list[Case]
    problems: list[Problem]

    @property
    def verdict(self) -> Verdict:
        """HANGS if anything hangs, else UNKNOWN if anything isn't known."""
        found = {case.verdict for case in self.cases}
        found |= {CAUSES[problem.cause].verdict for problem in self.problems}
        order = (Verdict.HANGS, Verdict.UNKNOWN)
        return next((each for each in order if each in found), Verdict.HEALTHY)

    @property
    def passing(self) -> set[Any]:
        """The keys of cases and problems that may be over at another look."""
        cases = {
            case.key
            for case in self.cases
            if case.cause in _PASSING or case.verdict is Verdict.HANGS
        }
        return cases | {problem for problem in self.problems if problem.cause in _PASSING}

    @property
    def late(self) -> set[Any]:
        """The partitions with a late transaction, as in PartitionsWithLateTransactionsCount:
        hanging ones, and those whose timeout is long over."""
        return {
            case.partition.place
            for case in self.cases
            if case.verdict is Verdict.HANGS or case.cause == "overdue"
        }


_PASSING: Final = frozenset(
    ("ending", "late-marker", "not-known", "hidden-records", "coordinator-loading",
     "coordinator-without-leader", "no-leader", "leader-moving",
     "epoch-ahead")
)  # fmt: skip


def diagnose(evidence: Evidence) -> Diagnosis:
    """The diagnosis from this evidence."""
    cases: list[Case] = []
    problems = list(evidence.problems)
    for partition in evidence.partitions:
        for each in partition.open:
            case = _case(evidence, partition, each)
            case.facts += _facts(evidence, case)
            if case.verdict is Verdict.HANGS or case.cause in ("late-marker", "overdue"):
                case.bugs = _bugs(evidence, case)
            _remedy(evidence, case)
            cases.append(case)
        if partition.hidden and not partition.open:
            first = partition.last_stable_offset
            says = f"{partition.place}: {partition.hidden} offsets from {first} on"
            problems.append(Problem("hidden-records", says))
    return Diagnosis(evidence, cases, problems + list(_epochs(evidence)))


def _case(evidence: Evidence, partition: Partition, of: Open) -> Case:
    entries = evidence.entries.get(of.producer_id, [])
    for entry in entries:
        if partition.place in entry.partitions and entry.state in (ONGOING, *DECIDED):
            seen_ms = evidence.seen.get(key_of(partition, of, entry.state), 0)
            return Case(partition, of, _with_end(evidence, entry, of, seen_ms), entry)
    entry = max(entries, key=lambda each: each.producer_epoch, default=None)
    doubts = list(partition.doubts)
    if entry is None:
        doubts += evidence.doubts
    elif entry.doubt:
        doubts.append(entry.doubt)
    if doubts:
        return Case(partition, of, "not-known", entry, doubts)
    case = Case(partition, of, "hanging", entry)
    if _is_of_fenced(evidence, case):
        case.cause = "fenced-writer"
    return case


def _is_of_fenced(evidence: Evidence, case: Case) -> bool:
    """Whether a fenced instance wrote the transaction: it is in an older epoch, without any
    decision for this partition."""
    before = _release(evidence) in RELEASED[: RELEASED.index(_VERIFIED_SINCE)]
    if not before or case.entry is None or not _has_all_decisions(evidence, case):
        return False
    epoch = case.open.producer_epoch
    here = _decided_here(evidence, case)
    return epoch < case.entry.producer_epoch and all(each.producer_epoch < epoch for each in here)


def _has_all_decisions(evidence: Evidence, case: Case) -> bool:
    """Whether all decisions for the producer are known."""
    is_known = case.entry is not None and case.entry.transactional_id in evidence.whole
    return is_known or evidence.has_all_decisions


def _with_end(evidence: Evidence, entry: Entry, of: Open, seen_ms: int) -> str:
    """The cause if the coordinator has the partition in a transaction that hasn't ended."""
    now, due = evidence.now_ms, entry.start_ms + entry.timeout_ms
    has_due = entry.start_ms >= 0 and entry.timeout_ms >= 0
    if entry.state in DECIDED:
        since = entry.decided_ms if entry.decided_ms >= 0 else due if has_due else now
        if now - since > LATE_MS and seen_ms > 0:
            return "marker-not-sent"
        return "late-marker" if seen_ms >= evidence.patience_ms else "ending"
    if of.producer_epoch != entry.producer_epoch:
        return "older-epoch" if of.producer_epoch < entry.producer_epoch else "epoch-ahead"
    if entry.timeout_ms == NO_TIMEOUT:
        return "never-times-out"
    if not has_due or now <= due:
        return "open"
    return "timing-out" if now - due <= LATE_MS else "overdue"


# Known bugs ---------------------------------------------------------------------------------------


def _left(evidence: Evidence, case: Case) -> Sequence[Left]:
    """The possible ways in which the transaction was left."""
    of, here = case.open, _decided_here(evidence, case)
    markers = case.partition.markers.get(of.producer_id, 0)
    completed = sum(each.is_completed for each in here)
    if case.partition.markers and markers < completed:
        return (Left.MARKER_LEFT_OUT,)
    is_unmarked = of.coordinator_epoch < 0 and evidence.describes_producers
    lefts = [Left.NEVER_ADDED] if is_unmarked else [Left.BEHIND_ITS_MARKER, Left.NEVER_ADDED]
    if not (case.partition.markers and _has_all_decisions(evidence, case)):
        lefts.append(Left.MARKER_LEFT_OUT)
    return lefts


def _release(evidence: Evidence) -> str | None:
    """The release whose bugs the brokers have. Without verification this is the last release before
    KIP-890."""
    release, since = evidence.release, RELEASED.index(_VERIFIED_SINCE)
    if evidence.verifies or release is None or release not in RELEASED[since:]:
        return release
    return RELEASED[since - 1]


def _bugs(evidence: Evidence, case: Case) -> list[Cause]:
    """The known bugs of the brokers' release that leave such a transaction."""
    if evidence.release is None:
        return []
    own = {evidence.release, str(_release(evidence))}
    known = {
        "marker-not-sent": Left.MARKER_NOT_SENT,
        "late-marker": Left.MARKER_NOT_SENT,
        "overdue": Left.NOT_ENDED,
    }
    lefts = [known[case.cause]] if case.cause in known else _left(evidence, case)
    return [
        cause
        for left in lefts
        for cause in HANGING[left]
        if any(cause.is_in(release, evidence.transaction_version) for release in own)
    ]


def _decided_here(evidence: Evidence, case: Case) -> list[Decision]:
    name = str(case.partition.place)
    every = evidence.decisions.get(case.open.producer_id, [])
    return [each for each in every if name in each.partitions]


# Facts --------------------------------------------------------------------------------------------


def _facts(evidence: Evidence, case: Case) -> Iterator[str]:
    entry, of = case.entry, case.open
    if entry is not None and entry.state == ONGOING and case.cause != "never-times-out":
        due = entry.start_ms + entry.timeout_ms
        if case.cause in ("open", "timing-out", "overdue") and entry.start_ms >= 0:
            yield (
                f"begun at {time_of(entry.start_ms)}, with a timeout of "
                f"{entry.timeout_ms / 1000:g} s: the coordinator ends it at {time_of(due)} at the "
                "latest, if its client doesn't"
                if case.cause == "open"
                else f"its timeout was over at {time_of(due)}"
            )
    is_older = entry is not None and of.producer_epoch < entry.producer_epoch
    if case.cause in ("hanging", "fenced-writer") and entry is not None and is_older:
        yield f"epoch {of.producer_epoch} wrote it; the coordinator is at {entry.producer_epoch}"
    if case.verdict is Verdict.HANGS and case.cause != "marker-not-sent":
        if entry is None:
            yield f"no transactional id has producer {of.producer_id} any more"
        for each in _decided_here(evidence, case)[-3:]:
            yield (
                f"{each.transactional_id} decided {each.result} for this partition in epoch "
                f"{each.producer_epoch} at {time_of(each.timestamp)}"
            )


# Remedies -----------------------------------------------------------------------------------------


def _remedy(evidence: Evidence, case: Case) -> None:
    if case.cause in ("hanging", "fenced-writer"):
        case.remedy, case.risk = _abort(evidence, case), _risk_of_abort(evidence, case)
    elif case.cause in ("marker-not-sent", "late-marker") and case.entry is not None:
        case.remedy = (
            f"restart the broker that coordinates {case.entry.transactional_id}, or move its "
            "partition of __transaction_state: the next coordinator reads the decision from the "
            "log, and sends its markers again"
        )
        case.risk = (
            "no record is lost: the decision stays; transactions of the other ids of that "
            "coordinator wait until it has loaded"
        )
    elif case.cause in ("overdue", "older-epoch"):
        case.remedy = "end the producer, or start its next instance: InitProducerId aborts it"
        case.risk = "the records of the open transaction are aborted"


def _abort(evidence: Evidence, case: Case) -> str:
    place, of = case.partition.place, case.open
    command = f"{_TOOL} --bootstrap-server {evidence.server} abort --topic {place.topic} "
    command += f"--partition {place.number} "
    if evidence.describes_producers:
        return command + f"--start-offset {of.first_offset}"
    return command + (
        f"--producer-id {of.producer_id} --producer-epoch {of.producer_epoch} "
        f"--coordinator-epoch {_coordinator_epoch(evidence, case)}"
    )


def _coordinator_epoch(evidence: Evidence, case: Case) -> int:
    """A coordinator epoch for an abort marker that the leader accepts and that fences no
    coordinator."""
    known = max(0, case.open.coordinator_epoch)
    if case.entry is None or not evidence.log_epochs:
        return known
    number = partition_for(case.entry.transactional_id, len(evidence.log_epochs))
    return max(known, evidence.log_epochs.get(number, 0))


def _risk_of_abort(evidence: Evidence, case: Case) -> str:
    place, of = case.partition.place, case.open
    span = case.partition.spans.get(of.producer_id)
    if span is None:
        which = f"its records of {place} from offset {of.first_offset} on"
    elif span.first == span.last:
        which = f"record {span.first} of {place}"
    else:
        which = f"records {span.first} to {span.last} of {place}"
    if span is not None and not case.partition.is_whole:
        which += " and later ones of it"
    says = f"read_committed consumers never see {which}; all others behind it become visible"
    result = _result(evidence, case)
    if result == "COMMIT":
        says = f"aborting loses {which}; the coordinator has committed the transaction"
    elif result == "ABORT":
        says += "; the coordinator has aborted the transaction"
    else:
        says += "; whether the coordinator has committed the transaction isn't known here"
    if case.cause == "hanging" and case.entry is not None and result is None:
        says += (
            f"; without an abort, the next transaction of {case.entry.transactional_id} that ends "
            f"in {place} ends this one as well, with its own result"
        )
    return says


def _result(evidence: Evidence, case: Case) -> str | None:
    """The result that the coordinator decided; None unless exactly one decision can be this
    transaction's. In version 2 each transaction has its own epoch, and its decision has the next
    one."""
    found = [
        each
        for each in _decided_here(evidence, case)
        if each.is_completed
        and each.client_version >= 2
        and each.producer_epoch == case.open.producer_epoch + 1
    ]
    return found[0].result if len(found) == 1 else None


def _epochs(evidence: Evidence) -> Iterator[Problem]:
    for entries in evidence.entries.values():
        for entry in entries:
            if entry.producer_epoch >= LAST_EPOCH - FEW_LEFT:
                yield Problem(
                    "epochs-nearly-used-up",
                    f"{entry.transactional_id}: producer {entry.producer_id} is at epoch "
                    f"{entry.producer_epoch} of {LAST_EPOCH}",
                )
