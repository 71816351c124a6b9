"""Results kept in a file as they come, so that a run that is broken off can go on."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from .locked import lock
from .sealed import Damaged, seal, unseal, validator

_HEAD = b'{"digest": '  # how each line begins
_valid = validator(
    {
        "type": "object",
        "required": ["digest", "chosen", "result"],
        "properties": {"digest": {"type": "string"}, "result": {"type": "object"}},
    }
)


class KeptError(Exception):
    """A file of results that can't be used."""


class Kept:
    """Results in a file of JSON lines, by plain data that names each; each is written as soon as it
    is there, with a checksum. `digest` stands for all else that they depend on: others in the file
    are left alone. The file is this process's until `close`.

    Raises KeptError where the file can't be read or written, is in use, or holds something else.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.digest = path, digest
        self.found: dict[str, Any] = {}
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self.file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise KeptError(f"can't use {path}: {reason}") from None
        try:
            self._read()
        except OSError as error:
            self.close()
            raise KeptError(f"can't use {path}: {error.strerror}") from None
        except KeptError:
            self.close()
            raise

    def _read(self) -> None:
        if not stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
            raise KeptError(f"can't use {self.path}: it is no plain file")
        if not lock(self.file.fileno()):
            raise KeptError(f"{self.path} is in use: another process keeps its results there")
        whole = self.file.readall()
        lines = whole.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n") and _HEAD.startswith(lines[-1][: len(_HEAD)]):
            self.file.truncate(len(whole) - len(lines.pop()))  # a run was killed as it wrote
        for number, line in enumerate(lines, 1):
            try:
                told = unseal(line, _valid)
            except Damaged as error:
                raise KeptError(
                    f"{self.path}, line {number}: no result that was kept: {error}; "
                    "without a damaged line, its result is found again"
                ) from None
            if told["digest"] == self.digest:
                self.found[_key(told["chosen"])] = told["result"]

    def get(self, chosen: Any) -> Any | None:
        """The result of that name that is there already."""
        return self.found.get(_key(chosen))

    def add(self, chosen: Any, result: Any) -> None:
        """Keeps a result, whole or not at all. Raises KeptError."""
        line = json.dumps(seal({"digest": self.digest, "chosen": chosen, "result": result}))
        before = os.fstat(self.file.fileno()).st_size
        try:
            data = line.encode() + b"\n"
            while data:
                data = data[self.file.write(data) :]
            os.fsync(self.file.fileno())
        except OSError as error:
            self.file.truncate(before)
            raise KeptError(f"can't write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Leaves the file to other processes."""
        self.file.close()


def _key(chosen: Any) -> str:
    return json.dumps(chosen, sort_keys=True)
