"""States and steps as Arrow columns: a column for each field, channel and budget.

An enum is a string, a key's instance a string such as `client0`, a number the narrowest integer, a
truth a boolean; an optional value may be null. Sets, sequences and bags are lists; a record is a
struct of its fields; a map over a key is a struct with a field for each instance. With symmetry a
state represents all that differ from it only by names of instances. A part that slicing removes has
no column.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...language import Bag, Bool, Enum, Int, Key, Map, Optional, Record, Set
from ...language import Sequence as Line
from ...language.expressions import resolve
from ...language.types import SCALARS, Constants, Type, choices
from ..ground import Grounded
from ..native.cache.kernel import Kernel
from ..native.cache.machine_code import Code
from ..native.codegen.property_groups import NOTES
from ..native.store.pack import Packing, Place
from ..trace.trace import Trace

MOST_WORDS = 1 << 16  # most words of a packed state
AT_ONCE = 256  # states that are expanded for one batch


@dataclass(frozen=True)
class Column:
    """A variable of the state as a column: its type and its leaves, in order. Each leaf has its
    place in a packed state, or its constant number.
    """

    name: str
    kind: Type
    constants: Constants
    leaves: tuple[Place | int, ...]

    @property
    def type(self) -> Any:
        """The Arrow type."""
        return self.values(np.zeros((0, MOST_WORDS), dtype=np.uint64)).type

    def values(self, words: Any) -> Any:
        """The values of the variable in packed states, given as rows of 64-bit words."""
        return _Decoding(words, self.constants, iter(self.leaves)).array(self.kind)


def columns_of(
    grounded: Grounded, packing: Packing, unchanging: Collection[int] = ()
) -> list[Column]:
    """The columns of a packed state, in the order of the declaration; leaves that are `unchanging`
    have their initial value."""
    first = grounded.initials[0]
    found: list[Column] = []
    by_name: dict[str, list[Place | int]] = {}
    missing: set[str] = set()
    for leaf in grounded.leaves:
        name = str(leaf.path[0])
        if leaf.index in grounded.open:
            continue
        known: Place | int | None = packing.places.get(leaf.index)
        if known is None and (leaf.index in unchanging or leaf.low == leaf.high):
            known = first[leaf.index]
        if known is None:
            missing.add(name)
        else:
            by_name.setdefault(name, []).append(known)
    for variable in grounded.instance.variables:
        if variable.name not in missing:
            leaves = tuple(by_name.get(variable.name, ()))
            found.append(Column(variable.name, variable.type, grounded.instance.constants, leaves))
    return found


class _Decoding:
    """Decodes values from the numbers of leaves, in the order of `Grounded.leaves`."""

    def __init__(self, words: Any, constants: Constants, leaves: Iterator[Place | int]) -> None:
        self.words = words
        self.constants = constants
        self.leaves = leaves

    def numbers(self) -> Any:
        """The numbers of the next leaf in all states."""
        place = next(self.leaves)
        if isinstance(place, int):
            return np.full(len(self.words), place, dtype=np.int64)
        mask = np.uint64((1 << place.width) - 1)
        found = (self.words[:, place.word] >> np.uint64(place.shift)) & mask
        return found.astype(np.int64) + place.low

    def array(self, kind: Type) -> Any:
        """Values of a type, decoded from the next leaves."""
        match kind:
            case Bool() | Int() | Enum() | Key():
                return self.scalars(kind, self.numbers(), None)
            case Optional() if isinstance(kind.of, SCALARS):
                numbers = self.numbers()
                return self.scalars(kind.of, numbers, numbers == self.lowest(kind.of) - 1)
            case Optional():
                present, value = self.numbers() != 0, self.array(kind.of)
                return _where(present, value)
            case Set():
                there = [self.numbers() != 0 for _ in choices(kind.of, self.constants)]
                return self.members(kind.of, there)
            case Line() | Bag():
                capacity = resolve(kind.capacity, self.constants)
                slots = [self.array(Optional(kind.of)) for _ in range(capacity)]
                return self.line(kind.of, slots)
            case Record():
                parts = [self.array(of) for _, of in kind.fields]
                return pa.StructArray.from_arrays(parts, names=[name for name, _ in kind.fields])
            case Map():
                names = [f"{kind.key}{at}" for at in range(kind.key.count(self.constants))]
                return pa.StructArray.from_arrays([self.array(kind.of) for _ in names], names=names)

    def lowest(self, kind: Type) -> int:
        """The lowest number of a scalar type."""
        return resolve(kind.low, self.constants) if isinstance(kind, Int) else 0

    def scalars(self, kind: Type, numbers: Any, null: Any) -> Any:
        """Values of a scalar type, from their numbers."""
        match kind:
            case Bool():
                return pa.array(numbers != 0, pa.bool_(), mask=null)
            case Enum() | Key():
                names = kind.names if isinstance(kind, Enum) else _instances(kind, self.constants)
                known = np.array([*names, ""], dtype=object)
                return pa.array(known[np.clip(numbers, 0, len(names) - 1)], pa.string(), mask=null)
            case Int():
                low, high = kind.range(self.constants)
                return pa.array(numbers, _whole(low, high), mask=null)
            case _:
                raise TypeError(f"{kind} is not a scalar")

    def members(self, kind: Type, there: list[Any]) -> Any:
        """Sets as lists of their members, from a column for each possible member."""
        within = np.stack(there, axis=1) if there else np.zeros((len(self.words), 0), dtype=bool)
        numbers = np.arange(within.shape[1]) + self.lowest(kind)
        chosen = np.broadcast_to(numbers, within.shape)[within]
        return _lists(within, self.scalars(kind, chosen, None))

    def line(self, kind: Type, slots: list[Any]) -> Any:
        """Lists of the present elements, from a column for each slot."""
        if not slots:
            empty = _Decoding(self.words[:0], self.constants, iter(lambda: 0, 1)).array(kind)
            return _lists(np.zeros((len(self.words), 0), dtype=bool), empty)
        count = len(self.words)
        within = np.stack(
            [slot.is_valid().to_numpy(zero_copy_only=False) for slot in slots], axis=1
        )
        places = np.arange(count)[:, np.newaxis] + count * np.arange(len(slots))[np.newaxis]
        every = pa.concat_arrays(slots)
        return _lists(within, every.take(pa.array(places[within])))


def _instances(key: Key, constants: Constants) -> list[str]:
    return [f"{key}{at}" for at in range(key.count(constants))]


def _where(present: Any, values: Any) -> Any:
    """The values, null where they aren't present."""
    return pc.if_else(pa.array(present), values, pa.scalar(None, values.type))


