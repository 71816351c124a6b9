"""Kafka's own classes of each release take the local steps of the tables, without a broker."""

from __future__ import annotations

import pytest

from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.model.conformance.classes.machines import MACHINES, has
from epochfence.model.conformance.kafka.broker import Broker

STATES = {"coordinator": 12, "leader": 20, "producer-ids": 50, "controller": 8}

FROM_3_6 = ("3.6", "3.9", "4.0.1", "4.3", "4.4")


def takes(name: str, broker: Broker) -> None:
    machine = MACHINES[name](broker.release)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES[name]), host)
    assert (result.died, result.disagreements) == ("", [])
    assert result.steps > 100


@pytest.mark.releases("2.5", *FROM_3_6)
@pytest.mark.parametrize("name", [name for name in MACHINES if has(name, "2.5")])
def test_the_classes_of_kafka_take_the_steps_of_the_tables(name: str, broker: Broker) -> None:
    takes(name, broker)


@pytest.mark.releases(*FROM_3_6)
@pytest.mark.parametrize("name", [name for name in MACHINES if not has(name, "2.5")])
def test_the_classes_of_ids_take_the_steps_of_the_tables(name: str, broker: Broker) -> None:
    takes(name, broker)
