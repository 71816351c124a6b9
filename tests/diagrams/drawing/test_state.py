"""State diagrams: which row leads from where to where, and in which releases."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.drawing.graph import Graph
from epochfence.diagrams.drawing.state import ANY, StateDiagram, state_diagram
from epochfence.language import (
    Bool,
    DeclarationError,
    Enum,
    Expression,
    Key,
    Machine,
    Row,
    System,
    Table,
    enum,
    event,
    if_,
    instantiate,
    lift,
)
from epochfence.language.types import Value
from epochfence.model.engine.interpreter import Interpreter
from epochfence.spec.systems import SHIPPED, shipped

ORDERS = load_system(str(Path(__file__).parents[1] / "orders.py"))
ALL = ("1", "2", "3")


def machine_of(system: System, name: str) -> Machine:
    return next(machine for machine in system.machines if machine.name == name)


def drawn(system: System = ORDERS, name: str = "order") -> StateDiagram:
    return state_diagram(system, machine_of(system, name))


def changed(table: str, row: str, *rows: Row) -> System:
    """The orders with other rows in the place of one."""
    tables = tuple(
        replace(t, rows=tuple(n for r in t.rows for n in (rows if r.id == row else (r,))))
        if t.name == table
        else t
        for t in ORDERS.tables
    )
    assert [t.rows for t in tables] != [t.rows for t in ORDERS.tables]
    return replace(ORDERS, tables=tables)


def row_of(table: str, row: str) -> Row:
    return next(r for t in ORDERS.tables if t.name == table for r in t.rows if r.id == row)


def order_state(name: str) -> Expression:
    kind = machine_of(ORDERS, "order").fields["state"].type
    assert isinstance(kind, Enum)
    return getattr(kind, name)


def moves(diagram: StateDiagram) -> list[tuple[object, ...]]:
    return [
        (t.source, t.target, f"{t.event}: {t.row}", t.after, t.releases)
        for t in diagram.transitions
        if t.moves
    ]


PLACED = ("Place", "place")


def test_the_rows_that_move_an_order_are_exactly_these() -> None:
    assert moves(drawn()) == [
        ("Draft", "Placed", "written: in force", (PLACED,), ALL),
        ("Draft", "Held", "Place: hold", (), ALL),
        ("Placed", "Paid", "Pay: pay", (), ALL),
        ("Placed", "Shipped", "Pay: pay", (), ("1", "2")),
        ("Paid", "Shipped", "pay back: ship", (), ("1",)),
        ("Paid", "Refunded", "pay back: refund", (), ("2", "3")),
        ("Held", "Placed", "written: in force", (("written", "release"),), ALL),
    ]


def test_the_rows_that_leave_an_order_where_it_is() -> None:
    still = {(t.source, t.row) for t in drawn().transitions if not t.moves and t.event == "Pay"}
    assert still == {
        *((state, "not placed") for state in ("Draft", "Held")),
        *((state, "paid already") for state in ("Paid", "Shipped", "Refunded")),
    }


def test_the_states_of_an_order() -> None:
    states = {state.name: state for state in drawn().states}
    assert [(s.name, s.number) for s in states.values()] == [
        ("Draft", 0), ("Placed", 1), ("Paid", 2), ("Shipped", 3), ("Refunded", 5), ("Held", 6),
        ("Lost", 9),
    ]  # fmt: skip
    assert [s.name for s in states.values() if s.initial] == ["Draft"]
    assert [s.name for s in states.values() if s.terminal] == ["Shipped", "Refunded"]
    assert states["Held"].prepared == ("pending",)
    assert states["Lost"].releases == ()
    assert states["Shipped"].releases == ("1", "2")
    assert states["Refunded"].releases == ("2", "3")


def test_what_only_some_releases_have_is_marked() -> None:
    graph = drawn().graph()
    partial = {node.name: node.lines for node in graph.nodes if node.partial}
    assert partial == {"Shipped (3)": ("only in 1–2",), "Refunded (5)": ("only in 2–3",)}
    edges = {(edge.tail, edge.head): edge for edge in graph.edges}
    assert edges["Paid (2)", "Shipped (3)"].lines == ("pay back: ship [1]",)
    assert edges["Paid (2)", "Shipped (3)"].partial
    assert not edges["Placed (1)", "Paid (2)"].partial


def test_one_release_has_no_marks() -> None:
    graph = state_diagram(ORDERS, machine_of(ORDERS, "order"), ["1"]).graph()
    assert not any(part.partial for part in (*graph.nodes, *graph.edges))
    assert [node.name for node in graph.nodes if node.unused] == ["Refunded (5)", "Lost (9)"]


def test_a_row_follows_those_that_prepared_its_state() -> None:
    (line,) = [edge for edge in drawn().graph().edges if edge.head == "Placed (1)"][:1]
    assert line.lines == ("written: in force", "    after Place: place")


@pytest.mark.parametrize(
    ("table", "row"),
    [(t.name, r.id) for t in ORDERS.tables if t.machine.name == "order" for r in t.rows],
)
def test_each_row_counts(table: str, row: str) -> None:
    assert drawn(changed(table, row)).transitions != drawn().transitions


def test_an_altered_row_changes_the_diagram() -> None:
    pay = row_of("order.Pay", "pay")
    elsewhere = replace(pay, goto=order_state("Refunded"))
    assert ("Placed", "Refunded", "Pay: pay", (), ALL) in moves(
        drawn(changed("order.Pay", "pay", elsewhere))
    )
    named = replace(pay, id="settle")
    assert any(t.row == "settle" for t in drawn(changed("order.Pay", "pay", named)).transitions)
    never = replace(pay, when=False)
    assert not any(t.row == "pay" for t in drawn(changed("order.Pay", "pay", never)).transitions)


def test_rows_that_move_nothing_are_drawn_on_request() -> None:
    def loops(graph: Graph) -> set[str]:
        return {line for edge in graph.edges if edge.tail == edge.head for line in edge.lines}

    assert loops(drawn().graph()) == set()
    assert "Pay: not placed" in loops(drawn().graph(all_rows=True))


def test_a_machine_without_a_state_field_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"customer has no state field .*order"):
        drawn(name="customer")


# Machines of their own -------------------------------------------------------------------------

Light = enum("Light", "OFF", "DIM", "ON", "BLINKING", "BROKEN")


def a_system(*tables: Table) -> System:
    return System("lights", tables, ())


def test_a_row_that_leads_from_every_other_state_is_drawn_once() -> None:
    lamp = Machine("lamp")
    state = lamp.state_field("state", Light)
    turn = Table(
        lamp,
        event("turn"),
        tuple(
            Row(f"to {target}", when=state == getattr(Light, source), goto=getattr(Light, target))
            for source, target in zip(Light.names, Light.names[1:], strict=False)
        ),
    )
    smash = Table(lamp, event("smash"), (Row("smash", goto=Light.BROKEN),))
    diagram = state_diagram(a_system(turn, smash), lamp)
    assert sum(t.row == "smash" for t in diagram.transitions) == len(Light.names)
    edges = {(edge.tail, edge.head): edge.lines for edge in diagram.graph().edges}
    assert edges[ANY, "BROKEN (4)"] == ("smash",)
    assert edges["BLINKING (3)", "BROKEN (4)"] == ("turn: to BROKEN",)
    assert len(edges) == 5


def test_another_machine_that_sets_the_state_is_seen() -> None:
    place = Key("place", 2)
    lamp = Machine("lamp", place)
    state = lamp.state_field("state", Light)
    switch = Machine("switch")
    switch.field("used", Bool())
    press = event("press", place=place)
    lit = state.at(press.place)
    table = Table(
        switch,
        press,
        (
            Row("again", when=lit != Light.OFF),
            Row("light", set={lit: Light.ON}),
        ),
        others=(lamp,),
    )
    diagram = state_diagram(a_system(table), lamp)
    assert [(t.source, t.target, t.row) for t in diagram.transitions] == [("OFF", "ON", "light")]


def test_any_state_may_be_the_first() -> None:
    lamp = Machine("lamp")
    lamp.state = lamp.field("state", Light, any_initial=True)
    table = Table(lamp, event("wait"), (Row("wait"),))
    assert all(state.initial for state in state_diagram(a_system(table), lamp).states)


def test_an_event_that_is_not_taken_up_leads_nowhere() -> None:
    lamp = Machine("lamp")
    state = lamp.state_field("state", Light)
    table = Table(
        lamp, event("wait"), (Row("wait", goto=Light.ON),), when=lift(False) | (state == Light.ON)
    )
    assert state_diagram(a_system(table), lamp).transitions == ()


def test_a_next_state_depends_on_what_earlier_rows_left() -> None:
    lamp = Machine("lamp")
    state = lamp.state_field("state", Light)
    fused, shaken = lamp.field("fused", Bool()), lamp.field("shaken", Bool(), any_initial=True)
    press = event("press")
    may_go_on = if_(fused, state == Light.OFF, state == Light.ON)
    table = Table(
        lamp,
        press,
        (
            Row("stay", when=shaken & ~may_go_on),
            Row("go on", when=shaken, goto=if_(fused, Light.ON, Light.BROKEN)),
        ),
    )
    diagram = state_diagram(a_system(table), lamp)
    assert [(t.source, t.target) for t in diagram.transitions if t.moves] == [
        ("OFF", "ON"),
        ("ON", "BROKEN"),
    ]


# The diagram and the runs ----------------------------------------------------------------------


def walk(system: System, release: str, seed: int) -> Iterator[tuple[str, dict[str, Value]]]:
    """A random run: the rows taken, each with the state after it; the initial state first."""
    chance = random.Random(seed)
    interpreter = Interpreter(instantiate(system, release))
    names = interpreter.instance.row_names
    state = next(iter(interpreter.initial_states()))
    yield "", dict(interpreter.as_mapping(state))
    for _ in range(60):
        steps = [step for step in interpreter.steps(state) if step.state is not None]
        if not steps:
            return
        step = chance.choice(steps)
        assert step.state is not None
        state = step.state
        yield names[step.row], dict(interpreter.as_mapping(state))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["orders", *SHIPPED])
def test_what_runs_do_is_in_the_diagram(name: str, seed: int) -> None:
    system, chance = ORDERS if name == "orders" else shipped(name), random.Random(seed)
    for machine in system.machines:
        if machine.state is None:
            continue
        field = f"{machine.name}.{machine.state.data.name}"
        diagram = state_diagram(system, machine)
        prepared = {state.name for state in diagram.states if state.prepared}
        every = system.protocols.releases
        for release in (every[0], *chance.sample(every, 2), every[-1]):
            known = {
                (f"{t.table}/{t.row}", t.source, t.target)
                for t in diagram.transitions
                if release in t.releases
            }
            run = walk(system, release, seed)
            before = next(run)[1][field]
            for row, state in run:
                after = state[field]
                if machine.key is None:
                    pairs = [(before, after)]
                else:
                    assert isinstance(before, tuple)
                    assert isinstance(after, tuple)
                    pairs = zip(before, after, strict=True)
                for source, target in pairs:
                    if source != target:
                        assert any((row, s, target) in known for s in {source, *prepared}), row
                before = after
