"""A journal: a file to which each result is added, so that a stopped run can continue."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from ...checksums import DamagedError, seal, unseal, validator
from ...files import lock

_HEAD = b'{"digest": '  # the beginning of each line
_valid = validator(
    {
        "type": "object",
        "required": ["digest", "chosen", "result"],
        "properties": {"digest": {"type": "string"}, "result": {"type": "object"}},
    }
)


class JournalError(Exception):
    """An unusable journal."""


class Journal:
    """Results in a file of JSON lines, each under a key of plain data. A result is written at once,
    with a checksum. `digest` identifies everything else that results depend on: results with
    another digest stay in the file and are not used. The process locks the file until `close`.

    Raises JournalError if the file can't be read or written, is in use, or has other content.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.digest = path, digest
        self.found: dict[str, Any] = {}
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self.file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise JournalError(f"can't use {path}: {reason}") from None
        try:
            self._read()
        except OSError as error:
            self.close()
            raise JournalError(f"can't use {path}: {error.strerror}") from None
        except JournalError:
            self.close()
            raise

    def _read(self) -> None:
        if not stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
            raise JournalError(f"can't use {self.path}: it is not a regular file")
        if not lock(self.file.fileno()):
            raise JournalError(f"{self.path} is in use by another process")
        whole = self.file.readall()
        lines = whole.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n") and _HEAD.startswith(lines[-1][: len(_HEAD)]):
            self.file.truncate(len(whole) - len(lines.pop()))  # a run was killed while it wrote
        for number, line in enumerate(lines, 1):
            try:
                entry = unseal(line, _valid)
            except DamagedError as error:
                raise JournalError(
                    f"{self.path}, line {number}: not a saved result: {error}; "
                    "delete a damaged line, and its result is computed again"
                ) from None
            if entry["digest"] == self.digest:
                self.found[_key(entry["chosen"])] = entry["result"]

    def get(self, chosen: Any) -> Any | None:
        """The saved result under this key, or None."""
        return self.found.get(_key(chosen))

    def add(self, chosen: Any, result: Any) -> None:
        """Saves a result, completely or not at all. Raises JournalError."""
        line = json.dumps(seal({"digest": self.digest, "chosen": chosen, "result": result}))
        before = os.fstat(self.file.fileno()).st_size
        try:
            data = line.encode() + b"\n"
            while data:
                data = data[self.file.write(data) :]
            os.fsync(self.file.fileno())
        except OSError as error:
            self.file.truncate(before)
            raise JournalError(f"can't write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Releases the file to other processes."""
        self.file.close()


def _key(chosen: Any) -> str:
    return json.dumps(chosen, sort_keys=True)
