"""Brokers' data directories of any size, judged on Spark: a task lists a directory or reads a
partition's folder, and records of several partitions are joined by producer id.

Every machine sees the directories, by the same path or URI. The driver receives the names of
partitions with a few numbers, counts, and some of the findings.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from ....model.judge.judge import Finding as Outcome
from ....model.judge.segments.across_partitions import (
    OfProducer,
    Scope,
    compare,
    is_from_start,
    of_folder,
    order,
    outcome,
    together,
)
from ....model.judge.segments.directories import (
    copies_behind,
    files_in,
    folders_in,
    partition_as_json,
    transactions_as_json,
    written_to,
)
from ....model.judge.segments.folder import Finding
from ....model.judge.segments.partition import read_partition
from ....model.judge.segments.policies import all_policies
from ....model.judge.segments.transactions import (
    CONTROLLERS,
    are_all,
    is_of_transactions,
    may_follow,
    read_transactions,
)
from ..options import SparkError
from ..session import reason, stage
from ..storage.files import StorageError
from ..storage.hadoop import Paths
from .places import place_of, text_of

FOLDERS = "folder string, name string"
FILES = f"{FOLDERS}, files string"
READ = "folder string, what string, producer long, told string, data binary"
"""`what` is a part, a finding, or what a folder has of a producer id. Of a part, `told` is what it
has as JSON; of a finding and a producer, `data` is it, pickled."""
BETWEEN = "matched long, unknown long, data binary"
FINDINGS = "file string, byte long, what string, damage boolean"
PARTS = "told string"
_PART, _FINDING, _PRODUCER = "part", "finding", "producer"
_ROWS = 1_000  # of a batch for Spark


@dataclass(frozen=True)
class Summary:
    """The result of all directories: the numbers of partitions, batches, markers with and without a
    decision to compare with, and findings, with the first findings.
    """

    outcome: Outcome
    partitions: int
    transaction_logs: int
    batches: int
    decided: int
    not_known: int
    count: int
    findings: Sequence[Finding]

    def as_json(self) -> dict[str, Any]:
        """The summary for JSON."""
        data = asdict(self) | {"outcome": self.outcome.name}
        data["findings"] = [_row(finding) for finding in self.findings]
        return data


def judge_on_spark(
    session: Any, directories: Sequence[Path], output: str, protocol: str | None,
    policies: Mapping[str, str] | None = None, most_told: int = 10,
) -> Summary:  # fmt: skip
    """Judges all partitions in these directories (`place_of` makes one of a URI), and writes a
    folder with `findings` and `partitions`, as Parquet. `policies` are those of `judge_segments`;
    the driver reads the controllers' log about them.

    `output` is a new folder, which doesn't exist after a failure. Raises OSError, SparkError, and
    DeclarationError for an unknown release.
    """
    may_follow("EMPTY", "EMPTY", protocol)  # checks the release before tasks start
    try:
        for directory in directories:
            next(iter(directory.iterdir()), None)
    except StorageError as error:
        raise SparkError(str(error)) from None
    with Paths(session).written(output) as folder:
        try:
            return _Judging(session, folder, protocol, policies).whole(directories, most_told)
        except Exception as error:  # various types, from Java and from Python
            raise SparkError(f"the directories can't be judged: {reason(error)}") from error


class _Judging:
    def __init__(
        self, session: Any, output: str, protocol: str | None, policies: Mapping[str, str] | None
    ) -> None:
        self.session, self.output = session, output
        self.protocol, self.policies = protocol, policies

    def whole(self, directories: Sequence[Path], most_told: int) -> Summary:
        """Reads the files, checks whether any was written meanwhile, and joins their data."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as f

        rows = [(text_of(directory.absolute()),) for directory in directories]
        given = self.session.createDataFrame(rows, "folder string").repartition(len(rows))
        listed = given.mapInArrow(_folders, FOLDERS).distinct().persist(StorageLevel.DISK_ONLY)
        is_of_controllers = f.col("name").rlike(f"^{CONTROLLERS}$")
        with stage(self.session, "segments: folders"):
            tasks = max(
                1, min(listed.count(), 64 * int(self.session.sparkContext.defaultParallelism))
            )
            controllers = listed.where(is_of_controllers).select("folder").collect()
        policies = all_policies((place_of(row[0]) for row in controllers), self.policies)
        every = listed.repartition(tasks, "folder")
        with stage(self.session, "segments: files before"):
            every.mapInArrow(_files, FILES).write.parquet(f"{self.output}/files")
        read = every.mapInArrow(partial(_read, self.protocol, policies), READ)
        read = read.persist(StorageLevel.DISK_ONLY)
        with stage(self.session, "segments: read"):
            parts = read.where(f.col("what") == _PART)
            numbers = parts.select(f.from_json("told", _NUMBERS).alias("n")).select("n.*")
            counted = self._counted(numbers)
        before = self.session.read.schema(FILES).parquet(f"{self.output}/files")
        written = before.mapInArrow(_written, FOLDERS).persist(StorageLevel.DISK_ONLY)
        with stage(self.session, "segments: files after"):
            others = f.when(~is_of_controllers, f.col("folder"))
            every_one = (f.count("folder"), f.count(others), f.min(others))
            is_any, how_many, first = written.agg(*every_one).collect()[0]
        findings = read.where(f.col("what") == _FINDING)
        if is_any:
            findings = findings.join(written.select("folder"), "folder", "left_anti")
        found, matched, unknown = findings.select("data"), 0, 0
        if how_many:
            one = [(pickle.dumps(written_to(place_of(first), how_many)),)]
            found = found.unionByName(self.session.createDataFrame(one, "data binary"))
        else:
            between = self._between(read, tasks).persist(StorageLevel.DISK_ONLY)
            with stage(self.session, "segments: between partitions"):
                sums = between.agg(f.sum("matched"), f.sum("unknown")).collect()[0]
            matched, unknown = (int(each or 0) for each in sums)
            found = found.unionByName(between.where(f.col("data").isNotNull()).select("data"))
        with stage(self.session, "segments: write"):
            table = found.mapInArrow(_as_rows, FINDINGS)
            table.write.parquet(f"{self.output}/findings")
            parts.select("told").write.parquet(f"{self.output}/partitions")
        return self._summary(counted, matched, unknown, most_told)

    def _counted(self, numbers: Any) -> Mapping[str, Any]:
        from pyspark.sql import functions as f

        is_log = f.col("decisions").isNotNull()
        return (
            numbers.agg(
                f.count(f.when(~is_log, 1)).alias("partitions"),
                f.count(f.when(is_log, 1)).alias("logs"),
                f.sum("batches").alias("batches"),
                f.count(f.when(is_log & ~f.col("whole"), 1)).alias("not_whole"),
            )
            .collect()[0]
            .asDict()
        )

    def _between(self, read: Any, tasks: int) -> Any:
        from pyspark.sql import functions as f

        scope = _scope(read.where(f.col("what") == _PART))
        of = read.where(f.col("what") == _PRODUCER).select("producer", "folder", "data")
        of = of.repartition(tasks, "producer").sortWithinPartitions("producer", "folder")
        return of.mapInArrow(partial(_compare, scope), BETWEEN)

    def _summary(
        self, counted: Mapping[str, Any], matched: int, unknown: int, most_told: int
    ) -> Summary:
        from pyspark.sql import functions as f

        written = self.session.read.schema(FINDINGS).parquet(f"{self.output}/findings")
        is_wrong = f.when(~f.col("damage"), 1)
        count, wrong = written.agg(f.count("file"), f.count(is_wrong)).collect()[0]
        first = written.orderBy("damage", "file", f.coalesce("byte", f.lit(-1)), "what")
        found = outcome(
            contradicts=bool(wrong),
            complains=bool(count),
            is_whole=not counted["not_whole"] and not unknown,
            is_there=bool(counted["partitions"] or counted["logs"]),
        )
        return Summary(
            found, counted["partitions"], counted["logs"], int(counted["batches"] or 0), matched,
            unknown, count,
            [
                Finding(place_of(row["file"]), row["byte"], row["what"], row["damage"])
                for row in first.limit(most_told).collect()
            ],
        )  # fmt: skip


