"""Compares speed and memory of the explorer with SPIN, rumur, Stateright and TLC, on ktx.py.

    .venv/bin/python bench/run.py            all; renews the tables of docs/performance.md
    .venv/bin/python bench/run.py --quick    a smaller size; writes nothing

docs/performance.md describes the measurements. The exit code is 1 if two programs count different
numbers of states or transitions. Missed aims are printed and don't change it.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil
from peers import PEERS, Peer, Size, build_peers, measure, stateright_version
from probe import probes_per_second

from epochfence.checker.named_systems import load_system
from epochfence.checker.native.cache import object_cache
from epochfence.checker.prepare import prepare
from epochfence.language import instantiate

HERE = Path(__file__).resolve().parent
MODEL = HERE / "ktx.py"
PAGE = HERE.parent / "docs" / "performance.md"
EPOCHFENCE = Path(sys.executable).with_name("epochfence")
THREADS = (1, 2)
LINE = 99
LONG = 60.0
"""A program that takes more seconds than this is run once, unless all runs are asked for."""


@dataclass(frozen=True)
class Case:
    """A size of the protocol, with the counts that every program must find."""

    name: str
    size: Size
    states: int
    transitions: int

    def __str__(self) -> str:
        return f"{self.name} ({'-'.join(map(str, self.size[:4]))})"


TINY = Case("tiny", Size(1, 1, 2, 2), 5_094, 22_028)
M = Case("M", Size(1, 2, 2, 2), 592_812, 3_709_243)
X = Case("X", Size(2, 2, 2, 1), 11_995_156, 97_326_890)
FEWER = Case("5 million", Size(1, 2, 3, 3), 4_463_086, 30_517_141)
MORE = Case("50 million", Size(1, 2, 5, 4), 48_958_437, 369_811_470)


@dataclass(frozen=True)
class Run:
    """One search by one program. Seconds are of wall time."""

    tool: str
    threads: int
    states: int
    transitions: int | None
    wall: float
    """The whole process."""
    compiling: float
    """The part of it for compilation to native code."""
    searching: float | None
    """The search alone; None if a program doesn't print it."""
    peak_rss: int
    """In bytes, of the whole process."""
    touched: int = 0
    """Our own count of the bytes in use at the end; 0 for the peers."""

    @property
    def seconds(self) -> float:
        """The seconds by which programs are compared: all except compilation."""
        return self.wall - self.compiling

    @property
    def rate(self) -> float:
        """States per second, start-up included."""
        return self.states / self.seconds

    @property
    def search_rate(self) -> float:
        """States per second of the search alone."""
        return self.states / (self.searching or self.seconds)


Search = Callable[[], Run]


class DisagreementError(Exception):
    """Two programs count differently, so no figure is valid."""


def ours(case: Case, threads: int, folder: Path) -> Run:
    """Our own search, as a process like the peers'."""
    report = folder / "result.json"
    report.unlink(missing_ok=True)
    constants = zip("IKESV", case.size, strict=True)
    used = measure(
        [str(EPOCHFENCE), "check", str(MODEL), "--threads", str(threads), "--json", str(report)]
        + [part for name, value in constants for part in ("--set", f"{name}={value}")],
        folder,
    )
    if used.exit_code:
        raise RuntimeError(f"epochfence ended with {used.exit_code}:\n{used.output[-2000:]}")
    result = json.loads(report.read_text(encoding="utf-8"))
    return Run(
        "epochfence", threads, result["states"], result["transitions"], used.seconds,
        result["compile_seconds"], result["seconds"], used.peak_rss_bytes, result["memory_bytes"],
    )  # fmt: skip


def theirs(peer: Peer) -> Run:
    """A peer's search. The peer is compiled already."""
    run = peer.run()
    return Run(
        run.tool,
        run.threads,
        run.states,
        run.transitions,
        run.seconds,
        0.0,
        None,
        run.peak_rss_bytes,
    )


