"""Loads systems by name or from a user's file."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..language import DeclarationError, System
from ..language.declaration.arguments import meant, nearest, one_of, question
from ..spec.changes import VARIED
from ..spec.systems import SHIPPED, shipped

MEMORY = 4 * 2**30  # bytes that a file's process may take; declarations take few
LEAST = 2**28  # the smallest limit in bytes: Python itself needs some

_CHILD = (
    "import gc, json, sys; gc.set_threshold(50_000); "  # loading makes little garbage
    "request = json.loads(sys.argv[1]); sys.path[:] = request.pop('search'); "
    "from epochfence.language.declaration.loading import answer; answer(**request)"
)


def load_system(
    name: str, memory: int | None = None, meanwhile: Callable[[], object] | None = None
) -> System:
    """The shipped system `name`, its variant `SYSTEM+VARIANT`, or the system in `FILE.py[:NAME]`.

    NAME is a variable or the system's name. Without it the file must hold one system. The file is
    run as a program, in a separate process that may take `memory` bytes (default: 4 GiB; at least
    256 MiB); `meanwhile` is called while it runs. Raises DeclarationError, with the file and the
    line, if the file is missing, fails, or doesn't hold the system.
    """
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        return _from_file(Path(file), attribute, max(memory or MEMORY, LEAST), meanwhile)
    if name in VARIED:
        return VARIED[name]()
    if name not in SHIPPED:
        known = (*SHIPPED, *VARIED)
        there = meant(name, known) or _file_meant(Path(name))
        there = there.rstrip() or f"{one_of(name, known)}, or a file as FILE.py or FILE.py:NAME"
        raise DeclarationError(f"no system is called {name}: {there}")
    return shipped(name)


def place_of(system: System) -> str | None:
    """The name by which `load_system` finds the system from any folder; None if its file is
    unknown.
    """
    place = system.declared
    if place is None or place.is_shipped:
        return system.name if {system.name} & {*SHIPPED, *VARIED} else None
    return f"{os.path.abspath(place.file)}:{system.name}" if place.file.endswith(".py") else None


def _from_file(
    path: Path, attribute: str, memory: int, meanwhile: Callable[[], object] | None
) -> System:
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # the folder is forbidden, or the name is too long
        raise DeclarationError(f"can't read {path}: {error.strerror}") from None
    if is_folder:
        raise DeclarationError(f"{path} is a folder: give a file in it")
    if not is_file:
        raise DeclarationError(f"{path}: no such file; {_file_meant(path)}".rstrip("; "))
    written, code = _run_apart(path, attribute, memory, meanwhile)
    try:
        found = pickle.loads(written)
    except Exception:  # an incomplete answer raises various errors
        raise DeclarationError(f"{path}: {_ending(code)} before it had declared a system") from None
    if isinstance(found, DeclarationError):
        raise found
    if not isinstance(found, System):
        raise DeclarationError(f"{path}: its process returned something that isn't a system")
    return found


def _file_meant(path: Path) -> str:
    """A question with a similarly named Python file of the same folder; empty if there is none."""
    with suppress(OSError, ValueError):  # an impossible file name
        there = {each.stem: each for each in sorted(path.parent.glob("*.py")) if each.is_file()}
        alike = nearest(path.stem, there)
        return question(None if alike is None else str(there[alike]))
    return ""


def _run_apart(
    path: Path, attribute: str, memory: int, meanwhile: Callable[[], object] | None = None
) -> tuple[bytes, int]:
    """The answer of a separate process that runs the file, and its exit code. The file prints to
    standard error.
    """
    result, result_end = os.pipe()
    alive_end, alive = os.pipe()
    request = {
        "search": sys.path,
        "path": str(path),
        "attribute": attribute,
        "memory": memory,
        "result": result_end,
        "parent": alive_end,
    }
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=(result_end, alive_end),
        )
    finally:
        os.close(result_end)
        os.close(alive_end)
    try:
        with os.fdopen(result, "rb") as pipe:
            if meanwhile is not None:
                meanwhile()
            written = pipe.read()
        return written, child.wait()
    finally:
        os.close(alive)
        child.kill()
        child.wait()


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by a signal ({signal.strsignal(-code)})"
    return f"ended the process with {code}"
