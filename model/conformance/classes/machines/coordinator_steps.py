"""The local steps of the coordinator's entry, as Kafka's classes take them.

There is one entry. The environment sends every request with each argument of a set: the entry's
producer ids and an unknown one, the epochs around the entry's and the extreme ones. The log answers
each record with NONE or each kind of error, or doesn't answer. These steps include the local steps
of a coordinator in every system, except for the values.

Reductions: there are two times, one past and the present; a state has one timeout; producer ids
have fixed values. Epochs between `LOW` and `HIGH` occur as results, but their states aren't
explored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from .....spec.coordinator import entry as declared
from .....spec.coordinator.markers import Outcome
from .....spec.coordinator.tables import DRIVEN
from .....spec.errors import Errors
from .....spec.releases.api_versions import before as older_than
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

NOW: Final = 2_000_000_000
PAST: Final = 1_000
TIMEOUT_MS: Final = 60_000
ASKED_TIMEOUT_MS: Final = 30_000
CURRENT, PREVIOUS, NEXT, OFFERED, UNKNOWN = 1000, 900, 1100, 2000, 5000
LARGEST: Final = 2**15 - 1
LOW, HIGH = 2, LARGEST - 3
"""States with epochs between LOW and HIGH behave alike."""
NO_ANSWER: Final = -1000
"""The log doesn't answer within the step."""
FAILOVER, LATE_FAILOVER = -2000, -3000
"""The record is in the log, and another coordinator reads it: before the append is answered, or
after it has failed."""
STATES: Final = tuple(name for name, _ in declared.TransactionState.members)
_NUMBERS: Final = {name: number for number, name in enumerate(STATES)}
_OUTCOMES: Final = {name: at for at, (name, _) in enumerate(Outcome.members)}
_CODES: Final = dict(Errors.members)
_COMPLETES: Final = (_NUMBERS["COMPLETE_COMMIT"], _NUMBERS["COMPLETE_ABORT"])
_PREPARES: Final = (_NUMBERS["PREPARE_COMMIT"], _NUMBERS["PREPARE_ABORT"])
_FENCE: Final = _NUMBERS["PREPARE_EPOCH_FENCE"]

LOG_ANSWERS: Final = {
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
}
"""Errors of the log, and the coordinator's errors for them:
TransactionStateManager.appendTransactionToLog."""
MARKER_ANSWERS: Final = (
    "NONE", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "UNSUPPORTED_VERSION", "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR", "INVALID_PRODUCER_EPOCH",
    "TRANSACTION_COORDINATOR_FENCED", "UNKNOWN_SERVER_ERROR", "INVALID_TXN_STATE",
    "CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "PRODUCER_FENCED", "CLUSTER_AUTHORIZATION_FAILED",
)  # fmt: skip
"""Errors in the answer to a marker."""
_NOT_COMPARED: Final = (None, None, None, None)
_NOT_KNOWN: Final = (None,) * 13
"""The fields of a missing entry."""


class Entry(NamedTuple):
    """An entry for the host: -1 for absent numbers, a bit for each partition."""

    known: int
    state: int
    pending: int
    producer_id: int
    previous_id: int
    next_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: int
    start: int
    update: int
    version: int
    failed_fence: int


KAFKAS: Final = (
    "(cached)",
    "state",
    "pendingState",
    "producerId",
    "prevProducerId",
    "nextProducerId",
    "producerEpoch",
    "lastProducerEpoch",
    "txnTimeoutMs",
    "topicPartitions",
    "txnStartTimestamp",
    "txnLastUpdateTimestamp",
    "clientTransactionVersion",
    "hasFailedEpochFence",
)
"""The names of the fields in Kafka's TransactionMetadata."""
OF_THE_CLASS_ALONE: Final = {
    "transactionalId": "a run has one",
    "lock": "a step has one thread",
}
"""Fields of Kafka's class alone, with the reason."""
ABSENT: Final = Entry(0, 0, -1, CURRENT, -1, -1, -1, -1, TIMEOUT_MS, 0, -1, PAST, 0, 0)
SEEDS: Final = (
    ABSENT,
    ABSENT._replace(known=1, producer_epoch=HIGH, previous_id=CURRENT),
)


