"""A search on Spark beside the same one with threads, on the benchmark protocol (ktx.py).

    .venv/bin/python bench/spark.py            all sizes; renews a table of docs/performance.md
    .venv/bin/python bench/spark.py --quick    a look at a smaller size; writes nothing

A level's cost where it has next to nothing to do, the slope (states a second beyond that), and what
was sent and written are told; an aim that is missed is told and changes nothing. Ends with 1 where
both engines count differently.
"""

import argparse
import itertools
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import measure
from run import AIM_HEAD, EPOCHFENCE, MODEL, Aim, machine, table, tell, versions, write

SIZES = ((2, 2, 2, 1), (1, 2, 5, 4), (1, 2, 6, 5))
"""I-K-E-S, in the order of their states: some 12, 49 and over 100 million."""
SHARDS = (4, 4, 8)
QUICK = (1, 2, 2, 2)
QUICK_HAND_OVER = 20_000
CORES = 2
SMALL = 1_000
"""States of a level from which on down it counts as almost empty."""
HEAD = (
    "size", "states", "levels", "threads: s", "Spark: s", "shards", "levels on Spark",
    "candidates sent a state", "bytes sent", "bytes written", "peak MB",
)  # fmt: skip


@dataclass(frozen=True)
class Both:
    """A size, explored with threads and on Spark: what each told in JSON."""

    size: tuple[int, ...]
    threads: dict[str, Any]
    spark: dict[str, Any]
    peak: int
    """Bytes of the largest process of the run on Spark."""
    small_levels: list[float]
    """Seconds of the levels on Spark that were almost empty."""

    def cells(self) -> tuple[str, ...]:
        """The size as a line of the table."""
        engine = self.spark["engine"]
        new = max(1, engine["states_on_spark"])
        return (
            "-".join(map(str, self.size)),
            f"{self.spark['states']:,}",
            str(self.spark["depth"]),
            f"{self.threads['seconds']:.1f}",
            f"{self.spark['seconds']:.1f}",
            str(engine["shards"]),
            str(engine["levels_on_spark"]),
            f"{engine['candidates_sent'] / new:.2f}",
            f"{engine['bytes_sent'] / new:.1f}",
            f"{engine['bytes_written'] / new:.1f}",
            f"{self.peak / 1e6:,.0f}",
        )


def run(size: tuple[int, ...], folder: Path, *more: str) -> tuple[dict[str, Any], int]:
    """A search as a process of its own: what it told, and its peak memory."""
    report = folder / "result.json"
    report.unlink(missing_ok=True)
    constants = [f"{name}={value}" for name, value in zip("IKES", size, strict=True)]
    used = measure(
        [str(EPOCHFENCE), "check", str(MODEL), "--threads", str(CORES), "--json", str(report)]
        + [part for pair in constants for part in ("--set", pair)]
        + list(more),
        folder,
    )
    if used.exit_code:
        raise RuntimeError(f"epochfence ended with {used.exit_code}:\n{used.output[-2000:]}")
    return json.loads(report.read_text(encoding="utf-8")), used.peak_rss_bytes


def both(size: tuple[int, ...], shards: int, folder: Path, *more: str) -> Both:
    """A size by both engines. Raises RuntimeError where they count differently."""
    tell(f"{size}: threads")
    threads, _ = run(size, folder)
    tell(f"{size}: Spark")
    storage = folder / "-".join(map(str, size))
    on_spark = ("--engine", "spark", "--shards", str(shards), "--storage", str(storage))
    spark, peak = run(size, folder, *on_spark, *more)
    for name in ("states", "transitions", "depth", "rows"):
        if threads[name] != spark[name]:
            raise RuntimeError(f"{size}: {name} differ between the engines")
    (manifest,) = storage.glob("manifest-*.json")
    levels = json.loads(manifest.read_text())["levels"]
    small = [
        after["seconds"] - before["seconds"]
        for before, after in itertools.pairwise(levels)
        if after["sent"] and sum(before["states"]) < SMALL
    ]
    return Both(size, threads, spark, peak, small)


def slope(few: dict[str, Any], many: dict[str, Any]) -> float:
    """States a second of what one run has more than the other."""
    return (many["states"] - few["states"]) / (many["seconds"] - few["seconds"])


def aims(runs: list[Both]) -> list[Aim]:
    """The figures to reach."""
    first = runs[0]
    engine = first.spark["engine"]
    empty = sorted(first.small_levels)[len(first.small_levels) // 2]
    sent = engine["candidates_sent"] / engine["states_on_spark"]
    found = [
        Aim(f"seconds of an almost empty level, {SHARDS[0]} shards", 0.6, empty, at_most=True),
        Aim(f"candidates sent a new state, {SHARDS[0]} shards", 4, sent, at_most=True),
    ]
    slopes = [slope(few.spark, many.spark) for few, many in itertools.pairwise(runs)]
    if slopes:
        local = slope(first.threads, runs[1].threads)
        found.append(Aim(f"slope, times that of {CORES} threads", 0.4, slopes[0] / local))
        further = slopes[1] / slopes[0]
        found.append(Aim("slope from the second to the third size, times that", 0.8, further))
    return found


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="A search on Spark beside one with threads.")
    parser.add_argument("--quick", action="store_true", help="a small size, nothing written")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            if given.quick:
                runs = [both(QUICK, 4, Path(folder), "--hand-over", str(QUICK_HAND_OVER))]
            else:
                sizes = zip(SIZES, SHARDS, strict=True)
                runs = [both(size, shards, Path(folder)) for size, shards in sizes]
        except RuntimeError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    section = "\n\n".join(
        [
            f"`python bench/spark.py`. {machine()}. {versions()}.",
            table(HEAD, [run.cells() for run in runs]),
            table(AIM_HEAD, [aim.cells for aim in aims(runs)]),
        ]
    )
    print(section)
    if not given.quick:
        write(section, "spark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
