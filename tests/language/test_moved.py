"""Fields that a changed system keeps in another place."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Bool,
    Change,
    DeclarationError,
    Int,
    Key,
    Machine,
    Moved,
    Row,
    Sequence,
    System,
    Table,
    append,
    constant,
    event,
    instantiate,
    invariant,
    make,
    record,
    size,
)

NODES = constant("nodes", 2, 1, 3)
NODE = Key("node", NODES)
counter, other, node = Machine("counter"), Machine("other"), Machine("node", NODE)
count = counter.field("count", Int(0, 3))
heard = other.field("heard", Bool())
copy = node.field("copy", Int(0, 3))
step, spread = event("step"), event("spread")
TABLE = Table(
    counter,
    on=step,
    when=count < 3,
    others=(other,),
    rows=(Row("up", when=count < 2, set={count: count + 1, heard: True}),),
)
LOW = invariant("Low", count <= 3, "The count is low.")
SYSTEM = System("counts", (TABLE,), (LOW,), terminal=count == 2)
placed = Machine("counter")
MOVED = Moved({count: copy.at(1)}, {counter: placed, other: None})
SPREAD = Table(node, on=spread, when=copy == 0, rows=(Row("spread", set={copy: 1}),))
CHANGED = SYSTEM + Change(
    "copied", moved=MOVED, tables=(SPREAD,), machines=(node,), constants=(NODES,)
)


def test_a_field_is_read_and_set_in_its_other_place() -> None:
    table = CHANGED.tables[0]
    (row,) = table.rows
    assert table.guard.same_as(copy.at(1) < 3)
    assert row.guard.same_as(copy.at(1) < 2)
    ((target, value),) = row.set.items()
    assert target.same_as(copy.at(1))
    assert (copy.at(1) + 1).same_as(value)
    assert CHANGED.end.same_as(copy.at(1) == 2)


def test_a_machine_that_is_left_out_is_not_in_the_system() -> None:
    table = CHANGED.tables[0]
    assert table.machine is placed
    assert table.others == (node,)
    assert [machine.name for machine in CHANGED.machines] == ["counter", "node"]


def test_a_property_is_about_the_other_place() -> None:
    (item,) = CHANGED.properties
    assert item.expression.same_as(copy.at(1) <= 3)
    assert check(instantiate(CHANGED)).verdict is Verdict.HOLDS


def test_a_field_without_a_place_is_one_of_each_instance() -> None:
    old, new = Machine("node", NODE), Machine("node", NODE)
    old_copy, new_copy = old.field("copy", Int(0, 3)), new.field("kept", Int(0, 3))
    moved = Moved({old_copy: new_copy}, {old: new})
    assert moved.expression(old_copy + old_copy.at(1)).same_as(new_copy + new_copy.at(1))


def test_a_record_that_is_made_has_further_fields() -> None:
    short, long = record("Short", a=Int(0, 3)), record("Long", a=Int(0, 3), b=Int(0, 3), c=Bool())
    log = counter_log = Machine("log").field("entries", Sequence(short, 2))
    moved = Moved({}, records={short: long}, filled={"": {"b": 1}, "log.step": {"b": 2, "c": True}})
    entry = append(log, make(short, a=size(counter_log)))
    assert moved.expression(entry).same_as(append(log, make(long, a=size(log), b=1)))
    there = append(log, make(long, a=size(log), b=2, c=True))
    assert moved.expression(entry, "log.step").same_as(there)


def test_what_does_not_fit_is_refused() -> None:
    missing = Moved({count: copy.at(1)}, {counter: placed, other: None})
    with pytest.raises(DeclarationError, match="is a field of node, not of counter"):
        _ = SYSTEM + Change("copied", moved=missing)
    with pytest.raises(DeclarationError, match="is neither a field nor a parameter"):
        Moved({count + 1: copy})
