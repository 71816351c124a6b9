"""transaction.version that changes within a run: what holds then, and what doesn't."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions
from epochfence.spec.systems import shipped

SYSTEM = load_system("transactions+upgrade")
DOWN = {"first_transaction_version": 2}
MENDED = ("last_epoch_in_log", "late_fence_end_refused")
"""What mends the faults of version 1 that come without a change."""


def run(
    constants: dict[str, int],
    properties: tuple[str, ...] | None = None,
    switch_on: tuple[str, ...] = MENDED,
    release: str = "4.3",
) -> Result:
    instance = instantiate(SYSTEM, release, constants, properties=properties, switch_on=switch_on)
    return check(ending_anywhere(instance), Options(brief=True))


def broken(result: Result) -> dict[str, int | None]:
    return {item.name: item.trace_length for item in result.properties if item.verdict == "broken"}


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize("release", ["3.9", "4.3"])
def test_with_one_version_throughout_it_is_the_system_of_that_version(release: str) -> None:
    bounds = transactions(producers=2)
    for version, off in ((2, ()), (1, ("transaction_version_2",))):
        still = {**bounds, "version_changes": 0, "first_transaction_version": version}
        names = [item.name for item in shipped("transactions").properties]
        plain = instantiate(shipped("transactions"), release, bounds, switch_off=off)
        changing = instantiate(SYSTEM, release, still, properties=names)
        one, other = (
            check(ending_anywhere(plain), Options(brief=True)),
            check(ending_anywhere(changing), Options(brief=True)),
        )
        assert (one.verdict, broken(one)) == (other.verdict, broken(other))
        taken = {name for name, count in other.rows if count}
        assert {name.removesuffix("-version-1") for name in taken} == {
            name for name, count in one.rows if count
        }


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("constants", [{}, DOWN])
@pytest.mark.parametrize("release", ["4.0.1", "4.3"])
def test_a_change_by_itself_breaks_nothing(constants: dict[str, int], release: str) -> None:
    result = run(transactions(transactions=2, **constants), release=release)
    assert result.verdict is Verdict.HOLDS, result.reason


@pytest.mark.slow(1)
def test_where_parties_hear_of_it_in_any_order_both_versions_are_in_use() -> None:
    result = run(transactions(transactions=2))
    taken = {name for name, count in result.rows if count}
    assert {"transaction.EndTxn/prepare", "transaction.EndTxn/prepare-version-1"} <= taken
    assert {
        "metadata_cache.metadata update/known",
        "producer.ApiVersions answered/known",
        "cluster.transaction version changes/finalized",
        "producer.commitTransaction/nothing-to-commit",
        "transaction.InitProducerId/bump",
    } <= taken


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "constants", "steps", "last", "mended_by"),
    [
        # docs/findings.md, 9
        ("NotFencedByItself", {"expiries": 1, "early_ends": 1}, 13,
         "EndTxnResponse/fatal", "downgrade_waits"),
        ("NoHangingTransaction", {"expiries": 1, "early_ends": 1}, 21,
         "AddPartitionsByLeaderResponse/append", "downgrade_waits"),
        # 10
        ("ReservedEpoch", {"timeouts": 1, "largest_epoch": 2}, 40,
         "EndTxnResponse/ended-new-epoch", "fence_by_entry"),
        # 18
        ("PendingIsWritten", {"oldest_transaction_version": 0}, 10,
         "AddPartitionsByLeader/add", "version_in_log_if_known"),
        # 11
        ("NoHangingTransaction", {"faults": 2, "crashes": 1, "expiries": 1}, 33,
         "AddPartitionsByLeaderResponse/append", "newest_question_counts"),
    ],
)  # fmt: skip
def test_a_downgrade_breaks_what_each_version_keeps(
    name: str, constants: dict[str, int], steps: int, last: str, mended_by: str
) -> None:
    bounds = transactions(transactions=2, **{"faults": 1, **constants}, **DOWN)
    result = run(bounds, (name,))
    assert broken(result) == {name: steps}
    assert result.trace is not None
    assert last in result.trace.taken[-2:]  # what the coordinator hears may come after it
    assert "transaction version changes/finalized" in result.trace.taken
    assert run(bounds, (name,), (*MENDED, mended_by)).verdict is Verdict.HOLDS
    for version in (1, 2):
        still = {**bounds, "version_changes": 0, "first_transaction_version": version}
        assert run(still, (name,)).verdict is Verdict.HOLDS


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_fenced_client_of_version_2_takes_the_end_of_another_for_its_own() -> None:
    """docs/findings.md, 12: no fault, in an upgrade as in a downgrade."""
    for constants in ({}, DOWN):
        bounds = transactions(producers=2, transactions=2, **constants)
        assert broken(run(bounds, ("OneLiveEpoch",))) == {"OneLiveEpoch": 30}
        result = run(bounds, ("OneLiveEpoch",), (*MENDED, "retry_by_entry"))
        assert result.verdict is Verdict.HOLDS


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_fence_that_goes_over_to_version_2_takes_two_epochs() -> None:
    """docs/findings.md, 10: its first record could not be written."""
    bounds = transactions(faults=2, crashes=1, append_failures=1)
    result = run(bounds, ("OneEpochForADecision",))
    assert broken(result) == {"OneEpochForADecision": 19}
    assert run(bounds, ("OneEpochForADecision",), (*MENDED, "fence_by_entry")).trace is None
