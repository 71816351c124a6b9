"""The machines that histories are judged by, each with what happens to it between requests.

What Kafka does is the rows'. Said here is what a history leaves open, and how wide: which answers
come from around the machine, and which of its own steps may have happened at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

from ..spec import coordinator as declared
from ..spec import leader as declared_leader
from ..spec import partition, transaction
from ..spec.language.expressions import EnumValue, children_first
from ..spec.language.tables import Table
from ..spec.messages import Errors
from .coordinator import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PENDING, TransactionCoordinator
from .errors import WrongType
from .judge import Answered, Judged, Operation, Settings
from .leader import PartitionLeader
from .values import Sparse

T = TypeVar("T")
COORDINATOR_REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
LEADER_REQUESTS = ("Produce", "WriteTxnMarkers")


def machine_for(operations: Sequence[Operation], settings: Settings) -> Judged:
    """The machine that these operations of one key are judged by, as it is at first."""
    requests = {operation.request for operation in operations}
    if requests <= {*COORDINATOR_REQUESTS}:
        return Coordinator(operations, settings)
    if requests <= {*LEADER_REQUESTS}:
        return Leader(operations, settings)
    raise WrongType(f"no key has all of {', '.join(sorted(requests))}", "request")


def frozen(value: Sparse) -> Hashable:
    """A map as one that can be remembered."""
    return frozenset([(key, part) for key, part in value.items() if part != value.default])


def said(
    tables: Iterable[Table], event: str | None = None, *, with_updates: bool = False
) -> frozenset[str]:
    """The errors that rows answer with (on this event, where they change something)."""
    found: set[str] = set()
    for table in tables:
        for row in table.rows if event in (None, table.on.name) else ():
            if with_updates and not table.updates(row):
                continue
            for sending in table.sendings(row):
                for name, value in sending.fields:
                    if name == "error":
                        data = (node.data for node in children_first(value))
                        found |= {part.member for part in data if isinstance(part, EnumValue)}
    return frozenset(found)


@cache
def _harmless(tables: tuple[Table, ...]) -> frozenset[str]:
    """The errors that no row answers with that changes something."""
    return said(tables) - said(tables, with_updates=True)


def _shallow(one: T) -> T:
    """The same with fields of its own; copy.copy takes three times as long."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


# A coordinator --------------------------------------------------------------------------------

NAME = "judged"
BY_LEADER = "(added by a leader)"


@cache
def _from_around(protocol: str) -> frozenset[str]:
    """What a coordinator answers where it isn't this one, is loading, or can't append."""
    blank = TransactionCoordinator(protocol=protocol)
    home = blank.state_partition_of(NAME)
    found = {blank.lookup("OTHER", NAME).error}
    blank.elect(home, 0, is_loading=True)
    found.add(blank.lookup("OTHER", NAME).error)
    passed = {error: blank.append_error(error) for error in declared.ErrorCode.names}
    return frozenset(found | {error for log, error in passed.items() if log != error})


class _WithoutMarkers(TransactionCoordinator):
    """One whose markers are written as a step of its own."""

    def send_markers(self, transactional_id: str, coordinator_epoch: int) -> frozenset[Any]:
        return frozenset()