def repeated(
    case: Case, searches: Sequence[Search], times: int, *, all_runs: bool
) -> Iterator[list[Run]]:
    """The runs of each search. The programs take turns, because the machine may be busy for a
    while.

    Raises DisagreementError where a run's counts aren't the case's.
    """
    taken: list[list[Run]] = [[] for _ in searches]
    for _ in range(times):
        for search, runs in zip(searches, taken, strict=True):
            if runs and runs[0].wall > LONG and not all_runs:
                continue
            run = search()
            tell(f"{case}: {run.tool}, {threads_of(run.threads)}: {run.seconds:.2f} s")
            for what, counted, expected in (
                ("states", run.states, case.states),
                ("transitions", run.transitions, case.transitions),
            ):
                if counted not in (None, expected):
                    raise DisagreementError(
                        f"{case}: {run.tool} counts {counted:,} {what} and not {expected:,}"
                    )
            runs.append(run)
    yield from taken


def middle(runs: Sequence[Run]) -> Run:
    """The run whose time is the median (of an even number, the slower of the two)."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


# The aims ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aim:
    """A figure to reach. `reached` is None if this run couldn't measure it.

    `alone` is the figure without our start-up, for information.
    """

    what: str
    target: float
    reached: float | None
    alone: float | None = None
    at_most: bool = False
    firm: bool = True

    @property
    def cells(self) -> tuple[str, ...]:
        """The aim as a line of a table."""
        target = f"{'at most' if self.at_most else 'at least'} {self.target:g}"
        if not self.firm:
            target += " (hoped for)"
        alone = "–" if self.alone is None else f"{self.alone:.2f}"
        if self.reached is None:
            return self.what, target, "–", alone, "not measured"
        met = self.reached <= self.target if self.at_most else self.reached >= self.target
        return self.what, target, f"{self.reached:.2f}", alone, "met" if met else "**missed**"


AIM_HEAD = ("figure", "aim", "reached", "search alone", "")


def aims(case: Case, best: dict[tuple[str, int], Run], packed: int, idle: int) -> Iterator[Aim]:
    """The aims for one size. `best` has the median runs by tool and threads. `idle` is the
    explorer's peak memory for a tiny system.
    """
    one, two = best["epochfence", 1], best["epochfence", 2]
    for mine, tool, threads, target in (
        (two, "SPIN DFS", 1, 10),
        (two, "rumur", 2, 45),
        (two, "TLC", 2, 150),
        (two, "Stateright", 2, 5),
        (one, "SPIN DFS", 1, 3),
    ):
        what = f"states/s with {threads_of(mine.threads)}, times {tool}'s with {threads}"
        other = best.get((tool, threads))
        if other is None:
            yield Aim(what, target, None)
        else:
            yield Aim(what, target, mine.rate / other.rate, mine.search_rate / other.rate)
    threads_give = two.search_rate / one.search_rate
    yield Aim("states/s of the search with 2 threads, times with 1", 1.6, threads_give)
    most = max(one.peak_rss, two.peak_rss)
    beyond, held = (part / case.states - packed for part in (most, most - idle))
    what = f"bytes a state beyond the packed state's {packed}"
    yield Aim(what, 20, beyond, held, at_most=True)
    for tool, threads, firm in (("SPIN DFS", 1, True), ("rumur", 2, False)):
        other = best.get((tool, threads))
        share = most / other.peak_rss if other is not None else None
        yield Aim(f"peak memory, times {tool}'s", 1, share, at_most=True, firm=firm)


def scaling_aims(few: dict[int, Run], many: dict[int, Run]) -> Iterator[Aim]:
    """The aims for a larger size: the rate of the search may fall little."""
    for n in THREADS:
        what = f"states/s of the search with {threads_of(n)}, {MORE.name} times {FEWER.name}"
        yield Aim(what, 0.7, many[n].search_rate / few[n].search_rate)


def probe_aims(best: dict[tuple[str, int], Run], probes: dict[int, float]) -> Iterator[Aim]:
    """The aims for the rate of the search relative to random reads."""
    for n in THREADS:
        run = best["epochfence", n]
        assert run.transitions is not None
        assert run.searching is not None
        what = f"transitions/s of the search with {threads_of(n)}, times random reads/s"
        yield Aim(what, 0.4, run.transitions / run.searching / probes[n])


# The page ---------------------------------------------------------------------------------------


def threads_of(count: int) -> str:
    """A number of threads in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns; figures are right-aligned."""
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    is_figure = [
        all(re.match(r"[\d.,–-]+( [kM])?$", line[i]) for line in lines) for i in range(len(head))
    ]

    def show(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_figure, strict=True)
        )
        return f"| {' | '.join(cells)} |"

    rule = (
        f"{'-' * (w + 1)}{':' if right else '-'}"
        for w, right in zip(widths, is_figure, strict=True)
    )
    return "\n".join([show(head), f"|{'|'.join(rule)}|", *map(show, lines)])


def run_cells(case: Case, runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs of a program for a size, as a line of a table."""
    run = middle(runs)
    return (
        str(case),
        run.tool,
        str(run.threads),
        str(len(runs)),
        f"{run.wall:.2f}",
        f"{run.compiling:.2f}" if run.compiling else "–",
        f"{run.searching:.2f}" if run.searching is not None else "–",
        f"{run.rate / 1e6:.3f}",
        f"{case.transitions / run.seconds / 1e6:.2f}",
        f"{run.peak_rss / 1e6:,.0f}",
        f"{run.peak_rss / case.states:,.1f}",
    )


