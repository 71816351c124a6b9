"""Recorded histories of any size, judged on Spark: read, checked, grouped by key and judged.

Spark reads, sorts, groups and writes. One task gets each key's operations in the order of their
starts; there `model.judge.judge` judges them, or `model.judge.windows` if they are very many. A
partition's operations follow those of its transactional ids: ids with a producer id in the
partition's lines, or with a request that adds the partition.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, groupby, islice, starmap
from operator import itemgetter
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ....model.engine.errors import ModelError
from ....model.judge.histories import BadLineError, kind_of, operation_of, read_line, schema_of
from ....model.judge.judge import Finding, Judgement, begin, judge, worst
from ....model.judge.machines.decisions import OFFSETS, AtPartition, Decisions
from ....model.judge.operations import Operation, Settings
from ....model.judge.verdicts import EXCERPT
from ....model.judge.windows import WINDOW, distinct, judge_windows
from ..options import SparkError
from ..session import reason, stage
from ..storage.hadoop import LOCAL, Paths, local
from . import progress

TRANSACTIONAL_ID = "transactional_id "  # the prefix of the keys of transactional ids
NEVER_SPLIT = 1 << 22  # most bytes of a text file that Spark doesn't split
ROWS = 1_000  # of a batch for Spark

NUMBERED = "file string, line long, text binary"
LOOKED_AT = "reason string, key string, start double, ties array<string>"
CHECKED = f"{NUMBERED}, {LOOKED_AT}"
VERDICTS = (
    "finding string, key string, operations long, answers long, configurations long, "
    "file string, line long, request string, response string, allowed array<string>, "
    "against string, reason string"
)
REJECTED = "file string, line long, reason string, text string"
INVALID = "INVALID"


@dataclass(frozen=True)
class Judging:
    """The options of the judge. `limit` bounds the steps of a search. A key with at least `window`
    operations is judged in windows of this size.
    """

    settings: Settings = field(default_factory=Settings)
    limit: int = 1_000_000
    window: int = WINDOW


@dataclass(frozen=True)
class Summary:
    """The result of all histories: keys and operations of each finding, rejected lines, and some of
    the unexplained findings and rejected lines, as rows of the two outputs.
    """

    keys: Mapping[str, int]
    operations: int
    rejected: int
    faults: Sequence[Mapping[str, Any]] = field(default=())
    bad_lines: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def finding(self) -> str:
        """The worst finding. An invalid history is worse only than an empty one."""
        invalid = self.rejected or INVALID in self.keys
        found = worst(Finding[name] for name in self.keys if name != INVALID)
        if invalid and found in (Finding.UNJUDGED, Finding.EXPLAINED):
            return INVALID
        return found.name

    @property
    def exit_code(self) -> int:
        """The exit code of the worst finding; 2 if a line is no operation."""
        return 2 if self.finding == INVALID else Finding[self.finding].exit_code

    def as_json(self) -> dict[str, Any]:
        """The summary for JSON."""
        return {"finding": self.finding, "exit_code": self.exit_code, **asdict(self)}


# Reading -----------------------------------------------------------------------------------------


def read(session: Any, uris: Sequence[str]) -> Any:
    """The lines of files and folders as a DataFrame of `CHECKED`.

    `.parquet` is Parquet; any other file is text with a JSON object in each line. `reason` is null
    for a good line, `key` for a bad one. For Parquet, a line is a row, converted to JSON. Raises
    SparkError.
    """
    paths = Paths(session)
    sizes = {file: size for uri in uris for file, size in paths.files(uri).items()}
    tables = [file for file in sizes if file.endswith(".parquet")]
    texts = {file: size for file, size in sizes.items() if not file.endswith(".parquet")}
    parts = [_texts(session, texts)] if texts else []
    if tables:
        parts.append(_tables(session, tables).mapInArrow(_check, CHECKED))
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _texts(session: Any, sizes: Mapping[str, int]) -> Any:
    """Checked lines of texts. Spark splits large files: each split's lines are counted first."""
    from pyspark.sql import functions as f

    metadata = f.col("_metadata")
    lines = (
        session.read.option("lineSep", "\n")
        .text(list(sizes))
        .select(
            metadata["file_path"].alias("file"),
            metadata["file_block_start"].alias("block"),
            f.col("value").cast("binary").alias("text"),
        )
    )
    before: dict[tuple[str, int], int] = {}
    if max(sizes.values()) > NEVER_SPLIT:
        with stage(session, "histories: count lines"):
            blocks = lines.groupBy("file", "block").count().orderBy("file", "block").collect()
        for _, of_file in groupby(blocks, key=itemgetter(0)):
            passed = 0
            for file, block, count in of_file:
                before[file, block] = passed
                passed += count
    cores = int(session.sparkContext.defaultParallelism)
    if sum(sizes.values()) > NEVER_SPLIT and lines.rdd.getNumPartitions() < cores:
        # compressed files can't be split
        numbered = lines.mapInArrow(partial(_number, before), NUMBERED)
        return numbered.repartition(4 * cores).mapInArrow(_check, CHECKED)
    return lines.mapInArrow(partial(_number_and_check, before), CHECKED)


