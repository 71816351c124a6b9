"""Seconds to prepare a search of each shipped system: to ground, lower and compile it.

.venv/bin/python bench/compile.py            renews a table of docs/performance.md
.venv/bin/python bench/compile.py --quick    each system once, at its defaults; writes nothing
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from run import Aim, publish, tell

from epochfence.checker.native.cache import object_cache
from epochfence.checker.prepare import prepare
from epochfence.language import Instance, System, instantiate
from epochfence.spec.systems import SHIPPED, shipped

MOST = 2
"""Seconds."""


def instances(system: System, *, quick: bool) -> Iterator[tuple[str, Instance]]:
    """The newest release at all named bounds, and the other releases at their defaults."""
    yield "newest release, default bounds", instantiate(system)
    if not quick:
        for name in system.bound_names:
            yield f"newest release, {name} bounds", instantiate(system, bounds=name)
        for release in system.protocols.releases:
            yield f"release {release}", instantiate(system, release)


@dataclass(frozen=True)
class Seconds:
    """The seconds that an instance takes before its search: the sum, and lowering and compiling
    alone.
    """

    whole: float
    lowering: float


def seconds(instance: Instance, times: int) -> Seconds:
    """The medians of `times` preparations."""
    found = [prepare(instance) for _ in range(times)]
    return Seconds(median(p.seconds for p in found), median(p.lowering for p in found))


def aims(*, quick: bool) -> Iterator[Aim]:
    """For each system the seconds at its defaults and those of the slowest instance."""
    for name in SHIPPED:
        found = {
            what: seconds(instance, 1 if quick else 3)
            for what, instance in instances(shipped(name), quick=quick)
        }
        parts = (
            f"{what} {took.whole:.2f} s, {took.lowering:.2f} s of it lowering and compiling"
            for what, took in found.items()
        )
        tell(f"{name}: {'; '.join(parts)}")
        longest = max(found, key=lambda what: found[what].whole)
        for what in dict.fromkeys((next(iter(found)), longest)):
            took = found[what]
            yield Aim(f"seconds until {name} is searched, {what}", MOST, took.whole, at_most=True)
            yield Aim("of these to lower and compile", MOST, took.lowering, at_most=True)


def main() -> int:
    """Runs the command line; returns the exit code."""
    os.environ[object_cache.VARIABLE] = object_cache.OFF  # compilation is measured
    parser = argparse.ArgumentParser(description="Time to compile the shipped systems.")
    parser.add_argument("--quick", action="store_true", help="defaults alone, nothing written")
    given = parser.parse_args()
    publish("compile", list(aims(quick=given.quick)), quick=given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
