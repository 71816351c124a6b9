"""How a search is to be carried by Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..native.store import SHARDS

HAND_OVER = 200_000
LEAST_SHARDS = 4
MOST_SHARDS = SHARDS
TASK_TRIES = 4


class SparkError(Exception):
    """Spark that can't be started, or that couldn't do its work."""


def is_local(master: str) -> bool:
    """Whether all of Spark is one process of this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


@dataclass(frozen=True)
class SparkOptions:
    """Where and how. `master` is Spark's address of a cluster (none: this machine's `threads`);
    `storage` the run's folder, a path or URI; a level of over `hand_over` states is the first that
    Spark expands; with `ui`, Spark serves its pages.
    """

    threads: int = 1
    master: str | None = None
    shards: int | None = None
    storage: str | None = None
    hand_over: int = HAND_OVER
    ui: bool = False

    @property
    def is_local(self) -> bool:
        """Whether all of Spark is one process of this machine."""
        return is_local(self.master_url)

    @property
    def master_url(self) -> str:
        """Spark's address; on one machine a task is tried again as it would be on a cluster."""
        if self.master is None:
            return f"local[{self.threads},{TASK_TRIES}]"
        return re.sub(r"^local\[(\w+|\*)\]$", rf"local[\1,{TASK_TRIES}]", self.master)

    def default_shards(self, session: Any) -> int:
        """Two for each core, so that one that is late doesn't keep all others waiting."""
        cores = self.threads if session is None else int(session.sparkContext.defaultParallelism)
        return min(MOST_SHARDS, max(LEAST_SHARDS, 2 * cores))
