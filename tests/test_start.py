"""What a command loads: itself, and what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.tests.test_cli import KTX, ROOT, TINY

PROGRAM = """
import atexit, gc, json, sys
def tell():
    left = len(gc.get_objects()) / gc.get_freeze_count()
    print(json.dumps([left, *sys.modules]), file=sys.stderr)
atexit.register(tell)
from epochfence.cli import main
main()
"""
OTHERS = {"begin", "browse", "bugs", "live", "matrix", "oracle", "semantics", "serve", "solve"}
UNUSED = {
    "fastjsonschema", "importlib.metadata", "jinja2", "numba", "pydantic", "pyspark", "rich.table",
    "z3",
    *(f"epochfence.checker.{name}" for name in ("chart", "itf", "progress", "size")),
}  # fmt: skip


def loaded_by(*arguments: str, **environment: str) -> tuple[float, set[str]]:
    """What a process has loaded at the end of a command; and how many objects it then looks through
    for garbage, of how many that it doesn't."""
    given = {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT, env=os.environ | given, capture_output=True, text=True, check=True,
    )  # fmt: skip
    left, *names = json.loads(done.stderr.splitlines()[-1])
    return left, set(names)


@pytest.mark.slow(1)
def test_check_loads_what_it_needs(tmp_path: Path) -> None:
    command = ("check", KTX, *TINY)
    loaded_by(*command, EPOCHFENCE_CACHE=str(tmp_path))  # from then on all code is there
    left, names = loaded_by(*command, EPOCHFENCE_CACHE=str(tmp_path))
    unused = {*UNUSED, *(f"epochfence.cli.{name}" for name in OTHERS)}
    assert names & unused == set()
    assert "epochfence.cli.explore" in names
    assert left < 0.1
