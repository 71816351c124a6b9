"""Runs to compare, and a session in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.spark.options import SparkOptions
from epochfence.checker.spark.search import engine, tasks
from epochfence.checker.verdict.result import Result
from epochfence.language import Instance
from epochfence.tests.checker.spark.in_process import InProcess


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[InProcess], None]:
    """Has Spark's part played by a session in this process."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))

    def play(session: InProcess) -> None:
        monkeypatch.setattr(tasks, "_process", None)
        monkeypatch.setattr(engine, "find_java", lambda: "java")
        monkeypatch.setattr(engine, "is_running", lambda: True)
        monkeypatch.setattr(engine, "start", lambda *_, **__: session)

    return play


@pytest.fixture
def played(play: Callable[[InProcess], None]) -> InProcess:
    """A session in this process that nothing disturbs."""
    session = InProcess()
    play(session)
    return session


def on_spark(instance: Instance, folder: Path | str, **more: Any) -> Result:
    """A run that Spark carries from the first level on, if nothing else is said."""
    resume = more.pop("resume", False)
    on_progress = more.pop("on_progress", None)
    options = Options(
        symmetry=more.pop("symmetry", True),
        memory=more.pop("memory", None),
        resume=folder if resume else None,
        spark=SparkOptions(
            storage=None if resume else str(folder), **{"hand_over": 0, "shards": 2, **more}
        ),
    )
    return check(instance, options, on_progress)


def found(result: Result) -> tuple[Any, ...]:
    """All that must be the same whatever carries the search."""
    return (
        result.verdict, result.reason, result.states, result.transitions, result.depth,
        result.rows, result.first_depths, result.properties, result.trace, result.left_out,
        result.symmetry,
    )  # fmt: skip
