"""Measures the bytes of memory a found state, by system: records, tables, parts, buckets.

.venv/bin/python bench/store.py            renews a table of docs/performance.md
.venv/bin/python bench/store.py --quick    the small bounds; writes nothing
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from run import Aim, publish, tell

from epochfence.checker.named_systems import load_system
from epochfence.checker.native.jit.memory import fair_limit
from epochfence.checker.native.search.explore import Explorer, search
from epochfence.checker.prepare import prepare
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import shipped

MOST = 14
"""Bytes a state of `transactions`, its default bounds explored to the end."""


def systems(*, quick: bool) -> Iterator[tuple[str, Instance, int]]:
    """The systems with at least 100,000 states, each with its limit in bytes a state."""
    if quick:
        yield "transactions, small bounds", instantiate(shipped("transactions"), bounds="small"), 30
        return
    yield "transactions", instantiate(shipped("transactions")), MOST
    yield "producer-ids", instantiate(shipped("producer-ids")), MOST
    size_x = instantiate(load_system(str(Path(__file__).parent / "ktx.py")))
    yield "the benchmark protocol, X (2-2-2-1)", size_x, 20


def bytes_a_state(instance: Instance) -> tuple[int, int, float]:
    """The states that two threads find, the bytes of a packed state, and the bytes of memory a
    state.
    """
    prepared = prepare(instance)
    stride = prepared.packing.stride
    explorer = Explorer(prepared.kernel, stride, len(prepared.labels), 2, fair_limit())
    try:
        explorer.insert(prepared.initials())
        explorer.begin_level()
        search(explorer)
        return explorer.count, stride, (explorer.memory - explorer.base) / explorer.count
    finally:
        explorer.close()


def aims(*, quick: bool) -> Iterator[Aim]:
    """A figure for each system."""
    for name, instance, most in systems(quick=quick):
        states, stride, taken = bytes_a_state(instance)
        tell(f"{name}: {states:,} states of {stride} bytes, {taken:.2f} bytes each")
        what = f"bytes a state of {name}: {states:,} states, {stride} bytes packed"
        yield Aim(what, most, taken, at_most=True)


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Bytes for each state that was found.")
    parser.add_argument("--quick", action="store_true", help="small bounds, nothing written")
    given = parser.parse_args()
    publish("store", list(aims(quick=given.quick)), quick=given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
