"""A few disturbances of the matrix (`make kill`), drawn anew each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from epochfence.tests.kill.disturb import DISTURBANCES, Ended, unfit, usual
from epochfence.tests.kill.surfaces import LOCAL, SWEEP, Surface


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surface", "kinds"), [(LOCAL, ("kill", "kill", "full", "short")), (SWEEP, ("kill",))]
)
def test_disturbed_runs_come_to_the_same(
    surface: Surface, kinds: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    normal = usual(surface, tmp_path)
    for number, kind in enumerate(kinds):
        place = tmp_path / str(number)
        place.mkdir()
        drawn = random.Random(f"{seed} {surface.name} {number}")
        assert DISTURBANCES[kind](surface, normal, place, drawn).wrong == ""


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (-9, "", ""),
        (2, "level 1: 1 states\nepochfence: can't write run: No space left on device", ""),
        (1, "epochfence: internal error", "exit 1"),
        (2, "", "exit 2 without a line"),
        (20, "Traceback (most recent call last):\nMemoryError", "a traceback: MemoryError"),
    ],
)
def test_what_no_run_may_do(code: int, error: str, says: str) -> None:
    assert unfit(Ended(code, error, None, 0, 0)).startswith(says)
    assert bool(unfit(Ended(code, error, None, 0, 0))) == bool(says)
