"""A sequence below the next one as a duplicate: acknowledged records that aren't in the log."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate

SYSTEM = load_system("idempotence+below-next")
MENDED = ("idempotent_starts_at_0", "bump_when_settled", "renumbered_under_new_id")


def run(
    release: str,
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = ("remembered_alone",),
) -> Result:
    """The verdict about NoLostAcknowledgement."""
    instance = instantiate(
        SYSTEM, release, bounds="small", switch_on=on, switch_off=off,
        properties=["NoLostAcknowledgement"],
    )  # fmt: skip
    return check(instance, Options(threads=available_threads(), brief=True))


@pytest.mark.slow(1)
def test_an_acknowledged_record_is_lost() -> None:
    found = run("4.4")
    assert found.verdict is Verdict.BROKEN
    assert found.trace is not None
    rows = [step.row for step in found.trace.steps]
    assert len(rows) == 8
    assert rows[-2:] == ["below-next", "acknowledged"]


@pytest.mark.slow(1)
def test_none_is_lost_where_the_leader_remembers_the_batch() -> None:
    assert run("4.4", off=()).verdict is Verdict.HOLDS


@pytest.mark.slow(1)
def test_none_is_lost_where_an_unknown_producer_starts_at_0() -> None:
    assert run("4.4", MENDED).verdict is Verdict.HOLDS
    assert run("4.4", MENDED[:1]).verdict is Verdict.HOLDS
