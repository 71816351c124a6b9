"""The local steps of a transactional client, as Kafka's classes take them.

Kafka's TransactionManager, Sender and RecordAccumulator and KafkaProducer's send have no
constructor for a state: the host takes the path to it, and then the step. The client has one
partition. Its application makes any call at any time, waits for a result that is there, and sends
up to `RECORDS` records. Each of its requests gets every error of `ANSWERS`, or the connection
closes. After a call or an answer the sender runs until it needs an answer; after a call the next
event may come before that, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from io import BytesIO
from pickle import Pickler, Unpickler
from typing import Any, Final, NamedTuple, cast

from .....spec.client.state import State
from .....spec.errors import Errors
from .....spec.releases.features import abortable_error
from ....client.metrics import Metrics
from ....client.producer import ProducerClient
from ....client.requests import CallFailedError, CallResult, Produce, Record, Request
from ....engine.machine import Machine as AnyMachine
from ....engine.machine import noted
from ....engine.values import Sparse
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

LONGEST: Final = 11
"""Operations of a path, with the step."""
RECORDS: Final = 2
LARGEST_EPOCH: Final = 2
BACKOFF_MS: Final = 100
PRODUCER_ID: Final = 7
RUNS: Final = 100
INIT, BEGIN, SEND, COMMIT, ABORT, OFFSETS, WAIT, _, ANSWER, DISCONNECT = range(1, 11)
CALLS: Final = {
    INIT: "initTransactions",
    BEGIN: "beginTransaction",
    SEND: "send",
    COMMIT: "commitTransaction",
    ABORT: "abortTransaction",
    OFFSETS: "sendOffsetsToTransaction",
    WAIT: "wait for the result",
}
PARTITION: Final = "t-0"
OF_THE_CLASS_ALONE: Final = {
    "transactionTimeoutMs, retryBackoffMs": "no step changes them",
    "time": "the host's sender waits in other steps than the model's",
    "inflightBatchesBySequence": "compared by the requests that wait",
}
"""Fields of Kafka's classes alone, with the reason."""
_STATES: Final = tuple(name for name, _ in State.members)
_CODES: Final = dict(Errors.members)
_APIS: Final = {
    "PRODUCE": 0,
    "FIND_COORDINATOR": 10,
    "INIT_PRODUCER_ID": 22,
    "ADD_PARTITIONS_TO_TXN": 24,
    "ADD_OFFSETS_TO_TXN": 25,
    "END_TXN": 26,
    "TXN_OFFSET_COMMIT": 28,
}
_OF_COORDINATORS: Final = (
    "NONE", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "UNKNOWN_PRODUCER_ID",
    "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED",
    "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "TRANSACTION_ABORTABLE",
    "UNKNOWN_SERVER_ERROR",
)  # fmt: skip
_OF_LEADERS: Final = (
    "NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_PRODUCER_ID_MAPPING",
    "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE", "INVALID_RECORD", "UNKNOWN_SERVER_ERROR",
)  # fmt: skip
NOT_WITHOUT_AN_ID: Final = ("GROUP_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE")
"""Errors that no broker answers a client with that has no producer id yet. Kafka's client would
abort, and initialize twice."""
ANSWERS: Final = {api: _OF_LEADERS if api == "PRODUCE" else _OF_COORDINATORS for api in _APIS}
"""The errors of an answer to each request."""


