"""The meaning of an error code: the rows of brokers that answer it, and the client's reaction.

All of it is derived from the rows, at real ranges. `epochfence explain-error` prints it, and `make
docs` writes a page for each error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeAlias

from ...language import Expression, Protocols, Row, Sending, Table
from ...language.declaration.arguments import one_of
from ...language.declaration.errors import DeclarationError
from ...model.client.producer import TABLES as CLIENT
from ...model.machine import Machine
from ...spec.access.authorization import AUTHORIZERS, use_group, use_topic
from ...spec.access.authorization import TABLES as AUTHORIZATION
from ...spec.broker_errors import BROKER_ERRORS
from ...spec.client import state
from ...spec.client.transactions.transaction_manager import TO_ABORTABLE, Reaction
from ...spec.coordinator import entry
from ...spec.coordinator.state_manager import ownership
from ...spec.coordinator.tables import DRIVEN as COORDINATOR
from ...spec.errors import Errors
from ...spec.groups.members.classic_group import validate_group_status
from ...spec.groups.tables import DRIVEN as GROUPS
from ...spec.leader.tables import DRIVEN as LEADER
from ...spec.messages import (
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    EndTxn,
    transaction,
)
from ...spec.releases.features import KAFKA, transactional
from ..facts import Facts, possible, sendings, taken

_Events: TypeAlias = Mapping[str, Mapping[str, Facts]]
_TO_COORDINATOR: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")

# The events of each machine that a request of Kafka's leads to, each with the requests and the
# parameters that it has then.
_WRITES: Final = {use_topic.use: frozenset({"WRITE"})}
_READS: Final = {use_topic.use: frozenset({"READ"})}
_GROUP_READ: Final = {use_group.use: frozenset({"READ"})}
_AUTHORIZED: Final[_Events] = {
    "InitProducerId asks": {"InitProducerId": {}},
    "AddPartitionsToTxn asks": {"AddPartitionsToTxn": {}},
    "AddOffsetsToTxn asks": {"AddOffsetsToTxn": {}},
    "EndTxn asks": {"EndTxn": {}},
    "TxnOffsetCommit asks": {"TxnOffsetCommit": {}},
    "FindCoordinator asks": {"FindCoordinator": {}},
    "Produce asks": {"Produce": {}},
    "WriteTxnMarkers asks": {"WriteTxnMarkers": {}},
    "a group is asked for": dict.fromkeys(
        ("OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat"), _GROUP_READ
    ),
    "a topic is asked for": {
        "AddPartitionsToTxn": _WRITES,
        "Produce": _WRITES,
        "TxnOffsetCommit": _READS,
        "OffsetCommit": _READS,
    },
}
_COMMITTING: Final = {EndTxn.result: frozenset({"COMMIT"})}
"""An application that aborts needs no advice on its records."""
_INIT: Final = {ownership.lookup.request: frozenset({"INIT_PRODUCER_ID"})}
_OTHER: Final = {ownership.lookup.request: frozenset({"OTHER"})}
_BY_COORDINATOR: Final[_Events] = {
    "look up": {
        "InitProducerId": _INIT,
        "AddPartitionsToTxn": _OTHER,
        "AddOffsetsToTxn": _OTHER,
        "EndTxn": _OTHER,
    },
    "InitProducerId": {"InitProducerId": {}},
    "continue the fence": {"InitProducerId": {}},
    "AddPartitionsToTxn": {"AddPartitionsToTxn": {}, "AddOffsetsToTxn": {}},
    "AddPartitionsByLeader": {"AddPartitionsToTxn": {}},
    "EndTxn": {"EndTxn": _COMMITTING},
    "log append": {request: {} for request in _TO_COORDINATOR},
    "coordinator failover": {request: {} for request in _TO_COORDINATOR},
}
_BY_LEADER: Final[_Events] = {
    "Produce": {"Produce": {}},
    "AddPartitionsByLeaderResponse": {"Produce": {}},
    "WriteTxnMarkers": {"WriteTxnMarkers": {}},
}
_MAY_BE_EMPTY: Final = {validate_group_status.request: frozenset({"MAY_BE_EMPTY"})}
_OF_GROUP: Final = {validate_group_status.request: frozenset({"OTHER"})}
_BY_GROUP: Final[_Events] = {
    "validateGroupStatus": {
        "JoinGroup": _OF_GROUP,
        "SyncGroup": _OF_GROUP,
        "Heartbeat": _OF_GROUP,
        "TxnOffsetCommit": _OF_GROUP,
        "OffsetCommit": _MAY_BE_EMPTY,
    },
    "convert TxnOffsetCommit error": {"TxnOffsetCommit": {}},
    "TxnOffsetCommit for the group": {"TxnOffsetCommit": {}},
    "JoinGroup": {"JoinGroup": {}},
    "SyncGroup": {"SyncGroup": {}},
    "Heartbeat": {"Heartbeat": {}},
    "LeaveGroup": {"LeaveGroup": {}},
    "OffsetCommit": {"OffsetCommit": {}},
    "DeleteGroups": {"DeleteGroups": {}},
}
_ANSWERED: Final = {
    "InitProducerIdResponse": "InitProducerId",
    "AddPartitionsToTxnResponse": "AddPartitionsToTxn",
    "AddOffsetsToTxn answered": "AddOffsetsToTxn",
    "TxnOffsetCommit for a partition": "TxnOffsetCommit",
    "EndTxnResponse": "EndTxn",
    "FindCoordinator answered": "FindCoordinator",
    "ProduceResponse": "Produce",
}
_OF_CLIENT: Final = {
    idempotent: KAFKA.settling({transactional: not idempotent}) for idempotent in (False, True)
}
_ANSWERS: Final = {"InitProducerIdResponse": "InitProducerId", "EndTxnResponse": "EndTxn"}
"""The requests of a machine's messages."""
COMMITS: Final = frozenset({"PREPARE_COMMIT", "COMPLETE_COMMIT"})
MOST: Final = 40
"""A field that may have more values than this passes on another machine's values."""
_APPEND: Final = "TransactionStateManager.appendTransactionToLog"
_REFUSED: Final = "The broker refuses it before the protocol's tables"
UNKNOWN: Final = -1
"""The code of UNKNOWN_SERVER_ERROR. A client's own failures have lower numbers."""


