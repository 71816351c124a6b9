"""What every operator comes to on plain values: the definition that other engines are held to."""

from typing import Any

import pytest

from epochfence import language as lang
from epochfence.language import DeclarationError, Expression
from epochfence.language.terms.values import assign, evaluate
from epochfence.language.types import Value

N = lang.constant("N", 3)
SHELF = lang.Key("shelf", 3)
COLOUR = lang.enum("colour", "red", "green", "blue")
BATCH = lang.record("batch", base=lang.Int(0, 9), colour=COLOUR)

depot = lang.Machine("depot")
x = depot.field("x", lang.Int(0, 9))
sequence = depot.field("sequence", lang.Int(0, 3))
held = depot.field("held", lang.Optional(lang.Int(2, 9)))
few = depot.field("few", lang.Set(SHELF))
cache = depot.field("cache", lang.Sequence(lang.Int(0, 9), 3))
queue = depot.field("queue", lang.Sequence(BATCH, 3))
pile = depot.field("pile", lang.Bag(BATCH, 3))
batch = depot.field("batch", BATCH)
by_shelf = depot.field("by_shelf", lang.Map(SHELF, lang.Int(0, 9)))
worker = lang.Machine("worker", SHELF)
busy = worker.field("busy", lang.Bool())

STATE: dict[str, Value] = {
    "depot.x": 5,
    "depot.sequence": 3,
    "depot.held": None,
    "depot.few": frozenset({0, 2}),
    "depot.cache": (4, 7),
    "depot.queue": ((1, "red"), (4, "green")),
    "depot.pile": ((1, "red"), (1, "red"), (4, "blue")),
    "depot.batch": (3, "blue"),
    "depot.by_shelf": (0, 5, 9),
    "worker.busy": (True, False, True),
}
s = SHELF.variable("s")
e = lang.element("e", cache)
q = lang.element("q", queue)
b = lang.element("b", pile)
f = lang.element("f", few)
RED3 = BATCH(base=3)


def value(expression: Any, **changed: Value) -> Value:
    """The value in the state above, with some of the depot's fields changed."""
    state = {**STATE, **{f"depot.{name}": v for name, v in changed.items()}}
    return evaluate(lang.lift(expression), state, {"N": 3})


