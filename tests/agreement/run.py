"""`make agreement SYSTEMS=10000`: as many random systems, compared; goes on where it was.

    python tests/agreement/run.py --systems N [--first N] [--seconds S] [--seed N]
        [--processes N] [--results FILE] [--record]

Each system is a line of the results: a run that ended early does those that are missing, or, for
--seconds 0, tells what is there.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from textwrap import wrap
from typing import Any

from epochfence.checker.prepare import available_threads
from epochfence.tests.agreement.systems import agree
from epochfence.tests.agreement.ways import NAMES
from epochfence.tests.driver import in_processes, lines, options, record

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / ".fuzz" / "agreement.jsonl"
PAGE = ROOT / "docs" / "reliability.md"

PATIENCE = 30  # seconds of processor time for a system
PER_PROCESS = 250  # systems, then another process takes over: what LLVM takes isn't given back
LEFT_OUT = 0.05  # the share of systems that may be passed over


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


def done(results: Path) -> tuple[int | None, list[dict[str, Any]]]:
    """The seed and the systems of a file of results."""
    head, *systems = lines(results) or [{"seed": None}]
    return head["seed"], systems


def run(
    count: int, seconds: float, seed: int, results: Path, processes: int = 0, first: int = 0
) -> list[dict[str, Any]]:
    """The results for the systems from number `first` up to `count`, or for those of so many
    seconds, made in other processes or in this one."""
    known, found = done(results)
    results.parent.mkdir(parents=True, exist_ok=True)
    seed = seed if known is None else known
    print(f"SEED={seed}, {len(found)} systems done before", flush=True)
    missing = {*range(first, count)} - {item["number"] for item in found}
    numbers = sorted(missing) if seconds > 0 else []
    work = partial(compared, seed)
    results_of = (
        in_processes(work, numbers, processes, PER_PROCESS) if processes else map(work, numbers)
    )
    end = time.monotonic() + seconds
    with results.open("w") as file:
        for line in ({"seed": seed}, *found):
            file.write(json.dumps(line) + "\n")
        file.flush()
        for told in results_of:
            if "error" in told:
                print(f"system {told['number']} of seed {seed}: {told['error']}", flush=True)
            found.append(told)
            file.write(json.dumps(told) + "\n")
            file.flush()
            if time.monotonic() >= end:
                break
    return found


def figures(seed: int, found: Sequence[dict[str, Any]]) -> list[str]:
    """What a run came to, as lines of the documentation."""
    agreed = [item for item in found if "ways" in item]
    wrong = sum("error" in item for item in found)
    left = len(found) - wrong - len(agreed)
    ways = Counter(way for item in agreed for way in item["ways"])
    last = max(item["number"] for item in found) if found else 0
    lines = [
        f"{len(found):,} systems of seed {seed}, the last of them number {last:,}: {wrong} with a "
        f"disagreement, {left} passed over."
    ]
    if agreed:
        states = sorted(item["states"] for item in agreed)
        verdicts = Counter(item["verdict"].lower() for item in agreed)
        steps = [item["steps"] for item in agreed if item["steps"] is not None] or [0]
        seconds = sum(item["seconds"] for item in agreed)
        lines += [
            f"Reachable states: {states[0]:,} to {states[-1]:,}, median {median(states):,.0f}, "
            f"together {sum(states):,}.",
            f"Verdicts: {', '.join(f'{name} {n:,}' for name, n in verdicts.most_common())}; "
            f"counterexamples of {min(steps)} to {max(steps)} steps, median {median(steps):.0f}.",
            f"Also drawn, but of another size or kind than wanted: "
            f"{sum(item['draws'] for item in agreed):,}.",
            f"Processor time: {seconds:,.0f} s, {seconds / len(agreed):.2f} s for a system.",
        ]
    table = ["| way | comparisons |", "|---|---|", *(f"| {way} | {ways[way]:,} |" for way in NAMES)]
    return [*lines, "", *table, f"| all | {sum(ways.values()):,} |"]


def section(seed: int, found: Sequence[dict[str, Any]]) -> str:
    """The figures in lines of the documentation's page."""
    return "\n".join(
        wrapped for line in figures(seed, found) for wrapped in wrap(line, 100) or [""]
    )


def failures(found: Sequence[dict[str, Any]]) -> list[str]:
    """Why a run fails, if it does."""
    wrong = [item["number"] for item in found if "error" in item]
    left = sum("passed_over" in item for item in found)
    ways = {way for item in found for way in item.get("ways", ())}
    reasons = [f"these disagree: {wrong}"] if wrong else []
    reasons += [f"never compared: {way}" for way in NAMES if way not in ways]
    if left > LEFT_OUT * len(found):
        reasons.append(f"{left} of {len(found)} systems were passed over")
    return reasons


def main() -> int:
    """The command; 1 where anything disagrees, or a way was never taken."""
    parser = options(__doc__, seconds=math.inf, page=PAGE)
    parser.add_argument("--systems", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one's number")
    parser.add_argument("--processes", type=int, default=available_threads())
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    seed, results = given.seed, given.results
    found = run(given.systems, given.seconds, seed, results, given.processes, given.first)
    seed = done(results)[0] or seed  # that of the run that went on
    print("\n".join(figures(seed, found)))
    if given.record:
        record(PAGE, "agreement", section(seed, found))
    reasons = failures(found)
    for reason in reasons:
        print(f"FAILED: {reason}")
    return int(bool(reasons))


if __name__ == "__main__":
    sys.exit(main())
