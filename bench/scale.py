"""A model of the cost of a search on Spark, fitted to recorded runs, with predictions for larger
ones.

    .venv/bin/python bench/scale.py    renews the tables of docs/scale.md from bench/spark.json

A run is a list of levels, with the new states of each. From these the model computes the states
that are sent and written (`checker.spark.storage.runs` merges files), the seconds and the memory.
"""

import itertools
import json
import pickle
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from run import table, write

from epochfence.checker.native.store.store import MOST_PER_SHARD, SHARDS
from epochfence.checker.spark.options import MOST_SHARDS
from epochfence.checker.spark.search.shards import owned_by
from epochfence.checker.spark.search.tasks import Place
from epochfence.checker.spark.storage import manifest
from epochfence.checker.spark.storage.files import Storage
from epochfence.checker.spark.storage.runs import Run, to_merge

RECORDED = Path(__file__).with_name("spark.json")
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
WITHIN = 0.25

# the assumed share of a core in a machine with 8 cores, 10 Gbit/s, 64 GB and a disk of 1 TB
NETWORK, DISK_RATE, MEMORY, DISK = 150e6, 100e6, 8e9, 125e9
STATES, CORES = (10**9, 10**10, 10**11, 10**12), (10, 100, MOST_SHARDS, 1_000)
ROWS = 100  # rows of a system; each has two numbers in a level of a manifest
WORK = ("a level", "a task", "a state expanded", "a candidate", "a byte written")


@dataclass(frozen=True)
class Level:
    """A level on Spark: states expanded and found, states and bytes sent, bytes written, and
    seconds.
    """

    expanded: int
    found: int
    sent: float
    sent_bytes: float
    written_bytes: float
    seconds: float = 0.0


@dataclass(frozen=True)
class Recorded:
    """A run on Spark. `before` are the levels that one process explored, `successors` the mean
    number of successors of a state, new or not.
    """

    size: str
    successors: float
    cores: int
    shards: int
    before: Sequence[int]
    levels: Sequence[Level]
    memory: int

    @property
    def found(self) -> list[int]:
        """New states of each level on Spark."""
        return [level.found for level in self.levels]

    @property
    def seconds(self) -> float:
        """The seconds of its levels on Spark."""
        return sum(level.seconds for level in self.levels)


@dataclass(frozen=True)
class Costs:
    """The parameters of the model. `seconds` belong to the entries of `WORK`, the last three for
    one core.
    """

    seconds: tuple[float, ...]
    share: float
    """The share of successors that are sent."""
    candidate_bytes: float
    state_bytes: float
    """Bytes of a state in a file."""
    memory: float
    """Bytes that a visited state takes on an executor."""


@dataclass(frozen=True)
class Simulated:
    """The predicted seconds and bytes of a run; `waiting` is the part of the seconds for levels and
    tasks.
    """

    seconds: float
    waiting: float
    sent_bytes: float
    written_bytes: float
    levels: int


def recorded(path: Path = RECORDED) -> list[Recorded]:
    """The runs that `bench/spark.py` has recorded, the smallest first. Only runs count in which
    shards send everything through Spark, as between machines.
    """
    found: list[Recorded] = []
    for size, part in json.loads(path.read_text(encoding="utf-8"))["searches"].items():
        apart = part["apart"]
        all_levels, spark = apart["levels"], apart["spark"]
        levels = [
            Level(
                sum(before["states"]),
                sum(now["states"]),
                now["sent"],
                now["sent_bytes"],
                now["written_bytes"],
                now["seconds"] - before["seconds"],
            )
            for before, now in itertools.pairwise(all_levels)
            if now["sent"]
        ]
        before = [sum(level["states"]) for level in all_levels[: len(all_levels) - len(levels)]]
        engine = spark["engine"]
        found.append(
            Recorded(
                size,
                spark["transitions"] / spark["states"],
                part["cores"],
                engine["shards"],
                before,
                levels,
                engine["bytes_held"],
            )
        )
    return sorted(found, key=lambda run: sum(run.before) + sum(run.found))


# The model ---------------------------------------------------------------------------------------


def written(found: Sequence[int], before: Sequence[int], shards: int) -> list[float]:
    """States that each level writes: its own, and those of the files that it is merged with."""
    return [float(states * shards) for states, _ in merged(found, before, shards)]


