"""What is declared knows its line, and an error that is found later names it."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochfence import language as declared
from epochfence.checker.ground import ground
from epochfence.language import DeclarationError, Row
from epochfence.language.declaration.places import Place
from epochfence.spec.systems import SHIPPED, shipped


def made_by_a_helper() -> Row:
    return Row("a row")


def test_a_row_is_declared_where_it_is_made() -> None:
    row = made_by_a_helper()
    assert row.declared == Place(__file__, made_by_a_helper.__code__.co_firstlineno + 1)
    assert dataclasses.replace(row, id="another").declared == row.declared


def test_rows_of_what_is_shipped_are_declared_in_the_specification() -> None:
    for name in SHIPPED:
        for table in shipped(name).tables:
            for row in table.rows:
                assert row.declared is not None
                assert "spec" in row.declared.file.split("/"), (table.name, row.id)


def test_what_a_program_makes_by_itself_is_in_no_file() -> None:
    made: dict[str, Row] = {}
    exec(compile("made['row'] = Row('a row')", "<made>", "exec"), {"Row": Row, "made": made})
    line = sys._getframe().f_lineno - 1
    assert made["row"].declared == Place(__file__, line)


lang: Any = declared
N = lang.constant("n", 1, 0, 9)
KEY = lang.Key("place", 2)
machine, store = lang.Machine("machine"), lang.Machine("store", KEY)
x = machine.field("x", lang.Int(0, 9))
votes = machine.field("votes", lang.Map(KEY, lang.Int(0, 3)))
Say = lang.message("Say", store, place=KEY)
tick = lang.event("tick")
many = [KEY.variable(f"v{at}") for at in range(25)]


def _nested() -> Any:
    whole = x > 0
    for each in many:
        whole = lang.all_of(each, whole | (votes[each] == 1))
    return whole


def _system(**changed: Any) -> Any:
    parts: dict[str, Any] = {
        "tables": (lang.Table(machine, tick, (lang.Row("r", set={x: x}),)),),
        "properties": (lang.invariant("P", x < 9, "P."),),
        "constants": (N,),
    }
    return lang.System(**{"name": "s", **parts, **changed})


def _row(**parts: Any) -> Any:
    return _system(
        tables=(
            lang.Table(machine, tick, (lang.Row("r", **parts),)),
            lang.Table(store, Say, (lang.Row("s"),)),
        ),
        channels=(lang.Channel(Say),),
    )


ROOT = Path(__file__).parents[2]
LATE: dict[str, tuple[Callable[[], Any], str]] = {
    "a row": (
        lambda: _row(set={votes[x]: 1}),
        r"table machine.tick: row 'r': .*the 2 keys of the map",
    ),
    "a property": (
        lambda: _system(properties=(lang.invariant("P", votes[x] == 1, "P."),)),
        "property P: .*the 2 keys of the map",
    ),
    "what is much": (
        lambda: _system(properties=(lang.invariant("P", _nested(), "P."),)),
        "property P: .*parts",
    ),
    "a capacity": (
        lambda: dataclasses.replace(_row(), channels=(lang.Channel(Say, N - 2),)),
        "is -1, below 0",
    ),
    "a budget": (lambda: _system(budgets={tick: N - 2}), "is -1, below 0"),
    "terminal": (lambda: _system(terminal=votes[x] == 1), "terminal: .*the 2 keys of the map"),
    "what is sent": (
        lambda: _row(
            send=(lang.to_each(lang.variable("v", lang.Int(0, 200_000)), True, Say(place=0)),)
        ),
        "table machine.tick, row 'r': Say is sent 200,001 times at once",
    ),
}


@pytest.mark.parametrize("what", LATE)
def test_an_error_that_is_found_later_names_file_and_line(what: str) -> None:
    made, said = LATE[what]
    with pytest.raises(DeclarationError, match=f"^{re.escape(__file__)}:[0-9]+: .*{said}"):
        ground(lang.instantiate(made()))


def test_the_line_is_that_of_the_row() -> None:
    made = _row(set={votes[x]: 1})
    with pytest.raises(DeclarationError) as refused:
        ground(lang.instantiate(made))
    place = made.tables[0].rows[0].declared
    assert refused.value.place == place
    assert str(refused.value) == f"{place}: {refused.value.message}"


def test_an_error_of_what_is_shipped_names_no_line() -> None:
    assert Place(str(ROOT / "spec" / "systems" / "one.py"), 3).is_shipped
    assert not Place(str(ROOT / "docs" / "examples" / "lease.py"), 3).is_shipped
    found = DeclarationError("bad").within("row 'r'", Place(str(ROOT / "spec" / "one.py"), 3))
    assert str(found) == "row 'r': bad"
