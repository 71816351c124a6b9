"""Machines in an unknown state: a recording that begins in the middle of a log.

Each part is unknown until an answer shows it. A batch that is acknowledged at an offset shows the
partition's log end and its producer. An InitProducerId or AddPartitionsToTxn that is answered with
NONE shows the entry of its transactional id. Until then any error of the broker's release is
allowed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..broker.leader import Batch
from ..broker.transactions.transaction_metadata import NEW_ENTRY
from ..engine.machine import Taken
from .machines.canonical import LATER, SHORTEST_MS, Coordinator, machine_for
from .machines.coordinator import NAME
from .machines.group import Offset
from .machines.leader import Leader
from .machines.unjudged_answers import GROUP_REQUESTS
from .operations import Judged, Operation, Rest, Settings

LARGEST_SEQUENCE = 2**31 - 1
MOST = 5
"""The number of a producer's batches that a leader remembers
(ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


class Shown:
    """Finds the operations that show an unknown state. It takes operations in the order of their
    starts."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def is_judged(self, operation: Operation) -> bool:
        """Whether the operation has an answer, and it or an earlier operation shows the state."""
        response, fields = operation.response, operation.fields
        if operation.end is None or response is None or operation.request in GROUP_REQUESTS:
            return False
        of = fields.get("producer_id", -1) if "base_sequence" in fields else -1
        if operation.request == "WriteTxnMarkers":
            of = fields["producer_id"]
        elif response["error"] == "NONE" and (
            operation.request.startswith(("Init", "Add")) or "base_offset" in response
        ):
            self._known.add(of)
        return of in self._known


class UnknownCoordinator(Coordinator):
    """The coordinator of a transactional id whose entry isn't known."""

    __slots__ = ()

    def key(self) -> Hashable:
        """See Judged."""
        return "unknown"

    def is_idle(self, operation: Operation) -> bool:
        """See Judged."""
        return False

    def outcomes(self, request: Any) -> Iterable[tuple[Coordinator, bool]]:
        """See Judged. Operations without an answer have no effect."""
        error = request.response.get("error")
        if error is None:
            return ()
        if error != "NONE":
            return ((self, True),) if error in self.errors(request.name) else ()
        _, request_epoch, response_epoch = request.exactly
        if request.name == "AddPartitionsToTxn":
            return self._with(request.fields["producer_id"], request_epoch or 0, request).outcomes(
                request
            )
        if request.name != "InitProducerId" or response_epoch is None:
            return ((self, True),)
        number = request.response.get("producer_id")
        if number is None:
            return ((self, True),)
        if response_epoch == 0:
            return Coordinator(
                self.names, self.memory, self.memory.unknown, 0, self.times
            ).outcomes(request)
        return self._with(number, response_epoch - 1, request).outcomes(request)

    def _with(self, number: int, epoch: int, request: Any) -> Coordinator:
        """The coordinator with an entry of this producer id and epoch, without a transaction."""
        exact = self.memory.exact.at(None, LATER)
        entry = NEW_ENTRY._replace(
            transactional_id=NAME,
            producer_id=number,
            producer_epoch=epoch,
            txn_timeout_ms=SHORTEST_MS,
            txn_last_update_timestamp=LATER,
        )
        exact.coordinator.put(entry)
        change = self.memory.change(self.form, exact.entry, None)
        assert change is not None
        fresh = Coordinator(self.names, self.memory, self.memory.unknown, 0, self.times)
        made = fresh._after(change, request.start)
        made.last_answered = made.held
        return made

    def answers(self, request: Any) -> Iterator[Mapping[str, Any]]:
        """See Judged."""
        return iter(())

    def rows(self, request: Any, answer: Mapping[str, Any]) -> Sequence[Taken]:
        """See Judged."""
        return ()

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Coordinator, Mapping[str, Any] | None]]:
        """See Judged."""
        return iter(())


_Batch = tuple[int, int, int]
"""A batch: its first and last sequence, and its offset."""
_NO_BATCHES: tuple[int, frozenset[_Batch]] = -1, frozenset()


def _is_later(sequence: int, other: int) -> bool:
    """Whether a sequence is after another one. After the largest sequence comes 0."""
    return 0 < _distance(sequence, other) <= LARGEST_SEQUENCE // 2


def _may_both_be(one: _Batch, other: _Batch) -> bool:
    """Whether two batches of a producer can both be in a log: there are enough offsets between them
    for the sequences between them."""
    before, behind = sorted((one, other), key=lambda batch: batch[2])
    return one == other or _may_come_behind(before, behind[0], behind[2])


