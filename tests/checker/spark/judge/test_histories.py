"""Histories that Spark judges come to what the judge says of each; what is no history is kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from epochfence.checker.spark.judge import histories
from epochfence.checker.spark.judge.histories import Judging, columns, judge_histories
from epochfence.checker.spark.judge.progress import Tally
from epochfence.checker.spark.options import SparkError
from epochfence.checker.spark.storage.hadoop import Paths
from epochfence.model.judge.histories import operation_of, read_history, read_runs
from epochfence.model.judge.judge import Finding, judge
from epochfence.model.judge.operations import Operation, Settings
from epochfence.model.judge.verdicts import judge_run
from epochfence.tests.cli.test_cli import Ended, epochfence
from epochfence.tests.model.judge.damage import DAMAGES, honest
from epochfence.tests.model.judge.machines.test_group import steady as group_run
from epochfence.tests.model.judge.test_judge import Recorder, coordinator_run, leader_run

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "histories"
SETTINGS = Settings(protocol="3.6")
Row = dict[str, Any]


def line_of(operation: Operation, key: str) -> Row:
    """An operation as a line of a history."""
    kind = "partition" if operation.request == "Produce" else "transactional_id"
    line = {"request": operation.request, kind: key, **operation.fields, "start": operation.start}
    if operation.end is not None:
        line |= {"end": operation.end, "response": dict(operation.response or {})}
    return line


def recorded(keys: int, steps: int) -> list[Row]:
    """Lines of several partitions and transactional ids; every third has a wrong answer."""
    lines: list[Row] = []
    for at in range(keys):
        random = Random(at)
        run = leader_run if at % 2 else coordinator_run
        history = run(Recorder(random, overlap=0.4), "3.6", steps)
        good = [x for x, o in enumerate(history) if o.response and o.response["error"] == "NONE"]
        if at % 3 == 0 and good:
            wrong = {"base_offset": 10_000} if at % 2 else {"producer_epoch": 77}
            one = history[good[-1]]
            if wrong.keys() <= (one.response or {}).keys():
                history[good[-1]] = one._replace(response={**(one.response or {}), **wrong})
        lines += [line_of(operation, f"key-{at}") for operation in history]
    Random(0).shuffle(lines)
    return lines


def write(path: Path, lines: list[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(lines, typed(lines)), path)
    else:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def typed(lines: list[Row]) -> pa.Schema:
    """The columns that lines have, those of responses beside them."""
    ends = pa.struct([("error", pa.string()), ("producer_id", pa.int64()),
                      ("producer_epoch", pa.int16()), ("base_offset", pa.int64())])  # fmt: skip
    kinds = {"number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(),
             "array": pa.list_(pa.string()), "object": ends, "string": pa.string()}  # fmt: skip
    names = {name for line in lines for name in line}
    known = {name: (found - {"null"}).pop() for name, found in columns().items()}
    return pa.schema([(name, kinds[known[name]]) for name in known if name in names])


def verdicts(spark: Any, folder: Path) -> dict[str, tuple[Any, ...]]:
    rows = spark.read.parquet(str(folder / "verdicts")).collect()
    return {row.key: (row.finding, row.operations, row.file, row.line) for row in rows}


def expected(*files: Path) -> dict[str, tuple[Any, ...]]:
    """What the judge says of each key by itself."""
    found: dict[str, tuple[Any, ...]] = {}
    for key, operations in read_history(files).items():
        told = judge(operations, SETTINGS)
        first = told.operation
        where = (first.file, first.line) if first else (None, None)
        found[key] = (told.finding.name, told.operations, *where)
    return found


# With Spark --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_lines_and_rows_of_all_kinds_of_files_are_judged_or_set_aside(
    spark: Any, tmp_path: Path
) -> None:
    lines = recorded(8, 8)
    half = len(lines) // 2
    text = write(tmp_path / "in" / "a.jsonl", lines[:half])
    with text.open("ab") as file:
        file.write(b'\n{"request": "EndTxn"}\r\n\xff\xfe\nno\n')
    table = write(tmp_path / "in" / "deep" / "b.parquet", [*lines[half:], {"request": "Produce"}])
    (tmp_path / "in" / "_SUCCESS").write_text("not looked at")
    found = judge_histories(
        spark, [str(tmp_path / "in")], str(tmp_path / "new" / "out"), Judging(SETTINGS)
    )
    # the same lines where they are all in one file: only places differ
    as_lines = expected(write(tmp_path / "all.jsonl", lines))
    told = verdicts(spark, tmp_path / "new" / "out")
    assert {key: one[:2] for key, one in told.items()} == {k: v[:2] for k, v in as_lines.items()}
    assert {one[0] for one in told.values()} == {"EXPLAINED", "UNEXPLAINED"}
    all_lines = {str(text): lines[:half], str(table): lines[half:]}
    for key, (finding, _, file, number) in told.items():
        if finding == "UNEXPLAINED":
            _, whole, line = as_lines[key][1:]
            assert all_lines[file][number - 1] == lines[line - 1], whole
    assert (found.finding, found.exit_code) == ("UNEXPLAINED", 12)
    assert found.operations == len(lines)
    assert sum(found.keys.values()) == 8
    rejected = spark.read.parquet(str(tmp_path / "new" / "out" / "rejected")).collect()
    bad = {(row.file, row.line): row.reason for row in rejected}
    assert bad.keys() == {
        *((str(text), half + at) for at in (2, 3, 4)),
        (str(table), len(lines) - half + 1),
    }
    assert "not valid JSON" in bad[str(text), half + 3]
    assert "must contain" in bad[str(text), half + 2]
    assert found.rejected == len(bad)
    folders = {path.name for path in (tmp_path / "new" / "out" / "verdicts").glob("finding=*")}
    assert folders == {"finding=EXPLAINED", "finding=UNEXPLAINED"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.long
def test_a_hot_key_in_a_file_of_many_splits(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = leader_run(Recorder(Random(5), overlap=0.4), "2.5", 60)
    lines = [line_of(operation, "hot") for operation in history]
    lines.insert(41, {"request": "nothing"})
    file = write(tmp_path / "in.jsonl", lines)
    monkeypatch.setattr(histories, "NEVER_SPLIT", 0)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "5000")
    try:
        found = judge_histories(
            spark,
            [f"file://{file}"],
            str(tmp_path / "out"),
            Judging(Settings(protocol="2.5"), window=20),
        )
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    whole = judge(history, Settings(protocol="2.5"))
    assert (found.keys, found.operations) == ({whole.finding.name: 1}, len(history))
    (bad,) = found.bad_lines
    assert (bad["file"], bad["line"]) == (str(file), 42)
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()]
    stages = {tracker.getStageInfo(stage).name for job in jobs for stage in job.stageIds}
    assert {"histories: count lines", "histories: judge"} <= stages


@pytest.mark.slow
@pytest.mark.long
def test_a_compressed_file_is_numbered_before_it_is_spread(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps(line).encode() for line in recorded(2, 8)]
    lines[3:3] = [b"", b" \r", b"no"]
    file = tmp_path / "in.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n".join(lines)))
    monkeypatch.setattr(histories, "NEVER_SPLIT", 0)
    checked = histories.read(spark, [str(file)])
    assert checked.rdd.getNumPartitions() > 1
    rows = sorted(checked.collect(), key=lambda row: row.line)
    assert [(row.file, row.line, bytes(row.text)) for row in rows] == [
        (str(file), number, line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    assert [row.line for row in rows if row.reason] == [6]


@pytest.mark.slow
@pytest.mark.long
def test_the_command_tells_a_summary(spark: Any, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    ended = epochfence(
        "judge", "--engine", "spark", "--input", EXAMPLES / "overlap.jsonl", "--protocol", "3.6",
        "--output", tmp_path / "out", "--json", told,
    )  # fmt: skip
    assert ended.code == 12, ended.err
    assert f"partition orders-0: 3 operations, UNEXPLAINED at {EXAMPLES}/overlap.jsonl, line 5" in (
        ended.out
    )
    assert ended.out.endswith("8 operations on 2 keys: UNEXPLAINED (exit 12)\n")
    assert json.loads(told.read_text())["keys"] == {"EXPLAINED": 1, "UNEXPLAINED": 1}
    again = on_engine(EXAMPLES / "overlap.jsonl", tmp_path / "out")
    assert (again.code, again.err) == (
        2,
        f"epochfence: {tmp_path}/out exists already: choose another folder\n",
    )


# Without ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [5, 1_000])
def test_sorted_rows_are_judged_key_by_key(window: int) -> None:
    by_key, told = judged_by_task(recorded(6, 10), Judging(SETTINGS, window=window))
    for key, of_key in by_key.items():
        operations = [histories._operation(key, "", *rest) for _, _, *rest in of_key]
        whole = judge(operations, SETTINGS)
        if window < 1_000 and told[key]["finding"] == Finding.GAVE_UP.name:
            continue
        assert told[key]["finding"] == whole.finding.name
        assert told[key]["operations"] == len(operations)
        assert told[key]["line"] == (whole.operation.line if whole.operation else None)
        assert list(map(json.loads, told[key]["allowed"])) == list(whole.allowed)


def judged_by_task(
    lines: list[Row], judging: Judging, tally: Tally | None = None
) -> tuple[dict[str, list[Any]], dict[str, Row]]:
    """The lines of each key in order, and what a task says of them."""
    rows: list[tuple[Any, ...]] = []
    for number, line in enumerate(lines, 1):
        key = next(
            f"{kind} {line[kind]}" for kind in ("partition", "transactional_id") if kind in line
        )
        rows.append((key, line["start"], "f", number, json.dumps(line)))
    by_key: dict[str, list[Any]] = {}
    for row in sorted(rows):
        by_key.setdefault(row[0], []).append(row)
    sent = [(key, "", *rest) for of_key in by_key.values() for key, _, *rest in of_key]
    return by_key, judged(sent, judging, tally)


def judged(
    sent: list[tuple[Any, ...]], judging: Judging, tally: Tally | None = None
) -> dict[str, Row]:
    """What a task says of rows, by keys."""
    columns_ = [pa.array(column) for column in zip(*sent, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns_, ("key", "of", "file", "line", "text"))
    batches = [batch.slice(at, 7) for at in range(0, len(batch), 7)]
    (found,) = histories._judge(judging, batches, tally)
    return {row["key"]: row for row in found.to_pylist()}


def damaged(release: str) -> Iterator[list[Row]]:
    """An honest run whose ids have to do with partitions that they don't write to, and others in
    which what one key says isn't what another does."""
    yield [*honest(release, has_markers=True)]
    yield [*honest(release, has_markers=False)]
    yield never_written()
    for damage in ("EndTxn: COMMIT and ABORT swapped", "a line of AddPartitionsToTxn is removed"):
        yield from islice(DAMAGES[damage]([*honest(release, has_markers=True)]), 2)
    yield from of_a_group(release)


