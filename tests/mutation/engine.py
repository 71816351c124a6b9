"""The engine of `make mutation` and `make slips`: mutants judged in processes, kept, and counted.

A mutant is a system with one mistake: in a row (`mutants`), or in the source of a declaration
(`tests/slips`). The engine needs names and a function that judges a group of mutants.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

from rich.table import Table

from epochfence.tests.driver import in_processes, lines

TASKS = 6  # groups of mutants that a process judges before another one takes its place
EQUIVALENT, SURVIVOR = "equivalent", "survivor"


@dataclass(frozen=True)
class Outcome:
    """A mutant's fate, and by what: the property and scenario that kill it, or its effect if it
    survives. `group` is the machine at fault, or the kind of mistake."""

    name: str
    group: str
    fate: str
    by: str = ""


M = TypeVar("M")
"""A mutant as processes get it. As text it is its name."""

# Scores ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """The fates of a group's mutants: the number of each, and the survivors, each with its effect
    on the runs."""

    fates: dict[str, int]
    survivors: dict[str, str]

    @property
    def mutants(self) -> int:
        """How many there are."""
        return sum(self.fates.values())

    @property
    def different(self) -> int:
        """How many aren't equivalent to the original."""
        return self.mutants - self.fates.get(EQUIVALENT, 0)

    @property
    def killed(self) -> float:
        """The share of killed mutants, in 100, of those that aren't equivalent."""
        alive = self.fates.get(SURVIVOR, 0)
        return 100 * (self.different - alive) / self.different if self.different else 100.0


def score(outcomes: Iterable[Outcome]) -> Score:
    """The score of mutants with these outcomes."""
    every = list(outcomes)
    return Score(
        dict(Counter(outcome.fate for outcome in every)),
        {each.name: each.by for each in every if each.fate == SURVIVOR},
    )


def scores(outcomes: Iterable[Outcome]) -> dict[str, Score]:
    """The score of each group, in the order in which groups come first."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.group, []).append(outcome)
    return {group: score(those) for group, those in grouped.items()}


def rows(found: Mapping[str, Score], fates: Sequence[str]) -> list[tuple[str, ...]]:
    """A row for each group, and one for all: name, mutants, score, and the number of each fate."""
    total = Counter[str]()
    for one in found.values():
        total.update(one.fates)
    return [
        (name, str(of.mutants), f"{of.killed:.1f}", *(str(of.fates.get(fate, 0)) for fate in fates))
        for name, of in {**found, "all": Score(total, {})}.items()
    ]


def shown(columns: Sequence[str], of: Iterable[Sequence[str]]) -> Table:
    """A table for the terminal."""
    table = Table(*columns, box=None)
    for row in of:
        table.add_row(*row)
    return table


def written(columns: Sequence[str], of: Iterable[Sequence[str]]) -> str:
    """A table for a page; the columns but the first have numbers."""
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    lines += ("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in of)
    return "\n".join(lines)


# Records of earlier runs -------------------------------------------------------------------------


def digest(paths: Iterable[Path], *others: str) -> str:
    """The digest of files and texts."""
    found = hashlib.sha256("\0".join(others).encode())
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Kept:
    """An outcome with digests of what it depends on: of all that runs do, and of the tests too."""

    runs: str
    tests: str
    outcome: Outcome

    def stands(self, now: Records) -> bool:
        """Whether it still is the outcome. No test changes the fates `by_run`."""
        by_run = self.outcome.fate in now.by_run
        return self.runs == now.runs and (by_run or self.tests == now.tests)


@dataclass(frozen=True)
class Records:
    """A file of outcomes, with digests of what outcomes depend on now."""

    path: Path
    runs: str
    tests: str
    by_run: frozenset[str] = frozenset()

    def standing(self) -> dict[str, Outcome]:
        """The outcomes of earlier runs that still stand; the file keeps nothing else."""
        every = [
            Kept(**{**line, "outcome": Outcome(**line["outcome"])}) for line in lines(self.path)
        ]
        kept = [one for one in every if one.stands(self)]
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("".join(map(_line, kept)), encoding="utf-8")
        return {one.outcome.name: one.outcome for one in kept}

    def add(self, outcome: Outcome) -> None:
        """Keeps one."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(Kept(self.runs, self.tests, outcome)))


def _line(one: Kept) -> str:
    return json.dumps(asdict(one)) + "\n"


# Runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine(Generic[M]):
    """How mutants of a kind are judged, in groups, and where outcomes are kept."""

    judge: Callable[[list[M]], list[Outcome]]
    groups: Callable[[list[M], int], list[list[M]]]
    records: Records

    def run(self, mutants: Sequence[M], jobs: int) -> list[Outcome]:
        """The outcomes of the mutants, in their order. Each is kept as it comes in, and those of an
        earlier run that stand aren't judged again. Raises RuntimeError where none can be judged."""
        done = self.records.standing()
        left = [mutant for mutant in mutants if str(mutant) not in done]
        say = partial(print, file=sys.stderr, flush=True)
        say(f"{len(mutants)} mutants, {len(mutants) - len(left)} of them judged before")
        begun = time.monotonic()
        judged = in_processes(self.judge, self.groups(left, jobs), jobs, TASKS)
        for count, outcome in enumerate(chain.from_iterable(judged), 1):
            done[outcome.name] = outcome
            self.records.add(outcome)
            minutes = (time.monotonic() - begun) / count * (len(left) - count) / 60
            say(f"{count}/{len(left)}, {minutes:.0f} min left: {outcome.fate}: {outcome.name}")
        return [done[str(mutant)] for mutant in mutants]