RUN_HEAD = (
    "size", "program", "threads", "runs", "wall s", "compile s", "search s", "M states/s",
    "M transitions/s", "peak MB", "bytes/state",
)  # fmt: skip


def machine() -> str:
    """The machine in a line: its processor, its cores at hand, its memory."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE)
        model = found[1] if found else model
    cores = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total / 2**30
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{model}, {cores} cores, {memory:.0f} GiB, {system}"


def versions() -> str:
    """The programs and libraries that the figures depend on."""
    known = [f"epochfence {version('epochfence')}", f"Python {platform.python_version()}"]
    known += [f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy", "pyspark")]
    commands = [
        ("SPIN", ("spin", "-V"), r"Version (\S+)"),
        ("rumur", ("rumur", "--version"), r"version v?(\S+)"),
        ("gcc", ("gcc", "--version"), r"(\S+)$"),
        ("rustc", ("rustc", "--version"), r"rustc (\S+)"),
        ("Java", ("java", "-version"), r'version "(\S+)"'),
    ]
    for name, command, pattern in commands:
        if shutil.which(command[0]) is None:
            continue
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(pattern, said.stdout + said.stderr, re.MULTILINE)
        known += [f"{name} {found[1]}"] if found else []
        known += [f"Stateright {stateright_version()}"] if found and name == "rustc" else []
    return ", ".join(known)


def write(section: str, name: str = "measured", page: Path = PAGE) -> None:
    """Puts a measured section into a page, between its marks, its text in lines of a page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    parts = section.split("\n\n")
    section = "\n\n".join(p if p.startswith("|") else textwrap.fill(p, LINE) for p in parts)
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{page} lacks the marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n\n{section}\n\n{end}{after}", encoding="utf-8")


def publish(name: str, aims: Sequence[Aim], *, quick: bool) -> None:
    """Prints the figures of `bench/NAME.py` with its aims, and writes them into the page unless
    `quick`.
    """
    aim_table = table(AIM_HEAD, [aim.cells for aim in aims])
    section = f"`python bench/{name}.py`. {machine()}. {versions()}.\n\n{aim_table}"
    print(section)
    if not quick:
        write(section, name)


