"""`make fuzz`: runs all drivers, keeps each input that fails, and writes figures.

python tests/fuzz/run.py --seconds 600 [--seed N] [--surface NAME]... [--json FILE]
python tests/fuzz/run.py --replay FILE
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epochfence.tests.driver import options
from epochfence.tests.fuzz import (
    checkpoints,
    commands,
    declarations,
    decoding,
    histories,
    segments,
    sizes,
    traces,
)
from epochfence.tests.fuzz.harness import Case, Surface, write_failure
from epochfence.tests.fuzz.workers import Figures, run_case, run_for

ROOMS = (decoding, histories, segments, traces, declarations, commands, checkpoints, sizes)
SURFACES = {room.SURFACE.name: room.SURFACE for room in ROOMS}
FAILURES = Path(__file__).parents[2] / ".fuzz"
ROUND = 60  # seconds, at least, of a round in which each surface has its turn
ROUNDS = 12  # at most, as a worker compiles things at the beginning of each turn


def fuzz(
    surfaces: Sequence[Surface],
    seconds: float,
    seed: int,
    failures: Path = FAILURES,
    output: Path | None = None,
    most: int = 1 << 62,
) -> dict[str, Figures]:
    """Runs the surfaces in turns, each with at most so many inputs. Tells each failure as it comes;
    the figures so far are written after each turn."""
    found = {surface.name: Figures() for surface in surfaces}
    weights = sum(surface.weight for surface in surfaces)
    end, whole = time.monotonic() + seconds, max(ROUND, seconds / ROUNDS)
    while (left := end - time.monotonic()) > 0 and min(f.inputs for f in found.values()) < most:
        for surface in surfaces:
            figures = found[surface.name]
            turn = min(left, whole) * surface.weight / weights
            new = run_for(surface, seed, figures.inputs, turn, most - figures.inputs)
            figures.add(new)
            for number, wrong in new.failures:
                where = {"seed": seed, "number": number}
                case = surface.case(seed, number)
                path = write_failure(failures, surface.name, case, wrong, where)
                print(
                    f"{surface.name} {number}: {wrong.strip().splitlines()[-1]}\n  {path}",
                    flush=True,
                )
            if output is not None:
                output.write_text(json.dumps(as_json(found, seed), indent=1) + "\n")
    return found


def as_json(found: dict[str, Figures], seed: int) -> dict[str, Any]:
    """The figures as plain data."""
    surfaces = {
        name: {
            "inputs": figures.inputs,
            "seconds": round(figures.seconds, 1),
            "codes": {str(code): count for code, count in sorted(figures.codes.items())},
            "failures": [number for number, _ in figures.failures],
        }
        for name, figures in found.items()
    }
    return {"seed": seed, "inputs": sum(f.inputs for f in found.values()), "surfaces": surfaces}


def tell(found: dict[str, Figures]) -> None:
    """Prints the figures as a table."""
    print("| surface | inputs | a second | ended with | failures |\n|---|---|---|---|---|")
    for name, figures in found.items():
        codes = ", ".join(f"{code}: {count:,}" for code, count in sorted(figures.codes.items()))
        rate = figures.inputs / figures.seconds if figures.seconds else 0
        told = f"{figures.inputs:,} | {rate:,.0f} | {codes} | {len(figures.failures)}"
        print(f"| {name} | {told} |")
    print(f"{sum(figures.inputs for figures in found.values()):,} inputs")


def replay(path: Path) -> str | None:
    """Runs an input that failed once more; what is wrong with it now."""
    told = json.loads(path.read_text())
    return run_case(SURFACES[told["surface"]], Case.from_json(told["case"]))


def main() -> int:
    """The command; 1 where an input failed."""
    parser = options(__doc__, seconds=60)
    parser.add_argument("--inputs", type=int, default=1 << 62, help="at most, of each surface")
    parser.add_argument("--surface", action="append", choices=SURFACES)
    parser.add_argument("--failures", type=Path, default=FAILURES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--replay", type=Path)
    given = parser.parse_args()
    if given.replay is not None:
        wrong = replay(given.replay)
        print(wrong or "nothing is wrong with it")
        return int(wrong is not None)
    print(f"SEED={given.seed}", flush=True)
    chosen = [SURFACES[name] for name in given.surface or SURFACES]
    output = None if given.json is None else given.json.absolute()
    folder = given.failures.absolute()
    found = fuzz(chosen, given.seconds, given.seed, folder, output, given.inputs)
    tell(found)
    return int(any(figures.failures for figures in found.values()))


if __name__ == "__main__":
    sys.exit(main())
