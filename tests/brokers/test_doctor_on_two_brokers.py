"""What doctor says of two brokers, one of which fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from epochfence.model.conformance.findings.reproductions import REPRODUCTIONS
from epochfence.model.conformance.findings.started import started
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.doctor.diagnosis import Case, Diagnosis
from epochfence.model.doctor.evidence import Verdict
from epochfence.model.wire.connection import Connection, Security
from epochfence.tests.brokers.doctor import doctor, only_case
from epochfence.tests.model.serve.clients import TIMEOUT_S, eventually, in_transactions

FIRST: Final = 1
pytestmark = pytest.mark.sample(1, of="doctor on two brokers")


@contextmanager
def two(release: str, folder: Path) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers, and a topic `orders` that the first one leads."""
    with (
        Broker(release, folder / "1") as first,
        Broker(release, folder / "2", beside=first) as second,
    ):
        admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
        topic = NewTopic("orders", 1, replica_assignment=[[FIRST]])
        admin.create_topics([topic])["orders"].result(TIMEOUT_S)
        yield first, second


def coordinated_by(bootstrap: str, node: int) -> str:
    """A transactional id that this broker coordinates."""
    host, _, port = bootstrap.rpartition(":")
    connection = Connection(host, int(port), Security())
    found: list[str] = []

    def is_there() -> bool:
        for number in range(50):
            name = f"app-{number}"
            asked = {"key": name, "key_type": 1}
            told = connection.ask("FindCoordinator", 1, asked)
            if told["error_code"] == "NONE" and told["node_id"] == node:
                found.append(name)
                return True
        return False

    eventually(is_there)
    connection.close()
    return found[0]


def causes(found: Diagnosis) -> list[str]:
    return [item.cause for item in (*found.cases, *found.problems)]


@pytest.mark.releases("3.6", "4.0.1", "4.4")
def test_a_transaction_log_without_a_leader(broker: Broker, tmp_path: Path) -> None:
    """Its coordinator is gone, and the partition that it led has no other replica."""
    with two(broker.release, tmp_path) as (first, second):
        producer = in_transactions(first.bootstrap, coordinated_by(first.bootstrap, second.id))
        producer.begin_transaction()
        producer.produce("orders", "A")
        assert producer.flush(TIMEOUT_S) == 0
        assert only_case(first.bootstrap, "orders").cause == "open"
        second.kill()
        eventually(lambda: "coordinator-without-leader" in causes(doctor(first.bootstrap)))
        found = doctor(first.bootstrap)
        assert (found.verdict, found.cases[0].cause) == (Verdict.HANGS, "not-known")
        assert found.problems[0].says.startswith("__transaction_state-")
        producer.purge()


@pytest.mark.releases("4.4")
def test_a_marker_that_was_dropped_for_want_of_a_leader(broker: Broker) -> None:
    """Finding 13."""
    seen: list[Case] = []
    with started(REPRODUCTIONS[13], broker.release, lambda _: None) as brokers:

        def look(said: str) -> None:
            if said == "the abort is complete":
                seen.extend(doctor(brokers.bootstrap).cases)

        assert REPRODUCTIONS[13].run(replace(brokers, say=look)).is_there
    assert "hanging" in [case.cause for case in seen]
    named = {bug.name for case in seen for bug in case.bugs if case.cause == "hanging"}
    assert "finding 13, KAFKA-20734" in named
