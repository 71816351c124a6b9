"""Instances that may take each other's place: the first of them is asked about for all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epochfence.checker.solver.induction import Induction
from epochfence.checker.solver.obligations import settle
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.language import (
    Expression,
    Key,
    Property,
    Row,
    Table,
    all_of,
    event,
    invariant,
    position,
)
from epochfence.tests.systems.tickets import (
    APART,
    BELOW,
    CLIENT,
    a,
    b,
    client,
    held,
    tickets,
)

to = CLIENT.variable("to")
give = event("give", to)
FIRST_ALONE = invariant(
    "FirstAlone",
    all_of(a, all_of(b, (position(a) < position(b)).implies(held.at(b) == 0))),
    "Nobody but the first one holds a number.",
)


def induction(*properties: Property, gives: Expression = held == 0) -> Induction:
    """Of clients that also give numbers to each other."""
    given = Table(client, give, (Row("give", when=gives, set={held.at(to): held, held: 0}),))
    names = [item.name for item in properties]
    return Induction(lifted(tickets(True, *properties, more=(given,)), properties=names))


def answers(of: Induction, name: str, assumed: Iterable[str]) -> dict[str, str]:
    """What Z3 says of each step that is asked about."""
    subject = of.subject(name)
    assert subject is not None
    items = list(of.obligations(subject, [fact for fact in assumed if fact != name]))
    return {item.case: settle(item, 20).verdict for item in items}


def of_all(of: Induction) -> Induction:
    """The same with each instance asked about."""
    of.alike = frozenset[Key]()
    return of


def first_of(case: str) -> str:
    """The step that is asked about for one of these rows."""
    row, _, instances = case.partition(" (")
    one, _, other = instances.removesuffix(")").partition(", ")
    second = "client0" if other == one else "client1"
    return f"{row} (client0, {second})" if other else f"{row} (client0)"


@pytest.mark.parametrize("assumed", [["Apart", "Below", "well-formed"], ["Apart", "well-formed"]])
@pytest.mark.parametrize("gives", [held == 0, held > 0], ids=["of nothing", "of what is held"])
def test_a_step_of_others_has_the_answer_of_the_first_ones(
    gives: Expression, assumed: list[str]
) -> None:
    """Whether the property holds, and where it doesn't."""
    few = answers(induction(APART, BELOW, gives=gives), "Apart", assumed)
    every = answers(of_all(induction(APART, BELOW, gives=gives)), "Apart", assumed)
    assert few.items() <= every.items()
    assert {case: every[first_of(case)] for case in every if case != "start"} == {
        case: answer for case, answer in every.items() if case != "start"
    }
    assert few.keys() - {"start"} == {first_of(case) for case in every if case != "start"}
    assert len(few) < len(every)
    assert ("sat" in few.values()) == ("Below" not in assumed)


def test_where_a_property_orders_instances_each_is_asked_about() -> None:
    """It is broken by a step of another than the first."""
    of = induction(FIRST_ALONE, gives=held < 0)
    assert of.alike == frozenset()
    found = answers(of, "FirstAlone", ["well-formed"])
    broken = {case for case, answer in found.items() if answer == "sat"}
    assert broken == {"client.take/take (client1)", "client.take/take (client2)"}


def test_with_a_fact_from_elsewhere_each_is_asked_about() -> None:
    """It may tell instances apart."""
    of = induction(APART, BELOW)
    few = len(answers(of, "Apart", ["Below"]))
    of.add("further", of.facts["Below"])
    assert len(answers(of, "Apart", ["Below", "further"])) > few
