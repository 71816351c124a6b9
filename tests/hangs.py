"""What becomes of a test that hangs: it fails by name, and the run goes on.

A plugin of pytest beside pytest-timeout, whose alarm breaks off what a test waits for. Where that
is a child process, most ways to wait clean up by waiting once more: so the test's children are
killed first.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psutil
import pytest

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
    return result


def kill_children(began: float) -> None:
    """Kills the processes below this one that are not older than that, and tells which."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.create_time() >= began:
                print(f"killed: {child.cmdline()}", file=sys.stderr)
                child.kill()
