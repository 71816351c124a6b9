"""The answers that the judging machine doesn't decide, and that don't show a request's effect:
those of an authorizer, of a log, or of a wrong coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from ....spec.access.authorization import ANY_TOPIC, AUTHORIZERS, CHECKS
from ....spec.access.authorization import TABLES as AUTHORIZATION
from ....spec.broker_errors import BROKER_ERRORS
from ....spec.coordinator.state_manager import ownership
from ....spec.groups.tables import DRIVEN as GROUP_TABLES
from ....spec.releases.features import KAFKA
from ...broker.transactions.coordinator import TransactionCoordinator
from ...engine.machine import Machine

COORDINATOR_REQUESTS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
"""Requests to the coordinator of a transactional id."""

GROUP_REQUESTS: Final = ("TxnOffsetCommit", "OffsetCommit", "OffsetFetch")
"""Requests to the coordinator of a group about its offset of a partition."""

_Fields = Mapping[str, Any]
_TO_WRITE: Final[tuple[str, _Fields]] = ("a topic is asked for", {"use": "WRITE"})
_TO_READ: Final[tuple[str, _Fields]] = ("a topic is asked for", {"use": "READ"})
_OF_GROUP: Final = "a group is asked for"
_ASKS: Final[dict[str, tuple[tuple[str, _Fields], ...]]] = {
    "InitProducerId": (("InitProducerId asks", {"has_id": True, "enable_2pc": False}),),
    "AddPartitionsToTxn": (
        ("AddPartitionsToTxn asks", {"from_broker": False}),
        ("AddPartitionsToTxn asks", {"from_broker": True}),
        _TO_WRITE,
    ),
    "AddOffsetsToTxn": (("AddOffsetsToTxn asks", {}),),
    "EndTxn": (("EndTxn asks", {}),),
    "TxnOffsetCommit": (("TxnOffsetCommit asks", {}), _TO_READ),
    "OffsetCommit": ((_OF_GROUP, {"use": "READ"}), _TO_READ),
    "OffsetFetch": (
        (_OF_GROUP, {"use": "DESCRIBE"}),
        ("a topic is asked for", {"use": "DESCRIBE"}),
    ),
    "Produce": (
        ("Produce asks", {"transactional": True, "idempotent": True}),
        ("Produce asks", {"transactional": False, "idempotent": True}),
        _TO_WRITE,
    ),
    "WriteTxnMarkers": (("WriteTxnMarkers asks", {}),),
}
"""For each request of a history: the checks at the broker's authorizer."""


@cache
def from_around(request: str, protocol: str) -> frozenset[str]:
    """The errors with which a broker of a release may answer a request in every state of the
    machine."""
    release, *_ = KAFKA.releases_in(protocol)
    found = {one.error for one in BROKER_ERRORS[request] if one.is_in(release)}
    found |= {*_unauthorized(request, protocol)}
    if request in COORDINATOR_REQUESTS:
        found |= _not_here(protocol)
    if request in GROUP_REQUESTS:
        found |= _group_not_here(request, protocol)
    return frozenset(found)


def _unauthorized(request: str, protocol: str) -> Iterator[str]:
    """The possible refusals of an authorizer."""
    machine = Machine(AUTHORIZATION, AUTHORIZERS, protocol=protocol)
    for event, said in _ASKS[request]:
        checks = [each for each in machine.fields_of(event) if each in (*CHECKS, ANY_TOPIC)]
        for may in product((False, True), repeat=len(checks)):
            error = machine.handle(event, **dict(zip(checks, may, strict=True)), **said).reply.error
            if error != "NONE":
                yield str(error)


@cache
def _not_here(protocol: str) -> frozenset[str]:
    """The answers of a broker that isn't the coordinator, is loading, or can't append."""
    blank = TransactionCoordinator(protocol=protocol)
    found = {blank.lookup("OTHER", "any").error}
    blank.elect(blank.state_partition_of("any"), 0, is_loading=True)
    found.add(blank.lookup("OTHER", "any").error)
    return frozenset(found | {*ownership.PASSED_ON.values()})


def _group_not_here(request: str, protocol: str) -> set[str]:
    """The answers of a group coordinator that is loading, and those to a request without a
    group."""
    machine = Machine(GROUP_TABLES, KAFKA, protocol=protocol)
    kind = "OTHER" if request == "TxnOffsetCommit" else "MAY_BE_EMPTY"
    found = {
        str(
            machine.handle(
                "validateGroupStatus", request=kind, names_group=names, is_loading=is_loading
            ).reply.error
        )
        for names, is_loading in product((False, True), repeat=2)
    }
    return found - {"NONE"}
