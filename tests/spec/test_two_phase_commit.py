"""KIP-939: what holds of a transaction that outlives its client, and what each part is for."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import System, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions
from epochfence.spec.coordinator.entry import ONGOING, pending, state
from epochfence.tests.spec.alterations import altered

SYSTEM = load_system("transactions+two-phase-commit")
BOUNDS = {"largest_epoch": 6}
KINDS = (
    "losses", "crashes", "timeouts", "expiries", "failovers", "delays", "leader_changes",
    "append_failures",
)  # fmt: skip


def run(
    constants: dict[str, int],
    *properties: str,
    without: tuple[str, ...] = (),
    system: System = SYSTEM,
) -> Result:
    instance = instantiate(
        system, "trunk", {**BOUNDS, **constants}, switch_off=without, properties=properties or None
    )
    return check(ending_anywhere(instance), Options(brief=True))


@pytest.mark.slow(8)
@pytest.mark.long
def test_with_any_one_fault_everything_holds() -> None:
    result = run(transactions(producers=2, faults=1, **dict.fromkeys(KINDS, 1)))
    assert result.verdict is Verdict.HOLDS, result.reason
    taken = {name for name, count in result.rows if count}
    assert {
        "producer.prepareTransaction/prepared",
        "producer.InitProducerIdResponse/transaction-kept",
        "transaction.EndTxn/kept-ended",
        "transaction.EndTxn/kept-by-other",
        "transaction.log append/kept-commit-completed",
        "transaction.log append/kept-abort-completed",
        "transaction.forceTerminateTransaction/fenced",
        "transaction.append failure/record-lost",
        "transaction.coordinator failover/partitions-in-log",
        "transaction.coordinator failover/no-new-record",
    } <= taken
    assert "transaction.transaction timeout/fence" not in taken


USED_UP = {"producers": 2, "faults": 1, "largest_epoch": 2}
"""The first epoch but one is the last of clients."""


@pytest.mark.slow(8)
@pytest.mark.long
def test_where_epochs_are_used_up_a_transaction_is_kept_under_a_new_producer_id() -> None:
    taken = set[str]()
    for ids in (3, 1):
        bounds = transactions(**USED_UP, producer_ids=ids, **dict.fromkeys(KINDS, 1))
        result = run(bounds)
        assert result.verdict is Verdict.HOLDS, result.reason
        taken |= {name for name, count in result.rows if count}
    assert {
        "transaction.InitProducerId/kept",
        "transaction.InitProducerId/kept-under-new-id",
        "transaction.InitProducerId/no-id-to-keep-it-under",
        "transaction.EndTxn/no-id-to-end-kept",
        "transaction.continue the fence/kept-aborted",
        "transaction.continue the fence/no-id-to-abort-kept",
    } <= taken


KEPT_TOO_LONG = altered(
    SYSTEM,
    table="transaction.InitProducerId",
    row="kept",
    when=(state == ONGOING) & ~pending.is_set,
)


@pytest.mark.slow(3)
def test_without_a_new_producer_id_a_client_gets_the_largest_epoch() -> None:
    bounds = transactions(**USED_UP, producer_ids=3, crashes=1)
    result = run(bounds, "ReservedEpoch", system=KEPT_TOO_LONG)
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    last = "InitProducerIdResponse/transaction-kept"
    assert result.trace.taken[-1] == last


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize(
    ("without", "name", "constants", "steps", "last"),
    [
        ("prepared_kept", "PreparedStands", {"producers": 2}, 16, "log append/abort-prepared"),
        ("two_phase_commit", "PreparedStands", {"faults": 1, "timeouts": 1}, 15,
         "log append/abort-prepared"),
        ("database_fences", "PreparedStands", {"producers": 2}, 19, "log append/abort-prepared"),
        ("kept_epoch_in_log", "OneLiveEpoch",
         {"producers": 2, "faults": 2, "crashes": 1, "failovers": 1}, 19,
         "InitProducerIdResponse/transaction-kept"),
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


@pytest.mark.slow(2)
@pytest.mark.parametrize(("other", "steps"), [((), None), (("kept_under_own_epoch",), 12)])
def test_an_epoch_that_is_kept_as_it_is_has_two_instances(
    other: tuple[str, ...], steps: int | None
) -> None:
    """Pull request 22704, and 21735, without a fault."""
    bounds = {**BOUNDS, **transactions(producers=2, partitions=1)}
    instance = instantiate(SYSTEM, "trunk", bounds, switch_on=other, properties=("OneLiveEpoch",))
    result = check(ending_anywhere(instance), Options(brief=True))
    assert [each.trace_length for each in result.properties] == [steps]
    if result.trace is not None:
        assert "InitProducerId/kept-under-own-epoch" in result.trace.taken
