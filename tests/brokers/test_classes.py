"""Kafka's own classes of each release take the local steps of the tables, without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.model.conformance.classes.comparison import compare
from epochfence.model.conformance.classes.host import Host, jars_of
from epochfence.model.conformance.classes.machines import MACHINES, has
from epochfence.model.conformance.classes.machines.client_steps import Client
from epochfence.model.conformance.classes.machines.controller_steps import Controller
from epochfence.model.conformance.classes.machines.group_offsets_steps import GroupOffsets
from epochfence.model.conformance.classes.machines.leader_steps import Leader
from epochfence.model.conformance.classes.machines.producer_id_steps import (
    BACKOFF_MS,
    ProducerIds,
)
from epochfence.model.conformance.classes.machines.zookeeper_id_steps import BROKER, ZooKeeperIds
from epochfence.model.conformance.kafka.broker import VERSIONS as RELEASES
from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.machine import Machine
from epochfence.spec.leader.tables import DRIVEN
from epochfence.spec.producer_ids import rpc_manager, zookeeper
from epochfence.spec.producer_ids.controller import (
    allocated,
    deferred,
    failed_over,
    records_committed,
)
from epochfence.spec.systems.reductions.leader import LEADER_ALONE

STATES = {
    "coordinator": 12,
    "leader": 20,
    "producer-ids": 50,
    "controller": 20,
    "zookeeper-ids": 9,
    "group-offsets": 40,
    "client": 60,
}

FAILED_ABORT = (
    "initTransactions", "FIND_COORDINATOR is answered NONE", "INIT_PRODUCER_ID is answered NONE",
    "wait for the result", "beginTransaction", "send", "ADD_PARTITIONS_TO_TXN is answered NONE",
    "PRODUCE is answered NONE", "abortTransaction",
    "END_TXN is answered INVALID_PRODUCER_ID_MAPPING", "wait for the result",
    "initTransactions", "INIT_PRODUCER_ID is answered NONE",
    "wait for the result", "beginTransaction", "send",
)  # fmt: skip
"""The client may be initialized, as its coordinator doesn't know its producer id any more."""

CLOSED = (
    *FAILED_ABORT[:7],
    "close",
    "PRODUCE is answered NONE",
    "END_TXN is answered NONE",
)


