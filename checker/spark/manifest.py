"""What a run's folder holds: whose states, and which files count.

Each finished level is a new file `manifest-N.json`; the one with the largest number counts. Files
that it doesn't name were left by something that died, and are deleted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..checkpoint import CheckpointError, differences
from .runs import Run
from .storage import Storage

FORMAT = "spark 1"


@dataclass
class Level:
    """A finished level: its states in each shard, and the steps of each row in the levels before
    it, all together."""

    states: list[int]
    taken: list[int]
    seconds: float
    sent: int = 0
    """Candidates that were sent to their owners to find the level."""
    sent_bytes: int = 0
    written_bytes: int = 0


@dataclass
class Manifest:
    """A run's state as of its last finished level. `identity` is what a resumed run must share."""

    storage: Storage
    identity: dict[str, Any]
    shards: int
    versions: dict[str, str]
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    levels: list[Level] = field(default_factory=list[Level])
    runs: list[list[Run]] = field(default_factory=list[list[Run]])
    serial: int = 0

    def __post_init__(self) -> None:
        self.identity = {"format": FORMAT, **self.identity}
        self.runs = self.runs or [[] for _ in range(self.shards)]

    def begin(self) -> None:
        """Makes the folder. Raises CheckpointError where it holds a run, or can't be written."""
        if any(name.startswith("manifest") for name in self.storage.sizes()):
            uri = self.storage.uri
            raise CheckpointError(
                f"{uri} already holds a run: resume it with --resume {uri}, or name another folder"
            )
        self.save()

    def save(self) -> None:
        """Makes what it says the state of the run, and deletes what it doesn't name any more."""
        self.serial += 1
        data = {
            **self.identity,
            "shards": self.shards,
            "versions": self.versions,
            "run": self.run,
            "levels": [level.__dict__ for level in self.levels],
            "runs": [[run.as_json() for run in runs] for runs in self.runs],
        }
        self.storage.write(_name(self.serial), json.dumps(data).encode())
        self.storage.delete(_name(self.serial - 1))

    def load(self, shards: int | None) -> None:
        """Takes over what the folder says, and deletes what doesn't count. Raises as `read`."""
        sizes = self.read(shards)
        named = {run.file for run in self.each_run()} | {_name(self.serial)}
        for name in sizes.keys() - named:
            if name.startswith(("manifest-", "shard-", ".manifest-")):
                self.storage.delete(name)
        for run in list(self.each_run()):
            if sizes.get(run.file) != run.size:
                self.roll_back(run.first)

    def read(self, shards: int | None) -> dict[str, int]:
        """Reads what the folder says, and returns the sizes of its files. Raises CheckpointError
        for another run's folder, or one that holds none."""
        uri = self.storage.uri
        sizes = self.storage.sizes()
        serials = sorted(name for name in sizes if name.startswith("manifest-"))
        if not serials:
            kind = "a checkpoint of the local engine" if "manifest.json" in sizes else "no manifest"
            raise CheckpointError(f"{uri} holds no run on Spark to resume: {kind}")
        try:
            data = json.loads(self.storage.read(serials[-1]))
            self.serial = int(serials[-1].partition("-")[2].partition(".")[0])
            self.shards, self.run = int(data["shards"]), str(data["run"])
            self.levels = [Level(**level) for level in data["levels"]]
            self.runs = [[Run(**run) for run in runs] for runs in data["runs"]]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{uri}/{serials[-1]} can't be read: {error}") from None
        found = differences(self.identity, data)
        if shards not in (None, self.shards):
            found.append(f"shards is {shards} here and {self.shards} there")
        if found:
            raise CheckpointError(f"{uri} holds another run: {'; '.join(found)}")
        return sizes

    def each_run(self) -> Iterable[Run]:
        """The runs of all shards."""
        return (run for runs in self.runs for run in runs)

    def finish(self, level: Level, new: list[tuple[int, list[Run]]]) -> None:
        """Adds a level, with what are now the last runs of shards instead of some before."""
        self.levels.append(level)
        replaced: set[str] = set()
        for shard, added in new:
            first = min((run.first for run in added), default=len(self.levels))
            replaced |= {run.file for run in self.runs[shard] if run.first >= first}
            self.runs[shard] = [run for run in self.runs[shard] if run.first < first] + added
        self.save()
        for file in replaced:
            self.storage.delete(file)

    def roll_back(self, level: int) -> None:
        """Forgets the levels from `level` on, and those before it that a run holds with them."""
        # a file of several levels is left whole or not at all
        while any(run.first < level <= run.last for run in self.each_run()):
            level = min(run.first for run in self.each_run() if run.first < level <= run.last)
        self.levels = self.levels[:level]
        self.runs = [[run for run in runs if run.last < level] for runs in self.runs]
        self.save()


def _name(serial: int) -> str:
    return f"manifest-{serial:06}.json"
