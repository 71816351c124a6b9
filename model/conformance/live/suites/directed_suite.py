"""The shortest sequences of requests that reach each row of a coordinator and a leader.

A breadth-first search on the oracle finds them. Its steps are a client's next requests, right or
wrong. Of states that differ only in numbers, the search continues from one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, count
from typing import Any, Final, NamedTuple, cast

from .....spec.releases import api_versions
from ....cluster import Cluster, offsets_partition
from ....engine.errors import ModelError
from ....engine.machine import Machine, noted
from ....requests import HELD_AT, LARGEST_EPOCH, Answer, answer
from ...honest_clients import HELD_FROM, Honest, Level
from ...possible_states import RowName
from ...simulated_clients import UNKNOWN_ID
from ..clients import GROUP, NAME, PARTITION, SHORT_MS, Versions, honest_moves, of_releases

Line = dict[str, Any]
USUAL_MS: Final = 60_000
TWO_PHASE_FROM: Final = 6
"""The first version of InitProducerId that asks for two-phase commit (KIP-939)."""
LAST_EPOCHS: Final = (LARGEST_EPOCH - 2, LARGEST_EPOCH - 1)
STEPS: Final = 40_000
"""The largest number of tried lines."""
PATIENCE: Final = 18_000
"""The number of tried lines without a new row after which the search ends. At 3.6, 16,590 lines
come before the last new row; at 2.5, 4.0.1 and 4.3 fewer than 5,000."""
HONEST_STEPS: Final = 3_000
"""The largest number of tried lines of honest clients. The last new row comes before 2,500."""
DETOUR: Final = 2
"""The cost, in requests, of a node in which no single machine has a new state."""
HEAD_START: Final = 3
"""The discount, in requests, for each held request on a way."""
RESTART: Final = 2
"""The cost, in requests, of a restart on a way with a held request: restarts take seconds."""


class Way(NamedTuple):
    """The lines that reach a row. If it `races`, the last line must arrive before the markers of
    the line before it are written."""

    lines: tuple[Line, ...]
    races: bool = False


def variants(request: str, versions: Versions) -> list[int]:
    """The versions of a request that differ in features, the newest first. Of versions with the
    same features, only the newest."""
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
    """The rows that a coordinator and a leader of the release may take for requests of these
    versions, in the order of the tables."""
    found: dict[RowName, None] = {}
    for machine in cluster.machines():
        for event in machine.events:
            for off in _switched_off(event, cluster, versions):
                for row in machine.rows_of(event, switch_off=off):
                    name = RowName(machine.tables[0].machine.name, event, row.id, row.source or "")
                    found[name] = None
    return list(found)


def _switched_off(event: str, cluster: Cluster, versions: Versions) -> set[tuple[str, ...]]:
    of_cluster = () if cluster.transaction_version >= 2 else api_versions.VERSION_1
    match event:
        case "AddPartitionsByLeader":  # in version 2 leaders send the same request as clients
            return {api_versions.VERSION_1}
        case "AddPartitionsByLeaderResponse":
            body = ("Produce", "TxnOffsetCommit")
        case _:
            body = (event,)
    found = {
        api_versions.without(request, version)
        for request in body
        for version in variants(request, versions)
    }
    return found or {of_cluster}


# The search -------------------------------------------------------------------------------------


@dataclass
class Node:
    """The state after some lines: a cluster, its clients' last identities by transactional id
    (None: idempotent), and the next sequence by producer id and epoch."""

    cluster: Cluster
    lines: tuple[Line, ...] = ()
    told: dict[str | None, tuple[int, int]] = field(
        default_factory=dict[str | None, tuple[int, int]]
    )
    sent: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    ids: int = 0
    clients: tuple[Honest, ...] = ()

    def after(self, line: Line, by: Honest | None = None) -> tuple[Node, set[RowName]] | None:
        """The state after another line, before markers are written, and the rows of the line. `by`
        is the honest client that sends it. None if the line can't be sent."""
        made = Node(
            self.cluster.copy(), (*self.lines, line), dict(self.told), dict(self.sent), self.ids,
            self.clients,
        )  # fmt: skip
        made.cluster.coordinator.producer_ids = made.new_id
        with noted() as taken:
            try:
                answered = answer(made.cluster, line)
            except ModelError:
                return None
        if "held_at" in line and "held" not in answered:
            return None  # the line without `held_at` does the same
        made._learn(line, answered)
        if by is not None:
            after = by.copy()
            after.learn(line, answered)
            made.clients = (*(one for one in self.clients if one is not by), after)
        return made, {RowName.of(*one) for one in taken}

    def length(self) -> int:
        """The cost of the lines: their number. Held requests make it smaller, as their goal comes
        later; then a restart counts more."""
        holds = sum("held_at" in line for line in self.lines)
        lines = sum("release" not in line for line in self.lines)
        if holds:
            lines += RESTART * sum("restart" in line for line in self.lines)
        return lines - HEAD_START * holds

    def new_id(self) -> int:
        """A producer id, numbered from 0 on this way."""
        self.ids += 1
        return self.ids - 1

    def settle(self) -> set[RowName]:
        """Writes the markers that are due. Returns the rows that this takes."""
        with noted() as taken:
            self.cluster.deliver_markers()
        return {RowName.of(*one) for one in taken}

    def _learn(self, line: Line, answered: Answer) -> None:
        if "release" in line:
            line = {"transactional_id": NAME, "request": None}
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

    def shapes(self, *, of_leader: bool = True) -> tuple[Hashable, ...]:
        """A key for each machine. States with the same keys mostly take the same rows."""
        leader = self.cluster.leader(PARTITION).machine
        coordinator = self.cluster.coordinator
        entries = coordinator.entries.items()
        ahead = max(map(self._ahead, self.told.values()), default=0)
        return (
            frozenset(str(name) for name in self.told),
            (self.cluster.held(), coordinator.log_refuses, coordinator.lacks_ids),
            frozenset(client.key() for client in self.clients),
            *([("leader", shape(leader), ahead)] if of_leader else []),
            *((name, shape(entry), self._behind(name)) for name, entry in entries),
        )

    def _ahead(self, identity: tuple[int, int]) -> int:
        """The difference between a client's epoch and the leader's, at most 2; 3 if the leader
        doesn't know the producer."""
        producers = self.cluster.leader(PARTITION).producers
        return (
            min(identity[1] - producers[identity[0]].producer_epoch, 2)
            if identity[0] in producers
            else 3
        )

    def _behind(self, name: str) -> int:
        """The difference between an entry's epoch and its client's, at most 2; 3 without a
        client."""
        entry = self.cluster.coordinator.entries[name]
        return min(entry["producer_epoch"] - self.told[name][1], 2) if name in self.told else 3


