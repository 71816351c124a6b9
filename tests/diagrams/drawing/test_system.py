"""System diagrams: who sends what to whom."""

from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.drawing.state import state_diagram
from epochfence.diagrams.drawing.system import system_graph
from epochfence.language import Channel, System
from epochfence.spec.releases.features import RELEASED
from epochfence.spec.systems import shipped

ORDERS = load_system(str(Path(__file__).parents[1] / "orders.py"))


def without_row(system: System, row: str) -> System:
    """Without its effects, that is: what a machine does on an event is said by one row at least."""
    nothing = {"goto": None, "set": {}, "reply": None, "send": ()}
    tables = tuple(
        replace(t, rows=tuple(replace(r, **nothing) if r.id == row else r for r in t.rows))
        for t in system.tables
    )
    return replace(system, tables=tables)


def test_messages_go_from_who_sends_them_to_whom_they_are_for() -> None:
    graph = system_graph(ORDERS)
    assert {(e.tail, e.head): e.lines for e in graph.edges} == {
        ("customer", "order"): ("Place", "may be lost or doubled:", "  Pay"),
        ("order", "customer"): ("PayResponse",),
    }


def test_what_happens_to_a_machine_stands_in_it() -> None:
    nodes = {node.name: node for node in system_graph(ORDERS).nodes}
    assert nodes["customer"].lines == ("one per customer",)
    assert nodes["customer"].inside == ("begin",)
    assert nodes["order"].lines == ("one instance",)
    assert nodes["order"].inside == ("written", "at most 1:", "  pay back")


def test_a_bound_that_events_share_is_said_at_each() -> None:
    happen = {t.on.name: t.on for t in ORDERS.tables}
    shared = replace(ORDERS, budgets={(happen["begin"], happen["pay back"]): 2})
    nodes = {node.name: node for node in system_graph(shared).nodes}
    assert nodes["customer"].inside == ("at most 2 in all:", "  begin")
    assert nodes["order"].inside == ("written", "at most 2 in all:", "  pay back")


def test_a_message_that_no_row_sends_is_not_drawn() -> None:
    without = without_row(ORDERS, "ask")
    assert {(e.tail, e.head) for e in system_graph(without).edges} == {("order", "customer")}


@pytest.mark.slow(1)
def test_messages_of_some_releases_are_marked() -> None:
    edges = system_graph(shipped("transactions")).edges
    sent = {(e.tail, e.head): e.lines for e in edges if not e.silent}
    assert sent["partition", "transaction"] == (
        "WriteTxnMarkersResponse",
        "from 3.6:",
        "  AddPartitionsToTxn v4",
    )
    assert sent["producer", "transaction"][-2:] == ("until 3.9:", "  AddPartitionsToTxn")
    old = system_graph(shipped("transactions"), ["2.5"])
    assert not any("AddPartitionsToTxn v4" in line for e in old.edges for line in e.lines)


def test_what_each_message_may_meet_stands_below_the_drawing() -> None:
    graph = system_graph(shipped("transactions"), ["2.5"])
    assert graph.notes[0] == "Each message may be lost."
    assert not any("lost" in line for edge in graph.edges for line in edge.lines)


def test_what_a_machine_reads_or_sets_of_another_is_drawn_apart() -> None:
    graph = system_graph(shipped("transactions"), ["2.5"], fields=True)
    assert ("producer", "application") in {(e.tail, e.head) for e in graph.edges if e.silent}
    assert ("application", "producer") not in {(e.tail, e.head) for e in graph.edges}
    assert graph.notes[-1] == "Dotted: reads or sets fields of the other machine."
    assert system_graph(ORDERS, fields=True).notes == ()
    without = system_graph(shipped("transactions"), ["2.5"])
    assert not any(edge.silent for edge in without.edges)
    assert {edge for edge in graph.edges if not edge.silent} == {*without.edges}


def test_a_machine_that_only_receives_is_there_as_well() -> None:
    tables = tuple(t for t in ORDERS.tables if t.machine.name == "customer")
    deaf = replace(
        ORDERS,
        tables=tables,
        properties=(),
        budgets={},
        channels=tuple(Channel(channel.message) for channel in ORDERS.channels),
    )
    assert [node.name for node in system_graph(deaf).nodes] == ["customer", "order"]


@pytest.mark.slow(1)
def test_what_nobody_sends_in_a_release_changes_nothing_there() -> None:
    system = shipped("transactions")
    transaction = next(m for m in system.machines if m.name == "transaction")
    used: dict[str, set[str]] = {}
    for step in state_diagram(system, transaction).transitions:
        used.setdefault(step.event, set()).update(step.releases)
    assert used["AddPartitionsToTxn"] == set(RELEASED[: RELEASED.index("4.0.0")])
    assert used["AddPartitionsByLeader"] == {*RELEASED[RELEASED.index("3.6") :], "trunk"}
    assert used["EndTxn"] == {*RELEASED, "trunk"}


def test_what_no_row_ever_sends_comes_from_outside() -> None:
    order = next(m for m in ORDERS.machines if m.name == "order")
    alone = replace(ORDERS, tables=tuple(t for t in ORDERS.tables if t.machine is order))
    assert state_diagram(alone, order) == state_diagram(ORDERS, order)
    silent = without_row(ORDERS, "ask")
    assert state_diagram(silent, order) == state_diagram(ORDERS, order)