def _number_and_check(
    before: Mapping[tuple[str, int], int], batches: Iterable[Any]
) -> Iterator[Any]:
    """Numbers and checks lines in one task: passing lines to another task is slower than numbering
    them.
    """
    return _check(_number(before, batches))


def _number(before: Mapping[tuple[str, int], int], batches: Iterable[Any]) -> Iterator[Any]:
    """Numbers lines, as rows of `NUMBERED`. The lines of a split come in order."""
    passed = dict(before)
    for batch in batches:
        files, blocks, texts = batch.columns
        numbers = np.empty(len(batch), dtype=np.int64)
        names: list[str] = []
        start = 0
        for end in _ends(files, blocks):
            split = files[start].as_py(), blocks[start].as_py()
            first, count = passed.get(split, 0) + 1, end - start
            numbers[start:end] = np.arange(first, first + count)
            passed[split] = first + count - 1
            names += [local(split[0])] * count
            start = end
        columns = [pa.array(names, pa.string()), pa.array(numbers), texts]
        yield pa.RecordBatch.from_arrays(columns, ["file", "line", "text"])


def _ends(files: Any, blocks: Any) -> list[int]:
    """The index of the end of each split's rows."""
    changes = np.diff(files.dictionary_encode().indices) | np.diff(blocks)
    return [*(np.flatnonzero(changes) + 1).tolist(), len(files)] if len(files) else []


def _tables(session: Any, files: list[str]) -> Any:
    """Rows of Parquet files as lines of JSON, without null values."""
    from pyspark.sql import functions as f

    reader = session.read.option("mergeSchema", True)
    try:
        table = reader.parquet(*files)
    except Exception as error:  # various types, from Java
        also = " and the other Parquet files" if len(files) > 1 else ""
        raise SparkError(f"can't read {files[0]}{also}: {reason(error)}") from None
    _look_at(table.schema, files[0])
    metadata = f.col("_metadata")
    return table.select(
        f.regexp_replace(metadata["file_path"], LOCAL, "/").alias("file"),
        (metadata["row_index"] + 1).alias("line"),
        f.to_json(f.struct(*table.columns)).cast("binary").alias("text"),
    )


def _look_at(schema: Any, file: str) -> None:
    """Raises SparkError for columns that a history doesn't have."""
    known = columns()
    for column in schema:
        kinds = known.get(column.name)
        if kinds is None:
            names = ", ".join(known)
            raise SparkError(f"{file}: a history has no column {column.name}: it has {names}")
        kind = _KINDS.get(column.dataType.typeName(), column.dataType.typeName())
        if not (kinds & {kind, "number" if kind == "integer" else kind}):
            raise SparkError(
                f"{file}: column {column.name} is {column.dataType.simpleString()}, and should be "
                f"{' or '.join(sorted(kinds - {'null'}))}"
            )
    for name in ("request", "start"):
        if name not in schema.names:
            raise SparkError(f"{file}: it lacks the column {name}")


_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    "struct": "object",
}


def columns() -> dict[str, set[str]]:
    """The names of a history's columns, with the allowed kinds of JSON values."""
    found: dict[str, set[str]] = {}
    for definition in schema_of("history")["definitions"].values():
        for name, one in definition["properties"].items():
            kinds = one.get("type", "string")
            found.setdefault(name, set()).update([kinds] if isinstance(kinds, str) else kinds)
    return found


def _check(batches: Iterable[Any]) -> Iterator[Any]:
    """Rows of `NUMBERED` as rows of `CHECKED`; empty lines are left out."""
    for batch in batches:
        found: list[LookedAt] = []
        filled: list[bool] = []
        for file, number, text in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            filled.append(bool(text.strip()))
            if filled[-1]:
                found.append(_looked_at(file, number, text))
        rows = batch if all(filled) else batch.filter(pa.array(filled))
        yield pa.RecordBatch.from_arrays(
            [*rows.columns, *_arrays(found, _LOOKED_AT)], schema=_CHECKED
        )


LookedAt = tuple[str | None, str | None, float | None, list[str] | None]


