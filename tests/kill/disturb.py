"""One disturbance of a command: what came of it, and of the run that goes on after it.

The moment of a kill is a share of the processor time that an undisturbed run takes, of all its
processes: on a busy machine, seconds on the clock say little. A full disk is played by a limit on
the size of files (RLIMIT_FSIZE), short memory by one on the address space (RLIMIT_AS): any user may
set both, for one process and its children alone. A file that would be longer is cut off there,
with EFBIG instead of ENOSPC.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from epochfence.tests.kill.surfaces import TOLD, Surface, steady

LONGEST = 600.0  # seconds; what takes longer hangs
POLL = 0.01
MODEST = 4  # times the time of a look until the next one: looking takes processor time too
STUCK = "no traceback, but"  # how the line begins that tells of what doesn't end
GONE_WITHIN = 60.0  # seconds after its driver died, until a process has ended
TRACEBACK = "Traceback (most recent call last):"
# what a Python process of Spark's prints whose JVM ends before it has no other frames; those of
# two processes may come in between each other
_SPARKS_OWN = "pyspark/daemon.py"
INCONCLUSIVE, REFUSED, KILLED = 20, 2, -9


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what was measured of it."""

    code: int
    error: str
    told: Any
    cpu: float
    space: int
    """The most address space of its first process, in bytes."""
    hit: bool = False
    """Whether a kill found what it was to kill."""


@dataclass(frozen=True)
class Usual:
    """A surface's undisturbed run."""

    told: Any
    code: int
    cpu: float
    space: int
    longest_file: int


@dataclass(frozen=True)
class Outcome:
    """What came of disturbances: how many met the command, after how many of them there was
    something to go on from, and what mustn't be (nothing if it is empty)."""

    hits: int
    went_on: int
    wrong: str = ""


def usual(surface: Surface, folder: Path) -> Usual:
    """Runs a surface's command twice, as the first one may compile."""
    for name in ("first", "second"):
        place = folder / name
        place.mkdir(parents=True)
        surface.prepare(place)
        given = set(place.iterdir())
        ended = run(surface, place)
        if wrong := unfit(ended) or ("" if ended.told else "it came to no result"):
            raise AssertionError(f"{surface.name}, undisturbed: {wrong}")
    sizes = [file.stat().st_size for file in place.rglob("*") if file.is_file()]
    inputs = [file.stat().st_size for file in given]
    longest = max(size for size in sizes if size not in inputs)
    return Usual(steady(ended.told), ended.code, ended.cpu, ended.space, longest)


def killed(surface: Surface, normal: Usual, folder: Path, drawn: random.Random) -> Outcome:
    """Kills one of its processes with signal 9 at a random moment, and one of the run that goes on
    after it, up to three times in all."""
    hits, went_on, most = 0, 0, drawn.choice((1, 2, 3))
    while True:
        role, moment = drawn.choice(surface.roles), drawn.uniform(0, normal.cpu)
        ended = run(surface, folder, kill=(role, moment))
        wrong = _wrong(surface, normal, folder, ended)
        if ended.hit:
            hits, went_on = hits + 1, went_on + surface.kept(folder)
        if not ended.hit or wrong or hits == most:
            break
    return Outcome(hits, went_on, wrong or _after(surface, normal, folder, ended))


def full(surface: Surface, normal: Usual, folder: Path, drawn: random.Random) -> Outcome:
    """Leaves room for files of a random size only."""
    least = math.log(max(1, surface.least_file))
    most = math.log(surface.longest_file or normal.longest_file)
    room = int(math.exp(drawn.uniform(least, most)))
    ended = run(surface, folder, limits={resource.RLIMIT_FSIZE: room})
    wrong = ""
    if ended.code == normal.code and ended.told is None:
        wrong = f"it ends with {ended.code} and no result at room for {room} bytes"
    return _limited(surface, normal, folder, ended, wrong)


def short(surface: Surface, normal: Usual, folder: Path, drawn: random.Random) -> Outcome:
    """Gives it little memory: by --memory where it takes that, or less address space."""
    if surface.memory and drawn.random() < 0.5:
        more = ("--memory", f"{drawn.uniform(0.001, surface.memory):.4f}")
        ended = run(surface, folder, more=more)
    else:
        space = int(drawn.uniform(surface.least_space, 1) * normal.space)
        ended = run(surface, folder, limits={resource.RLIMIT_AS: space})
    return _limited(surface, normal, folder, ended)


DISTURBANCES: dict[str, Callable[[Surface, Usual, Path, random.Random], Outcome]] = {
    "kill": killed,
    "full": full,
    "short": short,
}


def _limited(
    surface: Surface, normal: Usual, folder: Path, ended: Ended, wrong: str = ""
) -> Outcome:
    wrong = wrong or _wrong(surface, normal, folder, ended)
    hits, went_on = int(ended.code != normal.code), int(surface.kept(folder))
    return Outcome(hits, went_on, wrong or _after(surface, normal, folder, ended))


def _wrong(surface: Surface, normal: Usual, folder: Path, ended: Ended) -> str:
    """What is wrong with a disturbed run, if anything."""
    differs = ended.told is not None and steady(ended.told) != normal.told
    if differs and ended.code != INCONCLUSIVE:
        return f"the disturbed run comes to something else, with {ended.code}"
    return unfit(ended) or surface.left(folder)


