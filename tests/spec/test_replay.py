"""A coordinator's memory is a replay of its log: `MemoryIsReplay` in three systems."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs import bug_of
from epochfence.spec.bugs.bug import transactions

ONE_ROTATION = {
    **transactions(transactions=2, faults=1, failovers=1, producer_ids=2),
    "largest_epoch": 2,
}


def run(
    name: str,
    release: str,
    constants: dict[str, int],
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
) -> Result:
    """The verdict about MemoryIsReplay alone."""
    return check(
        ending_anywhere(
            instantiate(
                load_system(name), release, constants, switch_on=on, switch_off=off,
                properties=["MemoryIsReplay"],
            )
        )
    )  # fmt: skip


def length(result: Result) -> int:
    """The steps of the counterexample; 0 where the property holds."""
    assert result.verdict in (Verdict.HOLDS, Verdict.BROKEN)
    return 0 if result.trace is None else len(result.trace.steps)


@pytest.mark.parametrize(
    ("release", "on", "steps"),
    [
        ("3.8", (), 7),  # KAFKA-17507
        ("3.8", ("offsets_in_place_first",), 0),
        ("3.9", (), 0),
        ("4.3", (), 7),  # KAFKA-20634
        ("4.4", (), 0),
    ],
)
def test_the_offsets_of_a_group(release: str, on: tuple[str, ...], steps: int) -> None:
    constants = {"offset_records": 3, "refusals": 0, "group_failovers": 1}
    assert length(run("group-offsets", release, constants, on)) == steps


@pytest.mark.slow(1)
def test_an_offset_that_is_pending_while_the_coordinator_is_asked() -> None:
    """KAFKA-15784: `exactly-once` has that coordinator, and its property is OffsetsFromLog."""
    bug = bug_of("KAFKA-15784")
    for off, steps in ((bug.fix, 13), ((), 0)):
        instance = instantiate(
            bug.declared,
            bug.fixed_at,
            bug.constants,
            switch_off=off,
            switch_on=("offsets_in_place_first",),  # KAFKA-17507
            properties=["OffsetsFromLog"],
        )
        assert length(check(ending_anywhere(instance))) == steps


@pytest.mark.parametrize(
    ("release", "off", "steps"),
    [
        ("4.0.0", (), 6),
        ("4.0.1", ("open_transaction_keeps_group",), 6),  # KAFKA-19163
        ("4.0.1", ("tombstone_ends_open",), 6),  # KAFKA-19164
        ("4.0.1", (), 0),
        ("4.4", (), 0),
    ],
)
def test_offsets_and_groups_that_are_removed(
    release: str, off: tuple[str, ...], steps: int
) -> None:
    constants = {"producer_ids": 1, "refusals": 0, "group_failovers": 1}
    assert length(run("group-offsets+removal", release, constants, off=off)) == steps


@pytest.mark.slow(3)
def test_every_row_of_a_removal_is_taken() -> None:
    system = load_system("group-offsets+removal")
    constants = {"producer_ids": 1, "offset_records": 4, "refusals": 0, "group_failovers": 1}
    found = check(instantiate(system, "4.4", constants))
    assert found.verdict is Verdict.HOLDS
    assert found.unexplained == []


@pytest.mark.parametrize(
    ("release", "on", "off", "steps"),
    [
        ("4.2", ("last_epoch_in_log",), (), 4),  # KAFKA-20310
        ("4.4", (), (), 15),  # KAFKA-20357
        ("4.4", ("last_epoch_in_log",), (), 0),
        ("4.4", ("last_epoch_in_log",), ("rotation_in_log",), 4),
    ],
)
def test_the_entry_of_a_transactional_id(
    release: str, on: tuple[str, ...], off: tuple[str, ...], steps: int
) -> None:
    assert length(run("transactions+replay", release, ONE_ROTATION, on, off)) == steps
