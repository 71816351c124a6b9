"""A run's states and steps, and verdicts, as Spark DataFrames.

The columns of a state are those of a local run: see `checker.output.columns`. Executors read the
run's files and write tables by Arrow's file systems, as the search does.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ...language import Instance, instantiate
from ...language.instances.instance import ending_anywhere
from ..check import NOT_REPORTED, identity, names_in
from ..named_systems import load_system
from ..native.cache.object_code import PLAIN
from ..native.search.checkpoint import CheckpointError
from ..native.search.vectors import in_words
from ..native.store.pack import Packing
from ..output import columns
from ..prepare import Prepared, prepare
from ..verdict.result import Result
from .options import SparkError
from .storage.files import Storage, written
from .storage.manifest import Manifest, newest
from .storage.runs import Run, read_run

VERDICTS = (
    "system string, protocol string, features array<string>, constants map<string,long>, "
    "property string, verdict string, trace_length int, states long, transitions long, depth int, "
    "seconds double"
)
STATES = 1 << 13  # of a batch


Words: TypeAlias = Iterable[tuple[Any, Any]]
"""The levels of packed states, and the states as rows of words, in pieces."""


class Explored:
    """The states and steps that a run on Spark has found so far. `storage` is its folder.

    The folder has the system, protocol, bounds, properties and symmetry of the run. If the system's
    file was moved, pass the `instance`. Raises CheckpointError for a folder without a run, or with
    another one, and DeclarationError if the system can't be loaded.
    """

    def __init__(self, session: Any, storage: str, instance: Instance | None = None) -> None:
        self.session = session
        self.storage = Storage(storage)
        _, said = newest(self.storage, self.storage.sizes())
        if instance is None:
            instance = _instance(storage, said)
        if said.get("deadlocks") == NOT_REPORTED:
            instance = ending_anywhere(instance)
        symmetry, slicing = (said.get(key) != "none" for key in ("symmetry", "left out"))
        self.prepared: Prepared = prepare(instance, symmetry=symmetry, slicing=slicing)
        self.manifest = Manifest(self.storage, identity(self.prepared), 1, {})
        self.manifest.read(None)
        grounded = self.prepared.grounded
        unchanging = self.prepared.unchanging
        self.columns = columns.columns_of(grounded, self.prepared.packing, unchanging)
        self.left_out = self.prepared.left_out

    def states(self) -> Any:
        """All states: `level` (int; 0: initial), then a column for each part.

        Raises SparkError if the run ended before it used Spark: it has saved no states.
        """
        return self._table(*self._of_states())

    def transitions(self) -> Any:
        """All steps from these states: `level` (of the source), `row` (its name), `source` and
        `target` (structs with a field for each part).
        """
        return self._table(*self._of_transitions())

    def write_states(self, folder: str) -> int:
        """Writes `states` as Parquet to a new folder (a path or a URI), with a folder for each
        level; returns their number. Raises StorageError, SparkError.
        """
        return self._write(folder, *self._of_states())

    def write_transitions(self, folder: str) -> int:
        """Writes `transitions` as `write_states` does."""
        return self._write(folder, *self._of_transitions())

    def _of_states(self) -> tuple[Callable[[Words], Iterator[Any]], Any]:
        return partial(_states, self.columns), columns.states_schema(self.columns)

    def _of_transitions(self) -> tuple[Callable[[Words], Iterator[Any]], Any]:
        kernel = self.prepared.kernel
        code = kernel.code.with_effort(PLAIN)
        stride, names = self.prepared.packing.stride, tuple(self.prepared.taken_names)
        by = columns.Expansion(code, kernel.most_successors, stride, names)
        return partial(_transitions, self.columns, by), columns.transitions_schema(self.columns)

    def _table(self, of: Callable[[Words], Iterator[Any]], schema: Any) -> Any:
        read = partial(_read, self.storage, self.prepared.packing, of)
        return self._runs().mapInArrow(read, _spark(schema))

    def _write(self, folder: str, of: Callable[[Words], Iterator[Any]], schema: Any) -> int:
        runs = self._runs()
        with written(folder) as place:
            write = partial(_write, self.storage, self.prepared.packing, of, place, schema)
            counts = runs.mapInArrow(write, "rows long").collect()
            return sum(row["rows"] for row in counts)

    def _runs(self) -> Any:
        """The run's files, one for each task."""
        runs = [(json.dumps(run.as_json()),) for run in self.manifest.each_run()]
        if not runs:
            raise SparkError(
                f"{self.storage.uri} holds no states: the run was explored in one process "
                "(with --hand-over 0 Spark explores all of it)"
            )
        return self.session.createDataFrame(runs, "run string").repartition(len(runs))


