"""The table of docs/bugs.md: `python tests/spec/bugs_page.py` runs every bug and renews it."""

from __future__ import annotations

import re
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
    rows = "\n".join([HEAD, *map(line, BUGS)])
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: f"{rows}\n", text), encoding="utf-8")
