"""States on disk for want of memory: a search finds what it finds in memory, or says what lacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search import explore
from epochfence.checker.native.search.explore import Explorer
from epochfence.checker.native.store import part_plan as planning
from epochfence.checker.native.store import parts as numbers
from epochfence.checker.native.store import store as shards
from epochfence.checker.native.store.disk import DiskError
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.cli import app
from epochfence.language import Instance, instantiate

KTX = Path(__file__).parents[4] / "bench" / "ktx.py"
FULL = OSError(28, "No space left on device")


def ktx(*size: int) -> Instance:
    """The benchmark protocol of a size I-K-E-S-V."""
    return instantiate(load_system(str(KTX)), constants=dict(zip("IKESV", size, strict=True)))


def found(result: Result) -> tuple[Any, ...]:
    """All that must be the same with states on disk."""
    return (
        result.verdict, result.states, result.transitions, result.depth, result.levels,
        result.rows, result.first_depths, result.properties, result.trace, result.vacuous,
    )  # fmt: skip


def by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """States by their parts from the first level on, whether that pays or not; records are narrow
    at first."""
    monkeypatch.setattr(explore, "DIVIDED_FROM", 1)
    monkeypatch.setattr(planning, "WHOLE", 0)
    monkeypatch.setattr(planning, "WORTH", 1e9)
    monkeypatch.setattr(numbers, "LEAST_BITS", numbers.SHARD_BITS)


def short_at(level: int, monkeypatch: pytest.MonkeyPatch) -> list[Explorer]:
    """Memory is short when so many levels were begun: the explorers of which it was."""
    spilled: list[Explorer] = []
    begin = Explorer.begin_level

    def begun(explorer: Explorer) -> None:
        begin(explorer)
        if explorer.depth == level and explorer.disk is not None:
            spilled.append(explorer)
            if not explorer._spill():  # pyright: ignore[reportPrivateUsage]
                assert explorer.disk.why
                explorer.found.stopped = ""  # there is memory

    monkeypatch.setattr(Explorer, "begin_level", begun)
    return spilled


def full_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full after so many requests for room."""
    take, made = os.posix_fallocate, 0

    def counted(*args: int) -> None:
        nonlocal made
        made += 1
        if made > calls:
            raise FULL
        take(*args)

    monkeypatch.setattr(os, "posix_fallocate", counted)


@pytest.mark.slow(2)
@pytest.mark.parametrize("name", ["holds", "broken", "parts"])
def test_with_states_on_disk_a_search_finds_the_same(
    name: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"holds": (2, 1, 2, 1, 1), "broken": (2, 1, 2, 1, 0), "parts": (2, 2, 2, 1, 0)}
    system = ktx(*sizes[name])
    widths: list[int] = []
    ready = explore.Store.ready

    def noted(store: explore.Store) -> bool:
        made = ready(store)
        widths.append(store.width if store.disk is not None else 0)
        return made

    monkeypatch.setattr(explore.Store, "ready", noted)
    if name == "parts":
        by_parts(monkeypatch)
    level = 1 + seed % (2 if name == "parts" else 5)
    spilled = short_at(level + 1, monkeypatch)
    in_memory = check(system, Options(threads=2))
    on_disk = check(system, Options(threads=2, spill=tmp_path))
    assert in_memory.verdict is (Verdict.HOLDS if name == "holds" else Verdict.BROKEN)
    assert found(on_disk) == found(in_memory)
    [note] = [note for note in on_disk.notes if "memory was short" in note]
    assert str(tmp_path) in note
    assert [explorer.spilled for explorer in spilled] == [level]
    assert not [*tmp_path.iterdir()]
    if name == "parts":  # records became wider where they were
        assert len({width for width in widths if width}) > 1


@pytest.mark.parametrize(("far_apart", "whole"), [(1, False), (1 << 16, True)])
def test_files_are_read_whole_for_many_look_ups(
    far_apart: int, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[int] = []
    bring = explore.Store.bring
    monkeypatch.setattr(
        explore.Store, "bring", lambda store, shard: (brought.append(shard), bring(store, shard))
    )
    monkeypatch.setattr(shards, "FAR_APART", far_apart)
    short_at(2, monkeypatch)
    assert check(ktx(2, 1, 2, 1, 1), Options(threads=2, spill=tmp_path)).verdict is Verdict.HOLDS
    assert (len({*brought}) == explore.SHARDS) is whole
    assert bool(brought) is whole


@pytest.mark.slow(3)
def test_a_search_that_memory_is_too_short_for_ends_and_keeps_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, limits = psutil.Process(), list[int]()

    def limit() -> int:
        """A little more than what the process has when the search begins."""
        limits.append(process.memory_info().rss + (6 << 20))
        return limits[-1]

    monkeypatch.setattr("epochfence.checker.check.fair_limit", limit)
    system = ktx(1, 2, 2, 2, 1)
    without = check(system, Options(2))
    assert without.reason.startswith("the memory limit was reached after level ")
    held = check(system, Options(2, spill=tmp_path))
    assert (held.verdict, held.states, held.transitions) == (Verdict.HOLDS, 592_812, 3_709_243)
    assert held.memory <= limits[-1]
    assert process.memory_info().rss <= limits[-1] + (16 << 20)


@pytest.mark.parametrize("taken", [100, 700])
def test_a_full_disk_ends_a_run_that_can_be_resumed(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, saved, disk = ktx(2, 1, 2, 1, 1), tmp_path / "saved", tmp_path / "disk"
    disk.mkdir()
    short_at(6, monkeypatch)
    whole = check(system)
    monkeypatch.setattr(explore, "DIVIDED_FROM", 1 << 40)
    with monkeypatch.context() as patched:
        full_after(taken, patched)
        patched.setattr("epochfence.checker.native.store.store.LEAST_PLACES", 128)
        full = check(system, Options(memory=None, checkpoint=saved, spill=disk))
    if taken == 100:  # none of it is on disk, and memory is enough
        assert found(full) == found(whole)
        return
    assert full.verdict is Verdict.INCONCLUSIVE
    assert full.reason.startswith(f"no disk space left in {saved} (No space left on device)")
    assert 100 < full.states < whole.states
    assert found(check(system, Options(resume=saved, spill=disk))) == found(whole)
    assert not [*disk.iterdir()]


def test_what_cant_be_asked_for_is_told_in_a_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(DiskError, match=f"can't write to {missing}: No such file or directory"):
        check(ktx(1, 1, 2, 2, 1), Options(spill=missing))
    for words in (["--engine", "spark"], ["--progress"]):
        told = CliRunner().invoke(app, ["check", str(KTX), "--spill", str(tmp_path), *words])
        assert told.exit_code == 2
        assert "--spill needs --engine local, without --progress" in told.output
