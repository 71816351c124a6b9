"""A proxy before a real broker: Kafka's own client and librdkafka meet its faults, and what it
records is explained."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.serve.faults.faults import Drawn
from epochfence.model.serve.history import History
from epochfence.model.serve.proxy import Proxy
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.serve.behaviours import PLAN, by_java
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    commit_one_and_begin_another,
    eventually,
    in_transactions,
    librdkafka,
    read,
)

FAULTS = (
    {"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}},
    {"do": "lose_request", "on": {"request": "Produce", "nth": 3}},
    {"do": "duplicate", "on": {"request": "AddPartitionsToTxn", "nth": 2}},
    {"do": "bump_epoch", "on": {"request": "EndTxn", "nth": 6}},
)


@pytest.fixture
def orders(broker: Broker) -> Iterator[str]:
    """A broker with an empty topic `orders`; afterwards it has none, as other tests want it."""
    with with_orders(broker.bootstrap, 1) as bootstrap:
        yield bootstrap


def transactions(producer: Producer) -> None:
    for n in range(9):
        producer.begin_transaction()
        producer.produce("orders", f"{n}")
        producer.commit_transaction(TIMEOUT_S)


def test_what_is_recorded_is_explained(broker: Broker, orders: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("wb") as file, Proxy(orders) as proxy:
        proxy.record_in(History(file))
        for fault in FAULTS:
            proxy.faults.add(dict(fault))
        producer = in_transactions(proxy.bootstrap, f"proxy-{broker.release}")
        with pytest.raises(KafkaException):
            transactions(producer)
        assert proxy.faults.unfired == [], proxy.report()
        assert proxy.answered["Produce"] >= 5
        assert len(read(proxy.bootstrap, "orders")) == 4
    judge = ["judge", str(path), "--protocol", broker.release]
    done = CliRunner().invoke(app, judge)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (rival,) = (
        line
        for line in lines
        if line.get("client") == "rival" and line["response"]["error"] == "NONE"
    )
    rival["response"]["producer_epoch"] += 5
    path.write_text("\n".join(map(json.dumps, lines)))
    assert CliRunner().invoke(app, judge).exit_code == 12


def test_java_s_client_stays_on_the_proxy(broker: Broker, orders: str) -> None:
    with Proxy(orders) as proxy:
        proxy.faults.add({"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}})
        assert by_java(proxy.bootstrap, PLAN, broker.version) == ["C", "C", "C"]
        assert proxy.faults.unfired == []
        assert proxy.answered["EndTxn"] >= 4
        assert read(proxy.bootstrap, "orders") == ["0", "1", "2"]


def test_idempotence_holds_against_faults_at_random(orders: str, seed: int) -> None:
    """Each record is there once, in its order, whatever the network does. It goes on until a fault
    fires: some seeds draw few, and none of them fires at once."""
    with Proxy(orders) as proxy:
        proxy.faults.drawn = drawn = Drawn(0.2, seed)
        drawn.kinds = tuple(do for do in drawn.kinds if do != "reorder")  # which TCP never does
        producer = librdkafka(proxy.bootstrap, linger_ms=0)
        n = 0
        while n < 30 or (not drawn.fired and n < 300):
            producer.produce("orders", f"{n}")
            if n % 3:  # so that two are in flight now and then
                assert producer.flush(TIMEOUT_S) == 0
            n += 1
        assert producer.flush(TIMEOUT_S) == 0
        assert drawn.fired, drawn.text()
        assert read(proxy.bootstrap, "orders") == [f"{at}" for at in range(n)]


@pytest.mark.sample(1)
def test_a_trace_as_a_schedule(orders: str, broker: Broker, tmp_path: Path) -> None:
    """What the run says comes to be: a record is committed that nobody asked to commit. The client
    is of before version 2, so that it does at every release."""
    trace, epochfence = tmp_path / "trace.itf.json", Path(sys.executable).with_name("epochfence")
    assert CliRunner().invoke(app, ["bugs", "KIP-890c", "--trace", str(trace)]).exit_code == 0
    command = (epochfence, "proxy", "--upstream", orders, "--listen", "127.0.0.1:0",
               "--trace", trace)  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        told = re.search("bootstrap.servers=(.*)", proxy.stdout.readline())
        assert told is not None
        producer = in_transactions(told[1], f"trace-{broker.release}")
        commit_one_and_begin_another(producer)
        eventually(lambda: len(read(orders, "orders")) == 2)
        proxy.send_signal(signal.SIGINT)
        assert "fired 1 time" in proxy.communicate(timeout=TIMEOUT_S)[0]
    assert proxy.returncode == 0
    assert read(orders, "orders") == ["txn0", "txn1"]
