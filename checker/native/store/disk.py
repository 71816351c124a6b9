"""Memory on disk, for states that don't fit: the content of files that nobody else sees.

A page of such memory stays in memory only for as long as it is in use: the kernel writes it to the
file, and reads it again. Disk is taken before it is written to, as a process dies that writes to a
page for which there is no disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..jit.memory import Region


class DiskError(Exception):
    """A folder in which no file can be made. The message says which and why."""


class Disk:
    """Files in a folder, gone when this process ends, however it ends. Raises DiskError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.why = ""
        """Why disk was refused."""
        self._files = {name: self._file() for name in ("states", "tables")}

    def _file(self) -> int:
        if not hasattr(os, "posix_fallocate"):
            raise DiskError("--spill is for Linux: this system can't take disk ahead")
        try:
            number, name = tempfile.mkstemp(prefix=".spilled-", dir=self.folder)
            os.unlink(name)
        except OSError as error:
            raise DiskError(f"can't write to {self.folder}: {error.strerror}") from None
        return number

    def region(self, name: str, size: int) -> Region:
        """Memory that is a file's content, and that no disk is taken for yet."""
        return Region(size, self._files[name])

    def take(self, name: str, start: int, size: int) -> bool:
        """Takes disk for a part of a file; False where the disk is full."""
        try:
            os.posix_fallocate(self._files[name], start, size)
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        return True

    @property
    def taken(self) -> int:
        """Bytes of disk that the files have."""
        return sum(512 * os.fstat(number).st_blocks for number in self._files.values())

    @property
    def free(self) -> int:
        """Bytes that the disk has."""
        told = os.fstatvfs(self._files["states"])
        return told.f_bavail * told.f_frsize

    def close(self) -> None:
        """Gives the disk back; the memory of its regions stays until nobody has them."""
        for number in self._files.values():
            os.close(number)
        self._files.clear()
