"""Judges mutants of the shipped tables: `make mutation`, or a part of it by hand.

`python tests/mutation/run.py [--machine M] [--system S] [--sample N --seed K] [--json FILE]`.
What was judged is kept in build/mutation.jsonl as long as nothing in the tables or the tests has
changed: a run that was broken off goes on from there. A run over all mutants writes
docs/mutation.md, and ends with 1 where a machine's score is too low; `--page` writes it after a run
over some. `--quick` stops at whatever kills a mutant first, where otherwise a property is looked
for. `--baseline` records what the scenarios come to now, which mutants are compared with.
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
from dataclasses import asdict
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from epochfence.checker.check import available_threads
from epochfence.spec.systems import SHIPPED
from epochfence.tests.mutation import report
from epochfence.tests.mutation.judge import ANSWERS, ROOT, Outcome, judge
from epochfence.tests.mutation.mutants import Mutant, every_mutant
from epochfence.tests.mutation.scenarios import BASELINE, renew_baseline, trials

KEPT = ROOT / "build" / "mutation.jsonl"
AT_ONCE = 50  # mutants that a process judges before another one takes its place


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The mutants asked for, by name."""
    names = [
        name
        for name, mutant in every_mutant().items()
        if arguments.machine in (None, mutant.machine) and _in(mutant, arguments.system)
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

    These end now and then: what was compiled for a run stays in its process.
    """
    for start in range(0, len(names), AT_ONCE * jobs):
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            part = names[start : start + AT_ONCE * jobs]
            waiting = [pool.submit(_judge, name, quick) for name in part]
            try:
                for done in as_completed(waiting):
                    yield done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


known = cache(trials)


def _judge(name: str, quick: bool) -> Outcome:
    mutant = every_mutant()[name]
    return judge(mutant, [t for system in mutant.systems() for t in known(system)], quick=quick)


# What was judged before --------------------------------------------------------------------------


def fingerprint(*, quick: bool) -> str:
    """A digest of all that an outcome depends on."""
    digest = hashlib.sha256(b"quick" if quick else b"")
    files = [*(ROOT / "spec").rglob("*.py"), *(ROOT / "checker").glob("*.py"), BASELINE, *ANSWERS]
    judges = (Path(__file__).with_name(f"{name}.py") for name in ("judge", "mutants", "scenarios"))
    for path in sorted([*files, *judges]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kept(now: str) -> dict[str, Outcome]:
    """What earlier runs have judged, if nothing has changed since."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    if lines[:1] != [now]:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(f"{now}\n", encoding="utf-8")
        return {}
    found = (Outcome(**json.loads(line)) for line in lines[1:])
    return {outcome.name: outcome for outcome in found}


# The command -------------------------------------------------------------------------------------


def main() -> int:
    """Judges what was asked for and prints the scores."""
    parser = argparse.ArgumentParser(description="Judges mutants of the shipped tables.")
    parser.add_argument("--machine", choices=sorted({m.machine for m in every_mutant().values()}))
    parser.add_argument("--system", choices=list(SHIPPED))
    parser.add_argument("--sample", type=int, metavar="N", help="this many of them")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="which ones (default: 0)")
    parser.add_argument("--jobs", type=int, default=available_threads(), metavar="J")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the outcomes for machines")
    parser.add_argument("--page", action="store_true", help="write the page in any case")
    parser.add_argument("--quick", action="store_true", help="take what kills first")
    parser.add_argument("--baseline", action="store_true", help="record what is compared with")
    arguments = parser.parse_args()
    if arguments.baseline:
        renew_baseline()
        return 0
    names = chosen(arguments)
    done = kept(fingerprint(quick=arguments.quick))
    say = partial(print, file=sys.stderr, flush=True)
    left = [name for name in names if name not in done]
    say(f"{len(names)} mutants, {len(names) - len(left)} of them judged before")
    begun = time.monotonic()
    with KEPT.open("a", encoding="utf-8") as keep:
        for count, outcome in enumerate(judged(left, arguments.jobs, quick=arguments.quick), 1):
            done[outcome.name] = outcome
            keep.write(json.dumps(asdict(outcome)) + "\n")
            keep.flush()
            minutes = (time.monotonic() - begun) / count * (len(left) - count) / 60
            say(f"{count}/{len(left)}, {minutes:.0f} min left: {outcome.fate}: {outcome.name}")
    return tell([done[name] for name in names], arguments)


def tell(outcomes: list[Outcome], arguments: argparse.Namespace) -> int:
    """Prints and writes the scores; 1 where a full run's are too low."""
    shown = Table(*report.COLUMNS, box=None)
    for row in report.table(outcomes):
        shown.add_row(*row)
    Console(width=100).print(shown)
    for outcome in outcomes:
        if outcome.fate == "survivor" and report.reason(outcome.name) is None:
            print(f"survives, unexplained: {outcome.name} ({outcome.by})")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(list(map(asdict, outcomes)), indent=1) + "\n")
    whole = len(outcomes) == len(every_mutant())
    if whole or arguments.page:
        report.PAGE.write_text(report.page(outcomes, len(every_mutant())), encoding="utf-8")
    if not whole:
        return 0
    low = [name for name, group in report.by_machine(outcomes).items()
           if report.score(group) < report.LEAST]  # fmt: skip
    for name in low:
        print(f"{name}: fewer than {report.LEAST} in 100 are killed")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
