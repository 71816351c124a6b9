"""Kafka's Java clients on a served cluster of their release."""

from __future__ import annotations

from epochfence.model.serve.server import Server
from epochfence.tests.brokers.kafka import Broker
from epochfence.tests.model.serve.behaviours import (
    PLAN,
    RELEASES,
    SCHEDULES,
    behaviour,
    by_java,
    shown,
)
from epochfence.tests.model.serve.clients import read


def test_a_client_of_a_release_runs_transactions(broker: Broker) -> None:
    failing_over = SCHEDULES[1]
    with Server(broker.release, topics={"orders": 1}, brokers=2) as server:
        server.faults.add(failing_over.fault)
        assert by_java(server.bootstrap, PLAN, broker.version) == ["C", "C", "C"]
        assert read(server.bootstrap, "orders") == ["0", "1", "2"]
        assert server.faults.unfired == []


def test_a_client_does_as_the_page_says(broker: Broker) -> None:
    """The page's client is of 4.3; brokers that aren't look for what they share with it."""
    release = broker.release if broker.release in RELEASES else RELEASES[0]
    for schedule in (SCHEDULES[0], SCHEDULES[-1]):
        assert behaviour("Java", release, schedule) == shown("Java", release, schedule)
