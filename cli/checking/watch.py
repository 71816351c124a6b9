"""`check --watch`: check a system again after each save, at small bounds first."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import typer
from rich.text import Text

from ...checker.check import Options, check
from ...checker.named_systems import load_system
from ...checker.output.report import show_trace
from ...checker.trace.trace import ReplayError
from ...checker.verdict.result import Result, Verdict
from ...language import DEFAULT, DeclarationError
from ..exits import fail
from ..options import CheckOptions, bounds_of, with_property
from ..screen import screen

EVERY = 0.2  # seconds between two checks of the files
SPEC = Path(__file__).parents[2] / "spec"


def watch(
    system: str, chosen: CheckOptions, options: Options, *, progress: bool = False
) -> NoReturn:
    """Checks a system now and after each save, until Ctrl-C. A save ends the running check. Each
    check is a new process, which imports the files again."""
    fork = multiprocessing.get_context("fork")
    while True:
        saved = _saved(system)
        child = fork.Process(target=_check, args=(system, chosen, options, progress))
        child.start()
        try:
            while _saved(system) == saved:
                time.sleep(EVERY)
        finally:
            child.kill()
            child.join()


def _saved(system: str) -> dict[Path, int]:
    """The time at which each file was saved: those in the folder of FILE.py, or the tables of the
    shipped systems."""
    file = Path(system.partition(":")[0])
    found = file.absolute().parent.glob("*.py") if file.suffix == ".py" else SPEC.rglob("*.py")
    times: dict[Path, int] = {}
    for path in found:
        with suppress(OSError):  # an editor may be replacing it
            times[path] = path.stat().st_mtime_ns
    return times


def _check(system: str, chosen: CheckOptions, options: Options, progress: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    console = screen()
    with suppress(typer.Exit):  # after its line on standard error
        try:
            declared = load_system(system, options.memory)
            first = bounds_of(declared, None) if chosen.bounds == DEFAULT else chosen.bounds
            for bounds in dict.fromkeys((first, chosen.bounds)):
                found = replace(chosen, bounds=bounds).of(declared, progress=progress)
                result = check(with_property(system, found), options)
                console.print(_line(result, bounds), soft_wrap=True)
                if result.trace is not None:
                    show_trace(result.trace, console)
                sys.stdout.flush()  # a save may end a search with larger bounds
                if result.verdict is not Verdict.HOLDS:
                    break
        except (DeclarationError, ReplayError) as error:
            fail(error)


def _line(result: Result, bounds: str) -> Text:
    """The verdict with the time of day, and the size of the search."""
    colour = "green" if result.verdict is Verdict.HOLDS else "red"
    broken = ", ".join(item.name for item in result.properties if item.verdict == "broken")
    held = sum(item.verdict == "holds" for item in result.properties)
    about = broken or result.reason or f"{held} {'property' if held == 1 else 'properties'}"
    return Text.assemble(
        f"{time.strftime('%H:%M:%S')} {bounds} bounds: ",
        (result.verdict.name, f"bold {colour}"),
        f" {about}; {result.states:,} states, {result.seconds:.1f} s",
    )