class Outcome(Enum):
    """A client's situation after an answer, and the remedy."""

    DONE = "The answer ends the request as usual."
    RETRIED = "The client asks again. The application does nothing."
    ABORTABLE = "The call raises. The application aborts the transaction and may run it again."
    FAILED = "The call or the record fails. The producer can be used on."
    FATAL = "The producer can't be used again. The application closes it and starts another one."


@dataclass(frozen=True)
class Answer:
    """A row of a broker, or a place in its code, that answers a request with the error."""

    request: str
    place: str
    """The row's label; empty for an error outside the rows."""
    text: str
    source: str
    may_be_committed: bool | None = None
    """For EndTxn: whether an earlier attempt may have decided or completed a commit. None for other
    requests: their transaction isn't committed."""

    @property
    def sentence(self) -> str:
        """The row in words; for EndTxn also whether the transaction may be committed."""
        if self.may_be_committed is None:
            return f"{self.text}."
        is_it = "may be" if self.may_be_committed else "isn't"
        return f"{self.text}. The transaction {is_it} committed."


@dataclass(frozen=True)
class Handling:
    """A row of a client that handles the error of an answer."""

    request: str
    place: str
    text: str
    source: str
    raises: tuple[str, ...]
    """The errors of the failed call, or of the record's future."""
    outcome: Outcome
    idempotent: bool
    """Whether the row is of a client without transactional id."""

    @property
    def sentence(self) -> str:
        """The row in words, with the application's errors."""
        raised = f" ({', '.join(self.raises)})" if self.raises else ""
        return f"{self.text}{raised}."


