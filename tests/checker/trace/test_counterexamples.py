"""Counterexamples that differ in their rows, and of the shortest runs the one that is shown: each
against all runs of small systems, taken on the interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.output.summary import enumeration_lines
from epochfence.checker.trace.counterexamples import Tried, enumerate_from, rows_of
from epochfence.checker.trace.trace import Trace, TraceStep, actor_of
from epochfence.checker.verdict.result import Counterexample, Result, Verdict
from epochfence.checker.verdict.violation import violating_steps
from epochfence.cli import app
from epochfence.language import Instance, Row, System, Table, instantiate, invariant
from epochfence.model.engine.interpreter import FullState, Interpreter

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
MANY = 50

door = lang.Machine("door")
x = door.field("x", lang.Int(0, 6))
lamp = door.field("lamp", lang.Bool())
walk = Row("walk", when=x < 5, set={x: x + 1})
run = Row("run", when=x < 4, set={x: x + 2})
by_lamp = Row("by the lamp", when=lamp & (x == 0), set={x: 5})
TABLES = (
    Table(door, lang.event("go on"), (walk,)),
    Table(door, lang.event("hurry"), (run,)),
    Table(door, lang.event("use the light"), (by_lamp,)),
    Table(door, lang.event("turn"), (Row("light", when=~lamp, set={lamp: True}),)),
)


def doors(*, deadlock: bool = False, step: bool = False) -> Instance:
    """Ways to 5: by two kinds of steps, or by a lamp."""
    far = lang.step_property("NotFar", lang.after(x) < 5, "5 is never come to.") if step else None
    close = far or invariant("Close", x < 5, "x stays below 5.")
    properties = () if deadlock else (close,)
    terminal = x < 5 if deadlock else True
    return instantiate(System("doors", TABLES, properties, terminal=terminal))


def of_example(name: str) -> Instance:
    return instantiate(load_system(str(EXAMPLES / name)), "1")


SYSTEMS = {
    "invariant": lambda: doors(),
    "step": lambda: doors(step=True),
    "deadlock": lambda: doors(deadlock=True),
    "resend": lambda: of_example("resend.py"),
}


def is_faulty(machine: Interpreter, state: FullState) -> bool:
    """Whether an invariant is broken here, or a run can't go on and should."""
    instance = machine.instance
    if any(
        item.kind == "invariant" and not machine.holds(item.expression, state)
        for item in instance.properties
    ):
        return True
    return not machine.holds(instance.terminal, state) and not any(machine.steps(state))


def faults(instance: Instance) -> Iterator[tuple[int, frozenset[str]]]:
    """Of each set of rows with which some run comes to a fault, the steps of the shortest one."""
    machine, names = Interpreter(instance), instance.row_names
    here = {(state, frozenset[str]()) for state in machine.initial_states()}
    seen = set(here)
    depth = 0
    while here:
        following: set[tuple[FullState, frozenset[str]]] = set()
        for state, rows in here:
            if is_faulty(machine, state):
                yield depth, rows
                continue
            violating = {
                step.row for step, _ in violating_steps(machine, state, instance.properties)
            }
            for step in machine.steps(state):
                arrived = rows | {names[step.row]}
                if step.row in violating:
                    yield depth + 1, arrived
                elif step.state is not None:
                    following.add((step.state, arrived))
        here = following - seen
        seen |= here
        depth += 1


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("reduced", [True, False])
def test_each_is_the_shortest_that_lacks_a_row_of_every_one_before(
    name: str, reduced: bool
) -> None:
    instance = SYSTEMS[name]()
    options = Options(symmetry=reduced, slicing=reduced, all_traces=MANY)
    enumeration = check(instance, options).enumeration
    assert enumeration is not None
    assert enumeration.are_all
    left = list(faults(instance))
    for item in enumeration.found:
        rows = frozenset(rows_of(item.trace))
        assert rows in {each for _, each in left}
        assert len(item.trace.steps) == min(steps for steps, _ in left)
        assert rows.isdisjoint(item.without)
        left = [(steps, each) for steps, each in left if not rows <= each]
    assert not left
    assert len(enumeration.found) >= (3 if name == "invariant" else 1)


def test_a_row_that_is_left_out_hides_what_is_behind_it() -> None:
    """Runs are those of the system: without `first`, `second` isn't taken in its place."""
    rows = (Row("first", when=x < 1, set={x: 5}), Row("second", set={x: 6}))
    table = Table(door, lang.event("go on"), rows, when=x < 5)
    close = invariant("Close", x < 5, "x stays below 5.")
    result = check(
        instantiate(System("hidden", (table,), (close,), terminal=True)), Options(all_traces=MANY)
    )
    assert len(result.counterexamples) == 1
    assert result.enumeration is not None
    assert result.enumeration.are_all


def test_no_more_are_told_than_were_looked_for() -> None:
    result = check(doors(), Options(all_traces=2))
    assert len(result.counterexamples) == 2
    assert list(enumeration_lines(result))[1:] == ["others may exist: no more were requested"]
    every = check(doors(), Options(all_traces=MANY))
    assert "no others exist: every run" in " ".join(enumeration_lines(every))
    assert check(doors()).enumeration is None