def _looked_at(file: str, number: int, text: bytes) -> LookedAt:
    """A line's reason, key, start, and the link of its key to others."""
    try:
        line = read_line(file, number, text, "history")
        run = f" of run {line['run']}" if "run" in line else ""
        key, operation = operation_of(file, number, line)
    except BadLineError as error:
        return error.reason, None, None, None
    if key.startswith(TRANSACTIONAL_ID):
        ids = [(operation.response or {}).get("producer_id", -1)]
        ties = [f"partition {name}{run}" for name in operation.fields.get("partitions", ())]
    else:
        ids, ties = [operation.fields.get("producer_id", -1)], [key]
    ties += [f"producer {each}{run}" for each in ids if each >= 0]
    return None, key, float(operation.start), ties


# Judging -----------------------------------------------------------------------------------------


def judge_keys(
    session: Any, checked: Any, judging: Judging, tally: progress.Tally | None = None
) -> Any:
    """The verdict on each key in the good lines of `read`, as a DataFrame of `VERDICTS`. Tasks
    report to the `tally`.
    """
    from pyspark.sql import functions as f

    parts = 4 * max(checked.rdd.getNumPartitions(), int(session.sparkContext.defaultParallelism))
    good = checked.where(f.col("reason").isNull())
    own = good.select("key", f.lit("").alias("of"), "start", "file", "line", "text")
    by_key = own.unionByName(_of_others(good)).repartition(parts, "key")
    # keys share long prefixes: comparing hashes is faster
    order = (f.xxhash64("key"), "key", f.col("of") == "", "start", "file", "line")
    by_key = by_key.sortWithinPartitions(*order).select("key", "of", "file", "line", "text")
    return by_key.mapInArrow(partial(_judge, judging, tally=tally), VERDICTS)


def _of_others(good: Any) -> Any:
    """The lines of transactional ids, once for each related partition: `key` is the partition's
    key, `of` the id's.
    """
    from pyspark.sql import functions as f

    ties = good.select("key", f.explode("ties").alias("tie")).distinct()
    is_id = f.col("key").startswith(TRANSACTIONAL_ID)
    of_ids = ties.where(is_id).withColumnRenamed("key", "of")
    pairs = ties.where(~is_id).join(of_ids, "tie").select("key", "of")
    # if two ids got one producer id, the partition needs the lines of both
    producers = of_ids.where(f.col("tie").startswith("producer "))
    others = producers.withColumnRenamed("of", "other")
    shared = producers.join(others, "tie").where(f.col("of") != f.col("other"))
    more = pairs.join(shared, "of").select("key", f.col("other").alias("of"))
    pairs = pairs.unionByName(more).distinct()
    lines = good.where(is_id).withColumnRenamed("key", "of")
    return lines.join(pairs, "of").select("key", "of", "start", "file", "line", "text")


def _judge(
    judging: Judging, batches: Iterable[Any], tally: progress.Tally | None = None
) -> Iterator[Any]:
    """Judges rows that are sorted by key and start, with those of other keys first. Yields rows of
    `VERDICTS`.
    """
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    verdicts = (_verdict(judging, key, lines) for key, lines in groupby(rows, key=itemgetter(0)))
    while part := list(islice(verdicts, ROWS)):
        if tally is not None:
            for _, key, operations, *_ in part:
                tally.add(key, operations or 0)
        yield _batch(part, _VERDICTS)


def _verdict(judging: Judging, key: str, lines: Iterator[Any]) -> tuple[Any, ...]:
    ids: dict[str, list[Operation]] = {}
    first = next(lines)
    while first[1]:
        name = json.loads(first[-1])["transactional_id"]
        ids.setdefault(name, []).append(_operation(*first))
        first = next(lines)
    line = json.loads(first[-1])
    log = OFFSETS if kind_of(line) == "group_id" else line.get("partition")
    about = None if log is None else Decisions(ids, judging.settings.protocol).at(log)
    coming = starmap(_operation, chain([first], lines))
    operations = list(islice(coming, judging.window))
    try:
        if len(operations) < judging.window:
            found = judge(operations, judging.settings, judging.limit, about=about)
        else:
            found = _judge_many(judging, chain(operations, coming), about)
    except ModelError as error:
        return (INVALID, key, *[None] * 9, str(error))
    return _row(key, found)


def _judge_many(
    judging: Judging, operations: Iterable[Operation], about: AtPartition | None
) -> Judgement:
    """Judges a long history: it is written to a file and read twice."""
    with TemporaryFile() as file:
        seen = distinct(_written(operations, file), about)
        file.seek(0)
        return judge_windows(
            _read(file), seen, judging.settings, judging.limit, judging.window, about
        )


