"""The rows that runs of shipped systems take and the premises that they meet, as
`spec/systems/coverage/recorded_runs.json` records them.

`python tests/spec/reached.py` explores each run again and writes the file; with names of systems,
only the runs of these, and new ones. `runs` are the system, the release and the constants of each;
`rows` and `premises` are the numbers of the runs that take a row, or meet a property's premise.
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
    *(("transactions", release, {**ONE, "early_ends": 1}) for release in ("3.6", "4.3")),
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
    *(
        ("exactly-once", release, more)
        for release in ("3.6", "4.3")
        for more in ({}, {"faults": 1}, {"transactions": 2})
    ),
    *(("membership", release, {"producers": 3}) for release in ("2.0", "4.3")),
)
SECONDS = 60
"""The longest that one run is explored."""
FILE = Path(__file__).parents[2] / "spec" / "systems" / "coverage" / "recorded_runs.json"


def rows_taken(name: str, release: str, constants: Mapping[str, int]) -> set[str]:
    """The rows that a run takes, within the time that it has."""
    instance = instantiate(without_properties(shipped(name)), release, dict(constants))
    result = check(instance, Options(deadlock=False, until=time.monotonic() + SECONDS))
    return {row for row, taken in dict(result.rows).items() if taken and "/" in row}


def without_properties(system: System) -> System:
    """The system, whose search goes on whatever it finds."""
    none = dict.fromkeys(("properties", "progress", "fairness", "lemmas", "rankings"), ())
    return replace(system, unreached=(), reached=(), **none)


def premises_met(name: str, release: str, constants: Mapping[str, int]) -> set[str]:
    """The properties whose premises a run meets; none are known if it is stopped, or if a step left
    a range."""
    system = replace(shipped(name), unreached=(), reached=(), progress=(), fairness=(), rankings=())
    instance = instantiate(system, release, dict(constants))
    options = Options(deadlock=False, keep_going=True, until=time.monotonic() + SECONDS)
    result = check(instance, options)
    unknown = {item.name for item in result.properties if item.verdict == "unknown"}
    vacuous = {item.subject for item in result.vacuous}
    return {item.name for item in instance.properties} - unknown - vacuous


def main(*systems: str) -> None:
    """Explores each run (of these systems, if any are named), and writes the file."""
    known = recorded() if systems else {}
    found = [
        known[key]
        if (key := str(run)) in known and run[0] not in systems
        else (rows_taken(*run), premises_met(*run))
        for run in RUNS
    ]
    parts = {"runs": "[\n" + ",\n".join(map(json.dumps, RUNS)) + "\n]"}
    for part, names in zip(("rows", "premises"), zip(*found, strict=True), strict=True):
        every = sorted(set[str]().union(*names))
        runs = {name: [at for at, of in enumerate(names) if name in of] for name in every}
        lines = (f"{json.dumps(name)}: {json.dumps(of)}" for name, of in runs.items())
        parts[part] = "{\n" + ",\n".join(lines) + "\n}"
    written = ",\n".join(f'"{part}": {text}' for part, text in parts.items())
    FILE.write_text(f"{{{written}}}\n", encoding="utf-8")


def recorded() -> dict[str, tuple[set[str], set[str]]]:
    """The rows that each run takes and the premises that it meets, as the file has them."""
    known = json.loads(FILE.read_text(encoding="utf-8"))

    def of(part: str, run: int) -> set[str]:
        return {name for name, runs in known[part].items() if run in runs}

    runs = enumerate(known["runs"])
    return {str(tuple(run)): (of("rows", i), of("premises", i)) for i, run in runs}


if __name__ == "__main__":
    main(*sys.argv[1:])
