"""A few disturbances of the matrix (`make kill`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from epochfence.tests.kill.disturb import DISTURBANCES, STUCK, Ended, unfit, usual
from epochfence.tests.kill.run import HEAD, Tally, row, table
from epochfence.tests.kill.surfaces import DISK, LOCAL, PROVE, SWEEP, Surface

SPARKS_OWN = """Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
OF_A_TASK = SPARKS_OWN.replace("pyspark/daemon.py", "epochfence/tasks.py")


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("surface", "kinds"),
    [
        *((LOCAL, (kind,)) for kind in DISTURBANCES),
        *((surface, ("kill",)) for surface in (DISK, SWEEP, PROVE)),
    ],
)
def test_disturbed_runs_come_to_the_same(
    surface: Surface, kinds: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    normal = usual(surface, tmp_path)
    for number, kind in enumerate(kinds):
        place = tmp_path / str(number)
        place.mkdir()
        surface.prepare(place)
        drawn = random.Random(f"{seed} {surface.name} {number}")
        assert DISTURBANCES[kind](surface, normal, place, drawn).wrong == ""


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (-9, "", ""),
        (2, "level 1: 1 states\nepochfence: can't write run: No space left on device", ""),
        (1, "epochfence: internal error", "exit 1"),
        (2, "", "exit 2 without a line"),
        (20, "Traceback (most recent call last):\nMemoryError", "a traceback: "),
        (2, SPARKS_OWN + "epochfence: Spark ended", ""),
        (2, f"Traceback (most recent call last):\n{SPARKS_OWN}epochfence: Spark ended", ""),
        (2, "epochfence: Spark ended\nTraceback (most recent call last):\n", ""),
        (2, f"PythonException: {OF_A_TASK}epochfence: Spark ended", ""),
        (0, f"{STUCK} processes stayed", "a traceback: "),
        (0, SPARKS_OWN.replace("pyspark/daemon.py", "epochfence/check.py"), "a traceback: "),
    ],
)
def test_what_no_run_may_do(code: int, error: str, says: str) -> None:
    assert unfit(Ended(code, error, None, 0, 0)).startswith(says)
    assert bool(unfit(Ended(code, error, None, 0, 0))) == bool(says)


def test_a_row_takes_the_place_of_its_surface_alone() -> None:
    text = ""
    kinds = {kind: Tally(done=2, went_on=1) for kind in DISTURBANCES}
    for seed, names in ((1, ("sweep", "check")), (2, ("check on Spark", "check"))):
        text = table({name: row(name, kinds, seed) for name in names}, text)
    rows = text.splitlines()
    assert rows == [
        *HEAD,
        row("check", kinds, 2),
        row("sweep", kinds, 1),
        row("check on Spark", kinds, 2),
    ]
    assert rows[2] == "| check | 2 | 1 | 2 | 2 | 0 | 2 |"
