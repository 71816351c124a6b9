"""A run's states and steps, verdicts and a broker's files as DataFrames."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from epochfence.checker.check import check, prepare
from epochfence.checker.checkpoint import CheckpointError
from epochfence.checker.spark import Explored, decode, frames, records, verdicts
from epochfence.checker.spark.options import SparkError
from epochfence.checker.spark.storage import Storage
from epochfence.model.records.files import Row, read_file
from epochfence.spec.language import Bool, Enum, Instance, Optional, instantiate
from epochfence.spec.load import load_system
from epochfence.spec.systems import shipped
from epochfence.tests.checker.spark.conftest import on_spark
from epochfence.tests.checker.spark.in_process import InProcess

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def lease(protocol: str = "2") -> Instance:
    return instantiate(load_system(str(EXAMPLES / "lease.py")), protocol)


@pytest.mark.slow
def test_states_and_steps_of_a_run_are_all_there(
    spark: Any, played: InProcess, tmp_path: Path
) -> None:
    result = on_spark(lease(), tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    explored = Explored(spark, str(tmp_path / "run"), lease())
    states, steps = explored.states(), explored.transitions()
    fields = states.columns[1:]
    found = states.collect()
    assert len(found) == len(set(found)) == result.states
    assert {row.level for row in found} == set(range(result.depth))
    (first,) = (row for row in found if row.level == 0)
    assert (first.client_state_0, first.service_newest) == ("IDLE", 0)
    assert first.service_holders_1 is False
    assert "WRITING" in {row.client_state_1 for row in found}
    taken = steps.collect()
    assert Counter(step.row for step in taken) == {n: count for n, count in result.rows if count}
    known = {row[1:] for row in found}
    levels = {row[1:]: row.level for row in found}
    assert all(tuple(step.target) in known for step in taken)
    assert all(levels[tuple(step.source)] == step.level for step in taken)
    assert steps.schema["source"].dataType.names == fields
    assert sorted(tmp_path.rglob("*")) == before  # a look changes nothing
    with pytest.raises(CheckpointError, match="protocol is 1 here and 2 there"):
        Explored(spark, str(tmp_path / "run"), lease("1"))


def test_a_run_that_never_got_to_spark_has_no_states(played: InProcess, tmp_path: Path) -> None:
    on_spark(lease(), tmp_path / "run", hand_over=1_000_000)
    with pytest.raises(SparkError, match="was explored in one process"):
        Explored(None, str(tmp_path / "run"), lease()).states()


def test_columns_have_what_is_packed() -> None:
    prepared = prepare(instantiate(shipped("producer-ids")))
    random, leaves = Random(1), prepared.grounded.leaves
    vectors = [tuple(random.randint(x.low, x.high) for x in leaves) for _ in range(30)]
    packed = b"".join(prepared.packing.pack(vector).ljust(64, b"\xff") for vector in vectors)
    words = np.frombuffer(packed, dtype=np.uint64).reshape(len(vectors), -1)
    columns = frames.columns_of(leaves, prepared.packing)
    kept = [leaf for leaf in leaves if leaf.index in prepared.packing.places]
    assert len({column.name for column in columns}) == len(columns) == len(kept)
    for column, leaf in zip(columns, kept, strict=True):
        kind: Any = leaf.type
        optional = isinstance(kind, Optional)
        kind = kind.of if optional else kind
        values = column.values(words).to_pylist()
        for number, value in zip((v[leaf.index] for v in vectors), values, strict=True):
            if optional and number == leaf.low:
                assert value is None
            elif isinstance(kind, Enum):
                assert value == kind.names[number]
            else:
                assert value == (bool(number) if isinstance(kind, Bool) else number)


# A broker's files -----------------------------------------------------------------------------


@pytest.mark.slow
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
    monkeypatch.setattr(records, "ROWS", 3)
    (log,) = (EXAMPLES / "broker" / "orders-0").glob("*.log")
    batch = records.pa.table({"file": [log.name], "kind": ["log"]})
    parts = list(records._decode(Storage(str(log.parent)), batch.to_batches()))
    assert [len(part) for part in parts] == [3, 1]
    assert [row["byte"] for part in parts for row in part.to_pylist()] == [0, 61, 93, 154]


def test_verdicts_have_a_row_for_each_property_of_each_run(spark: Any) -> None:
    results = [check(lease(protocol)) for protocol in ("1", "2")]
    rows = verdicts(spark, [results[0], json.loads(json.dumps(results[1].as_json()))]).collect()
    assert [row.protocol for row in rows] == [r.protocol for r in results for _ in r.properties]
    assert [row.verdict for row in rows] == [p.verdict for r in results for p in r.properties]
