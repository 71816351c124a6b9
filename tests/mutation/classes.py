"""Runs mutants of rows against Kafka's own classes: `python tests/mutation/classes.py`.

The mutants are drawn from those whose rows the first states take. docs/classes.md has the result.
Needs a JDK and Maven.
"""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.model.conformance.classes.machines import MACHINES
from epochfence.model.conformance.classes.versions import VERSIONS
from epochfence.model.engine import machine
from epochfence.model.engine.errors import ModelError
from epochfence.tests.mutation.answers import of_machine, put_in_machines
from epochfence.tests.mutation.mutants import Mutant, every_mutant
from epochfence.tests.mutation.run import judge_named

SEED: Final = 7
LONGEST: Final = 300  # seconds, after which a mutant runs in a circle
FAILED: Final = (
    ModelError, TimeoutError, OverflowError, ValueError, LookupError, AssertionError,
)  # fmt: skip


class Drawn(NamedTuple):
    """How many mutants of a machine are drawn, and the states that are explored with each."""

    machine: str
    states: int
    mutants: int
    release: str = "4.4"


DRAWN: Final = {
    "leader": Drawn("partition", 60, 20),
    "coordinator": Drawn("transaction", 24, 20),
    "producer-ids": Drawn("rpc_manager", 40, 10),
    "group-offsets": Drawn("group", 60, 15),
    "controller": Drawn("controller", 40, 10),
    "zookeeper-ids": Drawn("zk_manager", 40, 10, "2.8"),
    "client": Drawn("producer", 400, 15),
}


def candidates(name: str, drawn: Drawn) -> Iterator[tuple[str, Mutant]]:
    """Each mutant with a row that the states take, by its name."""
    steps = MACHINES[name](drawn.release)
    taken = {row for step in steps.steps(drawn.states) for row in step.rows}
    for label, mutant in every_mutant().items():
        if mutant.machine != drawn.machine:
            continue
        tables = steps.blank.tables
        changed = [table.on.name for table in tables if of_machine(mutant, table) is not table]
        touched = {row for place in mutant.places for row in place.touched}
        if any((event, row) in taken for event in changed for row in touched):
            yield label, mutant


def differing(name: str, drawn: Drawn, mutant: Mutant) -> tuple[int, str]:
    """How many steps the class takes in another way than the mutant does, and that in a line."""
    jars = jars_of(VERSIONS[drawn.release])
    with _put_in(mutant), Host(MACHINES[name].java, jars) as host:
        steps = MACHINES[name](drawn.release)
        try:
            taken = list(steps.steps(drawn.states))
        except FAILED as error:  # the mutant can't take a step
            return 1, f"{type(error).__name__}: {error}"
        signal.alarm(0)
        found = compare(steps, taken, host)
        assert not found.died, found.died
    return found.disagreeing, f"{found.disagreeing} of {found.steps}"


@contextmanager
def _put_in(mutant: Mutant) -> Iterator[None]:
    program_of = machine.program_of
    put_in_machines(mutant)
    signal.signal(signal.SIGALRM, _ended)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        machine.program_of = program_of


def _ended(*_: Any) -> None:
    raise TimeoutError(f"no end within {LONGEST} s")


def main(names: list[str]) -> None:
    """Prints each mutant with the number of steps that the class takes in another way, and the
    first that notices it in `make mutation`."""
    noticed = dict[str, list[str]]()
    for name in names or DRAWN:
        drawn = DRAWN[name]
        draw = random.Random(f"{SEED} {name}")
        found = list(candidates(name, drawn))
        noticed[name] = []
        chosen = draw.sample(found, min(drawn.mutants, len(found)))
        for label, mutant in chosen:
            number, said = differing(name, drawn, mutant)
            noticed[name] += [label] if number else []
            print(f"{label}: {said}", flush=True)
        print(f"{name}: {len(noticed[name])} of {len(chosen)} are noticed", flush=True)
    fates = Counter[str]()
    for label in (label for labels in noticed.values() for label in labels):
        (outcome,) = judge_named([label])
        fates[outcome.fate] += 1
        print(f"{label}: {outcome.fate}", flush=True)
    print(f"in make mutation by: {dict(fates)}")


if __name__ == "__main__":
    main(sys.argv[1:])
