"""The machines that histories are judged by, each with what happens to it between requests.

What Kafka does is the rows'. Said here is what a history leaves open, and how wide: which answers
come from around the machine, and which of its own steps may have happened at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from ...language.expressions import EnumValue, children_first
from ...language.tables import Table
from ...spec import api_versions
from ...spec.coordinator import entry as transaction
from ...spec.coordinator import ownership, tables
from ...spec.leader.tables import DRIVEN as LEADER_TABLES
from ...spec.leader.verification import verified
from ...spec.messages import Errors
from ..broker.coordinator import TransactionCoordinator
from ..broker.leader import PartitionLeader
from ..broker.transaction_metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..broker.transaction_state_manager import PENDING
from ..engine.machine import Machine, Taken, watched
from ..engine.values import Sparse
from .operations import Operation, Rest, Settings, matches, transaction_version

T = TypeVar("T")
COORDINATOR_REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
LEADER_REQUESTS = ("Produce", "WriteTxnMarkers")


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
    return frozenset(found | {*ownership.PASSED_ON.values()})


class _WithoutMarkers(TransactionCoordinator):
    """One whose markers are written as a step of its own."""

    def send_markers(self, transactional_id: str, coordinator_epoch: int) -> frozenset[Any]:
        return frozenset()


class Coordinator:
    """The coordinator of one transactional id, in the state of its entry.

    By itself it appends to the log at once or later, or the log refuses; it writes markers, aborts
    what has timed out, forgets ids, fails over, and (version 2) has partitions added by leaders.
    """

    def __init__(self, settings: Settings) -> None:
        self.coordinator = _WithoutMarkers(
            protocol=settings.protocol, transaction_version=settings.transaction_version,
            transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
            transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
        )  # fmt: skip
        self.coordinator.elect(self.coordinator.state_partition_of(NAME), 0)
        self.around = _from_around(settings.protocol)
        self.harmless = _harmless(tables.DRIVEN)

    @property
    def entry(self) -> Machine | None:
        """The entry of the id, if it is known."""
        return self.coordinator.entries.get(NAME)

    def key(self) -> Hashable:
        """What it is told by from all states in which it does something else."""
        entry = self.entry
        return None if entry is None else entry.kept(UNSEEN, without_keys)

    def is_decided(self, error: str) -> bool:
        """See Judged."""
        return error not in self.around and error in _CODES

    def at(self, entry: Machine | None, now: float, new_id: int = 0) -> Coordinator:
        """It with this entry, at a time, with a producer id to give."""
        made = _shallow(self)
        made.coordinator = inner = _shallow(self.coordinator)
        inner.now_ms = int(now)
        inner.producer_ids = lambda: new_id
        inner.entries = {}
        if entry is not None:
            inner.entries[NAME] = mine = entry.copy()
            mine.outside(clock__now=inner.now_ms)
        return made

    def outcomes(
        self, operation: Operation, ids: Iterable[int]
    ) -> Iterator[tuple[Coordinator, Mapping[str, Any] | None]]:
        """What the operation can do and is answered (None: not yet), with each of these producer
        ids that it may be given, if it needs one."""
        asks_log = False
        for after, answer in self._ask(operation, ids, "NONE"):
            asks_log |= after.coordinator.appends > self.coordinator.appends
            yield after, answer
        if asks_log:
            for after, answer in self._ask(operation, ids, PENDING):
                if answer is None:
                    yield after, None

    def _ask(
        self, operation: Operation, ids: Iterable[int], append: str
    ) -> Iterator[tuple[Coordinator, Mapping[str, Any] | None]]:
        for new_id in ids:
            needed: list[int] = []

            def give(new_id: int = new_id, needed: list[int] = needed) -> int:
                needed.append(new_id)
                return new_id

            made = self.at(self.entry, operation.start)
            made.coordinator.producer_ids = give
            answer = _REQUESTS[operation.request](made.coordinator, operation.fields, append)
            yield made, answer
            if not needed:
                return

    def take(
        self, step: Step, until: float, new_id: int = 0
    ) -> tuple[Coordinator, Mapping[str, Any] | None] | None:
        """What it becomes with a step of its own by this time, and the answer to the operation that
        waits for one; None where it can't take the step, or nothing comes of it."""
        after = self.at(self.entry, until, new_id)
        if after.entry is None or not step.can(after.coordinator):
            return None
        sent = step.happen(after.coordinator)
        answer = next((_given(m) for m in sent if hasattr(m, "producer")), None)
        return None if answer is None and after.key() == self.key() else (after, answer)


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
            api_version=fields.get("api_version"),
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
            api_version=fields.get("api_version"),
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
            api_version=fields.get("api_version"),
            append=append,
        )
    )


_REQUESTS: dict[str, Callable[[TransactionCoordinator, Mapping[str, Any], str], Any]] = {
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "EndTxn": _end,
}


def without_keys(value: Sparse) -> Hashable:
    """What is left of a map by requests, whose numbers say nothing."""
    return tuple(sorted(map(repr, value.values()))) if value else ()


