"""The cache of object code on disk: nothing is compiled twice.

Object code from the cache is executed. So the folder and the file must belong to this user, nobody
else may write them, and the file's checksum must be right. Any other file counts as missing, and
the code is compiled. The cache can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from ....files import lock

VARIABLE = "EPOCHFENCE_CACHE"
OFF = "off"
MOST_BYTES = 256 << 20  # of all entries on disk
NOWHERE = Path(os.devnull)  # no folder can be made there, so nothing is kept
SHELVES = "0123456789abcdef"  # folders, by the key's first digit: eviction lists only one
LONGEST, BETWEEN = 60, 0.02  # seconds to wait for another process, and between two attempts
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_CHECKSUM = hashlib.sha256().digest_size


@dataclass(frozen=True)
class ObjectCache:
    """Entries by key, in a folder. A key is a hexadecimal digest of all inputs of the compilation.

    No method raises: after a failure an entry is missing or isn't kept.
    """

    folder: Path
    most_bytes: int = MOST_BYTES

    def get(self, key: str) -> bytes | None:
        """The object file kept under the key, or None."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            if not (_is_safe_folder(self.folder) and _is_safe_folder(path.parent)):
                return None
            entry = _read_own(path)
            if entry is not None and entry[:_CHECKSUM] == _checksum(key, entry[_CHECKSUM:]):
                os.utime(path)  # the least recently used entry is evicted first
                return entry[_CHECKSUM:]
        return None

    def put(self, key: str, code: bytes) -> None:
        """Keeps an object file. Writing is atomic, also with other writers."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not (_is_safe_folder(self.folder) and _is_safe_folder(path.parent)):
                return
            handle, unfinished = tempfile.mkstemp(dir=path.parent)
            try:
                with open(handle, "wb") as file:
                    file.write(_checksum(key, code) + code)
                os.replace(unfinished, path)
            except BaseException:
                os.unlink(unfinished)
                raise
            _evict(path.parent, self.most_bytes // len(SHELVES))

    @contextlib.contextmanager
    def making(self, key: str) -> Generator[None]:
        """A lock for the time in which an entry is compiled: other processes wait for it, at most a
        minute.
        """
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = self.folder / f"{key[0]}.lock"
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                held.callback(os.close, file)
                until = time.monotonic() + LONGEST
                while not lock(file) and time.monotonic() < until:
                    time.sleep(BETWEEN)
            yield

    def _path(self, key: str) -> Path:
        return self.folder / key[0] / key


def chosen() -> ObjectCache:
    """The cache of kernels that the environment selects (see `cache_of`)."""
    return cache_of("kernels")


def cache_of(what: str, most_bytes: int = MOST_BYTES) -> ObjectCache:
    """A cache in the folder that the environment selects. With `off` it keeps nothing.

    `EPOCHFENCE_CACHE` is the parent folder, or `off`. The default is the user's cache folder
    (`epochfence` in `XDG_CACHE_HOME`, or the platform's equivalent).
    """
    setting = os.environ.get(VARIABLE, "")
    if setting == OFF:
        return ObjectCache(NOWHERE)
    if setting:
        # absolute, because the working directory may change
        folder = Path(setting).absolute()
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("epochfence", appauthor=False)
        if not folder.is_absolute():  # the user has no home
            return ObjectCache(NOWHERE)
    return ObjectCache(folder / what, most_bytes)


def _checksum(key: str, code: bytes) -> bytes:
    """The checksum of an entry. It covers the key, so that a renamed entry isn't valid."""
    return hashlib.sha256(key.encode() + code).digest()


def _is_safe_folder(folder: Path) -> bool:
    """Whether only this user can write to the folder. Raises OSError if it is missing."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and _is_own(found)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS


def _read_own(path: Path) -> bytes | None:
    """The bytes of a file of this user; None for another user's file or a link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        return file.read() if stat.S_ISREG(found.st_mode) and _is_own(found) else None


def _evict(shelf: Path, most_bytes: int) -> None:
    """Removes the least recently used entries until the others fit."""
    with os.scandir(shelf) as entries:
        found = [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
    left = sum(info.st_blocks * 512 for _, info in found)
    for path, info in sorted(found, key=lambda item: item[1].st_mtime_ns):
        if left <= most_bytes:
            return
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it
            os.unlink(path)
        left -= info.st_blocks * 512
