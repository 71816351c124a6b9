"""Refinement checks: they find a reduction that changes the behaviour."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epochfence.checker.refinement import projected, refine
from epochfence.language import (
    Change,
    DeclarationError,
    Int,
    Machine,
    Row,
    System,
    Table,
    event,
    record,
)
from epochfence.language.instances.reductions import (
    Canonical,
    LeftOut,
    Never,
    NotOffered,
    Reduction,
    Settled,
    StandsFor,
)
from epochfence.language.types import Optional, Sequence
from epochfence.tests.language.test_reductions import (
    REDUCTIONS,
    Batch,
    Reply,
    Status,
    end_offset,
    has_room,
    system,
)

COMPARED = [one for one in REDUCTIONS if not (isinstance(one, LeftOut) and one.of is Reply)]
"""The system has no channel for replies to a caller."""


@pytest.mark.parametrize("reduction", COMPARED, ids=lambda one: type(one).__name__)
def test_reductions_of_a_small_log_refine_it(reduction: Reduction) -> None:
    found = refine(system(*REDUCTIONS), reduction)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.steps > 20


REASON: dict[str, Any] = {"because": "the test says so"}
tick = event("tick")
counter = Machine("counter")
count = counter.field("count", Int(0, 3))
is_even = counter.field("is_even", Int(0, 1))
ticked = Table(
    counter,
    on=tick,
    when=count < 3,
    rows=(
        Row("odd", when=is_even == 1, set={count: count + 1, is_even: 0}),
        Row("even", set={count: count + 1, is_even: 1}),
    ),
)


def counting(*reductions: Reduction) -> System:
    return System("counting", (ticked,), (), terminal=True, reductions=reductions)


@pytest.mark.parametrize(
    ("reduction", "only"),
    [
        # The rows of both values are the same but for their names: nothing is lost.
        (StandsFor(is_even, 0, **REASON), None),
        (LeftOut(is_even, **REASON), None),
        (Canonical(count, 0, count == 2, **REASON), "whole"),
        (NotOffered(counter, tick, count == 2, **REASON), None),
        (Never("counter.tick/odd", **REASON), "reduced"),
        (StandsFor(count < 3, count < 2, **REASON), "whole"),
        (StandsFor(count < 3, count < 4, **REASON), "reduced"),
    ],
)
def test_a_reduction_that_changes_the_behaviour_is_found(
    reduction: Reduction, only: str | None
) -> None:
    if isinstance(reduction, LeftOut):
        with pytest.raises(DeclarationError, match="left out of counting"):
            counting(reduction)
        return
    found = refine(counting(reduction), reduction)
    if only is None:
        assert found.mismatch is None
    else:
        assert str(found.mismatch).startswith(f"only the {only} system has counter.tick")


def test_a_run_before_the_mismatch_is_shown() -> None:
    reduction = StandsFor(count < 3, count < 2, **REASON)
    found = refine(counting(reduction), reduction)
    assert str(found.mismatch) == (
        "only the whole system has counter.tick/even after counter.tick/even, counter.tick/odd"
    )
    assert not found.exhaustive


@pytest.mark.parametrize(
    ("reduction", "taken", "untaken"),
    [
        (StandsFor(is_even, 0, **REASON), {"odd", "even"}, set[str]()),
        (StandsFor(count < 3, count < 2, **REASON), {"odd", "even"}, set[str]()),
        (Never("counter.tick/odd", **REASON), {"odd"}, set[str]()),
        # only a step that the restriction leaves out counts
        (NotOffered(counter, tick, count == 2, **REASON), {"even"}, {"odd"}),
        (
            NotOffered(counter, tick, (count == 0) & (is_even == 1), **REASON),
            set[str](),
            {"odd", "even"},
        ),
    ],
)
def test_rows_that_a_reduction_changes_are_taken_or_not(
    reduction: Reduction, taken: set[str], untaken: set[str]
) -> None:
    found = refine(counting(reduction), reduction)
    assert found.taken == {f"counter.tick/{row}" for row in taken}
    assert found.untaken == {f"counter.tick/{row}" for row in untaken}


def test_a_reduction_of_another_system_is_refused() -> None:
    with pytest.raises(DeclarationError, match="logs doesn't have this reduction"):
        refine(system(*REDUCTIONS), StandsFor(has_room, True, **REASON))


def test_a_system_changed_after_its_reductions_is_refused() -> None:
    """The whole system would be one without the change, and differ for that alone."""
    small = system(*REDUCTIONS)
    assert refine(replace(small, name="again"), REDUCTIONS[0]).mismatch is None
    finish = Change("busy", "It waits.").table("log.finish")
    for change in (finish.only_when(has_room), finish.also("done", set={end_offset: 1})):
        with pytest.raises(DeclarationError, match=r"logs\+busy was changed after its reductions"):
            refine(small + change, REDUCTIONS[0])


def test_values_are_projected_by_their_types() -> None:
    small = record("Batch", status=Status)
    assert projected((("DONE", 1),), Sequence(Batch, 2), Sequence(small, 2), {}) == (("DONE",),)
    assert projected(None, Optional(Batch), Optional(small), {}) is None


def counters(settled: Settled) -> System:
    """A counter whose parity nobody reads once it has reached its end."""
    rows = (
        Row("end", when=count == 2, set={count: 3}),
        Row("next", set={count: count + 1, is_even: 1 - is_even}),
    )
    table = Table(counter, on=tick, when=count < 3, rows=rows)
    return System("ends", (table,), (), terminal=True, reductions=(settled,))


def test_fields_that_nobody_reads_are_settled() -> None:
    found = refine(counters(fine := Settled({is_even: 0}, when=count == 3, **REASON)), fine)
    assert (found.mismatch, found.exhaustive) == (None, True)
    early = Settled({is_even: 0}, when=count >= 1, **REASON)
    found = refine(counters(early), early)
    assert found.mismatch is not None  # not every row that leads there says so
