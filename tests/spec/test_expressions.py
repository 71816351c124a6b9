"""Expressions are trees: built by Python's operators, compared, pickled and printed as such."""

import pickle
from typing import Any

import pytest

from epochfence.spec import language as lang
from epochfence.spec.language import DeclarationError, Expression
from epochfence.spec.language.expressions import EnumValue, children_first

SHELF = lang.Key("shelf", 3)
COLOUR = lang.enum("colour", "red", "green")
BOX = lang.record("box", weight=lang.Int(0, 9), colour=COLOUR)

depot = lang.Machine("depot")
x = depot.field("x", lang.Int(0, 9))
y = depot.field("y", lang.Int(0, 9))
ok = depot.field("ok", lang.Bool())
held = depot.field("held", lang.Optional(lang.Int(0, 9)))
few = depot.field("few", lang.Set(SHELF))
row = depot.field("row", lang.Sequence(BOX, 3))
pile = depot.field("pile", lang.Bag(BOX, 3))
box = depot.field("box", BOX)
by_shelf = depot.field("by_shelf", lang.Map(SHELF, lang.Int(0, 9)))
worker = lang.Machine("worker", SHELF)
busy = worker.field("busy", lang.Bool())
N = lang.constant("N", 2)
FAST = lang.feature("fast", "1")

s = SHELF.variable("s")
b = lang.element("b", row)


def op(e: Expression) -> tuple[Any, ...]:
    """An expression as nested tuples, constants and leaves by what they are."""
    if not e.args:
        name = getattr(e.data, "name", e.data)
        return (e.op, e.data.member if isinstance(e.data, EnumValue) else name)
    return (e.op, *(op(arg) for arg in e.args))


X, Y, OK = ("field", "x"), ("field", "y"), ("field", "ok")
ONE = ("const", 1)


@pytest.mark.parametrize(
    ("built", "tree"),
    [
        (x == y, ("eq", X, Y)),
        (x != 1, ("not", ("eq", X, ONE))),
        (x < y, ("lt", X, Y)),
        (x <= 1, ("le", X, ONE)),
        (x > y, ("lt", Y, X)),
        (x >= 1, ("le", ONE, X)),
        (1 < x, ("lt", ONE, X)),
        (x + 1, ("add", X, ONE)),
        (1 + x, ("add", ONE, X)),
        (x - 1, ("sub", X, ONE)),
        (1 - x, ("sub", ONE, X)),
        (ok & True, ("and", OK, ("const", True))),
        (True & ok, ("and", ("const", True), OK)),
        (ok | False, ("or", OK, ("const", False))),
        (False | ok, ("or", ("const", False), OK)),
        (~ok, ("not", OK)),
        (ok.implies(x == 1), ("or", ("not", OK), ("eq", X, ONE))),
        (x.is_in(1, y), ("or", ("eq", X, ONE), ("eq", X, Y))),
        (s.is_in(few), ("in", ("variable", "s"), ("field", "few"))),
        (held.is_set, ("is_set", ("field", "held"))),
        (held.value, ("value", ("field", "held"))),
        (held == None, ("eq", ("field", "held"), ("const", None))),
        (by_shelf[s], ("index", ("field", "by_shelf"), ("variable", "s"))),
        (box.weight, ("get", ("field", "box"))),
        (lang.all_true(), ("const", True)),
        (lang.any_true(), ("const", False)),
        (lang.all_true(ok, ok, ok), ("and", ("and", OK, OK), OK)),
        (lang.minimum(x, y), ("if", ("le", X, Y), X, Y)),
        (lang.maximum(x, y), ("if", ("le", X, Y), Y, X)),
        (box.colour == COLOUR.green, ("eq", ("get", ("field", "box")), ("const", "green"))),
    ],
)
def test_operators_build_trees(built: Expression, tree: tuple[Any, ...]) -> None:
    assert op(built) == tree


EVERYTHING = (
    (x + 1 - N) < y,
    ok & ~ok | FAST,
    lang.if_(ok, x, 0),
    lang.all_of(s, by_shelf[s] == 0),
    lang.any_of(b, b.weight > 1),
    lang.count_of(b, b.colour == COLOUR.red),
    lang.each(s, 0),
    lang.those(s, by_shelf[s] > 1),
    lang.keep(b, b.weight > 1),
    lang.first_of(b, b.weight > 1),
    lang.some(x),
    lang.set_of(s),
    lang.sequence_of(box),
    few | few & few - few,
    lang.size(few),
    BOX(weight=x),
    lang.replace(box, weight=1, colour=COLOUR.red),
    lang.append(row, box),
    lang.push(row, box),
    lang.insert_by(row, box, "weight"),
    lang.first(row),
    lang.last(row),
    lang.without_first(row),
    lang.put(pile, box),
    lang.take(pile, box),
    lang.updated(by_shelf, s, x),
    lang.position(s),
    lang.wrap(x + 1, lang.Int(0, 9)),
    lang.after(x) >= x,
    busy.at(s),
    lang.lift(None),
    COLOUR.red.is_in(COLOUR.red, COLOUR.green),
)


