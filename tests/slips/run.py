"""Plants slips into drawn declarations and reports what becomes of them: `make slips`.

`python tests/slips/run.py [--count N] [--seed S] [--show] [--record]`. What was judged is kept in
build/slips.jsonl as long as nothing changes. Ends with 1 where more than one in a hundred of the
slips that change anything pass unnoticed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from epochfence.checker.prepare import available_threads
from epochfence.tests.driver import options, record
from epochfence.tests.mutation.engine import (
    Engine,
    Records,
    digest,
    rows,
    score,
    scores,
    shown,
    written,
)
from epochfence.tests.slips.judge import Fate, Slip, judge, slips

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "slips.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
LEAST = 99  # in 100, of the slips that change something
AT_ONCE = 50  # slips that a process judges before it tells their fates


def groups(left: list[Slip], jobs: int) -> list[list[Slip]]:
    """The slips in the order in which they are drawn."""
    most = max(1, min(AT_ONCE, len(left) // jobs))
    return [left[at : at + most] for at in range(0, len(left), most)]


def records() -> Records:
    """The file of what was judged before, for this code."""
    rooms = ("language", "checker", "model/engine", "tests/slips")
    now = digest(path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return Records(KEPT, now, now)


def main() -> int:
    """Runs the command."""
    parser = options("plant slips, and see which are noticed", page=PAGE)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--jobs", type=int, default=available_threads(), metavar="J")
    parser.add_argument("--show", action="store_true", help="show each slip that is unnoticed")
    given = parser.parse_args()
    drawn = list(slips(given.count, given.seed))
    outcomes = Engine(judge, groups, records()).run(drawn, given.jobs)
    found, every = scores(outcomes), score(outcomes)
    columns = ("kind", "slips", "score", *Fate)
    lines = rows(dict(sorted(found.items())), [*Fate])
    console = Console(width=160)
    console.print(shown(columns, lines))
    if given.record:
        record(PAGE, "slips", written(columns, lines))
    for slip in drawn if given.show else ():
        if slip.name in every.survivors:
            console.print(f"\n{slip.kind}, {slip.family}:\n{slip.difference}", markup=False)
    console.print(
        f"{given.count:,} slips, seed {given.seed}: {len(every.survivors)} of {every.different:,} "
        f"that change something pass unnoticed, {100 - every.killed:.2f} %"
    )
    return int(every.killed < LEAST)


if __name__ == "__main__":
    sys.exit(main())
