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
from epochfence.tests.spec.restricted import restricted, withheld

SMALL = {
    "idempotence": {"partitions": 1, "records": 2, "faults": 1},
    "transactions": {"partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 1},
}
MOST = 100
ALLOWED = OF_DRAIN[-1]
"""The reduction of isSendToPartitionAllowed."""


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        *(("idempotence", release) for release in ("2.5", "3.6", "4.0.1", "4.4")),
        *(("transactions", release) for release in ("2.5", "3.6")),
    ],
)
def test_a_system_drains_what_the_client_drains(name: str, protocol: str) -> None:
    """In both directions. Only clients of transactions of version 2 have a partition without a step
    that adds it."""
    faults = {"faults": int(name == "idempotence")}
    constants = SMALL[name] | faults
    found = refine(shipped(name), ALLOWED, protocol=protocol, constants=constants)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.taken


WRITES_AS_DRAINED, DRAINS_LAST = (one for one in OF_DRAIN if one is not ALLOWED)


@pytest.mark.slow(2)
@pytest.mark.sample(3, of="engines: drains that are left out")
@pytest.mark.parametrize(
    ("name", "reduction", "protocol"),
    [
        *(("transactions", WRITES_AS_DRAINED, each) for each in ("2.5", "3.6", "4.0.1", "4.4")),
        *(("transactions", DRAINS_LAST, each) for each in ("2.5", "3.6")),
        *(("idempotence", DRAINS_LAST, each) for each in ("2.5", "3.6", "4.0.1", "4.4")),
    ],
)
def test_a_system_leaves_some_drains_out(name: str, reduction: NotOffered, protocol: str) -> None:
    """Of two partitions one may be added while the other is drained; with transactions of version 2
    none waits to be added."""
    constants = SMALL[name] | ({"partitions": 2} if name == "transactions" else {"faults": 2})
    assert withheld(shipped(name), reduction, protocol=protocol, constants=constants) > 0


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
"""In the shipped system such a client has no partition to ask for, which is the reduction to be
compared."""


@pytest.mark.slow(10)
@pytest.mark.sample(3, of="engines: fields of a client that are settled")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize(
    ("reduction", "producers"),
    [(client.FATAL_ERROR, 2), (requests.NO_TRANSACTION, 1)],
)
def test_fields_that_are_settled_have_no_effect(
    reduction: Settled, producers: int, protocol: str
) -> None:
    """Both systems take the same steps in both directions, in all states of the bounds. With two
    clients one is fenced."""
    constants = SMALL["transactions"] | {"producers": producers, "faults": 2 - producers}
    system = restricted(shipped("transactions"), NEVER_OVERTAKEN)
    found = refine(system, reduction, protocol=protocol, constants=constants)
    assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
    assert found.exhaustive
    assert found.taken


@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
def test_no_run_of_an_idempotent_client_has_a_fatal_error(protocol: str) -> None:
    """What would follow is tested with two transactional clients."""
    constants = SMALL["idempotence"]
    found = refine(
        shipped("idempotence"), client.FATAL_ERROR, protocol=protocol, constants=constants
    )
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.untaken == {"producer.ProduceResponse/fatal"}


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
    few = (LEARNT_AT_ONCE, NO_RECORD, *FEW_EVENTS)
    alone = replace(shown, reductions=(*shown.reductions, *few))
    found = refine(alone, LEARNT_AT_ONCE, protocol=protocol, bounds="small", most=1_000)
    assert found.mismatch is None, f"{found.mismatch}"
    assert found.taken


VERSION_AS_READY = next(
    one for one in client.OF_REQUESTS if isinstance(one, StandsFor) and one.of is version_as_ready
)
CHECKED = (*OF_DRAIN, client.FATAL_ERROR, requests.NO_TRANSACTION, VERSION_AS_READY)
