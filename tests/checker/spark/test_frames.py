"""A run's states and steps, verdicts and a broker's files as DataFrames."""

from __future__ import annotations

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as dataset
import pytest
from pyspark import cloudpickle

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.spark import Explored, decode, verdicts
from epochfence.checker.spark.judge import decoded_files
from epochfence.checker.spark.options import SparkError, SparkOptions
from epochfence.checker.spark.storage.files import Storage, StorageError
from epochfence.checksums import DamagedError
from epochfence.diagrams.notebook import StatesTable
from epochfence.language import DeclarationError, Instance, instantiate
from epochfence.model.records.files import Row, read_file
from epochfence.tests.checker.output.test_state_tables import reached
from epochfence.tests.checker.spark.conftest import on_spark
from epochfence.tests.checker.spark.in_process import InProcess
from epochfence.tests.cli.test_cli import epochfence

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def lease(protocol: str = "2") -> Instance:
    return instantiate(load_system(str(EXAMPLES / "lease.py")), protocol)


class Reader:
    """Spark's part in reading a run, played by this process; functions go through a pickle."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def createDataFrame(self, rows: list[tuple[str]], schema: str) -> Reader:
        self.runs = [{schema.split()[0]: text} for (text,) in rows]
        return self

    def repartition(self, count: int) -> Reader:
        assert count == len(self.runs)
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Any:
        sent = pickle.loads(cloudpickle.dumps(function))
        batches = pa.Table.from_pylist(self.runs).to_batches(max_chunksize=1)
        found = pa.Table.from_batches(list(sent(iter(batches))))
        return SimpleNamespace(collect=found.to_pylist) if isinstance(schema, str) else found


def in_order(rows: list[Any]) -> list[str]:
    """Plain data in an order of its own."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow(2)
def test_states_and_steps_of_a_run_are_those_of_a_local_one(
    played: InProcess, tmp_path: Path
) -> None:
    """Its folder says all: the system, protocol, bounds, features, symmetry and deadlocks."""
    on_spark(lease(), tmp_path / "run")
    local = check(lease(), Options(keep_states=True)).data
    before = sorted(tmp_path.rglob("*"))
    explored = Explored(Reader(), str(tmp_path / "run"))
    for found, wanted in (
        (explored.states(), local.states()),
        (explored.transitions(), local.transitions()),
    ):
        assert found.schema == wanted.schema
        assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())
    assert sorted(tmp_path.rglob("*")) == before  # a look changes nothing
    with pytest.raises(CheckpointError, match="protocol is 1 here and 2 there"):
        Explored(None, str(tmp_path / "run"), lease("1"))


@pytest.mark.slow(2)
def test_a_folder_says_how_its_run_was(played: InProcess, tmp_path: Path) -> None:
    small = instantiate(load_system(str(EXAMPLES / "lease.py")), "2", {"leases": 1})
    options = Options(
        symmetry=False,
        slicing=False,
        deadlock=False,
        spark=SparkOptions(shards=2, hand_over=0, storage=str(tmp_path / "run")),
    )
    result = check(small, options)
    states, taken = reached(small)
    explored = Explored(Reader(), str(tmp_path / "run"))
    table = explored.states()
    assert (table.num_rows, dict(explored.prepared.instance.constants)) == (
        result.states,
        dict(small.constants),
    )
    assert in_order(table.drop_columns("level").to_pylist()) == in_order(states)
    assert Counter(explored.transitions()["row"].to_pylist()) == taken


