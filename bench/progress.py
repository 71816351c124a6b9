"""Measures the cost of progress checks, compared with the search that finds the states.

.venv/bin/python bench/progress.py            renews a table of docs/performance.md
.venv/bin/python bench/progress.py --quick    the small bounds; writes nothing
"""

import argparse
import sys
from collections.abc import Iterator

from run import Aim, publish, tell

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Result
from epochfence.language import instantiate
from epochfence.spec.systems import shipped

SYSTEM = "transactions"
MOST_TIMES, MOST_BYTES = 3, 16
"""Seconds beside those of the search, and bytes a transition."""


def looked_at(*, quick: bool) -> Result:
    """A result with progress, from states that two threads find."""
    bounds = "small" if quick else "default"
    instance = instantiate(shipped(SYSTEM), bounds=bounds, progress=True)
    return check(instance, Options(threads=2))


def aims(*, quick: bool) -> Iterator[Aim]:
    """The figures of one run, after a small run for which Numba compiles."""
    looked_at(quick=True)
    result = looked_at(quick=quick)
    assert result.progress is not None, result.reason
    states, steps, seconds = result.states, result.transitions, result.progress.seconds
    tell(f"{states:,} states in {result.seconds:.1f} s, progress in {seconds:.1f} s")
    what = f"seconds for progress of {SYSTEM}, times those of the search: {states:,} states"
    yield Aim(what, MOST_TIMES, seconds / result.seconds, at_most=True)
    what = f"bytes a transition, beside what the search holds: {steps:,} transitions"
    yield Aim(what, MOST_BYTES, result.progress.bytes / steps, at_most=True)


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Progress beside the search.")
    parser.add_argument("--quick", action="store_true", help="small bounds, nothing written")
    given = parser.parse_args()
    publish("progress", list(aims(quick=given.quick)), quick=given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
