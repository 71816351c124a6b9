"""Refinement checks of the order of events in `calls`: the environment only leaves steps out, and
those have the effect of others."""

from __future__ import annotations

from collections import deque

import pytest

from epochfence.checker.refinement import refine, whole_system
from epochfence.language import instantiate, some
from epochfence.language.instances.reductions import Canonical, NotOffered
from epochfence.model.engine.compiler.stepper import Stepper
from epochfence.spec.client.calls import any_broker, calls
from epochfence.spec.client.transactions import failures, requests
from epochfence.spec.client.transactions.queue import Request, answered, current
from epochfence.spec.client.transactions.transaction_manager import last_error, request_in_flight
from epochfence.spec.errors import Errors
from epochfence.spec.messages import producer
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.calls import CALLS
from epochfence.tests.spec.restricted import restricted

RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
CHECK = "tests/spec/test_calls_refinement.py"
CHECKED = tuple(one for one in CALLS if one.refined_by == CHECK)
WHY = "The test looks at few events, so that it sees all states."
FEW_ERRORS = (
    Errors.NONE,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.PRODUCER_FENCED,
    Errors.TRANSACTION_ABORTABLE,
)
FEW = (
    *(
        NotOffered(producer, each, when=True, because=WHY)
        for each in (
            calls.call_close,
            calls.call_offsets,
            failures.raise_error,
            failures.send_failure,
            requests.answer_lost,
            requests.unauthorized,
            requests.version_mismatch,
        )
    ),
    *(
        NotOffered(any_broker.broker, each, when=~each.error.is_in(*FEW_ERRORS), because=WHY)
        for each in (any_broker.answer_init, any_broker.answer_partitions, any_broker.answer_end)
    ),
)


@pytest.mark.slow(3)
@pytest.mark.sample(6, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", CHECKED, ids=lambda one: one.event.name)
def test_the_environment_only_leaves_steps_out(reduction: NotOffered, release: str) -> None:
    """The real one brings about each event in its turn, so that there is no other direction."""
    found = refine(shipped("calls"), reduction, protocol=release, bounds="small", most=60)
    assert found.mismatch is None
    assert found.steps > 500


# Errors with the effect of others -----------------------------------------------------------------

NO_NAME = Canonical(
    last_error,
    some(Errors.UNKNOWN_SERVER_ERROR),
    when=last_error.is_set,
    because="The name of the last error is its only difference.",
)
IN_THEIR_TURN = tuple(
    NotOffered(
        producer,
        answer,
        when=~((current == some(request)) & request_in_flight & ~answered),
        because="A request has at most one answer, while it is in flight.",
    )
    for answer, request in (
        (requests.offsets_answered, Request.ADD_OFFSETS_TO_TXN),
        (requests.offset_answered, Request.TXN_OFFSET_COMMIT),
    )
)
OF_ERRORS = [one for one in CALLS if "Every other error" in one.because]


@pytest.mark.slow(5)
@pytest.mark.sample(2, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", OF_ERRORS, ids=lambda one: one.event.name)
def test_every_other_error_has_the_effect_of_one_of_these(
    reduction: NotOffered, release: str
) -> None:
    system = restricted(shipped("calls"), NO_NAME, *IN_THEIR_TURN)
    found = refine(
        system, reduction, protocol=release, bounds="small", most=100, loses_nothing=True
    )
    assert found.mismatch is None
    assert found.steps > 500


# An answer in flight comes first ------------------------------------------------------------------

BEHIND_ANSWER = [
    one
    for one in CALLS
    if one.when is answered
    and one.event
    in (
        calls.init_transactions,
        calls.begin_transaction,
        calls.commit_transaction,
        calls.abort_transaction,
        calls.call_send,
    )
]


@pytest.mark.slow(20)
@pytest.mark.sample(1, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", BEHIND_ANSWER, ids=lambda one: one.event.name)
def test_a_broker_may_as_well_answer_after_the_call(reduction: NotOffered, release: str) -> None:
    """An answer and then the call lead to the state of the call and then the answer."""
    whole = instantiate(
        whole_system(restricted(shipped("calls"), *FEW), reduction),
        protocol=release,
        bounds="small",
    )
    stepper, compared = Stepper(whole), 0
    called = f"producer.{reduction.event.name}"
    known = set(whole.initial_states())
    waiting = deque(known)
    while waiting:
        steps = [step for step in stepper.steps(waiting.popleft()) if step.state is not None]
        after_call = {
            (answer.row, step.row, answer.state)
            for step in steps
            if step.action.table == called and step.state is not None
            for answer in stepper.steps(step.state)
            if answer.action.table.startswith("broker.")
        }
        for step in steps:
            assert step.state is not None
            if step.action.table.startswith("broker."):
                for call in stepper.steps(step.state):
                    if call.action.table == called:
                        compared += 1
                        assert (step.row, call.row, call.state) in after_call
            if step.state not in known:
                known.add(step.state)
                waiting.append(step.state)
    assert compared > 20