class Coordinator:
    """The coordinator of one transactional id.

    By itself it appends to the log at once or later, or the log refuses; it writes markers, aborts
    what has timed out, forgets ids, fails over, and (version 2) has partitions added by leaders.
    """

    def __init__(self, operations: Sequence[Operation], settings: Settings) -> None:
        self.coordinator = _WithoutMarkers(
            protocol=settings.protocol, transaction_version=settings.transaction_version,
            transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
            transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
        )  # fmt: skip
        self.coordinator.elect(self.coordinator.state_partition_of(NAME), 0)
        ids = {
            found["producer_id"]
            for operation in operations
            for found in (operation.fields, operation.response or {})
            if found.get("producer_id", -1) >= 0
        }
        self.ids: tuple[int, ...] = (*sorted(ids), max(ids, default=0) + 1)
        self.around = _from_around(settings.protocol)
        self.harmless = _harmless(declared.TABLES)

    def is_decided(self, error: str) -> bool:
        """See Judged."""
        return error not in self.around and error in _CODES

    def rank(self, operation: Operation) -> float:
        """See Judged. Epochs rise."""
        for found in (operation.response or {}, operation.fields):
            if found.get("producer_epoch", -1) >= 0:
                return found["producer_epoch"]
        return float("inf")

    def is_idle(self, operation: Operation) -> bool:
        """See Judged. InitProducerId makes an entry where there is none, whatever it answers."""
        response, request = operation.response, operation.request
        return (
            response is not None
            and request != "InitProducerId"
            and response["error"] in self.harmless
        )

    def may_still(self, response: Mapping[str, Any]) -> bool:
        """See Judged. The epoch of a producer id doesn't go back."""
        producer_id, entry = response.get("producer_id", -1), self.coordinator.entries.get(NAME)
        return (
            producer_id < 0
            or entry is None
            or entry["producer_id"] != producer_id
            or entry["producer_epoch"] <= response.get("producer_epoch", LARGEST_EPOCH)
        )

    def key(self) -> Hashable:
        """See Judged."""
        entry = self.coordinator.entries.get(NAME)
        return None if entry is None else entry.kept(_UNSEEN, _without_keys)

    def _copy(self, now: float, new_id: Callable[[], int | None]) -> Coordinator:
        made = _shallow(self)
        made.coordinator = inner = _shallow(self.coordinator)
        inner.entries = {name: entry.copy() for name, entry in inner.entries.items()}
        inner.producer_ids = new_id
        inner.now_ms = int(now)
        return made

    def _is_as(self, other: Coordinator) -> bool:
        """Whether a request that made it the other one has done nothing."""
        mine, its = self.coordinator.entries.get(NAME), other.coordinator.entries.get(NAME)
        return (mine is its if mine is None or its is None else mine.is_as(its)) and (
            self.coordinator.appends == other.coordinator.appends
        )

    def _ask(
        self, operation: Operation, append: str
    ) -> Iterator[tuple[Coordinator, Mapping[str, Any] | None]]:
        """The outcomes with each producer id that the coordinator may be given, if it needs one."""
        told = (operation.response or {}).get("producer_id", -1)
        for new_id in [told] if told >= 0 else self.ids[::-1]:
            needed: list[int] = []

            def give(new_id: int = new_id, needed: list[int] = needed) -> int:
                needed.append(new_id)
                return new_id

            made = self._copy(operation.start, give)
            answer = _REQUESTS[operation.request](made.coordinator, operation.fields, append)
            yield (self if self._is_as(made) else made), answer
            if not needed:
                return

    def outcomes(self, operation: Operation, *, at_once: bool = False) -> Iterator[Answered]:
        """See Judged."""
        asks_log = False
        for after, answer in self._ask(operation, "NONE"):
            asks_log |= after.coordinator.appends > self.coordinator.appends
            yield Answered(after, answer)
        if at_once or not asks_log:
            return
        for after, answer in self._ask(operation, PENDING):
            if answer is None:
                yield Answered(after, answer)

    def events(self, until: float) -> Iterator[Answered]:
        """See Judged."""
        if NAME not in self.coordinator.entries:
            return
        before, after = self.key(), self._copy(until, self._newest)
        for can, happen in _STEPS:
            if not can(after.coordinator):
                continue
            sent = happen(after.coordinator)
            answer = next((_given(m) for m in sent if hasattr(m, "producer")), None)
            if answer is not None or after.key() != before:
                yield Answered(after, answer)
            after = self._copy(until, self._newest)

    def _newest(self) -> int:
        return self.ids[-1]


def _given(answer: Any) -> Mapping[str, Any] | None:
    """The answer as a history has it: of a method's result, or of the message that was sent."""
    if answer is None:
        return None
    if isinstance(answer, str):
        return {"error": answer}
    found = {"error": answer.error}
    if hasattr(answer, "producer_epoch"):
        has_id = answer.producer_epoch != NO_PRODUCER_EPOCH
        found["producer_id"] = answer.producer_id if has_id else NO_PRODUCER_ID
        found["producer_epoch"] = answer.producer_epoch
    return found


def _init(coordinator: TransactionCoordinator, fields: Mapping[str, Any], append: str) -> Any:
    held = (fields.get("producer_id", -1), fields.get("producer_epoch", -1))
    return _given(
        coordinator.init_producer_id(
            NAME,
            fields["transaction_timeout_ms"],
            None if held == (-1, -1) else held,
            append=append,
        )
    )


def _add(coordinator: TransactionCoordinator, fields: Mapping[str, Any], append: str) -> Any:
    return _given(
        coordinator.add_partitions(
            NAME,
            fields["producer_id"],
            fields["producer_epoch"],
            fields["partitions"],
            append=append,
        )
    )


def _end(coordinator: TransactionCoordinator, fields: Mapping[str, Any], append: str) -> Any:
    return _given(
        coordinator.end_txn(
            NAME,
            fields["producer_id"],
            fields["producer_epoch"],
            fields["result"],
            transaction_version=fields.get("transaction_version"),
            append=append,
        )
    )


_REQUESTS: dict[str, Callable[[TransactionCoordinator, Mapping[str, Any], str], Any]] = {
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "EndTxn": _end,
}


