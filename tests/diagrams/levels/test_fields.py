"""A machine as its fields: each with the rows that write it."""

from __future__ import annotations

import re

import pytest

from epochfence.diagrams.levels.fields import fields_of, writes_to
from epochfence.diagrams.report.state import laid_out
from epochfence.language import System, instantiate
from epochfence.spec.load import load_system
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


@pytest.mark.sample(3, of=6)
@pytest.mark.parametrize("name", [ORDERS, LEASE, "coordinators", "replication", "idempotence",
                                  "transactions"])  # fmt: skip
def test_what_a_run_changes_is_written_by_its_row(name: str) -> None:
    system = shipped(name) if name in SHIPPED else load_system(name)
    release = system.protocols.newest
    instance, trace = walked(system, release, seed=3)
    parts = {machine.name: by_part(system, machine.name, release) for machine in system.machines}
    states = laid_out(instance, trace.states)
    places = {cell: (section.name, re.sub(r"\[\w+\]", "", field.name))
              for section in states.sections for field in section.fields
              for cell in field.cells}  # fmt: skip
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
    marked = {row for table, row in parts["producers.coordinator_epoch"]}
    appended = {row for table, row in parts["producers.batch_metadata"]}
    assert "append" in appended
    assert parts["log"] != parts["producers.batch_metadata"]
    assert marked | appended


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
