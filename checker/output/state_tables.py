"""The states and steps of a run as data: in Arrow tables or batch by batch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...files import CantWriteError
from ...language.declaration.notebook import Rendered
from ..native.search.explore import Explorer
from ..native.search.vectors import gathered, in_words
from ..prepare import Prepared
from ..trace.trace import Trace


def check_new(folder: Path) -> None:
    """Raises CantWriteError if the folder can't be made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CantWriteError(folder, "it exists: name a new folder, or an empty one")
    if not folder.absolute().parent.is_dir():
        raise CantWriteError(folder, "there is no such parent folder")


class Found(Rendered):
    """The states that a run in this process found. They stay in memory while this object lives.

    `checker.output.columns` describes the `columns` of a state. Raises ModuleNotFoundError without
    pyarrow (the extra `arrow`).
    """

    def __init__(self, prepared: Prepared, explorer: Explorer, trace: Trace | None = None) -> None:
        self.prepared = prepared
        self.explorer = explorer
        self.shown = trace
        unchanging = prepared.unchanging
        self.columns = _columns().columns_of(prepared.grounded, prepared.packing, unchanging)

    @property
    def count(self) -> int:
        """The number of states."""
        return sum(self.explorer.level_sizes()[: self.explorer.depth])

    def states(self) -> Any:
        """All states as a table: `level` (0: initial), then a column for each part."""
        schema = _columns().states_schema(self.columns)
        return _table(self.state_batches(), schema)

    def transitions(self) -> Any:
        """All steps as a table: `level` of the source, `row`, `source` and `target`."""
        schema = _columns().transitions_schema(self.columns)
        return _table(self.transition_batches(), schema)

    def trace(self) -> Any:
        """The counterexample as a table: `step` (0: the initial state), `actor`, `action` and
        `row`, then the columns of the next state. Without a counterexample it has no rows.
        """
        if self.shown is None:
            return _columns().trace_schema(self.columns).empty_table()
        return _columns().trace(self.columns, self.shown)

    def state_batches(self) -> Iterator[Any]:
        """The states in batches of some thousands."""
        for level, words in self._words():
            levels = np.full(len(words), level, dtype=np.int32)
            yield _columns().states(self.columns, levels, words)

    def transition_batches(self) -> Iterator[Any]:
        """The steps in batches, those from some hundred states each."""
        kernel, packing = self.prepared.kernel, self.prepared.packing
        columns, names = _columns(), self.prepared.taken_names
        by = columns.Expansion(kernel.code, kernel.most_successors, packing.stride, names)
        steps = columns.transitions(self.columns, by)
        for level, words in self._words():
            yield from steps(np.full(len(words), level, dtype=np.int32), words)

    def write_states(self, folder: Path) -> None:
        """Writes `states` as Parquet, with a folder for each level. Raises CantWriteError."""
        _write(folder, self.state_batches(), _columns().states_schema(self.columns))

    def write_transitions(self, folder: Path) -> None:
        """Writes `transitions` as Parquet, with a folder for each level. Raises CantWriteError."""
        _write(folder, self.transition_batches(), _columns().transitions_schema(self.columns))

    def _words(self) -> Iterator[tuple[int, Any]]:
        """The levels with their packed states, as rows of words."""
        store = self.explorer.store
        for level in range(self.explorer.depth):
            ranges = self.explorer.level_ranges(level)
            parts = (store.rows(shard, *where) for shard, where in enumerate(ranges))
            for states in gathered(chain.from_iterable(parts)):
                yield level, in_words(states, self.prepared.packing)


def _columns() -> Any:
    try:
        from . import columns
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{missing.name} is not installed: pip install 'epochfence[arrow]'", name=missing.name
        ) from None
    return columns


def _table(batches: Iterator[Any], schema: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema)


def _write(folder: Path, batches: Iterator[Any], schema: Any) -> None:
    """Writes `level=N/part-0.parquet` for each level. The folder appears when it is complete."""
    import pyarrow as pa
    from pyarrow import dataset

    check_new(folder)
    begun = folder.absolute().with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    levels = dataset.partitioning(pa.schema([schema.field("level")]), flavor="hive")
    try:
        begun.mkdir()
        dataset.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches),
            begun,
            format="parquet",
            basename_template="part-{i}.parquet",
            partitioning=levels,
            max_partitions=1 << 20,
        )
        begun.replace(folder)
    except OSError as error:
        raise CantWriteError(folder, error) from None
    finally:
        shutil.rmtree(begun, ignore_errors=True)
