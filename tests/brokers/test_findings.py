"""What docs/findings.md tells, on brokers: by hand, or by Kafka's own clients behind a proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from epochfence.model.conformance.live.broker import BrokerSystem
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.cluster.setup import warm_up
from epochfence.model.serve.proxy import Proxy
from epochfence.model.wire.connection import Connection, Security
from epochfence.tests.brokers.kafka import SLOWEST_START_S, Broker, Listener, free_port
from epochfence.tests.brokers.topics import make_orders, with_orders
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    eventually,
    in_transactions,
    librdkafka,
    read,
)
from epochfence.tests.model.serve.driven import JavaProducer

LAST_EPOCH: Final = 32_766
"""The last epoch that a client may have."""
with_kraft = pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4")
with_version_2 = pytest.mark.releases("4.0.1", "4.3", "4.4")
DAY_MS: Final = 86_400_000
A, B = "a" * 50, "b" * 50
"""Two records that no batch holds both of, however small a batch may be."""
pytestmark = pytest.mark.sample(4, of="findings on brokers")


@pytest.fixture
def orders(broker: Broker) -> Iterator[str]:
    """A broker with an empty topic `orders` of two partitions, and none afterwards."""
    with with_orders(broker.bootstrap, 2) as bootstrap:
        yield bootstrap


def configure(bootstrap: str, name: str, value: int | str) -> None:
    """Sets what the broker is set to."""
    entry = ConfigEntry(name, f"{value}", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


@contextmanager
def requests(broker: Broker) -> Iterator[BrokerSystem]:
    """Requests by hand, each with names of its own."""
    cluster = LiveCluster(broker.bootstrap, may_be_shared=True)
    try:
        warm_up(cluster)
        yield BrokerSystem(cluster)
    finally:
        cluster.close()


def identity(told: Mapping[str, Any]) -> dict[str, Any]:
    """The producer id and epoch that were told."""
    assert told["error"] == "NONE", told
    return {
        "transactional_id": "a", "producer_id": told["producer_id"],
        "producer_epoch": told["producer_epoch"],
    }  # fmt: skip


def answer(system: BrokerSystem, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of a broker that stays."""
    told = system.ask(request, fields)
    assert told is not None
    return told


def new_epoch(system: BrokerSystem) -> dict[str, Any]:
    """What a new instance is told."""
    system.settle()
    return identity(answer(system, "InitProducerId", {"transactional_id": "a"}))


def transaction_version(broker: Broker, level: int) -> None:
    """Has the cluster go over to a transaction.version."""
    connection = Connection("127.0.0.1", broker.port, Security())
    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 2}
    if level == 2:
        update["upgrade_type"] = 1
    asked = {"timeout": 10_000, "feature_updates": [update], "validate_only": False}
    told = connection.ask("UpdateFeatures", 1, asked)
    assert told["error_code"] == "NONE", told
    assert not any(one["error_code"] != "NONE" for one in told["results"]), told
    eventually(
        lambda: {
            one["name"]: one["max_version_level"]
            for one in connection.api_versions()["finalized_features"]
        }.get("transaction.version") == level
    )  # fmt: skip
    connection.close()


def answered(proxy: Proxy, count: int) -> None:
    """Waits until so many batches are answered."""
    eventually(lambda: proxy.answered["Produce"] >= count)


def fired(proxy: Proxy) -> None:
    """Waits until all faults have come about; a broker may start meanwhile."""
    until = time.monotonic() + SLOWEST_START_S
    while not proxy.faults.all_fired:
        assert time.monotonic() < until, proxy.report()
        time.sleep(0.05)


@with_kraft
def test_1_a_local_bump_sends_again_what_was_appended(broker: Broker, orders: str) -> None:
    """By a snapshot that has the last batch alone: no batch is refused for what is in it."""
    wanted, done = threading.Event(), threading.Event()

    def restart() -> None:  # by the thread that the broker ends with
        wanted.set()
        done.wait(SLOWEST_START_S)

    with (
        Proxy(orders, restart=restart) as proxy,
        JavaProducer(proxy.bootstrap, broker.version, batch_size=0) as producer,
    ):
        second = {"request": "Produce", "nth": 2}
        proxy.faults.add({"do": "hold", "on": second, "until": {"ms": 1500}})
        proxy.faults.add({"do": "lose_answer", "on": second, "until": {"request": "Produce"}})
        third = {"request": "Produce", "nth": 3}
        proxy.faults.add({"do": "fail_over_coordinator", "on": third, "when": "after"})
        assert producer.do("send", 0, "first") == "ok"
        answered(proxy, 1)
        for value in (A, B):
            assert producer.do("send", 0, value) == "ok"
        assert wanted.wait(TIMEOUT_S)
        broker.end()
        broker.start()
        done.set()
        fired(proxy)
        answered(proxy, 5)
        eventually(lambda: len(read(orders, "orders")) == 5)
        assert read(orders, "orders") == ["first", A, B, A, B]