@dataclass(frozen=True)
class Meaning:
    """An error at a release of the client and a release of the brokers."""

    error: str
    code: int
    client: str
    broker: str
    answers: tuple[Answer, ...]
    handlings: tuple[Handling, ...]

    def of(self, request: str) -> Meaning:
        """The part that concerns one request.

        Raises DeclarationError for a request that doesn't get this error at these releases.
        """
        if request not in self.requests:
            raise DeclarationError(
                f"no {request} is answered {self.error} ({one_of(request, self.requests)})"
            )
        answers = tuple(each for each in self.answers if each.request == request)
        handlings = tuple(each for each in self.handlings if each.request == request)
        return Meaning(self.error, self.code, self.client, self.broker, answers, handlings)

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that a broker answers with the error; if there are none, those for which a
        client handles it."""
        every = self.answers or self.handlings
        return tuple(dict.fromkeys(each.request for each in every))

    @property
    def advice(self) -> Iterator[str]:
        """The remedies for one request, and whether the transaction may be committed."""
        if any(each.may_be_committed for each in self.answers):
            yield (
                "If an earlier attempt to commit got no answer, the transaction may be committed. "
                "An application that sends its records again may duplicate them."
            )
        elif any(each.may_be_committed is False for each in self.answers):
            yield "The transaction isn't committed."
        for outcome in Outcome:
            kinds = {each.idempotent for each in self.handlings if each.outcome is outcome}
            if kinds and outcome is not Outcome.DONE:
                without = "Without a transactional id: " if kinds == {True} else ""
                yield f"{without}{outcome.value}"

    def as_json(self) -> dict[str, Any]:
        """The same for JSON: each outcome by its name in lower case."""
        handlings = [
            asdict(each) | {"outcome": each.outcome.name.lower()} for each in self.handlings
        ]
        names = {"error": self.error, "code": self.code}
        releases = {"client": self.client, "broker": self.broker}
        answers = [asdict(each) for each in self.answers]
        return {**names, **releases, "answers": answers, "handlings": handlings}


def meaning(error: str, client: str | None = None, broker: str | None = None) -> Meaning:
    """The meaning of an error, by its name or number, at these releases of the client and the
    brokers.

    Raises DeclarationError for an unknown error or release.
    """
    name = _name(error)
    client, broker = (
        KAFKA.newest if each is None else KAFKA.one_release(each) for each in (client, broker)
    )
    protocol = KAFKA.mixed(client, {"coordinator": broker, "leader": broker})
    answers = tuple(one for each, one in _every(protocol, broker) if each == name)
    requests = {each.request for each in answers}
    handlings = (one for kind in (False, True) for one in _handled(name, protocol, idempotent=kind))
    return Meaning(
        name,
        dict(Errors.members)[name],
        client,
        broker,
        answers,
        tuple(each for each in handlings if not requests or each.request in requests),
    )


def names() -> tuple[str, ...]:
    """The names of all errors with which a broker of some release answers a request of the
    protocol."""
    found = {error for release in KAFKA.releases for error, _ in _every(release, release)}
    return tuple(name for name in Errors.names if name in found - {"NONE"})


def _name(error: str) -> str:
    codes = {name: code for name, code in Errors.members if code >= UNKNOWN and name != "NONE"}
    by_number = {str(code): name for name, code in codes.items()}
    name = by_number.get(error, error.upper())
    if name not in codes:
        raise DeclarationError(f"no error is called {error} ({one_of(name, codes)})")
    return name


@cache
def _every(protocol: str, broker: str) -> tuple[tuple[str, Answer], ...]:
    """Each error with its answers, by request, in the order of the broker's code."""
    found = [
        *_answers(AUTHORIZATION, AUTHORIZERS, broker, _AUTHORIZED),
        *(
            (one.error, _outside(request, _REFUSED, one.source))
            for request, errors in BROKER_ERRORS.items()
            for one in errors
            if one.is_in(broker)
        ),
        *_answers(ownership.COORDINATOR_TABLES, KAFKA, protocol, _BY_COORDINATOR),
        *_answers(COORDINATOR, KAFKA, protocol, _BY_COORDINATOR),
        *(
            (error, _outside(each, f"The transaction log answers {log}", _APPEND))
            for log, error in ownership.PASSED_ON.items()
            for each in _TO_COORDINATOR
        ),
        *_answers(LEADER, KAFKA, protocol, _by_leader(protocol)),
        *_answers(GROUPS, KAFKA, protocol, _BY_GROUP),
    ]
    order = list(
        dict.fromkeys((*_ANSWERED.values(), *BROKER_ERRORS, *(s.request for _, s in found)))
    )
    return tuple(sorted(found, key=lambda pair: order.index(pair[1].request)))


def _outside(request: str, text: str, source: str) -> Answer:
    """An answer from outside the rows. The transaction's state is unknown."""
    return Answer(request, "", text, source, request == "EndTxn" or None)