ADDS: Final = ("ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT")
"""Requests of one priority (TransactionManager.Priority)."""
_CLOSED: Final = "the client isn't closed"
_EXPIRED: Final = "no delivery.timeout.ms passes"
_CONNECTED: Final = "brokers are connected, and of the client's release"
_WHOLE_CALL: Final = "KafkaProducer's, whose method isn't called"
_IDEMPOTENT: Final = "a client without transactional id has it"
_BUMPS: Final = "coordinators of the release bump epochs"
ROWS_LEFT_OUT: Final = {
    ("beginTransaction", "closed"): _CLOSED,
    ("initTransactions", "closed"): _CLOSED,
    ("send", "closed"): _CLOSED,
    ("sendOffsetsToTransaction", "closed"): _CLOSED,
    ("close", "close"): _CLOSED,
    ("batch expires", "first-attempt-abortable"): _EXPIRED,
    ("batch expires", "in-retry-abortable"): _EXPIRED,
    ("version mismatch", "unsupported"): _CONNECTED,
    ("send request", "unsupported-member"): _CONNECTED,
    ("send request", "not-connected"): _CONNECTED,
    ("sendOffsetsToTransaction", "no-group"): _WHOLE_CALL,
    ("sendOffsetsToTransaction", "no-member-id"): _WHOLE_CALL,
    ("want a producer id", "initialize"): _IDEMPOTENT,
    ("want a producer id", "invalid-transition"): _IDEMPOTENT,
    ("bump epoch", "bumped"): _IDEMPOTENT,
    ("bump epoch", "last-epoch"): _IDEMPOTENT,
    ("bump epoch", "no-producer-id"): _IDEMPOTENT,
    ("AddOffsetsToTxn answered", "unknown-id-fatal"): _BUMPS,
    ("AddPartitionsToTxnResponse", "unknown-id-fatal"): _BUMPS,
    ("EndTxnResponse", "unknown-id-fatal"): _BUMPS,
    ("error", "abortable"): "tests alone have it",
    ("error", "fatal"): "tests alone have it",
}
"""Rows that don't run, with the reason."""


class Operation(NamedTuple):
    """A call, or an answer to the request at `of` among those that wait, as the host takes it."""

    number: int
    of: int = 0
    error: int = 0
    extra: int = 0
    """The producer epoch, or the batch's offset."""
    said: str = ""

    @property
    def packed(self) -> int:
        """The one number that the host takes for it."""
        error, extra = self.error & 0xFFFF, self.extra & 0xFFFF
        return self.number << 40 | self.of << 32 | error << 16 | extra


