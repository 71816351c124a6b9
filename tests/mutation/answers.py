"""Tests of answers in given states, run against mutants: collected once, and in a process of their
own for each mutant.

A test of answers takes steps of the interpreter or of machines at real ranges, explores nothing and
draws nothing. Which rows each of them takes is noted as they are run without a fault. A mutant is
then run with tests that take a row that it touches, and, where what is done by other rows may
differ as well, with those that look at its table. The fault is in the tables that systems have and
in those of machines at real ranges: these may be made by another call, with rows of their own.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from epochfence.checker import check
from epochfence.language import Instance, Table, instantiate
from epochfence.model.engine import machine
from epochfence.model.engine.compiler.program import Program
from epochfence.model.engine.interpreter import Interpreter, Step
from epochfence.tests.mutation.mutants import Mutant, faults
from epochfence.tests.spec.alterations import with_reduced

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "tests" / "spec"
AT_REAL_RANGES = (
    ROOT / "tests" / "model" / "client" / "test_producer.py",
    ROOT / "tests" / "model" / "client" / "test_producer_releases.py",
    ROOT / "tests" / "conformance" / "test_cases.py",
)
STEPS = (
    "import Interpreter",
    "tests.spec.coordinators import",
    "tests.spec.leaders import",
    "tests.spec.vectors import",
)
LONGEST = 120  # seconds, after which a mutant runs in a circle
NOT_STARTED = "tests of answers can't be collected"


def files() -> list[Path]:
    """The tests of what rows do, a step at a time."""
    of_systems = [
        path
        for path in sorted(SPEC.glob("test_*.py"))
        if any(text in path.read_text(encoding="utf-8") for text in STEPS)
    ]
    return [*of_systems, *AT_REAL_RANGES]


class Answers:
    """Whether tests of answers tell mutants from the original. Close it in the end."""

    def __init__(self, mutants: Mapping[str, Mutant], paths: list[Path] | None = None) -> None:
        context = get_context("fork")  # the tests have the very tables that mutants are of
        self.line, there = context.Pipe()
        paths = files() if paths is None else paths
        self.process = context.Process(target=_serve, args=(mutants, paths, there), daemon=True)
        self.process.start()
        there.close()

    def differ(self, mutant: Mutant) -> bool:
        """Whether a test fails that passes without the fault.

        Raises RuntimeError where no test can be run.
        """
        try:
            self.line.send(mutant.name)
            return self.line.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError(NOT_STARTED) from None

    def close(self) -> None:
        """Ends the process."""
        self.process.terminate()
        self.process.join()
        self.line.close()


def _serve(mutants: Mapping[str, Mutant], paths: list[Path], line: Connection) -> None:
    line.poll(None)  # properties kill most mutants: nothing is collected before one asks
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ("-q", "-m", "not slow", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    pytest.main([*options, *map(str, paths)], plugins=[_Server(mutants, line)])


@dataclass
class _Looked:
    """What a test has to do with: the rows that it could take, and the tables that it looked at."""

    rows: set[str] = field(default_factory=set[str])
    tables: set[str] = field(default_factory=set[str])


class _Server:
    """In place of running the collected tests once, runs them as often as it is asked to."""

    def __init__(self, mutants: Mapping[str, Mutant], line: Connection) -> None:
        self.mutants = mutants
        self.line = line

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        looked = _looked([item for item in session.items if not _draws(item)])
        while True:
            mutant = self.mutants[self.line.recv()]
            self.line.send(_fails(_chosen(looked, mutant), mutant))


def _looked(items: list[pytest.Item]) -> dict[pytest.Item, _Looked]:
    """The tests of answers that pass as it is."""
    found: dict[pytest.Item, _Looked] = {}
    steps, prepare = Interpreter.steps, check.prepare

    def watching(self: Interpreter, state: Any, table: str | None = None) -> Iterator[Step]:
        names = {table} if table else {action.table for action in self.instance.actions}
        now.tables |= names
        for step in steps(self, state, table):
            now.rows.add(self.instance.row_names[step.row])
            yield step

    def explores(*_: Any, **__: Any) -> Any:
        raise AssertionError("not a test of answers")

    Interpreter.steps, check.prepare = watching, explores
    try:
        for item in items:
            now = _Looked()
            with machine.noted() as taken:
                passes = _passes(item)
            now.tables |= {table.name for table, _ in taken}
            now.rows |= {f"{table.name}/{row.id}" for table, row in taken}
            if passes and now.tables:
                found[item] = now
    finally:
        Interpreter.steps, check.prepare = steps, prepare
    return found


def _draws(item: pytest.Item) -> bool:
    """Whether Hypothesis draws the states: what such a test sees is another thing each time."""
    return is_hypothesis_test(getattr(item, "obj", None))


def _passes(item: pytest.Item) -> bool:
    failed = item.session.testsfailed
    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    return item.session.testsfailed == failed


def _chosen(looked: Mapping[pytest.Item, _Looked], mutant: Mutant) -> list[pytest.Item]:
    """The tests that may tell the mutant from the original, those first that take its rows."""
    first = mutant.places[0]  # a test knows tables by their names, which are the same in all
    rows = {f"{first.table.name}/{name}" for name in first.touched}
    taking = [item for item, what in looked.items() if rows & what.rows]
    if mutant.inside:
        return taking
    others = {item: None for item, what in looked.items() if first.table.name in what.tables}
    return list(dict.fromkeys(taking) | others)


def _fails(items: list[pytest.Item], mutant: Mutant) -> bool:
    """Whether one of the tests fails, in a process that has the mutant in place of its table."""
    if not items:
        return False
    child = os.fork()
    if not child:
        signal.alarm(LONGEST)
        _put_in(mutant)
        os._exit(0 if all(map(_passes, items)) else 1)
    _, status = os.waitpid(child, 0)
    return status != 0


def _put_in(mutant: Mutant) -> None:
    """Every interpreter takes the mutant's rows from now on, and so does every machine
    that is made from now on."""
    put_in_machines(mutant)
    steps = Interpreter.steps
    with_fault: dict[int, Instance] = {}

    def faulty(self: Interpreter, state: Any, table: str | None = None) -> Iterator[Step]:
        instance = self.instance
        if id(instance) not in with_fault:
            self.instance = _with(mutant, instance)
            with_fault[id(self.instance)] = self.instance
        return steps(self, state, table)

    Interpreter.steps = faulty


def put_in_machines(mutant: Mutant) -> None:
    """Every machine that is made from now on takes the mutant's rows."""
    program_of = machine.program_of

    def of_faulty(tables: tuple[Table, ...], *others: Any) -> Program:
        return program_of(tuple(of_machine(mutant, table) for table in tables), *others)

    machine.program_of = of_faulty


