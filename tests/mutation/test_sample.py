"""A sample of the mutants is judged, and the page on all of them is whole."""

from __future__ import annotations

from functools import partial
from itertools import chain
from random import Random

import pytest

from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.driver import in_processes
from epochfence.tests.mutation import report
from epochfence.tests.mutation.judge import KILLED, matters, seen
from epochfence.tests.mutation.mutants import every_mutant
from epochfence.tests.mutation.run import judge_named, sample
from epochfence.tests.mutation.scenarios import trials

SMALL, MUTANTS = 60_000, 20  # states of a small run, and mutants that are put into one
SAMPLE = 1  # of one system: one that outlives the small runs needs all of them


@pytest.mark.slow(60)
@pytest.mark.sample(1, of="mutants")
def test_a_mutant_is_killed_or_a_reason_says_why_not(seed: int) -> None:
    system = Random(seed).choice(list(SHIPPED))
    names = [
        name
        for name, mutant in every_mutant().items()
        if system in [each.name for each in mutant.systems()]
    ]
    quick = partial(judge_named, quick=True)
    judged = in_processes(quick, [sample(names, SAMPLE, seed)], 1, 1)
    alive = [
        outcome
        for outcome in chain.from_iterable(judged)
        if outcome.fate not in (*KILLED, "equivalent") and report.reason(outcome.name) is None
    ]
    # one may be new, as long as not all have been judged: see the page
    assert len(alive) <= 1, f"a test is missing, or a reason in {report.SURVIVORS.name}: {alive}"


@pytest.mark.slow(5)
@pytest.mark.sample(1, of="mutants")
@pytest.mark.parametrize("draw", range(3))
def test_small_runs_see_mutants(draw: int, seed: int) -> None:
    """Of so many; which ones of all they see is on the page."""
    random = Random(f"{seed} {draw}")
    system = shipped(random.choice(list(SHIPPED)))
    small = [trial for trial in trials(system) if trial.counts.states < SMALL]
    every = [n for n, mutant in every_mutant().items() if any(matters(mutant, t) for t in small)]
    left = [every_mutant()[name] for name in random.sample(every, min(len(every), MUTANTS))]
    count = len(left)
    for trial in small:
        here = [mutant for mutant in left if matters(mutant, trial)]
        told = zip(here, seen(here, trial), strict=True)
        left = [m for m in left if m not in here] + [m for m, one in told if one is None]
    assert len(left) < count


def test_reasons_are_of_mutants_or_rows_that_there_are() -> None:
    rows = {name.rpartition(": ")[0] for name in every_mutant()}
    for table in chain.from_iterable(shipped(name).tables for name in SHIPPED):
        rows |= {f"{table.name}/{row.id}" for row in table.rows}
    assert report.reasons().keys() - rows - every_mutant().keys() == set()


def test_each_machine_has_a_score_that_is_high_enough() -> None:
    low = {n: one.killed for n, one in report.recorded().items() if one.killed < report.LEAST}
    assert low == {}


def test_survivors_have_reasons() -> None:
    survivors = [name for one in report.recorded().values() for name in one.survivors]
    assert survivors
    assert [name for name in survivors if report.reason(name) is None] == []


def test_the_page_says_what_is_recorded() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page(report.recorded())
