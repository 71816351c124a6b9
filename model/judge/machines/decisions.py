"""The evidence of a run's transactional ids about its partitions: the ends that may have been
decided by a time, and the partitions that may be in a transaction.

Keys are judged one by one. The evidence comes only from requests and their times, and holds in
every order of them: a marker follows a decision, and the coordinator confirms a batch to its leader
only after an AddPartitionsToTxn.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ....spec.coordinator import tables
from ....spec.releases.features import KAFKA
from ..operations import Operation
from .coordinator import harmless

NEVER: Final = float("inf")
RESULTS: Final = ("COMMIT", "ABORT")
OFFSETS: Final = "__consumer_offsets"
"""The topic of groups' offsets. A group's partition depends on the brokers' settings."""
Epoch = tuple[int, int]
"""A producer id and its epoch."""


class _Added(NamedTuple):
    """An AddPartitionsToTxn: its partitions, the earliest time of its effect, and the time from
    which its transaction has certainly ended."""

    partitions: frozenset[str]
    start: float
    over: float


@dataclass
class _Id:
    """The requests of one transactional id that may have changed it."""

    name: str
    inits: list[Operation] = field(default_factory=list[Operation])
    added: dict[Epoch, list[Operation]] = field(default_factory=dict[Epoch, list[Operation]])
    ends: dict[Epoch, list[Operation]] = field(default_factory=dict[Epoch, list[Operation]])

    def take(self, operation: Operation) -> None:
        """Takes a request of the transactional id."""
        if operation.request == "InitProducerId":
            self.inits.append(operation)
            return
        of = self.ends if operation.request == "EndTxn" else self.added
        of.setdefault(_held(operation.fields), []).append(operation)


