"""`new`: writes the first files of a new protocol."""

from __future__ import annotations

import keyword
import os
import re
import sys
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ...files import write_whole
from ..exits import fail

LONGEST = 60
TAKEN = {"conftest", "epochfence", "pytest"}


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The protocol's name: lower-case letters, digits and _."
        ),
    ],
) -> None:
    """Start a protocol: write NAME.py, a small example, and test_NAME.py, which checks it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > LONGEST:
        fail(
            f"{name[:LONGEST]}: a name starts with a lower-case letter, contains only lower-case "
            f"letters, digits and _, and has at most {LONGEST} characters"
        )
    if name in TAKEN or name in sys.stdlib_module_names or keyword.iskeyword(name):
        fail(f"{name}: Python or a library uses this name: choose another")
    templates = Path(__file__).parent
    parts = {
        Path(f"{name}.py"): "declaration.template",
        Path(f"test_{name}.py"): "test.template",
    }
    for path in parts:
        if os.path.lexists(path):
            fail(f"{path} exists and is not overwritten: choose another name or folder")
    for path, template in parts.items():
        text = templates.joinpath(template).read_text(encoding="utf-8")
        write_whole(path, Template(text).substitute(name=name))
    print(f"Wrote {name}.py and test_{name}.py. Now try:")
    print(f"  epochfence check {name}.py")
    print(f"  epochfence check {name}.py --protocol 1")
    print(f"  pytest test_{name}.py")
