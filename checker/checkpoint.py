"""Finished levels on disk, so that a run that ends early goes on where it was.

A folder holds one file of packed states per level and a manifest that names the run and counts the
levels; every file is written aside and renamed, so that what the manifest counts is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FORMAT = 1


class CheckpointError(Exception):
    """A folder that can't be written to, or that holds another run or no whole one."""


def differences(identity: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """In what another run differs that a manifest tells of."""
    return [
        "the rows differ" if name == "rows" else f"{name} is {wanted} here and {there} there"
        for name, wanted in identity.items()
        if (there := manifest.get(name)) != wanted
    ]


class Checkpoint:
    """A run's folder. `identity` is what must be equal for a run to be resumed."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        self.identity = {"format": FORMAT, **identity}
        self.sizes: list[int] = []
        self.transitions = 0
        self.taken: list[int] = []
        self.seconds = 0.0

    def begin(self) -> None:
        """Makes the folder. Raises CheckpointError where it holds a run already."""
        if (self.folder / "manifest.json").exists():
            raise CheckpointError(
                f"{self.folder} already holds a run: resume it with --resume {self.folder}, "
                "or name another folder"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"can't make {self.folder}: {error.strerror}") from None

    def save(
        self,
        level: int,
        states: Iterable[bytes],
        transitions: int,
        taken: list[int],
        seconds: float,
    ) -> None:
        """Adds a level, with the counts of the levels before it."""
        if level < len(self.sizes):
            return
        self.sizes.append(self._write(f"level-{level:05}.states", states))
        self.transitions, self.taken, self.seconds = transitions, taken, seconds
        manifest = {
            **self.identity,
            "sizes": self.sizes,
            "transitions": transitions,
            "taken": taken,
            "seconds": seconds,
        }
        self._write("manifest.json", [json.dumps(manifest, indent=1).encode()])

    def load(self) -> Iterator[bytes]:
        """The packed states of each saved level. Raises CheckpointError for another run's."""
        path = self.folder / "manifest.json"
        try:
            manifest = json.loads(path.read_text())
            self.sizes = [int(n) for n in manifest["sizes"]]
            self.transitions = int(manifest["transitions"])
            self.taken = [int(n) for n in manifest["taken"]]
            self.seconds = float(manifest["seconds"])
        except FileNotFoundError:
            raise CheckpointError(f"{self.folder} holds no run to resume: no manifest") from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise CheckpointError(f"{path} can't be read: {error}") from None
        found = differences(self.identity, manifest)
        if found:
            raise CheckpointError(f"{self.folder} holds another run: {'; '.join(found)}")
        for level, size in enumerate(self.sizes):
            name = self.folder / f"level-{level:05}.states"
            try:
                states = name.read_bytes()
            except OSError as error:
                raise CheckpointError(f"can't read {name}: {error.strerror}") from None
            if len(states) != size:
                raise CheckpointError(
                    f"{name} holds {len(states)} bytes and not {size}: it was not written whole, "
                    "start the run again in another folder"
                )
            yield states

    def _write(self, name: str, parts: Iterable[bytes]) -> int:
        """Writes a file whole or not at all, and answers its size."""
        size = 0
        aside = self.folder / f".{name}.part"
        try:
            with aside.open("wb") as file:
                for part in parts:
                    size += file.write(part)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.folder / name)
        except OSError as error:
            raise CheckpointError(f"can't write {self.folder / name}: {error.strerror}") from None
        return size