def _without_keys(value: Sparse) -> Hashable:
    """What is left of a map by requests, whose numbers say nothing."""
    return tuple(sorted(map(repr, value.values()))) if value else ()


# the id on offer, and what only markers have
_UNSEEN = frozenset({"newest_id", "coordinator_epoch"})
_CODES = frozenset(declared.ErrorCode.names) | frozenset(Errors.names)


Sent = Iterable[Any]
_Step = tuple[Callable[[TransactionCoordinator], bool], Callable[[TransactionCoordinator], Sent]]
_COMPLETE = ("COMPLETE_COMMIT", "COMPLETE_ABORT")


def _written(coordinator: TransactionCoordinator) -> Sent:
    entry = coordinator.entries[NAME]
    for part in entry["partitions"]:
        entry.handle("marker answered", partition=part, error="NONE")
    return entry.handle("log append").sent


def _acknowledged(coordinator: TransactionCoordinator) -> Sent:
    return coordinator.acknowledge(NAME)


def _added_by_leader(coordinator: TransactionCoordinator) -> Sent:
    entry = coordinator.entries[NAME]
    coordinator.add_partitions(
        NAME, entry["producer_id"], entry["producer_epoch"], (BY_LEADER,), transaction_version=2
    )
    return ()


def _timed_out(coordinator: TransactionCoordinator, append: str = "NONE") -> Sent:
    coordinator.abort_timed_out(append=append)
    return ()


def _expired(coordinator: TransactionCoordinator) -> Sent:
    coordinator.expire()
    return ()


def _declared(event: str, **fields: Any) -> _Step:
    """An event of the entry, and the completion that follows where an end is decided by it."""

    def can(coordinator: TransactionCoordinator) -> bool:
        return coordinator.entries[NAME].may(event, **fields) is not None

    def happen(coordinator: TransactionCoordinator) -> Sent:
        entry = coordinator.entries[NAME]
        sent = entry.handle(event, **fields).sent
        if entry["pending"] is None and entry.value(transaction.is_prepared):
            return (*sent, *entry.handle("begin completion").sent)
        return sent

    return can, happen


def _is_completing(coordinator: TransactionCoordinator) -> bool:
    return coordinator.entries[NAME]["pending"] in _COMPLETE


def _is_appending(coordinator: TransactionCoordinator) -> bool:
    return coordinator.entries[NAME]["pending"] not in (None, *_COMPLETE)


def _may_add(coordinator: TransactionCoordinator) -> bool:
    return coordinator.transaction_version >= 2 and coordinator.entries[NAME]["pending"] is None


def _is_late(coordinator: TransactionCoordinator) -> bool:
    return bool(coordinator.timed_out())


def _is_unused(coordinator: TransactionCoordinator) -> bool:
    return bool(coordinator.expirable())


_STEPS: tuple[_Step, ...] = (
    (_is_completing, _written),
    (_is_appending, _acknowledged),
    (_may_add, _added_by_leader),
    (_is_late, _timed_out),
    (_is_late, partial(_timed_out, append=PENDING)),
    *(
        _declared(event, record_kept=kept)
        for event in ("append failure", "coordinator failover")
        for kept in (False, True)
    ),
    _declared("coordinator failover after a failed append"),
    (_is_unused, _expired),
)

# A leader ---------------------------------------------------------------------------------------


@cache
def _decided() -> frozenset[str]:
    """What a leader answers by its own rows."""
    return said(declared_leader.TABLES)


@cache
def _relayed() -> list[str]:
    """What a leader answers that asked the coordinator about a batch and was refused."""
    refusals = said(transaction.TABLES, "AddPartitionsByLeader") - {"NONE"}
    rows = (
        row
        for row in partition.verified.rows
        if any(n.op == "parameter" and n.data.name == "error" for n in children_first(row.guard))
    )
    return sorted(refusals | said([replace(partition.verified, rows=tuple(rows))]))