CASES: list[tuple[Expression, Value]] = [
    # numbers
    (x + N - 1, 7),
    (x - 9, -4),
    (lang.wrap(sequence + 1, lang.Int(0, 3)), 0),
    (lang.wrap(sequence + 6, lang.Int(0, 3)), 1),
    (lang.wrap(x - 7, lang.Int(0, 3)), 2),
    (lang.wrap(x + 1, lang.Int(2, 5)), 2),
    (lang.wrap(x - 4, lang.Int(2, 5)), 5),
    (lang.wrap(x, lang.Int(-2, 2)), 0),
    (x * 3, 15),
    (2 * (x - 9), -8),
    (N * x, 15),
    (x // 2, 2),
    ((x - 10) // N, -2),
    ((x - 10) % N, 1),
    (x % (N + 1), 1),
    (lang.minimum(x, 3), 3),
    (lang.maximum(x, 3), 5),
    # truths
    ((x < 5) | (x <= 5), True),
    ((x > 5) & (x >= 5), False),
    (~(x == 5), False),
    ((x == 5).implies(x == 4), False),
    (lang.if_(x == 5, 1, 2), 1),
    # optionals
    (held.is_set, False),
    (held.value, 2),
    (held == None, True),
    (held == 2, False),
    (lang.some(x) == x, True),
    (lang.if_(x == 5, None, 3), None),
    # sets
    (few | lang.set_of(1), frozenset({0, 1, 2})),
    (few & lang.set_of(1, 2), frozenset({2})),
    (few - lang.set_of(2), frozenset({0})),
    (lang.set_of(), frozenset()),
    (few == lang.set_of(2, 0), True),
    (lang.size(few), 2),
    (lang.lift(1).is_in(few), False),
    (lang.those(s, by_shelf[s] > 0), frozenset({1, 2})),
    (lang.those(f, f != 0), frozenset({2})),
    # maps and records
    (by_shelf[2], 9),
    (lang.updated(by_shelf, 1, 8), (0, 8, 9)),
    (lang.each(s, lang.if_(s.is_in(few), 1, 0)), (1, 0, 1)),
    (batch.base, 3),
    (lang.replace(batch, base=4), (4, "blue")),
    (RED3, (3, "red")),
    (BATCH(), (0, "red")),
    (busy.at(1), False),
    (lang.count_of(s, lang.position(s) > 0), 2),
    # majorities
    (lang.majority(few, SHELF), True),
    (lang.majority(few, 4), False),
    (lang.majority(few, N), True),
    (lang.majority(few, few | lang.set_of(1)), True),
    (lang.majority(lang.set_of(), 0), False),
    # sequences: a cache that evicts, a queue in the order of a field
    (lang.append(cache, 1), (4, 7, 1)),
    (lang.push(cache, 1), (4, 7, 1)),
    (lang.push(lang.push(cache, 1), 2), (7, 1, 2)),
    (lang.first(cache), 4),
    (lang.last(cache), 7),
    (lang.without_first(cache), (7,)),
    (lang.first(lang.without_first(lang.without_first(cache))), None),
    (lang.last(lang.keep(e, e > 9)), None),
    (lang.without_first(lang.keep(e, e > 9)), ()),
    (lang.size(cache), 2),
    (lang.lift(7).is_in(cache), True),
    (lang.keep(e, e > 4), (7,)),
    (lang.first_of(e, e > 4), 7),
    (lang.first_of(e, e > 7), None),
    (lang.any_of(e, (lang.position(e) == 1) & (e == 7)), True),
    (lang.sequence_of(x, 1), (5, 1)),
    (cache[0], 4),
    (cache[x - 4], 7),
    (cache[2], None),
    (cache[x - 6], None),
    (queue[0].value.base, 1),
    (cache[:1], (4,)),
    (cache[1:], (7,)),
    (cache[:9], (4, 7)),
    (cache[9:], ()),
    (cache[x - 9 :], (4, 7)),
    (cache[: x - 9], ()),
    (cache[1:1], ()),
    (cache + lang.sequence_of(1), (4, 7, 1)),
    (lang.sequence_of() + cache, (4, 7)),
    (lang.is_prefix(cache[:1], cache), True),
    (lang.is_prefix(cache, cache), True),
    (lang.is_prefix(cache, cache[:1]), False),
    (lang.is_prefix(cache[1:], cache), False),
    (lang.is_prefix(lang.sequence_of(), cache), True),
    (lang.insert_by(queue, RED3, "base"), ((1, "red"), (3, "red"), (4, "green"))),
    (lang.insert_by(queue, BATCH(base=4), "base"), ((1, "red"), (4, "green"), (4, "red"))),
    (lang.insert_by(queue, BATCH(base=0), "base"), ((0, "red"), (1, "red"), (4, "green"))),
    # bags: one order for every content
    (lang.put(pile, RED3), ((1, "red"), (1, "red"), (3, "red"), (4, "blue"))),
    (lang.take(pile, BATCH(base=1)), ((1, "red"), (4, "blue"))),
    (lang.take(pile, RED3), ((1, "red"), (1, "red"), (4, "blue"))),
    (lang.count_of(b, b.base == 1), 2),
    (lang.keep(b, b.base == 1), ((1, "red"), (1, "red"))),
    # quantifiers
    (lang.all_of(s, by_shelf[s] >= 0), True),
    (lang.any_of(s, busy.at(s) & (by_shelf[s] == 5)), False),
    (lang.all_of(lang.element("n", lang.set_of()), False), True),
    (lang.any_of(lang.element("n", lang.set_of()), True), False),
    (lang.count_of(lang.variable("c", COLOUR), True), 3),
    (lang.max_of(s, by_shelf[s]), 9),
    (lang.min_of(s, 2 - by_shelf[s]), -7),
    (lang.max_of(q, q.base, default=-1), 4),
    (lang.min_of(lang.element("n", cache[2:]), 0, default=-1), -1),
    (lang.first_of(s, by_shelf[s] > 0), 1),
    (lang.first_of(s, by_shelf[s] > 9), None),
    (lang.first_of(lang.variable("c", COLOUR), batch.colour == lang.variable("c", COLOUR)), "blue"),
    (lang.all_of(s, lang.any_of(s, by_shelf[s] == 9)), True),
]


@pytest.mark.parametrize(
    ("expression", "wanted"), [pytest.param(*case, id=str(case[0])) for case in CASES]
)
def test_values(expression: Expression, wanted: Value) -> None:
    assert value(expression) == wanted
    assert type(value(expression)) is type(wanted)


def test_an_optional_that_holds_a_value() -> None:
    assert value(held.value + 1, held=4) == 5
    assert value(held == 4, held=4) is True


@pytest.mark.parametrize("first", [0, 1])
def test_the_order_of_what_is_put_into_a_bag_is_not_seen(first: int) -> None:
    boxes = [BATCH(base=8), RED3]
    grown = lang.put(lang.put(pile, boxes[first]), boxes[1 - first])
    assert value(grown) == ((1, "red"), (1, "red"), (3, "red"), (4, "blue"), (8, "red"))


def test_what_grew_beyond_its_capacity_is_a_fault_only_where_it_is_stored() -> None:
    longer = lang.append(lang.append(cache, 1), 2)
    assert value(lang.size(longer)) == 4
    assert value(lang.push(longer, 3)) == (7, 1, 2, 3)


def test_the_next_state() -> None:
    later = {**STATE, "depot.x": 6}
    grows = lang.all_of(s, lang.after(x + by_shelf[s]) == x + by_shelf[s] + 1)
    assert evaluate(grows, STATE, {}, following=later) is True
    with pytest.raises(DeclarationError, match="there is no next state here"):
        value(lang.after(x))


@pytest.mark.parametrize("expression", [s, by_shelf[s], lang.element("n", cache)])
def test_a_name_out_of_scope(expression: Expression) -> None:
    with pytest.raises(DeclarationError, match="is not bound here"):
        value(expression)


@pytest.mark.parametrize("key", [-1, 3])
def test_a_map_is_read_at_its_keys_alone(key: int) -> None:
    for expression in (by_shelf[x + key - 5], lang.updated(by_shelf, x + key - 5, 0)):
        with pytest.raises(DeclarationError, match=f"a map of 3 keys has no key {key}"):
            value(expression)
    with pytest.raises(DeclarationError, match=f"has no key {key}"):
        value(busy.at(x + key - 5))


@pytest.mark.parametrize(
    ("target", "new", "changed"),
    [
        (x, 1, {"depot.x": 1}),
        (by_shelf[1], 7, {"depot.by_shelf": (0, 7, 9)}),
        (by_shelf[sequence - 1], 7, {"depot.by_shelf": (0, 5, 7)}),
        (batch.base, 7, {"depot.batch": (7, "blue")}),
        (busy.at(1), True, {"worker.busy": (True, True, True)}),
    ],
    ids=str,
)
def test_an_update_changes_one_part(
    target: Expression, new: Value, changed: dict[str, Value]
) -> None:
    after = dict(STATE)
    assign(target, new, after, STATE, {}, {})
    assert after == STATE | changed


def test_the_keys_of_an_update_are_read_before_it() -> None:
    after = dict(STATE)
    assign(x, 0, after, STATE, {}, {})
    assign(by_shelf[x - 4], 7, after, STATE, {}, {})
    assert after["depot.by_shelf"] == (0, 7, 9)