def test_a_search_that_is_ended_leaves_what_was_found() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.search == 3:
            raise KeyboardInterrupt

    result = check(doors(), Options(all_traces=MANY), interrupt)
    assert result.verdict is Verdict.BROKEN
    enumeration = result.enumeration
    assert enumeration is not None
    assert not enumeration.are_all
    assert enumeration.stopped == "interrupted"
    assert "others may exist: the search ended early" in " ".join(enumeration_lines(result))


def test_properties_that_a_later_one_breaks_are_broken() -> None:
    dark = invariant("Dark", ~(lamp & (x == 4)), "At 4 it is dark.")
    close = invariant("Close", x < 5, "x stays below 5.")
    result = check(
        instantiate(System("doors", TABLES, (dark, close), terminal=True)), Options(all_traces=MANY)
    )
    assert [(item.name, item.verdict) for item in result.properties] == [
        ("Dark", "broken"),
        ("Close", "broken"),
    ]
    assert {item.broken for item in result.counterexamples} == {"Dark", "Close"}


def test_a_row_is_left_out_of_as_many_searches_as_it_takes() -> None:
    """Three faults of which each pair shares a row: found with two rows left out at once."""

    def example(*rows: str) -> Counterexample:
        steps = tuple(TraceStep("a", row, row, (), (), table="t") for row in rows)
        return Counterexample(Verdict.BROKEN, "P", (), Trace((), steps, (), ""))

    every = [example(*"ab"), example(*"bcd"), example(*"acde")]

    def look(_: int, off: frozenset[str]) -> Tried:
        here = [item for item in every if off.isdisjoint(rows_of(item.trace))]
        return Tried(here[0] if here else None, "", 1)

    done = enumerate_from(every[0], MANY, look)
    assert done.found == every
    assert done.are_all


# Of the shortest runs ----------------------------------------------------------------------------


def changes(trace: Trace | None) -> int:
    assert trace is not None
    return sum(a.actor != b.actor for a, b in pairwise(trace.steps))


def fewest(instance: Instance, result: Result) -> int:
    """The fewest changes of actor of all runs of as many steps that come to a fault."""
    machine = Interpreter(instance)
    assert result.trace is not None
    ways: dict[tuple[FullState, str], int] = {(s, ""): 0 for s in machine.initial_states()}
    found: list[int] = []
    for depth in range(len(result.trace.steps)):
        following: dict[tuple[FullState, str], int] = {}
        for (state, actor), count in ways.items():
            violating = {
                (step.row, step.bound)
                for step, _ in violating_steps(machine, state, instance.properties)
            }
            for step in machine.steps(state):
                who = actor_of(step)
                now = count + (actor not in ("", who))
                if (step.row, step.bound) in violating:
                    found += [now] if depth == len(result.trace.steps) - 1 else []
                elif step.state is not None:
                    place = step.state, who
                    following[place] = min(now, following.get(place, now))
        ways = following
    found += [count for (state, _), count in ways.items() if is_faulty(machine, state)]
    return min(found)


@pytest.mark.parametrize("name", ["lease.py", "resend.py"])
@pytest.mark.parametrize("reduced", [True, False])
def test_the_run_with_the_fewest_changes_of_actor_is_shown(name: str, reduced: bool) -> None:
    instance = of_example(name)
    result = check(instance, Options(symmetry=reduced, slicing=reduced))
    assert changes(result.trace) == fewest(instance, result)


# On the command line ------------------------------------------------------------------------------


def test_each_is_written_to_a_file_that_replay_takes(tmp_path: Path) -> None:
    first = tmp_path / "lease.itf.json"
    asked = ["check", str(EXAMPLES / "lease.py"), "--protocol", "1", "--all-traces", "3"]
    meta = {"system": asked[1], "protocol": "1", "features": [], "constants": {}}
    earlier = json.dumps({"#meta": meta, "states": [{}]})
    (tmp_path / "lease-3.itf.json").write_text(earlier, "utf-8")
    (tmp_path / "lease-4.itf.json").write_text("somebody's own", "utf-8")
    done = CliRunner().invoke(app, [*asked, "--trace", str(first)])
    assert done.exit_code == Verdict.BROKEN.value
    assert f"removed {tmp_path}/lease-3.itf.json, a trace of an earlier run" in done.stderr
    assert "\nCounterexample 2 of 2, the shortest without service.lease expires" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "lease-2.itf.json",
        "lease-4.itf.json",
        "lease.itf.json",
    ]
    again = CliRunner().invoke(app, ["replay", str(tmp_path / "lease-2.itf.json")])
    assert again.exit_code == Verdict.BROKEN.value
    assert "The run, in 17 steps" in again.output


@pytest.mark.parametrize("more", [["--trace", "-"], ["--progress"], ["--engine", "spark"]])
def test_what_does_not_go_with_several_is_told_in_a_line(more: list[str]) -> None:
    asked = ["check", str(EXAMPLES / "lease.py"), "--protocol", "1", "--all-traces", "3"]
    done = CliRunner().invoke(app, [*asked, *more])
    assert done.exit_code == Verdict.USAGE.value
    assert done.stderr.count("\n") == 1
    assert "--all-traces" in done.stderr
