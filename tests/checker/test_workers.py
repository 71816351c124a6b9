"""Pieces of work in processes: results with their places, and no process is left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, process
from operator import neg

import psutil
import pytest

from epochfence.checker.workers import Spread

LONG = """
import time
from epochfence.checker.workers import Spread
list(Spread(2).each(time.sleep, [600, 600], "test"))
"""


@pytest.mark.slow(1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_with_their_places(jobs: int) -> None:
    made = iter(range(5))
    assert dict(Spread(jobs).each(neg, made, "test")) == {n: -n for n in range(5)}


@pytest.mark.slow(1)
def test_processes_end_with_the_one_that_started_them() -> None:
    run = subprocess.Popen([sys.executable, "-c", LONG])
    workers: list[psutil.Process] = []
    until = time.monotonic() + 60
    while len(workers) < 3 and time.monotonic() < until:  # one of them is Python's own
        workers = psutil.Process(run.pid).children()
        time.sleep(0.1)
    time.sleep(1)
    run.kill()
    run.wait()
    assert len(workers) == 3
    _, left = psutil.wait_procs(workers, timeout=60)
    assert left == []


@pytest.mark.slow(1)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_results_that_nobody_brings_any_more_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For want of memory, Python's own thread for results may end without a word."""

    def ends(_: object) -> None:
        raise MemoryError

    thread = process._ExecutorManagerThread
    monkeypatch.setattr(thread, "wait_result_broken_or_wakeup", ends)
    with pytest.raises(BrokenExecutor):
        list(Spread(2).each(neg, range(5), "test"))
