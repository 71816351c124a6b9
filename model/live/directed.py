"""The shortest requests that reach each row of a coordinator and a leader from outside.

They are searched for on the oracle: breadth first over what a client may send next, right or wrong.
Of states that differ in numbers alone one is gone on from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count
from typing import Any, Final, NamedTuple, cast

from ...spec import api_versions
from ..asking import UNKNOWN_ID
from ..cluster import Cluster, offsets_partition
from ..engine.errors import ModelError
from ..engine.machine import Machine, noted
from ..possible_states import RowName
from ..requests import LARGEST_EPOCH, Answer, answer

Line = dict[str, Any]
SHORT_MS: Final = 1_000
"""A transaction's timeout that is waited for."""
USUAL_MS: Final = 60_000
HELD_FROM: Final = 3
"""The first version of InitProducerId that names what its sender holds (KIP-360)."""
LAST_EPOCHS: Final = (LARGEST_EPOCH - 2, LARGEST_EPOCH - 1)
STEPS: Final = 40_000
"""So many lines are tried out: more find no more rows."""
DETOUR: Final = 2
"""By so many requests a way may be longer that comes to a machine's states sooner."""
PARTITION: Final = "t-0"
GROUP: Final = "g"


class Way(NamedTuple):
    """The lines that reach a row. Where it `races`, the last two must come so close together that
    the markers of the first aren't written when the second is read."""

    lines: tuple[Line, ...]
    races: bool = False


Versions = Mapping[str, tuple[int, int]]
"""The oldest and newest version of each request that is sent."""


def variants(request: str, versions: Versions) -> list[int]:
    """The versions of a request that make a difference, the newest first: of those that do without
    the same, the newest."""
    if request not in versions:
        return []
    low, high = versions[request]
    found: dict[Hashable, int] = {}
    for version in range(low, high + 1):
        is_broker_s = request == "AddPartitionsToTxn" and api_versions.is_from_broker(version)
        found[api_versions.without(request, version), is_broker_s] = version
    return sorted(found.values(), reverse=True)


# What there is ----------------------------------------------------------------------------------


def existing(cluster: Cluster, versions: Versions) -> list[RowName]:
    """The rows that a coordinator and a leader of the release may take, in the order of tables,
    where they are asked in these versions."""
    found: dict[RowName, None] = {}
    for machine in cluster.machines():
        for event in machine.events:
            for off in _switched_off(event, cluster, versions):
                for row in machine.rows_of(event, switch_off=off):
                    name = RowName(
                        machine.tables[0].machine.name, event, row.name, row.source or ""
                    )
                    found[name] = None
    return list(found)


def _switched_off(event: str, cluster: Cluster, versions: Versions) -> set[tuple[str, ...]]:
    of_cluster = () if cluster.transaction_version >= 2 else api_versions.VERSION_1
    match event:
        case "AddPartitionsByLeader":  # in version 2 leaders send what clients send
            return {api_versions.VERSION_1}
        case "AddPartitionsByLeaderResponse":
            asked = ("Produce", "TxnOffsetCommit")
        case _:
            asked = (event,)
    found = {
        api_versions.without(request, version)
        for request in asked
        for version in variants(request, versions)
    }
    return found or {of_cluster}


# The search -------------------------------------------------------------------------------------


@dataclass
class Node:
    """Where some lines lead: a cluster, what its clients were told by transactional id (none:
    idempotent), and the next sequence by producer id and epoch."""

    cluster: Cluster
    lines: tuple[Line, ...] = ()
    told: dict[str | None, tuple[int, int]] = field(
        default_factory=dict[str | None, tuple[int, int]]
    )
    sent: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    ids: int = 0

    def after(self, line: Line) -> tuple[Node, set[RowName]] | None:
        """Where a further line leads, before markers are written, and the rows that it takes. None
        where it can't be sent."""
        made = Node(
            self.cluster.copy(), (*self.lines, line), dict(self.told), dict(self.sent), self.ids
        )
        made.cluster.coordinator.producer_ids = made.new_id
        with noted() as taken:
            try:
                answered = answer(made.cluster, line)
            except ModelError:
                return None
        made._learn(line, answered)
        return made, {RowName.of(*one) for one in taken}

    def new_id(self) -> int:
        """A producer id, numbered from 0 on this way."""
        self.ids += 1
        return self.ids - 1

    def settle(self) -> set[RowName]:
        """Writes the markers that are due; the rows that are taken for it."""
        with noted() as taken:
            self.cluster.deliver_markers()
        return {RowName.of(*one) for one in taken}

    def _learn(self, line: Line, answered: Answer) -> None:
        if "skip_to_epoch" in line:
            name = line["transactional_id"]
            self.told[name] = self.told[name][0], line["skip_to_epoch"]
        if answered.get("error") != "NONE":
            return
        if answered.get("producer_epoch", -1) >= 0:
            self.told[line["transactional_id"]] = (
                answered["producer_id"],
                answered["producer_epoch"],
            )
        if line["request"] == "Produce":
            who = (line["producer_id"], line["producer_epoch"])
            self.sent[who] = line["base_sequence"] + line["count"]

    def shapes(self) -> tuple[Hashable, ...]:
        """What it is told by from states in which other rows may be taken, for each machine."""
        leader = self.cluster.leader(PARTITION).machine
        entries = self.cluster.coordinator.entries.items()
        return (
            frozenset(str(name) for name in self.told),
            ("leader", shape(leader), max(map(self._ahead, self.told.values()), default=0)),
            *((name, shape(entry), self._behind(name)) for name, entry in entries),
        )

    def _ahead(self, told: tuple[int, int]) -> int:
        """How far the epoch of a client is beyond the one that the leader knows."""
        producers = self.cluster.leader(PARTITION).producers
        return min(told[1] - producers[told[0]].producer_epoch, 2) if told[0] in producers else 3

    def _behind(self, name: str) -> int:
        """How far the epoch of a client is behind that of its entry."""
        entry = self.cluster.coordinator.entries[name]
        return min(entry["producer_epoch"] - self.told[name][1], 2) if name in self.told else 3


