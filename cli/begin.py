"""The command that begins a protocol of one's own."""

from __future__ import annotations

import keyword
import os
import re
import sys
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ..files import write_whole
from .endings import fail

LONGEST = 60
TAKEN = {"conftest", "epochfence", "pytest"}


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _.")
    ],
) -> None:  # fmt: skip
    """Write NAME.py, a small protocol to begin with, and test_NAME.py, which checks it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > LONGEST:
        fail(
            f"{name[:LONGEST]}: a name has lower-case letters, digits and _, begins with a letter, "
            f"and has at most {LONGEST} characters"
        )
    if name in TAKEN or name in sys.stdlib_module_names or keyword.iskeyword(name):
        fail(f"{name}: this is a name of Python's or of a library's: take another")
    templates = Path(__file__).parent
    parts = {
        Path(f"{name}.py"): "declaration.template",
        Path(f"test_{name}.py"): "test.template",
    }
    for path in parts:
        if os.path.lexists(path):
            fail(f"{path} is there already, and stays as it is: take another name or folder")
    for path, template in parts.items():
        text = templates.joinpath(template).read_text(encoding="utf-8")
        write_whole(path, Template(text).substitute(name=name))
    print(f"{name}.py and test_{name}.py are there. Now try:")
    print(f"  epochfence check {name}.py")
    print(f"  epochfence check {name}.py --protocol 1")
    print(f"  pytest test_{name}.py")
