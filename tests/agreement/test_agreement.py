"""All engines on some larger random systems, drawn anew; and a disagreement is seen."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict import Result
from epochfence.language import Instance
from epochfence.tests.agreement import systems
from epochfence.tests.agreement.run import done, run, tell

SYSTEMS, SECONDS = 100, 30


@pytest.mark.slow
def test_all_engines_agree_on_larger_systems(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    found = run(SYSTEMS, SECONDS, seed, tmp_path / "results.jsonl")
    assert tell(found) == 0
    assert found


def test_a_run_goes_on_behind_the_last_whole_line(tmp_path: Path, small: None) -> None:
    results = tmp_path / "results.jsonl"
    first = run(1, 60, 7, results)
    results.write_text(results.read_text() + '{"number": 1, "sta')
    assert done(results) == (7, [first[0] | {"ways": list(first[0]["ways"])}])
    assert run(1, 60, 8, results) == first
    assert [item["number"] for item in run(2, 60, 8, results)] == [0, 1]


def test_another_answer_is_a_disagreement(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(instance: Instance, options: Options, *more: Any) -> Result:
        result = check(instance, options, *more)
        return replace(result, states=result.states + (options.threads == 2))

    monkeypatch.setattr(systems, "check", wrong)
    (found,) = run(1, 60, 7, tmp_path / "results.jsonl")
    assert "AssertionError" in found["error"]
    assert tell([found]) == 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems of a few states, which take a second."""
    monkeypatch.setattr(systems, "LEAST", 2)
    monkeypatch.setattr(systems, "ROOM", 100)


def test_half_of_the_systems_are_to_break(tmp_path: Path, small: None) -> None:
    broken = systems.agree(3, 0, tmp_path)
    assert broken.verdict != "HOLDS"
    assert broken.steps is not None
    assert systems.agree(3, 1, tmp_path).verdict == "HOLDS"
    assert systems.draw(Random(1)).properties