@dataclass(frozen=True)
class _Event:
    """An event with its arguments, for the machine and for the host."""

    operation: int
    name: str
    fields: dict[str, Any]
    version: int
    numbers: tuple[int, ...]
    """For the host: producer id, epoch, commits, partitions, timeout."""

    def shown(self) -> str:
        given = ", ".join(
            f"{name}={_shown(value)}"
            for name, value in self.fields.items()
            if name not in ("producer", "connection", "partition") and value is not None
        )
        return f"{self.name}({given})"


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        partitions = cast("frozenset[int]", value)
        return f"{{{', '.join(map(str, sorted(partitions)))}}}"
    return str(value)


class Coordinator(LocalSteps):
    """The local steps of an entry at one release."""

    name = "coordinator"
    java = "CoordinatorSteps"
    since = "2.4"
    answers = ("answers", "error", "producer id", "producer epoch")
    fields = KAFKAS
    of_the_class_alone = OF_THE_CLASS_ALONE

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        super().__init__(machine or Machine(DRIVEN, protocol=protocol))
        features = self.blank.features
        self.verifies = "verification" in features
        self._expects = "expected_epoch" in features

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return breadth_first(SEEDS, self._canonical_steps_of, most, _is_explored)

    def _canonical_steps_of(self, before: Entry) -> Iterator[tuple[LocalStep, Entry]]:
        return ((step, _canonical(after)) for step, after in self._steps_of(before))

    def _steps_of(self, before: Entry) -> Iterator[tuple[LocalStep, Entry]]:
        start = self._machine(before)
        for event in self._events(before):
            for offered in (OFFERED, -1) if self._may_need_id(before, event) else (OFFERED,):
                yield from self._taken(before, start, event, offered)
        if before.pending in _COMPLETES and not before.partitions:
            machine = start.copy()
            event = _Event(6, "log append", {}, 0, (0, 0, 0, 0, 0))
            row = event.name, machine.handle("log append").row
            given = before._replace(pending=-1)
            yield self._step(event, OFFERED, 0, given, machine, [], row), self._entry(machine, 1)
            yield from self._failovers(given, start, event, row)
        if before.pending in _COMPLETES:
            yield from self._markers(before, start)
        if before.known and before.pending == -1 and before.producer_epoch >= 0:
            yield from self._reload(before)

    def _failovers(
        self, before: Entry, pending: Machine, event: _Event, *rows: tuple[str, str]
    ) -> Iterator[tuple[LocalStep, Entry]]:
        """The steps in which the pending record is in the log, and another coordinator reads it."""
        machine = pending.copy()
        outcome = machine.attempt("coordinator failover", record_kept=True)
        if outcome is not None:
            row = "coordinator failover", outcome.row
            yield self._after_failover(before, machine, event, FAILOVER, *rows, row)
        machine = pending.copy()
        outcome = machine.attempt(
            "append failure", record_kept=True, error="COORDINATOR_NOT_AVAILABLE"
        )
        if outcome is None:
            return
        failure = "append failure", outcome.row
        outcome = machine.attempt("coordinator failover after a failed append")
        if outcome is not None:
            row = "coordinator failover after a failed append", outcome.row
            yield self._after_failover(before, machine, event, LATE_FAILOVER, *rows, failure, row)

    def _after_failover(
        self, before: Entry, machine: Machine, event: _Event, log: int, *rows: tuple[str, str]
    ) -> tuple[LocalStep, Entry]:
        """A step with a failover. The coordinator that reads the log answers no waiting request."""
        step = self._step(event, OFFERED, log, before, machine, [], *rows)
        known = int(rows[-1][1] != "tombstone-in-log")
        after, following = step.after if known else (0, *_NOT_KNOWN), self._entry(machine, known)
        if log == LATE_FAILOVER:  # `unsettled` has no times, as a bounded run has one time
            places = [Entry._fields.index(name) for name in ("timeout_ms", "start", "update")]
            after = tuple(None if at in places else value for at, value in enumerate(after))
            following = before
        return step._replace(answer=_NOT_COMPARED, after=after), following

    def _reload(self, before: Entry) -> Iterator[tuple[LocalStep, Entry]]:
        """The steps in which another coordinator loads the entry from the log."""
        if before.state == _NUMBERS["EMPTY"]:
            before = before._replace(start=-1)  # as every record of this state has it
        machine = self._machine(before)
        machine.put(logged_epoch=before.producer_epoch, logged_partitions=machine["partitions"])
        outcome = machine.attempt("coordinator failover", record_kept=False)
        if outcome is not None:
            event = _Event(8, "coordinator failover", {}, 0, (0, 0, 0, 0, 0))
            row = event.name, outcome.row
            yield self._after_failover(before, machine, event, FAILOVER, row)

    def _markers(self, before: Entry, start: Machine) -> Iterator[tuple[LocalStep, Entry]]:
        """The steps in which a leader answers a marker."""
        given = before._replace(pending=-1)
        commits = int(before.pending == _COMPLETES[0])
        for partition in start["partitions"]:
            for error, late in (*((error, 0) for error in MARKER_ANSWERS), ("NONE", 1)):
                machine = start.copy()
                machine.put(
                    marker_sent=frozenset((partition,)), marker_connection={partition: late}
                )
                fields: dict[str, Any] = {"partition": partition, "error": error, "connection": 0}
                name = "WriteTxnMarkersResponse"
                outcome = machine.handle(name, **fields)
                said = fields | {"is_late": True} if late else fields
                event = _Event(9, name, said, 0, (_CODES[error], late, commits, partition, 0))
                row = name, outcome.row
                step = self._step(event, OFFERED, NO_ANSWER, given, machine, [], row)
                verdict = _OUTCOMES[outcome.reply.outcome]
                yield step._replace(answer=(1, verdict, None, None)), self._entry(machine, 1)

    @staticmethod
    def _may_need_id(before: Entry, event: _Event) -> bool:
        return event.operation in (0, 3, 4) and before.producer_epoch >= LARGEST - 1

    def _taken(
        self, before: Entry, start: Machine, event: _Event, offered: int
    ) -> Iterator[tuple[LocalStep, Entry]]:
        off = older_than(event.version)
        machine = start.copy()
        machine.outside(producer_id_manager__offered_id=None if offered < 0 else offered)
        if event.operation == 0 and not before.known:  # TransactionCoordinator makes an entry first
            machine.put(txn_timeout_ms=ASKED_TIMEOUT_MS, txn_last_update_timestamp=NOW)
        if event.operation == 4:
            fence = {"producer_id": event.numbers[0], "producer_epoch": event.numbers[1]}
            machine.put(fence_end=fence, fenced_for={0: 0})
        outcome = machine.attempt(event.name, switch_off=off, **event.fields)
        if outcome is None:
            return
        row = event.name, outcome.row
        is_known = int(before.known or event.operation == 0)
        sent = list(outcome.sent)
        pending = machine["pending"]
        appends = pending is not None and pending != "PREPARE_EPOCH_FENCE" and not sent
        if not appends or before.pending not in (-1, _FENCE):
            yield (
                self._step(event, offered, 0, before, machine, sent, row),
                self._entry(machine, is_known),
            )
            return
        yield (
            self._step(event, offered, NO_ANSWER, before, machine, sent, row),
            self._entry(machine, is_known),
        )
        appended = machine.copy()
        outcome = appended.handle("log append", switch_off=off)
        rows, sent = [row, ("log append", outcome.row)], list(outcome.sent)
        completion = appended.attempt("begin completion", switch_off=off)
        if completion is not None:
            sent += completion.sent
            rows.append(("begin completion", completion.row))
        step = self._step(event, offered, 0, before, appended, sent, *rows)
        if rows[-1] == ("log append", "forgotten"):
            is_known, step = 0, step._replace(after=(0, *_NOT_KNOWN))
        yield step, self._entry(appended, is_known)
        is_known = int(before.known or event.operation == 0)
        yield from self._failovers(before, machine, event, row)
        for error, answered in LOG_ANSWERS.items():
            failed = machine.copy()
            outcome = failed.handle(
                "append failure", switch_off=off, record_kept=False, error=answered
            )
            yield (
                self._step(
                    event, offered, _CODES[error], before, failed, outcome.sent,
                    row, ("append failure", outcome.row),
                ),
                self._entry(failed, is_known),
            )  # fmt: skip

    def _step(
        self, event: _Event, offered: int, log: int, before: Entry, machine: Machine,
        sent: Any, *rows: tuple[str, str],
    ) -> LocalStep:  # fmt: skip
        producer_id, epoch, commits, partitions, timeout = event.numbers
        given = (
            event.operation, event.version, offered, producer_id, epoch, commits, partitions,
            timeout, log, *before,
        )  # fmt: skip
        answer = next((m for m in sent if getattr(m, "producer", 0) == 0), None)
        said = event.shown()
        if log == NO_ANSWER:
            said += ", no answer of the log"
        elif log == FAILOVER:
            said += ", another coordinator reads the log"
        elif log == LATE_FAILOVER:
            said += ", the append fails, another coordinator reads the log"
        elif log:
            name = next(name for name, code in _CODES.items() if code == log)
            said += f", the log answers {name}"
        if offered < 0:
            said += ", no producer id"
        return LocalStep(
            given=given,
            answer=_answer(event, answer),
            after=self._expected(machine, int(before.known or event.operation == 0)),
            rows=rows,
            said=said,
        )

    # Entries ----------------------------------------------------------------------------------

    def _machine(self, entry: Entry) -> Machine:
        machine = self.blank.copy()
        partitions = frozenset(at for at in range(2) if entry.partitions >> at & 1)
        pending = None if entry.pending < 0 else STATES[entry.pending]
        machine.put(
            state=STATES[entry.state], pending=pending, producer_id=entry.producer_id,
            previous_id=_or_none(entry.previous_id), next_id=_or_none(entry.next_id),
            producer_epoch=entry.producer_epoch, last_producer_epoch=entry.last_producer_epoch,
            txn_timeout_ms=entry.timeout_ms, partitions=partitions,
            txn_start_timestamp=entry.start, txn_last_update_timestamp=entry.update,
            client_transaction_version=entry.version, failed_fence=bool(entry.failed_fence),
            pending_id=entry.producer_id, pending_start_timestamp=entry.start,
            pending_update_timestamp=NOW, pending_version=entry.version,
        )  # fmt: skip
        machine.outside(clock__now=NOW, producer_id_manager__offered_id=OFFERED)
        return machine

    def _expected(self, machine: Machine, is_known: int) -> tuple[int | None, ...]:
        """The expected entry of the class. The flag of a failed fence is compared only where a
        fence can read it: not before the transaction has ended, nor while a record is appended."""
        if not is_known:
            return (0, *_NOT_KNOWN)
        entry = self._entry(machine, is_known)
        is_read = entry.pending in (-1, _FENCE) and entry.state not in _PREPARES
        return entry if is_read else (*entry[:-1], None)

    def _entry(self, machine: Machine, is_known: int) -> Entry:
        pending = machine["pending"]
        # In Kafka's class it is only in the record until that is in the log.
        following = None if pending in ("PREPARE_COMMIT", "PREPARE_ABORT") else machine["next_id"]
        return Entry(
            int(is_known), _NUMBERS[machine["state"]], -1 if pending is None else _NUMBERS[pending],
            machine["producer_id"], _or_absent(machine["previous_id"]), _or_absent(following),
            machine["producer_epoch"], machine["last_producer_epoch"], machine["txn_timeout_ms"],
            sum(1 << at for at in machine["partitions"]), machine["txn_start_timestamp"],
            machine["txn_last_update_timestamp"], machine["client_transaction_version"],
            int(machine["failed_fence"]),
        )  # fmt: skip

    # Events -----------------------------------------------------------------------------------

    def _events(self, entry: Entry) -> Iterator[_Event]:
        # Nobody knows the id of an entry without an epoch.
        own = [] if entry.known and entry.producer_epoch < 0 else [entry.producer_id]
        ids = sorted({*own, entry.previous_id, entry.next_id, UNKNOWN} - {-1})
        at = entry.producer_epoch
        epochs = sorted(
            epoch for epoch in {at - 1, at, at + 1, at + 2, 0, LARGEST - 1} if 0 <= epoch <= LARGEST
        )
        sender = {"producer": 0, "connection": 0}
        expected = [(-1, -1), *((i, e) for i in ids for e in epochs if self._expects)]
        for producer_id, epoch in expected:
            fields = sender | {
                "expected_id": max(producer_id, 0),
                "expected_epoch": epoch,
                "transaction_timeout_ms": ASKED_TIMEOUT_MS,
            }
            numbers = producer_id, epoch, 0, 0, ASKED_TIMEOUT_MS
            yield _Event(0, "InitProducerId", fields, 0, numbers)
        for producer_id in ids:
            for epoch in epochs:
                held = {"producer_id": producer_id, "producer_epoch": epoch}
                for version in self.versions:
                    yield from _adds(sender | held, producer_id, epoch, version)
                    yield from self._by_leader(held, producer_id, epoch, version)
                    for commits, result in enumerate(("ABORT", "COMMIT")):
                        fields = sender | held | {"result": result}
                        numbers = producer_id, epoch, commits, 0, 0
                        yield _Event(3, "EndTxn", fields, version, numbers)
                    if entry.pending == _FENCE and epoch > at + 1 - entry.failed_fence:
                        continue  # no fence has taken such an epoch
                    numbers = producer_id, epoch, 0, 0, 0
                    yield _Event(4, "continue the fence", {}, version, numbers)
        yield _Event(7, "transactional id expiry", {}, 0, (0, 0, 0, 0, 0))
        yield _Event(5, "transaction timeout", {}, self.versions[-1], (0, 0, 0, 0, 0))

    def _by_leader(
        self, held: dict[str, int], producer_id: int, epoch: int, version: int
    ) -> Iterator[_Event]:
        if version == 0 and not self.verifies:
            return
        for partition in (0, 1):
            fields = held | {"producer": 0, "partition": partition}
            numbers = producer_id, epoch, 0, 1 << partition, 0
            operation = 1 if version == 2 else 2
            yield _Event(operation, "AddPartitionsByLeader", fields, version, numbers)


