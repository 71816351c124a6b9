"""All replicas of the in-sync set against a majority: the runs that separate them."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Change, DeclarationError, System, instantiate
from epochfence.spec.changes.replicas.majority import majority_is_enough, survivor_leads
from epochfence.spec.properties.partitions.replication import PROPERTIES
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.spec.test_batch_split import rows

SYSTEM = load_system("replication+majority")
SAFETY = tuple(item.name for item in PROPERTIES)
SURVIVOR, ENOUGH = survivor_leads.name, majority_is_enough.name
MAJORITY = ("all_in_sync",)
TWO_CRASHES = {"crashes": 2, "min_insync_replicas": 1}


def run(
    *properties: str,
    off: tuple[str, ...] = (),
    constants: dict[str, int] | None = None,
    system: System = SYSTEM,
) -> Result:
    """The verdict about these properties."""
    instance = instantiate(
        system, NEWEST, constants or {}, switch_off=off, properties=list(properties)
    )
    return check(instance, Options(threads=available_threads(), brief=True))


@pytest.mark.slow(4)
def test_one_survivor_is_enough_for_the_in_sync_set_alone() -> None:
    assert run(SURVIVOR, constants=TWO_CRASHES).verdict is Verdict.HOLDS
    found = run(SURVIVOR, constants=TWO_CRASHES, off=MAJORITY)
    assert rows(found) == ["first-leader", "crash", "crash"]
    # 2n+1 replicas survive n crashes
    one = {"crashes": 1, "min_insync_replicas": 1}
    assert run(SURVIVOR, constants=one, off=MAJORITY).verdict is Verdict.HOLDS
    # and 2n don't
    found = run(SURVIVOR, constants={**one, "replicas": 2}, off=MAJORITY)
    assert rows(found) == ["first-leader", "crash"]
    assert run(SURVIVOR, constants={**one, "replicas": 2}).verdict is Verdict.HOLDS


@pytest.mark.slow(3)
def test_a_slow_replica_holds_up_the_in_sync_set_alone() -> None:
    assert len(rows(run(ENOUGH))) == 7
    assert run(ENOUGH, off=MAJORITY).verdict is Verdict.HOLDS


@pytest.mark.slow(4)
def test_a_majority_loses_nothing() -> None:
    found = run(*SAFETY, off=MAJORITY, constants=TWO_CRASHES)
    assert found.verdict is Verdict.HOLDS
    assert {"append-for-majority", "append-of-majority", "lead-majority", "most-vote"} <= {
        row.rpartition("/")[2] for row, count in found.rows if count
    }


def test_a_vote_for_an_older_log_loses_an_acknowledged_record() -> None:
    hasty = SYSTEM + Change("hasty", "A voter compares no logs.").table(
        "registration.vote"
    ).without("log-is-older")
    found = run("AcknowledgedKept", off=MAJORITY, system=hasty)
    assert "most-vote" in rows(found)


def test_five_replicas_are_refused() -> None:
    with pytest.raises(DeclarationError, match="a vote has two voters"):
        run(SURVIVOR, off=MAJORITY, constants={"replicas": 5})
