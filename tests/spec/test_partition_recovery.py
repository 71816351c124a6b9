"""What a leader forgets, and what holds all the same."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.language.types import Value
from epochfence.spec.leader import recovery
from epochfence.spec.properties.transactions.transactions import (
    PROPERTIES,
    not_fenced_by_itself,
    outcome_as_reported,
)
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.spec.leaders import BOUNDS, IDEMPOTENCE_ONLY, entry, leader

KNOWN, OPEN = entry(5, 0, 1, 2), entry(5, 0, 1, 2, opened=1)
UNKNOWN = entry(-1)
OTHERS = ("NOT_BEGUN",) * (BOUNDS["transactions"] - 2)
LOG = tuple(("DATA", 0, 5, False, 0, 0) for _ in range(3))


# Deleted records -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "before"),
    [(1, OPEN), (2, OPEN), (3, UNKNOWN)],
)
def test_before_24_producers_go_with_their_records(offset: int, before: Value) -> None:
    """KAFKA-7190. An open transaction goes with its producer. One that has a record left keeps all
    of its batches: ProducerStateEntry.removeBatchesOlderThan in 2.0 drops none."""
    for release, expected in (("2.0", before), ("2.5", OPEN), (NEWEST, OPEN)):
        one = leader(release, known=OPEN, log=LOG)
        assert one.stable() == 1
        assert one.does(recovery.delete_records, offset=offset) in (
            "forget-producers",
            "keep-producers",
        )
        assert one.entry() == expected
        assert one.stable() == (3 if expected == UNKNOWN else offset)
        assert len(one.log) == 3  # offsets stay what they are


def test_before_24_the_marker_of_a_forgotten_transaction_is_kept() -> None:
    """The next transaction's marker says nothing of the deleted records."""
    for release in ("2.0", "2.5"):
        one = leader(release, *IDEMPOTENCE_ONLY)
        assert one.produce(0, 0) == "written"
        assert one.does(recovery.delete_records, offset=1)
        assert [one.marker(0), one.marker(0)] == ["ended", "nothing"]
        one.put("producers", (UNKNOWN, UNKNOWN))
        one.state["producer.txn"] = (1,) * BOUNDS["producers"]
        assert one.produce(0, 0, txn=1) == "written"
        assert one.marker(0, "COMMIT") == "ended"
        assert one.log == ["DATA", "ABORT", "DATA", "COMMIT"]
        one.state["application.outcome"] = ("NOT_BEGUN", "COMMITTED", *OTHERS)
        assert one.holds(outcome_as_reported)


def test_what_is_deleted_has_no_outcome() -> None:
    line = ("DATA", 0, 0, False, 0, 0)
    log = (line, ("ABORT", 0, 0, False, 0, None))
    for start in (0, 1):
        one = leader("2.0", log=log, log_start_offset=start)
        one.state["application.outcome"] = ("COMMITTED", "NOT_BEGUN", *OTHERS)
        assert one.holds(outcome_as_reported) == (start == 1)


# All together ----------------------------------------------------------------------------------

SYSTEM = shipped("transactions")
FORGETTING = {"leader_changes": 1, "deletions": 1, "producer_expiries": 1}


LATE_FENCE = not_fenced_by_itself  # what it breaks with two faults is docs/findings.md, 8


def explored(release: str, *properties: str, on: tuple[str, ...] = (), **bounds: int) -> Result:
    """The transactions system with leaders that forget; no properties named: all others."""
    constants: Mapping[str, int] = {
        "partitions": 1,
        "transactions": 1,
        "faults": 2,
        **FORGETTING,
        **bounds,
    }
    chosen = properties or tuple(item.name for item in PROPERTIES if item is not LATE_FENCE)
    instance = instantiate(SYSTEM, release, constants, switch_on=on, properties=chosen)
    # a late end of a fence is a deadlock before version 2
    return checked(ending_anywhere(instance))


@pytest.mark.slow
@pytest.mark.long
def test_with_transactions_of_version_2_everything_holds() -> None:
    result = explored(NEWEST)
    assert result.verdict is Verdict.HOLDS, result.reason
    rows = {f"{table.name}/{row.id}" for table in recovery.TABLES for row in table.rows}
    taken = {name for name, count in result.rows if count}
    assert rows - taken == {"partition.records are deleted/forget-producers"}
    assert {name for name in taken if name.endswith("earlier-leader")} == {
        f"partition.{event}/earlier-leader"
        for event in (
            "AddPartitionsByLeaderResponse",
            "lost AddPartitionsByLeader",
            "lost AddPartitionsByLeaderResponse",
        )
    }


@pytest.mark.slow
@pytest.mark.long
def test_a_leader_that_forgets_with_the_record_takes_it_again() -> None:
    """KAFKA-7190. What it was sent is gone, and the producer's id with it."""
    result = explored("2.0", "NoDuplicate", producers=1)
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    rows = [step.row for step in result.trace.steps[-4:]]
    assert (rows[0], rows[-1]) == ("append", "append")
    assert set(rows[1:-1]) == {"requeued", "forget-producers"}
    for release, on in (("2.0", ("state_outlives_records",)), ("2.5", ())):
        assert explored(release, "NoDuplicate", on=on, producers=1).verdict is Verdict.HOLDS
