"""The local steps of a transactional client, as Kafka's classes take them.

Kafka's TransactionManager, Sender, RecordAccumulator and KafkaProducer.send can't be constructed in
a given state, so the host replays the path to the state, and then takes the step. The client has
one partition. Its application makes any call at any time, waits for complete results, and sends up
to `RECORDS` records. Each request gets every error of `ANSWERS`, or its connection closes. After a
call or an answer the sender runs until it needs an answer. After a call the next event may also
come before the sender runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import IntEnum
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
from ..steps import LocalStep, LocalSteps, Way, breadth_first

LONGEST: Final = 30
"""The largest number of operations of a path, including the step."""
RECORDS: Final = 3
IN_FLIGHT: Final = 2
"""The largest number of records without a result."""
LARGEST_EPOCH: Final = 2
BACKOFF_MS: Final = 100
PRODUCER_ID: Final = 7
RUNS: Final = 100
LARGE: Final = 2_000_000
"""The size in bytes of a record above max.request.size."""
PASSED_MS: Final = 121_000
"""A time above delivery.timeout.ms."""
OLDER, IDEMPOTENT = 10, 20
"""Values in place of a transaction version: for brokers that know only version 2 of InitProducerId
and TxnOffsetCommit, and for a client without transactional id."""
OLDER_VERSION: Final = 2
LAST_EPOCH: Final = 32_767
LOG_START: Final = 100
"""A log start offset above all of the client's batches."""


class Number(IntEnum):
    """The operations with the host's numbers."""

    INIT = 1
    BEGIN = 2
    SEND = 3
    COMMIT = 4
    ABORT = 5
    OFFSETS = 6
    WAIT = 7
    SEND_LARGE = 8
    ANSWER = 9
    DISCONNECT = 10
    MISMATCH = 11
    PASS = 12
    NO_GROUP = 13
    NO_MEMBER = 14
    MEMBER = 15
    CLOSE = 16


CALLS: Final = {
    Number.INIT: "initTransactions",
    Number.SEND: "send",
    Number.COMMIT: "commitTransaction",
    Number.ABORT: "abortTransaction",
    Number.OFFSETS: "sendOffsetsToTransaction",
}
GROUPS: Final[Mapping[Number, Mapping[str, Any] | None]] = {
    Number.OFFSETS: {"group_id": "group"},
    Number.NO_GROUP: None,
    Number.NO_MEMBER: {"group_id": "group", "generation": 1},
    Number.MEMBER: {"group_id": "group", "generation": 1, "member_id": "member"},
}
OF_GROUPS: Final = {
    Number.NO_GROUP: "of no group",
    Number.NO_MEMBER: "of a generation without a member",
    Number.MEMBER: "of a member",
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
    "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE", "INVALID_RECORD", "MESSAGE_TOO_LARGE",
    "UNKNOWN_SERVER_ERROR",
)  # fmt: skip
ANSWERS: Final = {
    **dict.fromkeys(_APIS, _OF_COORDINATORS),
    "PRODUCE": _OF_LEADERS,
    "TXN_OFFSET_COMMIT": (*_OF_COORDINATORS, "GROUP_ID_NOT_FOUND", "STALE_MEMBER_EPOCH"),
}
"""The possible errors of each request's answer."""
OF_ANY_BROKER: Final = (
    "NONE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNKNOWN_SERVER_ERROR",
    "TRANSACTION_ABORTABLE",
)
"""The errors of InitProducerId without transactional id."""


ADDS: Final = ("ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT")
"""The requests with the same priority (TransactionManager.Priority)."""
ROWS_LEFT_OUT: Final = {
    ("send request", "not-connected"): "each broker can be reached",
    ("abort as it closes", "force-close"): "the model's sender closes by force itself then",
    ("abort as it closes", "goes-round"): "before 3.8 no broker's answer leads there",
    ("want a producer id", "invalid-transition"): "before 3.8 no broker's answer leads there",
    ("error", "abortable"): "tests alone have it",
    ("error", "fatal"): "tests alone have it",
}
"""Rows that don't run, with the reason."""


