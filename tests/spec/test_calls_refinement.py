"""Refinement checks of the order of events in `calls`: the environment only leaves steps out, and
those have the effect of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

import pytest

from epochfence.checker.refinement import refine, whole_system
from epochfence.language import Event, Expression, instantiate, set_of, some
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
from epochfence.tests.spec.restricted import restricted, withheld

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


def few(events: Collection[Event], errors: Collection[Expression]) -> tuple[NotOffered, ...]:
    """Without these events, and with no other errors in the answers of brokers."""
    answers = (any_broker.answer_init, any_broker.answer_partitions, any_broker.answer_end)
    return (
        *(NotOffered(producer, each, when=True, because=WHY) for each in events),
        *(
            NotOffered(
                any_broker.broker, each, when=~each.error.is_in(set_of(*errors)), because=WHY
            )
            for each in answers
        ),
    )


FAILURES = (
    calls.call_close,
    failures.raise_error,
    failures.send_failure,
    requests.answer_lost,
    requests.unauthorized,
    requests.version_mismatch,
)
FEW = few((*FAILURES, calls.call_offsets), FEW_ERRORS)


DEPTH = 18
DEPTHS = {
    requests.ask_for_partitions: 32, requests.unauthorized: 26, requests.answer_lost: 9,
}  # fmt: skip
"""The depth of the first steps that are left out."""
IN_EARLIER_QUEUE = tuple(
    one
    for one in CHECKED
    if "KAFKA-13412" in one.because or one.event is requests.ask_for_partitions
)


@pytest.mark.slow(3)
@pytest.mark.sample(6, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", CHECKED, ids=lambda one: one.event.name)
def test_the_environment_only_leaves_steps_out(reduction: NotOffered, release: str) -> None:
    """The real one brings about each event in its turn, so that there is no other direction. Each
    reduction leaves some steps out, in a release in which the client may be in such a state."""
    settings: dict[str, Any] = {"protocol": release, "bounds": "small"}
    if reduction.event is requests.want_id:  # of a client without a transactional id
        settings["switch_off"] = ("transactional",)
    depth = DEPTHS.get(reduction.event, DEPTH)
    count = withheld(shipped("calls"), reduction, depth=depth, **settings)
    has_effect = release == "2.5" if reduction in IN_EARLIER_QUEUE else True
    if reduction.event is requests.unauthorized:
        has_effect = release != "2.5"
    assert (count > 0) == has_effect


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
OF_OFFSETS = [
    one for one in OF_ERRORS if one.event in (requests.offsets_answered, requests.offset_answered)
]
OFFSETS_ALONE = few(
    (*FAILURES, calls.call_send, calls.commit_transaction, calls.abort_transaction), (Errors.NONE,)
)


@pytest.mark.slow(2)
@pytest.mark.sample(2, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", OF_OFFSETS, ids=lambda one: one.event.name)
def test_every_other_error_of_offsets_has_the_effect_of_one_of_these(
    reduction: NotOffered, release: str
) -> None:
    system = restricted(shipped("calls"), NO_NAME, *IN_THEIR_TURN, *OFFSETS_ALONE)
    found = refine(system, reduction, protocol=release, bounds="small", loses_nothing=True)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.taken


@pytest.mark.slow(5)
@pytest.mark.sample(2, of="engines: reductions of calls")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "reduction",
    [one for one in OF_ERRORS if one not in OF_OFFSETS],
    ids=lambda one: one.event.name,
)
def test_every_other_error_has_the_effect_of_one_of_these(
    reduction: NotOffered, release: str
) -> None:
    system = restricted(shipped("calls"), NO_NAME, *IN_THEIR_TURN)
    found = refine(
        system, reduction, protocol=release, bounds="small", most=100, loses_nothing=True
    )
    assert found.mismatch is None
    assert found.taken


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
