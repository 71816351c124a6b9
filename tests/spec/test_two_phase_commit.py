"""KIP-939: what holds of a transaction that outlives its client, and what each part is for."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions
from epochfence.spec.load import load_system

SYSTEM = load_system("transactions+two-phase-commit")
BOUNDS = {"largest_epoch": 6}


def run(constants: dict[str, int], *properties: str, without: tuple[str, ...] = ()) -> Result:
    instance = instantiate(
        SYSTEM, "trunk", {**BOUNDS, **constants}, switch_off=without, properties=properties or None
    )
    return check(ending_anywhere(instance))


@pytest.mark.slow(8)
def test_with_any_one_fault_everything_holds() -> None:
    kinds = ("losses", "crashes", "timeouts", "expiries", "failovers", "delays", "leader_changes")
    bounds = transactions(producers=2, faults=1, **dict.fromkeys(kinds, 1))
    result = run(bounds)
    assert result.verdict is Verdict.HOLDS, result.reason
    taken = {name for name, count in result.rows if count}
    assert {
        "producer.prepareTransaction/prepared",
        "producer.InitProducerIdResponse/the open transaction is kept",
        "transaction.EndTxn/end what is kept",
        "transaction.EndTxn/kept by another",
        "transaction.log append/commit completed, and the client's epoch with it",
        "transaction.log append/abort completed, and the client's epoch with it",
        "transaction.forceTerminateTransaction/fence the prepared transaction",
        "transaction.coordinator failover/the new partitions are in the log, and what is kept",
        "transaction.coordinator failover/no new record is in the log, and what is kept",
    } <= taken
    assert "transaction.transaction timeout/fence the open transaction" not in taken


@pytest.mark.slow(5)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("without", "name", "constants", "steps", "last"),
    [
        ("prepared_kept", "PreparedStands", {"producers": 2}, 16, "log append/abort decided"),
        ("two_phase_commit", "PreparedStands", {"faults": 1, "timeouts": 1}, 15,
         "log append/abort decided"),
        ("database_fences", "PreparedStands", {"producers": 2}, 19, "log append/abort decided"),
        ("kept_epoch_in_log", "OneLiveEpoch",
         {"producers": 2, "faults": 2, "crashes": 1, "failovers": 1}, 19,
         "InitProducerIdResponse/the open transaction is kept"),
    ],
)  # fmt: skip
def test_each_part_is_needed(
    without: str, name: str, constants: dict[str, int], steps: int, last: str
) -> None:
    result = run(transactions(**constants), name, without=(without,))
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    assert (len(result.trace.steps), result.trace.taken[-1]) == (steps, last)
    assert run(transactions(**constants), name).verdict is Verdict.HOLDS
