"""`checkpointed-sink`: Flink's KafkaSink with pooled ids, and what a restore must abort."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Change, System, instantiate

SYSTEM = load_system("checkpointed-sink")
PROPERTIES = ("OpenIsOwned", "PrecommittedStays", "CommitsItsOwn")


def run(system: System = SYSTEM, name: str = "OpenIsOwned", **constants: int) -> Result:
    return check(instantiate(system, "4.4", constants, properties=[name]))


@pytest.mark.parametrize("name", PROPERTIES)
def test_each_transaction_has_an_owner_until_its_end(name: str) -> None:
    found = run(name=name, restores=2)
    assert found.verdict is Verdict.HOLDS
    assert [row for row, count in found.rows if not count] == []


@pytest.mark.parametrize("ids", [1, 2, 3])
def test_a_restored_job_leaves_a_later_transaction_of_its_id(ids: int) -> None:
    """FLINK-40626"""
    instance = instantiate(
        SYSTEM,
        "4.4",
        {"pooled_ids": ids},
        switch_off=("superseded_aborted",),
        properties=["OpenIsOwned"],
    )
    found = check(instance)
    assert found.verdict is Verdict.BROKEN
    assert found.trace is not None
    assert [step.row for step in found.trace.steps] == [
        "open",
        "precommit",
        "complete",
        "committed",
        "open",
        "restore",
    ]


def test_a_commit_of_an_older_epoch_ends_nothing() -> None:
    """FLINK-8132: a restored commit took the records of a later transaction along."""
    change = Change("unfenced", "").table("sink.commit").without("fenced")
    for system, verdict in ((SYSTEM, Verdict.HOLDS), (SYSTEM + change, Verdict.BROKEN)):
        instance = instantiate(
            system, "4.4", {}, switch_off=("superseded_aborted",), properties=["CommitsItsOwn"]
        )
        assert check(instance).verdict is verdict
