"""A machine as its fields: each with the rows that write it."""

from __future__ import annotations

import re

import pytest

from epochfence import language as lang
from epochfence.checker.named_systems import load_system
from epochfence.diagrams.levels.fields import fields_of, writes_to
from epochfence.diagrams.report.state import laid_out
from epochfence.language import Machine, Row, System, Table, instantiate
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.diagrams.levels.test_overlay import walked
from epochfence.tests.diagrams.levels.test_page import LEASE, ORDERS


def by_part(system: System, machine: str, *releases: str) -> dict[str, set[tuple[str, str]]]:
    """Of each part the rows that write it."""
    found = next(each for each in system.machines if each.name == machine)
    constants = instantiate(system).constants
    return {
        part.name: {way.row for way in part.pair.ways}
        for part in fields_of(system, found, releases, constants)
    }


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize(
    "name", [ORDERS, LEASE, "coordinators", "replication", "idempotence", "transactions"]
)
def test_what_a_run_changes_is_written_by_its_row(name: str) -> None:
    system = shipped(name) if name in SHIPPED else load_system(name)
    release = system.protocols.newest
    instance, trace = walked(system, release, seed=3)
    parts = {machine.name: by_part(system, machine.name, release) for machine in system.machines}
    states = laid_out(instance, trace.states)
    places = {
        cell: (section.name, re.sub(r"\[\w+\]", "", field.name))
        for section in states.sections
        for field in section.fields
        for cell in field.cells
    }
    looked_at = 0
    for step, changes in zip(trace.steps, states.changes, strict=True):
        for cell, _ in changes:
            machine, part = places[cell]
            if machine in parts:
                assert (step.table, step.row) in parts[machine][part]
                looked_at += 1
    assert looked_at > 0


def test_a_part_of_a_record_has_its_own_rows() -> None:
    parts = by_part(shipped("transactions"), "partition", "4.3")
    opened = {row for _, row in parts["producers.current_txn_first_offset"]}
    asked = {row for _, row in parts["verification_states"]}
    assert "append" in opened
    assert "verify" in asked - opened


def test_a_sequence_has_places() -> None:
    system = shipped("transactions")
    partition = next(machine for machine in system.machines if machine.name == "partition")
    constants = {**instantiate(system).constants, "cached_batches": 5}
    found = {part.name: part for part in fields_of(system, partition, ("4.3",), constants)}
    assert found["producers.batch_metadata"].places == 5
    assert found["producers.batch_metadata"].per == ("producer_id",)
    assert found["log_start_offset"].places == 0


def test_what_nobody_writes_to_has_no_fields() -> None:
    system = shipped("transactions")
    there = {machine.name: writes_to(system, machine) for machine in system.machines}
    assert there.pop("clock") is False
    assert all(there.values())


def test_an_update_is_of_the_parts_that_it_changes() -> None:
    pair = lang.record("Pair", a=lang.Int(0, 3), b=lang.Int(0, 3))
    machine = Machine("machine")
    held, one = machine.field("held", pair), machine.field("one", lang.Int(0, 3))
    rows = (
        Row("some", when=one == 1, set={held: lang.replace(held, a=1)}),
        Row("maybe", when=one == 2, set={held: lang.if_(one > 0, lang.replace(held, b=1), held)}),
        Row("one part", when=one == 3, set={held.b: 2}),
        Row("all", set={held: pair(a=1, b=1), one: one + 1}),
    )
    system = System("parts", (Table(machine, lang.event("tick"), rows),), (), terminal=True)
    parts = by_part(system, "machine", "1")
    assert {name: {row for _, row in ways} for name, ways in parts.items()} == {
        "held.a": {"some", "all"},
        "held.b": {"maybe", "one part", "all"},
        "one": {"all"},
    }
