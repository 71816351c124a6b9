"""The differences between two releases: how they are found, printed and named."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from epochfence.checker.named_systems import load_system
from epochfence.cli import app
from epochfence.diagrams.difference import Difference, TableDifference, compare, tell
from epochfence.diagrams.find import find_tables
from epochfence.language import Enum, Row, Table, event
from epochfence.spec.releases.features import RELEASES

ORDERS = str(Path(__file__).parent / "orders.py")
SYSTEM = load_system(ORDERS)
BACK = next(table for table in SYSTEM.tables if table.name == "order.pay back")
refunds, express = SYSTEM.protocols.features
state = BACK.machine.fields["state"].expression
_states = BACK.machine.fields["state"].type
assert isinstance(_states, Enum)
is_paid = state == _states.Paid
writing = BACK.machine.fields["pending"].expression.is_set


def differing(*tables: Table, before: str, after: str) -> list[TableDifference]:
    """What differs in the orders' system with these tables in place of its own."""
    names = {table.name for table in tables}
    kept = tuple(table for table in SYSTEM.tables if table.name not in names)
    return compare([(replace(SYSTEM, tables=kept + tables), tables)], before, after)


def rows(found: list[TableDifference]) -> list[tuple[str, str, str]]:
    """Each difference as table, sign and row."""
    return [(f"{t.machine}.{t.event}", d.change, d.row) for t in found for d in t.differences]


def one(found: list[TableDifference]) -> Difference:
    """The only difference."""
    ((difference,),) = [table.differences for table in found]
    return difference


