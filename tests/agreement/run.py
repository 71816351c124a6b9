"""`make agreement SYSTEMS=10000`: as many random systems, compared; goes on where it was.

    python tests/agreement/run.py --systems N [--seconds S] [--seed N] [--processes N]
        [--results FILE]

Each system is a line of the results: a run that ended early does those that are missing.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from epochfence.checker.check import available_threads
from epochfence.tests.agreement.systems import agree
from epochfence.tests.agreement.ways import NAMES

RESULTS = Path(__file__).parents[2] / ".fuzz" / "agreement.jsonl"

PATIENCE = 30  # seconds of processor time for a system
PER_PROCESS = 250  # systems, then another process takes over: what LLVM takes isn't given back
LEFT_OUT = 0.05  # the share of systems that may be passed over

Compared = Callable[[int], dict[str, Any]]


class TooLong(BaseException):
    """The time for a system is over."""


def _too_long(*_: object) -> None:
    raise TooLong


def compared(seed: int, number: int) -> dict[str, Any]:
    """What became of a system, as a line of the results."""
    signal.signal(signal.SIGPROF, _too_long)
    try:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        with tempfile.TemporaryDirectory() as folder:
            return vars(agree(seed, number, Path(folder)))
    except TooLong:
        return {"number": number, "passed_over": f"takes over {PATIENCE} s"}
    except Exception:
        return {"number": number, "error": traceback.format_exc()}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def in_processes(processes: int, work: Compared, numbers: Iterable[int]) -> Iterator[Any]:
    """The systems compared in so many processes, each as it is done."""
    pool = get_context("spawn").Pool(processes, maxtasksperchild=PER_PROCESS)
    with pool:
        yield from pool.imap_unordered(work, numbers)


def done(results: Path) -> tuple[int | None, list[dict[str, Any]]]:
    """The seed and the systems of a file of results; half a line at its end is left out."""
    text = results.read_text() if results.exists() else ""
    lines = [line for line in text.splitlines(keepends=True) if line[-1] == "\n"]
    if not lines:
        return None, []
    head, *lines = lines
    return json.loads(head)["seed"], [json.loads(line) for line in lines]


def run(
    count: int, seconds: float, seed: int, results: Path, processes: int = 0
) -> list[dict[str, Any]]:
    """The results for as many systems, or of so many seconds, in other processes or in this one."""
    known, found = done(results)
    results.parent.mkdir(parents=True, exist_ok=True)
    seed = seed if known is None else known
    print(f"SEED={seed}, {len(found)} systems done before", flush=True)
    numbers = sorted({*range(count)} - {item["number"] for item in found})
    each = partial(in_processes, processes) if processes and numbers else map
    end = time.monotonic() + seconds
    with results.open("w") as file:
        for line in ({"seed": seed}, *found):
            file.write(json.dumps(line) + "\n")
        file.flush()
        for told in each(partial(compared, seed), numbers):
            if "error" in told:
                print(f"system {told['number']} of seed {seed}: {told['error']}", flush=True)
            found.append(told)
            file.write(json.dumps(told) + "\n")
            file.flush()
            if time.monotonic() >= end:
                break
    return found


def tell(found: Sequence[dict[str, Any]]) -> list[str]:
    """Prints the figures; why the run fails, if it does."""
    wrong = [item["number"] for item in found if "error" in item]
    agreed = [item for item in found if "ways" in item]
    left = len(found) - len(wrong) - len(agreed)
    ways = Counter(way for item in agreed for way in item["ways"])
    print(f"{len(found):,} systems, {len(wrong)} of them wrong, {left} passed over")
    if agreed:
        states = sorted(item["states"] for item in agreed)
        verdicts = Counter(item["verdict"] for item in agreed)
        steps = sorted(item["steps"] for item in agreed if item["steps"] is not None)
        seconds = sum(item["seconds"] for item in agreed)
        print(f"reachable states: {states[0]:,} to {states[-1]:,}, median {median(states):,.0f}")
        print(f"verdicts: {', '.join(f'{name} {n:,}' for name, n in verdicts.most_common())}")
        if steps:
            print(f"counterexamples: {steps[0]} to {steps[-1]} steps, median {median(steps):.0f}")
        print(f"drawn and not wanted: {sum(item['draws'] for item in agreed):,}")
        print(f"{sum(ways.values()):,} comparisons in {seconds:,.0f} s of processor time:")
    for way in NAMES:
        print(f"  {way}: {ways[way]:,}")
    reasons = [f"these disagree: {wrong}"] if wrong else []
    reasons += [f"never compared: {way}" for way in NAMES if not ways[way]]
    if left > LEFT_OUT * len(found):
        reasons.append(f"{left} of {len(found)} systems were passed over")
    return reasons


def main() -> int:
    """The command; 1 where anything disagrees, or a way was never taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--processes", type=int, default=available_threads())
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    found = run(given.systems, given.seconds, seed, given.results, given.processes)
    reasons = tell(found)
    for reason in reasons:
        print(f"FAILED: {reason}")
    return int(bool(reasons))


if __name__ == "__main__":
    sys.exit(main())
