"""The rows that runs of shipped systems take, as `spec/systems/reached.json` records them.

`python tests/spec/reached.py` explores each run again and writes the file; with names of systems,
only the runs of these. `runs` are the system, the release and the constants of each, and `rows` the
numbers of the runs that take a row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from epochfence.checker.check import check
from epochfence.checker.prepare import Options
from epochfence.language import System, instantiate
from epochfence.spec.systems import shipped

RELEASES = ("2.5", "3.6", "4.0.1", "4.3")
ONE = {"partitions": 1}
RUNS: tuple[tuple[str, str, Mapping[str, int]], ...] = (
    *(
        ("transactions", release, {**ONE, **more})
        for release in RELEASES
        for more in ({}, {"faults": 2}, {"records": 2}, {"records": 2, "faults": 2})
    ),
    *(
        ("idempotence", release, more)
        for release in ("2.4", "4.3")
        for more in ({}, {"producer_ids": 2})
    ),
    *(("calls", release, {}) for release in ("2.5", "3.6", "4.3")),
    *(
        ("replication", release, more)
        for release in ("2.0", "2.5", "4.3")
        for more in ({}, {"power_losses": 1}, {"crashes": 2, "unclean_elections": 1})
    ),
    *(
        ("delivery", release, more)
        for release in ("2.5", "4.3")
        for more in (
            {},
            {"records": 3},
            {"transactional_id": 1, "sessions": 2, "records": 1},
            {"transactional_id": 1, "read_committed": 1, "offsets": 1, "consumer_crashes": 1},
        )
    ),
    *(("producer-ids", release, {}) for release in ("2.0", "3.6", "4.3")),
    *(("exactly-once", release, {}) for release in ("3.6", "4.3")),
)
SECONDS = 25
"""The longest that one run is explored."""
FILE = Path(__file__).parents[2] / "spec" / "systems" / "reached.json"


def rows_taken(name: str, release: str, constants: Mapping[str, int]) -> set[str]:
    """The rows that a run takes, within the time that it has."""
    instance = instantiate(without_properties(shipped(name)), release, dict(constants))
    result = check(instance, Options(deadlock=False, until=time.monotonic() + SECONDS))
    return {row for row, taken in dict(result.rows).items() if taken and "/" in row}


def without_properties(system: System) -> System:
    """The system, whose search goes on whatever it finds."""
    none = dict.fromkeys(("properties", "progress", "fairness", "lemmas", "rankings"), ())
    return replace(system, unreached=(), reached=(), **none)


def main(*systems: str) -> None:
    """Explores each run (of these systems, if any are named), and writes the file."""
    known = recorded() if systems else {}
    taken = [
        known[key] if (key := str(run)) in known and run[0] not in systems else rows_taken(*run)
        for run in RUNS
    ]
    every = sorted(set[str]().union(*taken))
    rows = {row: [at for at, of in enumerate(taken) if row in of] for row in every}
    lines = (f"{json.dumps(row)}: {json.dumps(runs)}" for row, runs in rows.items())
    runs = ",\n".join(map(json.dumps, RUNS))
    found = f'{{"runs": [\n{runs}\n],\n"rows": {{\n' + ",\n".join(lines) + "\n}}\n"
    FILE.write_text(found, encoding="utf-8")


def recorded() -> dict[str, set[str]]:
    """The rows that each run takes, by the run, as the file has them."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        str(tuple(run)): {row for row, runs in known["rows"].items() if at in runs}
        for at, run in enumerate(known["runs"])
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