@pytest.mark.slow(2)
def test_a_run_writes_what_a_local_one_does(played: InProcess, tmp_path: Path) -> None:
    result = on_spark(lease(), tmp_path / "run")
    local = check(lease(), Options(keep_states=True)).data
    explored = Explored(Reader(), str(tmp_path / "run"))
    states, steps = tmp_path / "states", tmp_path / "steps"
    assert explored.write_states(str(states)) == result.states
    assert explored.write_transitions(str(steps)) == result.transitions
    for folder, wanted in ((states, local.states()), (steps, local.transitions())):
        table = dataset.dataset(folder, partitioning="hive").to_table()
        assert in_order(table.to_pylist()) == in_order(wanted.to_pylist())
    assert {each.name for each in tmp_path.iterdir()} == {"local", "run", "states", "steps"}
    with pytest.raises(StorageError, match="it exists"):
        explored.write_states(str(states))
    (run, *_) = (tmp_path / "run").rglob("levels-*.parquet")
    run.write_bytes(run.read_bytes()[:-5])
    with pytest.raises(DamagedError):
        explored.write_states(str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_a_run_whose_system_is_nowhere_needs_its_instance(
    played: InProcess, tmp_path: Path
) -> None:
    file = tmp_path / "lease.py"
    shutil.copy(EXAMPLES / "lease.py", file)
    moved = instantiate(load_system(str(file)), "2")
    on_spark(moved, tmp_path / "run")
    file.unlink()
    with pytest.raises(DeclarationError, match="no such file"):
        Explored(Reader(), str(tmp_path / "run"))
    assert Explored(Reader(), str(tmp_path / "run"), moved).states().num_rows


@pytest.mark.slow
@pytest.mark.long
def test_states_and_steps_in_a_session(spark: Any, played: InProcess, tmp_path: Path) -> None:
    result = on_spark(lease(), tmp_path / "run")
    explored = Explored(spark, str(tmp_path / "run"), lease())
    found = explored.states().collect()
    assert len(found) == len(set(map(str, found))) == result.states
    (first,) = (row for row in found if row.level == 0)
    assert (first["client.state"].client0, first["service.newest"]) == ("IDLE", 0)
    assert first["service.holders"] == []
    assert explored.states().where("`client.state`.client1 = 'WRITING'").count() > 0
    shown = StatesTable(explored.states(), 3)._repr_html_()
    assert (shown.count("<tr>"), "client.state" in shown) == (2 + 3, True)
    taken = explored.transitions().groupBy("row").count().collect()
    assert {row.row: row["count"] for row in taken} == {n: c for n, c in result.rows if c}


def test_a_run_that_never_got_to_spark_has_no_states(played: InProcess, tmp_path: Path) -> None:
    on_spark(lease(), tmp_path / "run", hand_over=1_000_000)
    with pytest.raises(SparkError, match="was explored in one process"):
        Explored(None, str(tmp_path / "run"), lease()).states()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_the_command_writes_what_a_local_run_finds(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("states", "steps", "run")]
    ended = epochfence(
        "check", str(EXAMPLES / "lease.py"), "--set", "leases=1", "--engine", "spark", "--shards",
        "2", "--states", folders[0], "--transitions", folders[1], "--storage", folders[2],
    )  # fmt: skip
    assert ended.code == 0
    small = instantiate(load_system(str(EXAMPLES / "lease.py")), "2", {"leases": 1})
    local = check(small, Options(keep_states=True)).data
    for folder, wanted in zip(folders, (local.states(), local.transitions()), strict=False):
        table = dataset.dataset(folder, partitioning="hive").to_table()
        assert in_order(table.to_pylist()) == in_order(wanted.to_pylist())


# A broker's files -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_a_folder_of_a_broker_is_decoded(spark: Any, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "broker", tmp_path / "broker")
    (log,) = (tmp_path / "broker" / "orders-0").glob("*.log")
    torn = log.with_name("00000000000000000099.log")
    torn.write_bytes(log.read_bytes()[:-5])
    (tmp_path / "broker" / "orders-0" / "partition.metadata").write_text("version: 0")
    found = decode(spark, str(tmp_path / "broker"))
    rows = {(row.file, row.byte, row.what): row for row in found.collect()}
    files = [path for path in (tmp_path / "broker").rglob("0*") if path.is_file()]
    expected = [(path, item) for path in files for item in read_file(path)]
    assert len(rows) == len(expected)
    for path, item in expected:
        if isinstance(item, Row):
            row = rows[str(path), item.byte, item.what]
            assert json.loads(row.fields)["what"] == item.what
            for name in ("offset", "producer_id", "transactional_id", "state", "value"):
                assert row[name] == item.fields.get(name)
        else:
            assert rows[str(path), item.at, "error"].error == str(item)
    assert any(file == str(torn) and what == "error" for file, _, what in rows)
    with pytest.raises(SparkError, match=r"holds no file that ends in \.log"):
        decode(spark, str(EXAMPLES / "histories"))


def test_a_file_is_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_files, "ROWS", 3)
    (log,) = (EXAMPLES / "broker" / "orders-0").glob("*.log")
    batch = decoded_files.pa.table({"file": [log.name], "kind": ["log"]})
    limit, files = 1 << 20, Storage(str(log.parent))
    parts = list(decoded_files._decode(files, limit, batch.to_batches()))
    assert [len(part) for part in parts] == [3, 1]
    assert [row["byte"] for part in parts for row in part.to_pylist()] == [0, 61, 93, 154]


@pytest.mark.slow
def test_verdicts_have_a_row_for_each_property_of_each_run(spark: Any) -> None:
    results = [check(lease(protocol)) for protocol in ("1", "2")]
    rows = verdicts(spark, [results[0], json.loads(json.dumps(results[1].as_json()))]).collect()
    assert [row.protocol for row in rows] == [r.protocol for r in results for _ in r.properties]
    assert [row.verdict for row in rows] == [p.verdict for r in results for p in r.properties]
