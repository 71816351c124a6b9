"""A client's program: the suite writes a call in each line, and the program answers in a line."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

LIMIT_S: Final = 40.0
"""So long a call may take."""
MOST: Final = 2**16
"""The most characters of an answer."""
OK, UNSUPPORTED, READY = "ok", "unsupported", "ready"


class NoProgramError(Exception):
    """A program that doesn't start, or says something else than it should. One line says why."""


class HungError(Exception):
    """A call that isn't answered in time."""


class Program:
    """A running program: `command`, with its settings as `name=value` behind it. A context manager.

    Raises NoProgramError if it doesn't say that it is ready.
    """

    def __init__(self, command: Sequence[str], settings: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [*command, *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise NoProgramError(f"{command[0]}: {error.strerror}") from None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            said = self._line()
        except HungError:
            said = None
        if said != READY:
            self.close()
            what = "nothing" if said is None else repr(said[:200])
            raise NoProgramError(f"the program's first line should be {READY}; it said {what}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in iter(partial(self._process.stdout.readline, MOST), ""):
            self._lines.put(line.strip())
        self._lines.put(None)

    def _line(self) -> str | None:
        try:
            return self._lines.get(timeout=LIMIT_S)
        except queue.Empty:
            raise HungError(f"no answer in {LIMIT_S:g} s") from None

    def call(self, call: str) -> str:
        """The answer to a call: ok, an error, or unsupported. Raises HungError, and NoProgramError
        if the call before had more than one line of answer."""
        assert self._process.stdin is not None
        if not self._lines.empty():
            self._check_rest()
        try:
            self._process.stdin.write(f"{call}\n")
            self._process.stdin.flush()
        except OSError:
            return "the program has ended"
        said = self._line()
        return "the program has ended" if said is None else said

    def _check_rest(self) -> None:
        """Raises NoProgramError if there is a line that no call asked for."""
        if (more := self._lines.get()) is not None:
            raise NoProgramError(f"each call has one line of answer; behind it is {more[:200]!r}")
        self._lines.put(None)  # the program has ended

    def end(self) -> None:
        """Closes it behind its last call. Raises NoProgramError if more lines have come."""
        self.close()
        self._check_rest()

    def close(self) -> None:
        """Ends it as if its machine had failed."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # what was written last didn't arrive
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