def shape(machine: Machine) -> Hashable:
    """A machine's state, with numbers made equal that rows seldom distinguish."""
    plain, *maps = machine.kept(frozenset(), _rounded)
    return (_rounded_once(plain), *maps)


@lru_cache(1 << 16)
def _rounded_once(value: Hashable) -> Hashable:
    return _rounded(value)


def _rounded(value: Any) -> Hashable:
    """A value, with numbers made equal that rows seldom distinguish."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            is_exact = value <= 1 or value == SHORT_MS or 0 <= LARGEST_EPOCH - value < 3
            return value if is_exact else 2
        case Mapping():
            every = cast("Mapping[Any, Any]", value).values()
            return tuple(sorted((_rounded(each) for each in every), key=str))
        case tuple() | list():
            return tuple(_rounded(each) for each in cast("Sequence[Any]", value))
        case set() | frozenset():
            return len(cast("set[Any]", value))
        case _:
            return str(value)


class Held(NamedTuple):
    """The parameters of a search with held requests: the places, the largest number held at once,
    the kinds of requests, and the number of steps. `at_last`: start at the last epochs of an id.
    `lines` are the other possible events."""

    places: tuple[str, ...]
    most: int
    requests: frozenset[str]
    steps: int
    at_last: bool = False
    lines: tuple[Line, ...] = ()


OF_ENTRY: Final = frozenset(("InitProducerId", "AddPartitionsToTxn", "EndTxn"))
_IDS: Final = ({"withhold_ids": True}, {"withhold_ids": False})
HELD: Final = (
    Held(("fence",), 1, OF_ENTRY, 12_000, at_last=True, lines=_IDS),
    Held(("append", "decision", "completion"), 1, OF_ENTRY | {"Produce"}, 4_000),
    Held(("fence", "append"), 2, OF_ENTRY, 3_000),
    Held(("fence", "decision"), 2, OF_ENTRY, 12_000),
    Held(("verification",), 1, OF_ENTRY | {"Produce"}, 12_000),
)


ALTERED: Final = (
    Held((), 0, OF_ENTRY, 4_000, lines=({"log_refuses": True}, {"log_refuses": False})),
    Held(
        (),
        0,
        frozenset(("InitProducerId", "AddPartitionsToTxn", "Produce")),
        3_000,
        lines=({"expire_producers": True}, {"delete_records": PARTITION}),
    ),
)


class _Search:
    """A breadth-first search on the oracle of a release, with a limit of `steps`. With `holds`,
    requests are held."""

    def __init__(
        self, protocol: str, transaction_version: int | None, versions: Versions, steps: int,
        restarts: bool, holds: Held | None = None, patience: int | None = None,
        level: Level = "any",
    ) -> None:  # fmt: skip
        cluster = Cluster(
            protocol=protocol, transaction_version=transaction_version, holds_markers=True
        )
        for partition in (PARTITION, offsets_partition(GROUP)):
            cluster.leader(partition)
        self.versions = versions
        self._honest = None if level == "any" else [*of_releases(versions, cluster)]
        self._wanted = frozenset(existing(cluster, versions))
        self.restarts, self.holds = restarts, holds
        self.left, self._patience = steps, patience or steps
        self._newest = steps
        self.found: dict[RowName, Way] = {}
        self.racing: dict[RowName, Way] = {}
        self._seen: set[Hashable] = set()
        self._raced: set[Hashable] = set()
        order, waiting = count(), [(0, 0, node) for node in self._first(Node(cluster))]
        while waiting and self.left > 0 and self._newest - self.left < self._patience:
            *_, node = heappop(waiting)
            for reached, is_new in self._further(node):
                cost = reached.length() + (0 if is_new else DETOUR)
                heappush(waiting, (cost, next(order) + 1, reached))

    def _first(self, node: Node) -> list[Node]:
        """The states at which the search begins."""
        if self.holds is None or not self.holds.at_last:
            return [node]
        found: list[Node] = []
        body = next(_beginnings({}, self.versions))
        for epoch in LAST_EPOCHS:
            at = node.after(body)
            assert at is not None
            skipped = at[0].after({"skip_to_epoch": epoch, "transactional_id": NAME})
            assert skipped is not None
            found.append(skipped[0])
        return found

    def _further(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """The new states after a node, each with whether a single machine's state is new."""
        every = self._moves(node)
        restarts = self.restarts and bool(node.told)
        if self.holds is not None:
            near = list(_of_one_client((line for line, _ in every), node, self.holds.requests))
            lines = chain(_held(near, node, self.holds), near, _lines(node, self.holds))
            every = ((line, None) for line in lines)
            restarts = restarts and node.cluster.held() in (("append",), ("completion",))
        for line, by in chain(every, [({"restart": True}, None)] if restarts else []):
            self.left -= 1
            went = node.after(line, by)
            if went is None:
                continue
            reached, rows = went
            if self.holds is None:
                self._race(reached)
            for row in ((rows | reached.settle()) & self._wanted) - self.found.keys():
                self.found[row] = Way(reached.lines)
                self._newest = self.left
            of_leader = self.holds is None or "Produce" in self.holds.requests
            shapes = reached.shapes(of_leader=of_leader)
            if shapes not in self._seen:
                is_new = not self._seen.issuperset(shapes)
                self._seen |= {shapes, *shapes}
                yield reached, is_new

    def _moves(self, node: Node) -> Iterator[tuple[Line, Honest | None]]:
        """The lines that can be sent next, each with its honest client."""
        if self._honest is not None:
            return honest_moves(node.clients, self._honest)
        every = moves(node.told, node.sent, len(node.lines), self.versions)
        return ((line, None) for line in every)

    def _race(self, node: Node) -> None:
        """Notes the rows of a next line that is sent while an end is still in progress."""
        if not (node.cluster.due() or node.cluster.to_complete()):
            return
        if (shapes := node.shapes()) in self._raced:
            return
        self._raced.add(shapes)
        for line, by in self._moves(node):
            went = node.after(line, by) if "request" in line else None
            if went is not None:
                for row in (went[1] & self._wanted) - self.racing.keys():
                    self.racing[row] = Way(went[0].lines, races=True)
                    self._newest = self.left


