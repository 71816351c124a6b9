"""Tables print the names that their module gives to conditions and values, and explain them."""

import re
from dataclasses import replace

import pytest

from epochfence.diagrams.drawing.decision_table import Seen, decision_table
from epochfence.diagrams.names import Names
from epochfence.language import Int, Machine, Protocols, Row, Table, event, if_
from epochfence.language.declaration.places import Place
from epochfence.language.expressions import children_first, rewrite
from epochfence.spec.systems import SHIPPED, shipped

PROTOCOLS = Protocols(("1",))
lift_car = Machine("lift")
floor, wanted, load = (lift_car.field(name, Int(0, 9)) for name in ("floor", "wanted", "weight"))
Move = event("Move", by=Int(0, 2))
arrived = floor == wanted
overloaded = load > 5
next_floor = if_(floor < wanted, floor + Move.by, floor)
stays = arrived | overloaded
weight = load + 1  # a field has this name
MOVES = Table(
    lift_car,
    Move,
    (
        Row("stay", when=stays | (load == 3)),
        Row("move", when=~overloaded, set={floor: next_floor, load: weight}),
    ),
)


def told(table: Table) -> str:
    """The table in text."""
    return decision_table(table, PROTOCOLS)


def test_a_row_has_the_names_of_its_module() -> None:
    text = told(MOVES)
    assert "when  stays | (weight == 3)" in text
    assert "when  ~overloaded\n" in text
    assert "floor = next_floor" in text
    assert "weight = weight + 1" in text


def test_each_name_is_explained_below_with_the_names_in_it() -> None:
    explained = told(MOVES).rpartition("where\n")[2].partition("```")[0].splitlines()
    assert explained == [
        "arrived = floor == wanted",
        "overloaded = 5 < weight",
        "next_floor = if(floor < wanted, floor + event.by, floor)",
        "stays = arrived | overloaded",
    ]


def test_a_table_without_names_explains_none() -> None:
    bare = Table(lift_car, Move, (Row("stay", when=floor == 3),))
    assert "where" not in told(bare)


def test_a_row_alike_is_compared_by_its_meaning() -> None:
    other = Table(
        lift_car, Move, (Row("move", when=~overloaded, set={floor: next_floor, load: weight}),)
    )
    text = decision_table(other, PROTOCOLS, seen=Seen("first", MOVES))
    assert "as in first" in text
    assert "where" not in text
    changed = Table(lift_car, Move, (Row("move", when=~overloaded, set={floor: floor + 1}),))
    assert "as in first" not in decision_table(changed, PROTOCOLS, seen=Seen("first", MOVES))


def test_a_module_that_is_not_loaded_names_nothing() -> None:
    missing = Place("missing.py", 1)
    rows = tuple(replace(row, declared=missing) for row in MOVES.rows)
    text = told(replace(MOVES, rows=rows))
    assert "where" not in text
    assert "5 < weight" in text


@pytest.mark.parametrize("name", SHIPPED)
def test_names_stand_for_what_the_rows_say(name: str) -> None:
    for table in shipped(name).tables:
        names = Names(table)
        meanings = {leaf: expression for expression, leaf in names.leaves.items()}
        assert len(meanings) == len(names.leaves)
        for row in table.rows:
            named = rewrite(row.guard, names.leaves.get)
            assert rewrite(named, meanings.get) is row.guard


@pytest.mark.parametrize("name", SHIPPED)
def test_every_name_in_a_shipped_table_is_explained_once(name: str) -> None:
    system = shipped(name)
    for table in system.tables:
        names = Names(table)
        text = decision_table(table, system.protocols)
        explained = re.findall(r"^([\w.]+) =", text.rpartition("\nwhere\n")[2], re.MULTILINE)
        guards = [rewrite(row.guard, names.leaves.get) for row in table.rows]
        leaves = {leaf.data.name for leaf in names.leaves.values()}
        used = {
            node.data.name
            for guard in guards
            for node in children_first(names(guard))
            if node.op == "variable" and node.data.name in leaves
        }
        if used:
            assert used <= set(explained)
            assert len(explained) == len(set(explained))
