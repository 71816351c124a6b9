"""The table of docs/bugs.md: `python tests/spec/bugs_page.py [ID...]` runs bugs and renews it.

Without an ID it runs all; lines of others stay as they are. Each is a program of its own, as users
run it, so that its time has nothing of another one.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from epochfence.spec.bugs import BUGS, Bug
from epochfence.tests.driver import record, recorded

PAGE = Path(__file__).parents[2] / "docs" / "bugs.md"
HEAD = (
    "| bug | description | affected | breaks | steps | states | fixed | s |\n"
    "|---|---|---|---|---:|---:|---:|---:|"
)


def line_of(bug: Bug, steps: int) -> str:
    """What a bug's line says first: all but how many states there are, and the time."""
    name = f"`{bug.id}`" + "".join(f", {other}" for other in bug.also)
    return f"| {name} | {bug.title} | {bug.affected} | `{bug.property}` | {steps} |"


def line(bug: Bug) -> str:
    """A bug's line, by its runs."""
    before = _processor_seconds()
    command = [sys.executable, "-m", "epochfence.cli", "bugs", bug.id, "--json", "-"]
    about = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    seconds = _processor_seconds() - before
    broken, fixed = about["broken"], about["fixed"]
    [steps] = [found["trace_length"] for found in broken["properties"]]
    counts = f"{broken['states']:,} | {fixed['states']:,} | {seconds:.1f}"
    return f"{line_of(bug, steps)} {counts} |"


def _processor_seconds() -> float:
    """Of all programs that were run, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    old = {row.split("`")[1]: row for row in recorded(PAGE, "bugs").splitlines()[2:]}
    wanted = sys.argv[1:] or [bug.id for bug in BUGS]
    lines = [line(bug) if bug.id in wanted or bug.id not in old else old[bug.id] for bug in BUGS]
    record(PAGE, "bugs", "\n".join([HEAD, *lines]))
