"""The coordinator that judges histories of a transactional id, with its own steps between requests.

The rows have Kafka's behaviour. This module has the choices that a history leaves open: the answers
from the machine's surroundings, and the machine's own steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from ....language.expressions import EnumValue, children_first
from ....language.tables import Table
from ....spec.coordinator import entry as transaction
from ....spec.coordinator import tables
from ....spec.coordinator.state_manager import ownership
from ....spec.releases import api_versions
from ....spec.releases.features import KAFKA
from ....spec.systems.reductions.coordinator import ENTRY_ALONE
from ...broker.transactions.coordinator import TransactionCoordinator
from ...broker.transactions.transaction_metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ...broker.transactions.transaction_state_manager import PENDING
from ...engine.machine import Machine
from ...engine.values import Sparse
from ..operations import Operation, Settings
from .unjudged_answers import from_around

T = TypeVar("T")


def frozen(value: Sparse) -> Hashable:
    """A map as a hashable value."""
    return frozenset([(key, part) for key, part in value.items() if part != value.default])


def said(
    tables: Iterable[Table], event: str | None = None, *, with_updates: bool = False
) -> frozenset[str]:
    """The errors in the answers of rows (of one event; only of rows with updates)."""
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


def versions_of(request: str, features: Collection[str]) -> tuple[int | None, ...]:
    """The possible versions of a request's API with these features; None: not recorded."""
    newest = api_versions.newest(request, features) if request in api_versions.COUNTS else -1
    return None, *range(newest + 1)


@cache
def answers_of(
    tables: tuple[Table, ...], protocol: str, request: str, event: str | None = None
) -> frozenset[str]:
    """The errors with which a release's rows answer any version of a request (in one event)."""
    machine = Machine(tables, KAFKA, protocol=protocol, reductions=ENTRY_ALONE)
    on = request if event is None else event
    rows = {
        row
        for version in versions_of(request, machine.features)
        for row in machine.rows_of(on, switch_off=api_versions.without(request, version))
    }
    if not rows:  # no broker of the release takes this request
        return frozenset()
    return said(replace(table, rows=tuple(rows)) for table in machine.tables if table.on.name == on)


@cache
def harmless(tables: tuple[Table, ...]) -> frozenset[str]:
    """The errors that only rows without updates answer with."""
    return said(tables) - said(tables, with_updates=True)


def shallow(one: T) -> T:
    """A shallow copy; copy.copy takes three times as long."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


NAME = "judged"
BY_LEADER = "(added by a leader)"
LARGEST_EPOCH = 2**15 - 1
PER_STEP = 16
"""The number of producers or partitions in a machine's state that cost as much as one step."""


class _WithoutMarkers(TransactionCoordinator):
    """A coordinator whose markers are written in a separate step."""

    def send_markers(self, transactional_id: str, coordinator_epoch: int) -> frozenset[Any]:
        return frozenset()


class Coordinator:
    """The coordinator of one transactional id, in the state of its entry.

    Its own steps: an append succeeds now or later, or the log refuses it; markers are written;
    timed-out transactions are aborted; ids expire; the coordinator fails over; in version 2,
    leaders add partitions.
    """

    def __init__(self, settings: Settings) -> None:
        self.coordinator = _WithoutMarkers(
            protocol=settings.protocol,
            transaction_version=settings.transaction_version,
            transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
            transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
        )
        self.coordinator.elect(self.coordinator.state_partition_of(NAME), 0)
        self.protocol = settings.protocol
        self.harmless = harmless(tables.DRIVEN)

    @property
    def entry(self) -> Machine | None:
        """The entry of the id, if it is known."""
        return self.coordinator.entries.get(NAME)

    def key(self) -> Hashable:
        """A key. States with the same key behave alike."""
        entry = self.entry
        return None if entry is None else entry.kept(UNSEEN, without_keys)

    def is_decided(self, request: str, error: str) -> bool:
        """See Judged."""
        return error not in from_around(request, self.protocol)

    def errors(self, request: str) -> frozenset[str]:
        """See Judged."""
        found = (
            answers_of(tables.DRIVEN, self.protocol, request, on)
            for on in (_EVENTS.get(request, request), "log append")
        )
        looked_up = answers_of((ownership.looked_up,), self.protocol, request, "look up")
        return from_around(request, self.protocol).union(looked_up - _TO_OTHERS, *found)

    def at(self, entry: Machine | None, now: float, new_id: int = 0) -> Coordinator:
        """The coordinator with this entry, at this time. `new_id` is its next producer id."""
        made = shallow(self)
        made.coordinator = inner = shallow(self.coordinator)
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
        """The operation's possible effects and answers (None: not yet). If it needs a producer id,
        each of `ids` is tried."""
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
        """The state after an own step by this time, and the answer to the waiting operation, if
        any. None if the step isn't possible, or changes nothing."""
        after = self.at(self.entry, until, new_id)
        if after.entry is None or not step.can(after.coordinator):
            return None
        sent = step.happen(after.coordinator)
        answer = next((_given(m) for m in sent if hasattr(m, "producer")), None)
        return None if answer is None and after.key() == self.key() else (after, answer)


