"""What becomes of a test that hangs: it fails by name, and the run goes on.

A plugin of pytest beside pytest-timeout, whose alarm breaks off what a test waits for. Where that
is a child process, most ways to wait clean up by waiting once more: so the test's children are
killed first. And Python takes an alarm only when Z3 has returned: so Z3 is interrupted.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psutil
import pytest

WATCH = pytest.StashKey[threading.Timer]()
SLACK = 2  # seconds by which a system may tell too early when a process began


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Generator[None, Any, Any]:
    began = time.time() - SLACK
    result = yield
    alarm = signal.getsignal(signal.SIGALRM)

    def end(number: int, frame: Any) -> None:
        print(f"{item.nodeid} hangs", file=sys.stderr)
        kill_children(began)
        assert callable(alarm)
        alarm(number, frame)

    if callable(alarm):
        signal.signal(signal.SIGALRM, end)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        item.stash[WATCH] = watch = threading.Timer(left + SLACK, interrupt_z3)
        watch.daemon = True
        watch.start()
    return result


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> Generator[None, Any, Any]:
    if watch := item.stash.get(WATCH, None):
        watch.cancel()
    return (yield)


def interrupt_z3() -> None:
    """Has Z3 return from what it is at."""
    if z3 := sys.modules.get("z3"):
        z3.main_ctx().interrupt()


def kill_children(began: float) -> None:
    """Kills the processes below this one that are not older than that, and tells which."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.create_time() >= began:
                print(f"killed: {child.cmdline()}", file=sys.stderr)
                child.kill()
