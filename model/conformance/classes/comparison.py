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
"""The host has it in the place of a field that the release's class lacks."""
MOST: Final = 50
"""Disagreements that are kept, each of other rows or another place."""


class Disagreement(NamedTuple):
    """A step that Kafka's class takes in another way."""

    step: LocalStep
    places: tuple[str, ...]
    """Where they differ: the place, the value of the tables, the value of the class."""
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
        """The rows that didn't run, each with the reason, which is empty where there is none."""
        return {row: machine.left_out(*row) or "" for row in machine.rows() if row not in self.rows}

    def add(self, step: LocalStep, result: tuple[int, ...], names: tuple[str, ...]) -> None:
        """Compares the result of a step, whose numbers have these names."""
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
    """Has Kafka's class take the steps, in batches while the next ones are made. The results until
    then are kept where the JVM dies. Raises UnavailableError."""
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
            _add(result, done, names)  # the JVM takes the next ones meanwhile
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
