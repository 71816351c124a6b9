"""The mock cluster's disagreements with the oracle are those that docs/findings.md lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from epochfence.model.conformance.session import DisagreementError, replay
from epochfence.model.conformance.testing import Conformance
from epochfence.model.requests import Answer
from epochfence.tests.broker.mock_cluster import MockSystem
from epochfence.tests.broker.mock_disagreements import DISAGREEMENTS, RELEASE, add, init
from epochfence.tests.broker.mock_disagreements import Disagreement as Listed


def told(answer: Answer, like: str) -> str:
    """An answer in as many words as `like`."""
    names = [part.split()[0] for part in like.split(", ")[1:]]
    return ", ".join([answer["error"], *(f"{name} {answer[name]}" for name in names)])


@pytest.mark.parametrize("listed", DISAGREEMENTS, ids=lambda listed: listed.what)
def test_a_listed_disagreement_is_there_and_is_the_first(listed: Listed) -> None:
    with pytest.raises(DisagreementError) as found:
        replay(listed.lines, MockSystem(), RELEASE)
    assert len(found.value.trace) == len(listed.lines)
    response, (allowed,) = found.value.trace[-1].response, found.value.allowed
    assert response is not None
    assert (told(response, listed.mock), told(allowed, listed.allowed)) == (
        listed.mock,
        listed.allowed,
    )


def test_two_instances_of_an_id_both_go_on() -> None:
    system = MockSystem()
    held = [system.ask("InitProducerId", init()) for _ in range(2)]
    for found in held:
        ids = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
        assert system.ask("AddPartitionsToTxn", {**add(), **ids}) == {"error": "NONE"}


@pytest.mark.slow
def test_what_is_generated_finds_no_other_kind() -> None:
    """Of each example the first disagreement, by its request and both errors."""
    known = {
        (str(d.lines[-1]["request"]), d.mock.split(",")[0], d.allowed.split(",")[0])
        for d in DISAGREEMENTS
    }
    known |= {("EndTxn", mock, allowed) for request, mock, allowed in known if "Add" in request}
    found: set[tuple[str, str, str]] = set()

    class Noting(Conformance):
        system = MockSystem
        protocol = RELEASE
        is_over = False

        def ask(self, *asked: Any, **fields: Any) -> Answer | None:
            if self.is_over:
                return None
            try:
                return super().ask(*asked, **fields)
            except DisagreementError as disagreement:
                self.is_over = True
                line, response = disagreement.trace[-1]
                assert response is not None
                errors = {allowed["error"] for allowed in disagreement.allowed}
                found.update((line["request"], response["error"], error) for error in errors)
                return None

    some = settings(
        max_examples=150,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(Noting, settings=some)
    assert len(found) > 8
    assert found - known == set()
