"""The cache of object code on disk: nothing is compiled twice.

Object code is run as it is found. So it is only taken from a folder and a file that belong to this
user and that nobody else may write, and only where the file's checksum is right. Anything else
counts as missing: the code is then compiled. The cache can be deleted at any time.
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
MOST_BYTES = 256 << 20  # of all entries, as the disk counts them
NOWHERE = Path(os.devnull)  # no folder can be made there: nothing is kept
SHELVES = "0123456789abcdef"  # folders, by the key's first digit: only one is looked through
LONGEST, BETWEEN = 60, 0.02  # seconds that one waits for another process, and between two looks
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_CHECKSUM = hashlib.sha256().digest_size


@dataclass(frozen=True)
class ObjectCache:
    """Entries by key, in a folder. A key is a hexadecimal digest of all that the code depends on.

    No method raises: where something fails, an entry is missing or isn't kept.
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
                os.utime(path)  # the entry that was used longest ago goes first
                return entry[_CHECKSUM:]
        return None

    def put(self, key: str, code: bytes) -> None:
        """Keeps an object file. It is there whole or not at all, whatever else writes it."""
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
        """Meanwhile hardly any other process makes this entry: it waits here until it may be there.
        It waits for a minute at most."""
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
    """The cache of kernels that the environment asks for (see `cache_of`)."""
    return cache_of("kernels")


def cache_of(what: str, most_bytes: int = MOST_BYTES) -> ObjectCache:
    """A cache in the folder that the environment asks for; where it asks for none, one that keeps
    nothing.

    `EPOCHFENCE_CACHE` names the folder that it is in, or is `off`; without it, the user's cache
    folder (`epochfence` in `XDG_CACHE_HOME`, or the platform's equivalent).
    """
    asked = os.environ.get(VARIABLE, "")
    if asked == OFF:
        return ObjectCache(NOWHERE)
    if asked:
        # of the folder that the process is in now: it may be in another when it writes
        folder = Path(asked).absolute()
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("epochfence", appauthor=False)
        if not folder.is_absolute():  # a user without a home
            return ObjectCache(NOWHERE)
    return ObjectCache(folder / what, most_bytes)


def _checksum(key: str, code: bytes) -> bytes:
    """It covers the key as well, so that an entry under another's name isn't taken for it."""
    return hashlib.sha256(key.encode() + code).digest()


def _is_safe_folder(folder: Path) -> bool:
    """Whether nobody but this user can put a file there. Raises OSError where it is missing."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and _is_own(found)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS


def _read_own(path: Path) -> bytes | None:
    """The bytes of a file of this user's; None where it isn't one, or a link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        return file.read() if stat.S_ISREG(found.st_mode) and _is_own(found) else None


def _evict(shelf: Path, most_bytes: int) -> None:
    """Removes the entries that were used longest ago until the others fit."""
    with os.scandir(shelf) as entries:
        found = [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
    left = sum(info.st_blocks * 512 for _, info in found)
    for path, info in sorted(found, key=lambda item: item[1].st_mtime_ns):
        if left <= most_bytes:
            return
        with contextlib.suppress(FileNotFoundError):  # another process removes as well
            os.unlink(path)
        left -= info.st_blocks * 512
