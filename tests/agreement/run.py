"""`make agreement SYSTEMS=10000`: as many random systems, compared; goes on where it was.

    python tests/agreement/run.py --systems N [--seconds S] [--seed N] [--results FILE]

Each system is a line of the results: a run that ended early goes on behind the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from epochfence.checker.native import object_cache
from epochfence.tests.agreement.systems import agree

RESULTS = Path(__file__).parents[2] / ".fuzz" / "agreement.jsonl"

PATIENCE = 30  # seconds of processor time for a system: some take minutes to compile


class TooLong(BaseException):
    """The time for a system is over."""


def _too_long(*_: object) -> None:
    raise TooLong


def done(results: Path) -> tuple[int | None, list[dict[str, Any]]]:
    """The seed and the systems of a file of results; half a line at its end is left out."""
    if not results.exists():
        return None, []
    head, *lines = [
        line for line in results.read_text().splitlines(keepends=True) if line[-1] == "\n"
    ]
    return json.loads(head)["seed"], [json.loads(line) for line in lines]


def run(count: int, seconds: float, seed: int, results: Path) -> list[dict[str, Any]]:
    """The results for as many systems, or of so many seconds."""
    known, found = done(results)
    results.parent.mkdir(parents=True, exist_ok=True)
    seed = seed if known is None else known
    print(f"SEED={seed}, {len(found)} systems done before", flush=True)
    signal.signal(signal.SIGPROF, _too_long)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, results.open("w") as file:
        for line in ({"seed": seed}, *found):
            file.write(json.dumps(line) + "\n")
        file.flush()
        while len(found) < count and time.monotonic() < end:
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            try:
                told = vars(agree(seed, len(found), Path(folder)))
            except TooLong:
                told = {"number": len(found), "passed_over": f"takes over {PATIENCE} s"}
            except Exception:
                told = {"number": len(found), "error": traceback.format_exc()}
                print(f"system {len(found)} of seed {seed}: {told['error']}", flush=True)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            found.append(told)
            file.write(json.dumps(told) + "\n")
            file.flush()
    return found


def tell(found: Sequence[dict[str, Any]]) -> int:
    """Prints the figures; how many disagree."""
    wrong = [item for item in found if "error" in item]
    agreed = [item for item in found if "ways" in item]
    left = len(found) - len(wrong) - len(agreed)
    print(f"{len(found):,} systems, {len(wrong)} of them wrong, {left} passed over")
    if agreed:
        states = sorted(item["states"] for item in agreed)
        ways = Counter(way for item in agreed for way in item["ways"])
        verdicts = Counter(item["verdict"] for item in agreed)
        seconds = sum(item["seconds"] for item in agreed)
        print(f"reachable states: {states[0]:,} to {states[-1]:,}, median {median(states):,.0f}")
        print(f"verdicts: {', '.join(f'{name} {n:,}' for name, n in verdicts.most_common())}")
        print(f"{sum(ways.values()):,} comparisons in {seconds:,.0f} s:")
        for way, times in ways.most_common():
            print(f"  {way}: {times:,}")
    return len(wrong)


def main() -> int:
    """The command; 1 where anything disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    os.environ[object_cache.VARIABLE] = object_cache.OFF  # no code of theirs is met again
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    return int(tell(run(given.systems, given.seconds, seed, given.results)) > 0)


if __name__ == "__main__":
    sys.exit(main())
