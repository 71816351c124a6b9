"""Changes of a system: rows before, after, instead of and without its own, and what is added."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Bool,
    Change,
    DeclarationError,
    Expression,
    Int,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    Unreached,
    changed,
    constant,
    event,
    feature,
    instantiate,
    invariant,
    weak_fairness,
)

counter, lamp = Machine("counter"), Machine("lamp")
x = counter.field("x", Int(0, 4))
lit = lamp.field("lit", Bool())
up, down, reset, flash = event("up"), event("down"), event("reset"), event("flash")
careful = feature("careful", "1", sentence="It doesn't skip a number.")
LIMIT = constant("limit", 3, 0, 4)
SMALL = invariant("Small", x <= 3, "x is at most 3.")
system = System(
    "counts",
    (
        Table(
            counter,
            up,
            (Row("two", when=x == 2, set={x: 3}), Row("up", set={x: x + 1})),
            when=x < 3,
        ),
        Table(counter, down, (Row("down", set={x: x - 1}),), when=x > 0),
    ),
    (SMALL,),
    doc="It counts.",
    terminal=True,
    protocols=Protocols(("1",)),
    budgets={down: 1},
    unreached=(Unreached("for a test", ("counter.up/two", "counter.down")),),
    fairness=weak_fairness(up, rows=("two", "up")),
)
UP = Change("hasty", "It skips.").table("counter.up")
SKIP = Row("skip", when=x == 2, set={x: x + 2}, during=~careful)


def ids(of: System, name: str = "counter.up") -> list[str]:
    (table,) = (table for table in of.tables if table.name == name)
    return [row.id for row in table.rows]


def row(of: System, name: str) -> Row:
    (found,) = (row for table in of.tables for row in table.rows if row.id == name)
    return found


def taken(of: System, *, off: tuple[str, ...] = ()) -> list[str]:
    result = check(instantiate(of, switch_off=off))
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    return result.trace.taken


def test_rows_before_a_row_are_taken_first_where_their_feature_is_off() -> None:
    hasty = system + Change("hasty", "It skips.", features=(careful,)).table("counter.up").before(
        "two", SKIP
    )
    assert hasty.name == "counts+hasty"
    assert hasty.doc == "It counts. It skips."
    assert check(instantiate(hasty)).verdict is Verdict.HOLDS
    assert taken(hasty, off=("careful",)) == ["up/up", "up/up", "up/skip"]


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (UP.before("up", Row("a", when=x == 1), Row("b")), ["two", "a", "b", "up"]),
        (UP.after("two", Row("a", when=x == 1)), ["two", "a", "up"]),
        (
            UP.after("two", Row("a", when=x == 1)).before("a", Row("b", when=x == 0)),
            ["two", "b", "a", "up"],
        ),
        (UP.instead("two", Row("a", when=x == 1), Row("b", when=x == 0)), ["a", "b", "up"]),
        (UP.without("two"), ["up"]),
        (UP.like("up", Row("a", when=x == 0)), ["two", "a", "up"]),
        (UP.like("up", Row("a", when=x == 0), before="two"), ["a", "two", "up"]),
    ],
)
def test_where_the_rows_stand(change: Change, rows: list[str]) -> None:
    assert ids(system + change) == rows
    assert ids(system) == ["two", "up"]


def test_rows_of_one_id_are_one_row() -> None:
    both = (Row("a", during=careful), Row("a", during=~careful), Row("b"))
    twice = System(
        "twice", (Table(counter, up, both),), (), protocols=Protocols(("1",), (careful,))
    )
    change = Change("c").table("counter.up")
    assert ids(twice + change.before("a", Row("x"))) == ["x", "a", "a", "b"]
    assert ids(twice + change.after("a", Row("x"))) == ["a", "a", "x", "b"]
    assert ids(twice + change.instead("a", Row("x"))) == ["x", "b"]


def test_further_updates_of_a_row_and_of_all_rows() -> None:
    one = system + Change("lit", machines=(lamp,)).table("counter.up").also("up", set={lit: True})
    assert {*row(one, "up").set} == {x, lit}
    assert {*row(one, "two").set} == {x}
    every = system + Change("lit", machines=(lamp,)).table("counter.up").also(set={lit: True})
    assert {*row(every, "two").set} == {x, lit}


def test_a_row_like_another_does_more_in_fewer_cases() -> None:
    more = Row("dark", when=~lit, set={x: 0, lit: True}, source="here")
    found = row(
        system + Change("c", machines=(lamp,)).table("counter.up").like("two", more), "dark"
    )
    assert found.guard.same_as((x == 2) & ~lit)
    assert found.set == {x: 0, lit: True}
    assert found.source == "here"


def test_a_table_that_happens_less_often() -> None:
    change = Change("c", machines=(lamp,)).table("counter.up").only_when(lit)
    (table, _) = (system + change).tables
    assert table.guard.same_as((x < 3) & lit)
    assert table.others == (lamp,)


def test_what_is_added() -> None:
    low = invariant("Low", x < LIMIT, "x stays low.")
    change = Change(
        "more",
        tables=(Table(counter, reset, (Row("to the top", set={x: 3}),)),),
        properties=(low,),
        constants=(LIMIT,),
        budgets={reset: 1},
        bounds={LIMIT: 3},
        initials={x: 1},
    )
    more = system + change
    assert more.values()["limit"] == 3
    assert taken(more) == ["reset/to the top"]


def test_a_removed_table_takes_its_budget_and_what_is_said_of_it_along() -> None:
    less = system + Change("less").without_tables("counter.down").without_properties("Small")
    assert [table.name for table in less.tables] == ["counter.up"]
    assert not less.budgets
    assert not less.properties
    assert [item.names for item in less.unreached] == [("counter.up/two",)]
    one = system + UP.without("two")
    assert [item.names for item in one.unreached] == [("counter.down",)]
    assert [item.rows for item in one.fairness] == [("up",)]


def test_changes_compose() -> None:
    both = (
        system
        + UP.before("up", Row("a", when=x == 1))
        + Change("b").table("counter.up").after("a", Row("b"))
    )
    assert both.name == "counts+hasty+b"
    assert ids(both) == ["two", "a", "b", "up"]
    assert ids(changed(system, UP.without("two"))) == ["up"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda: Change("c").table("counter.uq").without("up"),
            r"change c: counts has no table counter.uq \(did you mean counter.up\?",
        ),
        (
            lambda: UP.before("upp", Row("a")),
            r"change hasty: table counter.up has no row 'upp' \(did you mean up\?",
        ),
        (lambda: UP.like("up", Row("a"), before="uo"), "has no row 'uo'"),
        (
            lambda: UP.without("two").instead("two", Row("a")),
            "counter.up/two is changed already .without.: make one change of both",
        ),
        (lambda: UP.without("two", "two"), "is changed already"),
        (
            lambda: UP.instead("two", Row("second", when=x == 2, set={x: 3})),
            "the row 'second' does the same as the row that it replaces",
        ),
        (
            lambda: UP.after("up", Row("late")),
            "the row 'late' is never taken, because the row 'up' before it always holds",
        ),
        (
            lambda: UP.after("two", Row("late", when=(x == 2) & (x != 1))),
            "the row 'late' is never taken, because the row 'two' before it holds wherever",
        ),
        (lambda: Change("c"), "change c changes nothing"),
        (lambda: UP, "change hasty changes nothing"),
        (lambda: UP.only_when(True), "only_when: True changes nothing"),
        (lambda: UP.also("two", set={}), "give set="),
        (lambda: UP.before("up"), "give a row"),
        (lambda: UP.without(), "name a row by its id"),
        (lambda: UP.before("up", Row("two")), "two rows are called 'two'"),
        (lambda: UP.without("two", "up"), "has no row left: remove it with .without_tables"),
        (lambda: UP.also("up", set={x: 1}), "row 'up' sets `x` itself: write it with instead"),
        (lambda: Change("c").without("two"), "name a table first"),
        (lambda: Change("c").without_tables("counter.uo"), "has no table counter.uo"),
        (lambda: Change("c").without_tables(), "give a name"),
        (
            lambda: Change("c").without_properties("Smal"),
            r"has no property Smal \(did you mean Small\?",
        ),
        (
            lambda: Change("c", tables=(Table(counter, up, (SKIP,)),)),
            r'counts has a table counter.up: change its rows with .table\("counter.up"\)',
        ),
        (lambda: Change("c", tables="up"), "is the text 'up'"),  # type: ignore[arg-type]
        (lambda: UP.before("up", Row("a", set={lit: True})), "`lit` is a field of lamp"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[], Change], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        _ = system + change()


def test_a_row_can_have_the_change_of_one_alone() -> None:
    first = system + UP.instead("two", Row("two", when=x == 2, set={x: 0}))
    second = Change("second").table("counter.up")
    with pytest.raises(DeclarationError, match=r"counter.up/two is changed by hasty: a row can"):
        _ = first + second.without("two")
    gone = system + UP.without("two")
    with pytest.raises(DeclarationError, match=r"no row 'two' any more, because the change hasty"):
        _ = gone + second.before("two", Row("a"))


def test_an_error_names_the_line_of_the_call() -> None:
    change = Change("c").table("counter.up")
    change = change.without("twoo")
    with pytest.raises(DeclarationError) as raised:
        _ = system + change
    assert raised.value.place is not None
    assert raised.value.place.file == __file__
    line = Path(__file__).read_text().splitlines()[raised.value.place.line - 1]
    assert line.strip() == 'change = change.without("twoo")'


@pytest.mark.parametrize("named", [{}, {"large": {LIMIT: 4}}, {"default": {LIMIT: 2}}])
def test_bounds_of_a_change_are_the_default_whatever_is_named(
    named: dict[str, dict[Expression, int]],
) -> None:
    base = dataclasses.replace(system, constants=(LIMIT,), bounds=named)
    made = changed(base, Change("bounded", "It has bounds.", bounds={LIMIT: 1}))
    assert made.values("default") == {"limit": 1}