_NUMBERS = (
    "batches long, decisions long, whole boolean, has_newest boolean, spread string, end long"
)


def _scope(parts: Any) -> Scope:
    """The comparable parts. The driver gets the name and a few numbers of each folder."""
    from pyspark.sql import functions as f

    numbers = f.from_json("told", _NUMBERS).alias("n")
    rows = parts.select("folder", "producer", numbers).orderBy("folder").collect()
    places = [(place_of(row["folder"]), row) for row in rows]
    logs = [(folder.name, row["n"]) for folder, row in places if row["n"]["spread"] is not None]
    others = [(folder, row) for folder, row in places if row["n"]["spread"] is None]
    from_start: dict[str, list[Path]] = {}
    for folder, row in others:
        if row["producer"] == 1:
            from_start.setdefault(folder.name, []).append(folder)
    return Scope(
        from_start,
        copies_behind((folder.name, folder, row["n"]["end"]) for folder, row in others),
        is_whole=bool(logs) and all(n["whole"] for _, n in logs),
        has_newest=bool(logs) and all(n["has_newest"] for _, n in logs),
        has_all=are_all((name, int(n["spread"])) for name, n in logs),
    )


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "file": str(finding.file),
        "byte": finding.byte,
        "what": finding.what,
        "damage": finding.is_damage,
    }