def of_machine(mutant: Mutant, table: Table) -> Table:
    """The table of a machine that runs alone, with the mutant's fault, if it has the rows."""
    for place in mutant.places:
        if _same(table, place.table):
            return replace(table, rows=place.rows)
    first, *below = mutant.places[0].touched
    if table.name != mutant.places[0].table.name:
        return table
    at = next((at for at, row in enumerate(table.rows) if row.id == first), None)
    if at is None:
        return table
    row, rows = table.rows[at], table.rows
    if below:
        if [each.id for each in rows[at + 1 : at + 2]] != below:
            return table
        return replace(table, rows=(*rows[:at], rows[at + 1], row, *rows[at + 2 :]))
    what = re.sub(r" \(\d+\)$", "", mutant.what)
    for fault, _, other, _ in faults(row):
        if fault == what:
            return replace(table, rows=(*rows[:at], other, *rows[at + 1 :]))
    return table


def _with(mutant: Mutant, instance: Instance) -> Instance:
    """The instance with the mutant, if a table of it has the rows."""
    system = instance.system
    faulty = system
    for table in system.tables:
        changed = of_machine(mutant, table)
        if changed is not table:
            faulty = with_reduced(faulty, table, changed.rows)
    if faulty is system:
        return replace(instance)
    known = system.protocols.features_at(instance.protocol)
    changed = instantiate(
        faulty,
        instance.protocol,
        instance.chosen,
        switch_on=instance.features - known,
        switch_off=known - instance.features,
        properties=[item.name for item in instance.properties],
    )
    return replace(instance, actions=changed.actions)


def _same(table: Table, other: Table) -> bool:
    """Whether both are one declaration, though perhaps in other circumstances."""
    same_rows = [id(row) for row in table.rows] == [id(row) for row in other.rows]
    return table.name == other.name and same_rows