def merged(
    found: Sequence[int], before: Sequence[int], shards: int
) -> list[tuple[int, Sequence[Run]]]:
    """The states that a shard writes at each level, and its files ("runs") after the level."""
    runs = (Run("", 0, len(before), sum(before) // shards, 0, ""),)
    per_level: list[tuple[int, Sequence[Run]]] = []
    for at, states in enumerate(found):
        runs = (*runs, Run("", at, at, states // shards, 0, ""))
        some = max(1, to_merge([*runs]))
        whole = Run("", runs[-some].first, at, sum(run.states for run in runs[-some:]), 0, "")
        runs = (*runs[:-some], whole)
        per_level.append((whole.states if states else 0, runs))
    return per_level


def work(level: Level, shards: int, cores: int) -> list[float]:
    """The amount of each entry of `WORK` in a level, for the busiest core."""
    used = min(cores, shards)
    each = (level.expanded, level.sent, level.written_bytes)
    return [1, -(-shards // used), *(amount / used for amount in each)]


def fit(runs: Sequence[Recorded]) -> Costs:
    """The costs that fit these runs best. Each run has the same weight, and no cost is negative."""
    rows = np.array([work(level, run.shards, run.cores) for run in runs for level in run.levels])
    seconds = np.array([level.seconds for run in runs for level in run.levels])
    of_run = np.concatenate([np.full(len(run.levels), run.seconds) for run in runs])
    rows, seconds = rows / of_run[:, np.newaxis], seconds / of_run
    left = list(range(len(WORK)))
    while True:  # leave out negative costs
        scale = rows[:, left].max(axis=0)
        found = np.linalg.lstsq(rows[:, left] / scale, seconds, rcond=None)[0] / scale
        if (found >= 0).all():
            break
        left.pop(int(np.argmin(found * scale)))
    costs = np.zeros(len(WORK))
    costs[left] = found
    levels = [level for run in runs for level in run.levels]
    successors = sum(sum(run.found) * run.successors for run in runs)
    sent = sum(level.sent for level in levels)
    in_files = sum(sum(written(run.found, run.before, run.shards)) for run in runs)
    held = sum(run.memory for run in runs)
    return Costs(
        tuple(costs.tolist()),
        sent / successors,
        sum(level.sent_bytes for level in levels) / sent,
        sum(level.written_bytes for level in levels) / in_files,
        held / sum(sum(run.before) + sum(run.found) for run in runs),
    )


def simulate(
    costs: Costs,
    found: Sequence[int],
    successors: float,
    shards: int,
    cores: int,
    before: Sequence[int] = (0,),
) -> Simulated:
    """Predicts a run whose levels find `found` new states each, after the levels of one process."""
    in_files = written(found, before, shards)
    total = np.zeros(len(WORK))
    sent_bytes = written_bytes = 0.0
    for expanded, states, files in zip((before[-1], *found), found, in_files, strict=False):
        sent = states * successors * costs.share
        level = Level(
            expanded, states, sent, sent * costs.candidate_bytes, files * costs.state_bytes
        )
        total += work(level, shards, cores)
        sent_bytes += level.sent_bytes
        written_bytes += level.written_bytes
    parts = total * costs.seconds
    return Simulated(
        float(parts.sum()), float(parts[:2].sum()), sent_bytes, written_bytes, len(found)
    )


def shape(runs: Sequence[Recorded], states: int) -> list[int]:
    """The new states of each level in a search of `states` states. They are those of the largest
    run, scaled. The number of levels grows by a power of the number of states, fitted to the
    smallest and the largest run.
    """
    small, large = runs[0], runs[-1]
    whole = [*large.before, *large.found]
    count = [sum(run.before) + sum(run.found) for run in (small, large)]
    deep = [len(run.before) + len(run.levels) for run in (small, large)]
    power = np.log(deep[1] / deep[0]) / np.log(count[1] / count[0]) if small is not large else 0.25
    levels = round(deep[1] * (states / count[1]) ** power)
    share = np.interp(np.linspace(0, 1, levels), np.linspace(0, 1, len(whole)), whole)
    return [int(part) for part in share / share.sum() * states]


def places(shards: int) -> int:
    """About the number of states of up to 16 bytes that the shards hold. A hash distributes states
    evenly, and the first full part ends the run.
    """
    widest = max(len(owned_by(shard, shards)) for shard in range(shards))
    return SHARDS * (SHARDS // widest) * MOST_PER_SHARD


@dataclass(frozen=True)
class Driver:
    """The driver's data at the last level, in bytes: the manifest, the broadcast before a level,
    and the peak memory for both.
    """

    runs: int
    manifest_bytes: int
    broadcast_bytes: int
    memory: int


def driver(found: Sequence[int], shards: int) -> Driver:
    """Builds the data of a run's driver at the last level, and measures it."""
    tracemalloc.start()
    _, of_a_shard = merged(found, (1,), shards)[-1]
    file, digest = "shard-000/levels-00000-00000-00000000.parquet", "0" * 64
    runs = [
        [
            Run(f"{shard}{file}"[-len(file) :], run.first, run.last, run.states, 9 * run.states,
                f"{shard}{run.first}{digest}"[: len(digest)])
            for run in of_a_shard
        ]
        for shard in range(shards)
    ]  # fmt: skip
    steps = [8 * sum(found) // ROWS] * ROWS
    levels = [
        manifest.Level([states // shards] * shards, [*steps], [*range(ROWS)], 1e4, *[states] * 3)
        for states in found
    ]
    whole_manifest = manifest.Manifest(Storage("."), {}, shards, {}, levels=levels, runs=runs)
    content = len(whole_manifest.content())
    totals = [[level.states[shard] for level in levels] for shard in range(shards)]
    place = Place(totals, runs, [None] * shards, [[] for _ in runs], finer=False)
    broadcast = len(pickle.dumps(place))
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Driver(sum(map(len, runs)), content, broadcast, memory)


# The page ----------------------------------------------------------------------------------------


def off(simulated: float, measured: float) -> str:
    """The error of the model in percent."""
    return f"{100 * (simulated / measured - 1):+.0f} %"


def checked(runs: Sequence[Recorded], costs: Costs) -> list[tuple[str, ...]]:
    """Compares the model with each recorded run."""
    lines: list[tuple[str, ...]] = []
    for run in runs:
        model = simulate(costs, run.found, run.successors, run.shards, run.cores, run.before)
        for what, here, there, unit in (
            ("seconds", model.seconds, sum(x.seconds for x in run.levels), 1),
            ("MB sent", model.sent_bytes, sum(x.sent_bytes for x in run.levels), 1e6),
            ("MB written", model.written_bytes, sum(x.written_bytes for x in run.levels), 1e6),
        ):
            figures = (f"{value / unit:,.1f}" for value in (there, here))
            lines.append((run.size, what, *figures, off(here, there)))
    return lines


def predicted(runs: Sequence[Recorded], costs: Costs) -> list[tuple[str, ...]]:
    """The model's predictions for larger searches."""
    lines: list[tuple[str, ...]] = []
    for states in STATES:
        found = shape(runs, states)
        for cores in CORES:
            shards = min(MOST_SHARDS, 2 * cores)
            used = min(cores, shards)
            model = simulate(costs, found, runs[-1].successors, shards, cores)
            disk = states * costs.state_bytes / used
            needs = {
                "computing": 1.0,
                "rounds": 2 * model.waiting / model.seconds,  # 1: half of the time
                "network": model.sent_bytes / used / model.seconds / NETWORK,
                "disk rate": model.written_bytes / used / model.seconds / DISK_RATE,
                "memory": states * costs.memory / used / MEMORY,
                "disk": disk / DISK,
                "shards": cores / MOST_SHARDS,
                "places": states / places(shards),
            }
            lines.append(
                (
                    f"10^{len(str(states)) - 1}",
                    f"{cores:,}",
                    f"{model.levels:,}",
                    f"{model.seconds / 60:,.1f}",
                    f"{100 * model.waiting / model.seconds:.0f}",
                    f"{states * costs.memory / used / 1e9:,.2f}",
                    f"{disk / 1e9:,.2f}",
                    f"{model.sent_bytes / used / model.seconds / 1e6:,.1f}",
                    f"{model.written_bytes / used / model.seconds / 1e6:,.1f}",
                    max(needs, key=lambda name: needs[name]),
                )
            )
    return lines


def at_the_driver(runs: Sequence[Recorded]) -> list[tuple[str, ...]]:
    """The driver's data in larger searches, with the most shards."""
    lines: list[tuple[str, ...]] = []
    for states in STATES:
        found = shape(runs, states)
        has = driver(found, MOST_SHARDS)
        lines.append(
            (
                f"10^{len(str(states)) - 1}",
                f"{len(found):,}",
                f"{has.runs:,}",
                *(
                    f"{part / 1e6:,.1f}"
                    for part in (has.manifest_bytes, has.broadcast_bytes, has.memory)
                ),
            )
        )
    return lines


DRIVER_HEAD = "states", "levels", "runs", "MB of the manifest", "MB broadcast", "MB of memory"


def page(runs: Sequence[Recorded]) -> str:
    """The measured part of docs/scale.md."""
    costs = fit(runs)
    units = (1e3, 1e3, 1e9, 1e9, 1e9)
    cost_rows = [
        (f"{name}, {'ms' if unit == 1e3 else 'ns of a core'}", f"{seconds * unit:,.1f}")
        for name, seconds, unit in zip(WORK, costs.seconds, units, strict=True)
    ]
    cost_rows += [
        ("successors that are sent, of 100", f"{100 * costs.share:.0f}"),
        ("bytes of a candidate sent", f"{costs.candidate_bytes:.1f}"),
        ("bytes of a state in a file", f"{costs.state_bytes:.1f}"),
        ("bytes of a state in memory", f"{costs.memory:.1f}"),
    ]
    head = ("states", "cores", "levels", "minutes", "% rounds", "GB memory a core",
            "GB disk a core", "MB/s sent a core", "MB/s written a core", "first limit")  # fmt: skip
    return "\n\n".join(
        [
            "What things cost:",
            table(("figure", "cost"), cost_rows),
            "The model beside the runs that it is fitted to:",
            table(("size", "figure", "measured", "model", "off by"), checked(runs, costs)),
            "What it says of larger ones:",
            table(head, predicted(runs, costs)),
            f"The driver at the last level, with {MOST_SHARDS} shards and {ROWS} rows:",
            table(DRIVER_HEAD, at_the_driver(runs)),
        ]
    )


def main() -> int:
    """Runs the command line; returns the exit code."""
    if not RECORDED.exists():
        print(f"bench: there is no {RECORDED}: run bench/spark.py first", file=sys.stderr)
        return 1
    section = page(recorded())
    print(section)
    write(section, "scale", PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
