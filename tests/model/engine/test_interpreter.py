"""The executable meaning of a declaration, one step at a time."""

from collections.abc import Iterator

import pytest

from epochfence import language as lang
from epochfence.language import Row, System, Table, instantiate
from epochfence.model.engine.interpreter import FullState, Interpreter, Step
from epochfence.tests.checker.plain_search import search

KEY = lang.Key("key", 2)
machine = lang.Machine("machine", KEY)
n = machine.field("n", lang.Int(0, 2))
other = lang.Machine("other")
lamp = other.field("lamp", lang.Bool())
swaps = other.field("swaps", lang.Map(KEY, lang.Int(0, 2)))
k = KEY.variable("k")
tick = lang.event("tick", by=lang.Int(1, 2))


def model(*tables: Table) -> Interpreter:
    """A model of these tables."""
    return Interpreter(instantiate(System("model", tables, (), terminal=True)))


def first(machine_: Interpreter) -> FullState:
    """The one initial state."""
    (state,) = machine_.initial_states()
    return state


def changes(found: Iterator[Step]) -> list[tuple[int, tuple[object, ...], FullState | None]]:
    """Steps as row, what was bound, and the state reached."""
    return [(s.row, tuple(value for _, value in s.bound), s.state) for s in found]


def test_the_first_row_whose_guard_holds_is_taken_for_every_binding() -> None:
    rows = (Row("one", when=(tick.by == 1) & (n == 0), set={n: n + tick.by}), Row("else"))
    found = changes(model(Table(machine, tick, rows)).steps(((0, 1),)))
    assert found == [
        (0, (0, 1), ((1, 1),)),
        (1, (0, 2), ((0, 1),)),
        (1, (1, 1), ((0, 1),)),
        (1, (1, 2), ((0, 1),)),
    ]


def test_rows_of_later_tables_count_on() -> None:
    once, twice = (
        Table(machine, lang.event(name), (Row("r", when=n < 2), Row("s"))) for name in ("a", "b")
    )
    assert {s.row for s in model(once, twice).steps(((0, 0),))} == {0, 2}
    assert {s.row for s in model(once, twice).steps(((0, 0),), twice.name)} == {2}


def test_updates_read_the_state_before() -> None:
    swap = Row("swap", set={swaps[0]: swaps[1], swaps[1]: swaps[0], lamp: swaps[0] == 1})
    found = changes(model(Table(other, lang.event("swap"), (swap,))).steps((False, (1, 2))))
    assert found == [(0, (), (True, (2, 1)))]


def test_the_last_update_of_one_place_counts() -> None:
    row = Row("both", set={swaps: lang.each(k, 1), swaps[0]: 2})
    assert changes(model(Table(other, lang.event("e"), (row,))).steps((False, (0, 0)))) == [
        (0, (), (False, (2, 1)))
    ]


def test_a_step_that_leaves_a_range_reaches_no_state_and_says_why() -> None:
    row = Row("up", set={n: n + 1})
    machine_ = model(Table(machine, lang.event("up"), (row,)))
    fine, fault = machine_.steps(((0, 2),))
    assert fine.state == ((1, 2),)
    assert fault.state is None
    assert fault.out_of_range == "machine.n would be {key0: 0, key1: 3}: not 0..2 by key"


def test_properties_are_judged_in_a_state_and_over_a_step() -> None:
    system = System(
        "model",
        (Table(machine, lang.event("up"), (Row("up", set={n: n + 1}),)),),
        (
            lang.invariant("Low", lang.all_of(k, n.at(k) < 2), "Low."),
            lang.step_property("Up", lang.all_of(k, lang.after(n.at(k)) >= n.at(k)), "Up."),
        ),
        terminal=lang.all_of(k, n.at(k) == 2),
    )
    instance = instantiate(system)
    machine_ = Interpreter(instance)
    low, up = instance.properties
    assert machine_.holds(low.expression, ((1, 1),))
    assert not machine_.holds(low.expression, ((1, 2),))
    assert machine_.step_holds(up, ((0, 1),), ((1, 1),))
    assert not machine_.step_holds(up, ((0, 1),), ((1, 0),))
    assert machine_.holds(instance.terminal, ((2, 2),))


@pytest.mark.parametrize("limit", [8, 9])
def test_a_plain_search_stops_at_its_limit(limit: int) -> None:
    rows = (Row("up", set={n: lang.wrap(n + 1, lang.Int(0, 2))}),)
    instance = instantiate(System("model", (Table(machine, lang.event("up"), rows),), ()))
    if limit < 9:
        with pytest.raises(ValueError, match="more than 8 states"):
            search(instance, limit)
        return
    found = search(instance, limit)
    assert (found.states, found.transitions, found.depth, found.taken) == (9, 18, 5, [18])