def _lists(within: Any, values: Any) -> Any:
    """A list for each row; `within` decides the number of its values."""
    offsets = np.concatenate([[0], np.cumsum(within.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _whole(low: int, high: int) -> Any:
    """The narrowest type for the numbers. It is signed, because Spark has no unsigned types."""
    for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32())):
        if -(1 << bits - 1) <= low and high < 1 << bits - 1:
            return kind
    return pa.int64()


# Batches ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expansion:
    """The data that a process needs to expand states: the code, the most successors of a state, the
    bytes of a packed state, and the names of rows.
    """

    code: Code
    most_successors: int
    stride: int
    rows: tuple[str, ...]


def states_schema(columns: Sequence[Column]) -> Any:
    """`level` (0 for initial states), then a field for each column."""
    return pa.schema([("level", pa.int32()), *_fields(columns)])


def transitions_schema(columns: Sequence[Column]) -> Any:
    """`level` (of the source), `row` (its name), `source` and `target` (structs of the columns)."""
    state = pa.struct(_fields(columns))
    return pa.schema(
        [("level", pa.int32()), ("row", pa.string()), ("source", state), ("target", state)]
    )


def _fields(columns: Sequence[Column]) -> list[Any]:
    return [pa.field(column.name, column.type) for column in columns]


def states(columns: Sequence[Column], levels: Any, words: Any) -> Any:
    """A batch of states: their levels, and the packed states as rows of words."""
    arrays = [pa.array(levels, pa.int32()), *(column.values(words) for column in columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=states_schema(columns))


def trace_schema(columns: Sequence[Column]) -> Any:
    """`step` (0 for the initial state), `actor`, `action` and `row` of the step that leads to the
    state, then a field for each column."""
    texts = [(name, pa.string()) for name in ("actor", "action", "row")]
    return pa.schema([("step", pa.int32()), *texts, *_fields(columns)])


def trace(columns: Sequence[Column], shown: Trace) -> Any:
    """A counterexample as a table: a row for its initial state, and for each step with its next
    state. A step that leaves a range has no next state: the columns are null.
    """
    parts = [None, *shown.steps]
    names = ("actor", "action", "row")
    rows = [
        {"step": at}
        | {name: getattr(step, name, None) for name in names}
        | (dict(shown.data[at]) if at < len(shown.data) else {})
        for at, step in enumerate(parts)
    ]
    return pa.Table.from_pylist(rows, schema=trace_schema(columns))


def transitions(columns: Sequence[Column], by: Expansion) -> Callable[[Any, Any], Iterable[Any]]:
    """A function that makes batches of the steps from states. The states are given by their levels
    and as rows of words."""
    kernel = Kernel(by.most_successors, by.code)
    expand = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(kernel.address)
    most = max(1, by.most_successors)
    rows, bad = np.zeros(most, dtype=np.uint32), np.zeros(2, dtype=np.uint64)
    noted = np.zeros(NOTES, dtype=np.int64)  # no flags are checked
    names = np.array(by.rows, dtype=object)
    schema = transitions_schema(columns)

    def structs(words: Any) -> Any:
        arrays = [column.values(words) for column in columns]
        return pa.StructArray.from_arrays(arrays, fields=list(schema.field("target").type))

    def steps(levels: Any, sources: Any) -> Any:
        out = np.zeros((most + 2) * by.stride, dtype=np.uint8)
        targets: list[Any] = []
        taken: list[Any] = []
        for source in np.ascontiguousarray(sources):
            places = (source, out, rows, bad, noted)
            first, into, *rest = (place.ctypes.data for place in places)
            count = expand(first, 1, into, *rest)
            targets.append(out[: count * by.stride].reshape(count, by.stride).copy())
            taken.append(rows[:count].copy())
        packed = np.concatenate(targets)
        words = np.zeros((len(packed), sources.shape[1] * 8), dtype=np.uint8)
        words[:, : by.stride] = packed
        each = np.repeat(np.arange(len(sources)), [len(found) for found in taken])
        return pa.RecordBatch.from_arrays(
            [
                pa.array(levels[each], pa.int32()),
                pa.array(names[np.concatenate(taken)], pa.string()),
                structs(sources[each]),
                structs(words.view(np.uint64)),
            ],
            schema=schema,
        )

    def batches(levels: Any, words: Any) -> Iterator[Any]:
        assert kernel is not None  # the engine owns the code
        for at in range(0, len(words), AT_ONCE):
            yield steps(levels[at : at + AT_ONCE], words[at : at + AT_ONCE])

    return batches
