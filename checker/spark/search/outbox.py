"""Messages between shards of one machine: files that Spark doesn't carry.

Candidates for a shard on another machine go through Spark. Candidates for a shard on the same
machine are written to a file below Spark's local folders, and Spark carries a note with their
place. A file belongs to one attempt at a level, which is in its name. Two levels later the sender
reuses the file under another name if nobody reads it, because its pages are already in memory. A
mark is in the file's name, at its beginning and after each write: a reader detects a file with a
wrong name. If a file is unreadable, the whole level goes through Spark.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...native.store.store import SLACK

VARIABLE, OFF = "EPOCHFENCE_SPARK_FILES", "off"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class LostError(Exception):
    """A file of candidates is gone, or this executor doesn't see it."""


class Home(NamedTuple):
    """The folder of a shard's files on an executor, with its machine and its inode.

    Containers on one machine find the same inode only if they share the folder.
    """

    machine: str
    folder: str
    device: int
    node: int


class Note(NamedTuple):
    """The place of candidates for a shard: a file and an offset. `counts` has the number of
    candidates of each part, as integers of 64 bits.
    """

    file: str
    offset: int
    counts: bytes


def files_are_used() -> bool:
    """Whether files are used; a user's variable turns them off."""
    return os.environ.get(VARIABLE, "") != OFF


@cache
def machine() -> str:
    """The identity of this machine since its last boot."""
    return BOOT.read_text() if BOOT.exists() else socket.gethostname()


def home_at(folder: Path) -> Home:
    """The home for a folder of this machine."""
    at = folder.stat()
    return Home(machine(), str(folder), at.st_dev, at.st_ino)


def is_here(home: Home | None) -> bool:
    """Whether this process sees a folder."""
    if home is None or home.machine != machine():
        return False
    with suppress(OSError):
        return home == home_at(Path(home.folder))
    return False


def level_of(file: Path) -> int:
    """The level of a file's candidates."""
    return int(file.name.split("-")[1])


def mark_of(file: str) -> bytes:
    """The mark of a file, from its name: it is the header, and the trailer after each write. It has
    SLACK bytes, which reading by words may touch.
    """
    return bytes.fromhex(file.rpartition("-")[2])


class Outbox:
    """The file of an attempt at a level. It reuses a file of earlier levels."""

    def __init__(self, folder: Path, level: int) -> None:
        self.folder, self.level = folder, level
        self.path = folder / f"out-{level}-{uuid.uuid4().hex}"
        self.size = 0  # written bytes; the file may be larger
        self.full = False
        self._file: Any = None

    def _open(self) -> Any:
        # the files of the previous level may not be read yet
        older = [file for file in self.folder.glob("out-*") if level_of(file) < self.level - 1]
        taken = next(filter(None, map(self._taken_over, older)), None)
        for file in older:
            file.unlink(missing_ok=True)
        file = taken or self.path.open("xb", buffering=0)
        file.write(mark_of(self.path.name))
        return file

    def _taken_over(self, older: Path) -> Any:
        """An older file, opened and renamed. None if somebody reads it, if it is gone, or if it is
        another file, which somebody may have mapped.

        A reader that opened it by its old name detects this after locking it (see `Inbox`).
        """
        with suppress(OSError, ValueError), older.open("rb+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.read(SLACK) != mark_of(older.name):
                return None
            older.rename(self.path)
            return self.path.open("rb+", buffering=0)
        return None

    def write(self, counts: Any, parts: Iterable[Any]) -> Note | None:
        """Appends candidates, given as bytes for each part; None if the disk is full."""
        if self.full:
            return None
        try:
            self._file = self._file or self._open()
            note = Note(str(self.path), self._file.tell(), counts.tobytes())
            for part in (*parts, mark_of(note.file)):
                view = memoryview(part)
                while view:
                    view = view[self._file.write(view) :]
        except OSError:
            self.full = True
            return None
        self.size = self._file.tell()
        return note

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class Inbox:
    """Files of candidates, mapped and locked. `lines` has the address of each note's candidates, of
    `width` bytes, and their numbers by part. Raises LostError.
    """

    def __init__(self, notes: Sequence[Note], width: int) -> None:
        self._mapped: dict[str, Any] = {}
        self.lines = [self._line(note, width) for note in notes]

    def _line(self, note: Note, width: int) -> tuple[int, Any]:
        counts = np.frombuffer(note.counts, dtype=np.int64)
        address = self._address(note.file)
        end = note.offset + int(counts.sum()) * width
        if self._mapped[note.file][end : end + SLACK].tobytes() != mark_of(note.file):
            raise LostError(f"{note.file} is damaged")
        return address + note.offset, counts

    def _address(self, name: str) -> int:
        if name not in self._mapped:
            try:
                with Path(name).open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # while it is mapped
                    mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
                    if not os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                        raise LostError(f"{name} is another file")
            except (OSError, ValueError) as error:
                raise LostError(str(error)) from None
            self._mapped[name] = np.frombuffer(mapped, dtype=np.uint8)
        return int(self._mapped[name].ctypes.data)
