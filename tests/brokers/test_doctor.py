"""States of brokers, made by hand, and what doctor says of them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from epochfence.model.broker.transactions.transaction_log import partition_for
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.doctor.diagnosis import Case
from epochfence.model.doctor.directories import look
from epochfence.model.doctor.evidence import Verdict
from epochfence.model.doctor.live import LOG, VERIFICATION, Cluster
from epochfence.model.doctor.output.report import lines
from epochfence.model.records import encode_as_coordinator, encode_key
from epochfence.model.wire.connection import Connection, Security
from epochfence.spec.releases.broker_versions import newest_of
from epochfence.tests.brokers.doctor import cases_of, doctor, only_case, verdict_of
from epochfence.tests.brokers.test_findings import behind_a_proxy, configure, let_go
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.doctor.hand import Hand
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    eventually,
    in_transactions,
    read,
)

HANGS, UNKNOWN, HEALTHY = Verdict.HANGS, Verdict.UNKNOWN, Verdict.HEALTHY
pytestmark = pytest.mark.sample(4, of="doctor on brokers")


@pytest.fixture
def orders(broker: Broker) -> Iterator[str]:
    """A broker with an empty topic `orders` of two partitions, and none afterwards."""
    with with_orders(broker.bootstrap, 2) as bootstrap:
        yield bootstrap


@contextmanager
def unverified(broker: Broker) -> Iterator[None]:
    """Meanwhile leaders don't ask coordinators, as before 3.6 (KIP-890)."""
    if broker.release < "3.6":
        yield
        return
    configure(broker.bootstrap, VERIFICATION, "false")
    try:
        yield
    finally:
        configure(broker.bootstrap, VERIFICATION, "true")


def files_of(broker: Broker) -> Path:
    return broker.folder / "data"


def abort(bootstrap: str, case: Case) -> None:
    """As kafka-transactions.sh does: a marker to the leader."""
    topic, number = case.partition.place
    marker = {
        "producer_id": case.open.producer_id,
        "producer_epoch": case.open.producer_epoch,
        "transaction_result": False,
        "coordinator_epoch": max(0, case.open.coordinator_epoch),
        "topics": [{"name": topic, "partition_indexes": [number]}],
    }
    host, _, port = bootstrap.rpartition(":")
    connection = Connection(host, int(port), Security())
    version = connection.api_versions()["api_keys"]
    newest = {one["api_key"]: one["max_version"] for one in version}[27]
    told = connection.ask("WriteTxnMarkers", newest, {"markers": [marker]})
    assert told["markers"][0]["topics"][0]["partitions"][0]["error_code"] == "NONE"
    connection.close()


def test_a_late_batch_hangs_until_its_remedy(broker: Broker, orders: str, tmp_path: Path) -> None:
    """KAFKA-14402, by the broker and by its files while it runs."""
    with unverified(broker):
        Hand(orders, "late").hang()
        case = only_case(orders, "orders")
        assert (case.cause, case.open.first_offset) == ("hanging", 2)
        assert case.bugs[0].name == "KAFKA-14402"
        assert case.entry is not None
        assert (case.entry.transactional_id, case.entry.state) == ("late", "CompleteAbort")
        assert any("late decided ABORT" in fact for fact in case.facts)
        assert "DescribeProducers" in newest_of(broker.release) or "--producer-id" in case.remedy
        found = look([files_of(broker)], broker.release, is_complete=True)
        assert [one.cause for one in found.cases if one.partition.place.topic == "orders"] == [
            "hanging"
        ]
        copied = tmp_path / "copy"
        shutil.copytree(files_of(broker) / "orders-0", copied / "orders-0")
        assert look([copied], broker.release).verdict is UNKNOWN  # without a transaction log
        if broker.release != "2.5":  # whose version of WriteTxnMarkers isn't known here
            abort(orders, case)
            eventually(lambda: verdict_of(doctor(orders), "orders") is HEALTHY)


def test_the_end_of_a_transaction_comes_late(broker: Broker, orders: str) -> None:
    """KIP-890c: an EndTxn that is sent again ends the next transaction, whose client goes on."""
    with unverified(broker):
        hand = Hand(orders, "twice")
        hand.begin()
        assert hand.end(commits=False) == "NONE"
        assert hand.add() == "NONE"
        assert hand.write() == "NONE"
        assert hand.end(commits=False) == "NONE"  # the first one, again
        eventually(lambda: not cases_of(doctor(orders), "orders"))
        eventually(lambda: hand.write() == "NONE")  # the leader soon has the setting
        case = only_case(orders, "orders")
        assert case.cause == "hanging"
        assert "KIP-890c" in [bug.name for bug in case.bugs]


