"""How a command ends: with a result, with one line of what is wrong, or with a fault of ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

USAGE, INTERNAL, BROKEN = 2, 1, 12


def fail(message: object) -> NoReturn:
    """Ends with one clear line and the exit code for wrong usage."""
    print(f"epochfence: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


@contextmanager
def needing(*extras: str) -> Generator[None]:
    """Ends with one line where a package is missing that these extras of ours bring."""
    try:
        yield
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'epochfence[{','.join(extras)}]'")


def internal(error: Exception) -> NoReturn:
    """Ends with the exit code for a fault of the program's own."""
    print(f"epochfence: internal error, please report it: {error}", file=sys.stderr)
    raise typer.Exit(INTERNAL) from None


def write_json(output: Path | None, data: object) -> None:
    """Writes the file, if one is wanted, as a whole or not at all."""
    if output is None:
        return
    aside = output.with_name(f".{output.name}.part")
    try:
        aside.write_text(json.dumps(data, indent=2) + "\n")
        aside.replace(output)
    except OSError as error:
        aside.unlink(missing_ok=True)
        fail(f"can't write {output}: {error.strerror}")
