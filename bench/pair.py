"""Compares the search of a system by this checkout and by another one, in turns.

.venv/bin/python bench/pair.py OTHER [SYSTEM] [--runs N]

OTHER is the folder of another checkout. Both run on this Python, with one thread and the fastest
code. Only the processor time of the search counts, without compilation. Ends with an error if
states, transitions, depth, or the counts or first depths of rows differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent.parent
PROGRAM = """
import json, resource, sys
from epochfence.checker.check import prepare
from epochfence.checker.native.search.explore import Explorer, search
from epochfence.checker.native.cache.machine_code import code_of
from epochfence.checker.native.jit.memory import fair_limit
from epochfence.language import instantiate
from epochfence.checker.named_systems import load_system

instance = instantiate(load_system(sys.argv[1]))
code_of(prepare(instance).kernel.code.modules)  # the fastest, so that the cache has it
prepared = prepare(instance)
explorer = Explorer(prepared.kernel, prepared.packing.stride, len(prepared.labels), 1, fair_limit())
explorer.insert(prepared.initials())
explorer.begin_level()
begun = resource.getrusage(resource.RUSAGE_SELF).ru_utime
search(explorer)
seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - begun
taken, first = {}, {}
for label, times, depth in zip(prepared.labels, explorer.found.taken, explorer.found.first):
    taken[str(label)] = taken.get(str(label), 0) + times
    first[str(label)] = min(depth or 1 << 30, first.get(str(label), 1 << 30))
found = explorer.count, explorer.found.transitions, explorer.depth, taken, first
print(json.dumps([seconds, (explorer.memory - explorer.base) / explorer.count, found]))
"""


def searched(paths: Path, system: str) -> tuple[float, float, Any]:
    """Runs a search with the package in the folder `paths`. Returns its seconds, the bytes a state,
    and its counts.
    """
    environment = {**os.environ, "PYTHONPATH": str(paths), "EPOCHFENCE_CACHE": str(paths / "code")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, system],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=paths,
    )
    if run.returncode:
        sys.exit(f"{paths.name}: {run.stderr.strip()[-2000:]}")
    seconds, size, found = json.loads(run.stdout)
    return seconds, size, found


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="A search by two checkouts, in turns.")
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("system", nargs="?", default="transactions", help="a name, or FILE.py")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if not (given.other / "checker").is_dir():
        parser.error(f"{given.other}: not the folder of a checkout")
    system = str(Path(given.system).resolve()) if given.system.endswith(".py") else given.system
    times: dict[str, list[float]] = {"other": [], "here": []}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, checkout in (("other", given.other.resolve()), ("here", HERE)):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "epochfence").symlink_to(checkout)
        for turn in range(1 + given.runs):  # the first turn compiles
            for name, seconds in times.items():
                took, size, found[name] = searched(Path(folder) / name, system)
                print(f"{name}: {took:.2f} s, {size:.2f} bytes a state", flush=True)
                if turn:
                    seconds.append(took)
    if found["other"] != found["here"]:
        sys.exit("the two searches differ in what they found")
    states, transitions, depth, *_ = found["here"]
    before, now = (median(seconds) for seconds in times.values())
    print(f"{given.system}: {states:,} states, {transitions:,} transitions, depth {depth}, alike")
    print(f"processor time: {before:.2f} s, here {now:.2f} s: {before / now:.2f} times the rate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
