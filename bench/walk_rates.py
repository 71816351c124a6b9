"""Steps a second of random walks: `epochfence simulate`, TLC, Stateright and SPIN.

.venv/bin/python bench/walk_rates.py [--seconds 10] [--threads 2] [--runs 3]

All walk through the benchmark protocol (peers/MODEL.md) at the same size. All possible steps have
the same probability, and all invariants are checked. Epochfence also walks through `transactions`,
and repeats both with guided walks. It computes and checks all successors of each state, the peers
only the one that they take. The script prints medians: steps, wall time, and the rates per second
of wall time and of processor time. Processor time is the better measure on a busy machine. Start-up
and compilation aren't included.

A peer that isn't on this machine is left out, with a line on how to install it. SPIN interprets its
model for random walks.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import peers
from peers import Measured, Peer, PeerLeftOutError, Size, measure
from run import machine, versions

HERE = Path(__file__).resolve().parent
SIZE = Size(2, 2, 200, 200)
"""Large enough that a walk is cut off by its length, not by the bounds."""
DEPTH = 1_000
SPIN_STATEMENTS = 2_000_000  # statements of a walk, for each second
TLC_WALKS = 300  # walks for each second


class Rate(NamedTuple):
    """The steps and times of one program's walks."""

    steps: int
    seconds: float
    cpu_seconds: float


def epochfence(system: str, threads: int, seconds: int, *options: str) -> Rate:
    """Runs walks of this program through a system, with the options."""
    command = (
        sys.executable, "-m", "epochfence.cli", "simulate", system, "--seed", "1", "--threads",
        str(threads), "--depth", str(DEPTH), *options, "--json", "walks.json",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        start, whole = (
            _walked(measure((*command, *limit), Path(name)), Path(name))
            for limit in (("--steps", "1"), ("--seconds", str(seconds)))
        )
    return whole._replace(cpu_seconds=whole.cpu_seconds - start.cpu_seconds)


def _walked(used: Measured, folder: Path) -> Rate:
    if used.exit_code:
        raise RuntimeError(f"epochfence simulate failed with {used.exit_code}:\n{used.output}")
    found = json.loads((folder / "walks.json").read_text(encoding="utf-8"))
    return Rate(found["steps"], found["seconds"], used.cpu_seconds)


def stateright(peer: Peer, seconds: int) -> Rate:
    """Runs walks of Stateright. Its start-up, below a hundredth of a second, isn't included."""
    used = measure((*peer.command, str(seconds)), peer.folder)
    return Rate(_number(used, r"^(\d+) steps$"), used.seconds, used.cpu_seconds)


def spin(peer: Peer, seconds: int) -> Rate:
    """Runs a walk of SPIN, on one thread. SPIN's steps are statements, so the model counts its
    actions.
    """
    counted = "walk.pml"
    model = (peer.folder / "ktx.pml").read_text(encoding="utf-8")
    model = "int actions = 0;\n" + model.replace("*/ ", "*/ actions = actions + 1; ")
    (peer.folder / counted).write_text(model, encoding="utf-8")
    start, whole = (
        measure(("spin", f"-u{count}", "-n1", counted), peer.folder)
        for count in (1, SPIN_STATEMENTS * seconds)
    )
    steps = _number(whole, r"^\s*actions = (\d+)$")
    return Rate(steps, whole.seconds - start.seconds, whole.cpu_seconds - start.cpu_seconds)


def tlc(peer: Peer, seconds: int) -> Rate:
    """Runs walks of TLC twice, the second time twice as many: the difference excludes the JVM's
    start.
    """
    ran: list[Rate] = []
    for walks in (TLC_WALKS * seconds, 2 * TLC_WALKS * seconds):
        options = ("-simulate", f"num={walks}", "-depth", str(DEPTH))
        used = measure((*peer.command[:-1], *options, peer.command[-1]), peer.folder)
        steps = _number(used, r"number of states generated: ([\d,]+)")
        ran.append(Rate(steps, used.seconds, used.cpu_seconds))
    return Rate(*(more - less for less, more in zip(*ran, strict=True)))


def _number(used: Measured, pattern: str) -> int:
    found = re.findall(pattern, used.output, re.MULTILINE)
    if used.exit_code or not found:
        raise RuntimeError(f"the peer failed with {used.exit_code}:\n{used.output[-2000:]}")
    return int(found[-1].replace(",", ""))


def programs(threads: int, folder: Path) -> dict[str, Callable[[int], Rate]]:
    """The measured programs, by their printed names. Prints the programs that are left out."""
    sizes = [f"{name}={value}" for name, value in zip("IKESV", SIZE, strict=True)]
    bounds = [word for each in sizes for word in ("--set", each)]
    ours = {
        "ktx": partial(epochfence, str(HERE / "ktx.py"), threads),
        "transactions": partial(epochfence, "transactions", threads),
    }
    found: dict[str, Callable[[int], Rate]] = {}
    for name, each in ours.items():
        given = bounds if name == "ktx" else []
        found[f"epochfence, {name}"] = partial(_with, each, (*given, "--unguided"))
        found[f"epochfence, {name}, guided"] = partial(_with, each, tuple(given))
    builds = {
        "Stateright": (partial(peers.build_stateright, threads=threads), stateright),
        "SPIN (1 thread)": (partial(peers.build_spin, expected_states=1 << 20), spin),
        "TLC": (partial(peers.build_tlc, threads=threads), tlc),
    }
    for name, (build, walk) in builds.items():
        try:
            found[f"{name}, ktx"] = partial(walk, build(SIZE, folder / name.split()[0]))
        except PeerLeftOutError as why:
            print(why)
    return found


def _with(walk: Callable[..., Rate], options: tuple[str, ...], seconds: int) -> Rate:
    return walk(seconds, *options)


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Steps a second of random walks.")
    parser.add_argument("--seconds", type=int, default=10, help="of each run, about")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        every = programs(given.threads, Path(name))
        print(f"{machine()}\n{versions()}\n")
        print(f"| {given.threads} threads | steps | wall s | M steps/s | M steps/s of processor |")
        print("|---|---:|---:|---:|---:|")
        runs: dict[str, list[Rate]] = {each: [] for each in every}
        for turn in range(1 + given.runs):  # in turns; the first turn compiles
            for program, walk in every.items():
                rate = walk(given.seconds)
                if turn:
                    runs[program].append(rate)
        for program, rates in runs.items():
            steps, seconds, _ = (median(values) for values in zip(*rates, strict=True))
            wall = median(rate.steps / rate.seconds for rate in rates)
            used = median(rate.steps / rate.cpu_seconds for rate in rates)
            rated = f"{wall / 1e6:.3f} | {used / 1e6:.3f}"
            print(f"| {program} | {steps:,.0f} | {seconds:.1f} | {rated} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
