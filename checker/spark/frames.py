"""A run's states and steps, and verdicts, as Spark DataFrames.

State fields are columns, named as in a trace with `_` for what isn't a letter or digit:
`client.state[0]` is `client_state_0`. An enum is a string, a key's instance or a number a long, a
truth a boolean; what is optional may be null. A part that may be absent as a whole has a column
`..._is_there` more, and its other columns say nothing where that is false. Fields that a run leaves
out have no column (see `Explored.left_out`), and with symmetry a state stands for all that differ
from it by renaming.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...spec.language import Bool, Enum, Instance, Optional
from ..check import Prepared, identity, prepare
from ..ground import Leaf
from ..lower import Kernel
from ..machine_code import Code
from ..pack import Packing, Place
from ..verdict import Result
from .manifest import Manifest
from .options import SparkError
from .storage import Storage

VERDICTS = (
    "system string, protocol string, features array<string>, constants map<string,long>, "
    "property string, verdict string, trace_length int, states long, transitions long, depth int, "
    "seconds double"
)
AT_ONCE = 256  # states that are expanded for one batch


@dataclass(frozen=True)
class Column:
    """A state field as a column: its bits, and the values of its numbers.

    `names` are those of an enum; `none` is the number that stands for null, if one does.
    """

    name: str
    place: Place
    type: pa.DataType
    names: tuple[str, ...] = ()
    none: int | None = None

    def values(self, words: Any) -> Any:
        """The field in packed states, given as rows of 64-bit words."""
        place = self.place
        mask = np.uint64((1 << place.width) - 1)
        numbers = ((words[:, place.word] >> np.uint64(place.shift)) & mask).astype(np.int64)
        numbers += place.low
        null = numbers == self.none if self.none is not None else None
        if self.names:
            names = np.array(self.names, dtype=object)
            return pa.array(names[np.clip(numbers, 0, len(names) - 1)], self.type, mask=null)
        found = numbers != 0 if pa.types.is_boolean(self.type) else numbers
        return pa.array(found, self.type, mask=null)


def columns_of(leaves: Iterable[Leaf], packing: Packing) -> list[Column]:
    """The columns of a packed state's fields, in the order of the declaration."""
    found: dict[str, Column] = {}
    for leaf in leaves:
        if leaf.index not in packing.places:
            continue
        name = re.sub(r"\W+", "_", leaf.name.replace("?", ".is_there")).strip("_")
        name += f"_{leaf.index}" if name in found else ""
        kind, none = leaf.type, None
        if isinstance(kind, Optional):
            kind, none = kind.of, leaf.low
        place = packing.places[leaf.index]
        match kind:
            case Enum():
                found[name] = Column(name, place, pa.string(), tuple(kind.names), none)
            case Bool():
                found[name] = Column(name, place, pa.bool_(), (), none)
            case _:
                found[name] = Column(name, place, pa.int64(), (), none)
    return list(found.values())


