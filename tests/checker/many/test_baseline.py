"""A run compared with an earlier one: what has moved is named, another declaration is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from typer.testing import CliRunner

from epochfence.checker.check import check
from epochfence.checker.many.baseline import MOVED, BaselineError, Moved, compare, read_baseline
from epochfence.checker.verdict.result import Result
from epochfence.cli import app
from epochfence.language import (
    Instance,
    Int,
    Machine,
    Row,
    System,
    Table,
    constant,
    event,
    instantiate,
    invariant,
)
from epochfence.language.declaration.places import Place
from epochfence.tests.checker.output.test_result_schema import SCHEMA

N = constant("N", 2, 1, 3, meaning="how far it counts")
counter = Machine("counter")
x = counter.field("x", Int(0, 4))
up, down = event("up"), event("down")
SMALL = invariant("Small", x <= 3, "x is at most 3.")
UP = Row("up", when=x < N, set={x: x + 1})
DOWN = Row("down", when=x == N, set={x: 0})
UNCHECKED = Place("<here>", 1)
"""The place of a table with rows that hide each other, which a declaration refuses."""


def counting(*rows: Row, name: str = "counts", most: int = 2) -> Instance:
    tables = (Table(counter, up, (UP,)), Table(counter, down, rows, declared=UNCHECKED))
    system = System(name, tables, (SMALL,), constants=(N,), terminal=True)
    return instantiate(system, constants={"N": most})


def result(*rows: Row, **settings: Any) -> Result:
    return check(counting(*rows, **settings))


def data(found: Result) -> dict[str, Any]:
    return json.loads(json.dumps(found.as_json()))


def moved(before: Result, now: Result) -> Moved:
    return compare(data(before), now)


NEVER = Row("never", when=x > 3)
LATE = Row("late", when=x == N, set={x: 1})


def test_a_run_is_as_it_was() -> None:
    found = moved(result(DOWN), result(DOWN))
    assert not found
    assert found.as_json()["moved"] is False


def test_rows_that_begin_and_cease_to_fire_are_named() -> None:
    found = moved(result(DOWN, NEVER), result(LATE, DOWN))
    assert found.begin == ("counter.down/late",)
    assert found.cease == ("counter.down/down",)
    assert (found.new, found.gone) == ((), ("counter.down/never",))
    assert found
    back = moved(result(LATE, DOWN), result(DOWN, NEVER))
    assert (back.begin, back.cease) == (found.cease, found.begin)
    assert (back.new, back.gone) == (found.gone, found.new)


def test_counts_and_states_are_compared() -> None:
    more = Row("down", when=x > 0, set={x: x - 1})
    found = moved(result(DOWN), result(more))
    assert found.counts == (("counter.down/down", 1, 2),)
    assert ("transitions", 3, 4) in found.changed


def test_a_property_that_breaks_is_named_and_counts_are_left_out() -> None:
    beyond = Row("down", when=x == N, set={x: 4})
    found = moved(result(DOWN), result(beyond))
    assert found.changed[0] == ("verdict", "holds", "broken")
    assert ("Small", "holds", "broken after 3 steps") in found.changed
    assert (found.begin, found.cease, found.counts) == ((), (), ())


@pytest.mark.parametrize(
    ("instance", "said"),
    [
        (counting(DOWN, name="other"), "system counts in the file, other now"),
        (counting(DOWN, most=3), "N=2 in the file, 3 now"),
        (instantiate(counting(DOWN).system, properties=[]), "property Small only in the file"),
    ],
)
def test_a_baseline_of_another_declaration_is_refused(
    instance: Instance, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(data(result(DOWN))))
    assert read_baseline(file, counting(DOWN))["system"] == "counts"
    with pytest.raises(BaselineError, match=f"is a result of another declaration: {said}"):
        read_baseline(file, instance)


def test_another_way_to_look_for_deadlocks_is_another_declaration(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    lease = "docs/examples/lease.py"
    assert _called("check", lease, "--json", str(file))[0] == 0
    code, told = _called("check", lease, "--no-deadlock", "--against", str(file))
    assert code == 2
    assert "deadlocks looked for in the file, not looked for now" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't read"),
        ("{", "not valid JSON"),
        ("{}", "is not a result of check --json"),
        ("cut", "is inconclusive: use the result of a finished run"),
    ],
)
def test_what_is_no_baseline_is_refused(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    if text == "cut":
        cut = {**data(result(DOWN)), "verdict": "inconclusive", "exit_code": 20}
        text = json.dumps(cut)
    if text is not None:
        file.write_text(text)
    with pytest.raises(BaselineError, match=said):
        read_baseline(file, counting(DOWN))


DECLARED = """\
from epochfence.language import *

counter = Machine("counter")
x = counter.field("x", Int(0, 4))
up = Table(counter, event("up"), (Row("up", when=x < 2, set={x: x + 1}),))
down = Table(counter, event("down"), (ROW,))
small = invariant("Small", x <= 3, "x is at most 3.")
counts = System("counts", (up, down), (small,), terminal=True)
"""
ROWS = {
    "before": 'Row("down", when=x == 2, set={x: 0})',
    "now": 'Row("back", when=x == 2, set={x: 1})',
    "broken": 'Row("down", when=x == 2, set={x: 4})',
}


def _called(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, list(arguments))
    return ended.exit_code, " ".join((ended.stdout + ended.stderr).split())


@pytest.mark.slow(1)
def test_the_command_says_what_has_moved_and_ends_with_14(tmp_path: Path) -> None:
    for name, row in ROWS.items():
        (tmp_path / f"{name}.py").write_text(DECLARED.replace("ROW", row))
    baseline, file = str(tmp_path / "baseline.json"), tmp_path / "result.json"
    before, now, broken = (str(tmp_path / f"{name}.py") for name in ROWS)
    assert _called("check", before, "--json", baseline)[0] == 0
    code, told = _called("check", before, "--against", baseline)
    assert code == 0
    assert told.endswith(": verdict, states and every row.")
    code, told = _called("check", now, "--against", baseline, "--json", str(file))
    assert code == MOVED
    assert "row now taken: counter.down/back" in told
    assert "row no longer taken: counter.down/down" in told
    found = json.loads(file.read_text())
    fastjsonschema.validate(SCHEMA, found)  # pyright: ignore[reportUnknownMemberType]
    assert found["exit_code"] == MOVED
    assert found["against"]["rows_that_begin_to_fire"] == ["counter.down/back"]
    assert _called("check", now, "--against", str(file))[0] == 0
    code, told = _called("check", broken, "--against", baseline)
    assert code == 12
    assert "verdict: holds → broken" in told
