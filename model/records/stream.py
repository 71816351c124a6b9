"""Bytes from a file, a piece at a time, with the place where each piece stands."""

from __future__ import annotations

from typing import BinaryIO

from .errors import RecordError


class Stream:
    """A file that is read from its start to its end. `at` is the offset of what comes next."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.at = file, size, 0

    @property
    def left(self) -> int:
        """The bytes that haven't been read."""
        return max(self.size - self.at, 0)

    def take(self, count: int, what: str) -> bytes:
        """The next bytes. Raises RecordError where the file ends before."""
        data = self.file.read(count)
        if len(data) < count:
            reason = f"the file ends after {len(data)} of {count} bytes"
            raise RecordError(what, reason, self.at)
        self.at += count
        return data
