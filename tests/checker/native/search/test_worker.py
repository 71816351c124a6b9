"""A thread's buckets: none gets more states than it has room for."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.native.search import explore
from epochfence.language import Instance, Row, System, Table, instantiate
from epochfence.tests.checker.native.grouping import by_parts

BITS, RESETS, WIDE = 10, 16, 1 << 40


def resets() -> Instance:
    """Bits are set one by one. Several steps lead from each state to the same one: so one bucket
    gets many more states than any other."""
    machine = lang.Machine("m")
    bits = [machine.field(f"bit{at}", lang.Bool()) for at in range(BITS)]
    wide = [machine.field(f"wide{at}", lang.Int(0, WIDE)) for at in range(2)]
    gone = machine.field("gone", lang.Bool())
    rows = [Row(f"set{at}", when=~gone & ~bit, set={bit: True}) for at, bit in enumerate(bits)]
    rows[0] = Row("set0", when=~gone & ~bits[0], set={bits[0]: True, **dict.fromkeys(wide, WIDE)})
    for at in range(RESETS):
        nothing = dict.fromkeys(bits, False) | dict.fromkeys(wide, 0)
        rows.append(Row(f"reset{at}", when=~gone, set={**nothing, gone: True}))
    tables = tuple(Table(machine, lang.event(row.id), (row,)) for row in rows)
    nothing_set = ~bits[0] & (wide[0] == 0) & (wide[1] == 0)
    empty = lang.invariant("Empty", ~gone | nothing_set, "Nothing is set when all is gone.")
    return instantiate(System("resets", tables, (empty,), terminal=True))


@pytest.mark.slow(1)
@pytest.mark.parametrize("kept", ["whole", "by parts"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_bucket_that_is_full_is_emptied_before_the_next_states_are_expanded(
    kept: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore, "MOST_FILLED", 1)
    with ExitStack() as patches:
        made = patches.enter_context(by_parts()) if kept == "by parts" else [None]
        found = check(resets(), Options(threads))
    assert made
    states = 1 << BITS
    assert found.states == states + 1
    assert found.transitions == BITS * states // 2 + RESETS * states