def _given(answer: Any) -> Mapping[str, Any] | None:
    """The answer in a history's form, from a method's result or a sent message."""
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


def _add_offsets(
    coordinator: TransactionCoordinator, fields: Mapping[str, Any], append: str
) -> Any:
    """AddOffsetsToTxn: a client's request that adds the partition of the group's offsets."""
    api_version = fields.get("api_version")
    version = None if api_version is None else min(api_version, api_versions.OF_BROKERS - 1)
    return _add(coordinator, {**fields, "api_version": version}, append)


_REQUESTS: dict[str, Callable[[TransactionCoordinator, Mapping[str, Any], str], Any]] = {
    "AddOffsetsToTxn": _add_offsets,
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "EndTxn": _end,
}


def without_keys(value: Sparse) -> Hashable:
    """The values of a map whose keys are numbers of requests, without the keys."""
    return tuple(sorted(map(repr, value.values()))) if value else ()


_EVENTS = {"AddOffsetsToTxn": "AddPartitionsToTxn"}
UNSEEN = frozenset({"coordinator_epoch"})  # only markers have this field
_TO_OTHERS = frozenset({"TRANSACTIONAL_ID_NOT_FOUND", "UNSUPPORTED_VERSION"})
"""Answers to requests that histories don't have."""


Sent = Iterable[Any]


class Step(NamedTuple):
    """An own step of the coordinator: its condition, its effect, whether it depends on the time,
    and whether a client must know the epoch."""

    can: Callable[[TransactionCoordinator], bool]
    happen: Callable[[TransactionCoordinator], Sent]
    is_timed: bool = False
    by_client: bool = False


_COMPLETE = ("COMPLETE_COMMIT", "COMPLETE_ABORT")


def _written(coordinator: TransactionCoordinator) -> Sent:
    entry = coordinator.entries[NAME]
    for part in entry["partitions"]:
        entry.handle(
            "WriteTxnMarkersResponse",
            partition=part,
            error="NONE",
            connection=entry.at("marker_connection", part),
        )
    return entry.handle("log append").sent


def _acknowledged(coordinator: TransactionCoordinator) -> Sent:
    return coordinator.acknowledge(NAME)


def _added_by_leader(coordinator: TransactionCoordinator) -> Sent:
    """A leader adds a partition, at the earliest possible time: then the transaction can time out
    earliest."""
    entry = coordinator.entries[NAME]
    now_ms, coordinator.now_ms = coordinator.now_ms, entry["txn_last_update_timestamp"]
    entry.outside(clock__now=coordinator.now_ms)
    coordinator.add_partitions(
        NAME,
        entry["producer_id"],
        entry["producer_epoch"],
        (BY_LEADER,),
        api_version=api_versions.OF_BROKERS,
    )
    coordinator.now_ms = now_ms
    entry.outside(clock__now=now_ms)
    return ()


def _timed_out(coordinator: TransactionCoordinator, append: str = "NONE") -> Sent:
    coordinator.abort_timed_out(append=append)
    return ()


def _expired(coordinator: TransactionCoordinator) -> Sent:
    coordinator.expire()
    return ()


def _declared(event: str, **fields: Any) -> Step:
    """An event of the entry. If it decides an end, the completion follows."""

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
    Step(_may_add, _added_by_leader, by_client=True),
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
"""The coordinator's own steps, likely ones first."""