def _by_leader(protocol: str) -> _Events:
    """A leader's events. The leader passes on only those errors that the coordinator has in the
    release."""
    (verification,) = (
        t for t in _real(COORDINATOR, KAFKA, protocol) if t.on is AddPartitionsByLeader
    )
    (looked_up,) = (
        t for t in _real(ownership.COORDINATOR_TABLES, KAFKA, protocol) if t.on is ownership.lookup
    )
    errors = {
        error
        for table, facts in ((verification, {}), (looked_up, _OTHER))
        for row, known in taken(table, KAFKA, protocol, facts)
        for sent in sendings(table, row, known)
        for error in _values(sent, "error", known)
    }
    passed_on = {AddPartitionsByLeaderResponse.error: frozenset(errors)}
    return _BY_LEADER | {AddPartitionsByLeaderResponse.name: {"Produce": passed_on}}


def _answers(
    tables: tuple[Table, ...], protocols: Protocols, protocol: str, events: _Events
) -> Iterator[tuple[str, Answer]]:
    """Each row that answers a request, with each of the errors that it may answer."""
    for table in _real(tables, protocols, protocol):
        for request, facts in events.get(table.on.name, {}).items():
            for row, known in taken(table, protocols, protocol, facts):
                errors = {
                    error
                    for sent in sendings(table, row, known)
                    if _ANSWERS.get(sent.message.name, request) == request
                    for error in _values(sent, "error", known)
                }
                answer = Answer(
                    request,
                    f"{table.name}/{row.id}",
                    row.name,
                    row.source,
                    _may_be_committed(table, row, known) if request == "EndTxn" else None,
                )
                yield from ((error, answer) for error in errors)


def _may_be_committed(table: Table, row: Row, known: Facts) -> bool:
    """Whether the coordinator's entry may have decided to commit, before the row or by it."""
    if table.machine is not transaction:
        return True  # a broker without the information
    updates = dict(table.updates(row))
    after = _members(updates.get(entry.state, entry.state), known)
    if entry.state in updates and after and not after & COMMITS:
        return False  # the row decides otherwise
    states = (_members(entry.state, known), after)
    return any(not each or each & COMMITS for each in states)


def _handled(error: str, protocol: str, *, idempotent: bool) -> Iterator[Handling]:
    """The rows of a client that may handle the error, in any state."""
    protocols = _OF_CLIENT[idempotent]
    for table in _real(CLIENT, protocols, protocol):
        request = _ANSWERED.get(table.on.name)
        if request is None or (idempotent and request not in ("InitProducerId", "Produce")):
            continue
        for row, known in taken(table, protocols, protocol, {table.on.error: frozenset({error})}):
            outcome, raises = _outcome(table, row, known)
            yield Handling(
                request, f"{table.name}/{row.id}", row.name, row.source, raises, outcome, idempotent
            )


def _outcome(table: Table, row: Row, known: Facts) -> tuple[Outcome, tuple[str, ...]]:
    reactions = [s for s in sendings(table, row, known) if s.message is Reaction]
    steps = {step for sent in reactions for step in _values(sent, "step", known)}
    if "FAIL" not in steps:
        again = steps & {"RETRY", "LOOK_UP", "SPLIT", "SEND"}
        return Outcome.RETRIED if again else Outcome.DONE, ()
    raises = {name for sent in reactions for name in _values(sent, "error", known)}
    after = _members(dict(table.updates(row)).get(state.state, state.state), known)
    if after == frozenset({"FATAL_ERROR"}):
        outcome = Outcome.FATAL
    else:
        outcome = Outcome.ABORTABLE if row.goto is TO_ABORTABLE else Outcome.FAILED
    return outcome, tuple(sorted(raises - {"NONE"}))


def _values(sent: Sending, field: str, known: Facts) -> frozenset[str]:
    """The members that a field of a message may have; empty if it may have any."""
    value = dict(sent.fields).get(field)
    return frozenset() if value is None else _members(value, known)


def _members(value: Expression, known: Facts) -> frozenset[str]:
    """The members of an enum that the value may be; none if it may be any."""
    found = possible(value, known)
    return frozenset() if found is None or len(found) > MOST else frozenset(map(str, found))


@cache
def _real(tables: tuple[Table, ...], protocols: Protocols, protocol: str) -> tuple[Table, ...]:
    return Machine(tables, protocols=protocols, protocol=protocol).tables
