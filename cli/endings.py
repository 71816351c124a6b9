"""How a command ends: with a result, with a one-line error, or with an internal error."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Generator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from ..files import CantWrite, Output
from ..language.errors import TOO_DEEP
from .screen import heed_in_help, show_kinds

USAGE, INTERNAL, BROKEN, INTERRUPTED = 2, 1, 12, 130
NO_THREAD = "can't start new thread"  # as Python's threading has it
LONGEST = 800  # characters of an error message
WrongUsage: Final[Any] = typer.BadParameter.__base__  # Typer exports no more of its errors


def fail(message: object) -> NoReturn:
    """Exits with a one-line error and the exit code for wrong usage."""
    print(f"epochfence: {in_a_line(message)}", file=sys.stderr)
    raise typer.Exit(USAGE)


def in_a_line(message: object) -> str:
    """The message on one line. The middle of a long one, which quotes its input, is cut out."""
    line = " ".join(str(message).splitlines())
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} … {line[-half:]}"


class Commands(TyperGroup):
    """The commands, with a one-line error for a wrong command line or an output that can't be
    written."""

    def main(self, *arguments: Any, **named: Any) -> NoReturn:
        """Runs the command that the arguments name, and exits."""
        message = ""
        try:
            code = super().main(*arguments, **named | {"standalone_mode": False})
        except WrongUsage as error:
            context = error.ctx
            path = "epochfence" if context is None else context.command_path
            message = in_a_line(" ".join(error.format_message().split()))
            if message:  # it is empty after help was shown
                message = f"{message.rstrip('.')} (see {path} --help)"
            code = USAGE
        except (CantWrite, ChildProcessError) as error:
            code, message = USAGE, in_a_line(error)
        except MemoryError as error:
            code, message = USAGE, f"not enough memory{f': {error}' if str(error) else ''}"
        except RecursionError:
            code, message = USAGE, TOO_DEEP
        except BrokenExecutor:
            why = "it was killed, or ran out of memory; the file of --results is intact"
            code, message = USAGE, f"a worker process died: {why}"
        except RuntimeError as error:
            if NO_THREAD not in str(error):
                raise
            code, message = USAGE, f"not enough memory: {NO_THREAD}"
        if message:  # printed here, where the memory that an error held is free again
            print(f"epochfence: {message}", file=sys.stderr)
        sys.exit(code)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help of all commands."""
        heed_in_help()
        show_kinds(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; prints `interrupted` on a Ctrl-C that it doesn't handle."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print(" ".join(["epochfence: interrupted", *map(str, error.args)]), file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


class _StandardOutput(io.FileIO):
    """Descriptor 1. The first failed write ends the command; later writes are dropped."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
                raise SystemExit(USAGE) from None
        return len(data)


@contextmanager
def whole_errors() -> Generator[None]:
    """Prints one line where Python has lost an exception, as it may when memory is short."""
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
    """Guards standard output: prints one line when a disk is full, and ends by SIGPIPE, as other
    programs do, when the reader has gone."""
    if sys.stdout is None:  # it was closed
        yield
        return
    raw = _StandardOutput(sys.stdout.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), sys.stdout.encoding, sys.stdout.errors,
        line_buffering=sys.stdout.isatty(),
    )  # fmt: skip
    try:
        yield
    finally:
        with suppress(SystemExit):
            sys.stdout.flush()
        if isinstance(raw.error, BrokenPipeError):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        elif raw.error is not None:
            print(f"epochfence: can't write to standard output: {raw.error.strerror}",
                  file=sys.stderr)  # fmt: skip
            raise SystemExit(USAGE)


@contextmanager
def needing(*extras: str) -> Generator[None]:
    """Exits with one line if a package of these extras isn't installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        wanted = ",".join(extras)
        fail(
            f"{missing.name} is not installed: run pip install '.[{wanted}]' in Epochfence's folder"
        )


def internal(error: Exception) -> NoReturn:
    """Exits with the code for an internal error."""
    print(f"epochfence: internal error, please report it: {error}", file=sys.stderr)
    raise typer.Exit(INTERNAL) from None


def announce_wait(file: Path) -> None:
    """Prints, on a terminal, that a FIFO is read: without a writer it never ends."""
    with suppress(OSError):
        if file.is_fifo() and sys.stderr.isatty():
            print(f"epochfence: {file} is a pipe: waiting for data", file=sys.stderr)


def write_json(output: Output | None, data: object) -> None:
    """Writes the result as JSON, if there is an output for it."""
    if output is not None:
        output.write(json.dumps(data, indent=2) + "\n")