def told(found: list[TableDifference]) -> str:
    """What a person reads, in 100 columns."""
    console = Console(file=StringIO(), width=100)
    tell(found, "1", "2", console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_rows_come_and_go_with_their_features() -> None:
    found = compare([(SYSTEM, SYSTEM.tables)], "1", "2")
    # `refund` has the condition of `ship`, and comes after it
    table = "order.pay back"
    assert rows(found) == [(table, "removed", "ship"), (table, "added", "refund")]
    ship, refund = found[0].differences
    assert [info.name for info in ship.features] == ["refunds"]
    assert ship.before is not None
    assert ship.before.does == ("goto Shipped",)
    assert (ship.after, refund.before) == (None, None)
    assert compare([(SYSTEM, SYSTEM.tables)], "2", "1")[0].differences[0].change == "added"


def test_a_changed_row_is_told_with_its_features_settled() -> None:
    found = compare([(SYSTEM, SYSTEM.tables)], "2", "3")
    pay = one(found)
    assert rows(found) == [("order.Pay", "changed", "pay")]
    assert pay.before is not None
    assert pay.after is not None
    assert pay.before.does == ("goto if(Pay.fast, Shipped, Paid)",)
    assert pay.after.does == ("goto Paid",)
    assert pay.before.reply == pay.after.reply == "PayResponse(error=NONE)"
    assert (pay.source, [info.name for info in pay.features]) == ("The till", ["express"])
    text = told(found)
    assert "- goto if(Pay.fast, Shipped, Paid)" in text
    assert "+ goto Paid" in text
    assert "reply" not in text
    assert "express from 1, until 3" in text
    assert text.endswith("rows: 0 added, 0 removed, 1 changed.\n")


@pytest.mark.parametrize(
    ("parts", "changes"),
    [
        ({"when": refunds & writing}, ["added"]),
        ({"when": writing | ~refunds}, ["changed"]),
        ({"when": writing, "during": ~refunds}, ["removed"]),
        ({"when": writing & (refunds | ~refunds)}, []),
    ],
)
def test_a_row_is_there_where_its_condition_can_hold(
    parts: dict[str, Any], changes: list[str]
) -> None:
    table = replace(BACK, rows=(replace(BACK.rows[1], **parts),))
    found = differing(table, before="1", after="2")
    assert [change for _, change, _ in rows(found)] == changes


def test_a_condition_of_all_rows_is_told_apart() -> None:
    guarded = replace(BACK, rows=BACK.rows[1:], when=refunds | is_paid)
    found = differing(guarded, before="1", after="2")
    item = one(found)
    assert (item.row, item.change) == ("", "changed")
    assert [info.name for info in item.features] == ["refunds"]
    assert "~ the condition of all rows" in told(found)
    assert "- when state == Paid" in told(found)


def test_what_cannot_happen_in_a_release_has_no_rows_there() -> None:
    """Nobody sends the message in the first release, so that its table's rows are new."""
    begin = next(table for table in SYSTEM.tables if table.name == "customer.begin")
    silent = replace(begin, rows=(replace(begin.rows[0], during=refunds),))
    place = next(table for table in SYSTEM.tables if table.name == "order.Place")
    found = differing(silent, place, before="1", after="2")
    assert [table.only_in for table in found] == [None, "2"]
    assert {change for name, change, _ in rows(found) if name == "order.Place"} == {"added"}
    assert "order, Place (happens only in 2)" in told(found)


def test_what_two_systems_share_is_told_once() -> None:
    both = [(SYSTEM, SYSTEM.tables), (replace(SYSTEM, name="more orders"), SYSTEM.tables)]
    (table,) = compare(both, "1", "2")
    assert table.systems == ("orders", "more orders")


def test_nothing_differs() -> None:
    assert compare([(SYSTEM, SYSTEM.tables)], "1", "1") == []
    assert told([]) == "No row differs between 1 and 2.\n"


def test_long_lines_stay_within_100_columns() -> None:
    long = Table(
        BACK.machine,
        event("an event of a long name"),
        (Row("a row " * 20, during=refunds, source="Some.method" * 20, goto=state),),
    )
    text = told(differing(long, before="1", after="2"))
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("Some.method") < 20
    assert "".join(text.split()).count("a") > 20


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("index", range(len(RELEASES) - 1))
def test_each_release_differs_from_the_next_as_its_features_say(index: int) -> None:
    """Every shipped row named has a feature behind it, or an event that comes or goes."""
    found = compare(find_tables(), RELEASES[index], RELEASES[index + 1])
    unexplained = [
        (table.machine, table.event, item.row)
        for table in found
        for item in table.differences
        if not item.features and table.only_in is None
    ]
    assert unexplained == []
    assert max((len(line) for line in told(found).splitlines()), default=0) <= 100


# The command --------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["diff", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    target = tmp_path / "difference.json"
    code, out, noise = run("--protocols", "1", "2", ORDERS, "--json", target)
    assert (code, noise) == (0, "")
    assert "order, pay back" in out
    found = json.loads(target.read_text())
    assert (found["before"], found["after"]) == ("1", "2")
    (table,) = found["tables"]
    assert (table["machine"], table["event"], table["systems"]) == ("order", "pay back", ["orders"])
    ship = table["differences"][0]
    assert (ship["row"], ship["change"], ship["after"]) == ("ship", "removed", None)
    assert ship["before"]["does"] == ["goto Shipped"]
    assert ship["features"][0]["name"] == "refunds"


@pytest.mark.slow(1)
def test_a_machine_a_system_and_all_of_them() -> None:
    partition = run("--protocols", "4.1", "4.2", "partition")[1]
    assert "partition, WriteTxnMarkers" in partition
    assert "transaction, " not in run("--protocols", "2.5", "4.3", "partition")[1]
    assert partition.splitlines()[0] in run("--protocols", "4.1", "4.2", "transactions")[1]
    assert partition.splitlines()[0] in run("--protocols", "4.1", "4.2")[1]
    assert run("--protocols", "4.1", "4.1") == (0, "No row differs between 4.1 and 4.1.\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--protocols", "4.1", "9"), "unknown protocol 9: choose one of 0.11"),
        (("--protocols", "0", "4.1", "application"), "unknown protocol 0: choose one of 0.11"),
        (("--protocols", "4.1", "4.2", "nobody"), "nothing is called nobody: take a system"),
        (("--protocols", "1", "2", "nowhere.py"), "nowhere.py: no such file"),
        (("--protocols", "1", "2", ORDERS, "--json", "none/x.json"), "no folder"),
    ],
)
def test_a_mistake_is_said_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    code, out, line = run(*arguments)
    assert (code, out) == (2, "")
    assert said in line
    assert line.startswith("epochfence: ")
    assert line.count("\n") == 1


def test_a_difference_of_several_systems_is_there_once() -> None:
    found = compare(find_tables(), "4.1", "4.2")
    blocks = [(one.machine, one.event, one.only_in, one.differences) for one in found]
    assert len(blocks) == len({*blocks})
    assert any(len(one.systems) > 1 for one in found)
