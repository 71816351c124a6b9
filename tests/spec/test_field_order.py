"""The fields of a machine have one order, whichever module of the specification is loaded first.

Several modules declare fields of one machine. Their order is that of the state and of the pages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import epochfence

ROOT = Path(epochfence.__file__).parent
MODULES = sorted(
    ".".join(("epochfence", *path.relative_to(ROOT).with_suffix("").parts))
    for path in (ROOT / "spec").rglob("*.py")
    if ".field(" in path.read_text(encoding="utf-8")
)
PROGRAM = """
import importlib, json, os, sys
from epochfence.language import Machine
modules = json.loads(sys.argv[1])
for first in modules:
    sys.stdout.flush()
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    orders = {}
    for name in (first, *modules):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Machine):
                orders[value.name] = value
    print(json.dumps({name: [*machine.fields] for name, machine in sorted(orders.items())}))
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.slow(10)
def test_fields_have_one_order_whichever_module_is_loaded_first() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(MODULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(MODULES) > 20
    assert [first for first, orders in zip(MODULES, found, strict=True) if orders != found[0]] == []
