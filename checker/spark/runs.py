"""Runs: Parquet files with the packed states of some levels of a shard, level by level.

A row is a state: its level, and its words (`w0`, `w1`, ...) as signed integers of 64 bits, of which
the last may have upper bytes that the packed state lacks. A row group is of one level, sorted by
the first word: so a state takes fewer bytes.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..sealed import Damaged, checksum
from .storage import Storage, StorageError

MERGED_AT = 8  # runs of like size that become one
MOST_MERGED = 1 << 20  # states of a run from which on it stays as it is


@dataclass(frozen=True)
class Run:
    """A file with the states of a shard's levels `first` to `last`, and its checksum."""

    file: str
    first: int
    last: int
    states: int
    size: int
    checksum: str

    def as_json(self) -> dict[str, Any]:
        """The run as plain data."""
        return asdict(self)


def columns(states: bytes, stride: int) -> list[Any]:
    """The words of packed states, a column each."""
    packed = np.frombuffer(states, dtype=np.uint8).reshape(-1, stride)
    padded = np.zeros((len(packed), -(-stride // 8) * 8), dtype=np.uint8)
    padded[:, :stride] = packed
    return list(padded.view("<i8").T)


def write_run(
    storage: Storage, shard: int, levels: Iterable[tuple[int, bytes]], stride: int
) -> Run:
    """Writes states, given in parts of one level each and in the order of levels."""
    words = [f"w{at}" for at in range(-(-stride // 8))]
    schema = pa.schema([("level", pa.int32()), *((name, pa.int64()) for name in words)])
    sink = pa.BufferOutputStream()
    numbers: list[int] = []
    count = 0
    writer_of: Any = parquet.ParquetWriter
    with writer_of(
        sink, schema, compression="none", use_dictionary=["level"], write_statistics=False,
        column_encoding=dict.fromkeys(words, "DELTA_BINARY_PACKED"),
    ) as writer:  # fmt: skip
        for level, states in levels:
            parts = columns(states, stride)
            order = np.argsort(parts[0])
            level_column = np.full(len(order), level, dtype=np.int32)
            table = pa.table([level_column, *(part[order] for part in parts)], schema)
            writer.write_table(table, row_group_size=len(order))
            numbers.append(level)
            count += len(order)
    content = sink.getvalue()
    first, last = numbers[0], numbers[-1]
    # a name of its own: what a task that died has left is never taken for what another wrote
    file = f"shard-{shard:03}/levels-{first:05}-{last:05}-{uuid.uuid4().hex[:8]}.parquet"
    storage.write(file, content)
    return Run(file, first, last, count, content.size, checksum(content))


def read_run(storage: Storage, run: Run, stride: int) -> Iterator[tuple[int, bytes]]:
    """A run's packed states, in parts of one level each. Raises Damaged."""
    try:
        content = storage.read(run.file)
    except StorageError as error:
        raise Damaged(str(error)) from None
    if len(content) != run.size or checksum(content) != run.checksum:
        raise Damaged(f"{run.file} isn't what was written: {len(content)} of {run.size} bytes")
    file = parquet.ParquetFile(pa.BufferReader(content))
    for group in range(file.num_row_groups):
        level, *parts = file.read_row_group(group).columns
        number = level[0].as_py()
        if run.first <= number <= run.last:
            whole = np.stack([part.to_numpy() for part in parts], axis=1)
            yield number, whole.view(np.uint8)[:, :stride].tobytes()


def to_merge(runs: list[Run]) -> int:
    """How many of the last runs should become one: each is smaller than the others together."""
    for first in range(max(0, len(runs) - MERGED_AT + 1)):
        sizes = [run.states for run in runs[first:]]
        if max(sizes) <= sum(sizes) - max(sizes) and sum(sizes) <= MOST_MERGED:
            return len(sizes)
    return 0