UNSEEN = frozenset({"coordinator_epoch"})  # only markers have it
_CODES = said(ownership.COORDINATOR_TABLES) | {*ownership.PASSED_ON} | {*Errors.bounded_names()}


Sent = Iterable[Any]


class Step(NamedTuple):
    """Something that a coordinator does by itself: whether it can, what it then does, and whether
    only if enough time has passed."""

    can: Callable[[TransactionCoordinator], bool]
    happen: Callable[[TransactionCoordinator], Sent]
    is_timed: bool = False


_COMPLETE = ("COMPLETE_COMMIT", "COMPLETE_ABORT")


def _written(coordinator: TransactionCoordinator) -> Sent:
    entry = coordinator.entries[NAME]
    for part in entry["partitions"]:
        entry.handle(
            "WriteTxnMarkersResponse", partition=part, error="NONE",
            connection=entry.at("marker_connection", part),
        )  # fmt: skip
    return entry.handle("log append").sent


def _acknowledged(coordinator: TransactionCoordinator) -> Sent:
    return coordinator.acknowledge(NAME)


def _added_by_leader(coordinator: TransactionCoordinator) -> Sent:
    entry = coordinator.entries[NAME]
    coordinator.add_partitions(
        NAME, entry["producer_id"], entry["producer_epoch"], (BY_LEADER,),
        api_version=api_versions.OF_BROKERS,
    )  # fmt: skip
    return ()


def _timed_out(coordinator: TransactionCoordinator, append: str = "NONE") -> Sent:
    coordinator.abort_timed_out(append=append)
    return ()


def _expired(coordinator: TransactionCoordinator) -> Sent:
    coordinator.expire()
    return ()


def _declared(event: str, **fields: Any) -> Step:
    """An event of the entry, and the completion that follows where an end is decided by it."""

    def can(coordinator: TransactionCoordinator) -> bool:
        return coordinator.entries[NAME].may(event, **fields) is not None

    def happen(coordinator: TransactionCoordinator) -> Sent:
        entry = coordinator.entries[NAME]
        sent = entry.handle(event, **fields).sent
        if entry["pending"] is None and entry.value(transaction.is_prepared):
            return (*sent, *entry.handle("begin completion").sent)
        return sent

    return Step(can, happen)


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


_MAY_KEEP: tuple[tuple[str, dict[str, str]], ...] = (
    ("append failure", {"error": "COORDINATOR_NOT_AVAILABLE"}),
    ("coordinator failover", {}),
)
STEPS = (
    Step(_is_completing, _written),
    Step(_is_appending, _acknowledged),
    Step(_may_add, _added_by_leader),
    *(
        _declared(event, record_kept=kept, **failure)
        for event, failure in _MAY_KEEP
        for kept in (False, True)
    ),
    _declared("coordinator failover after a failed append"),
    Step(_is_late, _timed_out, is_timed=True),
    Step(_is_late, partial(_timed_out, append=PENDING), is_timed=True),
    Step(_is_unused, _expired, is_timed=True),
)
"""What a coordinator does by itself, what is likely first."""

# A leader ---------------------------------------------------------------------------------------


@cache
def _decided() -> frozenset[str]:
    """What a leader answers by its own rows."""
    return said(LEADER_TABLES)


@cache
def _relayed() -> list[str]:
    """What a leader answers that asked the coordinator about a batch and was refused."""
    refusals = said(tables.TABLES, "AddPartitionsByLeader") - {"NONE"}
    rows = (
        row
        for row in verified.rows
        if any(n.op == "parameter" and n.data.name == "error" for n in children_first(row.guard))
    )
    return sorted(refusals | said([replace(verified, rows=tuple(rows))]))


