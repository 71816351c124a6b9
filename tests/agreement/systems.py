"""Random systems of some thousands of states, and all engines in all their ways on each.

Half of the systems are taken with a property that breaks, where they have one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from epochfence.checker import check as checks
from epochfence.checker.check import Options, Prepared, check
from epochfence.checker.native.explore import Progress
from epochfence.checker.reference import search
from epochfence.checker.solver.bound import bound
from epochfence.checker.spark import engine, tasks
from epochfence.checker.spark.options import SparkOptions
from epochfence.checker.verdict import Result, Verdict
from epochfence.language import (
    DeclarationError,
    Enum,
    Expression,
    Instance,
    Machine,
    Row,
    Table,
    event,
    instantiate,
)
from epochfence.tests.checker.drawn_expressions import SCALARS, Scope, cardinality
from epochfence.tests.checker.drawn_systems import PASSED_OVER, SystemDrawing
from epochfence.tests.checker.spark.in_process import InProcess
from epochfence.tests.checker.test_random_systems import expected, outcome, replay

LEAST, MOST = 1_000, 100_000  # reachable states
PLAIN = 3_000  # states up to which the plain interpreter searches as well
ROOM = 120_000
MEMORY = 2 << 30
SOLVED = 3  # steps that Z3 unrolls at most
SOLVING = 5  # seconds


class Killed(BaseException):
    """The end of a process, in the middle of a run."""


@dataclass
class Agreement:
    """What one system came to. `ways` are the comparisons that were made of it."""

    number: int
    states: int
    verdict: str
    steps: int | None
    draws: int
    """Systems that were drawn before it, and were too small or too large."""
    seconds: float
    ways: list[str] = field(default_factory=list[str])


@contextmanager
def compiled_once() -> Generator[None]:
    """All runs of an instance with the same reductions share what was compiled for the first."""
    prepare: Callable[..., Prepared] = checks.prepare
    kept: dict[tuple[int, bool, bool], Prepared] = {}
    instances: list[Instance] = []  # an id is one object's as long as that is there

    def once(instance: Instance, *, symmetry: bool = True, slicing: bool = True) -> Prepared:
        key = id(instance), symmetry, slicing
        if key not in kept:
            instances.append(instance)
            kept[key] = prepare(instance, symmetry=symmetry, slicing=slicing)
        return kept[key]

    with patch.object(checks, "prepare", once):
        yield


class LargeDrawing(SystemDrawing):
    """Draws systems in which more can be reached: beside what happens anyway, rows take fields to
    any of their values."""

    def machine(self, name: str) -> None:
        """A machine with some fields more."""
        super().machine(name)
        machine = self.machines[-1]
        copies = 1 if machine.key is None else machine.key.count(self.constants)
        for at in range(3, 6):
            kind = self.pick(SCALARS)
            size = cardinality(kind, self.constants) ** copies
            if size <= self.room and not isinstance(kind, Enum):
                self.field(machine, f"f{at}", kind, size)
                self.room //= size

    def happening(self, machine: Machine, name: str) -> None:
        """A table on an event, and often one that stirs each field of the machine."""
        super().happening(machine, name)
        for label, info in machine.fields.items():
            if info.expression is machine.state or self.chance(25):
                continue
            if info.type in SCALARS:
                on = event(f"{name} stirs {label}", p=info.type)
                new: Expression = on.p
            else:
                on = event(f"{name} stirs {label}")
                sources = tuple(self.fields(machine))
                new = self.change(info.expression, info.type, Scope(sources, self.names_keys))
            row = Row("stir", set={info.expression: new})
            self.tables.append(Table(machine, on, (row,)))


def draw(random: Random) -> Instance:
    """A system of at most about ROOM states."""
    while True:
        try:
            return LargeDrawing(random, ROOM).instance()
        except DeclarationError as error:
            if not any(reason in str(error) for reason in PASSED_OVER):
                raise


def without_faults(instance: Instance) -> tuple[Instance, Result] | None:
    """The instance with those properties alone that hold, and the run that shows it; None where a
    range or a deadlock ends each run, or all properties break."""
    left = [item.name for item in instance.properties]
    while left:
        alone = only(instance, left)
        result = check(alone, Options(memory=MEMORY, symmetry=False, slicing=False))
        if result.verdict is Verdict.HOLDS:
            return alone, result
        broken = [p.name for p in result.properties if p.verdict == "broken"]
        if result.verdict is not Verdict.BROKEN or broken[0] not in left:
            return None
        left.remove(broken[0])
    return None


def only(instance: Instance, names: list[str]) -> Instance:
    """The instance with some of its properties."""
    return instantiate(instance.system, instance.protocol, instance.constants, properties=names)


def agree(seed: int, number: int, folder: Path) -> Agreement:
    """Draws systems until one is of the size that is wanted, and compares all that looks at it.

    Raises AssertionError where two don't agree.
    """
    begun, draws = time.monotonic(), 0
    while True:
        random = Random(f"{seed} {number} {draws}")
        with compiled_once():
            drawn = draw(random)
            whole = without_faults(drawn)
            if whole is not None and LEAST <= whole[1].states <= MOST:
                instance, held = whole
                breaks = len(instance.properties) < len(drawn.properties)
                if breaks or number % 2:
                    found = Agreement(number, held.states, "", None, draws, 0)
                    compare(instance if number % 2 else drawn, random, folder, found)
                    found.seconds = round(time.monotonic() - begun, 2)
                    return found
        draws += 1


def compare(instance: Instance, random: Random, folder: Path, found: Agreement) -> None:
    """One instance, in all ways that its size allows."""
    first = check(instance, Options(memory=MEMORY, symmetry=False, slicing=False))
    wanted = outcome(first)
    found.verdict, found.steps = wanted.verdict.name, wanted.steps
    replay_if_broken(instance, first)
    for name, options in (
        ("2 threads", {"threads": 2, "symmetry": False, "slicing": False}),
        ("symmetry", {"slicing": False}),
        ("slicing", {"symmetry": False}),
        ("both, 2 threads", {"threads": 2}),
    ):
        result = check(instance, Options(memory=MEMORY, **options))  # type: ignore[reportArgumentType]
        assert outcome(result) == wanted, name
        if name == "2 threads":
            assert counts(result) == counts(first)
            assert result.trace == first.trace
        elif wanted.verdict is Verdict.HOLDS:
            assert result.states <= first.states
            assert taken(result) == taken(first)
        replay_if_broken(instance, result)
        found.ways.append(name)
    reduced = check(instance, Options(memory=MEMORY))
    killed_and_resumed(instance, reduced, random, folder / "run")
    found.ways.append("killed and resumed")
    if random.random() < 0.25:
        assert same(on_played_spark(instance, random, folder)) == same(reduced)
        found.ways.append("Spark's part played")
    if random.random() < 0.5:
        found.ways += solved(instance, wanted.verdict, wanted.steps)
    if found.states <= PLAIN:
        reference = search(instance, MOST)
        assert expected(reference, instance) == wanted
        assert reference.states == found.states
        found.ways.append("interpreter")


def counts(result: Result) -> tuple[Any, ...]:
    """What two runs without reductions have the same."""
    return result.states, result.transitions, result.depth, result.rows


def same(result: Result) -> tuple[Any, ...]:
    """What two runs with the same reductions have the same, whatever carries them."""
    return result.verdict, *counts(result), result.properties, result.trace


def taken(result: Result) -> set[str]:
    """The rows that some step took."""
    return {name for name, count in result.rows if count}


def replay_if_broken(instance: Instance, result: Result) -> None:
    """A counterexample is a run of the model that ends in the fault."""
    if result.verdict is not Verdict.HOLDS:
        replay(instance, result)


def killed_and_resumed(instance: Instance, whole: Result, random: Random, folder: Path) -> None:
    """A run that ends in the middle of a level comes to the same result when it goes on."""
    shutil.rmtree(folder, ignore_errors=True)
    last = random.randrange(1, max(2, whole.depth))

    def end(progress: Progress) -> None:
        if progress.depth >= last:
            raise Killed

    with suppress(Killed):
        check(instance, Options(memory=MEMORY, checkpoint=folder), end)
    threads = random.choice((1, 2))
    assert same(check(instance, Options(threads, MEMORY, resume=folder))) == same(whole)


def on_played_spark(instance: Instance, random: Random, folder: Path) -> Result:
    """A run whose Spark is played in this process, from the first level on."""
    shutil.rmtree(folder / "spark", ignore_errors=True)
    session = InProcess()
    spark = SparkOptions(
        storage=str(folder / "spark"), hand_over=0, shards=random.choice((1, 2, 7))
    )
    with (
        patch.dict(os.environ, SPARK_LOCAL_DIRS=str(folder / "local")),
        patch.object(tasks, "_process", None),
        patch.object(engine, "find_java", lambda: "java"),
        patch.object(engine, "is_running", lambda: True),
        patch.object(engine, "start", lambda *_, **__: session),
    ):
        return check(instance, Options(memory=MEMORY, spark=spark))


def solved(instance: Instance, verdict: Verdict, steps: int | None) -> list[str]:
    """Z3 finds a counterexample of few steps, of the same length, and none that is shorter."""
    depth = SOLVED if steps is None else min(steps, SOLVED)
    result = bound(instance, depth, timeout=SOLVING)
    if steps is not None and steps <= depth and result.trace is not None:
        assert (result.verdict, len(result.trace.steps)) == (verdict, steps)
        return ["Z3 finds it"]
    assert result.trace is None, "Z3 finds what isn't there, or a longer run before a shorter one"
    return (
        [] if result.verdict is Verdict.INCONCLUSIVE and result.depth < depth else ["Z3 finds none"]
    )
