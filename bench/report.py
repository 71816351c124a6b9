"""Seconds that a browser takes to show a report with a run of 200 steps, and one of 20.

.venv/bin/python bench/report.py    prints the figures; exit code 1 if an aim isn't met

Each figure is the best of three. The page is written, a headless Chromium loads it, and then goes
to the run's last state.
"""

import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from playwright.sync_api import sync_playwright
from run import tell

from epochfence.checker.check import Options, check
from epochfence.checker.trace.trace import shown_trace
from epochfence.checker.verdict.result import Result
from epochfence.diagrams.report.page import to_html
from epochfence.language import Instance, instantiate
from epochfence.model.engine.interpreter import FullState, Interpreter, Step
from epochfence.spec.systems import shipped

SHORT, LONG = 20, 200
MOST = 1.0
"""Seconds for the long run, of a machine that nothing else uses."""
MOST_TIMES = 10.0
"""As often as long as the short run: a page is no slower for each step."""
TRIES = 3


def walked(instance: Instance, count: int) -> tuple[list[FullState], list[Step]]:
    """A random run of `count` steps."""
    machine, draw = Interpreter(instance), Random(0)
    while True:
        states, steps = [draw.choice(list(machine.initial_states()))], list[Step]()
        while len(steps) < count:
            possible = [step for step in machine.steps(states[-1]) if step.state is not None]
            if not possible:
                break
            steps.append(draw.choice(possible))
            states.append(steps[-1].state or states[-1])
        if len(steps) == count:
            return states, steps


def seconds(browser: Any, instance: Instance, result: Result, count: int, folder: Path) -> float:
    """Seconds until the last state of such a run is on the screen."""
    trace = shown_trace(instance, *walked(instance, count), "A run that breaks nothing.")
    shown = replace(result, trace=trace)
    file, best = folder / f"{count}.html", float("inf")
    for _ in range(TRIES):
        page = browser.new_page()
        begin = time.perf_counter()
        file.write_text(to_html(instance, shown), "utf-8")
        page.goto(file.as_uri())
        page.click("[data-go=last]")
        page.wait_for_function(f"document.querySelector('#after').innerText.endsWith(' {count}')")
        best = min(best, time.perf_counter() - begin)
        page.close()
    tell(f"{count} steps: {file.stat().st_size:,} bytes, {best:.2f} s")
    return best


def main() -> int:
    """Measures; returns the exit code."""
    system = shipped("coordinators")
    result = check(instantiate(system, bounds="small"), Options(threads=2))
    instance = instantiate(system)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as running, tempfile.TemporaryDirectory() as folder:
        browser = running.chromium.launch(executable_path=program, args=sandbox)
        short, long = (
            seconds(browser, instance, result, count, Path(folder)) for count in (SHORT, LONG)
        )
        browser.close()
    tell(f"{long / short:.1f} times as long for {LONG // SHORT} times the steps")
    return int(long > MOST or long > MOST_TIMES * short)


if __name__ == "__main__":
    sys.exit(main())
