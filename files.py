"""Files that the project writes: whole or not at all, and never over what isn't a plain file."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ClassVar
from weakref import WeakSet

# Descriptors that this process has open, as a shell's `>(command)` hands one over: these names are
# links, but nobody else can choose where they lead.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class CantWriteError(Exception):
    """A place that can't be written to; the message is one line with its name."""

    def __init__(self, path: Path, why: object) -> None:
        reason = why.strerror if isinstance(why, OSError) else why
        super().__init__(f"can't write {path}: {reason}")


def refusal(descriptor: int) -> OSError | None:
    """Why an open file can't be written to, as far as that shows without writing: it is closed or
    only to be read, or its disk is full. None if nothing speaks against it."""
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind) or stat.S_ISCHR(kind):  # to a socket, nothing may be a message
            os.write(descriptor, b"")
        if stat.S_ISREG(kind):
            _refuse_full(os.fstatvfs(descriptor))
    except OSError as error:
        return error
    return None


def _refuse_full(disk: os.statvfs_result) -> None:
    """Raises OSError if no block is left to this user. Some file systems count no blocks at all."""
    left = disk.f_bavail if os.geteuid() else disk.f_bfree
    if disk.f_blocks and not left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Output:
    """A place for a result, looked at before the work that makes the result.

    * `-` and /dev/stdout: where this process prints; /dev/fd/N: that open descriptor.
    * A device or FIFO: opened at once and written through, never replaced.
    * A plain file, or none yet: what is written goes to a new file of a random name beside it,
      which takes its place when it is whole.

    A symbolic link is refused: who puts one there would choose what is overwritten. Raises
    CantWriteError. `owed` has the outputs, but for what this process prints, that aren't written
    yet.
    """

    owed: ClassVar[WeakSet[Output]] = WeakSet()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_standard_output = str(path) in _STANDARD_OUTPUT
        self._printed = sys.stdout  # whatever may take its place until the result is there
        self._descriptor: int | None = None
        try:
            self._look()
        except (OSError, ValueError) as error:  # a ValueError for a name with a NUL
            raise CantWriteError(path, error) from None
        if not self.is_standard_output:
            self.owed.add(self)

    def _look(self) -> None:
        if self.is_standard_output:
            return
        if own := _DESCRIPTOR.fullmatch(str(self.path)):
            self._descriptor = os.dup(int(own[1]))
            return
        folder = self.path.absolute().parent
        if not folder.is_dir():
            raise CantWriteError(self.path, f"no folder {folder}")
        try:
            there = self.path.lstat().st_mode
        except FileNotFoundError:
            there = None
        if there is None or stat.S_ISREG(there):
            wanted = folder if there is None else self.path
            if not os.access(wanted, os.W_OK) or not os.access(folder, os.W_OK | os.X_OK):
                raise CantWriteError(self.path, "Permission denied")
            _refuse_full(os.statvfs(folder))
        elif stat.S_ISLNK(there):
            raise CantWriteError(
                self.path, "it is a symbolic link: give the file that it points to"
            )
        elif stat.S_ISCHR(there) or stat.S_ISFIFO(there):
            self._descriptor = self._opened()
            if (error := refusal(self._descriptor)) is not None:
                raise error
        else:
            raise CantWriteError(
                self.path, "it is a folder" if stat.S_ISDIR(there) else "it is not a file"
            )

    def _opened(self) -> int:
        try:  # a FIFO that nobody reads would be waited for
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
            opened = os.open(self.path, flags)
        except OSError as error:
            raise CantWriteError(
                self.path,
                "no process reads this FIFO" if self.path.is_fifo() else error,
            ) from None
        os.set_blocking(opened, True)
        return opened

    @contextmanager
    def writing(self) -> Generator[BinaryIO]:
        """A file to write to. A plain file is there when the block ends, or, when that raises,
        stays as it was. Raises CantWriteError."""
        try:
            if self.is_standard_output:
                self._printed.flush()
                yield self._printed.buffer
                self._printed.flush()
            elif self._descriptor is not None:
                with open(self._descriptor, "wb", closefd=False) as file:
                    yield file
            else:
                with _aside(self.path) as file:
                    yield file
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CantWriteError(self.path, error) from None
        finally:
            self.owed.discard(self)

    def write(self, content: bytes | str) -> None:
        """Writes all of it. Raises CantWriteError."""
        with self.writing() as file:
            file.write(content if isinstance(content, bytes) else content.encode())


@contextmanager
def _aside(path: Path) -> Generator[BinaryIO]:
    """A new file that takes the place of another at the end, with the other's permissions."""
    aside = path.with_name(f".{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(aside, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(path.lstat().st_mode))
            yield file
            file.flush()
            os.fsync(descriptor)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes a file as a whole or not at all, as `Output` does. Raises CantWriteError."""
    Output(path).write(content)


def is_folder(path: Path) -> bool:
    """Whether it is a folder, as far as one may see: what reads or writes there says why not."""
    try:
        return path.is_dir()
    except OSError:  # the folder around it may not be entered, or the name is too long
        return False


def lock(descriptor: int) -> bool:
    """Whether an open file is this process's alone now; False if another one has it. The lock ends
    with its process.

    A file system without locks gives it to everyone: checksums still show that two processes wrote.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
