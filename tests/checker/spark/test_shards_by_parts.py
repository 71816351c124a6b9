"""Shards that hold states by their parts come to what whole states come to, whatever dies.

Spark's part is played in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.native.search import explore
from epochfence.checker.native.store import part_plan as planning
from epochfence.checker.spark.search import levels, shards, tasks
from epochfence.checker.spark.storage.manifest import Manifest
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import shipped
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess


@pytest.fixture
def by_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Shards by parts from their first level on, whether that pays or not: how many levels each had
    when it was divided."""
    divided: list[int] = []
    taken_over = shards.taken_over

    def noted(whole: Any, levels: list[list[int]], into: Any, worker: Any) -> Any:
        divided.append(len(levels))
        return taken_over(whole, levels, into, worker)

    monkeypatch.setattr(shards, "taken_over", noted)
    monkeypatch.setattr(shards, "DIVIDED_FROM", 1)
    monkeypatch.setattr(planning, "WHOLE", 0)
    monkeypatch.setattr(planning, "WORTH", 1e9)
    return divided


def wide(release: str | None = None) -> Instance:
    """A system of states of 30 bytes: 2,416 of them, 14 levels."""
    return instantiate(shipped("idempotence"), release, {"records": 1})


@pytest.mark.slow(1)
@pytest.mark.sample(1, of="engines: shards by parts")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("release", [None, "2.0"], ids=["holds", "breaks"])
def test_shards_by_parts_come_to_the_same(
    release: str | None, count: int, by_parts: list[int], played: InProcess, tmp_path: Path
) -> None:
    instance = wide(release)
    result = on_spark(instance, tmp_path / "run", shards=count)
    assert found(result) == found(check(instance))
    assert (result.verdict is Verdict.HOLDS) == (release is None)
    assert len(by_parts) == count  # once


@pytest.mark.slow(1)
@pytest.mark.parametrize("from_states", [1, 400])
def test_what_is_divided_when_spark_takes_over_goes_to_its_owners(
    from_states: int,
    by_parts: list[int],
    played: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(explore, "DIVIDED_FROM", from_states)
    monkeypatch.setattr(shards, "DIVIDED_FROM", 500)
    result = on_spark(wide(), tmp_path / "run", hand_over=200)
    assert found(result) == found(check(wide()))
    assert result.engine["levels_on_spark"] > 1
    assert by_parts


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("where", ["_save_index", "_end_level", "insert", "_divide"])
def test_a_worker_that_dies_at_a_shard_by_parts_costs_no_count(
    where: str,
    by_parts: list[int],
    played: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It dies behind a call, when not all of what it changed is in the index."""
    monkeypatch.setattr(shards, "DIVIDED_FROM", 100)
    deaths = calls = 0
    real = getattr(shards.ShardSet, where)

    def dies(held: shards.ShardSet, *args: Any) -> Any:
        nonlocal deaths, calls
        calls += 1
        found = real(held, *args)
        if calls in (2, 9, 20, 33, 61, 90, 140, 190):
            deaths += 1
            tasks._process = None  # pyright: ignore[reportPrivateUsage]
            raise RuntimeError("killed")
        return found

    monkeypatch.setattr(shards.ShardSet, where, dies)
    monkeypatch.setattr(levels, "ATTEMPTS", 9)
    monkeypatch.setattr(Manifest, "roll_back", None)  # nothing is taken that was half-changed
    assert found(on_spark(wide(), tmp_path / "run", shards=3)) == found(check(wide()))
    assert deaths
    assert len(by_parts) > (2 if where == "_save_index" else 3)  # what is in the index stays


@pytest.mark.slow(1)
@pytest.mark.parametrize("machines", [2, 5])
def test_a_cache_by_parts_that_is_gone_or_behind_is_made_anew(
    machines: int,
    by_parts: list[int],
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(shards, "DIVIDED_FROM", 300)
    seen = 0
    kept: dict[int, Any] = {}

    def disturb(stage: str, shard: int) -> None:
        # a machine has two workers, which have mapped the files as they were
        nonlocal seen
        seen += 1
        kept[seen % (2 * machines)] = tasks._process  # pyright: ignore[reportPrivateUsage]
        at = (seen + 1) % (2 * machines)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / f"machine-{at % machines}"))
        monkeypatch.setattr(tasks, "_process", kept.get(at))

    play(InProcess(disturb))
    assert found(on_spark(wide(), tmp_path / "run", shards=3)) == found(check(wide()))
    assert len(by_parts) > 3
