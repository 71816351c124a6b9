"""How far a search has come, and what is remembered of earlier runs."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.cache import object_cache
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.output import progress_line
from epochfence.checker.output.progress_line import Earlier, Runs, line_of
from epochfence.checker.verdict.result import Verdict
from epochfence.language import instantiate
from epochfence.tests.cli.test_cli import ROOT

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
NOW = Progress(
    states=120_000, transitions=300_000, depth=31, frontier=1_234, seconds=2.0, memory=173 << 20
)
EARLIER = Earlier(states=240_001, depth=56, seconds=3.5)


def test_a_line_has_rate_frontier_and_memory() -> None:
    plain = "level 31: 120,000 states, 60,000 states/s, frontier 1,234 left, 173 MiB"
    assert line_of(NOW, None) == plain
    beside = line_of(NOW, EARLIER)
    assert beside.startswith("level 31 of 56: 120,000 states (49%), 60,000 states/s, ")


def test_what_an_earlier_run_found_is_no_promise() -> None:
    """A row may have changed since: no level beyond the last one, nothing whole before the end."""
    assert line_of(NOW, Earlier(1_000, 7, 1.0)).startswith("level 31 of 31: 120,000 states (99%)")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_has_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    clock = iter(range(0, 1_000, 10))
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: next(clock))
    out = StringIO()
    console = Console(file=out, width=40, force_terminal=terminal, color_system=None)
    with progress_line.shown(console, EARLIER) as show:
        show(NOW)
        show(NOW)
    told = out.getvalue()
    assert told.count("an earlier run of these bounds found 240,001 states in 56 levels") == 1
    assert told.count("\r") == (4 if terminal else 0)
    assert told.startswith("compiling the tables") == terminal
    changing = told.partition("\n")[2].split("\r" if terminal else "\n")
    assert len(changing[0]) == (39 if terminal else len(line_of(NOW, EARLIER)))


def test_ctrl_c_before_the_search_says_so() -> None:
    console = Console(file=StringIO(), width=40)
    with (
        pytest.raises(KeyboardInterrupt, match="before the search began: nothing was explored"),
        progress_line.shown(console, None),
    ):
        raise KeyboardInterrupt

    def interrupted_later() -> None:
        with progress_line.shown(console, None) as show:
            show(NOW)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        interrupted_later()


def test_a_run_is_remembered_by_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path))
    small, other = (instantiate(load_system(LEASE), "2", {"leases": n}) for n in (2, 3))
    runs, result = Runs(small, Options()), check(small)
    assert runs.earlier() is None
    runs.remember(result)
    found = Runs(small, Options(threads=2)).earlier()
    assert found == Earlier(result.states, result.depth, result.seconds)
    assert Runs(other, Options()).earlier() is None
    assert Runs(small, Options(symmetry=False)).earlier() is None


def test_only_what_came_to_an_end_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = instantiate(load_system(LEASE), "2")
    result = check(instance)
    result.verdict = Verdict.INTERRUPTED
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path))
    Runs(instance, Options()).remember(result)
    assert Runs(instance, Options()).earlier() is None
    monkeypatch.setenv(object_cache.VARIABLE, object_cache.OFF)
    result.verdict = Verdict.HOLDS
    Runs(instance, Options()).remember(result)
    assert Runs(instance, Options()).earlier() is None