NO_ID = (
    "initTransactions", "send of a record that is too large", "FIND_COORDINATOR is answered NONE",
    "wait for the result", "abortTransaction", "INIT_PRODUCER_ID is answered NONE",
    "wait for the result", "beginTransaction",
)  # fmt: skip
"""Finding 14: an abort before there is a producer id makes the client fail."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.releases(*(r for r in RELEASES if has(name, r))))
        for name in MACHINES
    ],
)
def test_the_classes_of_kafka_take_the_steps_of_the_tables(name: str, broker: Broker) -> None:
    machine = MACHINES[name](broker.release)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES[name]), host)
    assert (result.died, result.disagreements) == ("", [])
    assert result.steps > 100


@pytest.mark.releases("3.6", "3.9")
def test_a_client_whose_abort_failed_is_initialized_again(broker: Broker) -> None:
    machine = Client(broker.release)
    steps = list(machine.path(0, *FAILED_ABORT))
    assert ("initTransactions", "initialize") in steps[len(FAILED_ABORT) - 5].rows
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, steps, host)
    assert (result.died, result.disagreements) == ("", [])


@pytest.mark.releases("3.6", "4.4")
def test_a_closed_client_aborts_its_transaction(broker: Broker) -> None:
    """Sender.run goes on until its transaction is over."""
    machine = Client(broker.release)
    steps = list(machine.path(0, *CLOSED))
    assert ("abort as it closes", "begin-abort") in steps[-2].rows
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, steps, host)
    assert (result.died, result.disagreements) == ("", [])


@pytest.mark.releases("4.0.1", "4.3", "4.4")
def test_a_client_that_aborts_before_it_has_an_id_fails(broker: Broker) -> None:
    machine = Client(broker.release)
    steps = list(machine.path(2, *NO_ID))
    assert ("next request", "nothing-to-end-invalid") in steps[-3].rows
    assert steps[-1].rows == (("beginTransaction", "error-unwrapped"),)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, steps, host)
    assert (result.died, result.disagreements) == ("", [])


@pytest.mark.releases("4.4")
@pytest.mark.parametrize("feature", ["offset_errors_unchanged", "stale_epoch_first"])
def test_a_leader_that_answers_as_before_is_noticed(feature: str, broker: Broker) -> None:
    """ReplicaManager answers for the coordinator, and for a log that refuses a question."""
    tables = Machine(DRIVEN, protocol=broker.release, reductions=LEADER_ALONE, switch_off=[feature])
    machine = Leader(broker.release, tables)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES["leader"]), host)
    assert any("error" in place for found in result.disagreements for place in found.places)


@pytest.mark.releases("3.6", "4.4")
def test_a_controller_that_keeps_lost_records_is_noticed(broker: Broker) -> None:
    """QuorumController goes back to the last stable offset as it renounces."""
    row = next(row for row in failed_over.rows if row.id == "records-lost")
    kept = replace(row, set={deferred: row.set[deferred]})
    rows = tuple(kept if each is row else each for each in failed_over.rows)
    tables = Machine(
        (allocated, records_committed, replace(failed_over, rows=rows)), protocol="4.4"
    )
    machine = Controller(broker.release, tables)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(STATES["controller"]), host)
    assert {found.step.rows for found in result.disagreements} == {(("fail over", "records-lost"),)}
    assert "nextProducerBlock" in result.disagreements[0].places[0]


@pytest.mark.releases("3.6", "4.4")
def test_an_answer_that_comes_too_late_is_noticed(broker: Broker) -> None:
    """NetworkClient has closed the connection, and nobody gets the answer."""
    heeded = replace(rpc_manager.received, rows=rpc_manager.received.rows[1:])
    tables = tuple(
        heeded if table is rpc_manager.received else table for table in rpc_manager.TABLES
    )
    constants = {"retry_backoff_ms": BACKOFF_MS}
    machine = ProducerIds(
        broker.release, Machine(tables, protocol=broker.release, this=1, constants=constants)
    )
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(1), host)
    assert {found.step.given[0] for found in result.disagreements} == {5}


@pytest.mark.releases("4.4")
def test_the_client_of_another_release_is_noticed(broker: Broker) -> None:
    """From 4.0 on INVALID_PRODUCER_ID_MAPPING is fatal."""
    machine = Client("3.9")
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(60), host)
    assert any("currentState" in found.places[0] for found in result.disagreements)


@pytest.mark.releases("2.5")
def test_a_block_that_is_current_once_written_is_noticed(broker: Broker) -> None:
    """KAFKA-12620: before 3.0 a block is the current one before it is written."""
    tables = Machine(
        zookeeper.MANAGER_TABLES,
        protocol="2.5",
        this=BROKER,
        switch_on=["block_current_once_written"],
    )
    machine = ZooKeeperIds("2.5", tables)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(), host)
    assert any("currentProducerIdBlock" in found.places[0] for found in result.disagreements)


@pytest.mark.releases("3.6")
def test_a_refused_offset_that_drops_no_pending_one_is_noticed(broker: Broker) -> None:
    """Finding 16: before 4.0 a refused offset drops the pending one of its producer id."""
    machine = GroupOffsets("3.6")
    tables = Machine(machine.blank.tables, protocol="3.6", switch_on=["refused_offset_harmless"])
    machine = GroupOffsets("3.6", tables)
    with Host(machine.java, jars_of(broker.version)) as host:
        result = compare(machine, machine.steps(40), host)
    assert result.died == ""
    assert {found.step.rows[-1] for found in result.disagreements} == {
        ("offset of a transaction refused", "failed")
    }