class _Played:
    """A client that has taken a path."""

    def __init__(self, protocol: str, version: int) -> None:
        self.client = ProducerClient(
            "orders",
            protocol=protocol,
            transaction_version=version,
            retry_backoff_ms=BACKOFF_MS,
            retry_backoff_max_ms=BACKOFF_MS,
        )
        self.call: CallResult | None = None
        self.records = list[Record]()
        self.sent = list[Request | Produce]()
        self.raised: CallFailedError | None = None

    def take(self, operation: Operation) -> None:
        self.sent, self.raised = [], None
        try:
            self._take(operation)
        except CallFailedError as error:
            self.raised = error
        if operation.number >= RUNS:
            self.sent = self.client.run()

    def _take(self, operation: Operation) -> None:
        client = self.client
        match operation.number % RUNS:
            case 1:
                self.call = client.init_transactions()
            case 2:
                client.begin_transaction()
            case 3:
                self.records.append(client.send(PARTITION))
            case 4:
                self.call = client.commit_transaction()
            case 5:
                self.call = client.abort_transaction()
            case 6:
                self.call = client.send_offsets({PARTITION: 5}, {"group_id": "group"})
            case 7:
                assert self.call is not None
                client.wait(self.call)
            case 9:
                sent = client.outstanding[operation.of]
                error = next(name for name in ANSWERS[sent.api] if _CODES[name] == operation.error)
                epoch = operation.extra
                client.answer(
                    sent, error, producer_id=PRODUCER_ID if epoch >= 0 and error == "NONE" else -1,
                    producer_epoch=epoch if error == "NONE" else -1,
                    base_offset=epoch if error == "NONE" else -1,
                )  # fmt: skip
            case _:
                client.disconnect(client.outstanding[operation.of])

    def events(self) -> Iterator[Operation]:
        """All that may happen next."""
        client, call = self.client, self.call
        for number, name in CALLS.items():
            if number == WAIT:
                if call is not None and call.is_completed and not call.is_acknowledged:
                    yield Operation(number, said=name)
                continue
            if number == SEND and len(self.records) == RECORDS:
                continue
            if number != BEGIN:
                yield Operation(RUNS + number, said=name)
            yield Operation(number, said=name if number == BEGIN else f"{name}, at once followed")
        epoch = client.producer_epoch
        for at, sent in enumerate(client.outstanding):
            for error in ANSWERS[sent.api]:
                if (epoch < 0 and error in NOT_WITHOUT_AN_ID) or not self._is_known(error):
                    continue
                extra = -1
                if sent.api == "PRODUCE":
                    extra = sum(record.is_done for record in self.records)
                elif sent.api == "INIT_PRODUCER_ID" or (
                    sent.api == "END_TXN" and client.queue.version == 2
                ):
                    extra = epoch + 1
                yield Operation(
                    RUNS + ANSWER, at, _CODES[error], extra, f"{sent.api} is answered {error}"
                )
            yield Operation(RUNS + DISCONNECT, at, said=f"{sent.api}: the connection closes")

    def _is_known(self, error: str) -> bool:
        """Whether the client's release has the error."""
        return (
            error != "TRANSACTION_ABORTABLE" or abortable_error.name in self.client.machine.features
        )

    def numbers(self) -> tuple[int, ...]:
        client, machine, call = self.client, self.client.machine, self.call
        error = machine["last_error"]
        failed = call is not None and call.is_completed and call.error is not None
        return (
            _STATES.index(machine["state"]),
            0 if error is None else _CODES[error],
            client.producer_id,
            client.producer_epoch,
            len(machine["new_partitions"]),
            len(machine["adding"]),
            len(machine["added"]),
            int(machine["transaction_started"]),
            int(machine["pending_call"] is not None and not machine["call_acknowledged"]),
            int(machine["request_in_flight"]),
            int(machine["transaction_coordinator"]),
            int(machine["group_coordinator"]),
            int(machine["must_bump"]),
            len(client.queue.waiting),
            len(client.queue.offsets),
            machine.at("next_sequence", PARTITION),
            machine.at("last_acked", PARTITION),
            int(client.accumulator.has_undrained),
            int(client.accumulator.has_incomplete),
            len(client.outstanding),
            int(call is not None and call.is_completed),
            _CODES[call.error] if failed and call is not None and call.error is not None else 0,
            *(_result(record) for record in self.records),
            *(0,) * (RECORDS - len(self.records)),
        )

    def is_explored(self) -> bool:
        """Requests of one priority wait in Kafka's PriorityQueue in no stated order."""
        apis = [each.api for each in self.client.queue.waiting]
        waiting = Counter("add" if api in ADDS else api for api in apis)
        return self.client.producer_epoch <= LARGEST_EPOCH and max(waiting.values(), default=0) < 2

    def key(self) -> Any:
        """What later events depend on, without the time."""
        machine, call = self.client.machine, self.call
        return (
            machine.kept(_OF_THE_TIME, _frozen), len(self.records),
            *((each.api, each.is_retry) for each in self.client.queue.waiting),
            *(each.api for each in self.client.outstanding),
            call is not None and call.is_acknowledged,
        )  # fmt: skip


_OF_THE_TIME: Final = frozenset(("details",))


def _frozen(value: Sparse) -> Hashable:
    """A map, which may hold others, as one that can be remembered."""
    return frozenset(
        (key, _frozen(part) if isinstance(part, Sparse) else part)
        for key, part in value.items()
        if part != value.default
    )


def _result(record: Record) -> int:
    if not record.is_done:
        return 0
    return 1 if record.error is None else 1000 + _CODES[record.error]


