"""States that were made up, and what doctor says of them."""

from __future__ import annotations

import pytest

from epochfence.model.doctor.causes import CAUSES
from epochfence.model.doctor.diagnosis import Case, Diagnosis, diagnose, key_of
from epochfence.model.doctor.evidence import (
    Entry,
    Evidence,
    Open,
    Partition,
    Place,
    Problem,
    Verdict,
)
from epochfence.model.doctor.output.report import as_json, prometheus

NOW, MINUTE = 1_790_000_000_000, 60_000
ORDERS, OTHERS = Place("orders", 0), Place("others", 1)
PID = 7


def entry(
    state: str = "Ongoing",
    *,
    begun: float = 1,
    timeout: float = 15,
    epoch: int = 3,
    at: Place = ORDERS,
) -> Entry:
    """An entry whose transaction began so many minutes ago, with a timeout of so many."""
    places = frozenset((at,)) if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else []
    return Entry(
        "app", PID, epoch, state, frozenset(places), round(timeout * MINUTE),
        NOW - round(begun * MINUTE),
    )  # fmt: skip


def evidence(
    *entries: Entry,
    release: str | None = "3.5",
    seen_ms: int = 0,
    version: int = 0,
    doubts: tuple[str, ...] = (),
    coordinator_epoch: int = 0,
) -> Evidence:
    """A partition with a transaction of epoch 3, open from offset 5 on."""
    of = Open(PID, 3, 5, NOW - MINUTE, coordinator_epoch)
    part = Partition(ORDERS, 5, 9, (of,))
    found = Evidence("here", NOW, release, version, looked_at=1, partitions=[part])
    found.entries = {PID: list(entries)} if entries else {}
    found.doubts = list(doubts)
    found.seen = {key_of(part, of, each.state): seen_ms for each in entries} if seen_ms else {}
    return found


def only(found: Evidence) -> Case:
    (case,) = diagnose(found).cases
    return case


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (evidence(entry(begun=9)), "open"),
        (evidence(entry(begun=14.99)), "open"),
        (evidence(entry(begun=15.5)), "timing-out"),
        (evidence(entry(begun=21)), "overdue"),
        (evidence(entry(begun=900, timeout=(2**31 - 1) / MINUTE)), "never-times-out"),
        (evidence(entry("PrepareCommit", begun=9)), "ending"),
        (evidence(entry("PrepareAbort", begun=9), seen_ms=6_000), "late-marker"),
        (evidence(entry("PrepareAbort", begun=21)), "ending"),  # seen once alone
        (evidence(entry("PrepareAbort", begun=21), seen_ms=500), "marker-not-sent"),
        (evidence(entry("CompleteCommit", begun=9)), "hanging"),
        (evidence(entry("Empty", begun=9)), "hanging"),
        (evidence(entry("Dead", begun=9)), "hanging"),
        (evidence(entry(begun=9, at=OTHERS)), "hanging"),
        (evidence(entry("PrepareCommit", begun=9, at=OTHERS)), "hanging"),
        (evidence(entry(begun=9, epoch=4)), "older-epoch"),
        (evidence(entry(begun=9, epoch=2)), "epoch-ahead"),
        (evidence(), "hanging"),
        (evidence(doubts=("a coordinator is loading",)), "not-known"),
        (evidence(entry("Empty"), doubts=("a coordinator is loading",)), "hanging"),
    ],
)
def test_each_state_has_its_cause(given: Evidence, cause: str) -> None:
    assert only(given).cause == cause
    assert diagnose(given).verdict is CAUSES[cause].verdict


def names(given: Evidence) -> list[str]:
    return [bug.name for bug in only(given).bugs]


def test_bugs_are_those_that_the_brokers_have() -> None:
    def at(release: str | None, version: int = 0, coordinator_epoch: int = 0) -> list[str]:
        ended = entry("CompleteAbort")
        return names(
            evidence(ended, release=release, version=version, coordinator_epoch=coordinator_epoch)
        )

    assert at("3.5") == ["KAFKA-14402", "KIP-890c", "KAFKA-12671"]
    assert at("3.5", coordinator_epoch=-1) == ["KAFKA-12671"]
    assert at("3.6") == at("3.9") == []
    assert at("4.1", version=2) == ["finding 11", "finding 9"]
    assert at("4.4", version=2) == [
        "finding 11",
        "finding 9",
        "finding 13, KAFKA-20734",
    ]
    assert at("4.4", 2, -1) == ["finding 13, KAFKA-20734"]
    assert at(None) == []


def test_without_verification_brokers_have_the_bugs_of_before() -> None:
    given = evidence(entry("CompleteAbort"), release="3.9")
    given.verifies = False
    assert names(given) == ["KAFKA-14402", "KIP-890c", "KAFKA-12671"]


def test_bugs_of_markers_that_are_not_sent() -> None:
    def at(release: str, version: int = 0) -> list[str]:
        late = entry("PrepareAbort", begun=30)
        return names(evidence(late, release=release, version=version, seen_ms=1))

    assert at("3.7") == ["KAFKA-16352", "finding 8"]
    assert at("3.9") == at("4.1", 1) == ["finding 8"]
    assert at("4.1", 2) == []


@pytest.mark.parametrize(
    ("release", "overdue"), [("3.5", []), ("4.1", ["finding 18"]), ("4.4", ["finding 18"])]
)
def test_what_is_in_time_has_no_bugs(release: str, overdue: list[str]) -> None:
    assert names(evidence(entry(begun=9), release=release)) == []
    assert names(evidence(entry(begun=21), release=release)) == overdue


def test_the_command_of_brokers_without_descriptions_names_the_coordinator_s_epoch() -> None:
    given = evidence(entry("CompleteAbort"), release="2.5", coordinator_epoch=-1)
    given.server, given.describes_producers = "b:1", False
    given.log_epochs = dict.fromkeys(range(50), 4)
    assert only(given).remedy == (
        "kafka-transactions.sh --bootstrap-server b:1 abort --topic orders --partition 0 "
        "--producer-id 7 --producer-epoch 3 --coordinator-epoch 4"
    )


def test_records_that_are_hidden_by_nothing_that_was_found_leave_doubt() -> None:
    given = Evidence("here", NOW, partitions=[Partition(ORDERS, 5, 9)])
    found = diagnose(given)
    assert (found.verdict, found.problems[0].cause) == (Verdict.UNKNOWN, "hidden-records")


def test_what_hangs_goes_before_what_is_not_known() -> None:
    given = evidence()
    given.problems.append(Problem("not-seen", "a topic"))
    assert diagnose(given).verdict is Verdict.HANGS
    assert diagnose(Evidence("here", NOW)).verdict is Verdict.HEALTHY


def test_the_metrics_have_kafka_s_names() -> None:
    told = prometheus(diagnose(evidence())).splitlines()
    assert "kafka_server_replicamanager_partitionswithlatetransactionscount 1" in told
    assert 'kafka_cluster_partition_laststableoffsetlag{topic="orders",partition="0"} 4' in told
    assert "epochfence_doctor_verdict 12" in told
    assert 'epochfence_doctor_transactions{cause="hanging",verdict="HANGS"} 1' in told
    named = [line.split()[2] for line in told if line.startswith("# TYPE")]
    assert len(named) == len(set(named))
    healthy: Diagnosis = diagnose(evidence(entry(begun=9)))
    assert "count 0" in prometheus(healthy)
    assert as_json(healthy)["transactions"][0]["entry"]["timeout_ms"] == 15 * MINUTE
