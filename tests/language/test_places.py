"""Rows know the line that declares them."""

from __future__ import annotations

import dataclasses
import sys

from epochfence.language import Row
from epochfence.language.places import Place
from epochfence.spec.systems import SHIPPED, shipped


def made_by_a_helper() -> Row:
    return Row("a row")


def test_a_row_is_declared_where_it_is_made() -> None:
    row = made_by_a_helper()
    assert row.declared == Place(__file__, made_by_a_helper.__code__.co_firstlineno + 1)
    assert dataclasses.replace(row, name="another").declared == row.declared


def test_rows_of_what_is_shipped_are_declared_in_the_specification() -> None:
    for name in SHIPPED:
        for table in shipped(name).tables:
            for row in table.rows:
                assert row.declared is not None
                assert "spec" in row.declared.file.split("/"), (table.name, row.name)


def test_what_a_program_makes_by_itself_is_in_no_file() -> None:
    made: dict[str, Row] = {}
    exec(compile("made['row'] = Row('a row')", "<made>", "exec"), {"Row": Row, "made": made})
    line = sys._getframe().f_lineno - 1
    assert made["row"].declared == Place(__file__, line)
