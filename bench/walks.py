"""Measures the time that random walks take to find each known bug, in a release that has it.

.venv/bin/python bench/walks.py [ID ...] [--seconds 60] [--seeds 5] [--threads N]

Bounds are the larger of the system's defaults and the bug's. Prints a table with the medians over
the seeds: steps, seconds without compilation, and processor time with it.
"""

import argparse
import sys
import time
from statistics import median

from epochfence.checker.prepare import available_threads
from epochfence.checker.simulation.simulate import Simulation, Walks, simulate
from epochfence.language import Instance, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs import BUGS, Bug, bug_of


def large(bug: Bug) -> Instance:
    """The system without the bug's fix, at the larger of its defaults and the bug's bounds."""
    usual = bug.declared.values()
    constants = {name: max(usual[name], value) for name, value in bug.constants.items()}
    return ending_anywhere(
        instantiate(
            bug.declared,
            bug.shown_at,
            constants,
            switch_on=bug.on,
            switch_off=(*bug.off, *bug.fix),
            properties=[bug.property],
        )
    )


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Known bugs, found by random walks.")
    parser.add_argument("bugs", nargs="*", help="ids (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="at most for each run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=available_threads())
    given = parser.parse_args()
    bugs = [bug_of(name) for name in given.bugs] or list(BUGS)
    print("| bug | system | release | property | found by | steps | seconds | processor |")
    print("|---|---|---|---|---:|---:|---:|---:|")
    found = 0
    for bug in bugs:
        instance, runs, used = large(bug), list[Simulation](), list[float]()
        for seed in range(1, given.seeds + 1):
            options = Walks(seed=str(seed), seconds=given.seconds, threads=given.threads, shorter=0)
            before = time.process_time()
            runs.append(simulate(instance, options))
            used.append(time.process_time() - before)
        hits = sum(run.trace is not None for run in runs)
        found += 2 * hits > len(runs)
        steps, seconds = median(run.steps for run in runs), median(run.seconds for run in runs)
        print(
            f"| {bug.id} | {bug.system} | {bug.shown_at} | {bug.property} | {hits} of {len(runs)} "
            f"| {steps:,.0f} | {seconds:.2f} | {median(used):.2f} |",
            flush=True,
        )
    print(f"\nMost seeds find {found} of {len(bugs)} bugs within {given.seconds:g} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
