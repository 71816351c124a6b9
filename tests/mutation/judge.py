"""What becomes of a mutant: which property, test or count tells it from the original.

In this order:

* **properties**: in a scenario with the row, a property breaks that holds without the fault, a
  value leaves its range, or there is a deadlock;
* **coverage**: a row is taken that no run of the scenario takes without the fault, or none takes
  one that is taken without it; a test asks of each row that some run takes it;
* **answers**: a test of answers in given states fails (`tests/spec/test_*_answers.py`);
* **counts**: states, transitions, depth or how often a row is taken are others than recorded in
  `baseline.json`, which is a test as well, but one that can't say what is wrong.

Of those left, a mutant is *equivalent* within the scenarios' bounds if it reaches the very same
states as the original, whole ones, with nothing sliced away. Else it is a *survivor*.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from epochfence.checker.check import prepare
from epochfence.checker.explore import Explorer, search
from epochfence.checker.trace import represent
from epochfence.checker.verdict import Result, Verdict
from epochfence.model.interpreter import Interpreter, Step
from epochfence.spec.language import DeclarationError, Instance
from epochfence.tests.mutation.mutants import Mutant
from epochfence.tests.mutation.scenarios import MEMORY, Counts, TooLarge, Trial, run

ROOT = Path(__file__).parents[2]
ANSWERS = sorted((ROOT / "tests" / "spec").glob("test_*_answers.py"))
MOST_TRIALS = 3
NEVER_TAKEN = "its row is never taken"
BLOW_UP = 10  # times the states of the original: more is another behaviour for certain

Fate: TypeAlias = Literal["properties", "coverage", "answers", "counts", "equivalent", "survivor"]
KILLED: tuple[Fate, ...] = ("properties", "coverage", "answers", "counts")


@dataclass(frozen=True)
class Outcome:
    """A mutant's fate, and by what: the property and scenario, the scenario whose counts differ,
    or whether a survivor's row is taken at all."""

    name: str
    machine: str
    fate: Fate
    by: str = ""


def judge(mutant: Mutant, trials: list[Trial], *, quick: bool = False) -> Outcome:
    """Runs the mutant until a property kills it, or (`quick`) anything does.

    Where anything else has, no more than MOST_TRIALS are spent on the search for a property.
    """
    told: dict[Fate, str] = {}
    tried: list[Trial] = []
    for trial in trials:
        if told and (quick or len(tried) >= MOST_TRIALS or "properties" in told):
            break
        if not _matters(mutant, trial.counts):
            continue
        tried.append(trial)
        seen = _seen(mutant, trial)
        if seen is not None:
            fate, by = seen
            told.setdefault(fate, f"{trial}{by}")
    enough = told if quick else told.keys() & {"properties", "coverage"}
    if not enough and _answers_differ(mutant):
        told["answers"] = ""
    for fate in KILLED:
        if fate in told:
            return Outcome(mutant.name, mutant.machine, fate, told[fate])
    if not tried:
        return Outcome(mutant.name, mutant.machine, "survivor", NEVER_TAKEN)
    if all(_same_states(mutant, trial) for trial in tried):
        return Outcome(mutant.name, mutant.machine, "equivalent")
    return Outcome(mutant.name, mutant.machine, "survivor", "other states, in the same numbers")


def _seen(mutant: Mutant, trial: Trial) -> tuple[Fate, str] | None:
    """What a run sees of the mutant."""
    try:
        instance = trial.scenario.instance(mutant.of(trial.system), trial.counts.holds)
        result = run(instance, BLOW_UP * trial.counts.states)
    except TooLarge:
        return "counts", ": too many states"
    except DeclarationError as error:
        return "properties", f": {error}"
    if result.verdict is not Verdict.HOLDS:
        return "properties", f": {_broken(result)}"
    if not trial.counts.covers(result):
        return "coverage", ""
    return None if trial.counts.match(result) else ("counts", "")


def _matters(mutant: Mutant, counts: Counts) -> bool:
    """Whether the mutant may do something else in a scenario: its row is there, and is taken where
    only what it does has changed."""
    names = [f"{mutant.table.name}/{row}" for row in mutant.touched]
    if mutant.inside:
        return any(counts.rows.get(name) for name in names)
    return all(name in counts.rows for name in names)


def _broken(result: Result) -> str:
    broken = [item.name for item in result.properties if item.verdict == "broken"]
    return broken[0] if broken else "deadlock"


# Answers -----------------------------------------------------------------------------------------


def _answers_differ(mutant: Mutant) -> bool:
    """Whether a test of answers fails that passes without the fault."""
    files = [path for path in ANSWERS if mutant.table.name in _tables(path)]
    return bool(files) and not _tested(files, mutant)[0]


@cache
def _tables(path: Path) -> frozenset[str]:
    """The tables that tests look at; none where they fail as it is."""
    passed, tables = _tested([path], None)
    return tables if passed else frozenset()


def _tested(files: list[Path], mutant: Mutant | None) -> tuple[bool, frozenset[str]]:
    """Whether the tests in these files pass, in a process of their own, and which tables took a
    row in them."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_test, args=(files, mutant, there))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:  # a test has ended its process
        return False, frozenset()
    finally:
        child.join()


def _test(files: list[Path], mutant: Mutant | None, answer: Connection) -> None:
    if mutant is not None:
        # in place: tests may build systems of their own from the table
        object.__setattr__(mutant.table, "rows", mutant.rows)
    tables: set[str] = set()
    steps = Interpreter.steps

    def noted(*arguments: Any, **more: Any) -> Iterator[Step]:
        for step in steps(*arguments, **more):
            tables.add(step.action.table)
            yield step

    Interpreter.steps = noted
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ("-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    code = pytest.main([*options, *map(str, files)])
    answer.send((code == 0, frozenset(tables)))


# Equivalence -------------------------------------------------------------------------------------


def _same_states(mutant: Mutant, trial: Trial) -> bool:
    instance = trial.scenario.instance(mutant.of(trial.system), trial.counts.holds)
    return _states(instance) == _original_states(trial)


@cache
def _original_states(trial: Trial) -> str:
    return _states(trial.scenario.instance(trial.system, trial.counts.holds))


def _states(instance: Instance) -> str:
    """A digest of all reachable states, nothing sliced away, with the layout that they have."""
    prepared = prepare(instance, slicing=False)
    stride = prepared.packing.stride
    explorer = Explorer(prepared.kernel, stride, len(instance.row_names), 1, MEMORY)
    try:
        address = prepared.kernel.canonical_address
        firsts = {prepared.packing.pack(vector) for vector in prepared.grounded.initials}
        explorer.insert(b"".join(sorted({represent(address, state) for state in firsts})))
        explorer.begin_level()
        found = search(explorer)
        every = b"".join(
            part for level in range(len(explorer.levels)) for part in explorer.level_bytes(level)
        )
    finally:
        explorer.close()
    layout = [(leaf.name, leaf.low, leaf.high) for leaf in prepared.grounded.leaves]
    size = (found.states, found.transitions, found.depth, found.stopped)
    digest = hashlib.sha256(repr((layout, prepared.packing.places, size)).encode())
    for state in sorted(every[at : at + stride] for at in range(0, len(every), stride)):
        digest.update(state)
    return digest.hexdigest()
