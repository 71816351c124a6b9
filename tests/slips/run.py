"""Plants slips into drawn declarations and reports what becomes of them: `make slips`.

`python tests/slips/run.py [--count N] [--seed S] [--show]`. Ends with 1 where more than one in a
hundred of the slips that change anything pass unnoticed.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from epochfence.tests.recording import options
from epochfence.tests.slips.judge import Fate, Tally, run

MOST = 0.01
"""Of slips that change something, how many may pass unnoticed."""


def table(tally: Tally) -> Table:
    """What became of the slips of each kind."""
    shown = Table("kind", *(fate.value for fate in Fate), box=None)
    for kind, fates in sorted(tally.kinds.items()):
        shown.add_row(kind, *(str(fates[fate]) for fate in Fate))
    shown.add_row("all", *(str(tally.total[fate]) for fate in Fate))
    return shown


def main() -> int:
    """Runs the command."""
    parser = options("plant slips, and see which are noticed")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--show", action="store_true", help="show each slip that is unnoticed")
    given = parser.parse_args()
    tally = run(given.count, given.seed)
    console = Console(width=160)
    console.print(table(tally))
    if given.show:
        for slip in tally.unnoticed:
            console.print(f"\n{slip.kind}, {slip.family}:\n{slip.difference}", markup=False)
    console.print(
        f"{given.count:,} slips, seed {given.seed}: {len(tally.unnoticed)} of {tally.counted:,} "
        f"that change something pass unnoticed, {tally.rate:.2%}"
    )
    return int(tally.rate > MOST)


if __name__ == "__main__":
    sys.exit(main())
