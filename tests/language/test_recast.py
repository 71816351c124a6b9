"""Tables that keep a field in another place: what they read, set and leave out."""

from __future__ import annotations

import pytest

from epochfence.language import (
    Bool,
    DeclarationError,
    Expression,
    Int,
    Key,
    Machine,
    Row,
    Table,
    event,
    invariant,
)
from epochfence.language.recast import Recast

NODE = Key("node", 2)
counter, told = Machine("counter"), Machine("told")
count = counter.field("count", Int(0, 3))
heard = told.field("heard", Bool())
node = Machine("node", NODE)
copy = node.field("copy", Int(0, 3))
_count = copy.at(1)
step = event("step")
table = Table(
    counter,
    on=step,
    when=count < 3,
    others=(told,),
    rows=(Row("up", when=count < 2, set={count: count + 1, heard: True}),),
)


def _change(expression: Expression) -> Expression | None:
    return _count if expression is count else None


RECAST = Recast(_change, {counter: Machine("counter"), told: None}, (node,))


def test_a_field_is_read_and_set_in_its_other_place() -> None:
    there = RECAST.table(table)
    assert there.guard.same_as(_count < 3)
    (row,) = there.rows
    assert row.guard.same_as(_count < 2)
    assert [(target.same_as(_count), value) for target, value in row.set.items()] == [
        (True, row.set[_count])
    ]
    assert (_count + 1).same_as(row.set[_count])


def test_a_machine_that_is_left_out_is_not_among_the_others() -> None:
    there = RECAST.table(table)
    assert there.others == (node,)
    assert there.machine is not counter
    assert there.machine.name == "counter"


def test_a_property_is_about_the_other_place() -> None:
    item = RECAST.property(invariant("Low", count <= 3, "It is low."))
    assert item.expression.same_as(_count <= 3)
    assert item.name == "Low"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DeclarationError, match="is a field of node, not of counter"):
        Recast(_change, {told: None}).table(table)
