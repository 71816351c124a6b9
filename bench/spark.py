"""Compares Spark with threads on the benchmark protocol (ktx.py), and judges histories on Spark.

    .venv/bin/python bench/spark.py                     all parts, in about 20 minutes
    .venv/bin/python bench/spark.py --part 2-2-2-1      one part; the others stay recorded
    .venv/bin/python bench/spark.py --quick             small parts; writes nothing

| part      | what                                                | about, on 2 quiet cores |
|-----------|-----------------------------------------------------|-------------------------|
| 1-2-2-2   | some 600,000 states, 4 shards, an early hand-over    | 1 minute                |
| 2-2-2-1   | some 12 million states, 4 shards                    | 1 minute                |
| 1-2-5-4   | some 49 million states, 4 shards                    | 2 minutes               |
| 1-2-6-4   | some 102 million states, 4 shards                   | 3 minutes               |
| histories | 10 million events of 100,000 keys, and twice as many | 16 minutes             |

A size is explored by threads and on Spark, three times in turns; the medians are printed. It is
explored once more on Spark as on several machines: shards send everything through Spark
(EPOCHFENCE_SPARK_FILES=off). Candidates and bytes sent are those of this last run, which
docs/scale.md uses as well. Each part is recorded in bench/spark.json, the source of the tables in
docs/performance.md and docs/scale.md. The script prints the seconds of an almost empty level, the
slope (states a second beyond that), and the bytes sent and written. Missed aims are printed and
don't change the exit code. It is 1 if engines count differently, or a history isn't explained.
"""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import scale
from oracle import leader_history
from peers import measure
from run import AIM_HEAD, EPOCHFENCE, MODEL, Aim, machine, table, tell, versions, write

from epochfence.checker.native.cache import object_cache
from epochfence.checker.spark.search import outbox

QUICK: tuple[int, ...] = (1, 2, 2, 2)
SHARDS = {QUICK: 4, (2, 2, 2, 1): 4, (1, 2, 5, 4): 4, (1, 2, 6, 4): 4}
"""I-K-E-S, in the order of their states, with the shards of each."""
QUICK_HAND_OVER = 20_000
CORES = 2
TURNS = 3
SMALL = 1_000
"""States of a level from which on down it counts as almost empty."""
EVENTS, EVENTS_OF_A_KEY, QUICK_EVENTS = 10_000_000, 100, 20_000
TEMPLATES = 200
"""Histories that are made; keys have one of them each."""
MINUTES = {"1-2-2-2": 1, "2-2-2-1": 1, "1-2-5-4": 2, "1-2-6-4": 3, "histories": 16}
HEAD = (
    "size", "states", "levels", "threads: s", "Spark: s", "all sent: s", "shards",
    "levels on Spark", "candidates sent a state", "bytes sent", "bytes written", "peak MB",
)  # fmt: skip
KEPT = ("states", "transitions", "depth", "seconds")
HISTORIES_HEAD = ("events", "keys", "MB", "s", "events/s", "peak MB")


def cells(size: str, part: dict[str, Any]) -> tuple[str, ...]:
    """A recorded search as a line of the table."""
    threads, spark = part["threads"], part["spark"]
    engine, apart = spark["engine"], part["apart"]["spark"]
    new, sent = max(1, engine["states_on_spark"]), apart["engine"]
    return (
        size,
        f"{spark['states']:,}",
        str(spark["depth"]),
        f"{threads['seconds']:.1f}",
        f"{spark['seconds']:.1f}",
        f"{apart['seconds']:.1f}",
        str(engine["shards"]),
        str(engine["levels_on_spark"]),
        f"{sent['candidates_sent'] / new:.2f}",
        f"{sent['bytes_sent'] / new:.1f}",
        f"{engine['bytes_written'] / new:.1f}",
        f"{part['peak'] / 1e6:,.0f}",
    )


def run(size: tuple[int, ...], folder: Path, *more: str) -> tuple[dict[str, Any], int]:
    """Runs a search in a new process; returns its result and its peak memory in bytes."""
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


def search(size: tuple[int, ...], shards: int, folder: Path, *more: str) -> dict[str, Any]:
    """Explores a size by threads and on Spark, with files and without. Raises RuntimeError if the
    counts differ.
    """
    tell(f"{size}: threads and Spark, in turns")
    turns = [one_turn(size, shards, folder, *more) for _ in range(1 if more else TURNS)]
    threads = median([threads for threads, _ in turns])
    on_spark = median([record for _, (record, _) in turns], lambda record: record["spark"])
    peak = max(peak for _, (_, peak) in turns)
    tell(f"{size}: Spark, as on several machines")
    os.environ[outbox.VARIABLE] = outbox.OFF
    apart, _ = carried(size, shards, folder / "apart", threads, *more)
    del os.environ[outbox.VARIABLE]
    kept = {name: threads[name] for name in KEPT}
    return {"cores": CORES, "peak": peak, "threads": kept, **on_spark, "apart": apart}


