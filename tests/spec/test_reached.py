"""The recorded runs that say why other runs don't take some rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochfence.spec.systems import shipped
from epochfence.spec.systems.reached import reached
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
        assert run.rows, run


@pytest.mark.slow(2)
@pytest.mark.long
def test_a_recorded_run_takes_its_rows() -> None:
    recorded = reached()[-1]
    assert rows_taken(*RUNS[-1]) == set(recorded.rows)