def ways(
    protocol: str, transaction_version: int | None, versions: Versions, *, steps: int = STEPS,
    patience: int | None = None, restarts: bool = False, holds: bool = False, alters: bool = False,
    level: Level = "any",
) -> dict[RowName, Way]:  # fmt: skip
    """A shortest way to each row of the release that a search of `steps` steps finds. The search
    ends earlier after `patience` steps without a new row. `holds`: also with held requests.
    `alters`: also with changed settings. At the level `well-behaved` only honest clients send
    requests, and none is held.
    """
    if level == "well-behaved":
        steps, patience, holds, alters = HONEST_STEPS, None, False, False
    search = _Search(
        protocol, transaction_version, versions, steps, restarts, patience=patience, level=level
    )
    found = search.racing | search.found
    for held in (*(HELD if holds else ()), *(ALTERED if alters else ())):
        more = _Search(protocol, transaction_version, versions, held.steps, restarts, held).found
        found |= {row: way for row, way in more.items() if row not in search.found}
    return found


# What may be sent -------------------------------------------------------------------------------


def moves(
    identities: Mapping[str | None, tuple[int, int]],
    sent: Mapping[tuple[int, int], int],
    place: int,
    versions: Versions,
) -> Iterator[Line]:
    """The lines that a client can send after `place` lines, the right ones first, then wrong
    ones."""
    yield from _beginnings(identities, versions)
    for name, own in identities.items():
        others = [other for other in identities.values() if other[0] != own[0]]
        every = _identities(own, others)
        if name is not None:
            yield from _of_coordinator(name, every, versions)
        yield from _batches(name, every, sent, versions)
        for who in every[:3]:
            yield from _markers(who, versions)
    if identities:
        yield {"sleep_ms": SHORT_MS + 1}
    if place == 1 and "a" in identities:
        for epoch in LAST_EPOCHS:
            yield {"skip_to_epoch": epoch, "transactional_id": "a"}


