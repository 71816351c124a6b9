"""Refinement checks of a client's batches: the steps of systems, beside those of the client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.checker.refinement import refine
from epochfence.language import System
from epochfence.language.declaration.errors import DeclarationError
from epochfence.language.instances.reductions import Canonical, StandsFor
from epochfence.spec.client import state as own
from epochfence.spec.messages import PARTITION, RECORD
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions import client

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
NEED_TIME = (client.OF_ACCUMULATOR[0], client.OF_ACCUMULATOR[5])
"""No bounded system has the time that a client without these reads."""
SENT_AT_ONCE = [
    one for one in client.OF_PRODUCE_RESPONSE if "sent again in the same step" in one.because
]
"""In `transactions` these join two steps of Kafka's to one: no step-by-step refinement."""
COMPARED = [
    one
    for one in (*client.FIELDS, *client.OF_PRODUCE_RESPONSE, *client.OF_EXPIRY)
    if one not in (NO_TIME, NO_CONNECTIONS, *NEED_TIME)
    and (one not in client.FIELDS or (isinstance(one, StandsFor) and one.of.op == "field"))
]


def with_outcomes_alone(name: str, *without: object) -> System:
    """The shipped system, where batches that are done have their outcome alone, whatever their rows
    leave behind, and without some reductions."""
    system = shipped(name)
    assert system.reduced is not None
    kept = [one for one in system.reductions if one not in without]
    return replace(system, **system.reduced.given, reductions=(*kept, OUTCOME_ALONE), reduced=None)


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


def test_reductions_that_are_no_refinements_of_single_steps() -> None:
    """A system's batch may expire at any moment, and answers that nobody awaits arrive."""
    system = with_outcomes_alone("idempotence")
    early = refine(system, NO_TIME, protocol="4.4", constants=SMALL["idempotence"]).mismatch
    assert early is not None
    assert not early.is_of_whole
    assert early.step == "producer.batch expires/first-attempt"
    late = refine(system, NO_CONNECTIONS, protocol="4.4", constants=SMALL["idempotence"]).mismatch
    assert late is not None
    assert late.is_of_whole
    assert late.step == "producer.ProduceResponse/acknowledged"
    for reduction in NEED_TIME:
        with pytest.raises(DeclarationError):
            _ = refine(system, reduction, protocol="4.4", constants=SMALL["idempotence"])
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
