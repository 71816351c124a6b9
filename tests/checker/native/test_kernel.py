"""The process may end while faster code is made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from epochfence.checker.native.object_cache import OFF, VARIABLE

PROGRAM = """
import atexit
import sys
import threading

from epochfence.checker.check import prepare
from epochfence.checker.native import machine_code
from epochfence.checker.native.object_code import BEST
from epochfence.language import instantiate
from epochfence.spec.systems import shipped

machine_code.LARGE, machine_code.APART = 0, int(sys.argv[1])
kernel = prepare(instantiate(shipped("coordinators"), bounds="small")).kernel
atexit.register(lambda: print(threading.active_count()))
kernel.improve(BEST)
"""


@pytest.mark.slow(2)
@pytest.mark.parametrize("apart", [0, 1 << 40], ids=["in another process", "in this process"])
def test_nobody_is_in_llvm_when_a_process_ends(apart: int) -> None:
    """Else what LLVM has would be taken from a thread that works with it, which ends the process by
    a signal."""
    command, without_cache = [sys.executable, "-c", PROGRAM, str(apart)], {VARIABLE: OFF}
    ended = subprocess.run(
        command, env=os.environ | without_cache, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