def _written(operations: Iterable[Operation], file: IO[bytes]) -> Iterator[Operation]:
    for operation in operations:
        pickle.dump(operation, file)
        yield operation


def _read(file: IO[bytes]) -> Iterator[Operation]:
    with suppress(EOFError):
        while True:
            yield pickle.load(file)


def _operation(_: str, __: str, file: str, number: int, text: bytes) -> Operation:
    # `_check` has validated the line with `strict_json`
    return operation_of(file, number, json.loads(text))[1]


def _row(key: str, found: Judgement) -> tuple[Any, ...]:
    operation = found.operation
    first = (None,) * 4
    if operation is not None:
        request = {"request": operation.request, **operation.fields}
        first = (
            operation.file,
            operation.line,
            json.dumps(request),
            json.dumps(operation.response),
        )
    allowed = [json.dumps(answer) for answer in found.allowed]
    hint = EXCERPT if found.may_be_excerpt else None
    return (
        found.finding.name, key, found.operations, found.answers, found.configurations,
        *first, allowed, found.against or None, found.note or hint,
    )  # fmt: skip


def _batch(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    return pa.RecordBatch.from_arrays(_arrays(rows, schema), schema=schema)


def _arrays(rows: Sequence[tuple[Any, ...]], schema: Any) -> list[Any]:
    found = zip(*rows, strict=True) if rows else [()] * len(schema)
    return [pa.array(column, of.type) for column, of in zip(found, schema, strict=True)]


_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
}
_CHECKED, _LOOKED_AT, _VERDICTS = (
    pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, given.split(", "))])
    for given in (CHECKED, LOOKED_AT, VERDICTS)
)


# A job -------------------------------------------------------------------------------------------


def judge_histories(
    session: Any, inputs: Sequence[str], output: str, judging: Judging, most_told: int = 10,
    say: progress.Say | None = None,
) -> Summary:  # fmt: skip
    """Judges the histories in files and folders, and writes a folder with `verdicts`, Parquet
    partitioned by finding, and `rejected`, the lines that are none, with file, line and reason.
    `say` gets the sizes before the start, and then a line of progress every few seconds.

    `output` is a new folder, which doesn't exist after a failure. Raises SparkError, and
    DeclarationError for an unknown release.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    begin((), judging.settings)
    with Paths(session).written(output) as folder:
        try:
            # persisted: used for sizes, for keys and for rejected lines
            checked = read(session, inputs).persist(StorageLevel.DISK_ONLY)
            tally, shown = None, nullcontext()
            if say is not None:
                with stage(session, "histories: sizes"):
                    sizes = progress.sizes_of(checked.where(f.col("reason").isNull()))
                context = session.sparkContext
                local = progress.free_here() if context.master.startswith("local") else None
                for line in progress.opening(sizes, int(context.defaultParallelism), local):
                    say(line)
                tally = progress.tally_of(context, sizes)
                shown = progress.shown(session, sizes, tally, say)
            with stage(session, progress.STAGE), shown:
                judged = judge_keys(session, checked, judging, tally)
                judged.write.partitionBy("finding").parquet(f"{folder}/verdicts")
            bad = checked.where(f.col("reason").isNotNull())
            text = f.make_valid_utf8(f.col("text").cast("string")).alias("text")
            with stage(session, "histories: set aside"):
                bad.select("file", "line", "reason", text).write.parquet(f"{folder}/rejected")
            checked.unpersist()
            with stage(session, "histories: summary"):
                return _summary(session, folder, most_told)
        except SparkError:
            raise
        except Exception as error:  # various types, from Java and from Python
            raise SparkError(f"histories can't be judged: {reason(error)}") from error


def _summary(session: Any, folder: str, most_told: int) -> Summary:
    from pyspark.sql import functions as f

    verdicts = session.read.schema(VERDICTS).parquet(f"{folder}/verdicts")
    rejected = session.read.schema(REJECTED).parquet(f"{folder}/rejected")
    by_finding = verdicts.groupBy("finding").agg(f.count("key"), f.sum("operations")).collect()
    faults = verdicts.where(f.col("finding") != Finding.EXPLAINED.name)
    is_unjudged = f.col("finding") == Finding.UNJUDGED.name
    faults = faults.orderBy(is_unjudged, f.desc("finding"), "key").limit(most_told).collect()
    bad_lines = rejected.orderBy("file", "line").limit(most_told).collect()
    return Summary(
        {finding: int(keys) for finding, keys, _ in by_finding},
        sum(int(operations or 0) for *_, operations in by_finding),
        int(rejected.count()),
        [row.asDict() for row in faults],
        [row.asDict() for row in bad_lines],
    )
