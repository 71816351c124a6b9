"""Derived operators: their definitions mean what each operator says, for values of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence import language as lang
from epochfence.language import Expression
from epochfence.language.declaration.typecheck import fits, type_of
from epochfence.language.terms.derived import DERIVED, definition
from epochfence.language.terms.values import evaluate
from epochfence.language.types import Value
from epochfence.model.engine.compiler.compiler import Compiler, Layout
from epochfence.model.engine.values import Ranges

CAPACITY, LEAST = lang.constant("CAPACITY", 3), lang.constant("LEAST", 0, -3, 3)
NUMBER = lang.Int(-9, 9)
PAIR = lang.record("pair", place=lang.Int(0, 3), what=lang.Bool())
depot = lang.Machine("depot")
x, y = depot.field("x", NUMBER), depot.field("y", NUMBER)
held = depot.field("held", lang.Optional(NUMBER))
row, other = (depot.field(n, lang.Sequence(PAIR, CAPACITY)) for n in ("row", "other"))
pair = depot.field("pair", PAIR)

numbers = st.integers(-9, 9)
pairs = st.tuples(st.integers(0, 3), st.booleans())
lines = st.lists(pairs, max_size=4).map(tuple)
STATES = st.fixed_dictionaries(
    {"x": numbers, "y": numbers, "held": st.none() | numbers, "row": lines, "other": lines}
    | {"pair": pairs}
)
Values = dict[str, Any]


def _wrapped(number: int, low: int, high: int) -> int:
    while number < low:
        number += high - low + 1
    while number > high:
        number -= high - low + 1
    return number


def _inserted(line: Any, one: Any) -> Any:
    before = next((n for n, each in enumerate(line) if each[0] > one[0]), len(line))
    return (*line[:before], one, *line[before:])


MEANINGS: list[tuple[Expression, Callable[[Values, int, int], Value]]] = [
    (x <= y, lambda s, c, n: s["x"] <= s["y"]),
    (held.is_set, lambda s, c, n: s["held"] is not None),
    (lang.wrap(x, lang.Int(0, 4)), lambda s, c, n: _wrapped(s["x"], 0, 4)),
    (lang.wrap(x, lang.Int(-2, 1)), lambda s, c, n: _wrapped(s["x"], -2, 1)),
    (lang.wrap(x, lang.Int(LEAST, 3)), lambda s, c, n: _wrapped(s["x"], n, 3)),
    (lang.first(row), lambda s, c, n: s["row"][0] if s["row"] else None),
    (lang.without_first(row), lambda s, c, n: s["row"][1:]),
    (lang.append(row, pair), lambda s, c, n: (*s["row"], s["pair"])),
    (
        lang.push(row, pair),
        lambda s, c, n: (*(s["row"] if len(s["row"]) < c else s["row"][1:]), s["pair"]),
    ),
    (lang.insert_by(row, pair, "place"), lambda s, c, n: _inserted(s["row"], s["pair"])),
    (lang.is_prefix(row, other), lambda s, c, n: s["other"][: len(s["row"])] == s["row"]),
    (lang.is_prefix(row, lang.sequence_of()), lambda s, c, n: not s["row"]),
    (lang.is_prefix(lang.sequence_of(), row), lambda s, c, n: True),
]


def test_every_derived_operator_has_a_meaning_here() -> None:
    assert {expression.op for expression, _ in MEANINGS} == DERIVED


@pytest.mark.parametrize("of", range(len(MEANINGS)))
@given(state=STATES, capacity=st.integers(1, 4), least=st.integers(-3, 3))
def test_a_definition_means_the_operator(of: int, state: Values, capacity: int, least: int) -> None:
    expression, meaning = MEANINGS[of]
    constants = {"CAPACITY": capacity, "LEAST": least}
    wanted = meaning(state, capacity, least)
    named = {f"depot.{name}": value for name, value in state.items()}
    assert evaluate(expression, named, constants) == wanted
    places = {("depot", name): f"s[{at}]" for at, name in enumerate(state)}
    compiler = Compiler(
        Layout(places, {}),
        Ranges(constants, open_keys=False),
        out_of_range=lambda field, value: AssertionError(field, value),
        refused=lambda field, kind, value: AssertionError(field, kind, value),
    )
    assert compiler.expression(expression, {})(list(state.values()), (), None) == wanted


@pytest.mark.parametrize("of", range(len(MEANINGS)))
def test_a_definition_is_of_core_operators_and_of_the_same_type(of: int) -> None:
    expression, _ = MEANINGS[of]
    left, defined = [expression], set[str]()
    while left:
        node = left.pop()
        made = definition(node)
        if made is None:
            left += node.args
            continue
        assert node.op not in defined
        defined.add(node.op)
        found, wanted = type_of(made), type_of(node)
        assert wanted is not None
        assert fits(found, wanted)
        left.append(made)
    assert expression.op in defined


def test_a_definition_names_nothing_that_its_arguments_name() -> None:
    one = lang.element("one", row)
    longer = lang.if_(lang.any_of(one, lang.is_prefix(row, other)), row, other)
    within = lang.all_of(one, lang.is_prefix(row, longer + lang.sequence_of(one)))
    state: dict[str, Value] = {"depot.row": ((1, True),), "depot.other": ((1, True), (2, False))}
    assert evaluate(within, state, {"CAPACITY": 3}) is True