def _adds(given: dict[str, int], producer_id: int, epoch: int, version: int) -> Iterator[_Event]:
    for mask in (1, 2, 3):
        fields: dict[str, Any] = given | {
            "partition": None,
            "partitions": frozenset(at for at in (0, 1) if mask >> at & 1),
            "client_transaction_version": version,
        }
        yield _Event(1, "AddPartitionsToTxn", fields, version, (producer_id, epoch, 0, mask, 0))


def _answer(event: _Event, answer: Any) -> tuple[int | None, ...]:
    """The answer to a request: how many answers, the error, producer id and epoch; None: any
    number."""
    if answer is None:
        return (0, None, None, None)
    error = _CODES[answer.error]
    has_id = error == 0 and (event.operation == 0 or (event.operation == 3 and event.version == 2))
    if not has_id or answer.producer_epoch < 0:
        return (1, error, None, None)
    return (1, error, answer.producer_id, answer.producer_epoch)


def _or_none(producer_id: int) -> int | None:
    return None if producer_id < 0 else producer_id


def _or_absent(producer_id: int | None) -> int:
    return -1 if producer_id is None else producer_id


def _is_explored(entry: Entry) -> bool:
    return entry.producer_epoch <= LOW or entry.producer_epoch >= HIGH


def _canonical(entry: Entry) -> Entry:
    """The state that represents this one. The step is over, so its time is past."""
    if not entry.known:
        return ABSENT
    current = entry.producer_id
    previous = entry.previous_id
    next_id = entry.next_id
    in_transition = entry.pending not in (-1, _FENCE)
    return entry._replace(
        producer_id=CURRENT,
        previous_id=previous if previous < 0 else (CURRENT if previous == current else PREVIOUS),
        next_id=next_id if next_id < 0 else NEXT,
        timeout_ms=TIMEOUT_MS,
        start=entry.start if entry.start < 0 else PAST,
        update=PAST,
        partitions=1 if entry.partitions == 2 else entry.partitions,
        failed_fence=0 if in_transition else entry.failed_fence,
    )