def _may_come_behind(before: _Batch, sequence: int, offset: int) -> bool:
    """Whether a batch with this first sequence and offset can come after another one."""
    first, last, base = before
    count = _distance(last, first) + 1
    return _is_later(sequence, last) and _distance(sequence, last) - 1 <= offset - base - count


def _distance(sequence: int, other: int) -> int:
    return (sequence - other) % (LARGEST_SEQUENCE + 1)


class _First(NamedTuple):
    """The first known batch of a producer."""

    offset: int
    epoch: int
    sequence: int


class UnknownLeader(Leader):
    """The leader of a partition whose log's end and producers aren't known."""

    def __init__(self, operations: Sequence[Operation], settings: Settings) -> None:
        super().__init__(operations, settings)
        self.start: int | None = None  # the log's end at the first known batch
        self.least = 0  # before that: a lower bound of the log's end
        self.marks = 0  # markers before that
        # whether every batch has an answer, and each acknowledged one an offset
        self.are_placed = all(
            o.response is not None
            and (o.response["error"] != "NONE" or "base_offset" in o.response)
            for o in operations
            if o.request == "Produce"
        )
        self.firsts: Mapping[int, _First] = {}
        # the batches before the recording, of unknown producers
        self.before: Mapping[int, tuple[int, frozenset[_Batch]]] = {}
        # a transaction may be open where the recording begins
        self.most_marked = {producer: most + 1 for producer, most in self.most_marked.items()}

    def key(self) -> Hashable:
        """See Judged."""
        known = frozenset(self.firsts.items()), frozenset(self.before.items())
        return self.start, self.least, self.marks, *known, super().key()

    def is_idle(self, operation: Operation) -> bool:
        """See Judged."""
        return operation.fields.get("producer_id", -1) in self.firsts and super().is_idle(operation)

    def _may_be_at(self, operation: Operation) -> bool:
        offset = (operation.response or {}).get("base_offset", -1)
        first = self.firsts.get(operation.fields["producer_id"])
        if self.start is None or offset < (self.start if first is None else first.offset):
            return True
        return super()._may_be_at(operation)

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Leader, None] | None]:
        """See Judged. There are no events before the log's end is known."""
        return iter(()) if self.start is None else super().events(since, until, rest)

    def _all(self, operation: Operation) -> Iterator[tuple[Leader, Mapping[str, Any]]]:
        fields, response = operation.fields, operation.response or {}
        producer_id = fields["producer_id"]
        is_known = producer_id in self.firsts if producer_id >= 0 else self.start is not None
        if is_known:
            yield from super()._all(operation)
            if self._is_before(operation):
                yield from self._repeated(operation)
            return
        error = response.get("error", "NONE")
        if error != "NONE":
            if error in self.errors(operation.request):
                yield self, response
            return
        offset = response.get("base_offset")
        if self.start is None and offset is None and operation.request == "Produce":
            if response:  # the batch is at an unknown place, perhaps from before the recording
                yield self, response
            return
        if self.start is None and not response:
            return
        if operation.request == "WriteTxnMarkers":
            yield self._marked_at_end(operation), {"error": "NONE"}
            return
        if not response or self.start is None or offset in (None, self.leader.log_end_offset):
            if self._is_behind(operation, offset) and (
                self.start is not None or (offset or 0) >= self.least
            ):
                yield self._appended(operation, offset)
            elif self.start is not None:  # the leader may have forgotten the producer
                yield from super()._all(operation)
        if response and (
            offset is None or self.start is None or offset + fields["count"] <= self.start
        ):
            yield from self._repeated(operation)

    def _is_free(self, producer_id: int, batch: _Batch) -> bool:
        """Whether a batch overlaps no earlier batch of another producer."""
        first, last, base = batch
        return all(
            base + _distance(last, first) < other[2]
            or other[2] + _distance(other[1], other[0]) < base
            for of, (_, batches) in self.before.items()
            if of != producer_id
            for other in batches
        )

    def _is_behind(self, operation: Operation, base_offset: int | None) -> bool:
        """Whether a batch, at this offset or at the log's end, can come after its producer's
        batches from before the recording."""
        fields = operation.fields
        epoch, batches = self.before.get(fields["producer_id"], _NO_BATCHES)
        offset = self.leader.log_end_offset if base_offset is None else base_offset
        sequence = fields["base_sequence"]
        if fields["producer_epoch"] == epoch:
            return all(_may_come_behind(batch, sequence, offset) for batch in batches)
        # the sequences of a new epoch begin at 0, after the batches of the previous epoch
        ends = (base + _distance(last, first) + 1 for first, last, base in batches)
        return fields["producer_epoch"] > epoch and all(sequence <= offset - end for end in ends)

    def _repeated(self, operation: Operation) -> Iterator[tuple[Leader, Mapping[str, Any]]]:
        """The leader, if the batch may be a remembered one from before the recording. Without a
        recorded offset the batch doesn't show anything about others."""
        fields, response = operation.fields, operation.response or {}
        if "base_offset" not in response:
            yield self, response
            return
        producer_id, epoch, first = (
            fields[name] for name in ("producer_id", "producer_epoch", "base_sequence")
        )
        known, batches = self.before.get(producer_id, _NO_BATCHES)
        if producer_id < 0 or epoch < known:
            return
        if self.are_placed and 0 <= known < epoch:  # the earlier epoch was refused already
            return
        if epoch > known and not self._is_behind(operation, response["base_offset"]):
            return
        batch: _Batch = (
            first,
            (first + fields["count"] - 1) % (LARGEST_SEQUENCE + 1),
            response["base_offset"],
        )
        found = frozenset([*(batches if epoch == known else ()), batch])
        is_in_order = all(_may_both_be(one, batch) for one in found)
        if is_in_order and len(found) <= MOST and self._is_free(producer_id, batch):
            after = self._copy(operation.start)
            after.before = {**self.before, producer_id: (epoch, found)}
            if self.start is None:
                end = response["base_offset"] + fields["count"]
                after.least = max(self.least, end + self.marks * self.are_placed)
            yield after, response

    def _is_before(self, operation: Operation) -> bool:
        """Whether a batch may be older than the producer's first known batch."""
        fields, response = operation.fields, operation.response or {}
        first = self.firsts.get(fields["producer_id"])
        if first is None or operation.request != "Produce" or response.get("error") != "NONE":
            return False
        sequence, count = fields["base_sequence"], fields["count"]
        base = response.get("base_offset", 0)
        batch: _Batch = sequence, (sequence + count - 1) % (LARGEST_SEQUENCE + 1), base
        return (
            fields["producer_epoch"] == first.epoch
            and base + count <= first.offset
            and _may_come_behind(batch, first.sequence, first.offset)
        )

    def _marked_at_end(self, operation: Operation) -> Leader:
        """The leader with a marker at the end of its log."""
        fields, after = operation.fields, self._copy(operation.start)
        if self.start is None:
            after.least, after.marks = self.least + 1, self.marks + 1
            return after
        end = after.leader.log_end_offset
        held = fields["producer_id"], fields["producer_epoch"]
        after.leader.replicate([Batch("plain", end, end, *held)])
        return after

    def _appended(
        self, operation: Operation, offset: int | None
    ) -> tuple[Leader, Mapping[str, Any]]:
        """The leader with the appended batch of an unknown producer, and the answer."""
        fields, after = operation.fields, self._copy(operation.start)
        leader, count, sequence = after.leader, fields["count"], fields["base_sequence"]
        if after.start is None and offset is not None:
            leader.machine.put(log_end_offset=offset)
            after.start = offset
        base, held = leader.log_end_offset, (fields["producer_id"], fields["producer_epoch"])
        if held[0] < 0:
            leader.append_plain(count)
            return after, {"error": "NONE", "base_offset": base}
        last = (sequence + count - 1) % (LARGEST_SEQUENCE + 1)
        is_in = bool(fields.get("transactional"))
        batch = Batch("data", base, base + count - 1, *held, sequence, last, is_in, leader.now_ms)
        leader.replicate([batch])
        after.marked = {at: n for at, n in self.marked.items() if at != held[0]}
        after.firsts = {**self.firsts, held[0]: _First(base, held[1], sequence)}
        return after, {"error": "NONE", "base_offset": base}


class UnknownOffset(Offset):
    """An unknown offset of a group. It stays unknown: in an excerpt only impossible errors are
    judged."""

    def outcomes(self, operation: Operation) -> Iterator[tuple[Offset, bool]]:
        """See Judged."""
        if (operation.response or {}).get("error") in self.errors(operation.request):
            yield self, True

    def answers(self, operation: Operation) -> Iterator[Mapping[str, Any]]:
        """See Judged."""
        return iter(())

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Offset, None] | None]:
        """See Judged."""
        return iter(())


def unknown_machine_for(operations: Sequence[Operation], settings: Settings) -> Judged:
    """The machine that judges these operations of one key, in an unknown state."""
    known = machine_for(operations, settings)
    if isinstance(known, Offset):
        return UnknownOffset(operations, settings)
    if isinstance(known, Coordinator):
        return UnknownCoordinator(known.names, known.memory, known.form, 0, known.times)
    return UnknownLeader(operations, settings)
