"""Kafka's own classes of each release take the local steps of the tables, without a broker."""

from __future__ import annotations

import pytest

from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.coordinator_steps import Coordinator
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.tests.brokers.kafka import Broker

STATES = 12


@pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4")
def test_the_coordinator_of_kafka_takes_the_steps_of_the_tables(broker: Broker) -> None:
    machine = Coordinator(broker.release)
    with Host(machine.name, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES), host)
    assert (result.died, result.disagreements) == ("", [])
    assert result.steps > 1000
