"""Paths: what they lead to, what is possible there, why the rest isn't, and goals."""

from __future__ import annotations

import random

import pytest

from epochfence import language as lang
from epochfence.checker.named_systems import load_system
from epochfence.diagrams.explorer.goals import GoalError, goal_of, places
from epochfence.diagrams.explorer.session import PathError, Run, Session, as_text, read_path
from epochfence.diagrams.explorer.until import until
from epochfence.diagrams.explorer.view import Views, comparable
from epochfence.language import Instance, Machine, Row, System, Table, event, instantiate, invariant
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.cli.test_cli import ROOT
from epochfence.tests.systems.counter import Ticker

LEASE = str(ROOT / "docs" / "examples" / "lease.py")


@pytest.fixture(scope="module")
def lease() -> Session:
    return Session(instantiate(load_system(LEASE), "1"))


@pytest.fixture(scope="module")
def held(lease: Session) -> Run:
    """client0 has the lock, and nothing else has happened."""
    found = until(
        lease.instance, lease.initials[0], "client0.state = HOLDING", places(lease.instance)
    )
    return lease.run(lease.extended((0,), found.states))


@pytest.mark.parametrize("system", [LEASE, "idempotence"])
def test_a_path_is_a_run_of_the_executable_model(system: str) -> None:
    session = Session(instantiate(load_system(system)))
    plain, drawn, path = Interpreter(session.instance), random.Random(1), (0,)
    for _ in range(12):
        state = session.run(path).state
        possible = session.steps(state)
        steps = list(plain.steps(state))
        assert [(s.row, s.bound, s.state) for s in possible] == [
            (s.row, s.bound, s.state) for s in steps
        ]
        if not possible:
            break
        path = (*path, drawn.randrange(len(possible)))
    run = session.run(path)
    assert session.path_of(run.states, run.steps) == path
    assert read_path(as_text(path)) == path


