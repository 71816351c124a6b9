"""What a table says of all its rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.language import (
    Bool,
    DeclarationError,
    Int,
    Machine,
    Row,
    Table,
    event,
    feature,
    lost,
    message,
)
from epochfence.language.declaration.loading import declared

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


REPLIES = """from epochfence.language import *
server, client = Machine("server"), Machine("client")
N = Int(0, 3)
Ask, Tell = (message(name, server, sender=client, number=N) for name in ("Ask", "Tell"))
Said = message("Said", client, answers=Tell, number=N)
Done = message("Done", client, number=N)
asked = Table(
    server,
    Ask,
    rows=(
        Row("wait", when=Ask.number == 0),
        Row("answer", $row),
    ),
    $table
)
system = System("replies", (asked,), (), channels=(Channel(Ask),))
"""


@pytest.mark.parametrize(
    ("row", "table", "line", "said"),
    [
        ("reply=Done(number=1)", "", 12, "Done is a reply, but isn't declared as a response: de"),
        ("reply=Said(number=1)", "", 12, "Said is a reply to Ask, but answers Tell: take the mes"),
        ("reply=Ask.number", "", 12, "a reply, but the table names no response"),
        ("", "response=Said,", 7, "Said is the response to Ask, but answers Tell"),
    ],
)
def test_a_reply_that_answers_nothing_is_refused_at_its_line(
    tmp_path: Path, row: str, table: str, line: int, said: str
) -> None:
    file = tmp_path / "replies.py"
    file.write_text(REPLIES.replace("$row", row).replace("$table", table))
    with pytest.raises(DeclarationError, match=rf"^{file}:{line}: table server.Ask.*{said}"):
        declared(str(file))


def test_an_answer_may_come_later_and_from_another_event() -> None:
    """A request that waits is answered when something else happens."""
    server, client, number = Machine("server"), Machine("client"), Int(0, 3)
    ask = message("Ask", server, number=number)
    done = message("Done", client, answers=ask, number=number)
    notify = message("Notify", client, number=number)
    rows = (Row("answer", reply=done(number=1)),)
    assert Table(server, event("wake"), rows).sendings(rows[0])
    lost_one = Table(server, lost(ask), rows)
    assert lost_one.sendings(rows[0])
    told = Table(server, ask, (Row("tell", reply=notify(number=1)),), response=notify)
    assert told.sendings(told.rows[0])