class Operation(NamedTuple):
    """An operation for the host: a call, or an answer to a request. `of` is the index of the
    request among those without an answer."""

    number: int
    of: int = 0
    error: int = 0
    extra: int = 0
    """The producer epoch, the batch's offset, or the log's start."""
    said: str = ""

    @property
    def packed(self) -> int:
        """The operation as one number, for the host."""
        error, extra = self.error & 0xFFFF, self.extra & 0xFFFF
        return self.number << 40 | self.of << 32 | error << 16 | extra


class _Played:
    """A client that has taken a path."""

    def __init__(self, protocol: str, version: int) -> None:
        self.is_idempotent, self.is_older = version == IDEMPOTENT, version == OLDER
        of_brokers: dict[str, int] = {}
        if self.is_older:
            of_brokers = dict.fromkeys(
                ("init_producer_id_version", "txn_offset_commit_version"), OLDER_VERSION
            )
        self.client = ProducerClient(
            None if self.is_idempotent else "orders",
            protocol=protocol,
            transaction_version=2 if version == 2 else 0,
            retry_backoff_ms=BACKOFF_MS,
            retry_backoff_max_ms=BACKOFF_MS,
            **of_brokers,
        )
        self.call: CallResult | None = None
        self.records = list[Record]()
        self.sent = list[Request | Produce]()
        self.raised: CallFailedError | None = None
        self.keeps_sequences = False
        """Whether sequences aren't compared. After another initTransactions, Kafka's client forgets
        its sequences with the next batch, the tables' at once."""

    def take(self, operation: Operation) -> None:
        self.sent, self.raised = [], None
        try:
            self._take(operation)
        except CallFailedError as error:
            self.raised = error
        if operation.number >= RUNS:
            self.sent = self.client.run()
        self.keeps_sequences &= not any(each.api == "PRODUCE" for each in self.sent)

    def _take(self, operation: Operation) -> None:
        client = self.client
        match Number(operation.number % RUNS):
            case Number.INIT:
                self.call = client.init_transactions()
            case Number.BEGIN:
                client.begin_transaction()
            case Number.SEND:
                self.records.append(client.send(PARTITION))
            case Number.SEND_LARGE:
                client.send(PARTITION, LARGE)
            case Number.COMMIT:
                self.call = client.commit_transaction()
            case Number.ABORT:
                self.call = client.abort_transaction()
            case Number.OFFSETS | Number.NO_GROUP | Number.NO_MEMBER | Number.MEMBER as number:
                self.call = client.send_offsets({PARTITION: 5}, GROUPS[number])
            case Number.WAIT:
                assert self.call is not None
                client.wait(self.call)
            case Number.PASS:
                client.now_ms += PASSED_MS
            case Number.CLOSE:
                client.close()
            case Number.ANSWER:
                sent = client.outstanding[operation.of]
                error = next(name for name in ANSWERS[sent.api] if _CODES[name] == operation.error)
                epoch = operation.extra
                self.keeps_sequences |= (
                    isinstance(sent, Request)
                    and sent.api == "INIT_PRODUCER_ID"
                    and not sent.is_bump
                    and client.producer_epoch >= 0
                    and error == "NONE"
                    and not self.is_idempotent
                )
                client.answer(
                    sent,
                    error,
                    producer_id=PRODUCER_ID if epoch >= 0 and error == "NONE" else -1,
                    producer_epoch=epoch if error == "NONE" else -1,
                    base_offset=epoch if error == "NONE" else -1,
                    log_start_offset=epoch if error == "UNKNOWN_PRODUCER_ID" else -1,
                )
            case Number.DISCONNECT:
                client.disconnect(client.outstanding[operation.of])
            case Number.MISMATCH:
                client.reject_version(client.outstanding[operation.of])

    def events(self) -> Iterator[Operation]:
        """The next events in range, without those of `NOT_OFFERED`."""
        for event in self._in_range():
            if not any(is_so(self, event) for is_so, _ in NOT_OFFERED):
                yield event

    def _in_range(self) -> Iterator[Operation]:
        yield from self._calls()
        if self.client.accumulator.has_incomplete:
            yield Operation(RUNS + Number.PASS, said="delivery.timeout.ms passes")
        for at, sent in enumerate(self.client.outstanding):
            api = sent.api
            for error in ANSWERS[api]:
                if self._is_known(error):
                    for extra, more in self._extras(sent, error):
                        said = f"{api} is answered {error}{more}"
                        yield Operation(RUNS + Number.ANSWER, at, _CODES[error], extra, said)
            yield Operation(RUNS + Number.DISCONNECT, at, said=f"{api}: the connection closes")
            yield Operation(RUNS + Number.MISMATCH, at, said=f"{api}: its version is unknown")

    def _calls(self) -> Iterator[Operation]:
        call = self.call
        for number, name in CALLS.items():
            if number == Number.SEND and not self._has_room():
                continue
            if number == Number.OFFSETS and self.is_older:
                continue
            yield Operation(RUNS + number, said=name)
            yield Operation(number, said=f"{name}, at once followed")
        yield Operation(Number.BEGIN, said="beginTransaction")
        yield Operation(RUNS + Number.SEND_LARGE, said="send of a record that is too large")
        for number, of in OF_GROUPS.items():
            if number != Number.MEMBER or self.is_older:
                yield Operation(RUNS + number, said=f"{CALLS[Number.OFFSETS]} {of}")
        if not self.client.machine["is_closed"]:
            yield Operation(RUNS + Number.CLOSE, said="close")
        if call is not None and call.is_completed and not call.is_acknowledged:
            yield Operation(Number.WAIT, said="wait for the result")

    def _has_room(self) -> bool:
        waiting = sum(not record.is_done for record in self.records)
        return len(self.records) < RECORDS and waiting < IN_FLIGHT

    def answered(self, event: Operation) -> Request | Produce | None:
        """The request that an event answers, or whose connection the event closes."""
        if event.number % RUNS not in (Number.ANSWER, Number.DISCONNECT, Number.MISMATCH):
            return None
        return self.client.outstanding[event.of]

    def _extras(self, sent: Request | Produce, error: str) -> tuple[tuple[int, str], ...]:
        """The possible epochs, offsets or log start offsets of an answer."""
        epoch = self.client.producer_epoch
        if sent.api == "PRODUCE":
            if error == "UNKNOWN_PRODUCER_ID":
                return (-1, ""), (0, ", whose log has all"), (LOG_START, ", whose log is cut")
            return ((sum(record.is_done for record in self.records), ""),)
        if error != "NONE":
            return ((-1, ""),)
        if sent.api == "INIT_PRODUCER_ID" and self.is_idempotent:
            return (epoch + 1, ""), (LAST_EPOCH, " and the last epoch")
        if sent.api == "INIT_PRODUCER_ID" or (
            sent.api == "END_TXN" and self.client.queue.version == 2
        ):
            return ((epoch + 1, ""),)
        return ((-1, ""),)

    def _is_known(self, error: str) -> bool:
        """Whether the client's release knows the error."""
        return (
            error != "TRANSACTION_ABORTABLE"
            or abortable_error.data.name in self.client.machine.features
        )

    def numbers(self) -> tuple[int | None, ...]:
        """The compared fields; None: any number."""
        client, machine, call = self.client, self.client.machine, self.call
        error = machine["last_error"]
        is_lost = error == "ILLEGAL_STATE"  # Kafka's client may have the epoch of the answer
        has_no_id = self.is_idempotent and client.producer_id < 0  # Kafka's has epochs then
        failed = call is not None and call.is_completed and call.error is not None
        return (
            _STATES.index(machine["state"]),
            0 if error is None else _CODES[error],
            client.producer_id,
            None if is_lost or has_no_id else client.producer_epoch,
            len(machine["new_partitions"]),
            len(machine["adding"]),
            len(machine["added"]),
            int(machine["transaction_started"]),
            int(machine["pending_call"] is not None and not machine["call_acknowledged"]),
            int(machine["request_in_flight"]),
            int(machine["transaction_coordinator"]),
            int(machine["group_coordinator"]),
            int(machine["must_bump"] or bool(machine["bump_for"])),
            len(client.queue.waiting),
            len(client.queue.offsets),
            None if is_lost or self.keeps_sequences else machine.at("next_sequence", PARTITION),
            None if is_lost or self.keeps_sequences else machine.at("last_acked", PARTITION),
            int(client.accumulator.has_undrained),
            int(client.accumulator.has_incomplete),
            len(client.outstanding),
            int(call is not None and call.is_completed),
            _CODES[call.error] if failed and call is not None and call.error is not None else 0,
            *(_result(record) for record in self.records),
            *(0,) * (RECORDS - len(self.records)),
        )

    def is_explored(self) -> bool:
        """Whether the epoch is in range, and an event is possible."""
        epoch = self.client.producer_epoch
        is_small = epoch <= LARGEST_EPOCH or epoch == LAST_EPOCH
        return is_small and any(True for _ in self.events())

    def key(self) -> Any:
        """The part of the state that later events depend on, without times."""
        machine, call = self.client.machine, self.call
        return (
            machine.kept(_OF_THE_TIME, _frozen),
            len(self.records),
            *((each.api, each.is_retry) for each in self.client.queue.waiting),
            *(each.api for each in self.client.outstanding),
            call is not None and call.is_acknowledged,
        )


