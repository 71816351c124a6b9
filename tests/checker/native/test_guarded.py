"""What compiled functions read and write stays within what was reserved for it, and its slack."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from epochfence.tests.checker.native import searches


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The searches in a process of their own."""
    command = [sys.executable, "-X", "faulthandler", "-m", searches.__name__, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow(8)
@pytest.mark.long
def test_no_access_leaves_its_bounds() -> None:
    ended = run()
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize("bound", searches.TOO_NARROW)
def test_a_bound_that_is_too_narrow_is_noticed(bound: str) -> None:
    ended = run(bound)
    assert ended.returncode == -signal.SIGSEGV, ended.stderr
