"""Saves finished levels on disk: an interrupted run continues from them.

A folder holds one file of packed states per level, and a manifest with the run's identity and the
size and checksum of each level. The manifest has a checksum as well. Every file is written under
another name and renamed, so everything in the manifest is complete. Only one process at a time uses
the folder.

When states go on disk, the file of their records is in the folder, and takes the place of the
levels' states. Then a level's file has the contents of parts that are new since the file before it,
and the manifest has the form of the store (see `store.kept`). While records are rewritten where
they are, the manifest says so, and the run can't be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from ....checksums import DamagedError, Summed, checksum, seal, unseal, validator
from ....files import CantWriteError, Output, lock
from ..store.kept import FORM, fits

FORMAT = 4
MANIFEST = "manifest.json"
RECORDS = "records"
STATES = "level-*.states"
REMEDY = "start the run again in another folder"

_COUNT = {"type": "integer", "minimum": 0}
_LEVEL = {
    "type": "object",
    "required": ["states", "size", "checksum"],
    "properties": {
        "states": {"type": "integer", "minimum": 1},
        "size": _COUNT,
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
            "spilled": FORM,
            "rewriting": {"const": True},
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
        self.spilled: dict[str, Any] | None = None
        """The form of the store, if its records are in the folder."""
        self.records = folder / RECORDS
        self._is_own = False  # the folder holds this run, and no other one
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
        self._drop(self.records)
        self._is_own = True

    @staticmethod
    def _drop(*files: Path) -> None:
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Releases the folder for other processes."""
        if self._is_own and self.spilled is None:
            self._drop(self.records)
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
        states: int,
        content: Iterable[bytes],
        taken: list[int],
        first: list[int],
        seconds: float,
        form: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Saves a level, with the counts of the levels before it: its states or, with the `form` of
        a store whose records are in the folder, the new contents of parts. Raises CheckpointError.
        """
        if level < len(self.levels):
            return
        try:
            with Output(self._file(level, form is not None)).writing() as file:
                summed = Summed(file)
                for part in content:
                    summed.write(part)
        except CantWriteError as error:
            raise CheckpointError(str(error)) from None
        if form is not None:
            if self.spilled is None:  # the records have the states of the levels before
                for each in self.levels:
                    each.update(size=0, checksum="")
            self._take_form(form)
        entry = {"states": states, "size": summed.size, "checksum": summed.checksum}
        self.levels.append(entry)
        self.taken, self.first, self.seconds = taken, first, seconds
        self._tell()
        if form is not None:
            self._drop(*self.folder.glob(STATES))

    def rewriting(self) -> None:
        """Says that the records are being rewritten, before that begins. Raises CheckpointError."""
        if self.spilled is not None:
            self._tell(rewriting=True)

    def rewritten(self, form: Callable[[], dict[str, Any]]) -> None:
        """Saves the new form of the levels, after `rewriting`. Raises CheckpointError."""
        if self.spilled is not None:
            self._take_form(form)
            self._tell()

    def _take_form(self, form: Callable[[], dict[str, Any]]) -> None:
        try:
            self.spilled = form()
        except OSError as error:
            raise CheckpointError(f"can't write {self.records}: {error.strerror}") from None

    def _tell(self, *, rewriting: bool = False) -> None:
        """Writes the manifest. Raises CheckpointError."""
        manifest = {
            **self.identity,
            "levels": self.levels,
            "taken": self.taken,
            "first": self.first,
            "seconds": self.seconds,
        }
        if self.spilled is not None:
            manifest["spilled"] = self.spilled
        if rewriting:
            manifest["rewriting"] = True
        try:
            Output(self.folder / MANIFEST).write(json.dumps(seal(manifest), indent=1))
        except CantWriteError as error:
            raise CheckpointError(str(error)) from None

    def load(self) -> Iterator[bytes]:
        """The packed states of each saved level or, if `spilled` is set, the contents of parts.
        Raises CheckpointError for another run's folder and for a changed file.
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
        if manifest.get("rewriting"):
            raise CheckpointError(f"{path}: a process ended while it rewrote {RECORDS}; {REMEDY}")
        self.spilled = manifest.get("spilled")
        if (
            not self._fits()
            or {len(self.taken), len(self.first)} != {self.rows}
            or [times > 0 for times in self.taken] != [depth > 0 for depth in self.first]
            or max(self.first, default=0) >= len(self.levels)
        ):
            raise CheckpointError(f"{path}: its counts contradict each other; {REMEDY}")
        self._is_own = True
        self._drop(*([self.records] if self.spilled is None else self.folder.glob(STATES)))
        every = range(len(self.levels))
        return map(self._read, (at for at in every if self.levels[at]["size"]))

    def _fits(self) -> bool:
        """Whether the sizes of the levels are those of their states, or those of the form."""
        states = [level["states"] for level in self.levels]
        if self.spilled is None:
            return [n * self.stride for n in states] == [level["size"] for level in self.levels]
        ends = [0, *map(sum, self.spilled["counts"])]
        return fits(self.spilled, self.stride) and states == [b - a for a, b in pairwise(ends)]

    def _file(self, level: int, is_spilled: bool) -> Path:
        return self.folder / f"level-{level:05}.{'contents' if is_spilled else 'states'}"

    def _read(self, level: int) -> bytes:
        name, entry = self._file(level, self.spilled is not None), self.levels[level]
        try:
            whole = name.stat().st_size == entry["size"]
            states = name.read_bytes() if whole else b""
        except OSError as error:
            raise CheckpointError(f"can't read {name}: {error.strerror}") from None
        if checksum(states) != entry["checksum"]:
            raise CheckpointError(f"{name} is damaged; {REMEDY}")
        return states
