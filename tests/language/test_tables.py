"""What a table says of all its rows."""

from dataclasses import replace

import pytest

from epochfence.language import Bool, DeclarationError, Int, Machine, Row, Table, event, feature

light = Machine("light")
on = light.field("on", Bool())
turns = light.field("turns", Int(0, 3))
press = event("press")
new_switch = feature("new_switch", "2")
dimmer = feature("dimmer", "3")


def test_a_tables_condition_updates_and_source_are_those_of_its_rows() -> None:
    table = Table(
        light,
        on=press,
        during=new_switch,
        set={turns: turns + 1},
        source="KIP-1",
        rows=(
            Row("off", when=on, set={on: False}, during=dimmer),
            Row("on", set={on: True}, source="KIP-2"),
        ),
    )
    off, turned_on = table.rows
    assert [str(row.during) for row in table.rows] == ["dimmer & new_switch", "new_switch"]
    assert off.set == {turns: turns + 1, on: False}
    assert turned_on.set == {turns: turns + 1, on: True}
    assert [row.source for row in table.rows] == ["KIP-1", "KIP-2"]


def test_a_copy_of_the_table_leaves_further_rows_as_they_are() -> None:
    table = Table(light, on=press, set={turns: 0}, rows=(Row("on", set={on: True}),))
    further = Row("off", set={on: False})
    assert replace(table, rows=(*table.rows, further)).rows[1].set == {on: False}


def test_a_row_cannot_set_what_its_table_sets() -> None:
    with pytest.raises(DeclarationError, match="row 'on': `turns` is set by every row"):
        Table(light, on=press, set={turns: 0}, rows=(Row("on", set={turns: 1}),))


def test_a_tables_condition_is_of_features_alone() -> None:
    with pytest.raises(DeclarationError, match="not made of features alone"):
        Table(light, on=press, during=on, rows=(Row("on"),))


WIDE = {
    "x < 3": (turns < 3, turns < 2, turns < 4),
    "x >= 1": (turns >= 1, turns == 2, turns == 0),
    "x != 1": (turns != 1, turns > 1, turns < 2),
    "x in 1, 2": (turns.is_in(1, 2), turns.is_in(2, 1), turns.is_in(2, 3)),
    "x in 1, 2 is wider than one": (turns.is_in(1, 2), turns == 1, turns <= 2),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_row_behind_a_wider_comparison_is_refused(name: str) -> None:
    wide, narrow, other = WIDE[name]
    first = Row("first", when=wide, set={turns: 0})
    Table(light, press, (first, Row("second", when=other, set={turns: 1})))
    with pytest.raises(DeclarationError, match=r"test_tables.py:\d+: table .*'second' is never"):
        Table(light, press, (first, Row("second", when=narrow, set={turns: 1})))
