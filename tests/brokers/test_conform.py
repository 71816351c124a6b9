"""Kafka's own brokers against the oracle, by `epochfence conform`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.conformance.live.cluster.cluster import LiveCluster

SECONDS = 5
LEAST_ROWS = {"2.5": 35, "3.6": 50, "3.9": 50, "4.0.1": 60, "4.3": 60, "4.4": 60}
WITH_DEBUGGER = {"4.0.1": 90, "4.3": 100, "4.4": 100}
"""The releases whose requests are held, and the rows that they take then."""


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "mode", ["settled", "raw", pytest.param("held", marks=pytest.mark.releases(*WITH_DEBUGGER))]
)
def test_a_broker_does_as_declared(broker: Broker, mode: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = ["conform", "--bootstrap", broker.bootstrap, "--json", str(result)]
    command += ["--seconds", str(SECONDS), "--save", str(tmp_path)]
    if mode == "raw":
        command += ["--raw", "--suite", "random"]
    elif mode == "held":
        command += ["--debugger", str(broker.debugger), "--alter-configs"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads(result.read_text())
    assert told["protocol"] == broker.release
    assert told["requests"]["random"] > (10 * SECONDS if told["settled"] else SECONDS)
    if mode != "raw":
        least = (WITH_DEBUGGER if mode == "held" else LEAST_ROWS)[broker.release]
        assert sum(row["provoked"] for row in told["rows"]) >= least, done.output
        assert all(row["why"] for row in told["rows"] if not row["provoked"])


def test_another_release_is_told_from_it(broker: Broker) -> None:
    other = "2.5" if broker.release != "2.5" else "4.4"
    command = ["conform", "--bootstrap", broker.bootstrap, "--protocol", other, "--suite", "random"]
    done = CliRunner().invoke(app, [*command, "--seconds", "5"], catch_exceptions=False)
    assert done.exit_code == 12, done.output


def test_what_a_run_makes_is_gone_after_it(broker: Broker) -> None:
    cluster = LiveCluster(broker.bootstrap)
    cluster.new_partition()
    with pytest.raises(Exception, match="has topics of others"):
        LiveCluster(broker.bootstrap)
    cluster.close()
    LiveCluster(broker.bootstrap).close()
