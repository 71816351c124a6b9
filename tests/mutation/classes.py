"""Runs mutants of rows against Kafka's own classes: `python tests/mutation/classes.py`.

The mutants are drawn from those whose rows the first states take. docs/classes.md has the result.
Needs a JDK and Maven.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from epochfence.language import Table
from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.model.conformance.classes.machines import MACHINES
from epochfence.model.conformance.classes.versions import VERSIONS
from epochfence.model.engine.errors import ModelError
from epochfence.model.machine import Machine
from epochfence.spec.systems.reductions.leader import LEADER_ALONE
from epochfence.tests.mutation.answers import of_machine
from epochfence.tests.mutation.mutants import every_mutant
from epochfence.tests.mutation.run import judge_named

RELEASE: Final = "4.4"
SEED: Final = 7


class Drawn(NamedTuple):
    """How many mutants of a machine are drawn, and the states that are explored with each."""

    machine: str
    states: int
    mutants: int
    remade: Callable[[tuple[Table, ...]], Machine]


def _remade(**options: Any) -> Callable[[tuple[Table, ...]], Machine]:
    return lambda tables: Machine(tables, protocol=RELEASE, **options)


DRAWN: Final = {
    "leader": Drawn("partition", 60, 20, _remade(reductions=LEADER_ALONE)),
    "coordinator": Drawn("transaction", 24, 20, _remade()),
    "producer-ids": Drawn(
        "rpc_manager", 40, 10, _remade(this=1, constants={"retry_backoff_ms": 50})
    ),
    "group-offsets": Drawn("group", 60, 15, _remade()),
}


def candidates(name: str, drawn: Drawn) -> Iterator[tuple[str, tuple[Table, ...]]]:
    """Each mutant with a row that the states take: its name, and the machine's tables with it."""
    steps = MACHINES[name](RELEASE)
    taken = {row for step in steps.steps(drawn.states) for row in step.rows}
    for label, mutant in every_mutant().items():
        if mutant.machine != drawn.machine:
            continue
        tables = tuple(of_machine(mutant, table) for table in steps.blank.tables)
        changed = [
            table.on.name
            for table, other in zip(steps.blank.tables, tables, strict=True)
            if other is not table
        ]
        touched = {row for place in mutant.places for row in place.touched}
        if any((event, row) in taken for event in changed for row in touched):
            yield label, tables


def main() -> None:
    """Prints each mutant with the number of steps that the class takes in another way, and the
    first that notices it in `make mutation`."""
    draw = random.Random(SEED)
    noticed, total = list[str](), 0
    for name, drawn in DRAWN.items():
        with Host(MACHINES[name](RELEASE).java, jars_of(VERSIONS[RELEASE])) as host:
            for label, tables in draw.sample(list(candidates(name, drawn)), drawn.mutants):
                machine = MACHINES[name](RELEASE, drawn.remade(tables))
                try:
                    result = compare(machine, machine.steps(drawn.states), host)
                    said, differs = f"{result.disagreeing} of {result.steps}", result.disagreeing
                except ModelError as error:  # the mutant leaves the range of a field
                    said, differs = str(error), 1
                total += 1
                noticed += [label] if differs else []
                print(f"{label}: {said}", flush=True)
    fates = Counter[str]()
    for label in noticed:
        (outcome,) = judge_named([label])
        fates[outcome.fate] += 1
        print(f"{label}: {outcome.fate}", flush=True)
    print(f"{len(noticed)} of {total} are noticed")
    print(f"in make mutation by: {dict(fates)}")


if __name__ == "__main__":
    main()
