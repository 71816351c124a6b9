"""A worker process that runs inputs under limits, and is watched from outside.

The worker tells through shared memory which input it is at. So the input is known that ends the
worker, or that it doesn't come back from.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import struct
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from epochfence.tests.fuzz.harness import Case, Hang, Surface, emptied, problem

MEMORY = 4 << 30  # bytes of the worker, all that it has imported included
SILENCE = 90  # seconds of the clock without an end of an input in which nobody works on it
IDLE = 0.1  # seconds of processor time that nobody works: one that runs last has few more
PATIENCE = 900  # seconds of the clock in all: on a busy machine, what works on it may work slowly
# Folders are made and emptied for each input: a disk takes longer for that than most inputs.
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FORK = get_context("fork")


@dataclass
class Figures:
    """What came of the inputs of a surface. `seconds` are those of the clock."""

    inputs: int = 0
    seconds: float = 0
    codes: Counter[int] = field(default_factory=Counter[int])
    failures: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The numbers of the inputs that failed, with what is wrong."""

    def add(self, other: Figures) -> None:
        """Counts these as well."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.codes += other.codes
        self.failures += other.failures


def run_for(
    surface: Surface, seed: int, first: int, seconds: float, most: int = 1 << 62
) -> Figures:
    """Runs inputs from number `first` on, for so many seconds or at most `most` of them."""
    found, end = Figures(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and found.inputs < most:
        with mmap.mmap(-1, 8) as place:
            mine, theirs = FORK.Pipe(duplex=False)
            rest = most - found.inputs
            arguments = (surface, seed, first + found.inputs, left, rest, place, theirs)
            worker = FORK.Process(target=_work, args=arguments)
            worker.start()
            theirs.close()
            told = _watched(worker, mine, place)
            if isinstance(told, Figures):
                found.add(told)
                continue
            (at,) = struct.unpack("q", place[:])
            done = at + 1 - (first + found.inputs)
            found.add(Figures(done, 0, Counter({-1: 1}), [(at, told)]))
    found.seconds = seconds - max(0.0, end - time.monotonic())
    return found


def run_case(surface: Surface, case: Case) -> str | None:
    """What is wrong with one input, run in a worker; None where nothing is."""
    found = run_for(replace(surface, generate=lambda _: case), 0, 0, 600, 1)
    return found.failures[0][1] if found.failures else None


def _watched(worker: Any, mine: Connection, place: mmap.mmap) -> Figures | str:
    at, begun = place[:], time.monotonic()
    since, worked = begun, 0.0
    process, wrong = psutil.Process(worker.pid), ""
    while not mine.poll(0.5):
        if place[:] != at:
            at, begun = place[:], time.monotonic()
            since, worked = begun, 0.0
        elif time.monotonic() - begun > PATIENCE:
            wrong = f"it doesn't come back within {PATIENCE} s"
        elif time.monotonic() - since > SILENCE:
            so_far = _worked(process)
            if so_far - worked < IDLE:
                wrong = f"it doesn't come back, and has done nothing for {SILENCE} s"
            since, worked = time.monotonic(), so_far
        with suppress(psutil.Error):
            if process.memory_info().rss > MEMORY:
                wrong = f"it takes over {MEMORY >> 30} GiB"
        if wrong:
            worker.kill()
            worker.join()
            return wrong
    try:
        told = mine.recv()
    except EOFError:
        told = None
    worker.join()
    return told or f"it ends the process: exit {worker.exitcode}"


def _worked(process: psutil.Process) -> float:
    """Seconds of processor time of a process and of those that it started."""
    found = 0.0
    with suppress(psutil.Error):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                found += sum(one.cpu_times()[:2])
    return found


def _work(
    surface: Surface, seed: int, first: int, seconds: float, most: int, place: mmap.mmap,
    results: Connection,
) -> None:  # fmt: skip
    if not surface.reserves:
        # beyond what it begins with: in a run of all tests, others' reservations are in its copy
        most_data = psutil.Process().memory_info().data + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most_data, most_data))
    signal.signal(signal.SIGPROF, _hang)
    found, end = Figures(), time.monotonic() + seconds
    gc.freeze()
    with tempfile.TemporaryDirectory(dir=QUICK) as name:
        folder = Path(name)
        os.chdir(folder)
        number = first
        while number < first + most and time.monotonic() < end:
            place[:] = struct.pack("q", number)
            code, wrong = one(surface, surface.case(seed, number), folder)
            found.inputs += 1
            found.codes[code] += 1
            if wrong is not None:
                found.failures.append((number, wrong))
            number += 1
        os.chdir("/")
    results.send(found)
    results.close()


def one(surface: Surface, case: Case, folder: Path) -> tuple[int, str | None]:
    """Runs an input within its time; its exit code (-1: none), and what is wrong."""
    signal.setitimer(signal.ITIMER_PROF, surface.seconds)
    try:
        ended = surface.run(case, folder)
    except Hang:
        return -1, f"it takes over {surface.seconds} s of processor time"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        emptied(folder)
    return -1 if ended.error else ended.code, problem(case, ended)


def _hang(*_: object) -> None:
    raise Hang
