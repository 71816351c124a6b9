"""A sample of the mutants is judged, and the page on all of them is whole."""

from __future__ import annotations

import random
import re
from itertools import chain

import pytest

from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.mutation import report
from epochfence.tests.mutation.judge import KILLED
from epochfence.tests.mutation.mutants import every_mutant
from epochfence.tests.mutation.run import judged, sample

SAMPLE = 2  # of one system: one that outlives the small runs needs all of them


@pytest.mark.slow(60)
def test_a_mutant_is_killed_or_a_reason_says_why_not(seed: int) -> None:
    system = random.Random(seed).choice(list(SHIPPED))
    names = [
        name
        for name, mutant in every_mutant().items()
        if system in [each.name for each in mutant.systems()]
    ]
    alive = [
        outcome
        for outcome in judged(sample(names, SAMPLE, seed), 1, quick=True)
        if outcome.fate not in (*KILLED, "equivalent") and report.reason(outcome.name) is None
    ]
    # one may be new, as long as not all have been judged: see the page
    assert len(alive) <= 1, f"a test is missing, or a reason in {report.SURVIVORS.name}: {alive}"


def test_reasons_are_of_mutants_or_rows_that_there_are() -> None:
    rows = {name.rpartition(": ")[0] for name in every_mutant()}
    for table in chain.from_iterable(shipped(name).tables for name in SHIPPED):
        rows |= {f"{table.name}/{row.name}" for row in table.rows}
    assert report.reasons().keys() - rows - every_mutant().keys() == set()


PAGE = report.PAGE.read_text(encoding="utf-8")


of_before = pytest.mark.xfail(
    strict=True, reason="the page is of before the merged machines: make mutation renews it"
)


@of_before
def test_the_page_has_every_machine_with_a_score_that_is_high_enough() -> None:
    scores = dict(re.findall(r"^\| (\w+) \| \d+ \| ([\d.]+) \|", PAGE, re.MULTILINE))
    machines = {mutant.machine for mutant in every_mutant().values()}
    assert scores.keys() - {"all"} == machines
    assert {name: score for name, score in scores.items() if float(score) < report.LEAST} == {}


def test_every_survivor_on_the_page_has_its_reason() -> None:
    assert report.UNEXPLAINED not in PAGE


def test_the_page_is_of_all_mutants() -> None:
    assert report.SAMPLE not in PAGE


@of_before
def test_the_page_names_mutants_that_there_are() -> None:
    told = {line.split(" | ")[0].strip("| ") for line in PAGE.splitlines() if ": " in line}
    known = {report.plain(name) for name in every_mutant()}
    assert {name for name in told if re.match(r"[\w ]+\.[\w ]+/", name)} - known == set()
