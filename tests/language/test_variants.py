"""A system with another implementation's rows before its own."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    DeclarationError,
    Int,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    Variant,
    event,
    feature,
    instantiate,
    invariant,
    varied,
)

counter = Machine("counter")
x = counter.field("x", Int(0, 4))
up, reset = event("up"), event("reset")
careful = feature("careful", "1", sentence="It doesn't skip a number.")
system = System(
    "counts", (Table(counter, up, (Row("up", when=x < 3, set={x: x + 1}),)),),
    (invariant("Small", x <= 3, "x is at most 3."),), terminal=True, protocols=Protocols(("1",)),
)  # fmt: skip
SKIP = Table(counter, up, (Row("skip", when=x == 2, set={x: x + 2}, during=~careful),))
hasty = Variant("hasty", "It skips.", (SKIP,), (careful,))


def test_a_variants_rows_come_first_where_its_feature_is_off() -> None:
    hasty_system = varied(system, hasty)
    assert hasty_system.name == "counts+hasty"
    assert check(instantiate(hasty_system)).verdict is Verdict.HOLDS
    result = check(instantiate(hasty_system, switch_off=["careful"]))
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    assert result.trace.taken == ["up/up", "up/up", "up/skip"]


def test_a_table_that_the_system_lacks_is_added_with_its_budget() -> None:
    table = Table(counter, reset, (Row("to the top", set={x: 4}),))
    result = check(instantiate(varied(system, Variant("top", "", (table,), (), {reset: 1}))))
    assert result.trace is not None
    assert result.trace.taken == ["reset/to the top"]


def test_the_system_stays_as_it_is() -> None:
    before = system.tables
    varied(system, hasty)
    assert system.tables is before
    assert len(before[0].rows) == 1


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ((SKIP, SKIP), "variant twice: two tables of one name"),
        ((Table(counter, up, (Row("up", during=~careful),)),), "two rows"),
        ("up", "is the text 'up'"),
    ],
)
def test_what_does_not_fit_is_told(tables: tuple[Table, ...], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        varied(system, Variant("twice", "", tables, (careful,)))
