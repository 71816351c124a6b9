"""How a command ends: with a result, with a one-line error, or with an internal error."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from ..files import Output, refusal

USAGE, INTERNAL, BROKEN, INCONCLUSIVE, INTERRUPTED = 2, 1, 12, 20, 130
UNDECIDED = (INCONCLUSIVE, INTERRUPTED)  # no verdict
STANDARD_OUTPUT = 1  # the descriptor
LONGEST = 800  # characters of an error message


def fail(message: object) -> NoReturn:
    """Exits with a one-line error and the exit code for wrong usage."""
    print(f"epochfence: {in_a_line(message)}", file=sys.stderr)
    raise typer.Exit(USAGE)


def in_a_line(message: object) -> str:
    """The message on one line. The middle of a long one, which quotes its input, is left out."""
    line = " ".join(str(message).splitlines())
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} … {line[-half:]}"


def show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Prints a warning of this package on one line, and any other with its place, as Python does.

    In place of `warnings.showwarning`.
    """
    if category is UserWarning:
        print(f"epochfence: {in_a_line(message)}", file=sys.stderr)
    else:
        _show_with_place(message, category, *place)


_show_with_place = warnings.showwarning


class _StandardOutput(io.FileIO):
    """Standard output (descriptor 1). The first failed write ends the command, unless a result must
    still be written to a file, as in `check --json FILE | grep -q HOLDS`. Later writes are
    dropped."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
                if not Output.owed:
                    raise SystemExit(USAGE) from None
        return len(data)


@contextmanager
def whole_errors() -> Generator[None]:
    """Prints one line if Python has lost an exception, as may happen when memory is short."""
    try:
        yield
    except SystemError as error:
        if "without" not in str(error):
            raise
        print(
            f"epochfence: Python lost an error, maybe for lack of memory: {error}", file=sys.stderr
        )
        raise SystemExit(USAGE) from None


@contextmanager
def printed() -> Generator[None]:
    """Handles errors of standard output. If a disk is full or the output is closed, it prints one
    line. If the reader has gone, it ends with SIGPIPE, as other programs do. A character that the
    encoding lacks is printed as ?."""
    if sys.stdout is None:  # it is closed: no opened file may get its descriptor
        os.dup2(os.open(os.devnull, os.O_RDONLY), STANDARD_OUTPUT)
    encoding = None if sys.stdout is None else sys.stdout.encoding
    raw = _StandardOutput(STANDARD_OUTPUT, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "replace", line_buffering=raw.isatty()
    )
    try:
        yield
    finally:
        with suppress(SystemExit):
            sys.stdout.flush()
        if isinstance(raw.error, BrokenPipeError):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        elif raw.error is not None:
            print(
                f"epochfence: can't write to standard output: {raw.error.strerror}", file=sys.stderr
            )
            raise SystemExit(USAGE)


def refuse_full_output() -> None:
    """Exits with one line if standard output can't be written to, unless the command writes a
    result to a file. Without this check, a long run would fail only at its end."""
    error = refusal(STANDARD_OUTPUT)
    if error is not None and not Output.owed:
        fail(f"can't write to standard output: {error.strerror}")


@contextmanager
def needing(*extras: str) -> Generator[None]:
    """Exits with one line if a package of these extras isn't installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        wanted = ",".join(extras)
        fail(f"{missing.name} is not installed: run pip install 'epochfence[{wanted}]'")


def internal(error: Exception) -> NoReturn:
    """Exits with the code for an internal error."""
    print(f"epochfence: internal error, please report it: {error}", file=sys.stderr)
    raise typer.Exit(INTERNAL) from None


def announce_wait(file: Path) -> None:
    """Prints on a terminal that the command reads a FIFO: without a writer it waits for ever."""
    with suppress(OSError):
        if file.is_fifo() and sys.stderr.isatty():
            print(f"epochfence: {file} is a pipe: waiting for data", file=sys.stderr)


def write_json(output: Output | None, data: object) -> None:
    """Writes the result as JSON, if there is an output for it."""
    if output is not None:
        output.write(json.dumps(data, indent=2) + "\n")
