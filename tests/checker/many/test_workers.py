"""Pieces of work in processes: results with their places, and no process is left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, process
from operator import neg
from pathlib import Path

import psutil
import pytest

from epochfence.checker.many.workers import Workers

LONG = """
import time
from epochfence.checker.many.workers import Workers
list(Workers(2).each(time.sleep, [600, 600], "test"))
"""


@pytest.mark.slow(1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_with_their_places(jobs: int) -> None:
    made = iter(range(5))
    assert dict(Workers(jobs).each(neg, made, "test")) == {n: -n for n in range(5)}


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
        list(Workers(2).each(neg, range(5), "test"))


LARGE = """
import os, signal, sys, time
from threading import Timer
from epochfence.checker.many.workers import Workers

def work(piece):
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Timer(1.5, lambda: os.killpg(0, signal.SIGINT)).start()
    try:
        list(Workers(2).each(work, (bytes(2_000_000) for _ in range(10)), "test"))
    except KeyboardInterrupt:
        sys.exit(7)
"""


@pytest.mark.slow(3)
def test_ctrl_c_ends_it_while_pieces_are_too_large_for_their_pipe(tmp_path: Path) -> None:
    """One run in three went on for ever at its exit."""
    (tmp_path / "large.py").write_text(LARGE)
    for _ in range(3):
        command = [sys.executable, tmp_path / "large.py"]
        run = subprocess.run(command, start_new_session=True, timeout=60, stderr=subprocess.DEVNULL)
        assert run.returncode == 7


@pytest.mark.slow(2)
def test_a_killed_tracker_of_semaphores_prints_nothing(tmp_path: Path) -> None:
    """Python starts another one, which doesn't know what it is to forget."""
    program = tmp_path / "program.py"
    program.write_text(
        """\
import os, signal
from multiprocessing import resource_tracker
from epochfence.checker.many.workers import Workers

if __name__ == "__main__":
    with Workers(2).together("test") as workers:
        print(sorted(workers.each(abs, [-1, -2, -3], "test")))
        os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)
        print(sorted(workers.each(abs, [-1, -2, -3], "test")))
"""
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[(0, 1), (1, 2), (2, 3)]"] * 2
    assert (done.returncode, done.stderr) == (0, "")