def _instance(storage: str, said: Mapping[str, Any]) -> Instance:
    """The instance of a run's manifest."""
    name = said.get("declared")
    if not isinstance(name, str):
        raise CheckpointError(f"{storage} doesn't say where its system is declared: give it")
    system = load_system(name)
    known = {info.name for info in system.protocols.infos}
    features = {*names_in(said["features"])}
    chosen = (info.name for info in system.constant_infos)
    return instantiate(
        system,
        said["protocol"],
        {name: said[key] for name in chosen if (key := f"constant {name}") in said},
        switch_on=features,
        switch_off=known - features,
        properties=names_in(said["properties"]),
    )


def _spark(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _each_run(batches: Iterable[Any]) -> Iterator[Run]:
    for batch in batches:
        yield from (Run(**json.loads(text)) for text in batch.column(0).to_pylist())


def _words(storage: Storage, packing: Packing, run: Run) -> Iterator[tuple[Any, Any]]:
    for level, states in read_run(storage, run, packing.stride):
        rows = np.frombuffer(states, dtype=np.uint8).reshape(-1, packing.stride)
        for at in range(0, len(rows), STATES):
            words = in_words(rows[at : at + STATES], packing)
            yield np.full(len(words), level, dtype=np.int32), words


def _read(
    storage: Storage, packing: Packing, of: Callable[[Words], Iterator[Any]], batches: Iterable[Any]
) -> Iterator[Any]:
    """Yields the rows of runs."""
    for run in _each_run(batches):
        yield from of(_words(storage, packing, run))


def _write(
    storage: Storage, packing: Packing, of: Callable[[Words], Iterator[Any]], place: Storage,
    schema: Any, batches: Iterable[Any],
) -> Iterator[Any]:  # fmt: skip
    """Writes the rows of runs, a file for each level of each run; returns their number.

    A task that is run twice writes the same bytes under the same name.
    """
    level_at = schema.get_field_index("level")
    for run in _each_run(batches):
        name = run.file.replace("/", "-")
        rows = of(_words(storage, packing, run))
        for level, part in groupby(rows, key=lambda batch: batch.column(level_at)[0].as_py()):
            count, sink = 0, pa.BufferOutputStream()
            with parquet.ParquetWriter(sink, schema.remove(level_at)) as writer:
                for batch in part:
                    writer.write_batch(batch.drop_columns(["level"]))
                    count += len(batch)
            place.write(f"level={level}/{name}", sink.getvalue())
            yield pa.RecordBatch.from_pydict({"rows": [count]})


def _states(of: Sequence[columns.Column], words: Words) -> Iterator[Any]:
    return (columns.states(of, *piece) for piece in words)


def _transitions(
    of: Sequence[columns.Column], by: columns.Expansion, words: Words
) -> Iterator[Any]:
    steps = columns.transitions(of, by)
    return (batch for piece in words for batch in steps(*piece) if len(batch))


def verdicts(session: Any, results: Iterable[Result | Mapping[str, Any]]) -> Any:
    """A DataFrame of `VERDICTS`, with a row for each property of each run.

    `results` come from `check`, or from the files of `check --json` and `sweep --results`.
    """
    rows: list[tuple[Any, ...]] = []
    for result in results:
        data = result.as_json() if isinstance(result, Result) else result
        run = (data["system"], data["protocol"], list(data["features"]), dict(data["constants"]))
        figures = (data["states"], data["transitions"], data["depth"], float(data["seconds"]))
        rows += [
            (*run, p["name"], p["verdict"], p["trace_length"], *figures) for p in data["properties"]
        ]
    return session.createDataFrame(rows, VERDICTS)