class Decisions:
    """The possible decisions of a run's transactional ids, from their operations."""

    def __init__(self, ids: Mapping[str, Sequence[Operation]], protocol: str) -> None:
        """`ids` has the operations of each transactional id by name. `protocol` is the brokers'
        release."""
        features = KAFKA.features_at(protocol)
        takes_two = "transaction_version_2" in features and "single_fence_bump" not in features
        self._bumps = range(1, 2 + takes_two) if "timeout_bumps_epoch" in features else range(1)
        """The possible differences between the epoch of a timeout's marker and the client's
        epoch."""
        self._marks_next = "transaction_version_2" in features
        """Whether a marker may have the epoch that follows its EndTxn's."""
        unchanged = harmless(tables.DRIVEN)
        self._ids: dict[int, _Id | None] = {}  # by producer id; None: several have it
        for name, operations in ids.items():
            one = _Id(name)
            producer_ids = {
                o.response.get("producer_id", -1) for o in operations if o.response is not None
            }
            for producer_id in producer_ids - {-1}:
                self._ids[producer_id] = None if producer_id in self._ids else one
            for operation in operations:
                if operation.response is None or operation.response["error"] not in unchanged:
                    one.take(operation)
        self._from: dict[tuple[int, int, str], float] = {}
        self._added: dict[Epoch, list[_Added]] = {}
        self._later: dict[int, _Earliest] = {}
        self._before: dict[tuple[int, str], tuple[list[int], list[float]]] = {}
        self._adding: dict[str, list[Epoch]] | None = None

    def at(self, partition: str) -> AtPartition:
        """The evidence about one partition."""
        return AtPartition(self, partition)

    def id_of(self, producer_id: int) -> _Id | None:
        """The transactional id that got this producer id, if exactly one did."""
        return self._ids.get(producer_id)

    def decided_from(self, producer_id: int, epoch: int, result: str) -> float:
        """The earliest time of a decision whose marker has this epoch and result."""
        one = self.id_of(producer_id)
        if one is None:
            return 0
        about = producer_id, epoch, result
        if about not in self._from:
            ends = [*one.ends.get((producer_id, epoch), ())]
            if self._marks_next:
                ends += one.ends.get((producer_id, epoch - 1), ())
            found = [o.start for o in ends if o.fields["result"] == result]
            if result == "ABORT":
                found += (o.start for o in one.inits if _may_fence(o, producer_id, epoch))
                ended = (epoch - bumps for bumps in self._bumps)
                found += (self._times_out(one, (producer_id, e)) for e in ended)
            self._from[about] = max(
                min(found, default=NEVER), self._still_before(one, producer_id, epoch, result)
            )
        return self._from[about]

    def _still_before(self, one: _Id, producer_id: int, epoch: int, result: str) -> float:
        """The latest start of a request that succeeded in an earlier epoch: the decision comes
        later. EndTxn requests with the same result don't count: one of them may decide."""
        if (producer_id, result) not in self._before:
            found = sorted(
                (held[1], o.start)
                for those in (one.added, one.ends)
                for held, operations in those.items()
                if held[0] == producer_id
                for o in operations
                if _error(o) == "NONE" and o.fields.get("result") != result
            )
            latest = [*accumulate((start for _, start in found), max, initial=-NEVER)]
            self._before[producer_id, result] = [epoch for epoch, _ in found], latest
        epochs, latest = self._before[producer_id, result]
        return latest[bisect_left(epochs, epoch)]

    def later_from(self, producer_id: int, epoch: int) -> float:
        """The earliest time at which a client may have received a later epoch of a producer id."""
        one = self.id_of(producer_id)
        if one is None:
            return 0
        if producer_id not in self._later:
            found: list[tuple[float, float]] = []
            for o in (*one.inits, *(each for those in one.ends.values() for each in those)):
                answered = _answered(o)
                if answered is not None and answered[0] == producer_id:
                    found.append((answered[1], o.start))
                elif o.response is None:
                    found.append((NEVER, o.start))
            self._later[producer_id] = _Earliest(found)
        return self._later[producer_id].behind(epoch)

    def _times_out(self, one: _Id, held: Epoch) -> float:
        """The earliest time at which a transaction of this epoch may have timed out."""
        producer_id, epoch = held
        if epoch < 0:
            return NEVER
        timeout_ms = min((o.fields.get("transaction_timeout_ms", 0) for o in one.inits), default=0)
        began = [o.start for o in one.ends.get((producer_id, epoch - 1), ())]
        began += (o.start for o in one.inits if _may_begin(o, held))
        late = min(began, default=0) + timeout_ms
        ended = (
            o.end
            for o in one.ends.get(held, ())
            if o.end is not None and _answered(o) not in (None, held) and _error(o) == "NONE"
        )
        return NEVER if min(ended, default=NEVER) < late else late

    def adding(self, partition: str) -> list[Epoch]:
        """The producer ids and epochs whose requests may have added a partition."""
        if self._adding is None:
            self._adding = {}
            for one in self._ids.values():
                for held, operations in () if one is None else one.added.items():
                    for part in {p for o in operations for p in _partitions(o)}:
                        self._adding.setdefault(part, []).append(held)
        return self._adding.get(partition, [])

    def added_in(self, held: Epoch) -> list[_Added]:
        """The requests that may have added partitions in an epoch."""
        if held not in self._added:
            one = self.id_of(held[0])
            self._added[held] = [] if one is None else _with_ends(one, held)
        return self._added[held]


