"""A run on Spark: the first levels in this process, the others on executors."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

import psutil

from ...ground import Leaf
from ...native.cache.kernel import Kernel
from ...native.cache.object_code import PLAIN
from ...native.search.explore import Carrier, Explorer, Progress, search
from ...native.store.pack import Packing
from ..options import SparkOptions, check_master
from ..session import check_local_folder, find_java, is_running, java_needed, start, stop
from ..storage.files import Storage
from ..storage.manifest import Manifest
from .levels import RolledBackError, SparkExplorer, take_over
from .tasks import Kit

T = TypeVar("T")


class SparkRun:
    """Carries out a run on Spark. `begin` returns an explorer with the initial states.

    `declared` is the system's name for `load_system`, for later readers of the run's folder.
    `memory` is the most bytes of one shard's visited set (None: the free memory of an executor).
    Raises SparkError, CheckpointError.
    """

    def __init__(
        self,
        kernel: Kernel,
        packing: Packing,
        leaves: tuple[Leaf, ...],
        rows: int,
        identity: dict[str, Any],
        declared: str | None,
        options: SparkOptions,
        memory: int | None,
        resume: str | None,
        begin: Callable[[], Explorer],
    ) -> None:
        check_master(options.master_url)
        find_java()
        check_local_folder()
        self.kernel, self.packing, self.leaves, self.rows = kernel, packing, leaves, rows
        self.options, self.memory, self.begin = options, memory, begin
        self.name = str(identity["system"])
        self.session: Any = None
        self.own_session = not is_running()
        if not options.is_local:
            self._start()  # reports unreachable services before the search
        protocol = identity["protocol"]
        default = time.strftime(f"epochfence-runs/{self.name}-{protocol}-%Y%m%d-%H%M%S")
        requested = options.storage if resume is None else resume
        storage = Storage(re.sub(r"[^\w./-]", "_", default) if requested is None else requested)
        libraries = ("epochfence", "pyspark", "pyarrow", "numba", "llvmlite")
        versions = {name: version(name) for name in libraries}
        shards = options.shards or options.default_shards(self.session)
        self.manifest = Manifest(storage, identity, shards, versions, declared)
        if resume is None:
            self.manifest.begin()
        else:
            self.manifest.load(options.shards)
        self.local_rate = 0.0
        self.local_bytes = 0.0

    def finish(self, on_progress: Callable[[Progress], None] | None, tell: Callable[..., T]) -> T:
        """Searches, and returns the result. It searches again if a file is damaged."""
        try:
            result = self._result(on_progress, tell)
        finally:
            if self.own_session and self.session is not None:
                stop(self.session)
        self.manifest.tidy()  # repeated tasks have left files
        return result

    def _result(self, on_progress: Callable[[Progress], None] | None, tell: Callable[..., T]) -> T:
        while True:
            with suppress(RolledBackError), java_needed():
                carrier = self._search(on_progress)
                try:
                    return tell(carrier, self._figures(carrier), self._notes(carrier))
                finally:
                    carrier.close()

    def _start(self) -> Any:
        if self.session is None:
            self.session = start(
                self.options.master_url,
                f"epochfence check {self.name}",
                ui=self.options.ui,
                carrying=True,
            )
        return self.session

    def _search(self, on_progress: Callable[[Progress], None] | None) -> Carrier:
        if not self.manifest.levels:
            explorer = self.begin()
            most = self.options.hand_over
            if search(explorer, on_level=on_progress, on_round=on_progress, most=most):
                return explorer
            self.local_rate = explorer.count / max(explorer.found.seconds, 1e-3)
            self.local_bytes = explorer.store.memory / explorer.count
            take_over(self.manifest, explorer)
            explorer.close()
        kit = Kit(
            self.manifest.run, self.kernel.code.with_effort(PLAIN), self.kernel.most_successors,
            self.packing, self.leaves, self.rows, self.manifest.shards, self.memory,
            self.manifest.storage,
        )  # fmt: skip
        carrier = SparkExplorer(self._start(), self.manifest, kit)
        try:
            search(carrier, on_level=on_progress, on_round=on_progress)
        except BaseException:
            carrier.close()
            raise
        return carrier

    def _figures(self, carrier: Carrier) -> dict[str, Any]:
        """The figures of the run on Spark: sums over its levels."""
        levels = self.manifest.levels
        on_spark = [level for level in levels if level.written_bytes or level.sent]
        new = sum(sum(level.states) for level in on_spark)
        return {
            "name": "spark" if isinstance(carrier, SparkExplorer) else "local",
            "master": self.options.master_url,
            "shards": self.manifest.shards,
            "storage": self.manifest.storage.uri,
            "levels_on_spark": len(on_spark),
            "states_on_spark": new,
            "candidates_sent": sum(level.sent for level in on_spark),
            "bytes_sent": sum(level.sent_bytes for level in on_spark),
            "bytes_written": sum(level.written_bytes for level in on_spark),
            "bytes_held": carrier.held if isinstance(carrier, SparkExplorer) else 0,
        }

    def _notes(self, carrier: Carrier) -> list[str]:
        """A note if the run would have been faster without Spark."""
        if not isinstance(carrier, SparkExplorer):
            return [
                f"no level had more than {self.options.hand_over:,} states (--hand-over): the "
                "system was explored in one process, and Spark would only have slowed it down"
            ]
        found = carrier.found
        held = found.states * self.local_bytes
        alone = found.states / self.local_rate if self.local_rate else found.seconds
        if alone < found.seconds and held < psutil.virtual_memory().available / 2:
            return [
                f"without Spark this would take about {alone:,.0f} s, at the rate of the levels "
                f"that were explored in one process, and {held / 2**20:,.0f} MiB"
            ]
        return []
