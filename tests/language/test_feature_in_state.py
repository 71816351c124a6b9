"""Features that are a part of the state."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from epochfence import language as lang
from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Change,
    Channel,
    DeclarationError,
    Expression,
    FeatureInState,
    Message,
    Operand,
    Row,
    System,
    Table,
)
from epochfence.model.engine.interpreter import Interpreter

newer = lang.feature("newer", "2", sentence="It adds two.")
RELEASES = lang.Protocols(("1", "2"), (newer,))

asker = lang.Machine("asker")
counter = lang.Machine("counter")
asked = asker.field("asked", lang.Int(0, 3))
is_newer = asker.field("is_newer", lang.Bool())
count = counter.field("count", lang.Int(0, 9))
Add: Message = lang.message("Add", counter, by=lang.Int(0, 1))
Added: Message = lang.message("Added", asker, answers=Add, error=lang.Bool())
ask, switch = lang.event("ask"), lang.event("switch")

SYSTEM = System(
    "adding",
    (
        Table(asker, ask, (Row("ask", set={asked: asked + 1}, send=(Add(by=0),)),), when=asked < 3),
        Table(
            counter,
            Add,
            (
                Row("add", set={count: count + 2}, during=newer),
                Row("add", set={count: count + 1}, during=~newer),
            ),
            response=Added,
        ),
    ),
    (lang.invariant("Few", count < 9, "Fewer than nine."),),
    channels=(Channel(Add), Channel(Added)),
    protocols=RELEASES,
    terminal=True,
)
SWITCH = Table(asker, switch, (Row("on", set={is_newer: True}),), when=~is_newer)


def change(
    name: str,
    holds: Mapping[str, Operand] | None = None,
    carried: Mapping[Message, Operand] | None = None,
    initials: Mapping[Expression, Operand] | None = None,
) -> Change:
    """The feature in the state, and an event that switches it on."""
    feature = FeatureInState(newer, holds=holds or {}, carried=carried or {}, without="of-old")
    return Change(
        name,
        "It changes.",
        in_state=(feature,),
        tables=(SWITCH,),
        budgets={switch: 1},
        initials=initials or {},
    )


CHANGED = SYSTEM + change("switched", carried={Add: is_newer})


def counted(system: System, release: str) -> set[int]:
    """What the counter comes to."""
    instance = lang.instantiate(system, release)
    machine = Interpreter(instance)
    at = machine.names.index("counter.count")
    seen = set(machine.initial_states())
    left = [*seen]
    while left:
        reached = {s.state for s in machine.steps(left.pop()) if s.state is not None} - seen
        seen |= reached
        left += reached
    return {value for state in seen if isinstance(value := state[at], int)}


def test_a_message_says_what_held_when_it_was_sent() -> None:
    assert max(counted(SYSTEM, "2")) == 6
    assert max(counted(SYSTEM, "1")) == 3
    assert counted(CHANGED, "2") == {0, 1, 2, 3, 4, 5, 6}


def test_rows_of_both_are_told_apart() -> None:
    names = lang.instantiate(CHANGED, "2").row_names
    assert [name for name in names if name.startswith("counter.Add")] == [
        "counter.Add/add",
        "counter.Add/add-of-old",
    ]


def test_where_no_release_has_it_nothing_changes() -> None:
    assert max(counted(CHANGED, "1")) == 3
    names = lang.instantiate(CHANGED, "1").row_names
    assert "counter.Add/add" not in names


def test_a_table_may_ask_its_own_state() -> None:
    by_counter = change("by itself", holds={"counter.Add": count > 1})
    assert counted(SYSTEM + by_counter, "2") == {0, 1, 2, 4}


def test_the_first_value_of_a_field_may_be_another() -> None:
    first = change("from the start", carried={Add: is_newer}, initials={is_newer: True})
    assert counted(SYSTEM + first, "2") == counted(SYSTEM, "2")


def test_every_engine_runs_it() -> None:
    result = check(lang.instantiate(CHANGED, "2"))
    assert result.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ({"counter.Ad": True}, r"no table or machine counter.Ad \(did you mean counter.Add\?"),
        ({"lamp": True}, "adding has no table or machine lamp"),
    ],
)
def test_a_table_that_is_not_there_is_named(holds: dict[str, Operand], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        _ = SYSTEM + change("wrong", holds=holds)


def test_what_is_no_feature_is_refused() -> None:
    with pytest.raises(DeclarationError, match="is not a feature: make one with feature"):
        FeatureInState(count)