def _of_one_client(every: Iterable[Line], node: Node, requests: Set[str]) -> Iterator[Line]:
    """The nearly right lines of the transactional id `a`: its producer id, and its epoch or the
    next lower or higher one. A leader has one thread for questions to the coordinator. While it is
    held, no other batch is answered."""
    own = node.told.get(NAME)
    if "verification" in node.cluster.held():
        requests = requests - {"Produce"}
    for line in every:
        if "request" not in line:
            if "skip_to_epoch" in line:
                yield line
        elif line["request"] in requests and line.get("transactional_id") == NAME:
            epoch = line.get("producer_epoch", -1)
            is_near = own is not None and abs(epoch - own[1]) <= 1
            if epoch < 0 or own is None or (is_near and line["producer_id"] == own[0]):
                yield line


def _lines(node: Node, holds: Held) -> Iterator[Line]:
    """The other events that change something now."""
    coordinator = node.cluster.coordinator
    now = {"log_refuses": coordinator.log_refuses, "withhold_ids": coordinator.lacks_ids}
    for line in holds.lines:
        if not line.items() <= now.items():
            yield line


def _held(every: Iterable[Line], node: Node, holds: Held) -> Iterator[Line]:
    """The releases of held requests, and right requests that are held."""
    held = node.cluster.held()
    for place in held:
        yield {"release": place}
    for line in every if len(held) < holds.most else ():
        for place in HELD_AT.get(line.get("request", ""), ()):
            if place in holds.places and place not in held and _is_right(line, node):
                yield line | {"held_at": place}