def _column(batches: Iterable[Any], name: str) -> Iterator[Any]:
    for batch in batches:
        yield from batch.column(name).to_pylist()


def _rows(rows: Iterable[Mapping[str, Any]], schema: Any) -> Iterator[Any]:
    """Rows as batches of Arrow's."""
    waiting: list[Any] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting = []
    yield pa.RecordBatch.from_pylist(waiting, schema)


def _schema(text: str) -> Any:
    return pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, text.split(", "))])


_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}


def _folders(batches: Iterable[Any]) -> Iterator[Any]:
    """The folders of partitions in directories, as rows of FOLDERS."""
    directories = map(place_of, _column(batches, "folder"))
    found = folders_in(directories)
    rows = ({"folder": text_of(folder), "name": folder.name} for folder in found)
    return _rows(rows, _schema(FOLDERS))


def _files(batches: Iterable[Any]) -> Iterator[Any]:
    """The present files of each folder, as rows of FILES."""
    places = map(place_of, _column(batches, "folder"))
    rows = (
        {"folder": text_of(place), "name": place.name, "files": _files_now(place)}
        for place in places
    )
    return _rows(rows, _schema(FILES))


def _files_now(folder: Path) -> str:
    return json.dumps(files_in(folder), sort_keys=True)


def _written(batches: Iterable[Any]) -> Iterator[Any]:
    """The folders in rows of FILES whose files have changed."""
    rows = (
        {"folder": folder, "name": name}
        for batch in batches
        for folder, name, files in zip(*(one.to_pylist() for one in batch.columns), strict=True)
        if _files_now(place_of(folder)) != files
    )
    return _rows(rows, _schema(FOLDERS))


def _read(
    protocol: str | None, policies: Mapping[str, str], batches: Iterable[Any]
) -> Iterator[Any]:
    """The content of each folder, as rows of READ. The producer of a part is 1 if the part is
    complete from its start, else 0.
    """

    def rows() -> Iterator[Mapping[str, Any]]:
        for folder in _column(batches, "folder"):
            path = place_of(folder)
            if is_of_transactions(path):
                part = read_transactions(path, protocol)
                content, flag = transactions_as_json(part), 0
            else:
                part = read_partition(path, protocol, policies)
                content, flag = partition_as_json(part), int(is_from_start(part))
            yield {"folder": folder, "what": _PART, "producer": flag, "told": json.dumps(content)}
            for finding in part.findings:
                yield {"folder": folder, "what": _FINDING, "data": pickle.dumps(finding)}
            for producer_id, of in of_folder(part).items():
                yield {
                    "folder": folder,
                    "what": _PRODUCER,
                    "producer": producer_id,
                    "data": pickle.dumps(of),
                }

    return _rows(rows(), _schema(READ))


def _compare(scope: Scope, batches: Iterable[Any]) -> Iterator[Any]:
    """Compares the data of folders, sorted by producer id; yields rows of BETWEEN."""

    def rows() -> Iterator[Mapping[str, Any]]:
        sorted_ = (
            row
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        for _, parts in groupby(sorted_, key=itemgetter(0)):
            of = together(cast("OfProducer", pickle.loads(data)) for *_, data in parts)
            between = compare(of, scope)
            yield {"matched": between.matched, "unknown": between.unknown}
            for finding in sorted(between.findings, key=order):
                yield {"matched": 0, "unknown": 0, "data": pickle.dumps(finding)}

    return _rows(rows(), _schema(BETWEEN))


def _as_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """Findings as rows of FINDINGS."""
    found = (cast("Finding", pickle.loads(data)) for data in _column(batches, "data"))
    return _rows(map(_row, found), _schema(FINDINGS))
