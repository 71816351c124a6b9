"""Saves finished levels on disk: an interrupted run continues from them.

A folder holds one file of packed states per level, and a manifest with the run's identity and the
size and checksum of each level. The manifest has a checksum as well. Every file is written under
another name and renamed, so everything in the manifest is complete. Only one process at a time uses
the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ....checksums import DamagedError, Summed, checksum, seal, unseal, validator
from ....files import CantWriteError, Output, lock

FORMAT = 3
MANIFEST = "manifest.json"
REMEDY = "start the run again in another folder"

_COUNT = {"type": "integer", "minimum": 0}
_LEVEL = {
    "type": "object",
    "required": ["states", "size", "checksum"],
    "properties": {
        "states": {"type": "integer", "minimum": 1},
        "size": {"type": "integer", "minimum": 1},
        "checksum": {"type": "string"},
    },
    "additionalProperties": False,
}
_valid = validator(
    {
        "type": "object",
        "required": ["levels", "taken", "first", "seconds"],
        "properties": {
            "levels": {"type": "array", "minItems": 1, "items": _LEVEL},
            "taken": {"type": "array", "items": _COUNT},
            "first": {"type": "array", "items": _COUNT},
            "seconds": {"type": "number", "minimum": 0},
        },
    }
)


class CheckpointError(Exception):
    """The folder isn't writable, or holds another run or an incomplete one."""


def differences(identity: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """The differences between a run and the run of a manifest."""
    return [
        "the rows differ" if name == "rows" else f"{name} is {wanted} here and {there} there"
        for name, wanted in identity.items()
        if (there := manifest.get(name)) != wanted
    ]


class Checkpoint:
    """A run's folder. Only a run with an equal `identity` is resumed. `stride` is the size of a
    packed state in bytes, `rows` the number of rows.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], stride: int, rows: int) -> None:
        self.folder = folder
        self.identity = {"format": FORMAT, **identity}
        self.stride, self.rows = stride, rows
        self.levels: list[dict[str, Any]] = []
        self.taken: list[int] = []
        self.first: list[int] = []
        self.seconds = 0.0
        self._lock: int | None = None

    @property
    def states(self) -> int:
        """The states of all levels."""
        return sum(level["states"] for level in self.levels)

    def begin(self) -> None:
        """Makes the folder. Raises CheckpointError if it already holds a run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"can't make {self.folder}: {error.strerror}") from None
        self._take()
        if (self.folder / MANIFEST).exists():
            raise CheckpointError(
                f"{self.folder} already holds a run: resume it with --resume {self.folder}, "
                "or choose another folder"
            )

    def close(self) -> None:
        """Releases the folder for other processes."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def _take(self) -> None:
        """Locks the folder, and deletes unfinished files of a process that died."""
        try:
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError as error:
            raise CheckpointError(f"can't write to {self.folder}: {error.strerror}") from None
        if not lock(self._lock):
            self.close()
            raise CheckpointError(f"{self.folder} is in use: another process goes on with its run")
        for left in self.folder.glob(".*.part"):
            left.unlink(missing_ok=True)

    def save(
        self,
        level: int,
        states: Iterable[bytes],
        taken: list[int],
        first: list[int],
        seconds: float,
    ) -> None:
        """Saves a level, with the counts of the levels before it. Raises CheckpointError."""
        if level < len(self.levels):
            return
        try:
            with Output(self._file(level)).writing() as file:
                summed = Summed(file)
                for part in states:
                    summed.write(part)
            size = summed.size
            told = {"states": size // self.stride, "size": size, "checksum": summed.checksum}
            self.levels.append(told)
            self.taken, self.first, self.seconds = taken, first, seconds
            manifest = {
                **self.identity,
                "levels": self.levels,
                "taken": taken,
                "first": first,
                "seconds": seconds,
            }
            Output(self.folder / MANIFEST).write(json.dumps(seal(manifest), indent=1))
        except CantWriteError as error:
            raise CheckpointError(str(error)) from None

    def load(self) -> Iterator[bytes]:
        """The packed states of each saved level. Raises CheckpointError for another run's folder
        and for a changed file.
        """
        path = self.folder / MANIFEST
        try:
            text = path.read_bytes()
            self._take()
            text = path.read_bytes()
        except FileNotFoundError:
            raise CheckpointError(f"{self.folder} holds no run to resume: no manifest") from None
        except OSError as error:
            raise CheckpointError(f"can't read {path}: {error.strerror}") from None
        try:
            manifest = unseal(text, _valid)
        except DamagedError as error:
            raise CheckpointError(f"{path}: {error}; {REMEDY}") from None
        found = differences(self.identity, manifest)
        if found:
            raise CheckpointError(f"{self.folder} holds another run: {'; '.join(found)}")
        self.levels, self.taken = manifest["levels"], manifest["taken"]
        self.first, self.seconds = manifest["first"], float(manifest["seconds"])
        sizes = [level["states"] * self.stride for level in self.levels]
        if (
            sizes != [level["size"] for level in self.levels]
            or {len(self.taken), len(self.first)} != {self.rows}
            or [times > 0 for times in self.taken] != [depth > 0 for depth in self.first]
            or max(self.first, default=0) >= len(sizes)
        ):
            raise CheckpointError(f"{path}: its counts contradict each other; {REMEDY}")
        return map(self._read, range(len(self.levels)))

    def _file(self, level: int) -> Path:
        return self.folder / f"level-{level:05}.states"

    def _read(self, level: int) -> bytes:
        name, told = self._file(level), self.levels[level]
        try:
            whole = name.stat().st_size == told["size"]
            states = name.read_bytes() if whole else b""
        except OSError as error:
            raise CheckpointError(f"can't read {name}: {error.strerror}") from None
        if checksum(states) != told["checksum"]:
            raise CheckpointError(f"{name} is damaged; {REMEDY}")
        return states
