"""Judges mutants of the shipped tables: `make mutation`, or a part of it by hand.

`python tests/mutation/run.py [--machine M ...] [--system S] [--sample N --seed K] [--json FILE]`.
What was judged is kept in build/mutation.jsonl as long as nothing that it depends on has changed: a
run that was broken off goes on from there. A run over all mutants of machines renews their part of
docs/mutation.md, and ends with 1 where a score is too low. `--quick` stops at whatever kills a
mutant first, where otherwise a property is looked for. `--baseline` records what the scenarios come
to now, which mutants are compared with.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from rich.console import Console

from epochfence.checker.prepare import available_threads
from epochfence.files import write_whole
from epochfence.language import System
from epochfence.spec.systems import SHIPPED
from epochfence.tests.driver import options
from epochfence.tests.mutation import report
from epochfence.tests.mutation.answers import AT_REAL_RANGES, ROOT, SPEC, Answers
from epochfence.tests.mutation.engine import (
    SURVIVOR,
    Engine,
    Outcome,
    Records,
    digest,
    rows,
    scores,
    shown,
)
from epochfence.tests.mutation.judge import judge
from epochfence.tests.mutation.mutants import Mutant, every_mutant
from epochfence.tests.mutation.scenarios import BASELINE, renew_baseline, trials
from epochfence.tests.mutation.together import AT_ONCE

KEPT = ROOT / "build" / "mutation.jsonl"
MACHINERY = ("judge", "mutants", "scenarios", "together")


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The mutants asked for, by name."""
    names = [
        name
        for name, mutant in every_mutant().items()
        if mutant.machine in (arguments.machine or [mutant.machine])
        and _in(mutant, arguments.system)
    ]
    return names if arguments.sample is None else sample(names, arguments.sample, arguments.seed)


def _in(mutant: Mutant, system: str | None) -> bool:
    return system is None or system in [each.name for each in mutant.systems()]


def sample(names: list[str], count: int, seed: int) -> list[str]:
    """So many of them, as many of each machine as of any other if there are enough."""
    drawn: dict[str, list[str]] = {}
    for name in random.Random(seed).sample(names, len(names)):
        drawn.setdefault(every_mutant()[name].machine, []).append(name)
    groups = [drawn[machine] for machine in sorted(drawn)]
    turns = (group[at] for at in range(len(names)) for group in groups if at < len(group))
    return [name for name, _ in zip(turns, range(count), strict=False)]


def chunks(names: list[str], jobs: int) -> list[list[str]]:
    """The mutants in groups that have their systems in common."""
    most = max(1, min(AT_ONCE, len(names) // jobs))
    groups: dict[tuple[System, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(every_mutant()[name].systems()), []).append(name)
    return [group[at : at + most] for group in groups.values() for at in range(0, len(group), most)]


@cache
def answers() -> Answers:
    """The tests of answers, as this process runs them until it ends."""
    return Answers(every_mutant())


known = cache(trials)


def judge_named(names: list[str], *, quick: bool = False) -> list[Outcome]:
    """The outcomes of mutants with their systems in common."""
    mutants = [every_mutant()[name] for name in names]
    every = [trial for system in mutants[0].systems() for trial in known(system)]
    if quick:  # whatever kills first is enough: what takes least is tried first
        every.sort(key=lambda trial: trial.recorded.transitions)
    return judge(mutants, every, answers(), quick=quick)


def records(*, quick: bool) -> Records:
    """The file of what was judged before, and the digests of what outcomes depend on."""
    rooms = ("spec", "language", "checker", "model")
    runs = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    runs += (Path(__file__).with_name(f"{name}.py") for name in MACHINERY)
    runs.append(SPEC / "alterations.py")
    now = digest([*runs, BASELINE], "quick" if quick else "")
    folders = dict.fromkeys((SPEC, *(path.parent for path in AT_REAL_RANGES)))
    every = (path for room in folders for path in room.rglob("*"))
    tests = [path for path in every if path.suffix in (".py", ".json")]
    tests.append(Path(__file__).with_name("answers.py"))
    later = digest([*tests, SPEC.parent / "conftest.py"], now)
    return Records(KEPT, now, later, by_run=frozenset(("properties", "coverage")))


def main() -> int:
    """Judges what was asked for and prints the scores."""
    parser = options("Judges mutants of the shipped tables.", seed=0)
    parser.add_argument("--machine", nargs="+", choices=sorted(report.machines()))
    parser.add_argument("--system", choices=list(SHIPPED))
    parser.add_argument("--sample", type=int, metavar="N", help="this many of them")
    parser.add_argument("--jobs", type=int, default=available_threads(), metavar="J")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the outcomes for machines")
    parser.add_argument("--quick", action="store_true", help="take what kills first")
    parser.add_argument("--baseline", action="store_true", help="record what is compared with")
    given = parser.parse_args()
    if given.baseline:
        renew_baseline()
        return 0
    judge_all = partial(judge_named, quick=given.quick)
    try:
        outcomes = Engine(judge_all, chunks, records(quick=given.quick)).run(
            chosen(given), given.jobs
        )
    except RuntimeError as error:
        print(f"mutation: {error}", file=sys.stderr)
        return 2
    return tell(outcomes, given)


def tell(outcomes: list[Outcome], arguments: argparse.Namespace) -> int:
    """Prints and writes the scores; 1 where a full run's are too low."""
    found = scores(outcomes)
    Console(width=100).print(shown(report.COLUMNS, rows(found, report.FATES)))
    for outcome in outcomes:
        if outcome.fate == SURVIVOR and report.reason(outcome.name) is None:
            print(f"survives, unexplained: {outcome.name} ({outcome.by})")
    if arguments.json is not None:
        write_whole(arguments.json, json.dumps(list(map(asdict, outcomes)), indent=1) + "\n")
    whole = report.whole(found)
    if whole and not arguments.quick:
        report.record(whole)
    low = [name for name, score in whole.items() if score.killed < report.LEAST]
    for name in low:
        print(f"{name}: fewer than {report.LEAST} in 100 are killed")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
