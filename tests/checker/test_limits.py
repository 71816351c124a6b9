"""A search that a depth or a time ends, and the warning of one that will not end well."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.output.progress_line import Growth
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.cli import app
from epochfence.language import instantiate

LEASE = str(Path(__file__).parents[2] / "docs" / "examples" / "lease.py")
MINUTE = 60.0


def _run(protocol: str = "2", **options: Any) -> Result:
    return check(instantiate(load_system(LEASE), protocol), Options(**options))


def test_a_depth_ends_a_search_with_what_it_found() -> None:
    whole = _run()
    result = _run(depth=5)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason == "runs of more than 5 steps weren't searched (--depth)"
    assert result.levels[:6] == whole.levels[:6]
    assert {item.verdict for item in result.properties} == {"unknown"}
    assert any(taken for _, taken in result.rows)


@pytest.mark.parametrize(("depth", "verdict"), [(9, Verdict.INCONCLUSIVE), (10, Verdict.BROKEN)])
def test_a_fault_within_the_depth_is_found(depth: int, verdict: Verdict) -> None:
    assert _run("1", depth=depth).verdict is verdict  # the eleventh step, from a state after ten


def test_a_depth_beyond_the_last_level_ends_nothing() -> None:
    whole = _run()
    assert _run(depth=whole.depth).verdict is Verdict.HOLDS
    assert _run(depth=whole.depth - 1).verdict is Verdict.HOLDS


def test_a_moment_ends_a_search() -> None:
    result = _run(until=time.monotonic())
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason.startswith("the time limit was reached after level ")
    assert _run(until=time.monotonic() + 1000).verdict is Verdict.HOLDS


def test_a_run_that_goes_on_keeps_what_is_broken() -> None:
    result = _run("1", depth=12, keep_going=True)
    assert result.verdict is Verdict.BROKEN
    assert result.properties[2].verdict == "broken"
    assert "runs of more than 12 steps weren't searched (--depth)" in result.notes


def test_the_command_takes_both() -> None:
    run = CliRunner().invoke(app, ["check", LEASE, "--depth", "3"])
    assert run.exit_code == 20
    assert "every property holds within 3 steps" in run.output
    for wrong in (["--deadline", "0"], ["--depth", "3", "--engine", "spark"]):
        assert CliRunner().invoke(app, ["check", LEASE, *wrong]).exit_code == 2


def _warnings(sizes: list[int], rate: float, limit: int = 1 << 30, each: float = 5.0) -> list[str]:
    """The warnings of a search with levels of these sizes, each of so many seconds, which takes so
    many bytes a second."""
    growth, found = Growth(), list[str]()
    for at, size in enumerate(sizes):
        for part in range(5):
            seconds = each * (at + part / 5)
            memory = int(rate * seconds)
            now = Progress(1, 1, at + 1, size - part, seconds, memory, limit=limit)
            found.append(growth.warning(now))
    return [line for line in found if line]


def test_a_search_that_grows_is_warned_of() -> None:
    sizes = [100 * 2**at for at in range(8)]
    rate = (1 << 30) / (4 * MINUTE)
    first, *more = _warnings(sizes, rate)
    assert first == (
        "levels grow by 2.0; memory is full in about 4 minutes; try --explain-size with smaller "
        "bounds"
    )
    assert not more  # not before half of the time is over
    assert len(_warnings([100 * 2**at for at in range(40)], rate)) in (3, 4, 5)


@pytest.mark.parametrize(
    ("sizes", "rate", "limit"),
    [
        ([1000 - at for at in range(12)], 1e7, 1 << 30),  # levels shrink
        ([2**at for at in range(12)], 1e3, 1 << 30),  # there is room for days
        ([2**at for at in range(12)], 1e7, 0),  # states go on disk
        ([1, 2, 4], 1e7, 1 << 30),  # it has just begun
    ],
)
def test_others_are_not(sizes: list[int], rate: float, limit: int) -> None:
    assert not _warnings(sizes, rate, limit)