PER_STEP = 16
"""So many producers or partitions that a machine knows take as long as the rest of a step."""


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
        self.harmless = _harmless(self.leader.machine.tables)
        epochs: dict[int, set[int]] = {}
        for request, fields, *_ in operations:
            if request == "Produce" and fields.get("transactional") and fields["producer_id"] >= 0:
                epochs.setdefault(fields["producer_id"], set()).add(fields["producer_epoch"])
        produced = (fields for request, fields, *_ in operations if request == "Produce")
        self.versions = list(dict.fromkeys(map(transaction_version, produced)))  # of markers
        if any(operation.request == "WriteTxnMarkers" for operation in operations):
            epochs = {}
        self.epochs = epochs
        self.marked: frozenset[int] = frozenset()
        self._known: dict[int, Any] | None = None

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

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """See Judged. The log's end doesn't go back, and what lies before it is told again only as
        long as it is remembered."""
        end = self.leader.log_end_offset
        return all(_told(o) >= end or self._may_be_at(o) for o in operations)

    def _may_be_at(self, operation: Operation) -> bool:
        """Whether a batch may be acknowledged where it was, now: what is appended lies at the end,
        and what is repeated lies where it is remembered."""
        offset, end = _told(operation), self.leader.log_end_offset
        if offset in (-1, end) or operation.fields["producer_id"] < 0:
            return offset in (-1, end)
        entry = self.producers.get(operation.fields["producer_id"])
        return entry is not None and any(
            batch.last_offset - batch.offset_delta == offset for batch in entry.batch_metadata
        )

    @property
    def size(self) -> int:
        """See Judged."""
        return 1 + len(self.producers) // PER_STEP

    @property
    def producers(self) -> dict[int, Any]:
        """Those of the leader, which take a while to show."""
        if self._known is None:
            self._known = self.leader.producers
        return self._known

    def read(self, operation: Operation) -> Operation:
        """See Judged. Of a Produce's version a log sees the transaction version."""
        fields = dict(operation.fields)
        version = transaction_version(fields)
        if version is None:
            return operation
        del fields["api_version"]
        return operation._replace(fields=fields | {"transaction_version": version})

    def key(self) -> Hashable:
        """See Judged."""
        return self.marked, self.leader.machine.kept(_NEVER_READ, frozen)

    def _copy(self, now: float) -> Leader:
        made = _shallow(self)
        made._known = None
        made.leader = leader = _shallow(self.leader)
        leader.producer_state_manager, leader.index = (
            leader.producer_state_manager.copy(),
            leader.index.copy(),
        )
        leader.batches = []  # nothing reads the log again here
        leader.now_ms = int(now)
        return made

    def outcomes(self, operation: Operation) -> Iterator[tuple[Leader, bool]]:
        """See Judged. Whatever a leader answers, it answers at once."""
        if not self._may_be_at(operation):
            return
        for after, answer in self._all(operation):
            if matches(operation.response, answer):
                yield after, True

    def answers(self, operation: Operation) -> Iterator[Mapping[str, Any]]:
        """See Judged."""
        return (answer for _, answer in self._all(operation))

    def rows(self, operation: Operation | None, answer: Mapping[str, Any]) -> Sequence[Taken]:
        """See Judged."""
        with watched() as taken:
            for _, given in self._all(operation) if operation is not None else ():
                if given == answer:
                    break
                taken.clear()
        return taken

    def _all(self, operation: Operation) -> Iterator[tuple[Leader, Mapping[str, Any]]]:
        fields = operation.fields
        after = self._copy(operation.start)
        leader = after.leader
        if operation.request == "WriteTxnMarkers":
            answer = leader.append_marker(**fields)
            yield after, {"error": answer.error}
            return
        if fields["producer_id"] < 0:
            base = leader.log_end_offset
            leader.append_plain(fields["count"])
            yield after, {"error": "NONE", "base_offset": base}
            return
        guard = refused = None
        if self.asks and fields.get("transactional"):
            error, guard = leader.maybe_start_transaction_verification(
                producer_id=fields["producer_id"], producer_epoch=fields["producer_epoch"],
                base_sequence=fields["base_sequence"],
                transaction_version=fields.get("transaction_version"),
            )  # fmt: skip
            if error != "NONE":
                yield self, {"error": error, "base_offset": -1}
                return
            refused = None if guard is None else after._copy(operation.start)
        after.marked -= {fields["producer_id"]}
        answer = leader.append(**fields, guard=guard)
        told = {"error": answer.error, "base_offset": answer.first_offset}
        unchanged = after.marked == self.marked and leader.machine.is_as(self.leader.machine)
        yield (self if unchanged else after), told
        if refused is not None:
            for error in self.relayed:
                yield refused, {"error": error, "base_offset": -1}

    def events(
        self, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Leader, None] | None]:
        """See Judged. A marker of a producer that has nothing more to come takes an offset, and
        that is all: it is as good as another one's, and comes only where an offset is too many."""
        producers, here = self.producers, self.key()
        is_filled = rest is not None and rest.highest_offset <= self.leader.log_end_offset
        for producer_id, seen in self.epochs.items():
            fills = rest is not None and not rest.has(producer_id)
            if fills and is_filled:
                continue
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
                if (after := self._marked(until, producer_id, epoch)) is None:
                    yield None
                    continue
                if not is_open:
                    after.marked |= {producer_id}
                yield after, None
                if fills:
                    is_filled = True
                    break
        for forget in (PartitionLeader.remove_expired_producers, _deleted):
            after = self._copy(until)
            forget(after.leader)
            yield None if after.key() == here else (after, None)

    def _marked(self, until: float, producer_id: int, epoch: int) -> Leader | None:
        """The leader with a marker of the first version that it takes, whatever that decides."""
        for version in self.versions:
            after = self._copy(until)
            given: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
            answer = after.leader.append_marker(
                **given, result="ABORT", transaction_version=version
            )
            if answer.error == "NONE":
                return after
        return None


def _told(operation: Operation) -> int:
    """The offset that an operation was answered with, -1 without one."""
    return (operation.response or {}).get("base_offset", -1)


def _deleted(leader: PartitionLeader) -> None:
    leader.move_high_watermark(leader.log_end_offset)
    leader.delete_records(leader.log_end_offset)


LARGEST_EPOCH = 2**15 - 1
# what a leader's answers to these requests don't depend on
_NEVER_READ = frozenset({
    "log_start_offset", "high_watermark", "first_unstable_offset", "guards", "verification_enabled",
})  # fmt: skip
