"""Requests that are drawn, at both levels, against the oracle with two faults."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.honest_clients import Level
from epochfence.model.conformance.live.clients import of_releases
from epochfence.model.conformance.live.suites.random_requests import Drawn, DrawnHonest
from epochfence.model.conformance.session import DisagreementError, Session, System
from epochfence.model.requests import answer

VERSIONS = {
    "InitProducerId": (0, 5), "AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5), "Produce": (3, 12),
    "AddOffsetsToTxn": (0, 4), "TxnOffsetCommit": (0, 5), "Fetch": (4, 12), "ListOffsets": (2, 7),
}  # fmt: skip
TIMEOUT = ("InitProducerId", "INVALID_TRANSACTION_TIMEOUT")
ZOMBIE = ("EndTxn", "PRODUCER_FENCED")
WRONG = {TIMEOUT: "INVALID_REQUEST", ZOMBIE: "INVALID_TXN_STATE"}


class Faulty(System):
    """The oracle. A timeout out of range, and a zombie at the end of its transaction, get other
    errors."""

    def __init__(self) -> None:
        self.kafka = Cluster(protocol="4.3")

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        told = answer(self.kafka, {"request": request, **fields})
        error = told.get("error")
        return told | {"error": WRONG.get((request, str(error)), error)} if error else told


def found(level: Level) -> set[tuple[str, str]]:
    """The faults that a hundred runs come to, as the request and the right error."""
    seen: set[tuple[str, str]] = set()
    for number in range(100):
        draw, session = random.Random(number), Session(Faulty(), "4.3")
        releases = [*of_releases(VERSIONS, session.guide.cluster)]
        one = (
            Drawn(draw, session, [], VERSIONS, False)
            if level == "any"
            else DrawnHonest(draw, session, [], releases, False)
        )
        try:
            while len(session.trace) < 30:
                one.step()
        except DisagreementError as disagreement:
            (allowed,) = {answer["error"] for answer in disagreement.allowed}
            seen.add((str(disagreement.trace[-1].line["request"]), allowed))
    return seen


def test_any_request_comes_to_both_faults() -> None:
    assert found("any") == {TIMEOUT, ZOMBIE}


def test_honest_clients_come_to_the_everyday_one_alone() -> None:
    assert found("well-behaved") == {ZOMBIE}