def _after(surface: Surface, normal: Usual, folder: Path, ended: Ended) -> str:
    """What is wrong with the run that goes on with nothing in its way, if anything; the disturbed
    one may have come to the end itself."""
    if (ended.code, steady(ended.told)) == (normal.code, normal.told):
        return ""
    (folder / TOLD).unlink(missing_ok=True)
    last = run(surface, folder)
    if wrong := unfit(last):
        return wrong
    if last.code == REFUSED and not (surface.refusal and surface.refusal in last.error):
        return f"the run after it is refused: {last.error[-300:]}"
    if last.code != REFUSED and (last.code, steady(last.told)) != (normal.code, normal.told):
        return f"the run after it comes to something else, with {last.code}"
    return ""


def unfit(ended: Ended) -> str:
    """What no run may do, however it was disturbed."""
    # a worker of Spark's that is ended as it prints leaves no more than the head
    lines = ended.error.strip().removesuffix(TRACEBACK).splitlines()
    traced = any(_is_ours(lines[at + 1 :]) for at, line in enumerate(lines) if line == TRACEBACK)
    if traced or any(line.startswith(STUCK) for line in lines):
        return f"a traceback: {' | '.join(lines)[-1_500:]}"
    if ended.code not in (0, 11, 12, 13, INCONCLUSIVE, REFUSED, KILLED):
        return f"exit {ended.code}: {' '.join(lines[-2:])[:300]}"
    if ended.code == REFUSED and not (lines and lines[-1].startswith("epochfence: ")):
        return f"exit 2 without a line of why: {' '.join(lines[-2:])[:300]}"
    return ""


def _is_ours(after: list[str]) -> bool:
    """Whether these lines come after the head of a traceback of ours."""
    frames = list(takewhile(lambda line: line.startswith(" "), after))
    if not frames:
        return bool(after) and after[0] != TRACEBACK
    return any('File "' in frame and _SPARKS_OWN not in frame for frame in frames)


def run(
    surface: Surface,
    folder: Path,
    *,
    kill: tuple[str, float] | None = None,
    limits: dict[int, int] | None = None,
    more: tuple[str, ...] = (),
) -> Ended:
    """Runs a surface's command to its end, or until a process of that role is killed at that
    processor time, in seconds."""

    def limit() -> None:
        for which, most in (limits or {}).items():
            resource.setrlimit(which, (most, most))

    said = list[bytes]()
    process = subprocess.Popen(
        [*surface.arguments(folder), *more],
        cwd=folder,
        preexec_fn=limit,
        env={**os.environ, **surface.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    reader = Thread(target=lambda pipe: said.append(pipe.read()), args=[process.stderr])
    reader.start()  # a file would be cut off by a limit
    watched = _Watched(psutil.Process(process.pid))
    hit, hangs, begun = False, False, time.monotonic()
    while process.poll() is None:
        looked = time.monotonic()
        watched.look()
        if kill is not None and not hit and watched.cpu >= kill[1]:
            hit = watched.kill(kill[0])
        if time.monotonic() - begun > LONGEST:
            watched.end()
            hangs = True
        time.sleep(max(POLL, MODEST * (time.monotonic() - looked)))
    stayed = watched.gone()
    reader.join()
    process.stderr.close()
    error = b"".join(said).decode(errors="replace")
    if hangs:
        error += f"\n{STUCK} it takes over {LONGEST:.0f} s"
    if stayed:
        error += f"\n{STUCK} processes stayed: {stayed}"
    told = None
    with suppress(FileNotFoundError, ValueError):
        told = json.loads((folder / TOLD).read_bytes())
    return Ended(process.returncode, error, told, watched.cpu, watched.space, hit)


class _Watched:
    """A process and all that it started."""

    def __init__(self, first: psutil.Process) -> None:
        self.first = first
        self.seen: dict[int, psutil.Process] = {first.pid: first}
        self.times: dict[int, float] = {}
        self.space = 0

    def look(self) -> None:
        """Takes note of new processes, and of the time that all have taken."""
        with suppress(psutil.Error):
            for child in self.first.children(recursive=True):
                self.seen.setdefault(child.pid, child)
        for pid, process in self.seen.items():
            with suppress(psutil.Error):
                times = process.cpu_times()
                self.times[pid] = times.user + times.system
                if pid == self.first.pid:
                    self.space = max(self.space, process.memory_info().vms)

    @property
    def cpu(self) -> float:
        """Seconds of processor time."""
        return sum(self.times.values())

    def kill(self, role: str) -> bool:
        """Kills a process of that role; False if there is none yet."""
        for pid, process in reversed(self.seen.items()):
            with suppress(psutil.Error):
                java = "java" in process.name()
                is_first = pid == self.first.pid
                its = "driver" if is_first else "executor" if java else "worker"
                if any("resource_tracker" in word for word in process.cmdline()):
                    continue  # Python's own, which holds nothing of ours
                if role == its and process.status() != psutil.STATUS_ZOMBIE:
                    process.kill()
                    return True
        return False

    def gone(self) -> list[str]:
        """Waits for what it started to end; ends what doesn't, and names it."""
        alive = [process for pid, process in self.seen.items() if pid != self.first.pid]
        end = time.monotonic() + GONE_WITHIN
        while (alive := [each for each in alive if _runs(each)]) and time.monotonic() < end:
            time.sleep(10 * POLL)
        stayed: list[str] = []
        for process in alive:
            with suppress(psutil.Error):
                stayed.append(" ".join(process.cmdline())[:120])
                process.kill()
        return stayed

    def end(self) -> None:
        """Ends all of them."""
        for process in self.seen.values():
            with suppress(psutil.Error):
                process.kill()


def _runs(process: psutil.Process) -> bool:
    """Whether it hasn't ended; one that nobody waits for has, though it is still listed."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
