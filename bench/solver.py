"""Measures `epochfence bound` and `epochfence prove`, each in a new process.

    .venv/bin/python bench/solver.py            renews a table of docs/performance.md
    .venv/bin/python bench/solver.py --quick    the short ones; writes nothing

It proves only the first sections of docs/proofs.md, as all of them take hours. The exit code is 1
if a run ends with an unexpected exit code.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run import AIM_HEAD, Aim, machine, table, tell, versions, write

from epochfence.checker.solver.proofs import page
from epochfence.checker.solver.terms import VERSION

ROOT = Path(__file__).resolve().parents[1]
EPOCHFENCE = Path(sys.executable).with_name("epochfence")


@dataclass(frozen=True)
class Case:
    """A command in the table, `more` arguments that the table doesn't show, and the exit code."""

    command: str
    exit_code: int
    quick: bool = False
    more: tuple[str, ...] = ()


def proofs(case: page.Case) -> Case:
    """The command that proves a section of docs/proofs.md."""
    options = f" --protocol {case.protocol}" if case.protocol else ""
    options += "".join(f" --with {feature}" for feature in case.switch_on)
    options += "".join(f" --set {name}={value}" for name, value in case.constants.items())
    some = [part for name in case.properties or () for part in ("--property", name)]
    return Case(f"prove {case.system}{options}", 0, quick=not some, more=tuple(some))


ORPHAN = Case(
    "bound transactions --protocol 2.5 --property NoHangingTransaction --depth 20 "
    "--set producers=1 --set partitions=1 --set transactions=1",
    12,
)
KTX = Case("bound bench/ktx.py --set V=0 --depth 12", 12, quick=True)
SECTIONS = 5
PROOFS = tuple(map(proofs, page.CASES[:SECTIONS]))


@dataclass(frozen=True)
class Run:
    """The seconds of a command, and of each obligation that it settled."""

    case: Case
    seconds: float
    obligations: Sequence[float]

    @property
    def cells(self) -> tuple[str, ...]:
        """The run as a line of a table."""
        count = len(self.obligations)
        longest = f"{max(self.obligations):.2f}" if count else "–"
        named = len(self.case.more) // 2
        what = f"`{self.case.command}`" + (f", {named} of its properties" if named else "")
        return what, f"{self.seconds:.1f}", str(count) if count else "–", longest


def run(case: Case) -> Run:
    """Runs a command. Raises RuntimeError for another exit code."""
    tell(case.command)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "told.json"
        begun = time.perf_counter()
        done = subprocess.run(
            [str(EPOCHFENCE), *case.command.split(), *case.more, "--json", str(output)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - begun
        if done.returncode != case.exit_code:
            raise RuntimeError(f"{case.command} ended with {done.returncode}: {done.stderr[-500:]}")
        obligations = json.loads(output.read_text(encoding="utf-8")).get("obligations", ())
    return Run(case, seconds, [answer["seconds"] for answer in obligations])


def aims(runs: Sequence[Run]) -> list[Aim]:
    """The figures with their aims."""
    taken = {run.case: run for run in runs}
    proved = [taken[case] for case in PROOFS if case in taken]
    whole = len(proved) == len(PROOFS)
    found = taken.get(ORPHAN)
    return [
        Aim("seconds to find the orphan record", 10, found and found.seconds, at_most=True),
        Aim(
            f"seconds to prove the first {SECTIONS} sections of docs/proofs.md",
            600,
            sum(run.seconds for run in proved) if whole else None,
            at_most=True,
        ),
        Aim(
            "seconds for an obligation",
            60,
            max(max(run.obligations) for run in proved) if whole else None,
            at_most=True,
        ),
    ]


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Times of the solver's commands.")
    parser.add_argument("--quick", action="store_true", help="the short ones, nothing written")
    quick = parser.parse_args().quick
    try:
        runs = [run(case) for case in (ORPHAN, KTX, *PROOFS) if case.quick or not quick]
    except RuntimeError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    head = ("epochfence …", "s", "obligations", "longest, s")
    section = (
        f"`python bench/solver.py`. {machine()}. {versions()}, {VERSION}.\n\n"
        f"{table(head, [run.cells for run in runs])}\n\n"
        f"{table(AIM_HEAD, [aim.cells for aim in aims(runs)])}"
    )
    print(section)
    if not quick:
        write(section, "solver")
    return 0


if __name__ == "__main__":
    sys.exit(main())
