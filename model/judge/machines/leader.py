"""The leader that judges histories of a partition, with its own steps between requests.

The rows have Kafka's behaviour. This module has the choices that a history leaves open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self

from ....spec.coordinator import tables
from ....spec.leader.state import asks_coordinator_now
from ....spec.leader.tables import DRIVEN as LEADER_TABLES
from ...broker.leader import PartitionLeader
from ...engine.machine import Taken, watched
from ..operations import Operation, Rest, Settings, matches, transaction_version
from .coordinator import LARGEST_EPOCH, PER_STEP, answers_of, frozen, harmless, shallow, versions_of
from .decisions import RESULTS, AtPartition
from .unjudged_answers import from_around

LEADER_REQUESTS = ("Produce", "WriteTxnMarkers")


@cache
def _relayed(protocol: str) -> list[str]:
    """The leader's answers to batches that the coordinator has refused."""
    leader = PartitionLeader(protocol=protocol)
    refusals = answers_of(tables.DRIVEN, protocol, "Produce", "AddPartitionsByLeader") - {"NONE"}
    versions = versions_of("Produce", leader.machine.features)
    found = {leader.verdict(error, api_version=v) for error in refusals for v in versions}
    return sorted(found - from_around("Produce", protocol))


class Leader:
    """The leader of one partition.

    Its own steps: it forgets producers that are idle for long, or whose batches were deleted. If
    the history has no markers, they come at any time: for an open transaction with the producer's
    epoch or a later one, and otherwise one between two batches of a producer. With `about` only
    markers come that the run's transactional ids may have decided, with additional ones for
    transactions that have the partition and write nothing to it.

    No operation starts or ends after `latest`. A producer that writes in the last
    `producer.id.expiration.ms` before it never expires, so all times in that period are equal.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        settings: Settings,
        about: AtPartition | None = None,
        latest: float = float("inf"),
    ) -> None:
        self.about = about
        self.never_expires_from = max(0, latest - settings.producer_id_expiration_ms + 1)
        self.leader = PartitionLeader(
            protocol=settings.protocol,
            verification=settings.verification,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            max_transaction_timeout_ms=settings.transaction_max_timeout_ms,
        )
        features = self.leader.machine.features
        self.verifies = settings.verification
        self.asks = bool(self.leader.machine.value(asks_coordinator_now))
        self.adds = "transaction_version_2" in features
        self.relayed = _relayed(settings.protocol) if self.asks else []
        self.harmless = harmless(self.leader.machine.tables)
        epochs: dict[int, set[int]] = {}
        for request, fields, *_ in operations:
            if request == "Produce" and fields.get("transactional") and fields["producer_id"] >= 0:
                epochs.setdefault(fields["producer_id"], set()).add(fields["producer_epoch"])
        for held in () if about is None else about.added():
            epochs.setdefault(held[0], set()).add(held[1])
        produced = (fields for request, fields, *_ in operations if request == "Produce")
        self.versions = list(dict.fromkeys(map(transaction_version, produced)))  # of markers
        if any(operation.request == "WriteTxnMarkers" for operation in operations):
            epochs = {}
        self.epochs = epochs
        idle = Counter[int]() if about is None else about.idle(operations)
        self.most_marked = {producer_id: 1 + idle[producer_id] for producer_id in epochs}
        self.marked: Mapping[int, int] = {}  # markers since a producer's last batch
        self._known: dict[int, Any] | None = None

    def is_decided(self, request: str, error: str) -> bool:
        """See Judged."""
        return error not in from_around(request, self.leader.machine.protocol)

    def errors(self, request: str) -> frozenset[str]:
        """See Judged."""
        protocol = self.leader.machine.protocol
        found = from_around(request, protocol) | answers_of(LEADER_TABLES, protocol, request)
        return found.union(self.relayed if request == "Produce" else ())

    def rank(self, operation: Operation) -> float:
        """See Judged. Offsets rise."""
        return (operation.response or {}).get("base_offset", -1)

    def is_idle(self, operation: Operation) -> bool:
        """See Judged. A transactional batch isn't idle: the leader remembers its verification.
        Nor is another batch of a producer that has transactions: one more marker may follow it."""
        response = operation.response
        return (
            response is not None
            and operation.request == "Produce"
            and not operation.fields.get("transactional")
            and operation.fields["producer_id"] not in self.epochs
            and response["error"] in self.harmless
        )

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """See Judged. The log's end never decreases, and an earlier offset is only answered while
        its batch is remembered."""
        end = self.leader.log_end_offset
        return all(_base_offset(o) >= end or self._may_be_at(o) for o in operations)

    def _may_be_at(self, operation: Operation) -> bool:
        """Whether a batch may be acknowledged now at its recorded offset: a new batch at the log's
        end, a duplicate at its remembered offset."""
        offset, end = _base_offset(operation), self.leader.log_end_offset
        if offset in (-1, end) or operation.fields["producer_id"] < 0:
            return offset in (-1, end)
        entry = self.producers.get(operation.fields["producer_id"])
        return entry is not None and any(
            batch.last_offset - batch.offset_delta == offset for batch in entry.batch_metadata
        )

    @property
    def size(self) -> int:
        """See Judged."""
        return 1 + len(self.leader.producer_state_manager.producer_ids) // PER_STEP

    @property
    def producers(self) -> dict[int, Any]:
        """The leader's producers; cached, because they are slow to compute."""
        if self._known is None:
            self._known = self.leader.producers
        return self._known

    def read(self, operation: Operation) -> Operation:
        """See Judged. Replaces a Produce's API version by its transaction version."""
        fields = dict(operation.fields)
        version = transaction_version(fields)
        if version is None:
            return operation
        del fields["api_version"]
        return operation._replace(fields=fields | {"transaction_version": version})

    def key(self) -> Hashable:
        """See Judged."""
        return frozenset(self.marked.items()), self.leader.machine.kept(_NEVER_READ, frozen)

    def _copy(self, now: float) -> Self:
        made = shallow(self)
        made._known = None
        made.leader = leader = shallow(self.leader)
        leader.producer_state_manager, leader.index = (
            leader.producer_state_manager.copy(),
            leader.index.copy(),
        )
        leader.batches = []  # the log is never read again here
        leader.now_ms = int(min(now, self.never_expires_from))
        return made

    def outcomes(self, operation: Operation) -> Iterator[tuple[Leader, bool]]:
        """See Judged. A leader always answers at once."""
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
            until = float("inf") if operation.end is None else operation.end
            held = fields["producer_id"], fields["producer_epoch"]
            if not self._may_mark(*held, until, (fields["result"],)):
                return
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
                producer_id=fields["producer_id"],
                producer_epoch=fields["producer_epoch"],
                base_sequence=fields["base_sequence"],
                transaction_version=fields.get("transaction_version"),
            )
            if error != "NONE":
                yield self, {"error": error, "base_offset": -1}
                return
            refused = None if guard is None else after._copy(operation.start)
        after.marked = {at: n for at, n in self.marked.items() if at != fields["producer_id"]}
        if refused is None or self._may_be_added(operation):
            answer = leader.append(**fields, guard=guard)
            response = {"error": answer.error, "base_offset": answer.first_offset}
            unchanged = after.marked == self.marked and leader.machine.is_as(self.leader.machine)
            yield (self if unchanged else after), response
            again = None
            if answer.is_duplicate and operation.response is not None:
                again = self._started_again(fields["producer_id"], answer.first_offset)
            if again is not None:
                again.marked, again.leader.now_ms = after.marked, leader.now_ms
                answer = again.leader.append(**fields, guard=guard)
                yield again, {"error": answer.error, "base_offset": answer.first_offset}
            if answer.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and operation.response is not None:
                forgetful = self._unasked(fields["producer_id"])
                if forgetful is not None:
                    yield from forgetful._all(operation)
        if refused is not None:
            for error in self.relayed:
                yield refused, {"error": error, "base_offset": -1}

    def _may_mark(
        self, producer_id: int, epoch: int, until: float, results: Iterable[str] = RESULTS
    ) -> bool:
        """Whether such a marker may have been decided by this time."""
        return self.about is None or self.about.may_mark(producer_id, epoch, until, results)

    def open(self) -> Iterator[str]:
        """See Judged."""
        for producer_id, entry in self.producers.items():
            if entry.current_txn_first_offset is not None:
                first = entry.current_txn_first_offset
                yield f"producer {producer_id}'s transaction from offset {first} is open"

    def against(self, operation: Operation) -> str:
        """See Judged."""
        if self.about is None:
            return ""
        if operation.request == "WriteTxnMarkers":
            return self.about.against_marker(operation)
        is_asked = self.asks and self.verifies and bool(operation.fields.get("transactional"))
        if not is_asked or self._may_be_added(self.read(operation)):
            return ""
        return self.about.against_batch(operation)

    def _may_be_added(self, operation: Operation) -> bool:
        """Whether the coordinator may confirm that the partition is in the transaction. In version
        2 the leader's request adds it."""
        fields, version = operation.fields, operation.fields.get("transaction_version")
        if self.about is None or (self.adds if version is None else version >= 2):
            return True
        held = fields["producer_id"], fields["producer_epoch"]
        return self.about.may_be_added(*held, operation.start, operation.end)

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Leader, None] | None]:
        """See Judged. A marker of a producer without further operations only takes an offset. One
        producer's marker is enough for that, and only if a later answer has a higher offset."""
        producers, here = self.producers, self.key()
        is_filled = rest is not None and rest.highest_offset <= self.leader.log_end_offset
        for producer_id, seen in self.epochs.items():
            fills = rest is not None and not rest.has(producer_id)
            if fills and is_filled:
                continue
            entry = producers.get(producer_id)
            lowest = min(seen) if entry is None else entry.producer_epoch
            epochs = self._epochs_from(lowest, seen)
            is_open = entry is not None and entry.current_txn_first_offset is not None
            marked = self.marked.get(producer_id, 0)
            if not is_open and marked >= self.most_marked[producer_id]:
                continue
            for epoch in sorted(epochs):
                if epoch > LARGEST_EPOCH or not self._may_mark(producer_id, epoch, until):
                    continue
                if (after := self._marked(since, producer_id, epoch)) is None:
                    yield None
                    continue
                if not is_open:
                    after.marked = {**self.marked, producer_id: marked + 1}
                yield after, None
                if fills:
                    is_filled = True
                    break
        after = self._copy(until)
        _deleted(after.leader)
        yield None if after.key() == here else (after, None)
        yield self._expired(since, until)

    def _epochs_from(self, lowest: int, seen: Collection[int]) -> set[int]:
        """The epochs that a producer's next marker may have: its own, the next number, and the next
        epoch in the history. With `about` more epochs are tried."""
        nexts = sorted(epoch for epoch in seen if epoch > lowest)
        if self.about is None:
            return {lowest, lowest + 1, *nexts[:1]}
        near = (lowest, *nexts[:2])
        return {*near, *(epoch + 1 for epoch in near)}

    def _started_again(self, producer_id: int, offset: int) -> Leader | None:
        """The leader if it restarted after the producer's batch that follows this offset. It no
        longer remembers the batch at this offset, as a snapshot has only each producer's last
        batch, but it remembers the batches since the restart."""
        known = self.producers
        batches = known[producer_id].batch_metadata
        behind = [b for b in batches if b.last_offset - b.offset_delta > offset]
        if not behind:
            return None
        start = behind[0].last_offset
        after = self._copy(self.leader.now_ms)
        producers: dict[int, Any] = {}
        for key, entry in known.items():
            later = sum(batch.last_offset > start for batch in entry.batch_metadata)
            kept = entry.batch_metadata[-1 - later :]
            producers[key] = entry._replace(batch_metadata=kept)
        after.leader.machine.put(producers=producers)
        return after

    def _unasked(self, producer_id: int) -> Leader | None:
        """The leader if it restarted after it asked about the producer's transaction: it has
        forgotten the lowest sequence of that question."""
        machine = self.leader.machine
        questions = {
            key: machine.at("verification_states", key)
            for key in machine.keys("verification_states")
        }
        if questions.pop(producer_id, None) is None:
            return None
        after = self._copy(self.leader.now_ms)
        after.leader.machine.put(verification_states=questions)
        return after

    def _expired(self, since: float, until: float) -> tuple[Leader, None] | None:
        """The leader after the next producers have expired, if that happens by `until`."""

        def at(now: int) -> Leader:
            after = self._copy(now)
            after.leader.now_ms = now
            after.leader.remove_expired_producers()
            return after

        times, here = range(int(min(since, until)), int(until) + 1), self.key()
        if at(times[-1]).key() == here:
            return None
        return at(times[bisect_left(times, True, key=lambda now: at(now).key() != here)]), None

    def _marked(self, now: float, producer_id: int, epoch: int) -> Leader | None:
        """The leader with a marker of the first version that it accepts. The result makes no
        difference."""
        for version in self.versions:
            after = self._copy(now)
            given: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
            answer = after.leader.append_marker(
                **given, result="ABORT", transaction_version=version
            )
            if answer.error == "NONE":
                return after
        return None


def _base_offset(operation: Operation) -> int:
    """The offset in an operation's answer; -1 without one."""
    return (operation.response or {}).get("base_offset", -1)


def _deleted(leader: PartitionLeader) -> None:
    leader.move_high_watermark(leader.log_end_offset)
    leader.delete_records(leader.log_end_offset)


# fields on which a leader's answers to these requests don't depend
_NEVER_READ = frozenset({
    "log_start_offset", "high_watermark", "first_unstable_offset", "guards", "verification_enabled",
})  # fmt: skip
