"""Counterexamples taken again with bugs mended, so that fewer runs are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.many.matrix import DEADLOCK, matrix
from epochfence.checker.many.sweep import Piece
from epochfence.checker.trace.reproduction import still_broken
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Int,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    event,
    feature,
    instantiate,
    invariant,
)

FIXES = tuple(feature(f"fix{name}", None, sentence=f"Bug {name} is mended.") for name in "abc")
FIX_A, FIX_B, FIX_C = FIXES


def counter() -> System:
    """A counter that is to stay at 0, with two bugs that let it go, and one that is of `up` too and
    matters for nothing."""
    machine = Machine("machine")
    x = machine.field("x", Int(0, 2))
    tables = (
        Table(
            machine,
            event("up"),
            (
                Row("two steps", when=(x == 1) & ~FIX_C, set={x: 2}),
                Row("go", when=(x == 0) & ~FIX_A, set={x: 1}),
            ),
        ),
        Table(machine, event("over"), (Row("go", when=(x == 0) & ~FIX_B, set={x: 1}),)),
    )
    return System(
        "counter",
        tables,
        (invariant("Zero", x == 0, "The counter stays at 0."),),
        terminal=True,
        protocols=Protocols(("1",), FIXES),
    )


@dataclass(frozen=True)
class Bug:
    """A known bug of the counter."""

    id: str
    fix: tuple[str, ...]
    property: str = "Zero"
    system: str = "counter"
    since: str | None = None


BUGS = [Bug(name, (f"fix{name}",)) for name in "abc"]
PIECE = Piece(counter(), "1", ())


def counterexample(*on: str) -> Any:
    result = check(instantiate(counter(), "1", switch_on=on), Options(keep_going=True))
    return result.as_json()["properties"][0]["trace"]


@pytest.mark.parametrize(
    ("found_with", "again_with", "again"),
    [
        ((), (), True),
        ((), ("fixc",), True),
        (("fixb",), ("fixa",), False),
        (("fixb",), ("fixb", "fixc"), True),
        (("fixa",), ("fixb",), False),
    ],
)
def test_a_counterexample_is_one_of_another_instance_where_its_rows_are_there(
    found_with: tuple[str, ...], again_with: tuple[str, ...], again: bool
) -> None:
    trace = counterexample(*found_with)
    there = instantiate(counter(), "1", switch_on=again_with)
    assert still_broken(there, "Zero", trace) is again


def test_what_a_run_does_not_break_is_not_still_broken() -> None:
    instance = instantiate(counter(), "1")
    trace = counterexample()
    assert not still_broken(instance, DEADLOCK, trace)
    assert not still_broken(instance, "Zero", trace | {"loop": 0})
    first = {**trace, "states": trace["states"][:1], "steps": []}
    assert not still_broken(instance, "Zero", first)
    elsewhere = [{"machine.x": 2}, *trace["states"][1:]]
    assert not still_broken(instance, "Zero", {**trace, "states": elsewhere})
    assert not still_broken(
        instance, "Zero", {**trace, "steps": [trace["steps"][0] | {"row": "two steps"}]}
    )


def test_as_few_bugs_are_named_as_it_takes() -> None:
    """Neither bug explains it alone, and the third has nothing to do with it."""
    done: list[list[str]] = []
    found = matrix(
        PIECE,
        ["1"],
        [BUGS[2], *BUGS[:2]],
        on_result=lambda result: done.append(sorted(result["features"])),
    )
    cell = found.cell("1", "Zero")
    assert (cell.verdict, sorted(cell.bugs)) == ("broken", ["a", "b"])
    assert ["fixc"] not in done, "the counterexample goes through without that bug as well"
    assert len(done) <= 5


def test_nothing_is_explained_where_all_bugs_together_do_not_do() -> None:
    found = matrix(PIECE, ["1"], [BUGS[0], BUGS[2]])
    assert found.cell("1", "Zero").is_unexplained


def test_what_settles_to_the_same_is_explored_once() -> None:
    """A feature that decides nothing, as another one does, makes no case of its own."""
    later = feature("later", "2", sentence="Comes with 2.")
    machine = Machine("machine")
    x = machine.field("x", Int(0, 1))
    both = Table(machine, event("up"), (Row("both", when=later, during=FIX_A, set={x: 1}),))
    system = System(
        "later",
        (both,),
        (invariant("Zero", x == 0, "It stays at 0."),),
        terminal=True,
        protocols=Protocols(("1", "2"), (later, FIX_A)),
    )
    piece = Piece(system, "1", ())
    for more, wanted in (((), ["1"]), (("fixa",), ["1", "2"])):
        done: list[str] = []
        matrix(
            replace(piece, switch_on=more),
            ["1", "2"],
            on_result=lambda result, done=done: done.append(result["protocol"]),
        )
        assert done == wanted


def test_a_run_for_counterexamples_alone_ends_with_the_last_of_them() -> None:
    instance = instantiate(counter(), "1")
    whole = check(instance, Options(keep_going=True))
    only = check(instance, Options(keep_going=True, counterexamples_only=True))
    assert (whole.verdict, only.verdict) == (Verdict.BROKEN, Verdict.BROKEN)
    assert only.states < whole.states
    assert only.properties == whole.properties
    assert not only.vacuous
    mended = instantiate(counter(), "1", switch_on=("fixa", "fixb"))
    assert check(mended, Options(keep_going=True, counterexamples_only=True)).verdict is (
        Verdict.HOLDS
    )
