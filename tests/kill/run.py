"""Disturbs commands at random moments: `make kill`, or a part of it by hand.

`python tests/kill/run.py [--surface NAME]... [--kills N] [--full N] [--short N] [--seed K]`.
Each disturbed command is started again, and must come to what an undisturbed one comes to.
Ends with 1 where one doesn't. A run of the whole matrix writes its table to docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epochfence.files import write_whole
from epochfence.tests.kill.disturb import DISTURBANCES, Usual, usual
from epochfence.tests.kill.surfaces import ROOT, SURFACES, Surface

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- kills: begin -->\n", "<!-- kills: end -->\n"
WHOLE = {"kill": 20, "full": 10, "short": 5}
TRIES = 5  # for each disturbance, as some come after the command's end


@dataclass
class Tally:
    """What came of the disturbances of one kind."""

    done: int = 0
    went_on: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list[str])


def disturb(
    surface: Surface, normal: Usual, kind: str, count: int, seed: str, folder: Path
) -> Tally:
    """Disturbs a surface's command so many times."""
    tally = Tally()
    for number in range(count * TRIES):
        if tally.done == count:
            break
        place = folder / f"{kind}-{number}"
        place.mkdir()
        surface.prepare(place)
        drawn = random.Random(f"{seed} {surface.name} {kind} {number}")
        outcome = DISTURBANCES[kind](surface, normal, place, drawn)
        if outcome.wrong:
            tally.wrong.append(f"{surface.name}, {kind} {number} of seed {seed}: {outcome.wrong}")
        tally.done += outcome.hit
        tally.went_on += outcome.hit and outcome.went_on
        tally.refused += outcome.hit and outcome.refused
    if tally.done < count:
        tally.wrong.append(f"{surface.name}, {kind}: {tally.done} of {count} met the command")
    return tally


def table(found: dict[str, dict[str, Tally]]) -> str:
    """The table of a run, in Markdown."""
    lines = [
        "| command | kills | of them with something to go on from | disk full | memory short | "
        "wrong or lost |",
        "|---|---|---|---|---|---|",
    ]
    for name, kinds in found.items():
        none = Tally()
        kill, full, short = (kinds.get(kind, none) for kind in DISTURBANCES)
        wrong = sum(len(tally.wrong) for tally in kinds.values())
        lines.append(
            f"| {name} | {kill.done} | {kill.went_on} | {full.done} | {short.done} | {wrong} |"
        )
    return "\n".join(lines) + "\n"


def record(text: str) -> None:
    """Puts the table in its place in the documentation."""
    page = PAGE.read_text()
    pattern = re.escape(BEGIN) + ".*" + re.escape(END)
    write_whole(PAGE, re.sub(pattern, lambda _: BEGIN + text + END, page, flags=re.DOTALL))


def main(arguments: Sequence[str]) -> int:
    """Runs the matrix; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--surface", action="append", choices=[*SURFACES], default=None)
    parser.add_argument("--kills", type=int, default=WHOLE["kill"])
    parser.add_argument("--full", type=int, default=WHOLE["full"])
    parser.add_argument("--short", type=int, default=WHOLE["short"])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args(arguments)
    counts = {"kill": given.kills, "full": given.full, "short": given.short}
    found: dict[str, dict[str, Tally]] = {}
    begun = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.surface or SURFACES:
            place = Path(folder) / name.replace(" ", "-")
            normal = usual(SURFACES[name], place)
            found[name] = {}
            for kind, count in counts.items():
                tally = disturb(SURFACES[name], normal, kind, count, str(given.seed), place)
                found[name][kind] = tally
                print(f"{name}, {kind}: {tally}", flush=True)
    wrong = [line for kinds in found.values() for tally in kinds.values() for line in tally.wrong]
    text = table(found)
    print(text + "\n".join(wrong))
    print(f"{time.monotonic() - begun:,.0f} s", file=sys.stderr)
    if given.surface is None and all(counts[kind] >= WHOLE[kind] for kind in WHOLE):
        record(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
