"""Small searches of every kind with guarded memory, as a program: an access that leaves its bounds
ends it.

    python -m epochfence.tests.checker.native.searches [BOUND]

With one of TOO_NARROW's bounds it must not get to its end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.native.search import coverage, explore, worker
from epochfence.checker.native.search.explore import Explorer
from epochfence.checker.native.search.transitions import Transitions
from epochfence.checker.native.store import parts, store
from epochfence.checker.native.store.disk import Disk
from epochfence.checker.spark.options import SparkOptions
from epochfence.checker.spark.search import engine, levels, shards, tasks
from epochfence.checker.verdict.result import Result
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import shipped
from epochfence.tests.checker.native.grouping import by_parts
from epochfence.tests.checker.native.guarded import guarded
from epochfence.tests.checker.native.search.test_worker import resets
from epochfence.tests.checker.spark.in_process import InProcess

SMALL = (
    (explore, "MOST_FILLED", 1), (explore, "LEAST_ROUND", 1 << 8), (explore, "SPAN", 100),
    (parts, "LEAST_SLOTS", 1 << 7), (parts, "LEAST_BITS", 8), (coverage, "COMPILED_FROM", 1),
    (store, "LEAST_PLACES", 1 << 7), (Disk, "free", 1 << 24), (shards, "DIVIDED_FROM", 200),
    (shards, "MOST_PER_SHARD", 1 << 12), (shards, "MOST_OF_PARTS", 1 << 20),
    (tasks, "OUTGOING", 1), (tasks, "MOST_TWICE", 0), (levels, "FINER_FROM", 300),
    (store, "TO_DIVIDE", 1),
)  # fmt: skip
"""What grows or is emptied begins small."""
TOO_NARROW = {
    "slack": [(store, "SLACK", 1), (worker, "SLACK", 1)],
    "successors": [(worker, "SLICE", 8)],
}
"""Bounds that are too narrow: with one of them a process must not get through."""


def searched(instance: Instance, folder: Path) -> None:
    """Looks at a system in every way that keeps states; what they find has to be the same."""
    folder.mkdir()
    whole = check(instance)
    options = [
        Options(2, spill=folder),
        Options(2, checkpoint=folder / "run"),
        Options(1, resume=folder / "run"),
        Options(spark=SparkOptions(storage=str(folder / "spark"), hand_over=0, shards=3)),
    ]
    for each in options:
        assert figures(check(instance, each)) == figures(whole), each


def looked_at(instance: Instance) -> None:
    """Looks at all that was found once more: for what makes states, and for steps between them."""
    found = check(instance, Options(keep_going=True, keep_states=True, explain_size=True)).found
    assert found is not None
    found.explorer.pool = None
    steps = Transitions(found.explorer, np.zeros(len(found.explorer.taken), dtype=np.uint8))
    assert len(steps.labels(0))


def figures(result: Result) -> tuple[object, ...]:
    """All that must be the same, whatever keeps the states."""
    return (
        result.verdict, result.states, result.transitions, result.depth, result.rows, result.trace,
    )  # fmt: skip


def spilled(explorer: Explorer) -> None:
    """Memory is short from the second level on."""
    begin(explorer)
    if explorer.depth == 2 and explorer.disk is not None:
        assert explorer._spill()  # pyright: ignore[reportPrivateUsage]


begin = Explorer.begin_level


def broken() -> Instance:
    """A system that breaks a property: runs to it are looked for backwards."""
    return instantiate(shipped("idempotence"), bounds="small")


def main(too_narrow: str = "") -> None:
    """Raises AssertionError where two ways differ."""
    with (
        tempfile.TemporaryDirectory() as name,
        guarded(),
        pytest.MonkeyPatch.context() as patches,
        patch.dict(os.environ, SPARK_LOCAL_DIRS=f"{name}/local"),
        patch.object(engine, "find_java", lambda: "java"),
        patch.object(engine, "is_running", lambda: True),
        patch.object(engine, "start", lambda *_, **__: InProcess()),
        patch.object(Explorer, "begin_level", spilled),
    ):
        for module, bound, value in (*SMALL, *TOO_NARROW.get(too_narrow, ())):
            patches.setattr(module, bound, value)
        searched(resets(), Path(name, "whole"))
        looked_at(resets())
        with by_parts() as made:
            looked_at(resets())
            searched(broken(), Path(name, "parts"))
        assert len(made) > 1


if __name__ == "__main__":
    main(*sys.argv[1:])
