"""What docs/findings.md tells, on brokers: by hand, or by Kafka's own clients behind a proxy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from epochfence.model.conformance.findings.brokers import Brokers, InconclusiveError
from epochfence.model.conformance.findings.reproductions import (
    REPRODUCTIONS,
    commit_in_downgrade,
    local_bump,
)
from epochfence.model.conformance.findings.started import started
from epochfence.model.conformance.kafka.broker import (
    SLOWEST_START_S,
    Broker,
    Listener,
    bring,
    free_port,
)
from epochfence.model.serve.proxy import Proxy
from epochfence.model.wire.connection import Security
from epochfence.tests.brokers.topics import make_orders
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    eventually,
    in_transactions,
    read,
)
from epochfence.tests.model.serve.driven import JavaProducer

with_kraft = pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4")
with_version_2 = pytest.mark.releases("4.0.1", "4.3", "4.4")
DAY_MS: Final = 86_400_000
pytestmark = pytest.mark.sample(4, of="findings on brokers")


def configure(bootstrap: str, name: str, value: int | str) -> None:
    """Sets a setting of the broker, and waits until the broker has it."""
    entry = ConfigEntry(name, f"{value}", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)

    def has_it() -> bool:
        (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
        return described.result(TIMEOUT_S)[name].value == f"{value}"

    eventually(has_it)


def reproduced(broker: Broker, restart: Callable[[], None] | None = None) -> Brokers:
    """The broker, its own client, and no output."""
    return Brokers(
        broker.bootstrap, Security(), lambda: f"{bring(broker.version)}/*", restart, lambda _: None
    )


def fired(proxy: Proxy) -> None:
    """Waits until all faults have come about; a broker may start meanwhile."""
    until = time.monotonic() + SLOWEST_START_S
    while not proxy.faults.all_fired:
        assert time.monotonic() < until, proxy.report()
        time.sleep(0.05)


@with_kraft
def test_1_a_local_bump_sends_again_what_was_appended(broker: Broker) -> None:
    """By a snapshot that has the last batch alone: no batch is refused for its content."""

    def restart() -> None:
        broker.end()
        broker.start()

    found = local_bump(reproduced(broker, restart))
    assert found.is_there
    assert found.observed == "first, A, B, A, B"


@with_kraft
@pytest.mark.parametrize("number", [2, 7])
def test_2_and_7_an_unknown_producer_starts_in_mid_sequence(broker: Broker, number: int) -> None:
    """The leader refuses A for ever: B came first. After a bump A is behind it."""
    assert REPRODUCTIONS[number].run(reproduced(broker)).is_there


@with_kraft
def test_5_a_request_that_outlives_the_producer_s_state(broker: Broker) -> None:
    """From KIP-854 on, which lets brokers forget producers sooner than in a day."""
    with pytest.raises(InconclusiveError, match="the run waits for 60 s at most"):
        REPRODUCTIONS[5].run(reproduced(broker))
    configure(broker.bootstrap, "producer.id.expiration.ms", 500)
    try:
        assert REPRODUCTIONS[5].run(reproduced(broker)).observed == "A, A"
    finally:
        configure(broker.bootstrap, "producer.id.expiration.ms", DAY_MS)


@with_kraft
def test_14_a_record_of_another_thread_takes_the_answer_of_a_commit(broker: Broker) -> None:
    assert REPRODUCTIONS[14].run(reproduced(broker)).is_there


def test_16_a_refused_offset_takes_the_pending_one_away(broker: Broker) -> None:
    found = REPRODUCTIONS[16].run(reproduced(broker))
    is_there = not broker.release.startswith("4")
    assert (found.observed, found.is_there) == (f"offset {5 if is_there else 7}", is_there)


def test_6_a_bump_to_the_last_epoch_is_answered_once(broker: Broker) -> None:
    assert REPRODUCTIONS[6].run(reproduced(broker)).observed == "UNKNOWN_SERVER_ERROR"


@with_version_2
@pytest.mark.parametrize("number", [9, 10, 12])
def test_9_10_and_12_happen_with_transactions_of_version_2(broker: Broker, number: int) -> None:
    assert REPRODUCTIONS[number].run(reproduced(broker)).is_there


@with_version_2
def test_9_a_commit_that_fails_is_aborted_without_a_downgrade(broker: Broker) -> None:
    assert not commit_in_downgrade(reproduced(broker), level=2).is_there


@pytest.mark.releases("3.6")
@pytest.mark.parametrize("number", [9, 10, 12])
def test_9_10_and_12_need_transactions_of_version_2(broker: Broker, number: int) -> None:
    with pytest.raises(InconclusiveError, match="is below 2 here"):
        REPRODUCTIONS[number].run(reproduced(broker))


@with_kraft
def test_17_the_last_stable_offset_is_below_the_logs_start(broker: Broker) -> None:
    found = REPRODUCTIONS[17].run(reproduced(broker))
    is_there = broker.release not in ("3.6", "3.9")
    assert (found.observed, found.is_there) == ("0" if is_there else "3", is_there)


AT: Final = {
    8: ("3.6", "3.9", "4.4"),
    11: ("4.0.1", "4.3", "4.4"),
    13: ("4.3", "4.4"),
    15: ("3.6", "4.3", "4.4"),
    18: ("4.0.1", "4.3", "4.4"),
}
"""The releases that show these findings, of those on which they are tried."""
TRIED: Final = {
    number: (*releases, *(("3.9", "4.0.1") if number == 13 else ()))
    for number, releases in AT.items()
}


@pytest.mark.parametrize("number", AT)
def test_8_11_13_15_and_18_on_brokers_of_their_own(broker: Broker, number: int) -> None:
    """With a debugger, a second broker or an authorizer."""
    release = broker.release
    if release in TRIED[number]:
        with started(REPRODUCTIONS[number], release, lambda _: None) as brokers:
            found = REPRODUCTIONS[number].run(brokers)
        assert found.is_there == (release in AT[number])


@pytest.mark.releases("4.4")
def test_the_command_starts_a_broker(broker: Broker) -> None:
    ended = epochfence("findings", "17", "--broker", broker.release, "--json", "-")
    assert ended.code == 12
    assert json.loads(ended.out)["observed"] == "0"


@pytest.mark.releases("4.4")
def test_the_command_reproduces_a_finding(broker: Broker) -> None:
    ended = epochfence("findings", "12", "--bootstrap", broker.bootstrap, "--json", "-")
    assert ended.code == 12
    assert json.loads(ended.out)["expected"] == "PRODUCER_FENCED"


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
