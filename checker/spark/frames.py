"""A run's states and steps, and verdicts, as Spark DataFrames.

The columns of a state are those of a local run: see `checker.output.columns`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...language import Instance
from ..check import identity
from ..native.cache.object_code import PLAIN
from ..native.search.vectors import in_words
from ..native.store.pack import Packing
from ..output import columns
from ..prepare import Prepared, prepare
from ..verdict.result import Result
from .options import SparkError
from .storage.files import Storage
from .storage.manifest import Manifest, newest
from .storage.runs import packed_in

VERDICTS = (
    "system string, protocol string, features array<string>, constants map<string,long>, "
    "property string, verdict string, trace_length int, states long, transitions long, depth int, "
    "seconds double"
)


class Explored:
    """The states and steps that a run on Spark has found until now: `storage` is its folder.

    `instance` is that of the run. Whether the run used symmetry and slicing, its folder says.
    Raises CheckpointError for a folder that holds no run, or another one's.
    """

    def __init__(self, session: Any, storage: str, instance: Instance) -> None:
        self.session = session
        self.storage = Storage(storage)
        _, said = newest(self.storage, self.storage.sizes())
        symmetry, slicing = (said.get(key) != "none" for key in ("symmetry", "left out"))
        self.prepared: Prepared = prepare(instance, symmetry=symmetry, slicing=slicing)
        self.manifest = Manifest(self.storage, identity(self.prepared), 1, {})
        self.manifest.read(None)
        grounded = self.prepared.grounded
        unchanging = self.prepared.unchanging
        self.columns = columns.columns_of(grounded, self.prepared.packing, unchanging)
        self.left_out = self.prepared.left_out

    def states(self) -> Any:
        """All states: `level` (int, 0 for initial ones), then a column for each part.

        Raises SparkError where the run never got to Spark and so has kept none.
        """
        schema = columns.states_schema(self.columns)
        states = partial(_states, self.columns, self.prepared.packing)
        return self._packed().mapInArrow(states, _spark(schema))

    def transitions(self) -> Any:
        """All steps from these states: `level` (of the source), `row` (its name), `source` and
        `target` (structs with a field for each part)."""
        kernel, packing = self.prepared.kernel, self.prepared.packing
        names = self.prepared.instance.row_names
        code = kernel.code.with_effort(PLAIN)
        by = columns.Expansion(code, kernel.most_successors, packing.stride, names)
        schema = columns.transitions_schema(self.columns)
        steps = partial(_transitions, self.columns, packing, by)
        return self._packed().mapInArrow(steps, _spark(schema))

    def _packed(self) -> Any:
        """The packed states as the run's files have them: `level` and `state`."""
        uri = self.storage.uri if "://" in self.storage.uri else self.storage.root
        files = [f"{uri.rstrip('/')}/{run.file}" for run in self.manifest.each_run()]
        if not files:
            raise SparkError(
                f"{self.storage.uri} holds no states: the run was explored in one process "
                "(--hand-over 0 has Spark explore all of it)"
            )
        return self.session.read.parquet(*files)


def _spark(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _in_words(batch: Any, packing: Packing) -> tuple[Any, Any]:
    """The levels of packed states, and the states as rows of words."""
    level, state = batch.columns
    packed = packed_in(state.cast(pa.binary(packing.stride)))
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(-1, packing.stride)
    return np.asarray(level), in_words(rows, packing)


def _states(of: list[columns.Column], packing: Packing, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield columns.states(of, *_in_words(batch, packing))


def _transitions(
    of: list[columns.Column], packing: Packing, by: columns.Expansion, batches: Iterable[Any]
) -> Iterator[Any]:
    steps = columns.transitions(of, by)
    for batch in batches:
        yield from steps(*_in_words(batch, packing))


def verdicts(session: Any, results: Iterable[Result | Mapping[str, Any]]) -> Any:
    """Verdicts on properties, a row for each of each run, as a DataFrame of `VERDICTS`.

    `results` come from `check`, or from the files of `check --json` and `sweep --results`.
    """
    rows: list[tuple[Any, ...]] = []
    for result in results:
        told = result.as_json() if isinstance(result, Result) else result
        run = (told["system"], told["protocol"], list(told["features"]), dict(told["constants"]))
        figures = (told["states"], told["transitions"], told["depth"], float(told["seconds"]))
        rows += [
            (*run, p["name"], p["verdict"], p["trace_length"], *figures) for p in told["properties"]
        ]
    return session.createDataFrame(rows, VERDICTS)
