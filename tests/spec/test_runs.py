"""Fields that one kind of run leaves out, and what stands for them there."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    ONE_PROTOCOL,
    Bool,
    DeclarationError,
    Int,
    Key,
    Machine,
    Row,
    Sequence,
    System,
    Table,
    all_of,
    append,
    constant,
    event,
    instantiate,
    invariant,
    size,
)
from epochfence.model.engine.errors import UnknownFieldError
from epochfence.model.engine.machine import Machine as Running

LARGEST = constant("largest", 3, 1, 9, real=2**63 - 1, meaning="the largest offset")
LOG = Key("log", 2)


def system(*, stands: bool = True) -> tuple[System, Table]:
    """A log that is written to its end: a list of records in a bounded run, a number elsewhere."""
    keeper = Machine("keeper", LOG)
    log = keeper.field("log", Sequence(Bool(), LARGEST), only_bounded=True)
    end = keeper.field(
        "end", Int(0, LARGEST), only_real=True, stands_for=size(log) if stands else None
    )
    write = event("write", record=Bool())
    rows = (
        Row("full", when=end == LARGEST),
        Row("write", set={log: append(log, write.record), end: end + 1}),
    )
    table = Table(keeper, on=write, rows=rows)
    k = LOG.variable("k")
    within = invariant("Within", all_of(k, end.at(k) <= LARGEST), "The end is in range.")
    return System("logs", (table,), (within,), constants=(LARGEST,)), table


def test_a_bounded_run_has_what_a_field_stands_for() -> None:
    declared, _ = system()
    instance = instantiate(declared)
    assert [variable.name for variable in instance.variables] == ["keeper.log"]
    result = check(instance)
    assert (result.verdict, result.states) == (Verdict.HOLDS, 15**2)


def test_a_machine_at_real_ranges_leaves_out_the_rest() -> None:
    _, table = system()
    one = Running([table], ONE_PROTOCOL)
    for record in (False, True):
        assert one.handle("write", record=record).row == "write"
    assert one.state == {"end": 2}
    with pytest.raises(UnknownFieldError):
        one["log"]


def test_what_nothing_stands_for_is_not_read() -> None:
    with pytest.raises(DeclarationError, match="real ranges alone"):
        system(stands=False)


def test_only_what_is_of_real_ranges_stands_for_something_else() -> None:
    with pytest.raises(DeclarationError, match="is in all systems, and only what is only_real"):
        Machine("m").field("f", Bool(), stands_for=LARGEST)