@with_kraft
def test_2_and_7_an_unknown_producer_starts_in_mid_sequence(broker: Broker, orders: str) -> None:
    """A batch that isn't appended is sent again for ever; a bump has it behind a later one. The
    first error is of a topic that is deleted, and is there again before the second batch."""
    admin = AdminClient({"bootstrap.servers": orders, "log_level": 0})
    with (
        Proxy(orders) as proxy,
        JavaProducer(
            proxy.bootstrap, broker.version, batch_size=0, retry_backoff_ms=50,
            retry_backoff_max_ms=50,
        ) as producer,
    ):  # fmt: skip
        for nth, ms in ((2, 500), (3, 2500)):
            on = {"request": "Produce", "nth": nth}
            proxy.faults.add({"do": "hold", "on": on, "until": {"ms": ms}})
        assert producer.do("send", 1, "elsewhere") == "ok"
        answered(proxy, 1)
        for gone in admin.delete_topics(["orders"]).values():
            gone.result(TIMEOUT_S)
        for value in (A, B):
            assert producer.do("send", 0, value) == "ok"
        answered(proxy, 2)
        anew = NewTopic("orders", 2, 1, config={"max.message.bytes": "500"})
        for made in admin.create_topics([anew]).values():
            made.result(TIMEOUT_S)
        answered(proxy, 20)
        assert read(orders, "orders") == [B]
        assert producer.do("send", 0, "c" * 1000) == "ok"
        eventually(lambda: len(read(orders, "orders")) == 2)
        assert read(orders, "orders") == [B, A]
        assert proxy.faults.unfired == []


@with_kraft
def test_5_a_request_that_outlives_the_producer_s_state(broker: Broker, orders: str) -> None:
    """From KIP-854 on, which lets brokers forget producers sooner than in a day."""
    configure(orders, "producer.id.expiration.ms", 500)
    try:
        with Proxy(orders) as proxy:
            on = {"request": "Produce"}
            proxy.faults.add({"do": "duplicate", "on": on, "until": {"ms": 2500}})
            producer = librdkafka(proxy.bootstrap)
            producer.produce("orders", "once", partition=0)
            assert producer.flush(TIMEOUT_S) == 0
            assert read(orders, "orders") == ["once"]
            fired(proxy)
        assert read(orders, "orders") == ["once", "once"]
    finally:
        configure(orders, "producer.id.expiration.ms", DAY_MS)


def test_6_a_bump_to_the_last_epoch_is_answered_once(broker: Broker) -> None:
    with requests(broker) as system:
        new_epoch(system)
        system.skip_to_epoch("a", LAST_EPOCH - 2)
        held = {**new_epoch(system), "api_version": 3}
        assert held["producer_epoch"] == LAST_EPOCH - 1
        assert identity(answer(system, "InitProducerId", held))["producer_epoch"] == LAST_EPOCH
        assert answer(system, "InitProducerId", held)["error"] == "UNKNOWN_SERVER_ERROR"


