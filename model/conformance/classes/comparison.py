"""The comparison of a machine's local steps with those of Kafka's classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from .host import DiedError, Host
from .steps import LocalStep, LocalSteps

BATCH: Final = 2_000
ABSENT: Final = -(2**63)
"""The host's value for a field that the release's class lacks."""
MOST: Final = 50
"""The largest number of kept disagreements. They differ in their rows or places."""


class Disagreement(NamedTuple):
    """A step with another result in Kafka's class."""

    step: LocalStep
    places: tuple[str, ...]
    """The differences, as text: the place, the value of the tables, the value of the class."""
    path: tuple[str, ...]


@dataclass
class Comparison:
    """The steps that were compared so far."""

    machine: str
    steps: int = 0
    rows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    disagreeing: int = 0
    disagreements: list[Disagreement] = field(default_factory=list[Disagreement])
    lacking: set[str] = field(default_factory=set[str])
    """Fields that the class of this release doesn't have."""
    died: str = ""
    _known: set[Any] = field(default_factory=set[Any])

    def missing(self, machine: LocalSteps) -> dict[tuple[str, str], str]:
        """The rows that didn't run, each with the reason; empty if there is no reason."""
        return {row: machine.left_out(*row) or "" for row in machine.rows() if row not in self.rows}

    def add(self, step: LocalStep, result: tuple[int, ...], names: tuple[str, ...]) -> None:
        """Compares the result of a step. `names` are the names of its numbers."""
        self.steps += 1
        self.rows.update(step.rows)
        given = (*step.answer, *step.after)
        found = result[1 : len(given) + 1]
        if given == found:
            return
        places = list[tuple[str, str]]()
        for name, tables, kafka in zip(names, given, found, strict=True):
            if tables is None or tables == kafka:
                continue
            if kafka == ABSENT:
                self.lacking.add(name)
            else:
                places.append((name, f"{name}: {tables} in the tables, {kafka} in Kafka's class"))
        if not places:
            return
        self.disagreeing += 1
        kind = step.rows, tuple(name for name, _ in places)
        if kind not in self._known and len(self.disagreements) < MOST:
            self._known.add(kind)
            said = tuple(text for _, text in places)
            self.disagreements.append(Disagreement(step, said, tuple(step.way())))


def compare(machine: LocalSteps, steps: Iterable[LocalStep], host: Host) -> Comparison:
    """Runs the steps in Kafka's class, in batches, and compares the results. If the JVM dies,
    returns the results until then. Raises UnavailableError."""
    result = Comparison(machine.name)
    names = (*machine.answers, *machine.fields)
    rest, waiting = iter(steps), list[LocalStep]()
    done = list[tuple[LocalStep, tuple[int, ...]]]()
    try:
        while True:
            batch = list(islice(rest, BATCH))
            if waiting:
                done = list(zip(waiting, host.results(len(waiting)), strict=True))
            if batch:
                host.send([step.given for step in batch])
            _add(result, done, names)  # meanwhile the JVM takes the next batch
            if not batch:
                return result
            waiting = batch
    except DiedError as error:
        _add(result, done, names)
        result.died = str(error)
        return result


def _add(
    result: Comparison, done: list[tuple[LocalStep, tuple[int, ...]]], names: tuple[str, ...]
) -> None:
    for step, found in done:
        result.add(step, found, names)
    done.clear()
