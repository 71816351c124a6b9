"""What is proved has another digest if Z3 would be asked something else, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epochfence.bench import ktx
from epochfence.checker.solver.proofs.digest import digest
from epochfence.checker.solver.unbounded.numbers import lifted, relevant
from epochfence.language import (
    Expression,
    Property,
    Row,
    System,
    all_of,
    helps,
    invariant,
    ranking,
    step_property,
    strong_fairness,
    weak_fairness,
)
from epochfence.language import after as then
from epochfence.language.instances.instance import ending_anywhere
from epochfence.tests.checker.solver import test_ranking as of
from epochfence.tests.checker.solver.test_ranking import tasks
from epochfence.tests.spec.alterations import altered, rows_of


def digested(system: System, constants: dict[str, int] | None = None) -> str:
    """The digest of all that can be proved of a system."""
    names = [item.name for item in system.every_property]
    instance = lifted(system, None, constants, properties=names)
    return digest(relevant(ending_anywhere(instance)))


def small(condition: Expression, name: str = "Small") -> tuple[Property, ...]:
    return (invariant(name, all_of(of.i, condition), f"{name}: it is small."),)


FEWER = of.left.at(of.i) <= of.LARGEST
FORWARD = step_property("Forward", all_of(of.i, then(of.left.at(of.i)) >= 0), "It is a number.")
NAMED = replace(of.REST, rows=(Row("idle"),))
TURNED = replace(of.START, when=0 == of.left)


@pytest.mark.parametrize(
    "changed",
    [
        {"tables": (of.FAIL, NAMED, of.WORK, of.PREPARE, of.START)},
        {"tables": (TURNED, of.PREPARE, of.WORK, of.REST, of.FAIL)},
        {"properties": small(FEWER & (of.left.at(of.i) >= 0), "Little")},
        {"terminal": of.left.at(0) == 1},
        {"name": "jobs"},
    ],
    ids=["rows in another order, and named otherwise", "sides", "a property", "end", "name"],
)
def test_what_z3_is_not_asked_is_not_in_the_digest(changed: dict[str, Any]) -> None:
    assert digested(tasks(**changed)) == digested(tasks())


@pytest.mark.parametrize(
    "changed",
    [
        {"tables": (of.START, of.PREPARE, of.WORK, of.FAIL)},
        {"tables": (of.START, replace(of.PREPARE, when=of.left > 0), of.WORK, of.REST, of.FAIL)},
        {"properties": small(of.left.at(of.i) < of.LARGEST)},
        {"properties": (*small(FEWER), FORWARD)},
        {"fairness": weak_fairness(of.work)},
        {"fairness": (*weak_fairness(of.prepare), *strong_fairness(of.work))},
        {"rankings": (ranking("Done", of.RANK[:1], of.OWN),)},
        {"rankings": (ranking("Done", of.RANK, of.OWN[::-1]),)},
        {"rankings": (ranking("Done", of.RANK, (of.OWN[0], helps(of.work))),)},
        {"budgets": {}},
    ],
)
def test_what_z3_is_asked_is_in_the_digest(changed: dict[str, Any]) -> None:
    assert digested(tasks(**changed)) != digested(tasks())


def test_how_many_there_are_is_in_the_digest() -> None:
    assert digested(tasks(), {"workers": 3}) != digested(tasks())
    assert digested(tasks(), {"largest": 3}) != digested(tasks())  # else it is any number


@pytest.mark.slow(2)
def test_every_row_is_in_the_digest() -> None:
    whole = digested(ktx.system)
    names = sorted(rows_of(ktx.system))
    without = {
        name: digested(altered(ktx.system, table=table, row=row, when=False))
        for name in names
        for table, _, row in [name.partition("/")]
    }
    assert [name for name, found in without.items() if found == whole] == []
    assert len({*without.values()}) == len(names)
