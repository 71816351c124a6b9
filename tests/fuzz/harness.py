"""What all drivers share: an input, how it ends, and what may not be said of it."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer.main

from epochfence.cli import app
from epochfence.cli.exits import show_warning

# The verdicts, the best first: all holds or is explained, nobody knows, something is broken.
# A refusal gives no verdict at all, which is never too good.
RANKS = {0: 0, 20: 1, 11: 2, 12: 2, 13: 2, 2: 3}
REFUSED = 2
LONGEST = 1_000  # characters in a line about what is wrong


class Hang(BaseException):
    """The time for an input is over."""


@dataclass(frozen=True)
class Case:
    """An input: the words of a command line, and files in the folder that it is run in.

    `bound` is the verdict of the undamaged input, where damage can only make it worse (REFUSED:
    the damage must be noticed). `exactly` is the exit code where the input means the same as
    before. `worst` is the worst verdict of an input that is right. A refusal names `place`, if it
    has one.
    """

    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    stdin: bytes = b""
    bound: int | None = None
    exactly: int | None = None
    worst: int | None = None
    place: str = ""
    many_lines: bool = False
    """Whether more than one thing may be told to be wrong."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; bytes as hexadecimal digits."""
        files = {name: data.hex() for name, data in self.files.items()}
        return {**vars(self), "files": files, "stdin": self.stdin.hex()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Case:
        """The case of `to_json`'s text."""
        files = {name: bytes.fromhex(text) for name, text in data["files"].items()}
        stdin = bytes.fromhex(data["stdin"])
        return Case(**{**data, "words": tuple(data["words"]), "files": files, "stdin": stdin})


@dataclass(frozen=True)
class Ended:
    """How an input ended. `error` is the traceback of what nothing caught."""

    code: int
    err: str = ""
    error: str = ""


Run = Callable[[Case, Path], Ended]


def command(case: Case, folder: Path) -> Ended:
    """Runs the command line in this process, in `folder` with the files."""
    for name, data in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return caught(lambda: _commands().main(list(case.words), prog_name="epochfence"), case.stdin)


@cache
def _commands() -> Any:
    return typer.main.get_command(app)


def caught(work: Callable[[], object], stdin: bytes = b"") -> Ended:
    """Runs what ends as a process does; a return counts as 0."""
    kept, warned = (sys.stdin, sys.stdout, sys.stderr), warnings.showwarning
    told = io.BytesIO()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    err = io.TextIOWrapper(told, "utf-8", "backslashreplace")
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin)), out, err
    warnings.showwarning = show_warning  # as `main` does
    code, error = 0, ""
    try:
        work()
        out.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Hang:
        error = "it hangs: " + traceback.format_exc()
    except BaseException:
        error = traceback.format_exc()
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
        warnings.showwarning = warned
        err.flush()
    return Ended(code, told.getvalue().decode(), error)


@dataclass(frozen=True)
class Surface:
    """A driver: makes inputs up and runs them. `weight` is its share of the time."""

    name: str
    generate: Callable[[Random], Case]
    run: Run = command
    weight: float = 1
    seconds: float = 10
    """Of processor time for one input."""
    reserves: bool = False
    """Whether it takes addresses for more memory than it uses, as the explorer does."""

    def case(self, seed: int, number: int) -> Case:
        """An input, always the same one for these numbers."""
        return self.generate(Random(f"{seed} {self.name} {number}"))


def problem(case: Case, ended: Ended) -> str | None:
    """The oracle: what is wrong with how an input ended, or None."""
    if ended.error:
        return ended.error
    if ended.code not in RANKS:
        return f"exit {ended.code} is not documented for an input: {ended.err[:300]}"
    if "Traceback (most recent call last)" in ended.err:
        return f"a traceback is printed: {ended.err}"
    if case.exactly is not None and ended.code != case.exactly:
        return f"exit {ended.code} where {case.exactly} is meant: {ended.err[:300]}"
    if case.bound is not None and RANKS[ended.code] < RANKS[case.bound]:
        return f"exit {ended.code} is a better verdict than {case.bound}"
    if case.worst is not None and RANKS[ended.code] > RANKS[case.worst]:
        return f"exit {ended.code} is a worse verdict than {case.worst}, and the input is right"
    return _refusal(case, ended.err) if ended.code == REFUSED else None


def _refusal(case: Case, err: str) -> str | None:
    """The fault of a refusal's message, or None."""
    lines = [line for line in err.split("\n") if line]
    if not lines:
        return "exit 2 without a line that says why"
    for line in lines:
        if not line.startswith("epochfence: "):
            return f"a line of no form: {line[:300]!r}"
        if len(line) > LONGEST:
            return f"a line of {len(line)} characters: {line[:300]!r}"
        if not case.many_lines and line != lines[-1] and not _is_note(line):
            return f"more than one line: {err[:300]!r}"
    if case.place and case.place not in lines[-1]:
        return f"the line doesn't name {case.place}: {lines[-1]!r}"
    return None


def _is_note(line: str) -> bool:
    return any(words in line for words in ("is ignored", "skipped", "isn't a release; taken as"))


def emptied(folder: Path) -> None:
    """Removes what an input left behind."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def write_failure(folder: Path, surface: str, case: Case, what: str, found: dict[str, Any]) -> Path:
    """Keeps an input with what is wrong; the file's path. `--replay` takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{surface}-{found['seed']}-{found['number']}.json"
    told = {"surface": surface, **found, "problem": what, "case": case.to_json()}
    path.write_text(json.dumps(told, indent=1) + "\n")
    return path