@with_version_2
def test_10_a_client_gets_the_largest_epoch(broker: Broker) -> None:
    with requests(broker) as system:
        new_epoch(system)
        system.skip_to_epoch("a", LAST_EPOCH - 1)
        a = new_epoch(system)
        assert a["producer_epoch"] == LAST_EPOCH
        batch = {**a, "partition": "t-0", "base_sequence": 0, "api_version": 12}
        assert answer(system, "Produce", batch)["error"] == "NONE"
        transaction_version(broker, 1)
        try:
            rival = answer(system, "InitProducerId", {"transactional_id": "a"})
            assert rival["error"] == "CONCURRENT_TRANSACTIONS"
            system.settle()
            told = answer(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
            assert identity(told)["producer_epoch"] == LAST_EPOCH + 1
        finally:
            transaction_version(broker, 2)


@with_version_2
def test_12_a_fenced_client_takes_the_end_of_another_for_its_own(broker: Broker) -> None:
    """No feature changes: the other instance has a library of before version 2."""
    with requests(broker) as system:
        a, b = new_epoch(system), new_epoch(system)
        added = {**b, "partitions": ["t-0"], "api_version": 3}
        assert answer(system, "AddPartitionsToTxn", added)["error"] == "NONE"
        ended = answer(system, "EndTxn", {**b, "result": "ABORT", "api_version": 4})
        assert ended["error"] == "NONE"
        system.settle()
        told = answer(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
        assert identity(told) == b  # so that both have one epoch


@with_version_2
@pytest.mark.parametrize("downgraded", [False, True])
def test_9_a_commit_that_fails_in_a_downgrade(
    broker: Broker, orders: str, downgraded: bool
) -> None:
    with (
        Proxy(orders) as proxy,
        JavaProducer(
            proxy.bootstrap, broker.version, transactional_id=f"downgrade-{downgraded}",
            delivery_timeout_ms=4000, request_timeout_ms=1500, max_block_ms=10_000,
        ) as producer,
    ):  # fmt: skip
        on = {"request": "Produce", "nth": 2, "times": 1000}
        proxy.faults.add({"do": "lose_request", "on": on})
        for call in ("initTransactions", "beginTransaction", "send", "commitTransaction"):
            assert producer.do(call, 0, "first") == "ok"
        assert producer.do("beginTransaction") == "ok"
        assert producer.do("send", 0, "lost") == "ok"
        try:
            if downgraded:
                transaction_version(broker, 1)
            time.sleep(1)  # connections come again, and tell it
            assert producer.do("commitTransaction") != "ok"
            ended = producer.do("abortTransaction")
        finally:
            if downgraded:
                transaction_version(broker, 2)
        assert ended == ("InvalidTxnStateException" if downgraded else "ok")
        assert proxy.faults.all_fired


@contextmanager
def behind_a_proxy(release: str, folder: Path) -> Iterator[tuple[Broker, Proxy]]:
    """A broker that talks to itself through a proxy, with a topic `orders`."""
    port = free_port()
    internal = Listener("INTERNAL", advertised=port, of_brokers=True)
    with (
        Broker(release, folder, internal) as broker,
        Proxy(f"127.0.0.1:{broker.also_port}", port=port) as proxy,
    ):
        make_orders(broker.bootstrap, 1)
        yield broker, proxy


LATE: Final = {"do": "delay", "on": {"request": "WriteTxnMarkers", "topic": "orders"}}


def let_go(proxy: Proxy) -> None:
    """What the only fault holds goes on, and has taken effect."""

    async def release() -> None:
        (fault,) = proxy.faults.all.values()
        fault.release()

    proxy.brokers.do(release())
    fired(proxy)


@with_kraft
def test_a_late_marker_ends_the_next_transaction(broker: Broker, tmp_path: Path) -> None:
    """KAFKA-19446 for a client of version 2, which 4.2 mended, and for others what it doesn't."""
    with behind_a_proxy(broker.release, tmp_path / "broker") as (between, proxy):
        proxy.faults.add(LATE)
        old = in_transactions(between.bootstrap, "librdkafka")
        for value in ("committed", "aborted"):
            old.begin_transaction()
            old.produce("orders", value)
            assert old.flush(TIMEOUT_S) == 0
            if value == "committed":
                old.commit_transaction(TIMEOUT_S)
                eventually(lambda: proxy.answered["WriteTxnMarkers"] > 0)
        let_go(proxy)
        old.abort_transaction(TIMEOUT_S)
        eventually(lambda: read(between.bootstrap, "orders") == ["committed", "aborted"])
        proxy.faults.all.clear()
        proxy.faults.add(LATE)
        with JavaProducer(between.bootstrap, broker.version, transactional_id="java") as java:
            seen = proxy.answered["WriteTxnMarkers"]
            assert java.do("initTransactions") == "ok"
            for value in ("java-committed", "java-aborted"):
                assert java.do("beginTransaction") == "ok"
                assert java.do("send", 0, value) == "ok"
                if value == "java-committed":
                    assert java.do("commitTransaction") == "ok"
                    eventually(lambda: proxy.answered["WriteTxnMarkers"] > seen)
            eventually(lambda: read(between.bootstrap, "orders", committed=False)[-1] == value)
            let_go(proxy)
            assert java.do("abortTransaction") == "ok"
        found = read(between.bootstrap, "orders")[2:]
        mended = broker.release in ("4.3", "4.4")
        assert found == ["java-committed", *["java-aborted"] * (not mended)]
