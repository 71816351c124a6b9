"""Memory on disk, for states that don't fit into memory: the content of private files.

Only pages in use stay in memory: the operating system writes them to the file, and reads them
again. Disk is allocated before memory is written: a process is killed if it writes to a page
without disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..jit.memory import Region


class DiskError(Exception):
    """No file can be made in a folder. The message has the folder and the reason."""


class Disk:
    """Files in a folder. They disappear when this process ends, in any way. Raises DiskError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.why = ""
        """Why disk was refused."""
        self._files = {name: self._file() for name in ("states", "tables")}

    def _file(self) -> int:
        if not hasattr(os, "posix_fallocate"):
            raise DiskError("--spill needs Linux: this system can't reserve disk space")
        try:
            number, name = tempfile.mkstemp(prefix=".spilled-", dir=self.folder)
            os.unlink(name)
        except OSError as error:
            raise DiskError(f"can't write to {self.folder}: {error.strerror}") from None
        return number

    def region(self, name: str, size: int) -> Region:
        """Memory that is a file's content, without allocated disk."""
        return Region(size, self._files[name])

    def take(self, name: str, start: int, size: int) -> bool:
        """Allocates disk for a part of a file; False if the disk is full."""
        try:
            os.posix_fallocate(self._files[name], start, size)
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        return True

    @property
    def taken(self) -> int:
        """The allocated bytes of the files."""
        return sum(512 * os.fstat(number).st_blocks for number in self._files.values())

    @property
    def free(self) -> int:
        """The free bytes of the disk."""
        told = os.fstatvfs(self._files["states"])
        return told.f_bavail * told.f_frsize

    def close(self) -> None:
        """Closes the files. The disk is released when the last region is gone."""
        for number in self._files.values():
            os.close(number)
        self._files.clear()
