"""Commands to disturb, and what each comes to when nothing does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KTX = str(ROOT / "bench" / "ktx.py")
LEASE = str(ROOT / "docs" / "examples" / "lease.py")
TOLD = "told.json"
HISTORY = "history.jsonl"
REQUESTS = 3_000
# on Spark, each partition's requests are a task's; these are so many that what Spark writes of
# them is longer than what Java has to write to start
MANY = 10_000
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
"""Java takes half the processor time, where it lives for seconds only."""

# what differs from run to run, as it is measured or tells how a run came about
MEASURED = {
    "seconds", "longest", "compile_seconds", "kernel_from_cache", "states_per_second",
    "memory_bytes", "engine", "notes", "from", "to",
}  # fmt: skip


@dataclass(frozen=True)
class Surface:
    """A command that writes its result to `TOLD`; paths are below the folder where it runs."""

    name: str
    command: tuple[str, ...]
    keep: tuple[str, ...] = ()
    """The option and the place for what outlives it, if anything does."""
    resume: str = ""
    """The option instead, once there is something in that place, if it differs."""
    is_kept: str = ""
    """The files that say so: a pattern."""
    prepare: Callable[[Path], None] = lambda _: None
    """Makes its input."""
    roles: tuple[str, ...] = ("driver",)
    """Which of its processes are killed: the first, a `worker` in Python, Spark's `executor`."""
    memory: float = 0.0
    """The most that --memory is given, in GiB; 0 where there is no such option."""
    least_file: int = 0
    """The smallest limit on a file's size, in bytes, under which its platform starts."""
    longest_file: int = 0
    """The largest limit, where that isn't the length of the longest file that it leaves: it may
    have longer ones that it removes."""
    least_space: float = 0.7
    """The share of its usual address space with which its libraries can be loaded."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables beside those of the process that starts it."""
    refusal: str = ""
    """Words of the line with which it may refuse to run again, if it may: a whole result is there
    already, or a file was half rewritten."""

    def arguments(self, folder: Path) -> list[str]:
        """The command line that begins, or goes on with what is there."""
        keep = (self.resume, *self.keep[1:]) if self.resume and self.kept(folder) else self.keep
        program = (sys.executable, "-m", "epochfence.cli")
        return [*program, *self.command, *keep, "--json", TOLD]

    def kept(self, folder: Path) -> bool:
        """Whether there is something to go on with."""
        return any(folder.glob(self.is_kept)) if self.is_kept else False

    def left(self, folder: Path) -> str:
        """What is wrong with what a run left that came to no end, if anything."""
        told = folder / TOLD
        if told.exists():
            try:
                json.loads(told.read_bytes())
            except ValueError:
                return f"{TOLD} is half written"
        if self.keep[:1] != ("--output",):
            return ""
        output = folder / self.keep[1]
        whole = (output / "verdicts" / "_SUCCESS").exists()
        return f"{output.name} is half written" if output.exists() and not whole else ""


def steady(told: Any) -> Any:
    """What must be the same of two runs."""
    if isinstance(told, dict):
        return {key: steady(value) for key, value in told.items() if key not in MEASURED}
    return [steady(each) for each in told] if isinstance(told, list) else told


def write_history(folder: Path, requests: int = REQUESTS) -> None:
    """A history of a producer's transactions, in which each request was answered."""
    with (folder / HISTORY).open("w") as file:
        for number in range(requests):
            request = {
                "request": "Produce", "client": "a", "partition": f"p-{number % 10}",
                "start": 10 * number, "end": 10 * number + 5, "producer_id": 7,
                "producer_epoch": 0, "base_sequence": number // 10, "count": 1,
                "response": {"error": "NONE", "base_offset": number // 10},
            }  # fmt: skip
            file.write(json.dumps(request) + "\n")


def _ktx(**sizes: int) -> tuple[str, ...]:
    return tuple(part for name, value in sizes.items() for part in ("--set", f"{name}={value}"))


LOCAL = Surface(
    "check", ("check", KTX, *_ktx(I=1, K=2, E=2, S=2), "--threads", "1"),
    ("--checkpoint", "run"), "--resume", "run/manifest.json", memory=0.15, least_space=0.05,
)  # fmt: skip
DISK = Surface(
    "check on disk",
    ("check", KTX, *_ktx(I=1, K=2, E=3, S=3), "--threads", "1", "--memory", "0.15",
     "--spill", "disk"),
    ("--checkpoint", "run"), "--resume", "run/manifest.json",
    prepare=lambda folder: (folder / "disk").mkdir(), refusal="a process ended while it rewrote",
    least_space=0.05,
)  # fmt: skip
SWEEP = Surface(
    "sweep",
    ("sweep", KTX, "--set", "E=1..3", "--set", "S=1..2", "--jobs", "2", *_ktx(I=1, K=1)),
    ("--results", "kept.jsonl"),
    is_kept="kept.jsonl",
    roles=("driver", "worker"),
    least_space=0.9,
)
PROVE = Surface(
    "prove",
    ("prove", LEASE, "--property", "OneHolder", "--jobs", "2"),
    ("--results", "kept.jsonl"),
    is_kept="kept.jsonl",
    roles=("driver", "worker"),
    least_space=0.845,
)
JUDGE = Surface("judge", ("judge", HISTORY), prepare=write_history, least_space=0.82)
SPARK = Surface(
    "check on Spark",
    ("check", KTX, *_ktx(I=1, K=2, E=2, S=2), "--engine", "spark", "--hand-over", "2000",
     "--master", "local[2]", "--shards", "2"),
    ("--storage", "run"), "--resume", "run/manifest-*.json",
    roles=("driver", "executor", "worker"), least_file=1 << 16, least_space=0.03,
    environment=QUICK,
)  # fmt: skip
JUDGE_SPARK = Surface(
    "judge on Spark",
    ("judge", "--engine", "spark", "--master", "local[2]", "--input", HISTORY),
    ("--output", "verdicts"),
    prepare=lambda folder: write_history(folder, MANY),
    roles=("driver", "executor", "worker"),
    least_file=1 << 12,
    longest_file=1 << 18,
    environment=QUICK,
    refusal="exist",
)

OF_ALL = (LOCAL, DISK, SWEEP, PROVE, JUDGE, SPARK, JUDGE_SPARK)
SURFACES = {each.name: each for each in OF_ALL}
