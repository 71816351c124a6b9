"""A key's position: a number in every reader, and the end of its instances' interchangeability."""

import pytest

from epochfence.checker.check import Options, check
from epochfence.language import (
    Bool,
    DeclarationError,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Row,
    Set,
    System,
    Table,
    all_of,
    any_of,
    constant,
    each,
    event,
    instantiate,
    invariant,
    lift,
    position,
    set_of,
    variable,
)
from epochfence.tests.checker.plain_search import search

N = constant("N", 4, 1, 8)
RUNNER = Key("runner", N)
machine = Machine("race")
away = machine.field("away", Map(RUNNER, Bool()))
home = machine.field("home", Set(RUNNER))
r, other = RUNNER.variable("r"), RUNNER.variable("other")
favourite = machine.field("favourite", RUNNER)
invited = machine.field("invited", Set(RUNNER), set_of(0))
ahead = machine.field("ahead", Map(RUNNER, Bool()), each(r, r == 0))
number = variable("number", Int(0, N - 1))
starts = Table(machine, event("start", r), (Row("any", when=~away[r], set={away[r]: True}),))


def race(may_arrive: Expression) -> System:
    """Runners leave in any order, and come home where `may_arrive` lets `r`."""
    arrives = Table(
        machine,
        event("arrive", r),
        (Row("home", when=away[r] & may_arrive, set={home: home | set_of(r)}),),
    )
    went = invariant("Went", all_of(r, r.is_in(home).implies(away[r])), "Who is home was away.")
    return System(
        "race", (starts, arrives), (went,), constants=(N,), interchangeable=(RUNNER,), terminal=True
    )


in_order = all_of(other, (position(other) < position(r)).implies(other.is_in(home)))


def test_the_order_of_positions_is_the_same_in_native_code_and_in_the_model() -> None:
    instance = instantiate(race(in_order))
    found, expected = check(instance), search(instance)
    # k runners of 4 are home and away, the others home or not: 16 + 8 + 4 + 2 + 1
    assert (found.states, found.transitions) == (31, expected.transitions)
    assert found.states == expected.states
    assert dict(found.rows) == dict(zip(instance.row_names, expected.taken, strict=True))


@pytest.mark.parametrize(
    "condition",
    [
        in_order,
        any_of(number, away[number] & (number == 2)),
        lift(0).is_in(home) | (r == 0),
        lift(3).is_in(home) | ~away[r].implies(False),
        (r == favourite) | favourite.is_in(home),
        r.is_in(invited),
        ahead[r] | any_of(other, ahead[other] & other.is_in(home)),
    ],
    ids=[
        "position",
        "number as index",
        "number compared",
        "number sought in a set",
        "held by a constant",
        "in a constant set",
        "of another constant",
    ],
)
def test_keys_told_apart_are_not_reduced(condition: Expression) -> None:
    instance = instantiate(race(condition))
    found = check(instance)
    assert found.symmetry == []
    assert any("distinguishes them" in note for note in found.notes)
    assert found.states == check(instance, Options(symmetry=False)).states


def test_keys_not_told_apart_are_reduced() -> None:
    assert check(instantiate(race(lift(True)))).symmetry == ["runner"]


def test_only_a_key_has_a_position() -> None:
    with pytest.raises(DeclarationError, match=r"race\.arrive, row 'home': .*not a key"):
        race(position(lift(2)) == 2)
