"""Times of `epochfence bound` and `epochfence prove`, each as a process of its own.

    .venv/bin/python bench/solver.py            renews the table of docs/performance.md
    .venv/bin/python bench/solver.py --quick    the short ones; writes nothing

Ends with 1 where a run doesn't come to the exit code that it should.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- solver: begin -->", "<!-- solver: end -->"
EPOCHFENCE = Path(sys.executable).with_name("epochfence")


@dataclass(frozen=True)
class Case:
    """A command, its exit code, and the seconds that it should take at most."""

    command: str
    exit_code: int
    aim: float
    quick: bool = False


CASES = (
    Case(
        "bound transactions --protocol 2.5 --property NoHangingTransaction --depth 20 "
        "--set producers=1 --set partitions=1 --set transactions=1", 12, 10,
    ),
    Case("bound bench/ktx.py --set V=0 --depth 12", 12, 10, True),
    Case("prove bench/ktx.py", 0, 60, True),
    Case("prove bench/ktx.py --set I=3", 0, 60, True),
    Case("prove producer-ids --property StoreForward", 0, 60),
)  # fmt: skip


def run(case: Case) -> float:
    """The seconds that the command takes. Raises RuntimeError for another exit code."""
    begun = time.perf_counter()
    done = subprocess.run(
        [str(EPOCHFENCE), *case.command.split()], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode != case.exit_code:
        raise RuntimeError(f"{case.command} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.perf_counter() - begun


def table(cases: tuple[Case, ...]) -> str:
    """The measured times beside their aims."""
    lines = ["| command | s | aim |", "|---|--:|--:|"]
    for case in cases:
        seconds = run(case)
        met = "met" if seconds <= case.aim else "**missed**"
        print(f"{case.command}: {seconds:.1f} s", file=sys.stderr)
        lines.append(f"| `epochfence {case.command}` | {seconds:.1f} | {case.aim:.0f}, {met} |")
    return "\n".join(lines)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    try:
        measured = table(tuple(case for case in CASES if case.quick or not quick))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    if quick:
        print(measured)
        return
    text = PAGE.read_text(encoding="utf-8")
    head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{head}\n\n{measured}\n\n{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
