"""Calls in a callback of a batch: which wait for their own thread, by release."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere

SYSTEM = load_system("calls+callbacks")
CONSTANTS = {"oldest_transaction_version": 2}


def run(release: str, name: str, *, gets: int, on: tuple[str, ...] = ()) -> Result:
    """The verdict about one property."""
    instance = instantiate(
        SYSTEM, release, {**CONSTANTS, "gets_in_callback": gets}, bounds="small",
        switch_on=("failed_send_leaves_end", *on), properties=[name],
    )  # fmt: skip
    return check(ending_anywhere(instance))


@pytest.mark.slow(20)
@pytest.mark.parametrize(
    ("release", "gets", "on", "row"),
    [
        ("4.0.1", 0, (), "flush-waits"),
        ("4.0.1", 0, ("flush_refused_in_callback",), None),  # KAFKA-10790
        ("4.1", 0, (), None),
        ("4.1", 1, (), "get-waits"),
    ],
)
def test_a_call_that_never_ends(
    release: str, gets: int, on: tuple[str, ...], row: str | None
) -> None:
    found = run(release, "ClientCallEnds", gets=gets, on=on)
    if row is None:
        assert found.verdict is Verdict.HOLDS
        return
    assert found.verdict is Verdict.LEADS_TO_BROKEN
    assert found.trace is not None
    *steps, repeated = found.trace.steps
    assert len(steps) == 15
    assert [step.row for step in steps[-2:]] == ["begin-commit", row]
    assert repeated.changes == ()


@pytest.mark.slow(5)
def test_a_refused_flush_leaves_the_client_as_it_was() -> None:
    found = run("4.1", "AllowedTransitions", gets=0)
    assert found.verdict is Verdict.HOLDS
    taken = {row for row, count in found.rows if count}
    assert "producer.onCompletion/flush-refused" in taken
    assert "producer.onCompletion/flush-waits" not in taken
