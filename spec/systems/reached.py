"""The recorded runs of shipped systems, which say why other runs don't take some rows.

`reached.json` has them: the settings of each run, and by row the numbers of the runs that took it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ...language.systems import Reached

_FILE = Path(__file__).with_name("reached.json")


@cache
def reached() -> tuple[Reached, ...]:
    """The recorded runs."""
    known = json.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Reached(
            system,
            protocol,
            constants,
            frozenset(r for r, runs in known["rows"].items() if i in runs),
        )
        for i, (system, protocol, constants) in enumerate(known["runs"])
    )