@pytest.mark.parametrize("expression", EVERYTHING, ids=str)
def test_an_expression_survives_pickling(expression: Expression) -> None:
    again = pickle.loads(pickle.dumps(expression))
    assert again is expression  # equal trees are one object
    assert again.same_as(expression)
    assert hash(again) == hash(expression)


def test_expressions_differ_by_every_part() -> None:
    for at, one in enumerate(EVERYTHING):
        for place, other in enumerate(EVERYTHING):
            assert one.same_as(other) == (at == place)
    assert len(set(EVERYTHING)) == len(EVERYTHING)


def test_equal_numbers_and_truths_are_not_the_same_constant() -> None:
    assert not lang.lift(1).same_as(lang.lift(True))
    assert not lang.lift(0).same_as(lang.lift(None))


def test_an_expression_can_be_a_key_and_be_sought() -> None:
    assert {x: 1, y: 2}[x] == 1
    assert {x + 1: 1}[x + 1] == 1
    assert x in (y, x)
    assert x not in (y, y + 1)
    assert [y, x].index(x) == 1


def test_an_expression_never_changes() -> None:
    with pytest.raises(AttributeError, match="can't be changed"):
        x.op = "eq"


@pytest.mark.parametrize("condition", [x < y, ok & ok, ~ok, ok, x != y])
def test_a_condition_has_no_truth_while_it_is_declared(condition: Expression) -> None:
    with pytest.raises(DeclarationError, match=r"use & \| ~ in place of and"):
        bool(condition)


def test_a_chain_of_comparisons_is_refused() -> None:
    with pytest.raises(DeclarationError, match="no truth of its own"):
        _ = 0 < x < 5


def test_an_expression_is_not_iterated() -> None:
    with pytest.raises(TypeError, match="use all_of"):
        list(few)


@pytest.mark.parametrize("value", ["red", 1.5, (1, 2), frozenset[int]()])
def test_only_numbers_truths_and_none_are_lifted(value: Any) -> None:
    with pytest.raises(DeclarationError, match="neither an expression, a number, a truth nor None"):
        lang.lift(value)
    with pytest.raises(DeclarationError, match="neither an expression"):
        _ = x == value


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (x + 1 < y, "(x + 1) < y"),
        ((x == 1) & (y != 2), "(x == 1) & (y != 2)"),
        (~(ok | (x == 1)), "~(ok | (x == 1))"),
        (lang.if_(ok, x, None), "if(ok, x, None)"),
        (lang.all_of(s, by_shelf[s] == 0), "all(s in shelf: by_shelf[s] == 0)"),
        (lang.count_of(b, b.weight > 1), "count(b in row: 1 < b.weight)"),
        (lang.keep(b, b.colour == COLOUR.red), "keep(b in row: b.colour == red)"),
        (lang.replace(box, weight=1), "replace(box, weight=1)"),
        (BOX(weight=1, colour=COLOUR.red), "box(colour=red, weight=1)"),
        (busy.at(s), "busy.at(s)"),
        (lang.insert_by(row, box, "weight"), "insert_by(row, box, weight)"),
        (lang.wrap(x + N, lang.Int(0, 9)), "wrap(x + N, 0..9)"),
        (held.is_set & (held.value > 1), "held.is_set & (1 < held.value)"),
        (s.is_in(few), "s in few"),
        (lang.after(x) == x, "after(x) == x"),
    ],
)
def test_an_expression_prints_in_its_own_notation(expression: Expression, text: str) -> None:
    assert str(expression) == text


def test_every_node_comes_after_its_arguments() -> None:
    assert [str(e) for e in children_first((x + 1) == y)] == [
        "x",
        "1",
        "x + 1",
        "y",
        "(x + 1) == y",
    ]


def test_at_places_the_fields_of_machines_with_a_key_alone() -> None:
    assert (busy & (x == 1)).at(s).same_as(busy.at(s) & (x == 1))
    assert (worker.this == 0).at(s).same_as(s == 0)


def test_at_refuses_to_have_its_key_bound_by_a_quantifier_inside() -> None:
    with pytest.raises(DeclarationError, match="rename one"):
        lang.any_of(s, busy).at(s)


def test_a_constant_has_its_default_within_its_range() -> None:
    with pytest.raises(DeclarationError, match=r"constant K: its default 5 is not in 0\.\.4"):
        lang.constant("K", 5, 0, 4)
