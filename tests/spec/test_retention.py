"""`reading+retention`: how long the log cleaner keeps markers and tombstones."""

from __future__ import annotations

from functools import partial

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Row, keep
from epochfence.spec.changes.brokers.retention import due, late, removable
from epochfence.spec.leader.state import Kind
from epochfence.spec.reading.partition import entry, is_clean
from epochfence.spec.reading.state import log
from epochfence.tests.spec import test_reading
from epochfence.tests.spec.alterations import altered

SYSTEM = load_system("reading+retention")
CLEAN = "store.clean"
CLEANED = "remove-obsolete-and-overdue"
TWO = {"producer_ids": 2, "cleanings": 2}
TOMBSTONE = {"tombstones": 1, "entries": 3, "segment": 2, "cleanings": 2}


run = partial(test_reading.run, system=SYSTEM)
steps = test_reading.steps


@pytest.mark.slow(4)
def test_it_holds_from_3_1_on_and_every_row_is_taken() -> None:
    result = run("4.3", {"tombstones": 1}, brief=False)
    assert (result.verdict, result.vacuous, result.unexplained) == (Verdict.HOLDS, [], [])


@pytest.mark.slow(6)
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "off"), [("3.0", ()), ("3.3", ("delete_horizon",)), ("3.3", ())]
)
@pytest.mark.parametrize(
    ("broken", "constants", "length"),
    [
        ("MarkerInTime", TWO, 12),
        ("TombstoneInTime", TOMBSTONE, 10),
        ("NotForEver", {"segment": 0}, 8),
    ],
)
def test_before_kip_534_what_is_kept_goes_too_early_or_never(
    broken: str, constants: dict[str, int], length: int, release: str, off: tuple[str, ...]
) -> None:
    found = run(release, constants, broken, off=off)
    if release == "3.3" and not off:
        assert found.verdict is Verdict.HOLDS
    else:
        assert steps(found) == length


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "constants", "length"),
    [("MarkerInTime", {}, 9), ("TombstoneInTime", {"tombstones": 1, "entries": 3}, 10)],
)
def test_who_is_late_misses_markers_and_tombstones(
    broken: str, constants: dict[str, int], length: int
) -> None:
    """As long as nobody asks who is late: what a slow reader gets to see in any release."""
    unasked = altered(
        SYSTEM,
        table="retention.delete.retention.ms passes",
        row="horizons-pass",
        updates={late: False},
    )
    assert steps(run("4.3", constants, broken, system=unasked)) == length


@pytest.mark.slow(1)
def test_a_horizon_that_is_over_at_once_is_seen() -> None:
    at_once = altered(SYSTEM, table=CLEAN, row=CLEANED, updates={due: row().set[removable]})
    assert steps(run("4.3", {}, "MarkerInTime", system=at_once)) == 8


def test_a_marker_that_goes_before_its_records_is_seen() -> None:
    """Their leader has their transaction open for ever, once it has read the log."""
    no_marker = keep(entry, ~is_clean | (entry.kind == Kind.DATA))
    early = altered(SYSTEM, table=CLEAN, row=CLEANED, updates={log: no_marker})
    assert steps(run("4.3", {}, "NoOpenRange", system=early)) == 6


def row() -> Row:
    """The row in which the cleaner removes something."""
    (table,) = (table for table in SYSTEM.tables if table.name == CLEAN)
    return table.rows[0]