def tell(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


# The whole --------------------------------------------------------------------------------------


def measured(
    folder: Path, case: Case, times: int, *, full: bool, scaling: bool, without: Sequence[str]
) -> Iterator[str]:
    """Builds, warms up and runs everything; yields the parts of the section."""
    busy = os.getloadavg()[0]
    date = time.strftime("%Y-%m-%d")
    peers, left_out = build_peers(
        case.size,
        folder / "peers",
        expected_states=case.states,
        threads=THREADS if full else (2,),
        without=without,
    )
    for line in left_out:
        tell(line)
    # The first runs fill the cache of compiled code, and measure a search of almost no states.
    nothing = [ours(TINY, threads, folder) for threads in THREADS][-1]

    def mine(size: Case) -> list[Search]:
        return [lambda n=n: ours(size, n, folder) for n in THREADS]

    others: list[Search] = [lambda peer=peer: theirs(peer) for peer in peers]
    by_program = list(repeated(case, [*mine(case), *others], times, all_runs=full))
    best = {(run.tool, run.threads): run for run in map(middle, by_program)}
    lines = [run_cells(case, runs) for runs in by_program]
    instance = instantiate(
        load_system(str(MODEL)), constants=dict(zip("IKESV", case.size, strict=True))
    )
    found = list(aims(case, best, prepare(instance).packing.stride, nothing.peak_rss))
    if scaling:
        scaled: list[dict[int, Run]] = []
        for size in (FEWER, MORE):
            runs = list(repeated(size, mine(size), times, all_runs=full))
            lines += [run_cells(size, each) for each in runs]
            scaled.append({middle(each).threads: middle(each) for each in runs})
        found += scaling_aims(*scaled)
    held = best["epochfence", THREADS[-1]].touched - nothing.touched
    probes = {n: probes_per_second(held, n) for n in THREADS}
    found += probe_aims(best, probes)

    command = " ".join(["python", "bench/run.py", *sys.argv[1:]])
    yield f"`{command}`, {date}. {machine()}; load when it began: {busy:.1f}. {versions()}."
    yield table(RUN_HEAD, lines)
    if case is not X:
        yield f"The aims are set for size {X}; a smaller one says little about them."
    yield table(AIM_HEAD, [aim.cells for aim in found])
    reads = ", ".join(f"{probes[n] / 1e6:.0f} million/s with {threads_of(n)}" for n in THREADS)
    yield (
        f"The explorer's peak at size {TINY}, where it has nothing to hold, is "
        f"{nothing.peak_rss / 1e6:.0f} MB. Random reads from a table of {held / 1e6:,.0f} MB, "
        f"what its visited set and buffers hold at size {case}: {reads}."
    )
    for line in left_out:
        yield f"{line}."


def main() -> int:
    """Runs the command line; returns the exit code."""
    os.environ[object_cache.VARIABLE] = object_cache.OFF  # compilation is measured
    parser = argparse.ArgumentParser(
        description="Speed and memory of the explorer beside SPIN, rumur, Stateright and TLC."
    )
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each program (default: 3)"
    )
    parser.add_argument("--quick", action="store_true", help="size M alone, nothing written")
    parser.add_argument(
        "--full",
        action="store_true",
        help="peers with 1 thread as well, and slow programs as often as the others",
    )
    parser.add_argument(
        "--without", choices=PEERS, action="append", default=[], help="a program to leave out"
    )
    given = parser.parse_args()
    if given.repeat < 1:
        parser.error("--repeat: at least 1")
    with tempfile.TemporaryDirectory() as folder:
        try:
            parts = measured(
                Path(folder),
                M if given.quick else X,
                given.repeat,
                full=given.full,
                scaling=not given.quick,
                without=given.without,
            )
            section = "\n\n".join(parts)
        except (DisagreementError, RuntimeError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(section)
    if not given.quick:
        write(section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
