"""Histories of served runs are explained by the oracle, and those that were changed are not."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.serve.history import History
from epochfence.model.serve.server import Server
from epochfence.tests.model.serve.clients import TIMEOUT_S, in_transactions, librdkafka
from epochfence.tests.model.serve.pipelines import PIPELINES

FAULTS: tuple[dict[str, Any], ...] = (
    {"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}},
    {"do": "lose_answer", "on": {"request": "Produce", "nth": 4}},
    {"do": "duplicate", "on": {"request": "AddPartitionsToTxn", "nth": 2}},
    {"do": "fail_over_coordinator", "on": {"request": "EndTxn", "nth": 3}, "loading_ms": 50},
    {"do": "bump_epoch", "on": {"request": "EndTxn", "nth": 5}},
)


def transactions(producer: Producer) -> None:
    for n in range(9):
        producer.begin_transaction()
        for topic in ("orders", "bills"):
            producer.produce(topic, f"{n}")
        assert producer.flush(TIMEOUT_S) == 0
        (producer.abort_transaction if n == 1 else producer.commit_transaction)(TIMEOUT_S)


def recorded(release: str, folder: Path) -> Path:
    """The history of a client that meets faults, until a rival fences it."""
    data = io.BytesIO()
    with Server(release, topics={"orders": 1, "bills": 1}, brokers=2) as server:
        server.record_in(History(data))
        for fault in FAULTS:
            server.faults.add(fault)
        for idempotent in (True, False):
            producer = librdkafka(server.bootstrap, enable_idempotence=idempotent)
            producer.produce("orders", "not in a transaction")
            assert producer.flush(TIMEOUT_S) == 0
        producer = in_transactions(server.bootstrap, "id")
        with pytest.raises(KafkaException):
            transactions(producer)
        assert server.faults.unfired == [], server.report()
    path = folder / "history.jsonl"
    path.write_bytes(data.getvalue())
    return path


def judged(path: Path, release: str) -> int:
    return CliRunner().invoke(app, ["judge", str(path), "--protocol", release]).exit_code


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", ["2.5", "3.6", "4.1", "4.3"])
def test_what_was_served_is_explained(release: str, tmp_path: Path) -> None:
    path = recorded(release, tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["request"] for line in lines} == {
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
        "Produce",
    }
    assert {line.get("client") for line in lines} == {"rdkafka", "rival"}
    assert sum("response" not in line for line in lines) >= 3
    assert judged(path, release) == 0
    changed = next(n for n, line in enumerate(lines) if line.get("response", {}).get("base_offset"))
    lines[changed]["response"]["base_offset"] += 1
    path.write_text("\n".join(map(json.dumps, lines)))
    assert judged(path, release) == 12


LOST: tuple[dict[str, Any], ...] = (
    {"do": "lose_answer", "on": {"request": "TxnOffsetCommit", "nth": 2}},
    {"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}},
    {"do": "fail_over_coordinator", "on": {"request": "EndTxn", "nth": 3}, "loading_ms": 50},
)


@pytest.mark.slow(4)
@pytest.mark.parametrize(("client", "release"), [("aiokafka", "4.3"), ("librdkafka", "3.9")])
def test_a_pipeline_is_explained_and_no_offset_but_its_own(
    client: str, release: str, tmp_path: Path
) -> None:
    """Also if answers are lost, and if what it aborts is taken again."""
    data = io.BytesIO()
    with Server(release, topics={"in": 1, "out": 1}) as server:
        server.record_in(History(data))
        for fault in LOST:
            server.faults.add(fault)
        producer = librdkafka(server.bootstrap)
        for value in ("one", "two", "three"):
            producer.produce("in", value)
        assert producer.flush(TIMEOUT_S) == 0
        PIPELINES[client](server.bootstrap, 3, (0,))
        assert server.faults.unfired == [], server.report()
    path = tmp_path / "history.jsonl"
    path.write_bytes(data.getvalue())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    asked = {line["request"] for line in lines}
    assert {"AddOffsetsToTxn", "TxnOffsetCommit", "OffsetFetch"} <= asked
    assert judged(path, release) == 0
    fetch = next(line for line in lines if line.get("response", {}).get("offset") == -1)
    fetch["response"]["offset"] = 9
    path.write_text("\n".join(map(json.dumps, lines)))
    assert judged(path, release) == 12


def test_the_command_writes_a_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    command = ["serve", "--port", "0", "--seconds", "0", "--history", str(path)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert path.read_bytes() == b""
    wrong = CliRunner().invoke(app, [*command[:-1], str(tmp_path)])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)