def of_a_group(release: str) -> Iterator[list[Row]]:
    """Runs in which offsets are committed: as they were, one that is fetched is another, and an end
    is another, so that what is fetched can't be."""
    lines = group_run(release)
    yield lines
    at = max(at for at, line in enumerate(lines) if line["request"] == "OffsetFetch")
    wrong = {"response": {"error": "NONE", "offset": 4}}
    yield [line | (wrong if number == at else {}) for number, line in enumerate(lines)]
    yield [line | ({"result": "ABORT"} if "result" in line else {}) for line in lines]


def never_written() -> list[Row]:
    """A marker takes an offset in a partition to which its producer has never written."""
    none = {"error": "NONE"}
    a: Row = {"transactional_id": "a", "producer_id": 1, "producer_epoch": 0}
    batch: Row = {"request": "Produce", "partition": "orders-0", "producer_id": 2,
                  "producer_epoch": 0, "count": 1}  # fmt: skip
    told = {**none, "producer_id": 1, "producer_epoch": 0}
    asked: list[tuple[Row, Row]] = [
        ({"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 9}, told),
        ({"request": "AddPartitionsToTxn", **a, "partitions": ["orders-0"]}, none),
        ({**batch, "base_sequence": 0}, {**none, "base_offset": 0}),
        ({"request": "EndTxn", **a, "result": "COMMIT"}, none),
        ({**batch, "base_sequence": 1}, {**none, "base_offset": 2}),
    ]
    return [
        {**line, "start": 2.0 * at, "end": 2.0 * at + 1, "response": response}
        for at, (line, response) in enumerate(asked)
    ]


def as_here(lines: list[Row], file: Path, settings: Settings) -> dict[str, tuple[Any, ...]]:
    """What the judge on one machine says of each key."""
    write(file, lines)
    return {
        key: (one.finding.name, one.operation and one.operation.line, one.against or None)
        for run in read_runs([file])
        for key, one in judge_run(run, settings)
    }


def test_a_marker_of_a_producer_that_never_wrote_is_told_by_its_id(tmp_path: Path) -> None:
    here = as_here(never_written(), tmp_path / "lines.jsonl", SETTINGS)
    assert {one[0] for one in here.values()} == {"EXPLAINED"}
    key = "partition orders-0"
    alone = [(key, "", "f", 1, json.dumps(line)) for line in never_written() if "partition" in line]
    assert judged(alone, Judging(SETTINGS))[key]["finding"] == "UNEXPLAINED"


@pytest.mark.parametrize("window", [5, 1_000])
@pytest.mark.parametrize("release", ["3.6", "4.3"])
def test_what_ids_tell_is_held_against_partitions_in_a_task(
    release: str, window: int, tmp_path: Path
) -> None:
    settings = Settings(protocol=release)
    for lines in damaged(release):
        here = as_here(lines, tmp_path / "lines.jsonl", settings)
        rows = [
            (operation_of("f", number, dict(line))[0], number, line)
            for number, line in enumerate(lines, 1)
        ]
        of_ids = [row for row in rows if row[0].startswith("transactional_id")]
        sent = [
            (key, of, "f", number, json.dumps(line))
            for key in here
            for of, number, line in (
                *(of_ids if not key.startswith("transactional_id") else ()),
                *(
                    ("", number, line)
                    for mine, number, line in sorted(
                        (row for row in rows if row[0] == key), key=lambda row: row[2]["start"]
                    )
                ),
            )
        ]
        told = judged(sent, Judging(settings, window=window))
        for key, row in told.items():
            if window == 5 and row["finding"] == Finding.GAVE_UP.name:
                continue
            assert (row["finding"], row["line"], row["against"]) == here[key], key


@pytest.mark.slow(15)
@pytest.mark.long
def test_what_ids_tell_is_held_against_partitions(spark: Any, tmp_path: Path) -> None:
    """Several runs in one folder, each key beside those of its own run alone."""
    settings, here, lines = Settings(protocol="3.6"), dict[str, Any](), list[Row]()
    for number, run in enumerate(damaged("3.6")):
        of_run = [{**line, "run": f"{number}"} for line in run]
        found = as_here(of_run, tmp_path / "run.jsonl", settings)
        here |= {key: (one[0], one[2]) for key, one in found.items()}
        lines += of_run
    Random(0).shuffle(lines)
    found = judge_histories(
        spark, [str(write(tmp_path / "in.jsonl", lines))], str(tmp_path / "out"), Judging(settings)
    )
    rows = spark.read.parquet(str(tmp_path / "out" / "verdicts")).collect()
    assert {row.key: (row.finding, row.against) for row in rows} == here
    assert {"EXPLAINED", "UNEXPLAINED"} <= {one[0] for one in here.values()}
    assert any(one[1] for one in here.values())
    assert here["partition orders-0 of run 2"] == ("EXPLAINED", None)
    assert any(fault["against"] for fault in found.faults)


def on_engine(source: Path | str, output: Path | str) -> Ended:
    return epochfence("judge", "--engine", "spark", "--input", str(source), "--output", str(output))


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, Path]:
    """Inputs that can't be judged."""
    (tmp_path / "empty" / "_temporary").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    good: Row = {"request": "EndTxn", "start": 0.0}
    for name, line, kind in (
        ("other", {**good, "colour": "red"}, pa.string()),
        ("lacking", {"request": "EndTxn"}, None),
        ("typed", {**good, "end": "soon"}, pa.string()),
    ):
        schema = [(n, pa.string() if n != "start" else pa.float64()) for n in line]
        parquet.write_table(
            pa.Table.from_pylist([line], pa.schema(schema)), tmp_path / f"{name}.parquet"
        )
        del kind
    (tmp_path / "none.parquet").write_text("this is none")
    return {path.stem: path for path in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.long
def test_what_cannot_be_judged_is_one_line_and_leaves_nothing(
    spark: Any, broken: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES / "fenced.jsonl"
    for source, output, told in (
        (tmp_path / "gone", "out", f"{tmp_path}/gone doesn't exist"),
        (broken["empty"], "out", f"{tmp_path}/empty holds no file"),
        (broken["other"], "out", "a history has no column colour: it has request, "),
        (broken["lacking"], "out", "lacking.parquet: it lacks the column start"),
        (broken["typed"], "out", "column end is string, and should be number"),
        (broken["none"], "out", "can't read "),
        ("no-such://x/y", "out", "can't use no-such://x/y: "),
        (example, "file/out", "can't write "),
        (example, "no-such://x/out", "can't use no-such://x/out: "),
    ):
        to = output if "://" in output else tmp_path / "new" / output
        if output.startswith("file"):
            to = tmp_path / output
        before = sorted(tmp_path.rglob("*"))
        ended = on_engine(source, to)
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended
        assert told in ended.err
        assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.setattr(histories, "_summary", lambda *_: spark.stop_it)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SparkError, match="histories can't be judged: "):
        judge_histories(spark, [str(example)], str(tmp_path / "new" / "out"), Judging(SETTINGS))
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(SparkError, match="holds no file"):
        Paths(spark).files(str(broken["empty"]))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "give FILEs with histories, or --engine spark"),
        (("--input", "x"), "--input needs --engine spark"),
        (("f", "--output", "x"), "--output needs --engine spark"),
        (("--engine", "spark", "--input", "x"), "needs --input URI and --output URI"),
        (("f", "--engine", "spark", "--input", "x", "--output", "y"), "--output URI, and no FILE"),
        (("--engine", "spark", "--input", "x", "--output", "y", "--application"), "--engine local"),
        (("--engine", "spork"), "--engine spork: must be local or spark"),
    ],
)
def test_wrong_usage_is_one_line(more: tuple[str, ...], told: str) -> None:
    ended = epochfence("judge", *more)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert told in ended.err


def test_without_java_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = on_engine(EXAMPLES / "fenced.jsonl", tmp_path / "out")
    assert ended.code == 2
    assert "apt install openjdk-17-jre-headless" in ended.err
    assert list(tmp_path.iterdir()) == []
