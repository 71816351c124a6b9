"""Expressions are trees: built by Python's operators, compared, pickled and printed as such."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.language import DeclarationError, Expression
from epochfence.language.expressions import EnumValue, children_first, resolve

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
        (x * 1, ("mul", X, ONE)),
        (1 * x, ("mul", ONE, X)),
        (x // 1, ("div", X, ONE)),
        (1 // x, ("div", ONE, X)),
        (x % 1, ("mod", X, ONE)),
        (1 % x, ("mod", ONE, X)),
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
    x * 2 // N % 3,
    row[0].is_set & (row[:x] == row[1:]),
    lang.is_prefix(row, row + row),
    lang.max_of(b, b.weight, default=0) < lang.min_of(s, by_shelf[s]),
    lang.majority(few, s.data.type),
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
    assert x + 1 in {y, x + 1}
    assert x not in {y, y + 1}


def test_an_expression_never_changes() -> None:
    with pytest.raises(DeclarationError, match="can't be changed"):
        x.op = "eq"


@pytest.mark.parametrize("condition", [x < y, ok & ok, ~ok, ok, x != y, x == y])
def test_a_condition_has_no_truth_while_it_is_declared(condition: Any) -> None:
    with pytest.raises(DeclarationError, match=r"expressions: use & \| ~"):
        bool(condition)


def test_a_chain_of_comparisons_is_refused() -> None:
    with pytest.raises(DeclarationError, match="don't work on expressions"):
        _ = 0 < x < 5


def test_an_expression_is_not_iterated() -> None:
    with pytest.raises(DeclarationError, match="use all_of"):
        list(few)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["red", 1.5, (1, 2), frozenset[int]()])
def test_only_numbers_truths_and_none_are_lifted(value: Any) -> None:
    with pytest.raises(DeclarationError, match="neither an expression, a number, a truth"):
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
        (2 * (x + N) // 3 % N, "((2 * (x + N)) // 3) % N"),
        (row[x], "row[x]"),
        (row[: x + 1], "row[:x + 1]"),
        (row[1:], "row[1:]"),
        (row[1:x], "row[1:x]"),
        (lang.is_prefix(row[1:], row), "is_prefix(row[1:], row)"),
        (lang.max_of(s, by_shelf[s]), "max(s in shelf: by_shelf[s])"),
        (
            lang.min_of(b, b.weight, default=N),
            "if(size(row) == 0, N, min(b in row: b.weight))",
        ),
        (lang.majority(few, s.data.type), "3 < (size(few) * 2)"),
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


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: lang.max_of(b, b.weight), r"give default=\.\.\., its value if `row` is empty"),
        (lambda: lang.min_of(s, by_shelf[s], default=0), "leave out the default"),
        (lambda: lang.majority(row, 3), "majority takes a set"),
        (lambda: lang.majority(few, lang.Key("other", 3)), "write a set of others"),
        (lambda: row[::2], "it has no step"),
    ],
)
def test_what_is_refused_where_it_is_written(build: Callable[[], Expression], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        build()


def test_bounds_are_made_of_constants_by_every_operator() -> None:
    assert resolve((N * 2 + 1) // 2 - N % 2, {"N": 3}) == 2
    with pytest.raises(DeclarationError, match="divides by 0"):
        resolve(N // (N - 3), {"N": 3})


def test_a_quantifier_over_several_variables_is_nested() -> None:
    far = by_shelf[s] == b.weight
    assert lang.all_of(s, b, far).same_as(lang.all_of(s, lang.all_of(b, far)))
    assert lang.any_of(s, b, far).same_as(lang.any_of(s, lang.any_of(b, far)))
    assert lang.each(s, s, 0).same_as(lang.each(s, lang.each(s, 0)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lang.all_of(s), r"all_of\(s\): give a condition behind the variable"),
        (lambda: lang.each(s), r"each\(s\): give a value behind the variable"),
        (lambda: lang.any_of(s, 1, ok), r"any_of\(s, ...\): `1` is not a variable"),
    ],
)
def test_a_quantifier_that_lacks_something(make: Callable[[], lang.Expression], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()
