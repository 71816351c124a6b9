"""The process may end while faster code is made."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from weakref import ref

import pytest

from epochfence.checker.native.cache.machine_code import Code
from epochfence.checker.native.cache.object_cache import OFF, VARIABLE
from epochfence.checker.native.cache.object_code import BEST, QUICK
from epochfence.checker.prepare import prepare
from epochfence.language import instantiate
from epochfence.spec.systems import shipped

PROGRAM = """
import atexit
import sys
import threading

atexit.register(lambda: print(threading.active_count()))  # what is registered first runs last

from epochfence.checker.check import prepare
from epochfence.checker.native.cache import machine_code
from epochfence.checker.native.cache.object_code import BEST
from epochfence.language import instantiate
from epochfence.spec.systems import shipped

machine_code.LARGE, machine_code.APART = 0, int(sys.argv[1])
kernel = prepare(instantiate(shipped("coordinators"), bounds="small")).kernel
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


def test_a_thread_that_is_done_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook may have faster code made a thousand times before it ends."""
    may_end = threading.Event()

    def with_effort(code: Code, _: int) -> Code:
        may_end.wait()
        return code

    monkeypatch.setattr(Code, "with_effort", with_effort)
    kernel = prepare(instantiate(shipped("coordinators"), bounds="small")).kernel
    kernel.effort = QUICK
    others = threading.enumerate()
    kernel.improve(BEST)
    (thread,) = (ref(each) for each in threading.enumerate() if each not in others)
    may_end.set()
    while thread() is not None and threading.enumerate() != others:
        time.sleep(0.01)
    gc.collect()
    assert thread() is None
