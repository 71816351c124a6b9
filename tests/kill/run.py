"""Disturbs commands at random moments: `make kill`, or a part of it by hand.

`python tests/kill/run.py [--surface NAME]... [--kills N] [--full N] [--short N] [--seed K]
[--seconds S] [--record]`. S limits each surface. Each disturbed command is started again, and must
reach the result of an undisturbed one. Ends with 1 where one doesn't.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from epochfence.tests.driver import options, record, recorded
from epochfence.tests.kill.disturb import DISTURBANCES, Usual, usual
from epochfence.tests.kill.surfaces import ROOT, SURFACES, Surface

PAGE = ROOT / "docs" / "reliability.md"
WHOLE = {"kill": 20, "full": 10, "short": 5}
HEAD = (
    "| command | kills | with something to go on from | disk full | memory short | wrong or lost "
    "| seed |",
    "|---|---|---|---|---|---|---|",
)
TRIES = 5  # for each disturbance, as some come after the command's end


@dataclass
class Tally:
    """What came of the disturbances of one kind."""

    done: int = 0
    went_on: int = 0
    wrong: list[str] = field(default_factory=list[str])


def disturb(
    surface: Surface, normal: Usual, kind: str, count: int, seed: str, folder: Path, until: float
) -> Tally:
    """Disturbs a surface's command so many times, or as often as there is time."""
    tally = Tally()
    for number in range(count * TRIES):
        if tally.done >= count or time.monotonic() > until:
            break
        place = folder / f"{kind}-{number}"
        place.mkdir()
        surface.prepare(place)
        drawn = random.Random(f"{seed} {surface.name} {kind} {number}")
        outcome = DISTURBANCES[kind](surface, normal, place, drawn)
        if outcome.wrong:
            tally.wrong.append(f"{surface.name}, {kind} {number} of seed {seed}: {outcome.wrong}")
        tally.done += outcome.hits
        tally.went_on += outcome.went_on if outcome.hits else 0
        rmtree(place)
    return tally


def row(surface: str, kinds: dict[str, Tally], seed: int) -> str:
    """What came of a surface, as a line of the table."""
    kill, full, short = (kinds[kind] for kind in DISTURBANCES)
    wrong = sum(len(tally.wrong) for tally in kinds.values())
    return (
        f"| {surface} | {kill.done} | {kill.went_on} | {full.done} | {short.done} | {wrong} | "
        f"{seed} |"
    )


def table(rows: dict[str, str], old: str = "") -> str:
    """The documentation's table, with these rows in place of those of the same surfaces."""
    there = {line.split(" | ")[0][2:]: line for line in old.splitlines()[2:]}
    lines = [found for name in SURFACES if (found := rows.get(name) or there.get(name))]
    return "\n".join([*HEAD, *lines])


def main(arguments: Sequence[str]) -> int:
    """Runs the matrix; returns the exit code."""
    parser = options(__doc__, seconds=math.inf, page=PAGE)
    parser.add_argument("--surface", action="append", choices=[*SURFACES], default=None)
    parser.add_argument("--kills", type=int, default=WHOLE["kill"])
    parser.add_argument("--full", type=int, default=WHOLE["full"])
    parser.add_argument("--short", type=int, default=WHOLE["short"])
    given = parser.parse_args(arguments)
    counts = {"kill": given.kills, "full": given.full, "short": given.short}
    wrong: list[str] = []
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.surface or SURFACES:
            begun, place = time.monotonic(), Path(folder) / name.replace(" ", "-")
            normal = usual(SURFACES[name], place)
            kinds: dict[str, Tally] = {}
            for kind, share in zip(DISTURBANCES, (0.6, 0.9, 1), strict=True):
                kinds[kind] = disturb(
                    SURFACES[name], normal, kind, counts[kind], str(given.seed), place,
                    begun + share * given.seconds,
                )  # fmt: skip
                wrong += kinds[kind].wrong
                print("\n".join(kinds[kind].wrong), flush=True)
            told = row(name, kinds, given.seed)
            print(f"{told} {time.monotonic() - begun:,.0f} s", flush=True)
            if given.record:
                record(PAGE, "kills", table({name: told}, recorded(PAGE, "kills")))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
