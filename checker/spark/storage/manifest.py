"""The content of a run's folder: the identity of the run, and the valid files.

Each finished level writes a new file `manifest-N.json`; only the one with the largest number is
valid. Files that it doesn't list were left by a process that died, and are deleted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ....checksums import DamagedError, seal, unseal, validator
from ...native.search.checkpoint import CheckpointError, differences
from .files import Storage, StorageError, TakenError
from .runs import Run

FORMAT = "spark 5"

_COUNT = {"type": "integer", "minimum": 0}
_COUNTS = {"type": "array", "items": _COUNT}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


_LEVEL = _object(
    states=_COUNTS, taken=_COUNTS, first=_COUNTS, seconds={"type": "number", "minimum": 0},
    sent=_COUNT, sent_bytes=_COUNT, written_bytes=_COUNT,
)  # fmt: skip
_RUN = _object(
    file={"type": "string"}, first=_COUNT, last=_COUNT, states=_COUNT, size=_COUNT,
    checksum={"type": "string"},
)  # fmt: skip
_valid = validator(
    _object(
        shards={"type": "integer", "minimum": 1},
        run={"type": "string"},
        levels={"type": "array", "items": _LEVEL},
        runs={"type": "array", "items": {"type": "array", "items": _RUN}},
    )
    | {"additionalProperties": {}}
)


def _of_this_version(data: dict[str, Any]) -> Any:
    """Raises DamagedError for a manifest of another format, before other checks."""
    if data.get("format", FORMAT) != FORMAT:
        there = str(data["format"])[:20]
        raise DamagedError(f"its format is {there!r}, and this version reads {FORMAT!r}")
    return _valid(data)


def newest(storage: Storage, sizes: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """The name and content of the newest manifest among the folder's files.

    Raises CheckpointError if the folder holds no run, or its manifest is damaged.
    """
    uri = storage.uri
    serials = sorted(name for name in sizes if name.startswith("manifest-"))
    if not serials:
        kind = "a checkpoint of the local engine" if "manifest.json" in sizes else "no manifest"
        raise CheckpointError(f"{uri} holds no run on Spark to resume: {kind}")
    name = serials[-1]
    try:
        int(name.partition("-")[2].partition(".")[0])
        return name, unseal(storage.read(name), _of_this_version)
    except (DamagedError, ValueError) as error:
        raise CheckpointError(
            f"{uri}/{name}: {error}; start the run again in another folder"
        ) from None


@dataclass
class Level:
    """A finished level: its number of states in each shard; the steps of each row up to the level;
    and the depth of the first state that each row led to. Of the levels that one process explored,
    only the last one has steps and depths.
    """

    states: list[int]
    taken: list[int]
    first: list[int]
    seconds: float
    sent: int = 0
    """The number of candidates that were sent for the level."""
    sent_bytes: int = 0
    written_bytes: int = 0


@dataclass
class Manifest:
    """The state of a run after its last finished level. Only a run with an equal `identity` is
    resumed. `declared` is the system's name for `load_system`.
    """

    storage: Storage
    identity: dict[str, Any]
    shards: int
    versions: dict[str, str]
    declared: str | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    levels: list[Level] = field(default_factory=list[Level])
    runs: list[list[Run]] = field(default_factory=list[list[Run]])
    serial: int = 0
    saved: set[str] = field(default_factory=set[str])
    """The files of the last saved manifest. An interrupted change may leave other files."""

    def __post_init__(self) -> None:
        self.identity = {"format": FORMAT, **self.identity}
        self.runs = self.runs or [[] for _ in range(self.shards)]

    def begin(self) -> None:
        """Makes the folder. Raises CheckpointError if it holds a run, or isn't writable."""
        if any(name.startswith("manifest") for name in self.storage.sizes()):
            uri = self.storage.uri
            raise CheckpointError(
                f"{uri} already holds a run: resume it with --resume {uri}, or use another folder"
            )
        self.save()

    def save(self) -> None:
        """Saves this manifest as the state of the run, and deletes files that it no longer lists.

        Raises CheckpointError if another process has continued the run.
        """
        last = _last(self.storage.sizes())
        in_use = f"{self.storage.uri} is in use: another process has gone on with its run"
        if last != (_name(self.serial) if self.serial else ""):
            raise CheckpointError(in_use)
        self.serial += 1
        self.saved = self._files()
        try:
            self.storage.write(_name(self.serial), self.content(), exclusive=True)
        except TakenError:
            raise CheckpointError(in_use) from None
        self.storage.delete(_name(self.serial - 1))

    def content(self) -> bytes:
        """The file's content."""
        data = {
            **self.identity,
            "shards": self.shards,
            "versions": self.versions,
            "declared": self.declared,
            "run": self.run,
            "levels": [level.__dict__ for level in self.levels],
            "runs": [[run.as_json() for run in runs] for runs in self.runs],
        }
        return json.dumps(seal(data)).encode()

    def load(self, shards: int | None) -> None:
        """Loads the folder's manifest, and deletes unlisted files. Raises the errors of `read`."""
        sizes = self.read(shards)
        self._delete_others(sizes)
        for run in list(self.each_run()):
            if sizes.get(run.file) != run.size:
                self.roll_back(run.first)

    def tidy(self) -> None:
        """Deletes unlisted files, unless another process has continued the run. If the storage
        can't be listed, it does nothing.
        """
        with suppress(StorageError):
            sizes = self.storage.sizes()
            if _last(sizes) == _name(self.serial):
                self._delete_others(sizes)

    def _delete_others(self, names: Iterable[str]) -> None:
        for name in {*names} - self.saved:
            if name.startswith(("manifest-", "shard-", ".manifest-")):
                self.storage.delete(name)

    def _files(self) -> set[str]:
        return {_name(self.serial), *(run.file for run in self.each_run())}

    def read(self, shards: int | None) -> dict[str, int]:
        """Reads the folder's manifest, and returns the sizes of its files. Raises CheckpointError
        for the folder of another run, or without a run.
        """
        uri = self.storage.uri
        sizes = self.storage.sizes()
        name, data = newest(self.storage, sizes)
        self.serial = int(name.partition("-")[2].partition(".")[0])
        self.shards, self.run = data["shards"], data["run"]
        self.levels = [Level(**level) for level in data["levels"]]
        self.runs = [[Run(**run) for run in runs] for runs in data["runs"]]
        self.saved = self._files()
        found = differences(self.identity, data)
        if shards not in (None, self.shards):
            found.append(f"shards is {shards} here and {self.shards} there")
        if found:
            raise CheckpointError(f"{uri} holds another run: {'; '.join(found)}")
        if not self._fits():
            raise CheckpointError(f"{uri}/{name}: its counts contradict each other")
        return sizes

    def _fits(self) -> bool:
        """Whether each shard's runs hold the number of states of its levels."""
        shards = range(self.shards)
        return (
            len(self.runs) == self.shards
            and all(len(level.states) == self.shards for level in self.levels)
            and all(
                sum(run.states for run in self.runs[shard])
                == sum(level.states[shard] for level in self.levels)
                for shard in shards
            )
        )

    def each_run(self) -> Iterable[Run]:
        """The runs of all shards."""
        return (run for runs in self.runs for run in runs)

    def finish(self, level: Level, new: list[tuple[int, list[Run]]]) -> None:
        """Adds a level. The new runs of shards replace the runs that were merged."""
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
        """Drops the levels from `level` on, earlier levels in the same files, and levels without
        known steps before them.
        """
        level = min(level, len(self.levels))
        # a file of several levels is kept as a whole or not at all
        while any(run.first < level <= run.last for run in self.each_run()):
            level = min(run.first for run in self.each_run() if run.first < level <= run.last)
        while level and not self.levels[level - 1].taken:
            level -= 1
        self.levels = self.levels[:level]
        self.runs = [[run for run in runs if run.last < level] for runs in self.runs]
        self.save()


def _last(names: Iterable[str]) -> str:
    """The name of the valid manifest, or ""."""
    return max((name for name in names if name.startswith("manifest-")), default="")


def _name(serial: int) -> str:
    return f"manifest-{serial:06}.json"
