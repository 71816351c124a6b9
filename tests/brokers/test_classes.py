"""Kafka's own classes of each release take the local steps of the tables, without a broker."""

from __future__ import annotations

import pytest

from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.model.conformance.classes.machines import MACHINES
from epochfence.model.conformance.kafka.broker import Broker

STATES = {"coordinator": 12, "leader": 20, "producer-ids": 50, "controller": 8}


@pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4")
@pytest.mark.parametrize("name", MACHINES)
def test_the_classes_of_kafka_take_the_steps_of_the_tables(name: str, broker: Broker) -> None:
    machine = MACHINES[name](broker.release)
    with Host(name, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES[name]), host)
    assert (result.died, result.disagreements) == ("", [])
    assert result.steps > 100
