"""The answers that don't come of the machine that a history is judged by, and say nothing about a
request's effect: of an authorizer, of a log, or of a coordinator that isn't the right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from ...spec.authorization import ANY_TOPIC, AUTHORIZERS, CHECKS
from ...spec.authorization import TABLES as AUTHORIZATION
from ...spec.broker_errors import BROKER_ERRORS
from ...spec.coordinator import ownership
from ..broker.coordinator import TransactionCoordinator
from ..engine.machine import Machine

COORDINATOR_REQUESTS: Final = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
"""Requests to the coordinator of a transactional id."""

_Asked = Mapping[str, Any]
_TO_WRITE: Final[tuple[str, _Asked]] = ("a topic is asked for", {"use": "WRITE"})
_ASKS: Final[dict[str, tuple[tuple[str, _Asked], ...]]] = {
    "InitProducerId": (("InitProducerId asks", {"has_id": True, "enable_2pc": False}),),
    "AddPartitionsToTxn": (
        ("AddPartitionsToTxn asks", {"from_broker": False}),
        ("AddPartitionsToTxn asks", {"from_broker": True}),
        _TO_WRITE,
    ),
    "EndTxn": (("EndTxn asks", {}),),
    "Produce": (
        ("Produce asks", {"transactional": True, "idempotent": True}),
        ("Produce asks", {"transactional": False, "idempotent": True}),
        _TO_WRITE,
    ),
    "WriteTxnMarkers": (("WriteTxnMarkers asks", {}),),
}
"""What a broker asks its authorizer for, by requests of a history."""


@cache
def from_around(request: str, protocol: str) -> frozenset[str]:
    """The errors that a broker of a release may answer a request with, whatever the machine's
    state is."""
    found = {one.error for one in BROKER_ERRORS[request] if one.is_in(protocol)}
    found |= {*_unauthorized(request, protocol)}
    if request in COORDINATOR_REQUESTS:
        found |= _not_here(protocol)
    return frozenset(found)


def _unauthorized(request: str, protocol: str) -> Iterator[str]:
    """The answers of an authorizer, whatever the principal may do, but for NONE."""
    machine = Machine(AUTHORIZATION, AUTHORIZERS, protocol=protocol)
    for event, said in _ASKS[request]:
        asked = [each for each in machine.fields_of(event) if each in (*CHECKS, ANY_TOPIC)]
        for may in product((False, True), repeat=len(asked)):
            error = machine.handle(event, **dict(zip(asked, may, strict=True)), **said).reply.error
            if error != "NONE":
                yield str(error)


@cache
def _not_here(protocol: str) -> frozenset[str]:
    """Answers of a coordinator that isn't this one, is loading, or can't append."""
    blank = TransactionCoordinator(protocol=protocol)
    found = {blank.lookup("OTHER", "any").error}
    blank.elect(blank.state_partition_of("any"), 0, is_loading=True)
    found.add(blank.lookup("OTHER", "any").error)
    return frozenset(found | {*ownership.PASSED_ON.values()})
