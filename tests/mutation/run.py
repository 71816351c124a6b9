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
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from epochfence.checker.prepare import available_threads
from epochfence.files import write_whole
from epochfence.language import System
from epochfence.spec.systems import SHIPPED
from epochfence.tests.mutation import report
from epochfence.tests.mutation.answers import AT_REAL_RANGES, ROOT, SPEC, Answers
from epochfence.tests.mutation.judge import Outcome, judge
from epochfence.tests.mutation.mutants import Mutant, every_mutant
from epochfence.tests.mutation.scenarios import BASELINE, renew_baseline, trials
from epochfence.tests.mutation.together import AT_ONCE

KEPT = ROOT / "build" / "mutation.jsonl"
MACHINERY = ("answers", "judge", "mutants", "scenarios", "together")
TASKS = 6  # groups of mutants that a process judges before another one takes its place


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


def judged(names: list[str], jobs: int, *, quick: bool = False) -> Iterator[Outcome]:
    """The outcomes, as they come in, of mutants judged in processes of their own.

    These end now and then: what was compiled for a run stays in its process. Where one is ended
    from outside, others go on with what is left.
    """
    left = chunks(names, max(1, min(AT_ONCE, len(names) // jobs)))
    while left:
        done: list[list[str]] = []
        context = get_context("spawn")
        with ProcessPoolExecutor(jobs, context) as pool:
            turn = left[: TASKS * jobs]  # max_tasks_per_child can hang (CPython's issue 115634)
            waiting = {pool.submit(_judge, chunk, quick): chunk for chunk in turn}
            try:
                for ended in as_completed(waiting):
                    outcomes = ended.result()
                    done.append(waiting[ended])
                    yield from outcomes
            except BrokenProcessPool:
                if not done:
                    raise
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        left = [chunk for chunk in left if chunk not in done]


def chunks(names: list[str], most: int) -> list[list[str]]:
    """The mutants in groups that have their systems in common."""
    groups: dict[tuple[System, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(every_mutant()[name].systems()), []).append(name)
    return [group[at : at + most] for group in groups.values() for at in range(0, len(group), most)]


@cache
def answers() -> Answers:
    """The tests of answers, as this process runs them until it ends."""
    return Answers(every_mutant())


known = cache(trials)


def _judge(names: list[str], quick: bool) -> list[Outcome]:
    mutants = [every_mutant()[name] for name in names]
    every = [trial for system in mutants[0].systems() for trial in known(system)]
    if quick:  # whatever kills first is enough: what takes least is tried first
        every.sort(key=lambda trial: trial.recorded.transitions)
    return judge(mutants, every, answers(), quick=quick)


# What was judged before --------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """An outcome with digests of what it depends on: of all that runs do, and of the tests too.

    What a run has told, no test of answers changes.
    """

    runs: str
    tests: str
    outcome: Outcome

    def stands(self, runs: str, tests: str) -> bool:
        """Whether it still is the outcome, with these digests now."""
        by_run = self.outcome.fate in ("properties", "coverage")
        return self.runs == runs and (by_run or self.tests == tests)


def digests(*, quick: bool) -> tuple[str, str]:
    """Those of what outcomes depend on, as it is now."""
    digest = hashlib.sha256(b"quick" if quick else b"")
    readers = [
        path for room in ("language", "checker", "model") for path in (ROOT / room).rglob("*.py")
    ]
    machinery = (Path(__file__).with_name(f"{name}.py") for name in MACHINERY)
    runs = [*(ROOT / "spec").rglob("*.py"), *readers, *machinery, BASELINE]
    for path in sorted(runs):
        digest.update(path.read_bytes())
    now = digest.hexdigest()
    rooms = dict.fromkeys((SPEC, *(path.parent for path in AT_REAL_RANGES)))
    tests = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".json")]
    for path in sorted([*tests, SPEC.parent / "conftest.py"]):
        digest.update(path.read_bytes())
    return now, digest.hexdigest()


def kept(runs: str, tests: str) -> dict[str, Outcome]:
    """What earlier runs have judged and what still stands; the file keeps nothing else."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    every = [
        Kept(**{**(found := json.loads(line)), "outcome": Outcome(**found["outcome"])})
        for line in lines
    ]
    standing = [one for one in every if one.stands(runs, tests)]
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text("".join(map(_line, standing)), encoding="utf-8")
    return {one.outcome.name: one.outcome for one in standing}


def _line(one: Kept) -> str:
    return json.dumps(asdict(one)) + "\n"


# The command -------------------------------------------------------------------------------------


def main() -> int:
    """Judges what was asked for and prints the scores."""
    parser = argparse.ArgumentParser(description="Judges mutants of the shipped tables.")
    parser.add_argument("--machine", nargs="+", choices=sorted(report.machines()))
    parser.add_argument("--system", choices=list(SHIPPED))
    parser.add_argument("--sample", type=int, metavar="N", help="this many of them")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="which ones (default: 0)")
    parser.add_argument("--jobs", type=int, default=available_threads(), metavar="J")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the outcomes for machines")
    parser.add_argument("--quick", action="store_true", help="take what kills first")
    parser.add_argument("--baseline", action="store_true", help="record what is compared with")
    arguments = parser.parse_args()
    if arguments.baseline:
        renew_baseline()
        return 0
    names = chosen(arguments)
    now = digests(quick=arguments.quick)
    done = kept(*now)
    say = partial(print, file=sys.stderr, flush=True)
    left = [name for name in names if name not in done]
    say(f"{len(names)} mutants, {len(names) - len(left)} of them judged before")
    begun = time.monotonic()
    try:
        for count, outcome in enumerate(judged(left, arguments.jobs, quick=arguments.quick), 1):
            done[outcome.name] = outcome
            with KEPT.open("a", encoding="utf-8") as keep:
                keep.write(_line(Kept(*now, outcome)))
            minutes = (time.monotonic() - begun) / count * (len(left) - count) / 60
            say(f"{count}/{len(left)}, {minutes:.0f} min left: {outcome.fate}: {outcome.name}")
    except RuntimeError as error:
        say(f"mutation: {error}")
        return 2
    return tell([done[name] for name in names], arguments)


def tell(outcomes: list[Outcome], arguments: argparse.Namespace) -> int:
    """Prints and writes the scores; 1 where a full run's are too low."""
    shown = Table(*report.COLUMNS, box=None)
    found = report.scores(outcomes)
    for row in report.table(found):
        shown.add_row(*row)
    Console(width=100).print(shown)
    for outcome in outcomes:
        if outcome.fate == "survivor" and report.reason(outcome.name) is None:
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