def shape(machine: Machine) -> Hashable:
    """A machine's state, in which numbers that rows seldom tell apart are one."""
    return tuple(_rounded(value) for value in machine.state.values())


def _rounded(value: Any) -> Hashable:
    """A value in which numbers that rows seldom tell apart are one."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            is_told = value <= 1 or value == SHORT_MS or 0 <= LARGEST_EPOCH - value < 3
            return value if is_told else 2
        case Mapping():
            every = cast("Mapping[Any, Any]", value).values()
            return tuple(sorted((_rounded(each) for each in every), key=str))
        case tuple() | list():
            return tuple(_rounded(each) for each in cast("Sequence[Any]", value))
        case set() | frozenset():
            return len(cast("set[Any]", value))
        case _:
            return str(value)


class _Search:
    """A search on the oracle of a release of so many steps, breadth first."""

    def __init__(
        self, protocol: str, transaction_version: int | None, versions: Versions, steps: int,
        restarts: bool,
    ) -> None:  # fmt: skip
        cluster = Cluster(
            protocol=protocol, transaction_version=transaction_version, holds_markers=True
        )
        for partition in (PARTITION, offsets_partition(GROUP)):
            cluster.leader(partition)
        self.versions = versions
        self.restarts = restarts
        self.left = steps
        self.found: dict[RowName, Way] = {}
        self.racing: dict[RowName, Way] = {}
        self._seen: set[Hashable] = set()
        self._raced: set[Hashable] = set()
        order, waiting = count(), [(0, 0, Node(cluster))]
        while waiting and self.left > 0:
            *_, node = heappop(waiting)
            for reached, is_new in self._further(node):
                cost = len(reached.lines) + (0 if is_new else DETOUR)
                heappush(waiting, (cost, next(order) + 1, reached))

    def _further(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """The states behind a node that are like none before, and whether a machine alone is."""
        every = moves(node.told, node.sent, len(node.lines), self.versions)
        for line in chain(every, [{"restart": True}] if self.restarts and node.told else []):
            self.left -= 1
            went = node.after(line)
            if went is None:
                continue
            reached, rows = went
            self._race(reached)
            for row in (rows | reached.settle()) - self.found.keys():
                self.found[row] = Way(reached.lines)
            shapes = reached.shapes()
            if shapes not in self._seen:
                is_new = not self._seen.issuperset(shapes)
                self._seen |= {shapes, *shapes}
                yield reached, is_new

    def _race(self, node: Node) -> None:
        """The rows that are taken by a line whose end before it is still under way."""
        if not (node.cluster.due() or node.cluster.to_complete()):
            return
        if (shapes := node.shapes()) in self._raced:
            return
        self._raced.add(shapes)
        for line in moves(node.told, node.sent, len(node.lines), self.versions):
            went = node.after(line) if "request" in line else None
            if went is not None:
                for row in went[1] - self.racing.keys():
                    self.racing[row] = Way(went[0].lines, races=True)


def ways(
    protocol: str, transaction_version: int | None, versions: Versions, *, steps: int = STEPS,
    restarts: bool = False,
) -> dict[RowName, Way]:  # fmt: skip
    """A shortest way to each row of the release that is found in so many steps."""
    search = _Search(protocol, transaction_version, versions, steps, restarts)
    return search.racing | search.found


# What may be sent -------------------------------------------------------------------------------


def moves(
    told: Mapping[str | None, tuple[int, int]], sent: Mapping[tuple[int, int], int], place: int,
    versions: Versions,
) -> Iterator[Line]:  # fmt: skip
    """What a client may send after `place` lines, right or wrong; what is right first."""
    yield from _beginnings(told, versions)
    for name, own in told.items():
        others = [other for other in told.values() if other[0] != own[0]]
        every = _identities(own, others)
        if name is not None:
            yield from _of_coordinator(name, every, versions)
        yield from _batches(name, every, sent, versions)
        for who in every[:3]:
            yield from _markers(who, versions)
    if told:
        yield {"sleep_ms": SHORT_MS + 1}
    if place == 1 and "a" in told:
        for epoch in LAST_EPOCHS:
            yield {"skip_to_epoch": epoch, "transactional_id": "a"}


def _identities(own: tuple[int, int], others: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    """A client's own producer id and epoch, and wrong ones."""
    producer_id, epoch = own
    found = [own, (producer_id, epoch - 1), (producer_id, epoch + 1), (UNKNOWN_ID, epoch), *others]
    return [
        {"producer_id": one, "producer_epoch": at} for one, at in found if 0 <= at <= LARGEST_EPOCH
    ]


