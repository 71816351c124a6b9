"""Scripts of known bugs: the faults and the clients' calls of a bug's shortest run.

`known_bugs.json` has them. `python tests/model/serve/gallery.py --schedules` makes it from the
runs of `spec.bugs`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from ....language.declaration.arguments import one_of
from ....language.declaration.errors import DeclarationError
from ....spec.bugs import bug_of
from ....strict_json import read_json

FILE: Final = "known_bugs.json"


class Script(NamedTuple):
    """The schedule of a bug's run: the clients' `calls` by step, the `faults` as objects of a
    script, and the steps in which batches expire."""

    bug: str
    transactional: bool
    partitions: int
    calls: tuple[tuple[Any, ...], ...]
    faults: tuple[dict[str, Any], ...]
    expiries: tuple[int, ...]

    @property
    def release(self) -> str:
        """The last release that has the bug."""
        return bug_of(self.bug).releases[-1]


@cache
def scripts() -> tuple[Script, ...]:
    """Every script, in the order of the bugs."""
    return tuple(
        Script(
            bug=entry["bug"],
            transactional=entry["transactional"],
            partitions=entry["partitions"],
            calls=tuple((*call,) for call in entry["calls"]),
            faults=tuple(entry["faults"]),
            expiries=tuple(entry["expiries"]),
        )
        for entry in entries()
        if "calls" in entry
    )


def entries() -> list[dict[str, Any]]:
    """The file's content: an entry for each bug. One without a script has the reason, `why`."""
    return read_json((Path(__file__).parent / FILE).read_bytes())


def script_of(name: str) -> Script:
    """The script of a bug. Raises DeclarationError for an unknown bug, or one without a script."""
    known = {script.bug: script for script in scripts()}
    bug = bug_of(name)
    if bug.id not in known:
        (why,) = (entry["why"] for entry in entries() if entry["bug"] == bug.id)
        raise DeclarationError(f"{bug.id} has no script: {why} ({one_of(name, known)})")
    return known[bug.id]