def _is_right(line: Line, node: Node) -> bool:
    """Whether a request has its client's own producer id and newest epoch."""
    if line.get("transactional_id") != NAME or line.get("verify_only"):
        return False
    if line["request"] == "InitProducerId":
        return line.get("producer_epoch", -1) == -1
    answer = node.told.get(NAME)
    return (line["producer_id"], line["producer_epoch"]) == answer


def _identities(own: tuple[int, int], others: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    """A client's own producer id and epoch, and wrong ones."""
    producer_id, epoch = own
    found = [own, (producer_id, epoch - 1), (producer_id, epoch + 1), (UNKNOWN_ID, epoch), *others]
    return [
        {"producer_id": one, "producer_epoch": at} for one, at in found if 0 <= at <= LARGEST_EPOCH
    ]


def _request(name: str, version: int, **fields: Any) -> Line:
    return {"request": name, **fields, "api_version": version}


def _beginnings(
    identities: Mapping[str | None, tuple[int, int]], versions: Versions
) -> Iterator[Line]:
    """The possible InitProducerId requests."""
    name = "a"
    for version in variants("InitProducerId", versions):
        body = {"transactional_id": name, "transaction_timeout_ms": USUAL_MS}
        yield _request("InitProducerId", version, **body)
        if name in identities and version >= HELD_FROM:
            every = _identities(identities[name], [])
            for who in (*every, every[0] | {"producer_epoch": -1}):
                yield _request("InitProducerId", version, **body, **who)
    (newest, *_) = variants("InitProducerId", versions)
    short = {"transactional_id": name, "transaction_timeout_ms": SHORT_MS}
    yield _request("InitProducerId", newest, **short)
    if None not in identities:
        yield _request("InitProducerId", newest, transactional_id=None)
    if not identities:
        yield _request("InitProducerId", newest, transactional_id="")
        yield _request("InitProducerId", newest, **short | {"transaction_timeout_ms": 0})
        for field in ("enable_2pc", "keep_prepared_txn") if newest >= TWO_PHASE_FROM else ():
            yield _request("InitProducerId", newest, **short, **{field: True})
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
            body = about | {"partitions": [PARTITION]}
            yield _request("AddPartitionsToTxn", version, **body)
            if api_versions.is_from_broker(version):
                yield _request("AddPartitionsToTxn", version, **body, verify_only=True)
        for result in ("COMMIT", "ABORT"):
            for version in variants("EndTxn", versions):
                yield _request("EndTxn", version, **about, result=result)
    about = {"transactional_id": name, **every[0], "group_id": GROUP}
    for request in ("AddOffsetsToTxn", "TxnOffsetCommit"):
        for version in variants(request, versions):
            yield _request(request, version, **about)


def _batches(
    name: str | None,
    every: Sequence[dict[str, int]],
    sent: Mapping[tuple[int, int], int],
    versions: Versions,
) -> Iterator[Line]:
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
