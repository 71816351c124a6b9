"""Decodes whole folders of a broker's files into a Spark DataFrame."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ....model.records.batch import LIMIT
from ....model.records.codec.errors import RecordError
from ....model.records.files import Kind, Row, kind_of, read_stream
from ....model.records.report import json_line
from ..options import SparkError
from ..storage.files import Storage

ROWS = 2_000  # of a batch for Spark
_NAMED = {
    "offset": pa.int64(), "last_offset": pa.int64(), "timestamp": pa.int64(),
    "producer_id": pa.int64(), "producer_epoch": pa.int32(), "base_sequence": pa.int32(),
    "transactional": pa.bool_(), "control": pa.bool_(), "transactional_id": pa.string(),
    "state": pa.string(), "result": pa.string(), "coordinator_epoch": pa.int32(),
    "key": pa.binary(), "value": pa.binary(),
}  # fmt: skip
SCHEMA = pa.schema(
    [("file", pa.string()), ("kind", pa.string()), ("byte", pa.int64()), ("what", pa.string()),
     *_NAMED.items(), ("fields", pa.string()), ("error", pa.string())]
)  # fmt: skip


def decode(session: Any, uri: str, limit: int = LIMIT) -> Any:
    """The content of log segments, snapshots and transaction indexes in a folder and its
    subfolders.

    A row is an item of `epochfence decode`: its `file`, the `kind` of file, its `byte` offset and
    `what` it is. Common fields have columns, which may be null; all fields are in `fields`, as
    JSON. An error is a row as well, with `what` "error" and the `error`. Files with unknown names
    are skipped. `uri` is a path, or the URI of a file system that Arrow knows. A batch larger than
    `limit` bytes is an error as well. Raises SparkError, StorageError.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    storage = Storage(uri)
    found: list[tuple[str, str]] = []
    for name in sorted(storage.sizes()):
        with suppress(ValueError):
            found.append((name, kind_of(Path(storage.root, name)).value))
    if not found:
        raise SparkError(f"{uri} holds no file that ends in .log, .snapshot or .txnindex")
    files = session.createDataFrame(found, "file string, kind string").repartition(len(found))
    return files.mapInArrow(partial(_decode, storage, limit), from_arrow_schema(SCHEMA))


def _decode(storage: Storage, limit: int, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for name, kind in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            path = f"{storage.root}/{name}"
            with storage.fs.open_input_file(path) as file:
                rows = (_row(path, kind, item) for item in read_stream(file, Kind(kind), limit))
                while part := list(islice(rows, ROWS)):
                    yield pa.RecordBatch.from_pylist(part, SCHEMA)


def _row(path: str, kind: str, item: Row | RecordError) -> dict[str, Any]:
    row: dict[str, Any] = {"file": path, "kind": kind, "fields": json_line(item)}
    if isinstance(item, RecordError):
        return row | {"byte": item.at, "what": "error", "error": str(item)}
    named = {name: value for name, value in item.fields.items() if name in _NAMED}
    return {**named, **row, "byte": item.byte, "what": item.what}
