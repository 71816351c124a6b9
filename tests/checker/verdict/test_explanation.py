"""Why a property is broken: the explanation names the parts that make it false."""

from __future__ import annotations

from io import StringIO
from itertools import islice
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from rich.console import Console

from epochfence import language as lang
from epochfence.checker.output.report import show_trace
from epochfence.checker.trace.trace import Trace
from epochfence.checker.verdict.explanation import MOST, Values, why_broken
from epochfence.language import Instance, System, Table, instantiate, invariant
from epochfence.language.terms.reasons import because
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.checker.drawn_systems import instances

SHELF = lang.Key("shelf", 3)
BOX = lang.record("box", weight=lang.Int(0, 9), fragile=lang.Bool())
store = lang.Machine("store")
x = store.field("x", lang.Int(0, 9), 4)
limits = store.field("limits", lang.Map(SHELF, lang.Int(0, 9)))
boxes = store.field("boxes", lang.Sequence(BOX, 3))
tick = lang.event("tick")
s = SHELF.variable("s")
b = lang.element("b", boxes)
STATE: FullState = (4, (3, 0, 9), ((7, True), (2, False)))


def why(condition: lang.Expression, after: FullState | None = None) -> list[str]:
    """The explanation of a condition that is false in STATE."""
    up = Table(store, tick, (lang.Row("up", set={x: x + 1, limits: limits, boxes: boxes}),))
    item = invariant("Some", x >= 0, "Some.")
    instance = instantiate(System("storing", (up,), (item,), terminal=True))
    return list(why_broken(instance, condition, STATE, after))


def test_a_comparison_is_told_with_the_values_of_both_sides() -> None:
    assert why(x > 5) == ["x = 4, not above 5"]
    assert why(x == limits[0]) == ["x = 4, not limits[0] = 3"]


def test_only_the_parts_that_decide_are_told() -> None:
    assert why((x == 4) & (x > 5) & (x < 9)) == ["x = 4, not above 5"]
    assert why((x == 3) | (x == 5)) == ["x = 4, not 3", "x = 4, not 5"]
    assert why((x == 4).implies(x == 3)) == ["x = 4", "x = 4, not 3"]
    assert why(lang.if_(x == 4, x == 3, x == 4)) == ["x = 4, not 3"]


def test_instances_are_named_once_for_what_is_about_them() -> None:
    assert why(lang.all_of(s, (limits[s] >= 3) & (x == 4))) == [
        "for s=shelf1:",
        "  limits[s] = 0, below 3",
    ]
    assert why(lang.all_of(b, b.fragile.implies(b.weight < 5))) == [
        "for b=(weight=7, fragile=yes):",
        "  b.fragile",
        "  b.weight = 7, not below 5",
    ]


def test_that_there_is_none_is_told_as_a_whole() -> None:
    assert why(lang.any_of(s, limits[s] == 7)) == ["any(s in shelf: limits[s] == 7) is false"]


def test_a_step_is_told_with_its_next_state() -> None:
    assert why(lang.after(x) >= x, (2, *STATE[1:])) == ["x = 4, above after(x) = 2"]


def test_of_many_parts_some_are_told() -> None:
    lines = why(lang.all_true(*(x == number + 5 for number in range(MOST + 3))))
    assert len(lines) == MOST + 1
    assert lines[-1] == "and more"


@pytest.mark.slow(1)
@settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(instances())
def test_what_is_told_of_random_systems_is_so(instance: Instance) -> None:
    """Each fact is true or false as the explanation says, and a broken property has one."""
    machine = Interpreter(instance)
    for state in islice(instance.initial_states(), 4):
        for step in islice(machine.steps(state), 4):
            if step.state is None:
                continue
            values = Values.of(instance, state, step.state)
            for item in instance.properties:
                facts = list(because(values, item.expression))
                holds = bool(values.value(item.expression, {}))
                assert facts or holds
                for fact in facts:
                    assert bool(values.value(fact.expression, fact.scope)) == fact.is_true


def test_a_long_line_of_why_goes_on_further_in() -> None:
    printed = Console(file=StringIO(), width=40, color_system=None)
    why = ("for e=(kind=DATA, record=record0, txn=txn0):", "  e.record == f.record")
    show_trace(Trace((), (), (), "It is broken.", why=why), printed)
    assert cast(StringIO, printed.file).getvalue().splitlines()[-4:] == [
        "It is broken.",
        "  for e=(kind=DATA, record=record0,",
        "      txn=txn0):",
        "    e.record == f.record",
    ]