@dataclass(frozen=True)
class AtPartition:
    """The evidence of a run's transactional ids about one partition."""

    decisions: Decisions
    partition: str

    def may_mark(
        self, producer_id: int, epoch: int, until: float, results: Iterable[str] = RESULTS
    ) -> bool:
        """Whether a marker of one of these results may come by this time."""
        find = self.decisions.decided_from
        return any(find(producer_id, epoch, result) <= until for result in results)

    def may_be_added(self, producer_id: int, epoch: int, start: float, end: float | None) -> bool:
        """Whether the partition may have been in the client's transaction at some time between
        `start` and `end`."""
        if self.decisions.id_of(producer_id) is None:
            return True
        until = NEVER if end is None else end
        return any(
            self.partition in one.partitions and one.start <= until and one.over >= start
            for one in self.decisions.added_in((producer_id, epoch))
        )

    def may_be_later(self, producer_id: int, epoch: int, until: float) -> bool:
        """Whether a client may have received a later epoch of the producer by this time."""
        return self.decisions.later_from(producer_id, epoch) <= until

    def added(self) -> list[Epoch]:
        """The producer ids and epochs that may have added the partition to a transaction. Their
        markers come even if they wrote nothing."""
        return self.decisions.adding(self.partition)

    def idle(self, operations: Iterable[Operation]) -> Counter[int]:
        """The possible number of transactions, by producer id, that had the partition and wrote
        nothing to it. They have markers, too."""
        starts, number_of = self._starts(), self.transactions()
        written: dict[int, set[int]] = {producer_id: set() for producer_id in starts}
        for operation in operations:
            if number := number_of(operation):
                written[operation.fields["producer_id"]].add(number)
        return Counter({each: len(starts[each]) - len(written[each]) for each in starts})

    def transactions(self) -> Callable[[Operation], int]:
        """A function that returns for a batch the number of earlier requests that may have added
        the partition for its producer."""
        starts = self._starts()

        def number_of(operation: Operation) -> int:
            known = starts.get(operation.fields.get("producer_id", -1))
            if known is None or operation.request != "Produce":
                return 0
            return bisect_left(known, operation.start)

        return number_of

    def _starts(self) -> dict[int, list[float]]:
        """The earliest times of effect of requests that may have added the partition, sorted, by
        producer id."""
        found: dict[int, list[float]] = {}
        for held in self.added():
            for one in self.decisions.added_in(held):
                if self.partition in one.partitions:
                    found.setdefault(held[0], []).append(one.start)
        return {producer_id: sorted(those) for producer_id, those in found.items()}

    def against_marker(self, operation: Operation) -> str:
        """The objection of the transactional id's history to a marker, in a sentence; empty for
        none."""
        fields, until = operation.fields, NEVER if operation.end is None else operation.end
        held = fields["producer_id"], fields["producer_epoch"]
        if self.may_mark(*held, until, (fields["result"],)):
            return ""
        return f"Nothing of {self._named(held)} decides {fields['result']} in epoch {held[1]}."

    def against_batch(self, operation: Operation) -> str:
        """The objection that the batch's transactional id doesn't add the partition, in a
        sentence."""
        held = operation.fields["producer_id"], operation.fields["producer_epoch"]
        return f"Nothing of {self._named(held)} adds the partition in epoch {held[1]} for it."

    def _named(self, held: Epoch) -> str:
        one = self.decisions.id_of(held[0])
        return "any transactional_id" if one is None else f"transactional_id {one.name}"


def _with_ends(one: _Id, held: Epoch) -> list[_Added]:
    """The requests that may have added partitions, each with the time from which its transaction
    has ended: after an EndTxn is answered, its decision is in the log."""
    ended = [o for o in one.ends.get(held, ()) if _error(o) == "NONE" and o.end is not None]
    over = _Earliest((o.start, o.end or 0) for o in ended)
    return [
        _Added(
            frozenset(_partitions(o)),
            o.start,
            NEVER if o.end is None else over.behind(o.end),
        )
        for o in one.added.get(held, ())
    ]


def _partitions(added: Operation) -> Iterator[str]:
    """The partitions that a request adds. Partitions of groups' offsets are also returned under one
    common name."""
    for part in map(str, added.fields["partitions"]):
        yield part
        if part.startswith(OFFSETS):
            yield OFFSETS


class _Earliest:
    """For pairs of a start and a time: the earliest time among those that start after a moment."""

    def __init__(self, found: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(found)
        self._starts = [start for start, _ in ordered]
        times = [*accumulate((time for _, time in reversed(ordered)), min, initial=NEVER)]
        self._times = times[::-1]

    def behind(self, moment: float) -> float:
        return self._times[bisect_right(self._starts, moment)]


def _may_fence(init: Operation, producer_id: int, epoch: int) -> bool:
    """Whether an InitProducerId may have aborted a transaction with a marker of this epoch. Its
    answer must have a higher epoch or another producer id."""
    answered = _answered(init)
    return answered is None or answered[0] != producer_id or epoch < answered[1]


def _may_begin(init: Operation, held: Epoch) -> bool:
    answered = _answered(init)
    return answered is None or answered == held


def _held(fields: Mapping[str, Any]) -> Epoch:
    return fields["producer_id"], fields["producer_epoch"]


def _error(operation: Operation) -> str | None:
    return None if operation.response is None else operation.response["error"]


def _answered(operation: Operation) -> Epoch | None:
    """The producer id and epoch in a request's answer; None if they aren't known."""
    response = operation.response or {}
    if (
        response.get("error") != "NONE"
        or "producer_id" not in response
        or "producer_epoch" not in response
    ):
        return None
    return response["producer_id"], response["producer_epoch"]
