"""How far judging on Spark is, and which keys keep others waiting."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epochfence.checker.spark.judge import progress
from epochfence.checker.spark.judge.histories import Judging, judge_histories
from epochfence.checker.spark.judge.progress import Sizes, Tally, line_of, opening
from epochfence.tests.checker.spark.judge.test_histories import (
    SETTINGS,
    judged_by_task,
    recorded,
    write,
)

EVEN = Sizes(1_000, 100_000, {"partition orders-0": (100, 30_000)})
HOT = Sizes(3, 60_000, {"partition hot": (52_000, 60_000_000), "partition b": (6_000, 10)})


def test_a_large_key_is_named_with_its_size_before_the_start() -> None:
    assert opening(EVEN, 2) == ["100,000 events of 1,000 keys"]
    assert opening(EVEN, 2, free=1) == ["100,000 events of 1,000 keys"]
    many, waits = opening(HOT, 2, free=10**9)
    assert many == "60,000 events of 3 keys"
    assert waits == (
        "partition hot has 52,000 events (60.0 MB): one task judges them, and the others may wait "
        "for it"
    )
    *_, disk = opening(HOT, 2, free=10**8)
    assert "needs about 0.1 GB of local disk, and 0.1 GB are free here: set TMPDIR" in disk
    assert opening(Sizes(0, 0, {}), 2) == ["0 events of 0 keys"]


def test_a_line_names_stragglers_once_few_tasks_are_left() -> None:
    early = line_of(HOT, 1, 2_000, set(), (1, 8), 4.0)
    assert early == "1 of 3 keys, 2,000 of 60,000 events, 500 events/s; 1 of 8 tasks"
    late = line_of(HOT, 2, 8_000, {"partition b"}, (7, 8), 4.0)
    assert late.endswith("7 of 8 tasks; waiting for partition hot (52,000 events)")
    # a task that ran twice counts twice
    assert line_of(HOT, 9, 90_000, {*HOT.largest}, (7, 8), 0).startswith("3 of 3 keys, 60,000 of")


def test_a_task_tallies_keys_events_and_large_keys() -> None:
    class Sum:
        def __init__(self, value: Any) -> None:
            self.value = value

        def add(self, more: Any) -> None:
            self.value = self.value | more if isinstance(more, set) else self.value + more

    tally = Tally(Sum(0), Sum(0), Sum(set()), frozenset({"partition key-1"}))
    lines = recorded(4, 6)
    judged_by_task(lines, Judging(SETTINGS), tally)
    assert (tally.keys.value, tally.events.value) == (4, len(lines))
    assert tally.done.value == {"partition key-1"}


def test_lines_are_said_until_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    stages = [
        None,  # one that has just ended
        SimpleNamespace(name="other", numTasks=9, numCompletedTasks=9),
        SimpleNamespace(name=progress.STAGE, numTasks=8, numCompletedTasks=3),
    ]
    tracker = SimpleNamespace(getActiveStageIds=lambda: [0, 1, 2], getStageInfo=stages.__getitem__)
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    told: list[str] = []
    keys, events, done = (SimpleNamespace(value=value) for value in (1, 5, set[str]()))
    with progress.shown(session, HOT, Tally(keys, events, done, frozenset()), told.append):
        for _ in range(60_000):
            if told:
                break
            time.sleep(0.001)
    assert told[0].startswith("1 of 3 keys, 5 of 60,000 events")
    assert told[0].endswith("; 3 of 8 tasks")


@pytest.mark.slow
@pytest.mark.long
def test_spark_tells_sizes_and_progress(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    file = write(tmp_path / "in.jsonl", lines := recorded(4, 6))
    told: list[str] = []
    out = str(tmp_path / "out")
    found = judge_histories(spark, [str(file)], out, Judging(SETTINGS), say=told.append)
    assert told[0] == f"{len(lines):,} events of 4 keys"
    assert any(line.startswith("0 of 4 keys, 0 of") for line in told)
    assert (sum(found.keys.values()), found.operations) == (4, len(lines))
