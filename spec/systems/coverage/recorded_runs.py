"""The recorded runs of shipped systems, which say why other runs don't take some rows.

`recorded_runs.json` has them: the settings of each run, and the numbers of the runs by row that
they took, and by property whose premise they met.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ....language.systems import Reached

_FILE = Path(__file__).with_name("recorded_runs.json")


@cache
def reached() -> tuple[Reached, ...]:
    """The recorded runs."""
    known = json.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Reached(system, protocol, constants, _of(known["rows"], i), _of(known["premises"], i))
        for i, (system, protocol, constants) in enumerate(known["runs"])
    )


def _of(names: dict[str, list[int]], run: int) -> frozenset[str]:
    return frozenset(name for name, runs in names.items() if run in runs)