def _has_two_of_a_priority(at: _Played, _: Operation) -> bool:
    apis = [each.api for each in at.client.queue.waiting]
    waiting = Counter("add" if api in ADDS else api for api in apis)
    return max(waiting.values(), default=0) > 1


def _is_of_a_coordinator(at: _Played, event: Operation) -> bool:
    sent = at.answered(event)
    return (
        at.is_idempotent
        and event.number % RUNS == Number.ANSWER
        and sent is not None
        and sent.api == "INIT_PRODUCER_ID"
        and event.error not in (_CODES[error] for error in OF_ANY_BROKER)
    )


NOT_OFFERED: Final[tuple[tuple[Callable[[_Played, Operation], bool], str], ...]] = (
    (
        _has_two_of_a_priority,
        "Any event while two requests of the same priority wait. Kafka's PriorityQueue has no "
        "stated order for them.",
    ),
    (
        _is_of_a_coordinator,
        "A coordinator's errors for the InitProducerId of an idempotent client: any broker answers "
        "it.",
    ),
)
"""The events in range that aren't taken: a condition for each kind, and its reason in
docs/classes.md."""

_OF_THE_TIME: Final = frozenset(("details",))


def _frozen(value: Sparse) -> Hashable:
    """A map, which may have maps as values, as a hashable value."""
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
    """A client at the end of a path, for copies. A copy is faster than another run of the path.
    Copies share the metrics."""

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


