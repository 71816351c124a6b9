"""Examines a cluster repeatedly, until pending markers have arrived or the wait is over."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from ..broker.transactions.transaction_log import partition_for
from ..wire.connection import BrokerError
from .diagnosis import Diagnosis, diagnose
from .evidence import Entry, Evidence, Problem, Verdict
from .live import MOST_OF_LOG, Cluster
from .logs import add_rivals

PAUSE_S: Final = 0.5
CONFIRMED_MS: Final = 1_000
"""The time in ms for which a transaction must be seen hanging before it is reported so."""
_MOST_LOGS: Final = 10
"""The largest number of log partitions that are read for instances that fence each other."""
_MOST_READ: Final = 100
"""The largest number of partitions whose open transactions are read."""


def examine(cluster: Cluster, patience_ms: int = 5_000) -> Diagnosis:
    """The diagnosis of a cluster. A marker may be pending for `patience_ms`. Raises BrokerError."""
    first = cluster.look()
    found, evidence = diagnose(first), first
    begun, known = time.monotonic(), dict.fromkeys(found.passing, time.monotonic())
    waits = bool(found.passing)
    places = {part.place for part in first.partitions}
    places |= {one.place for one in first.problems if one.place is not None}
    while waits:
        time.sleep(PAUSE_S)
        evidence = cluster.look(places)
        now = time.monotonic()
        evidence.looked_at, evidence.patience_ms = first.looked_at, patience_ms
        _keep(evidence, first)
        evidence.seen = {key: round((now - since) * 1000) for key, since in known.items()}
        found = diagnose(evidence)
        waits = any(_is_awaited(found, key, evidence, patience_ms) for key in found.passing)
        waits &= (now - begun) * 1000 < patience_ms + CONFIRMED_MS
        known = {key: known.get(key, now) for key in found.passing}
    _read_more(cluster, evidence, found)
    _read_groups(cluster, evidence)
    _find_rivals(cluster, first, evidence)
    return diagnose(evidence)


def unseen(source: str, why: str) -> Diagnosis:
    """The diagnosis of a cluster that doesn't answer."""
    problem = Problem("not-seen", why)
    return diagnose(Evidence(source, round(time.time() * 1000), problems=[problem]))


def _is_awaited(found: Diagnosis, key: Any, evidence: Evidence, patience_ms: int) -> bool:
    """Whether another look is needed for a case or problem. New ones don't count: a busy cluster
    always has some."""
    hangs = any(case.key == key and case.verdict is Verdict.HANGS for case in found.cases)
    if hangs:
        return evidence.seen.get(key, 0) < CONFIRMED_MS
    return 0 < evidence.seen.get(key, 0) < patience_ms


def _keep(evidence: Evidence, first: Evidence) -> None:
    """Keeps the first look's results about the whole cluster; later looks are only about some
    partitions."""
    for problem in first.problems:
        if problem.cause in ("not-seen", "sample") and problem not in evidence.problems:
            evidence.problems.append(problem)
    evidence.notes = first.notes
    now_open = {of.producer_id for part in evidence.partitions for of in part.open}
    for producer_id in first.entries.keys() - now_open:
        evidence.entries.setdefault(producer_id, first.entries[producer_id])


def _read_groups(cluster: Cluster, evidence: Evidence) -> None:
    """Finds the groups that wait at a last stable offset."""
    stuck = [part for part in evidence.partitions if part.open][:_MOST_READ]
    if not stuck:
        return
    try:
        why = cluster.waiting_groups(stuck)
    except BrokerError as error:
        why = str(error)
    if why is not None:
        evidence.notes.append(f"waiting groups aren't all known: {why}")


def _find_rivals(cluster: Cluster, first: Evidence, last: Evidence) -> None:
    """Finds transactional ids with many new epochs by InitProducerId, in the transaction log. Only
    ids are read whose epoch rose between two looks, or that have an open transaction."""
    known = {entry.transactional_id: entry for of in first.entries.values() for entry in of}
    now = {entry.transactional_id: entry for of in last.entries.values() for entry in of}
    rose = {
        name
        for name, entry in now.items()
        if name in known and entry.producer_epoch != known[name].producer_epoch
    }
    rose |= {case.transactional_id for case in _open_entries(last)}
    count = len(cluster.log_partitions)
    if not count:
        return
    with suppress(BrokerError):
        for number in sorted({partition_for(name, count) for name in rose})[:_MOST_LOGS]:
            log = cluster.recent_log(number)
            add_rivals(last, log)


def _open_entries(evidence: Evidence) -> list[Entry]:
    ids = {of.producer_id for part in evidence.partitions for of in part.open}
    return [entry for each in ids for entry in evidence.entries.get(each, ())]


def _read_more(cluster: Cluster, evidence: Evidence, found: Diagnosis) -> None:
    """Reads the batches of open transactions, and the decisions about hanging ones."""
    for part in evidence.partitions[:_MOST_READ] if evidence.describes_producers else ():
        cluster.read(part, evidence)
    if len(evidence.partitions) > _MOST_READ:
        evidence.notes.append(f"batches are read of the first {_MOST_READ} partitions alone")
    hanging = [case for case in found.cases if case.verdict is Verdict.HANGS]
    if evidence.decisions or not hanging:
        return
    ids = {case.entry.transactional_id for case in hanging if case.entry is not None}
    count = len(cluster.log_partitions)
    numbers = {partition_for(name, count) for name in ids if count}
    with suppress(BrokerError):
        for number in sorted(numbers):
            log, _, why = cluster.transaction_log(number, MOST_OF_LOG)
            if why is not None:
                evidence.notes.append(f"what the coordinator decided isn't known: {why}")
                break
            for decision in log.decisions:
                evidence.decisions.setdefault(decision.producer_id, []).append(decision)
            if log.is_whole:
                evidence.whole |= log.ids
