"""Properties that read one part of a state are looked at once for each content of it, and what
breaks one is found as it is without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.native.jit.memory import fair_limit
from epochfence.checker.native.search import explore
from epochfence.checker.native.search.explore import Explorer, search
from epochfence.checker.native.store.parts import GROUPS, USED, WORDS, Parts
from epochfence.checker.prepare import prepare
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Instance,
    Int,
    Machine,
    Row,
    System,
    Table,
    event,
    instantiate,
    invariant,
)
from epochfence.tests.checker.native.grouping import by_parts

WIDE = Int(0, (1 << 40) - 1, "far more than a run counts")
MOST = 30


def two_counters(
    left_below: int, right_below: int, both_below: int = 1 << 20, *, in_one: bool = False
) -> Instance:
    """Two counters, each in a word of its own, with a property of each and one of both; or with all
    of these `in_one`."""
    machine = Machine("counters")
    left, right = (machine.field(name, WIDE) for name in ("left", "right"))

    def counts(name: str, counter: Any) -> Table:
        row = Row(f"{name} counts", when=counter < MOST, set={counter: counter + 1})
        return Table(machine, event(name), (row,))

    small = left < left_below, right < right_below, left + right < both_below
    properties = (
        invariant("LeftSmall", small[0], "The left one is small."),
        invariant("RightSmall", small[1], "The right one is small."),
        invariant("BothSmall", small[2], "Both together are small."),
    )
    if in_one:
        properties = (invariant("Small", small[0] & small[1] & small[2], "All are small."),)
    return instantiate(
        System(
            name="two counters",
            tables=(counts("Left", left), counts("Right", right)),
            properties=properties,
            terminal=True,
        )
    )


@pytest.fixture(name="by_parts")
def kept_by_parts() -> Iterator[list[Parts]]:
    """The parts that searches make."""
    with by_parts() as made:
        yield made


def found(instance: Instance, **options: Any) -> tuple[Any, ...]:
    """All that must be the same, in whichever way properties are looked at."""
    result = check(instance, Options(**options))
    trace = result.trace and result.trace.as_json()
    return (
        result.verdict, result.states, result.transitions, result.depth, result.rows,
        result.properties, result.vacuous, trace,
    )  # fmt: skip


BOUNDS = [(MOST, MOST + 1, 99), (MOST + 1, 25, 99), (25, 25, 99), (9, 3, 40), (99, 99, 41)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keep_going", [False, True])
@pytest.mark.parametrize("in_one", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_what_breaks_late_is_found_as_in_whole_states(
    bounds: tuple[int, int, int],
    in_one: bool,
    keep_going: bool,
    threads: int,
    request: pytest.FixtureRequest,
) -> None:
    system = two_counters(*bounds, in_one=in_one)
    whole = found(system, keep_going=keep_going)
    assert whole[0] is Verdict.BROKEN
    made = request.getfixturevalue("by_parts")
    assert found(system, keep_going=keep_going, threads=threads) == whole
    assert {int(row[GROUPS]) for row in made[0].rows} == {1, 2}  # that of both is in no part


def explored(instance: Instance) -> Explorer:
    """A finished search."""
    prepared = prepare(instance)
    stride, rows = prepared.packing.stride, len(prepared.labels)
    explorer = Explorer(prepared.kernel, stride, rows, 1, fair_limit())
    explorer.insert(prepared.initials())
    explorer.begin_level()
    search(explorer)
    return explorer


def test_a_content_is_noted_where_its_properties_hold_and_nowhere_else(
    by_parts: list[Parts],
) -> None:
    explorer = explored(two_counters(25, 99))
    assert explorer.found.wrong
    (parts,) = by_parts
    for row, region, held in zip(parts.rows, parts.regions, parts.held, strict=True):
        assert held is not None
        below = {1: 25, 2: 99}[int(row[GROUPS])]
        used = int(row[USED])
        contents = region.array[: 8 * used * int(row[WORDS])].view(np.uint64)
        noted = held.array[:used].astype(bool)
        assert noted.sum() >= 25  # all that were expanded, before the first one that breaks it
        assert all(contents[noted] < below)


def test_what_was_noted_is_not_looked_at_again(
    by_parts: list[Parts], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(two_counters(25, 99)).verdict is Verdict.BROKEN
    made = explore.Parts

    def wrongly(*args: Any, **named: Any) -> Parts:
        parts = made(*args, **named)
        for row, held in zip(parts.rows, parts.held, strict=True):
            assert held is not None
            held.array[:] = int(row[GROUPS])
        return parts

    monkeypatch.setattr(explore, "Parts", wrongly)
    assert check(two_counters(25, 25)).verdict is Verdict.HOLDS
    assert check(two_counters(99, 99, 41)).verdict is Verdict.BROKEN  # reads both parts
