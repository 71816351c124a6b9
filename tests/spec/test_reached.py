"""The recorded runs that say why other runs don't take some rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from epochfence.checker.verdict.vacuity import declared_unreached, recorded_reasons
from epochfence.language import DeclarationError, Instance, System, instantiate
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.spec.systems.coverage.recorded_runs import reached
from epochfence.tests.spec.reached import FILE, RUNS, rows_taken


def test_the_file_has_the_declared_runs_and_rows_of_their_systems() -> None:
    known = json.loads(Path(FILE).read_text(encoding="utf-8"))
    assert [tuple(run) for run in known["runs"]] == [
        (name, release, dict(constants)) for name, release, constants in RUNS
    ]
    for run in reached():
        system = shipped(run.system)
        assert run.rows <= {
            f"{table.name}/{row.id}" for table in system.tables for row in table.rows
        }
        assert run.premises <= {item.name for item in system.properties}
        assert run.rows, run


def settings(system: System) -> Iterator[Instance]:
    """The system at the releases of recorded runs; the newest one also with each constant at its
    least, and without transactions."""
    releases = {run.protocol for run in reached()} & {*system.protocols.releases}
    least = [{constant.data.name: constant.data.low} for constant in system.constants]
    for release in sorted(releases):
        yield instantiate(system, release)
    for constants in least:
        with suppress(DeclarationError):  # a system may refuse such settings
            yield instantiate(system, None, constants)
    if "transactional" in {info.name for info in system.protocols.infos}:
        yield instantiate(system, switch_off=("transactional",))


@pytest.mark.parametrize("name", SHIPPED)
def test_no_reason_is_declared_that_recorded_runs_give(name: str) -> None:
    found = {
        item: reason
        for instance in settings(shipped(name))
        for item, reason in recorded_reasons(instance).items()
        if item in declared_unreached(instance)
    }
    assert found == {}


@pytest.mark.slow(2)
@pytest.mark.long
def test_a_recorded_run_takes_its_rows() -> None:
    recorded = reached()[-1]
    assert rows_taken(*RUNS[-1]) == set(recorded.rows)
