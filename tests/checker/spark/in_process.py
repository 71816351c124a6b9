"""Spark's part played by this process: the same tasks, in the same order, without a cluster.

A task can be run twice, or end in the middle, as it does where an executor is lost.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

from epochfence.checker.spark.search import tasks

Function = Callable[[Iterable[Any]], Iterator[Any]]


class InProcess:
    """A session with just what the search asks of one.

    `disturb` is called before each task, with the stage's name and the shard; what it returns says
    after how many results a first attempt at the task ends (none: it doesn't).
    """

    def __init__(self, disturb: Callable[[str, int], int | None] = lambda *_: None) -> None:
        self.disturb = disturb
        self.stage = ""
        self.stages: list[str] = []
        self.sparkContext = self
        self._jsc = SimpleNamespace(setCallSite=lambda _: None)

    def setLocalProperty(self, name: str, value: str) -> None:
        if name == "callSite.short":
            self.stage = value
            self.stages.append(value)

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=pickle.loads(pickle.dumps(value)), destroy=lambda: None)

    defaultParallelism = 2

    def parallelize(self, items: Iterable[int], count: int) -> Any:
        return Parts(self, [[item] for item in items])

    def runJob(self, parts: Parts, function: Function, some: list[int]) -> list[Any]:
        return Parts(self, [parts.parts[at] for at in some]).mapPartitions(function).collect()

    def stop(self) -> None:
        raise AssertionError("a session that was running already is left running")


class Parts:
    """Spark's RDD: a list for each partition."""

    def __init__(self, session: InProcess, parts: list[list[Any]]) -> None:
        self.session = session
        self.parts = parts

    def mapPartitions(self, function: Function, preserves: bool = False) -> Parts:
        done = [self._task(function, at, part) for at, part in enumerate(self.parts)]
        return Parts(self.session, done)

    def _task(self, function: Function, shard: int, part: list[Any]) -> list[Any]:
        most = self.session.disturb(self.session.stage, shard)
        if most is not None:
            first = function(iter(part))
            for _ in zip(range(most), first, strict=False):
                pass
            del first
            # another process takes over
            tasks._process = None
        return list(function(iter(part)))

    def partitionBy(self, count: int, owner: Callable[[int], int]) -> Parts:
        parts: list[list[Any]] = [[] for _ in range(count)]
        for key, value in (pair for part in self.parts for pair in part):
            parts[owner(key) % count].append(pickle.loads(pickle.dumps((key, value))))
        return Parts(self.session, parts)

    def cartesian(self, other: Parts) -> Parts:
        pairs = [[*product(one, two)] for one in self.parts for two in other.parts]
        return Parts(self.session, pairs)

    def persist(self) -> Parts:
        return self

    @property
    def _jrdd(self) -> Any:
        """Java's RDD, of which what was shuffled for it can be deleted."""
        of_scala = SimpleNamespace(cleanShuffleDependencies=lambda _: None)
        return SimpleNamespace(rdd=lambda: of_scala)

    def unpersist(self) -> None:
        pass

    def collect(self) -> list[Any]:
        return [item for part in self.parts for item in part]
