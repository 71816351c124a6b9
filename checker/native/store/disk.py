"""Memory on disk, for states that don't fit into memory: the content of files.

Only pages in use stay in memory: the operating system writes them to the file, and reads them
again. Disk is allocated before memory is written: a process is killed if it writes to a page
without disk.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ..jit.memory import Region

AT_ONCE = 1 << 20  # bytes that are read at once
RESERVE = 1 << 26  # bytes that states leave free beside them, for a checkpoint's other files


def _nothing() -> None:
    pass


class DiskError(Exception):
    """No file can be made in a folder. The message has the folder and the reason."""


class Disk:
    """Files in a folder. They disappear when this process ends, in any way, except a file of states
    that is kept. Raises DiskError.

    `rewriting` is called before records are rewritten where they are, and `rewritten` after it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.why = ""
        """Why disk was refused."""
        self.refused = folder
        """The folder that it was refused in."""
        self.rewriting: Callable[[], None] = _nothing
        self.rewritten: Callable[[], None] = _nothing
        self._kept: Path | None = None
        self._is_kept = False  # the file of states is the kept one
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

    def keep(self, path: Path) -> None:
        """Makes `path` the file of states, from the first region of states on. It stays there when
        this process ends.
        """
        self._kept = path

    def reopen(self) -> None:
        """Opens the kept file with the states of another process. Raises OSError."""
        assert self._kept is not None
        self._replace(os.open(self._kept, os.O_RDWR | os.O_NOFOLLOW))

    def _replace(self, states: int) -> None:
        os.close(self._files["states"])
        self._files["states"] = states
        self._is_kept = True

    def folder_of(self, name: str) -> Path:
        """The folder of a file."""
        return self._kept.parent if name == "states" and self._kept is not None else self.folder

    def region(self, name: str, size: int) -> Region:
        """Memory that is a file's content, without allocated disk. Raises MemoryError."""
        if name == "states" and self._kept is not None and not self._is_kept:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                self._replace(os.open(self._kept, flags, 0o666))
            except OSError as error:
                self.refused = self._kept.parent
                raise MemoryError(error.strerror) from None
        return Region(size, self._files[name])

    def read(self, start: int, size: int) -> Iterator[bytes]:
        """A part of the file of states. No page of it stays in this process's memory."""
        for at in range(start, start + size, AT_ONCE):
            yield os.pread(self._files["states"], min(AT_ONCE, start + size - at), at)

    def sync(self) -> None:
        """Waits until the states are on the disk. Raises OSError."""
        os.fsync(self._files["states"])

    def take(self, name: str, start: int, size: int) -> bool:
        """Allocates disk for a part of a file; False if the disk is full."""
        try:
            os.posix_fallocate(self._files[name], start, size)
            if self._is_kept and self.free < RESERVE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.why, self.refused = error.strerror or str(error), self.folder_of(name)
            return False
        return True

    @property
    def taken(self) -> int:
        """The allocated bytes of the files."""
        return sum(512 * os.fstat(number).st_blocks for number in self._files.values())

    @property
    def free(self) -> int:
        """The free bytes of the disk that has the states."""
        status = os.statvfs(self.folder_of("states"))
        return status.f_bavail * status.f_frsize

    def close(self) -> None:
        """Closes the files. The disk is released when the last region is gone."""
        for number in self._files.values():
            os.close(number)
        self._files.clear()
        self.rewriting = self.rewritten = _nothing
