"""Reads bytes from a file in pieces, and keeps the offset."""

from __future__ import annotations

from typing import BinaryIO

from .errors import RecordError

PIECE = 1 << 20  # bytes of one read: a senseless length costs no memory


class Stream:
    """A file, pipe or device that is read from start to end; its reported size isn't used. `at` is
    the offset of the next byte."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.at = file, 0
        self._ahead = b""

    @property
    def ended(self) -> bool:
        """Whether the end is reached."""
        if not self._ahead:
            self._ahead = self.file.read(1)
        return not self._ahead

    def read(self, count: int) -> bytearray:
        """The next `count` bytes; fewer at the end of the file."""
        found = bytearray()
        while len(found) < count and not self.ended:
            found += self._ahead
            self._ahead = b""
            found += self.file.read(min(PIECE, count - len(found)))
        self.at += len(found)
        return found

    def skip(self, count: int | None = None) -> int:
        """Skips `count` bytes, or all remaining ones. Returns their number."""
        passed = 0
        while count is None or passed < count:
            part = len(self.read(PIECE if count is None else min(PIECE, count - passed)))
            if not part:
                break
            passed += part
        return passed

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes. Raises RecordError if the file ends before."""
        start = self.at
        data = self.read(count)
        if len(data) < count:
            reason = f"the file ends after {len(data)} of {count} bytes"
            raise RecordError(what, reason, start)
        return bytes(data)
