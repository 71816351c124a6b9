"""The table of docs/bugs.md: `python tests/spec/bugs_page.py [ID...]` runs bugs and renews it.

Without an ID it runs all; lines of others stay as they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from epochfence.checker.check import check
from epochfence.checker.verdict import Result
from epochfence.spec.bugs import BUGS, Bug

PAGE = Path(__file__).parents[2] / "docs" / "bugs.md"
HEAD = (
    "| bug | what goes wrong | affected | breaks | steps | states | mended |\n"
    "|---|---|---|---|---:|---:|---:|"
)
TABLE = re.compile(r"(?<=<!-- bugs -->\n)(.*?)(?=<!-- end of bugs -->)", re.DOTALL)


def told(bug: Bug, broken: Result) -> str:
    """What a bug's line says first: all but how many states there are."""
    assert broken.trace is not None
    name = f"`{bug.id}`" + "".join(f", {other}" for other in bug.also)
    steps = len(broken.trace.steps)
    return f"| {name} | {bug.title} | {bug.affected} | `{bug.property}` | {steps} |"


def line(bug: Bug) -> str:
    """A bug's line, by its runs."""
    broken, fixed = check(bug.broken()), check(bug.fixed())
    return f"{told(bug, broken)} {broken.states:,} | {fixed.states:,} |"


def table(text: str) -> str:
    """The table that a page has."""
    found = TABLE.search(text)
    assert found is not None
    return found[0].strip()


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    old = {row.split("`")[1]: row for row in table(text).splitlines()[2:]}
    wanted = sys.argv[1:] or [bug.id for bug in BUGS]
    lines = [line(bug) if bug.id in wanted or bug.id not in old else old[bug.id] for bug in BUGS]
    rows = "\n".join([HEAD, *lines])
    PAGE.write_text(TABLE.sub(lambda _: f"{rows}\n", text), encoding="utf-8")
