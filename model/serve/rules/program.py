"""A client's program. It reads a call from each line, and answers with one line."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

LIMIT_S: Final = 40.0
"""The time limit of a call in s."""
MOST: Final = 2**16
"""The largest size of an answer in bytes."""
OK, UNSUPPORTED, READY = "ok", "unsupported", "ready"


class NoProgramError(Exception):
    """A program doesn't start, or prints unexpected lines. The message is one line with the
    reason."""


class HungError(Exception):
    """A call wasn't answered in time."""


def _more(line: str) -> NoProgramError:
    return NoProgramError(f"an answer must be one line; another line follows: {line[:200]!r}")


class Program:
    """A context manager that runs a program: `command`, followed by its settings as `name=value`.

    `limit_s` is the time limit of a call. Raises NoProgramError if the program doesn't print that
    it is ready.
    """

    def __init__(
        self, command: Sequence[str], settings: Sequence[str], limit_s: float = LIMIT_S
    ) -> None:
        self._limit_s = limit_s
        try:
            self._process = subprocess.Popen(
                [*command, *settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        except OSError as error:
            raise NoProgramError(f"{command[0]}: {error.strerror}") from None
        self._lines: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            said = self._line(LIMIT_S)
        except HungError:
            said = None
        if said != READY:
            self.close()
            what = "nothing" if said is None else repr(said[:200])
            raise NoProgramError(f"the program's first line should be {READY}; it said {what}")

    def _read(self) -> None:
        """Groups lines that arrive together: an answer is a group of one line."""
        assert self._process.stdout is not None
        rest = b""
        while chunk := os.read(self._process.stdout.fileno(), MOST):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) >= MOST:
                lines, rest = [*lines, rest], b""
            if lines:
                self._lines.put([line.decode(errors="replace").strip() for line in lines])
        if rest:
            self._lines.put([rest.decode(errors="replace").strip()])
        self._lines.put(None)

    def _line(self, limit_s: float) -> str | None:
        try:
            lines = self._lines.get(timeout=limit_s)
        except queue.Empty:
            raise HungError(f"no answer in {limit_s:g} s") from None
        if lines is None:
            return None
        if len(lines) > 1:
            raise _more(lines[1])
        return lines[0]

    def call(self, call: str) -> str:
        """The answer to a call: ok, an error, or unsupported. Raises HungError, and NoProgramError
        if this call or the one before has more than one line of answer."""
        assert self._process.stdin is not None
        if not self._lines.empty():
            self._check_rest()
        try:
            self._process.stdin.write(f"{call}\n".encode())
        except OSError:
            return "the program has ended"
        said = self._line(self._limit_s)
        return "the program has ended" if said is None else said

    def _check_rest(self) -> None:
        """Raises NoProgramError if there is a line that answers no call."""
        if (more := self._lines.get()) is not None:
            raise _more(more[0])
        self._lines.put(None)  # the program has ended

    def end(self) -> None:
        """Ends the program after its last call. Raises NoProgramError if more lines have come."""
        self.close()
        self._check_rest()

    def close(self) -> None:
        """Kills the program, as if its machine had failed."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # the last written bytes didn't arrive
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