class Explored:
    """What a run on Spark has found so far: `storage` is its folder.

    `instance`, `symmetry` and `slicing` are those of the run. Raises CheckpointError for a folder
    that holds no run, or another one's.
    """

    def __init__(
        self, session: Any, storage: str, instance: Instance, *, symmetry: bool = True,
        slicing: bool = True,
    ) -> None:  # fmt: skip
        self.session = session
        self.prepared: Prepared = prepare(instance, symmetry=symmetry, slicing=slicing)
        self.storage = Storage(storage)
        self.manifest = Manifest(self.storage, identity(self.prepared), 1, {})
        self.manifest.read(None)
        grounded = self.prepared.grounded
        self.columns = columns_of(grounded.leaves, self.prepared.packing)
        self.left_out = self.prepared.left_out

    def states(self) -> Any:
        """All states: `level` (int, 0 for initial ones), then a column for each field.

        Raises SparkError where the run never got to Spark and so has kept none.
        """
        words, schema = self._words(), pa.schema([("level", pa.int32()), *self._fields()])
        return words.mapInArrow(partial(_states, self.columns, schema), _spark(schema))

    def transitions(self) -> Any:
        """All steps from these states: `level` (of the source), `row` (its name), `source` and
        `target` (structs with a column for each field)."""
        state = pa.struct(self._fields())
        schema = pa.schema(
            [("level", pa.int32()), ("row", pa.string()), ("source", state), ("target", state)]
        )
        kernel, packing = self.prepared.kernel, self.prepared.packing
        step = _Step(
            kernel.code, kernel.most_successors, packing.stride, self.prepared.instance.row_names
        )
        return self._words().mapInArrow(
            partial(_transitions, self.columns, schema, step), _spark(schema)
        )

    def _fields(self) -> list[Any]:
        return [pa.field(column.name, column.type) for column in self.columns]

    def _words(self) -> Any:
        """The packed states as the run's files have them: `level`, `w0`, `w1`, ..."""
        uri = self.storage.uri if "://" in self.storage.uri else self.storage.root
        files = [f"{uri.rstrip('/')}/{run.file}" for run in self.manifest.each_run()]
        if not files:
            raise SparkError(
                f"{self.storage.uri} holds no states: the run was explored in one process "
                "(--hand-over 0 has Spark explore all of it)"
            )
        return self.session.read.parquet(*files)


@dataclass(frozen=True)
class _Step:
    """What expands states on an executor."""

    code: Code
    most_successors: int
    stride: int
    rows: tuple[str, ...]


def _spark(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _packed(batch: Any) -> Any:
    """Packed states as rows of words."""
    parts = [np.asarray(column) for column in batch.columns[1:]]
    return np.stack(parts, axis=1).view(np.uint64)


def _states(columns: list[Column], schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        words = _packed(batch)
        arrays = [batch.column(0), *(column.values(words) for column in columns)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _transitions(
    columns: list[Column], schema: Any, step: _Step, batches: Iterable[Any]
) -> Iterator[Any]:
    kernel = Kernel(step.most_successors, step.code)
    expand = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(kernel.address)
    most = max(1, step.most_successors)
    rows, bad = np.zeros(most, dtype=np.uint32), np.zeros(2, dtype=np.uint64)
    noted = np.zeros(1, dtype=np.int64)
    names = np.array(step.rows, dtype=object)

    def structs(words: Any) -> Any:
        return pa.StructArray.from_arrays(
            [column.values(words) for column in columns], fields=list(schema.field("target").type)
        )

    for whole in batches:
        for at in range(0, len(whole), AT_ONCE):
            batch = whole.slice(at, AT_ONCE)
            sources = _packed(batch)
            out = np.zeros((most + 2) * step.stride, dtype=np.uint8)
            targets: list[Any] = []
            taken: list[Any] = []
            for source in np.ascontiguousarray(sources):
                noted[0] = 0
                places = (source, out, rows, bad, noted)
                first, into, *rest = (place.ctypes.data for place in places)
                count = expand(first, 1, into, *rest)
                targets.append(out[: count * step.stride].reshape(count, step.stride).copy())
                taken.append(rows[:count].copy())
            counts = [len(found) for found in taken]
            packed = np.concatenate(targets)
            words = np.zeros((len(packed), sources.shape[1] * 8), dtype=np.uint8)
            words[:, : step.stride] = packed
            each = np.repeat(np.arange(len(sources)), counts)
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column(0).take(pa.array(each)),
                    pa.array(names[np.concatenate(taken)], pa.string()),
                    structs(sources[each]),
                    structs(words.view(np.uint64)),
                ],
                schema=schema,
            )


def verdicts(session: Any, results: Iterable[Result | Mapping[str, Any]]) -> Any:
    """Verdicts on properties, a row for each of each run, as a DataFrame of `VERDICTS`.

    `results` are those of `check`, or what `check --json` and `sweep --results` wrote of them.
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