class Leader:
    """The leader of one partition.

    By itself it forgets producers that are idle for long, or whose batches were deleted. Markers
    come at any time, where the history has none of its own: for a transaction that is open with
    the producer's epoch or a later one, and else one for a producer between two of its batches.
    """

    def __init__(self, operations: Sequence[Operation], settings: Settings) -> None:
        self.leader = PartitionLeader(
            protocol=settings.protocol, verification=settings.verification,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            max_transaction_timeout_ms=settings.transaction_max_timeout_ms,
        )  # fmt: skip
        features = self.leader.machine.features
        self.asks = settings.verification and "verification" in features
        self.relayed = _relayed() if self.asks else []
        self.decided = _decided()
        self.harmless = _harmless(declared_leader.TABLES)
        epochs: dict[int, set[int]] = {}
        for request, fields, *_ in operations:
            if request == "Produce" and fields.get("transactional"):
                epochs.setdefault(fields["producer_id"], set()).add(fields["producer_epoch"])
        if any(operation.request == "WriteTxnMarkers" for operation in operations):
            epochs = {}
        self.epochs = epochs
        self.marked: frozenset[int] = frozenset()

    def is_decided(self, error: str) -> bool:
        """See Judged."""
        return error in self.decided

    def rank(self, operation: Operation) -> float:
        """See Judged. Offsets rise."""
        return (operation.response or {}).get("base_offset", -1)

    def is_idle(self, operation: Operation) -> bool:
        """See Judged. Where the coordinator is asked first, the leader remembers that; and a batch
        of a producer that has transactions makes room for another marker."""
        response = operation.response
        return (
            response is not None
            and operation.request == "Produce"
            and not operation.fields.get("transactional")
            and operation.fields["producer_id"] not in self.epochs
            and response["error"] in self.harmless
        )

    def may_still(self, response: Mapping[str, Any]) -> bool:
        """See Judged. The log's end doesn't go back, and what lies before it is told again only as
        long as it is remembered."""
        base = response.get("base_offset", -1)
        return (
            base < 0
            or base >= self.leader.log_end_offset
            or any(
                batch.last_offset - batch.offset_delta == base
                for entry in self.leader.producers.values()
                for batch in entry.batches
            )
        )

    def key(self) -> Hashable:
        """See Judged."""
        return self.marked, self.leader.machine.kept(_NEVER_READ, frozen)

    def _copy(self, now: float) -> Leader:
        made = _shallow(self)
        made.leader = leader = _shallow(self.leader)
        leader.machine = leader.machine.copy()
        leader.batches = []  # nothing reads the log again here
        leader.now_ms = int(now)
        return made

    def outcomes(self, operation: Operation, *, at_once: bool = False) -> Iterator[Answered]:
        """See Judged. Whatever a leader answers, it answers at once."""
        fields = operation.fields
        after = self._copy(operation.start)
        leader = after.leader
        if operation.request == "WriteTxnMarkers":
            answer = leader.append_marker(**fields)
            yield Answered(after, {"error": answer.error})
            return
        if fields["producer_id"] < 0:
            base = leader.log_end_offset
            leader.append_plain(fields["count"])
            yield Answered(after, {"error": "NONE", "base_offset": base})
            return
        guard = None
        if self.asks and fields.get("transactional"):
            guard = leader.start_verification(
                producer_id=fields["producer_id"], producer_epoch=fields["producer_epoch"],
                base_sequence=fields["base_sequence"],
            )  # fmt: skip
            refused = None if guard is None else after._copy(operation.start)
        else:
            refused = None
        after.marked -= {fields["producer_id"]}
        answer = leader.append(**fields, guard=guard)
        told = {"error": answer.error, "base_offset": answer.first_offset}
        unchanged = after.marked == self.marked and leader.machine.is_as(self.leader.machine)
        yield Answered(self if unchanged else after, told)
        if refused is not None:
            for error in self.relayed:
                yield Answered(refused, {"error": error, "base_offset": -1})

    def events(self, until: float) -> Iterator[Answered]:
        """See Judged."""
        producers = self.leader.producers
        for producer_id, seen in self.epochs.items():
            entry = producers.get(producer_id)
            # its own, the one after it, and the next that the history has
            lowest = min(seen) if entry is None else entry.producer_epoch
            epochs = {lowest, lowest + 1, *sorted(e for e in seen if e > lowest)[:1]}
            is_open = entry is not None and entry.current_txn_first_offset is not None
            if not is_open and producer_id in self.marked:
                continue
            for epoch in sorted(epochs):
                if epoch > LARGEST_EPOCH:
                    continue
                after = self._copy(until)
                # what it decides makes no difference to what is judged here
                answer = after.leader.append_marker(
                    producer_id=producer_id, producer_epoch=epoch, result="ABORT"
                )
                if answer.error != "NONE":
                    continue
                if not is_open:
                    after.marked |= {producer_id}
                yield Answered(after, None)
        for forget in (_idle, _deleted):
            after = self._copy(until)
            forget(after.leader)
            if after.leader.producers.keys() != producers.keys():
                yield Answered(after, None)


def _idle(leader: PartitionLeader) -> None:
    leader.remove_expired()


def _deleted(leader: PartitionLeader) -> None:
    leader.move_high_watermark(leader.log_end_offset)
    leader.delete_records(leader.log_end_offset)


LARGEST_EPOCH = 2**15 - 1
# what a leader's answers to these requests don't depend on
_NEVER_READ = frozenset(declared_leader.leader.fields) - {
    "producers", "verification_states", "log_end_offset",
}  # fmt: skip