def test_a_partition_that_was_never_added(broker: Broker, orders: str) -> None:
    """KAFKA-12671. The transaction that is open in the other partition is an ordinary one."""
    with unverified(broker):
        hand = Hand(orders, "unadded")
        hand.begin()
        eventually(lambda: hand.write(1) == "NONE")  # the leader soon has the setting
        cases = {case.partition.place.number: case for case in cases_of(doctor(orders), "orders")}
        assert {number: case.cause for number, case in cases.items()} == {0: "open", 1: "hanging"}
        assert "KAFKA-12671" in [bug.name for bug in cases[1].bugs]


def test_epochs_that_are_nearly_used_up(broker: Broker, orders: str) -> None:
    """By a record of the transaction log, which the coordinator reads when its broker starts."""
    hand = Hand(orders, "old")
    assert hand.init() == "NONE"
    value = encode_as_coordinator(
        state="EMPTY", partitions=(), producer_id=hand.pair["producer_id"], producer_epoch=32_500,
        timeout_ms=60_000, last_update_ms=round(time.time() * 1000), start_ms=-1,
        protocol=broker.release,
    )  # fmt: skip
    with Cluster(orders) as cluster:
        cluster.look()
        number = partition_for("old", len(cluster.log_partitions))
    admin = Producer({"bootstrap.servers": orders, "client.id": "__admin_client"})
    admin.produce(LOG, key=encode_key("old"), value=value, partition=number)
    assert admin.flush(TIMEOUT_S) == 0
    if not broker.has_zookeeper:  # before 3.0 doctor reads the log itself
        broker.end()
        broker.start()

    def is_named() -> bool:
        found = doctor(orders).problems
        return any(
            one.cause == "epochs-nearly-used-up" and one.says.startswith("old: ") for one in found
        )

    eventually(is_named)


def test_a_fenced_instance_still_writes(broker: Broker, orders: str) -> None:
    """The transaction log shows that nothing was decided here for its epoch."""
    with unverified(broker):
        old, new = Hand(orders, "zombie"), Hand(orders, "zombie")
        assert old.init() == "NONE"
        assert new.init() == "NONE"
        eventually(lambda: old.write(1) == "NONE")  # the leader soon has the setting
        case = only_case(orders, "orders")
        assert (case.cause, case.partition.place.number) == ("fenced-writer", 1)


def test_an_open_transaction_and_one_that_times_out(broker: Broker, orders: str) -> None:
    with Cluster(orders) as cluster:
        assert cluster.release == broker.release
    hand = Hand(orders, "open")
    hand.begin(timeout_ms=3_000)
    case = only_case(orders, "orders")
    assert (case.cause, case.verdict) == ("open", HEALTHY)
    assert "timeout of 3 s" in case.facts[0]
    eventually(lambda: not cases_of(doctor(orders), "orders"))


def test_instances_that_fence_each_other(broker: Broker, orders: str) -> None:
    rivals = [Hand(orders, "rivals") for _ in range(4)]
    for each in rivals:
        assert each.init() == "NONE"
    assert rivals[-1].add() == "NONE"
    assert rivals[-1].write() == "NONE"
    found = doctor(orders)
    told = [one.says for one in found.problems if one.cause == "instances-fence-each-other"]
    assert any(says.startswith("rivals: 4 new epochs") for says in told)


@pytest.mark.releases("3.6", "4.4")
def test_a_marker_that_a_proxy_holds_is_late(broker: Broker, tmp_path: Path) -> None:
    with behind_a_proxy(broker.release, tmp_path / "broker") as (between, proxy):
        on = {"request": "WriteTxnMarkers", "topic": "orders"}
        proxy.faults.add({"do": "hold", "on": on, "until": {"request": "DeleteTopics"}})
        producer = in_transactions(between.bootstrap, "held")
        producer.begin_transaction()
        producer.produce("orders", "v")
        producer.commit_transaction(10)
        eventually(lambda: any(fault.waiting for fault in proxy.faults.all.values()))
        case = only_case(between.bootstrap, "orders")
        assert (case.cause, case.verdict) == ("late-marker", UNKNOWN)
        assert case.entry is not None
        assert case.entry.state == "PrepareCommit"
        let_go(proxy)
        eventually(lambda: read(between.bootstrap, "orders") == ["v"])
        eventually(lambda: doctor(between.bootstrap).verdict is HEALTHY)


def test_a_broker_at_work_is_healthy(broker: Broker, orders: str) -> None:
    stops = threading.Event()

    def work(number: int) -> None:
        producer = in_transactions(orders, f"work-{number}")
        while not stops.is_set():
            producer.begin_transaction()
            producer.produce("orders", "v", partition=number % 2)
            producer.produce("orders", "v", partition=(number + 1) % 2)
            producer.commit_transaction(10)

    works = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in works:
        each.start()
    try:
        for _ in range(5):
            found = doctor(orders, 20_000)
            assert verdict_of(found, "orders") is HEALTHY, list(lines(found))
        found = look([files_of(broker)], broker.release, is_complete=True)
        assert verdict_of(found, "orders") is not HANGS, list(lines(found))
    finally:
        stops.set()
        for each in works:
            each.join()
