"""How a search is to be carried by Spark."""

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
    "Spark Connect gives a program no SparkContext, which this needs: name the cluster's own master"
)
LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"


class SparkError(Exception):
    """Spark that can't be started, or that couldn't do its work."""


def is_local(master: str) -> bool:
    """Whether all of Spark is one process of this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def check_master(master: str) -> None:
    """Raises SparkError for an invalid address of a master, and for Spark Connect."""
    if master.startswith("sc://"):
        raise SparkError(f"--master {shlex.quote(master)}: {NOT_BY_CONNECT}")
    if not MASTER.fullmatch(master):
        forms = "local[N], local[*], spark://HOST:PORT, k8s://URL or yarn"
        raise SparkError(f"--master {shlex.quote(master)}: write {forms}")


def local_folder() -> Path:
    """The folder below which executors of this machine keep files: Spark names the folders that it
    deletes when it ends, and this is the first of them."""
    return Path(os.environ.get(LOCAL_FOLDERS, tempfile.gettempdir()).partition(",")[0])


@dataclass(frozen=True)
class SparkOptions:
    """Where and how. `master` is Spark's address of a cluster (none: this machine's `threads`);
    `storage` the run's folder, a path or URI; a level of over `hand_over` states is the first that
    Spark expands; with `ui`, Spark serves its pages. Raises SparkError for a number of `shards`
    below 1 or above MOST_SHARDS.
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
        """Whether all of Spark is one process of this machine."""
        return is_local(self.master_url)

    @property
    def master_url(self) -> str:
        """Spark's address; on one machine a task is tried again as it would be on a cluster."""
        if self.master is None:
            return f"local[{self.threads},{TASK_TRIES}]"
        return re.sub(r"^local\[([1-9]\d*|\*)\]$", rf"local[\1,{TASK_TRIES}]", self.master)

    def default_shards(self, session: Any) -> int:
        """Two for each core, so that one that is late doesn't keep all others waiting."""
        cores = self.threads if session is None else int(session.sparkContext.defaultParallelism)
        return min(MOST_SHARDS, max(LEAST_SHARDS, 2 * cores))
