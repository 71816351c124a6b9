"""A run's states and steps, verdicts and a broker's files as DataFrames."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark import cloudpickle

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.spark import Explored, decode, verdicts
from epochfence.checker.spark.judge import decoded_files
from epochfence.checker.spark.options import SparkError
from epochfence.checker.spark.storage.files import Storage
from epochfence.diagrams.notebook import StatesTable
from epochfence.language import Instance, instantiate
from epochfence.model.records.files import Row, read_file
from epochfence.tests.checker.spark.conftest import on_spark
from epochfence.tests.checker.spark.in_process import InProcess

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def lease(protocol: str = "2") -> Instance:
    return instantiate(load_system(str(EXAMPLES / "lease.py")), protocol)


class Reader:
    """Spark's part in reading a run, played by this process; functions go through a pickle."""

    def __init__(self) -> None:
        self.read = self
        self.packed: Any = None

    def parquet(self, *files: str) -> Reader:
        self.packed = pa.concat_tables([parquet.read_table(file) for file in files])
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Any:
        sent = pickle.loads(cloudpickle.dumps(function))
        return pa.Table.from_batches(list(sent(iter(self.packed.to_batches(max_chunksize=100)))))


def in_order(rows: list[Any]) -> list[str]:
    """Plain data in an order of its own."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.long
def test_states_and_steps_of_a_run_are_those_of_a_local_one(
    played: InProcess, tmp_path: Path
) -> None:
    on_spark(lease(), tmp_path / "run")
    local = check(lease(), Options(keep_states=True)).data
    before = sorted(tmp_path.rglob("*"))
    explored = Explored(Reader(), str(tmp_path / "run"), lease())
    for found, wanted in (
        (explored.states(), local.states()),
        (explored.transitions(), local.transitions()),
    ):
        assert found.schema == wanted.schema
        assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())
    assert sorted(tmp_path.rglob("*")) == before  # a look changes nothing
    with pytest.raises(CheckpointError, match="protocol is 1 here and 2 there"):
        Explored(None, str(tmp_path / "run"), lease("1"))
    result = on_spark(lease(), tmp_path / "whole", symmetry=False)
    assert Explored(Reader(), str(tmp_path / "whole"), lease()).states().num_rows == result.states


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