_SENT = (
    "initTransactions", "FIND_COORDINATOR is answered NONE", "INIT_PRODUCER_ID is answered NONE",
    "wait for the result", "beginTransaction", "send",
)  # fmt: skip
_WITHOUT_ID = (
    "initTransactions",
    "FIND_COORDINATOR is answered NONE",
    "send of a record that is too large",
    "INIT_PRODUCER_ID is answered CONCURRENT_TRANSACTIONS",
    "wait for the result",
)
SEEDS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = {
    0: (
        # the leader has forgotten the producer id, and a batch has been acknowledged before
        (
            *_SENT, "ADD_PARTITIONS_TO_TXN is answered NONE", "PRODUCE is answered NONE", "send",
            "send", "PRODUCE is answered UNKNOWN_PRODUCER_ID, whose log has all",
            "PRODUCE is answered INVALID_RECORD",
        ),
        # an error comes while the end is on its way
        (
            *_SENT, "ADD_PARTITIONS_TO_TXN is answered NONE", "PRODUCE is answered NONE",
            "commitTransaction", "send of a record that is too large", "END_TXN is answered NONE",
        ),
        # a leader may still answer a batch of the epoch before
        (
            *_SENT, "ADD_PARTITIONS_TO_TXN is answered NONE", "delivery.timeout.ms passes",
            "abortTransaction", "END_TXN is answered NONE", "INIT_PRODUCER_ID is answered NONE",
            "wait for the result", "beginTransaction", "send",
        ),
        # there is no producer id, and the end needs a new epoch
        (*_WITHOUT_ID, "abortTransaction"),
        (*_WITHOUT_ID, "close"),
        # a closed client's abort has failed, or a commit, and nobody has taken the result
        (
            *_WITHOUT_ID, "abortTransaction", "close",
            "INIT_PRODUCER_ID is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "wait for the result", "send of a record that is too large",
        ),
        (
            *_WITHOUT_ID, "abortTransaction", "close",
            "INIT_PRODUCER_ID is answered TRANSACTION_ABORTABLE", "wait for the result",
            "send of a record that is too large",
        ),
        (
            *_SENT, "ADD_PARTITIONS_TO_TXN is answered NONE", "commitTransaction",
            "PRODUCE is answered INVALID_RECORD", "close", "wait for the result",
            "send of a record that is too large",
        ),
    ),
    2: (
        (
            *_SENT, "PRODUCE is answered NONE", "send", "send",
            "PRODUCE is answered UNKNOWN_PRODUCER_ID, whose log has all",
            "PRODUCE is answered INVALID_RECORD",
        ),
        (
            *_SENT, "delivery.timeout.ms passes", "abortTransaction", "END_TXN is answered NONE",
            "wait for the result", "beginTransaction", "send",
        ),
        # a record fails before initTransactions has returned
        (
            "initTransactions", "FIND_COORDINATOR is answered NONE",
            "INIT_PRODUCER_ID is answered NONE", "send of a record that is too large",
            "wait for the result", "beginTransaction", "send", "PRODUCE is answered NONE",
            "commitTransaction", "END_TXN is answered NONE",
        ),
    ),
    IDEMPOTENT: (
        # the epochs are used up with two batches in flight: an error comes before the new id
        (
            "send", "INIT_PRODUCER_ID is answered NONE and the last epoch", "send",
            "PRODUCE is answered UNKNOWN_PRODUCER_ID, whose log has all",
            "PRODUCE is answered INVALID_RECORD",
        ),
        # the new id is refused, with a batch in flight or in its queue again
        (
            "send", "INIT_PRODUCER_ID is answered NONE and the last epoch", "send",
            "PRODUCE is answered INVALID_RECORD",
            "INIT_PRODUCER_ID is answered CLUSTER_AUTHORIZATION_FAILED",
            "INIT_PRODUCER_ID is answered NONE", "send",
        ),
        (
            "send", "INIT_PRODUCER_ID is answered NONE and the last epoch",
            "PRODUCE is answered UNKNOWN_PRODUCER_ID, whose log is cut",
            "INIT_PRODUCER_ID is answered CLUSTER_AUTHORIZATION_FAILED",
            "INIT_PRODUCER_ID is answered NONE", "send",
        ),
    ),
}  # fmt: skip
"""Events that lead to rows far from the first state, for each version."""


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
    most = 2_000
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
        # this machine only names rows and sources: each path has a client of its own
        super().__init__(machine or cast("Machine", _Played(protocol, 0).client.machine))
        self.protocol = protocol
        self._rows = {*self.rows()}

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        versions = (*self.versions, OLDER, IDEMPOTENT)
        for at, version in enumerate(versions):
            share = None if most is None else most // len(versions) + (at < most % len(versions))
            seeds = self._seeds(version)
            yield from breadth_first(
                seeds, self._steps_of, share, _Reached.is_explored,
                rows_first=True, ways_to_seeds=seeds,
            )  # fmt: skip

    def _seeds(self, version: int) -> dict[_Reached, Way | None]:
        """The first state, and the states on the paths of `SEEDS`, each with the step before it. A
        path ends at its first event that the release doesn't have."""
        first = _Reached(version, (), self._played(version, ()))
        ways: dict[_Reached, Way | None] = {first: None}
        for path in SEEDS.get(version, ()):
            at = first
            for event in path:
                found = next(
                    (each for step, each in self._steps_of(at) if step.said == event), None
                )
                if found is None or not found.is_explored():
                    break
                ways.setdefault(found, Way(at, event))
                at = found
        return ways

    def path(self, version: int, *events: str) -> Iterator[LocalStep]:
        """The steps of one path, by the names of its events."""
        at = _Reached(version, (), self._played(version, ()))
        for event in events:
            step, at = next(each for each in self._steps_of(at) if each[0].said == event)
            yield step

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
        if event.number == Number.WAIT or (raised is not None and raised.error == "ILLEGAL_STATE"):
            cause = None  # results have no cause; an IllegalStateException may be its own cause
        sent = [_APIS[each.api] for each in played.sent[:4]]
        return LocalStep(
            given,
            (error, cause, len(played.sent), *sent, *(0,) * (4 - len(sent))),
            after.numbers,
            # rows of the accumulator's order of nodes aren't the client's
            tuple(sorted(self._rows & {(table.on.name, row.id) for table, row in rows})),
            event.said,
        )