class _Kept(Pickler):
    """A client that has taken a path, to copy it: quicker than to take the path. Copies measure
    nothing of their own."""

    def __init__(self, played: _Played) -> None:
        self._written = BytesIO()
        super().__init__(self._written, protocol=-1)
        self._apart = list[Any]()
        self.dump(played)

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (AnyMachine, Metrics)):
            return None
        self._apart.append(obj)
        return len(self._apart) - 1

    def copy(self) -> _Played:
        self._written.seek(0)
        return _Copy(self._written, self._apart).load()


class _Copy(Unpickler):
    def __init__(self, written: BytesIO, apart: list[Any]) -> None:
        super().__init__(written)
        self._apart, self._made = apart, dict[int, Any]()

    def persistent_load(self, pid: int) -> Any:
        held = self._apart[pid]
        if not isinstance(held, AnyMachine):
            return held
        return self._made.setdefault(id(held), held.copy())


class _Reached:
    """A state that a path reaches: equal to any with the same key."""

    __slots__ = ("_is_explored", "_key", "numbers", "path", "version")

    def __init__(self, version: int, path: tuple[Operation, ...], played: _Played) -> None:
        self.version, self.path = version, path
        self.numbers = played.numbers()
        self._key = version, self.numbers, played.key()
        self._is_explored = len(path) < LONGEST and played.is_explored()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reached) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def is_explored(self) -> bool:
        return self._is_explored


class Client(LocalSteps):
    """The local steps of a transactional client with one partition, at one release."""

    name = "client"
    java = "ClientSteps"
    most = 1_500
    answers = ("raises", "its cause", "requests", *(f"request {n}" for n in range(1, 5)))
    fields = (
        "currentState", "lastError", "producerId", "producerEpoch", "newPartitionsInTransaction",
        "pendingPartitionsInTransaction", "partitionsInTransaction", "transactionStarted",
        "pendingTransition", "inFlightRequestCorrelationId", "transactionCoordinator",
        "consumerGroupCoordinator", "clientSideEpochBumpRequired", "pendingRequests",
        "pendingTxnOffsetCommits", "nextSequence", "lastAckedSequence", "hasUndrained",
        "hasIncomplete", "(requests that wait)", "(the call's result)", "(its error)",
        *(f"(record {n})" for n in range(1, RECORDS + 1)),
    )  # fmt: skip
    of_the_class_alone = OF_THE_CLASS_ALONE
    rows_left_out = ROWS_LEFT_OUT

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        # it names rows and their sources alone: a path is played on clients of its own
        super().__init__(machine or cast("Machine", _Played(protocol, 0).client.machine))
        self.protocol = protocol
        self._rows = {*self.rows()}

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        seeds = [_Reached(version, (), self._played(version, ())) for version in self.versions]
        return breadth_first(seeds, self._steps_of, most, _Reached.is_explored)

    def _steps_of(self, before: _Reached) -> Iterator[tuple[LocalStep, _Reached]]:
        version, path = before.version, before.path
        at = self._played(version, path)
        kept = _Kept(at)
        for event in at.events():
            played = kept.copy()
            with noted() as rows:
                played.take(event)
            after = _Reached(version, (*path, event), played)
            yield self._step(after, played, rows), after

    def _played(self, version: int, path: tuple[Operation, ...]) -> _Played:
        played = _Played(self.protocol, version)
        for operation in path:
            played.take(operation)
        return played

    def _step(self, after: _Reached, played: _Played, rows: Any) -> LocalStep:
        given = len(after.path), after.version, *(each.packed for each in after.path)
        event, raised = after.path[-1], played.raised
        error = 0 if raised is None else _CODES[raised.error]
        cause = 0 if raised is None or raised.cause is None else _CODES[raised.cause]
        if event.number == WAIT:
            cause = None  # results have names of errors, without causes
        sent = [_APIS[each.api] for each in played.sent[:4]]
        return LocalStep(
            given,
            (error, cause, len(played.sent), *sent, *(0,) * (4 - len(sent))),
            after.numbers,
            # those of the accumulator's own order of nodes aren't the client's
            tuple(sorted(self._rows & {(table.on.name, row.id) for table, row in rows})),
            event.said,
        )
