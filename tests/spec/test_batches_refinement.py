"""Refinement checks of a client's batches: the steps of systems, beside those of the client."""

from __future__ import annotations

import pytest

from epochfence.checker.refinement import refine
from epochfence.language import Row, System, Table, any_of, event, position
from epochfence.language.instances.reductions import Canonical, NotOffered, Reduction, StandsFor
from epochfence.spec.client import state as own
from epochfence.spec.client.batches import accumulator, sender
from epochfence.spec.messages import PARTITION, RECORD, ProduceResponse, clock, now, producer
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions import client
from epochfence.tests.spec.restricted import restricted

SMALL = {
    "idempotence": {"partitions": 1, "records": 2, "faults": 1},
    "transactions": {"partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 0},
}
MOST = 100
FORGOTTEN = (*client.OF_PRODUCE_RESPONSE[:2], client.OF_EXPIRY[1])
"""Batches that are done: the system keeps their outcome alone."""
a_batch = own.batches[PARTITION.variable("a_partition")][RECORD.variable("a_record")]
OUTCOME_ALONE = Canonical(
    a_batch,
    own.Batch(status=a_batch.status),
    when=a_batch.status.is_in(own.ACKNOWLEDGED, own.FAILED),
    because="The form in which both systems are compared.",
)
NO_TIME = client.OF_EXPIRY[0]
NO_CONNECTIONS = next(
    one
    for one in client.OF_PRODUCE_RESPONSE
    if getattr(one, "row", "") == "producer.ProduceResponse/not-awaited"
)
MUTED, KEEPS_ORDER, *_, DETAILS = client.OF_ACCUMULATOR
IN_THEIR_SYSTEM = (NO_TIME, NO_CONNECTIONS, MUTED, DETAILS)
"""These are compared in systems that have what the reduction is about."""
SENT_AT_ONCE = [
    one for one in client.OF_PRODUCE_RESPONSE if "sent again in the same step" in one.because
]
"""In `transactions` these join two steps of Kafka's to one: no step-by-step refinement."""
COMPARED = [
    one
    for one in (*client.FIELDS, *client.OF_PRODUCE_RESPONSE, *client.OF_EXPIRY)
    if one not in IN_THEIR_SYSTEM
    and (one not in client.FIELDS or (isinstance(one, StandsFor) and one.of.op == "field"))
]


def with_outcomes_alone(name: str, *without: Reduction) -> System:
    """The shipped system, where batches that are done have their outcome alone, whatever their rows
    leave behind, and without some reductions."""
    return restricted(shipped(name), OUTCOME_ALONE, without=without)


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="engines: reductions of the client's batches")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_batches_of_a_system_take_the_steps_of_the_clients(name: str, protocol: str) -> None:
    """In both directions, with all states of the bounds."""
    constants = SMALL[name]
    system = with_outcomes_alone(name)
    joined = () if name == "idempotence" else SENT_AT_ONCE
    for reduction in COMPARED:
        if reduction in joined:
            continue
        found = refine(system, reduction, protocol=protocol, constants=constants)
        assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
        assert found.exhaustive
        assert found.steps > 40
    whole = with_outcomes_alone(name, *FORGOTTEN)
    found = refine(whole, OUTCOME_ALONE, protocol=protocol, constants=constants)
    assert (found.mismatch, found.exhaustive) == (None, True)


# Answers that nobody awaits -----------------------------------------------------------------------

_answered = own.batches[ProduceResponse.partition][ProduceResponse.record]
GIVEN_UP = NotOffered(
    producer,
    ProduceResponse,
    when=_answered.status != own.SENT,
    because="The answer to a batch that its client has given up is lost with the connection.",
)


@pytest.mark.slow(5)
@pytest.mark.sample(1, of="engines: reductions of the client's batches")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_only_answers_to_batches_given_up_are_ignored(name: str, protocol: str) -> None:
    """Where these are lost, both systems take the same steps, in both directions."""
    system = restricted(with_outcomes_alone(name), GIVEN_UP)
    constants = SMALL[name] | {"faults": 1, "leader_changes": 0}
    found = refine(system, NO_CONNECTIONS, protocol=protocol, constants=constants)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.steps > 40


def test_an_answer_to_a_batch_given_up_counts_in_kafka() -> None:
    """A client whose batch has expired takes the answer, and its last acknowledged sequence with
    it. A system leaves that out."""
    system = with_outcomes_alone("idempotence")
    late = refine(system, NO_CONNECTIONS, protocol="4.4", constants=SMALL["idempotence"]).mismatch
    assert late is not None
    assert late.is_of_whole
    assert late.step == "producer.ProduceResponse/acknowledged"
    assert late.run[-1] == "producer.batch expires/first-attempt"


# What a batch is ----------------------------------------------------------------------------------

open_batch = event("open a batch", partition=PARTITION, record=RECORD)
_opened = own.details[open_batch.partition][open_batch.record]
_earlier = own.details[open_batch.partition][own.s]
OPENS = Table(
    producer,
    on=open_batch,
    others=(clock,),
    when=(_opened.count == 0)
    & ~any_of(own.s, (position(own.s) < position(open_batch.record)) & (_earlier.count == 0)),
    rows=(
        Row(
            "open",
            set={
                _opened: own.BatchDetails(
                    count=1,
                    place=position(open_batch.record),
                    created_ms=now,
                    last_attempt_ms=now,
                )
            },
        ),
    ),
)
"""The application writes the records of a partition in their order."""
ANY_ATTEMPTS = {sender.RETRIES: 9, sender.LARGEST_BACKOFF: 0}


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="engines: reductions of the client's batches")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_a_batch_is_one_record_once_it_is_opened(name: str, protocol: str) -> None:
    """The client that keeps its batches' details takes the same steps, in both directions."""
    found = refine(
        shipped(name),
        DETAILS,
        protocol=protocol,
        constants=SMALL[name] | {"faults": 1},
        tables=(OPENS,),
        fixed=ANY_ATTEMPTS,
    )
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.steps > 200


@pytest.mark.slow(5)
@pytest.mark.sample(2, of="engines: reductions of the client's batches")
@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("keeps_order", [False, True])
def test_a_muted_partition_has_a_batch_in_flight(keeps_order: bool, protocol: str) -> None:
    """A client that keeps the order has one batch in flight: the constant says so, too."""
    order = StandsFor(accumulator.keeps_order, keeps_order, because="The test says so.")
    system = restricted(
        with_outcomes_alone("idempotence", *SENT_AT_ONCE), order, without=(KEEPS_ORDER,)
    )
    constants = SMALL["idempotence"] | {"in_flight": 2 - keeps_order}
    found = refine(system, MUTED, protocol=protocol, constants=constants)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.steps > 40


def test_reductions_that_join_two_steps() -> None:
    """A transactional client sends a batch again in the step of the answer."""
    joined = refine(
        with_outcomes_alone("transactions"),
        SENT_AT_ONCE[1],
        protocol="4.4",
        constants=SMALL["transactions"] | {"faults": 1},
        most=MOST,
    ).mismatch
    assert joined is not None
    assert joined.is_of_whole
    assert joined.step == "producer.ProduceResponse/retriable"


CHECKED = (*COMPARED, *FORGOTTEN, NO_CONNECTIONS, MUTED, DETAILS)
