"""Refinement checks of the parts of a client's batches that systems leave out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.checker.refinement import refine
from epochfence.language import System, some
from epochfence.language.instances.reductions import NotOffered, Settled, StandsFor
from epochfence.spec.client.calls import calls
from epochfence.spec.client.producer import request_overtaken
from epochfence.spec.client.state import FATAL_ERROR, INITIALIZING, state
from epochfence.spec.client.transactions import failures
from epochfence.spec.client.transactions import requests as requests_of_client
from epochfence.spec.client.transactions.init_producer_id import version_as_ready
from epochfence.spec.client.transactions.transaction_manager import (
    call_acknowledged,
    finalized_version,
    pending_call,
    transaction_version,
)
from epochfence.spec.messages import producer
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions import client, requests
from epochfence.spec.systems.reductions.client import OF_DRAIN
from epochfence.tests.spec.alterations import with_rows
from epochfence.tests.spec.restricted import restricted

SMALL = {
    "idempotence": {"partitions": 1, "records": 2, "faults": 1},
    "transactions": {"partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 1},
}
MOST = 100
ALLOWED = OF_DRAIN[-1]
"""The reduction of isSendToPartitionAllowed."""


@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_a_system_drains_what_the_client_drains(name: str, protocol: str) -> None:
    """Each reduction of `drain` is compared with the system that doesn't have it. Only clients of
    transactions of version 2 have a partition without a step that adds it."""
    adds_with_batch = name == "transactions" and protocol.startswith("4")
    for reduction in OF_DRAIN:
        if reduction is ALLOWED and adds_with_batch:
            continue
        found = refine(
            shipped(name), reduction, protocol=protocol, constants=SMALL[name], most=MOST
        )
        assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
        assert found.steps > 50


def test_with_version_2_a_batch_adds_its_partition() -> None:
    """The system drains a batch right after beginTransaction. Kafka's producer adds the partition
    in `send` before, which is no step of the system."""
    found = refine(
        shipped("transactions"),
        ALLOWED,
        protocol="4.4",
        constants=SMALL["transactions"],
        most=MOST,
    )
    assert found.mismatch is not None
    assert not found.mismatch.is_of_whole
    assert found.mismatch.step == "producer.drain/next-sequence"
    assert found.mismatch.run[-1] == "producer.beginTransaction/begin"


def test_restrictions_of_the_environment_say_so() -> None:
    """Every other reduction of `drain` only leaves steps out."""
    assert all(isinstance(one, NotOffered) for one in OF_DRAIN if one is not ALLOWED)


NEVER_OVERTAKEN = NotOffered(
    producer,
    request_overtaken,
    when=state == FATAL_ERROR,
    because="A client in FATAL_ERROR waits for no answer, and none can be overtaken.",
)


def without_late_requests(name: str) -> System:
    """The system, whose clients in FATAL_ERROR send no request again. In the shipped system such a
    client has no partition to ask for, which is the reduction to be compared."""
    system = shipped(name)
    return system if name == "idempotence" else restricted(system, NEVER_OVERTAKEN)


@pytest.mark.slow(10)
@pytest.mark.sample(3, of="engines: fields of a client that are settled")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize(
    ("name", "reduction", "producers"),
    [
        ("idempotence", client.FATAL_ERROR, 1),
        ("transactions", client.FATAL_ERROR, 2),
        ("transactions", requests.NO_TRANSACTION, 1),
    ],
)
def test_fields_that_are_settled_have_no_effect(
    name: str, reduction: Settled, producers: int, protocol: str
) -> None:
    """Both systems take the same steps in both directions, in all states of the bounds. With two
    clients one is fenced."""
    more = {} if name == "idempotence" else {"producers": producers, "faults": 2 - producers}
    constants = SMALL[name] | more
    system = without_late_requests(name)
    found = refine(system, reduction, protocol=protocol, constants=constants)
    assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
    assert found.exhaustive
    assert found.steps > 200


LEARNT_AT_ONCE = Settled(
    {transaction_version: finalized_version},
    when=calls.waits_as_ready,
    because="Nobody reads the version of transactions before initTransactions returns.",
)
"""A call is one step of a system, which has the version with the answer to InitProducerId."""
NO_RECORD = NotOffered(
    producer,
    failures.send_failure,
    when=calls.waits_as_ready,
    because="An application that waits for initTransactions sends no record.",
)
FEW_EVENTS = tuple(
    NotOffered(producer, each, when=True, because="With few events a run goes further.")
    for each in (
        calls.call_close,
        calls.call_offsets,
        failures.raise_error,
        requests_of_client.answer_lost,
        requests_of_client.unauthorized,
        requests_of_client.version_mismatch,
    )
)


def with_call_in_row(system: System) -> System:
    """The system whose row `ready` of initTransactions names the call that waits, as it is."""
    (table,) = (each for each in system.tables if each.name == "producer.InitProducerIdResponse")
    (row,) = (each for each in table.rows if each.id == "ready")
    of_call = replace(
        row,
        id="ready-for-call",
        when=row.guard & (pending_call == some(INITIALIZING)),
        set={**row.set, pending_call: some(INITIALIZING), call_acknowledged: False},
    )
    at = table.rows.index(row)
    return with_rows(system, table, (*table.rows[:at], of_call, *table.rows[at:]))


@pytest.mark.slow(2)
@pytest.mark.parametrize("protocol", ["4.0.1", "4.4"])
def test_the_version_may_be_learnt_with_the_answer(protocol: str) -> None:
    """KafkaProducer.initTransactions learns it as it returns. Only a record that fails before, on
    another thread, makes a difference: it needs a new epoch without version 2."""
    shown = with_call_in_row(shipped("calls"))
    with_record = replace(shown, reductions=(*shown.reductions, LEARNT_AT_ONCE, *FEW_EVENTS))
    found = refine(with_record, LEARNT_AT_ONCE, protocol=protocol, bounds="small", most=2_000)
    assert found.mismatch is not None
    assert found.mismatch.step.startswith("producer.send failed/")
    for few in ((), FEW_EVENTS):
        alone = replace(shown, reductions=(*shown.reductions, LEARNT_AT_ONCE, NO_RECORD, *few))
        found = refine(alone, LEARNT_AT_ONCE, protocol=protocol, bounds="small", most=1_000)
        assert found.mismatch is None, f"{found.mismatch}"
        assert found.steps > 10_000


VERSION_AS_READY = next(
    one for one in client.OF_REQUESTS if isinstance(one, StandsFor) and one.of is version_as_ready
)
CHECKED = (*OF_DRAIN, client.FATAL_ERROR, requests.NO_TRANSACTION, VERSION_AS_READY)
