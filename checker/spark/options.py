"""The options of a search on Spark."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..native.store.store import SHARDS

HAND_OVER = 200_000
LEAST_SHARDS = 4
MOST_SHARDS = SHARDS
TASK_TRIES = 4
MASTER = re.compile(
    r"local(\[([1-9]\d*|\*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|(spark|k8s)://.+|yarn"
)
NOT_BY_CONNECT = (
    "this needs a SparkContext, and Spark Connect gives none: name the cluster's own master"
)
LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"


class SparkError(Exception):
    """Spark can't be started, or fails."""


def is_local(master: str) -> bool:
    """Whether Spark runs in one process of this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def check_master(master: str) -> None:
    """Raises SparkError for an invalid address of a master, and for Spark Connect."""
    if master.startswith("sc://"):
        raise SparkError(f"--master {shlex.quote(master)}: {NOT_BY_CONNECT}")
    if not MASTER.fullmatch(master):
        forms = "local[N], local[*], spark://HOST:PORT, k8s://URL or yarn"
        raise SparkError(f"--master {shlex.quote(master)}: write {forms}")


def local_folder() -> Path:
    """The folder for executors' files on this machine: the first of the folders that Spark deletes
    when it ends.
    """
    return Path(os.environ.get(LOCAL_FOLDERS, tempfile.gettempdir()).partition(",")[0])


@dataclass(frozen=True)
class SparkOptions:
    """The options of a search on Spark. `master` is the address of a cluster (None: `threads` of
    this machine). `storage` is the run's folder, a path or URI. Spark takes over at the first level
    of more than `hand_over` states. With `ui`, Spark serves its web pages. Raises SparkError for a
    number of `shards` below 1 or above MOST_SHARDS.
    """

    threads: int = 1
    master: str | None = None
    shards: int | None = None
    storage: str | None = None
    hand_over: int = HAND_OVER
    ui: bool = False

    def __post_init__(self) -> None:
        if self.shards is not None and not 1 <= self.shards <= MOST_SHARDS:
            raise SparkError(f"{self.shards} shards: there can be 1 to {MOST_SHARDS}")

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in one process of this machine."""
        return is_local(self.master_url)

    @property
    def master_url(self) -> str:
        """Spark's address. On one machine failed tasks are repeated, as on a cluster."""
        if self.master is None:
            return f"local[{self.threads},{TASK_TRIES}]"
        return re.sub(r"^local\[([1-9]\d*|\*)\]$", rf"local[\1,{TASK_TRIES}]", self.master)

    def default_shards(self, session: Any) -> int:
        """Two shards for each core: a slow shard then delays the others less."""
        cores = self.threads if session is None else int(session.sparkContext.defaultParallelism)
        return min(MOST_SHARDS, max(LEAST_SHARDS, 2 * cores))