@pytest.mark.parametrize(
    "text", ["0.x", "-1", "0..1", "1" * 9, "0." * 5_000 + "0", "٣", "0 1", ".", "1e3"]
)
def test_what_is_no_path_is_said_in_a_line(text: str) -> None:
    with pytest.raises(PathError, match="path"):
        read_path(text)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ((1,), "there is no first state 1: first states, counted from 0: 1"),
        ((0, 99), "step 1 can't be number 99: steps possible there, counted from 0: "),
        ((0, 0, 0, 0, 0, 77), "step 5 can't be number 77"),
        ((0,) * 2_000, "a path has at most"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(
    path: tuple[int, ...], says: str, lease: Session
) -> None:
    with pytest.raises(PathError, match=says):
        lease.run(path)


def test_each_table_that_can_not_happen_says_why(lease: Session, held: Run) -> None:
    """Of each instance that has no step, the parts of a condition that are false: they are."""
    blocked = {item.table: item.blocked for item in lease.blocked(held.state)}
    (idle,) = (one for one in blocked["client.acquire"] if one.who == "client0")
    assert idle.why == ("state.at(client) = HOLDING, not IDLE",)
    assert blocked["storage.Write"][0].why == ("the message isn't in flight",)
    possible = {step.action.table for step in lease.steps(held.state)}
    tables = {action.table for action in lease.instance.actions}
    assert possible | blocked.keys() == tables


def test_rows_that_are_not_taken_say_why_each() -> None:
    machine = Machine("machine")
    x, n = machine.field("x", lang.Int(0, 3)), lang.constant("n", 0, 0, 1)
    rows = (Row("far", when=x > 2, set={x: 0}), Row("near", when=(x > 1) & (x != 0)))
    table = Table(machine, event("tick"), rows)
    off = Table(machine, event("off"), (Row("go", set={x: 1}),), when=n > 0)
    system = System(
        "rows", (table, off), (invariant("I", x >= 0, "I."),), constants=(n,), terminal=True
    )
    session = Session(instantiate(system))
    tick, never = session.blocked(session.initials[0])
    assert [(row.row, row.why) for row in tick.blocked[0].rows] == [
        ("far", ("x = 0, not above 2",)),
        ("near", ("x = 0, not above 1", "x = 0")),
    ]
    assert never.blocked[0].why == ("ruled out by these constants and this release",)


def test_what_a_state_breaks_is_told(lease: Session, held: Run) -> None:
    known = places(lease.instance)
    found = until(lease.instance, lease.initials[0], "NoStaleWrite is broken", known)
    run = lease.run(lease.extended((0,), found.states))
    assert [item.item.name for item in lease.broken(run)] == ["NoStaleWrite"]
    assert not list(lease.broken(held))


@pytest.mark.parametrize(
    ("goal", "steps"),
    [
        ("client0.state = HOLDING", 3),
        ("client1.state = HOLDING and client1.lease >= 2", 6),
        ("service.newest != 0", 2),
        ("client0.lease = 0", 0),
    ],
)
def test_a_goal_is_met_by_a_shortest_run(lease: Session, goal: str, steps: int) -> None:
    found = until(lease.instance, lease.initials[0], goal, places(lease.instance))
    assert len(found.states) == steps + 1, found.why
    assert lease.run(lease.extended((0,), found.states)).states == found.states


def test_a_goal_that_nothing_comes_to_says_so(lease: Session, held: Run) -> None:
    found = until(lease.instance, held.state, "service.newest = 0", places(lease.instance))
    assert found.states == ()
    assert found.why.startswith("no run from here reaches it: ")


@pytest.mark.parametrize(
    ("goal", "says"),
    [("", "1 to 300"), ("x" * 301, "1 to 300"), ("nonsense", "write PART = VALUE"),
     ("client0.stat = IDLE", "did you mean client0.state"), ("client0.state = GONE", "the value"),
     ("client0.state < IDLE", "have the value"), ("Nothing is broken", "no property"),
     ("service.newest = 9999999999999999999999", "have the value"),
     ("client0.state = IDLE and", "write PART = VALUE|no value")],
)  # fmt: skip
def test_what_is_no_goal_is_said_in_a_line(lease: Session, goal: str, says: str) -> None:
    with pytest.raises(GoalError, match=says):
        goal_of(lease.instance, goal, places(lease.instance))


def every_kind() -> Instance:
    key = lang.Key("side", 2)
    machine = Machine("machine", key)
    colour = lang.enum("Colour", "RED", "BLUE")
    flag = machine.field("flag", lang.Bool())
    hue = machine.field("hue", lang.Map(key, colour))
    other = machine.field("other", lang.Optional(colour))
    which = machine.field("which", key)
    of = lang.record("Of", number=lang.Int(0, 2), more=lang.Sequence(lang.Int(0, 1), 2))
    held = machine.field("held", of)
    table = Table(machine, event("turn"), (
        Row("turn", when=~flag, set={flag: True, hue[machine.this]: colour.BLUE,
            other: lang.some(colour.BLUE), which: machine.this, held.number: 2}),
    ))  # fmt: skip
    return instantiate(
        System("kinds", (table,), (invariant("I", lang.lift(True), "I."),), terminal=True)
    )


@pytest.mark.parametrize(
    "goal",
    ["side1.flag = yes", "side1.flag != no", "side1.hue[side1] = BLUE", "side1.hue[side1] != RED",
     "side1.other = BLUE", "side1.other != none", "side1.which = side1", "side1.held.number = 2",
     "side1.held.number > 1 and side0.flag = no"],
)  # fmt: skip
def test_goals_name_parts_of_any_kind(goal: str) -> None:
    session = Session(every_kind())
    known = places(session.instance)
    assert "side1.held.more" not in known
    found = until(session.instance, session.initials[0], goal, known)
    assert len(found.states) == 2, found.why
    (step,) = lane_of(session, found.states)
    assert step == "side1"


def lane_of(session: Session, states: tuple[tuple[object, ...], ...]) -> list[str]:
    run = session.run(session.extended((0,), states))  # type: ignore[arg-type]
    return [session.shown(a, b).actor for a, b in zip(run.states, run.steps, strict=False)]


@pytest.mark.slow(1)
def test_another_release_beside_says_what_it_does_otherwise() -> None:
    old, new = (Session(instantiate(load_system(LEASE), protocol)) for protocol in ("1", "2"))
    assert comparable(old.instance, new.instance)
    found = until(old.instance, old.initials[0], "NoStaleWrite is broken", places(old.instance))
    run = old.run(old.extended((0,), found.states[:-1]))
    shown = Views(old).of(run, new, "", {})["steps"]
    assert "<b>2:</b> row " in shown
    assert "2: the same" in shown
    assert "can&#39;t happen" not in shown


def test_steps_that_change_nothing_come_last() -> None:
    counter = Ticker()
    look = Table(counter.machine, event("look"), (Row("see"),))
    session = Session(counter.instance(tables=(look, counter.table(when=counter.x < 3))))
    shown = Views(session).of(session.run((0,)), None, "", {})["steps"]
    places = [shown.index(f'data-take="{number}"') for number in (1, 0)]
    assert places == sorted(places)
    assert shown.count("changes nothing") == 1
