"""Facts are never wrong: compared with the values that expressions have in every state."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epochfence.diagrams.facts import Facts, assume, possible, settled
from epochfence.diagrams.notation import simplified
from epochfence.language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    all_of,
    any_of,
    enum,
    if_,
    lift,
    record,
    set_of,
    some,
)
from epochfence.language.terms.values import evaluate
from epochfence.language.types import Value, choices

Color = enum("Color", "RED", "GREEN", "BLUE")
PLACE = Key("place", 2)
m = Machine("m")
color = m.state_field("color", Color)
held = m.field("held", Optional(Color))
flag = m.field("flag", Bool())
number = m.field("number", Int(0, 2))
flags = m.field("flags", Map(PLACE, Bool()))
k = PLACE.variable("k")

VALUES = {name: choices(info.type, {}) for name, info in m.fields.items() if name != "flags"}
VALUES["flags"] = tuple(product((False, True), repeat=2))
STATES = [
    {f"m.{name}": value for name, value in zip(VALUES, values, strict=True)}
    for values in product(*VALUES.values())
]

colors = st.recursive(
    st.sampled_from([color, held.value, *(getattr(Color, name) for name in Color.names)]),
    lambda inner: st.builds(if_, st.sampled_from([flag, number > 0]), inner, inner),
    max_leaves=3,
)
optionals = st.one_of(st.just(held), st.just(lift(None)), colors.map(some))
atoms = st.one_of(
    st.sampled_from([flag, lift(True), lift(False), held.is_set, number == 1, number < 2]),
    st.sampled_from([all_of(k, flags[k]), any_of(k, flags[k] & flag), flags[k], ~flags[k]]),
    st.builds(lambda a, b: a == b, colors, colors),
    st.builds(lambda a, b: a == b, optionals, optionals),
    st.builds(lambda a, b: a.is_in(*b), colors, st.lists(colors, min_size=2, max_size=3)),
    st.builds(lambda a, b: a.is_in(set_of(*b)), colors, st.lists(colors, max_size=3)),
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a, b: a == b, inner, inner),
        inner.map(lambda a: ~a),
        st.builds(if_, inner, inner, inner),
    ),
    max_leaves=6,
)


def value_in(state: dict[str, Value], e: Expression) -> Value:
    return evaluate(e, state, {}, {k: 0})


def hold(facts: Facts, state: dict[str, Value]) -> bool:
    return all(value_in(state, e) in values for e, values in facts.items())


@pytest.mark.slow(1)
@given(st.sampled_from(Color.names), st.lists(st.tuples(conditions, st.booleans()), max_size=3))
def test_what_is_excluded_never_happens(name: str, steps: list[tuple[Expression, bool]]) -> None:
    facts: Facts | None = {color: frozenset({name})}
    states = [state for state in STATES if state["m.color"] == name]
    for condition, truth in steps:
        assert facts is not None
        values = possible(condition, facts)
        assert values is None or values >= {value_in(state, condition) for state in states}
        facts = assume(condition, truth, facts)
        states = [state for state in states if value_in(state, condition) is truth]
        if facts is None:
            assert states == []
            return
        assert all(hold(facts, state) for state in states)


@pytest.mark.slow(1)
@given(st.sampled_from(Color.names), conditions, conditions)
@example("RED", ~~((held == None) | (held == some(Color.GREEN))), color == held.value)
def test_what_is_settled_has_the_value_that_it_had(
    name: str, known: Expression, e: Expression
) -> None:
    facts = assume(known, True, {color: frozenset({name})})
    if facts is None:
        return
    states = [state for state in STATES if state["m.color"] == name and value_in(state, known)]
    left = settled(e, facts)
    assert all(value_in(state, left) == value_in(state, e) for state in states)


@pytest.mark.slow(1)
@given(conditions)
def test_a_simplified_condition_has_the_value_that_it_had(e: Expression) -> None:
    assert all(value_in(state, simplified(e)) == value_in(state, e) for state in STATES)


def test_a_field_of_a_record_that_was_just_made_is_its_value() -> None:
    made = record("Pair", left=Int(0, 2), right=Bool())(left=number, right=flag)
    assert simplified(made.left) is number
    assert simplified(if_(flag, number, made.left)) is number


def test_what_is_decided_is_gone() -> None:
    green: Facts = {color: frozenset({"GREEN"})}
    is_green, is_red = color == Color.GREEN, color == Color.RED
    for whole, left in (
        (is_green & flag, flag),
        (flag | is_red, flag),
        (is_red & flag, lift(False)),
        (~is_red, lift(True)),
        (if_(is_green, number, number + 1), number),
        (if_(is_red & flag, number, number + 1), number + 1),
        (all_of(k, flags[k] & is_green), all_of(k, flags[k])),
        (if_(flag, number, number + 1), if_(flag, number, number + 1)),
    ):
        assert settled(whole, green).same_as(left)


def test_what_follows_is_found() -> None:
    green: Facts = {color: frozenset({"GREEN"})}
    assert possible(color == Color.RED, green) == {False}
    assert possible(color.is_in(Color.RED, Color.GREEN), green) == {True}
    assert possible(if_(flag, color, Color.BLUE), green) == {"GREEN", "BLUE"}
    assert assume((color == Color.RED) & flag, True, green) is None
    assert assume((color == Color.GREEN) | flag, False, green) is None
    known = assume(if_(flag, number == 1, color == Color.RED), True, green)
    assert known is not None
    assert (possible(flag, known), possible(number, known)) == ({True}, {1})
    known = assume(if_(flag, color == Color.RED, number == 1), True, green)
    assert known is not None
    assert (possible(flag, known), possible(number, known)) == ({False}, {1})
    known = assume(~(held == None), True, green)
    assert known is not None
    assert possible(held.is_set, known) == {True}
    known = assume(held.is_in(some(Color.RED), some(Color.BLUE)), False, known)
    assert known is not None
    assert possible(held.value, known) == {"GREEN"}
    known = assume((held == None) | (held == some(Color.GREEN)), True, green)
    assert known is not None
    assert possible(held.value, known) == {"RED", "GREEN"}  # of none, an engine reads the first
