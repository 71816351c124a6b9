"""A test that hangs fails by name, whatever it waits for, and those behind it are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor

CHILD = [sys.executable, "-c", "import time; time.sleep(600)"]

def test_of_a_child():
    with subprocess.Popen(CHILD, stdout=subprocess.PIPE) as child:  # which waits again at its end
        child.wait()

def test_of_a_pool():
    with ProcessPoolExecutor(1) as pool:
        pool.submit(time.sleep, 600).result()

def test_of_z3():
    import z3

    a, b, c = z3.Ints("a b c")
    z3.solve(a * a * a + b * b * b + c * c * c == 114)  # nobody knows

def test_behind_them():
    pass
"""


@pytest.mark.slow(1)
def test_a_test_that_hangs_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(TESTS)
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "epochfence.tests.hangs", "--timeout", "1",
        "--timeout-method", "signal", "-p", "no:cacheprovider", "test_hanging.py",
    ]  # fmt: skip
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    for name in ("a_child", "a_pool", "z3"):
        assert f"FAILED test_hanging.py::test_of_{name} - Failed: Timeout" in run.stdout
    assert "child.wait()" in run.stdout  # where it hangs
    assert "killed: [" in run.stdout
    assert "3 failed, 1 passed" in run.stdout