def one_turn(
    size: tuple[int, ...], shards: int, folder: Path, *more: str
) -> tuple[dict[str, Any], tuple[dict[str, Any], int]]:
    """Explores a size by threads, and then on Spark; returns the results of `run` and `carried`."""
    threads, _ = run(size, folder)
    return threads, carried(size, shards, folder / "here", threads, *more)


def median(
    runs: Sequence[dict[str, Any]], of: Callable[[dict[str, Any]], dict[str, Any]] = lambda run: run
) -> dict[str, Any]:
    """The run with the median seconds."""
    return sorted(runs, key=lambda run: of(run)["seconds"])[len(runs) // 2]


def carried(
    size: tuple[int, ...], shards: int, folder: Path, threads: dict[str, Any], *more: str
) -> tuple[dict[str, Any], int]:
    """Explores a size on Spark; returns its record and its peak memory. Raises RuntimeError if its
    counts differ from those of threads.
    """
    storage = folder / "-".join(map(str, size))
    folder.mkdir()
    on_spark = ("--engine", "spark", "--shards", str(shards), "--storage", str(storage))
    spark, peak = run(size, folder, *on_spark, *more)
    for name in ("states", "transitions", "depth", "rows"):
        if threads[name] != spark[name]:
            raise RuntimeError(f"{size}: {name} differ between the engines")
    (manifest,) = storage.glob("manifest-*.json")
    levels = json.loads(manifest.read_text())["levels"]
    del spark["engine"]["storage"]  # the folder of this run
    shutil.rmtree(folder)
    return {
        "spark": {name: spark[name] for name in (*KEPT, "engine")},
        "levels": [{k: v for k, v in level.items() if k != "taken"} for level in levels],
    }, peak


def small_levels(part: dict[str, Any]) -> list[float]:
    """The seconds of almost empty levels on Spark, sorted."""
    return sorted(
        after["seconds"] - before["seconds"]
        for before, after in itertools.pairwise(part["levels"])
        if after["sent"] and sum(before["states"]) < SMALL
    )


def events(count: int, file: Path) -> int:
    """Writes histories of `count` events as JSON lines; returns the number of keys."""
    templates = [
        [
            json.dumps(
                {
                    "request": o.request,
                    "partition": "KEY",
                    **o.fields,
                    "start": max(0, round(1000 * o.start)),
                    "end": round(1000 * (o.end or 0)),
                    "response": dict(o.response or {}),
                }
            )
            for o in leader_history(seed, 5)
        ]
        for seed in range(TEMPLATES)
    ]
    random, keys = Random(1), count // EVENTS_OF_A_KEY
    with file.open("w", encoding="utf-8") as out:
        for first in range(0, keys, 1_000):  # events of 1,000 keys are interleaved, as on brokers
            some = [random.choice(templates) for _ in range(min(1_000, keys - first))]
            for at in range(EVENTS_OF_A_KEY):
                for number, template in enumerate(some, first):
                    out.write(template[at].replace("KEY", f"orders-{number}", 1) + "\n")
    return keys


def judged(count: int, folder: Path) -> dict[str, Any]:
    """Judges histories of `count` events by the command. Raises RuntimeError if it fails."""
    file = folder / f"{count}.jsonl"
    tell(f"{count:,} events: writing")
    keys = events(count, file)
    tell(f"{count:,} events: judging")
    on_spark = ("--engine", "spark", "--master", f"local[{CORES}]")
    output = folder / f"verdicts-{count}"
    command = (EPOCHFENCE, "judge", *on_spark, "--input", file, "--output", output)
    used = measure([str(part) for part in command], folder)
    if used.exit_code:
        raise RuntimeError(f"epochfence ended with {used.exit_code}:\n{used.output[-2000:]}")
    size = file.stat().st_size
    file.unlink()
    return {
        "events": count,
        "keys": keys,
        "bytes": size,
        "seconds": used.seconds,
        "peak": used.peak_rss_bytes,
    }


def slope(few: dict[str, Any], many: dict[str, Any]) -> float:
    """The additional states of the larger run per additional second."""
    return (many["states"] - few["states"]) / (many["seconds"] - few["seconds"])


def aims(searches: dict[str, Any], histories: Sequence[dict[str, Any]]) -> list[Aim]:
    """The recorded figures with their aims."""
    found: list[Aim] = []
    for size, part in searches.items():
        engine, empty = part["apart"]["spark"]["engine"], small_levels(part)
        sent = engine["candidates_sent"] / max(1, engine["states_on_spark"])
        found.append(Aim(f"candidates sent a new state, {size}", 4, sent, at_most=True))
        if engine["shards"] == 4 and empty:
            what = f"seconds of an almost empty level, 4 shards, {size}"
            found.append(Aim(what, 0.6, empty[len(empty) // 2], at_most=True))
    runs = [part for size, part in searches.items() if size != "-".join(map(str, QUICK))]
    slopes = [slope(few["spark"], many["spark"]) for few, many in itertools.pairwise(runs)]
    if slopes:
        local = slope(runs[0]["threads"], runs[1]["threads"])
        found.append(Aim(f"slope, times that of {CORES} threads", 0.6, slopes[0] / local))
    if len(slopes) > 1:
        further = slopes[1] / slopes[0]
        found.append(Aim("slope from the second to the third size, times that", 0.8, further))
    if histories:
        what = f"minutes for {histories[0]['events']:,} events"
        found.append(Aim(what, 10, histories[0]["seconds"] / 60, at_most=True))
    if len(histories) > 1:
        times = histories[1]["seconds"] / histories[0]["seconds"]
        found.append(Aim("time for twice the events, times that", 2.2, times, at_most=True))
    return found


def page(found: dict[str, Any]) -> str:
    """The section of docs/performance.md for the recorded parts."""
    parts = [f"`python bench/spark.py`. {found['machine']}."]
    searches, histories = found["searches"], found["histories"]
    if searches:
        parts.append(table(HEAD, [cells(size, part) for size, part in searches.items()]))
    if histories:
        lines = [
            (
                f"{measured['events']:,}",
                f"{measured['keys']:,}",
                f"{measured['bytes'] / 1e6:,.0f}",
                f"{measured['seconds']:.1f}",
                f"{measured['events'] / measured['seconds']:,.0f}",
                f"{measured['peak'] / 1e6:,.0f}",
            )
            for measured in histories
        ]
        parts.append(table(HISTORIES_HEAD, lines))
    parts.append(table(AIM_HEAD, [aim.cells for aim in aims(searches, histories)]))
    return "\n\n".join(parts)


def measured(parts: Sequence[str], found: dict[str, Any], folder: Path, *, quick: bool) -> None:
    """Measures parts, and adds them to the recorded ones, with the searches in order."""
    for part in parts:
        tell(f"{part}: some {MINUTES[part]} minutes on a quiet machine")
        if part == "histories":
            count = QUICK_EVENTS if quick else EVENTS
            found["histories"] = [judged(count, folder), judged(2 * count, folder)]
        else:
            size = tuple(map(int, part.split("-")))
            more = ("--hand-over", str(QUICK_HAND_OVER)) if size == QUICK else ()
            found["searches"][part] = search(size, SHARDS[size], folder, *more)
    searches = found["searches"]
    found["searches"] = {part: searches[part] for part in MINUTES if part in searches}


def main() -> int:
    """Runs the command line; returns the exit code."""
    os.environ[object_cache.VARIABLE] = object_cache.OFF  # compilation is measured
    parser = argparse.ArgumentParser(description="Spark beside threads, and histories on Spark.")
    parser.add_argument("--quick", action="store_true", help="small parts, nothing written")
    parser.add_argument("--part", action="append", choices=MINUTES, help="only this one")
    parser.add_argument("--json", type=Path, help="record there (default: bench/spark.json)")
    given = parser.parse_args()
    into = given.json or (None if given.quick else scale.RECORDED)
    found: dict[str, Any] = {"searches": {}, "histories": []}
    if into is not None and into.exists():
        found = json.loads(into.read_text(encoding="utf-8"))
    found["machine"] = f"{machine()}; load when it began: {os.getloadavg()[0]:.1f}. {versions()}"
    default = ["1-2-2-2", "histories"] if given.quick else list(MINUTES)
    with tempfile.TemporaryDirectory() as folder:
        try:
            measured(given.part or default, found, Path(folder), quick=given.quick)
        except RuntimeError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    if into is not None:
        into.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(page(found))
    if into == scale.RECORDED:
        write(page(found), "spark")
        write(scale.page(scale.recorded()), "scale", scale.PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
