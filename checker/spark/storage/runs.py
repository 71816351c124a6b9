"""Runs: Parquet files with the packed states of some levels of a shard, level by level.

A row is a state: its level, and the packed state. A row group holds one level.
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

from ....checksums import DamagedError, checksum
from ...native.store.part_plan import WHOLE
from .files import Storage, StorageError

MERGED_AT = 8  # runs of similar size that are merged
MOST_MERGED = 1 << 20  # most states of a merged run


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
        """The run for JSON."""
        return asdict(self)


def write_run(storage: Storage, shard: int, levels: Iterable[tuple[int, Any]], stride: int) -> Run:
    """Writes packed states, given as bytes in parts of one level each and in the order of levels.

    Compression reduces long states to a quarter, but short ones little."""
    state = pa.binary(stride)
    columns = (
        pa.field("level", pa.int32(), nullable=False),
        pa.field("state", state, nullable=False),
    )
    schema = pa.schema(columns)
    sink = pa.BufferOutputStream()
    numbers: list[int] = []
    count = 0
    writer_of: Any = parquet.ParquetWriter
    with writer_of(
        sink,
        schema,
        compression="none" if stride <= WHOLE else "zstd",
        use_dictionary=["level"],
        write_statistics=False,
    ) as writer:
        for level, states in levels:
            several = len(states) // stride
            column = pa.FixedSizeBinaryArray.from_buffers(
                state, several, [None, pa.py_buffer(states)]
            )
            table = pa.table([np.full(several, level, dtype=np.int32), column], schema)
            writer.write_table(table, row_group_size=several)
            numbers.append(level)
            count += several
    content = sink.getvalue()
    first, last = numbers[0], numbers[-1]
    # a unique name: a dead task's file is never confused with another one
    file = f"shard-{shard:03}/levels-{first:05}-{last:05}-{uuid.uuid4().hex[:8]}.parquet"
    storage.write(file, content)
    return Run(file, first, last, count, content.size, checksum(content))


def read_run(storage: Storage, run: Run, stride: int) -> Iterator[tuple[int, bytes]]:
    """A run's packed states, in parts of one level each. Raises DamagedError."""
    try:
        content = storage.read(run.file)
    except StorageError as error:
        raise DamagedError(str(error)) from None
    if len(content) != run.size or checksum(content) != run.checksum:
        raise DamagedError(f"{run.file} is damaged: {len(content)} of {run.size} bytes")
    file = parquet.ParquetFile(pa.BufferReader(content))
    for group in range(file.num_row_groups):
        level, column = file.read_row_group(group).columns
        number = level[0].as_py()
        if run.first <= number <= run.last:
            yield number, packed_in(column.combine_chunks())


def packed_in(states: Any) -> bytes:
    """The packed states in an Arrow array, contiguous."""
    stride = states.type.byte_width
    first, end = states.offset * stride, (states.offset + len(states)) * stride
    return states.buffers()[1][first:end].to_pybytes()


def to_merge(runs: list[Run]) -> int:
    """The number of last runs to merge: each is smaller than the others together."""
    for first in range(max(0, len(runs) - MERGED_AT + 1)):
        sizes = [run.states for run in runs[first:]]
        if max(sizes) <= sum(sizes) - max(sizes) and sum(sizes) <= MOST_MERGED:
            return len(sizes)
    return 0