def _request(name: str, version: int, **fields: Any) -> Line:
    return {"request": name, **fields, "api_version": version}


def _beginnings(told: Mapping[str | None, tuple[int, int]], versions: Versions) -> Iterator[Line]:
    """InitProducerId; before anything was told, what names nobody as well."""
    name = "a"
    for version in variants("InitProducerId", versions):
        asked = {"transactional_id": name, "transaction_timeout_ms": USUAL_MS}
        yield _request("InitProducerId", version, **asked)
        if name in told and version >= HELD_FROM:
            every = _identities(told[name], [])
            for who in (*every, every[0] | {"producer_epoch": -1}):
                yield _request("InitProducerId", version, **asked, **who)
    (newest, *_) = variants("InitProducerId", versions)
    short = {"transactional_id": name, "transaction_timeout_ms": SHORT_MS}
    yield _request("InitProducerId", newest, **short)
    if None not in told:
        yield _request("InitProducerId", newest, transactional_id=None)
    if not told:
        yield _request("InitProducerId", newest, transactional_id="")
        yield _request("InitProducerId", newest, **short | {"transaction_timeout_ms": 0})
        nobody = {"producer_id": UNKNOWN_ID, "producer_epoch": 0}
        for unknown in (name, ""):
            yield from _of_coordinator(unknown, [nobody], versions)
            if "DescribeTransactions" in versions:
                yield {"request": "DescribeTransactions", "transactional_id": unknown}


def _of_coordinator(
    name: str, every: Sequence[dict[str, int]], versions: Versions
) -> Iterator[Line]:
    for who in every:
        about = {"transactional_id": name, **who}
        for version in variants("AddPartitionsToTxn", versions):
            asked = about | {"partitions": [PARTITION]}
            yield _request("AddPartitionsToTxn", version, **asked)
            if api_versions.is_from_broker(version):
                yield _request("AddPartitionsToTxn", version, **asked, verify_only=True)
        for result in ("COMMIT", "ABORT"):
            for version in variants("EndTxn", versions):
                yield _request("EndTxn", version, **about, result=result)
    about = {"transactional_id": name, **every[0], "group_id": GROUP}
    for request in ("AddOffsetsToTxn", "TxnOffsetCommit"):
        for version in variants(request, versions):
            yield _request(request, version, **about)


def _batches(
    name: str | None, every: Sequence[dict[str, int]], sent: Mapping[tuple[int, int], int],
    versions: Versions,
) -> Iterator[Line]:  # fmt: skip
    several = variants("Produce", versions)
    for who in every:
        following = sent.get((who["producer_id"], who["producer_epoch"]), 0)
        for sequence in dict.fromkeys((following, 0, following + 1)):
            batch = {"partition": PARTITION, **who, "base_sequence": sequence, "count": 1}
            for version in several if name is not None else ():
                yield _request("Produce", version, **batch, transactional_id=name)
            yield _request("Produce", several[0], **batch)


def _markers(who: dict[str, int], versions: Versions) -> Iterator[Line]:
    for version in variants("WriteTxnMarkers", versions)[:1]:
        for coordinator_epoch in (0, -1):
            marker = {"partition": PARTITION, **who, "result": "ABORT"}
            marker |= {"coordinator_epoch": coordinator_epoch}
            yield _request("WriteTxnMarkers", version, **marker)
            if version >= api_versions.MARKERS_TELL_VERSION:
                yield _request("WriteTxnMarkers", version, **marker, transaction_version=2)
