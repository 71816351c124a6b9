"""`reading+share`: a share group with read_committed, and what it needs from the broker."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Verdict
from epochfence.language import any_of, those, variable
from epochfence.spec.changes.proposals.share_group import (
    acquired,
    archived,
    available,
    batch,
    found,
    is_free,
    is_known,
    stored,
)
from epochfence.spec.reading import state as reading
from epochfence.tests.spec import test_reading
from epochfence.tests.spec.alterations import altered

SYSTEM = load_system("reading+share")
run = partial(test_reading.run, system=SYSTEM)
steps = test_reading.steps
ACQUIRED: Final = "share_partition.records are acquired"
_o, _t = variable("o", reading.OFFSET), variable("t", reading.TRANSACTION)


@pytest.mark.slow(1)
def test_no_aborted_record_is_delivered_and_no_committed_one_lost() -> None:
    result = run("4.4", {}, brief=False)
    assert (result.verdict, result.vacuous, result.unexplained) == (Verdict.HOLDS, [], [])


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("release", "off", "length"),
    [
        ("4.4", ("aborted_archived",), 7),
        ("4.4", ("share_isolation_level",), 5),
        ("4.0.1", (), 5),
    ],
)
def test_without_the_filter_an_aborted_record_is_delivered(
    release: str, off: tuple[str, ...], length: int
) -> None:
    assert steps(run(release, {}, "OnlyCommitted", off=off)) == length


FAULTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "NoneDropped",
        {
            "table": ACQUIRED,
            "row": "archive-aborted",
            "updates": {
                acquired: acquired,
                archived: archived | found,
                reading.dropped: reading.dropped
                | those(_t, any_of(batch, is_free & (batch.transaction == _t))),
            },
        },
    ),
    (
        "NoneLost",
        {
            "table": "share_partition.a record is released",
            "row": "release",
            "updates": {available: available},
        },
    ),
    (
        "AcknowledgedOnce",
        {
            "table": "store.another leader",
            "row": "rebuild-producer-state",
            "updates": {available: those(_o, any_of(stored, is_known & (stored.offset == _o)))},
        },
    ),
)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("broken", "fault"), FAULTS, ids=[name for name, _ in FAULTS])
def test_each_property_breaks_by_a_fault(broken: str, fault: dict[str, Any]) -> None:
    """All that is fetched with an aborted record is archived; a released record is forgotten; a new
    leader doesn't know what is acknowledged."""
    result = run("4.4", {}, broken, system=altered(SYSTEM, **fault))
    assert result.verdict is Verdict.BROKEN
