"""Finding 13, in the rows: what the next transaction does to one whose marker was dropped."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere

SYSTEM = load_system("transactions+leaderless")


def run(release: str, *names: str) -> Result:
    """The verdict where nothing else happens than that a partition has no leader."""
    instance = instantiate(SYSTEM, release, {"faults": 0}, properties=names or None)
    return check(ending_anywhere(instance) if names else instance)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("NoHangingTransaction", 16), ("OutcomeAsReported", 30), ("NoLostAcknowledgement", 30)],
)
def test_the_dropped_marker_breaks(name: str, steps: int) -> None:
    found = run("4.3", name)
    assert found.verdict is Verdict.BROKEN
    assert found.trace is not None
    rows = [step.row for step in found.trace.steps]
    assert len(rows) == steps
    assert "drop" in rows


def test_a_coordinator_that_asks_again_keeps_every_property() -> None:
    found = run("4.2")
    assert found.verdict is Verdict.HOLDS
    assert dict(found.rows)["transaction.no leader/ask-again"]
    assert not dict(found.rows).get("transaction.no leader/drop")
