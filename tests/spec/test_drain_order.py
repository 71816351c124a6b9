"""The order in which a client drains partitions: what waits for ever, and what fits a request."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Change, System, instantiate

SYSTEM = load_system("drain-order")


def without(row: str) -> System:
    """The system without a row of its loop."""
    change = Change(f"without-{row}", "A row is left out.")
    return SYSTEM + change.table("accumulator.visit").without(row)


def run(release: str, name: str, system: System = SYSTEM, **constants: int) -> Result:
    """The verdict about one property."""
    return check(instantiate(system, release, constants, properties=[name]))


@pytest.mark.parametrize(
    ("release", "holds"),
    [("1.0.2", True), ("2.0", True), ("2.1", False), ("3.2", False), ("3.3", True), ("4.4", True)],
)
def test_a_partition_waits_for_ever_from_2_1_to_3_2(release: str, holds: bool) -> None:
    found = run(release, "EachIsDrained")
    assert (found.verdict is Verdict.HOLDS) is holds
    if not holds:
        assert found.verdict is Verdict.LEADS_TO_BROKEN
        assert found.trace is not None
        assert [step.row for step in found.trace.steps][2:] == [
            "append",
            "drain",
            "full",
            "send",
            "begin",
        ]


def test_the_index_of_3_3_mends_it() -> None:
    instance = instantiate(
        SYSTEM, "3.2", {}, switch_on=("drain_index_kept",), properties=["EachIsDrained"]
    )
    assert check(instance).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("row", "name"),
    [("empty", "BatchesHaveRecords"), ("full", "WithinRequest"), ("drain", "EachIsDrained")],
)
def test_a_property_needs_the_row(row: str, name: str) -> None:
    assert run("4.4", name).verdict is Verdict.HOLDS
    assert run("4.4", name, without(row)).verdict in (Verdict.BROKEN, Verdict.LEADS_TO_BROKEN)


def test_every_row_is_taken() -> None:
    found = run("4.4", "WithinRequest", partitions=3, max_request_size=2, largest_batch=3)
    assert [row for row, count in found.rows if not count] == []
