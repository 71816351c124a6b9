"""What a command loads: itself, and what it needs; and when Python looks for garbage."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.language import instantiate
from epochfence.tests.cli.test_cli import KTX, ROOT, TINY

PROGRAM = """
import atexit, gc, json, sys
def tell():
    left = len(gc.get_objects()) / gc.get_freeze_count()
    print(json.dumps([looks, left, *sys.modules]), file=sys.stderr)
atexit.register(tell)
from epochfence.cli import main
looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
main()
"""
OTHERS = {"begin", "browse", "bugs", "live", "matrix", "oracle", "semantics", "serve", "solve"}
UNUSED = {
    "fastjsonschema", "importlib.metadata", "jinja2", "numba", "pydantic", "pyspark", "rich.table",
    "z3",
    *(f"epochfence.checker.{name}" for name in ("chart", "itf", "progress", "size")),
}  # fmt: skip


def ended(*arguments: str, **environment: str) -> tuple[list[str], float, set[str]]:
    """The looks for garbage during a command; how many objects are looked through at its end, of
    how many that aren't; and what was loaded."""
    given = {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=True,
    )
    looks, left, *names = json.loads(done.stderr.splitlines()[-1])
    return looks, left, set(names)


@pytest.mark.slow(1)
def test_check_loads_what_it_needs_and_looks_for_no_garbage(tmp_path: Path) -> None:
    command = ("check", KTX, *TINY)
    ended(*command, EPOCHFENCE_CACHE=str(tmp_path))  # from then on all code is there
    looks, left, names = ended(*command, EPOCHFENCE_CACHE=str(tmp_path))
    unused = {*UNUSED, *(f"epochfence.cli.{name}" for name in OTHERS)}
    assert names & unused == set()
    assert "epochfence.cli.checking.check" in names
    assert looks == []
    assert left < 0.1


def test_a_check_thaws_nobodys_objects() -> None:
    gc.freeze()
    check(instantiate(load_system(KTX), constants={"I": 1, "K": 1}))
    assert gc.get_freeze_count() > 0
