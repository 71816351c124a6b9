"""The rows of a coordinator and a leader by classes of arguments, each with a run that reaches it.

The search starts with the sequences of requests from
`model.conformance.live.suites.directed_suite`. It continues from their states with events that no
request causes: a failed append, a failover, a second request between two steps of another one, a
missing producer id, a long time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from random import Random
from typing import Any, Final, NamedTuple

from ....language.types import Bool, Enum, Int, Key, Optional, Set, Type
from ....spec.releases import api_versions
from ....spec.releases.features import KAFKA, expected_epoch, strict_marker_epoch, verification
from ...cluster import Cluster, offsets_partition
from ...engine.errors import ModelError
from ...engine.machine import Machine, Taken, noted, watched
from ...requests import answer
from ..live.suites.directed_suite import (
    GROUP,
    PARTITION,
    USUAL_MS,
    Line,
    Node,
    Versions,
    existing,
    moves,
    shape,
    ways,
)
from ..possible_states import RowName

STEPS: Final = 5_000
"""The number of tried requests of the first part. More requests find only one more row."""
EVENTS: Final = {"coordinator": 10_000, "transaction": 150_000, "partition": 10_000}
"""The number of tried events of the second part, for each machine."""
CHOICES: Final = 100
"""The number of tried arguments for one event in one state."""
FAR_MS: Final = 10**10
"""A time in ms at which everything has expired."""
OF_MACHINES: Final = {"coordinator": ("coordinator", "transaction"), "leader": ("partition",)}
"""The machines of a coordinator and of a leader."""
ERRORS: Final = (
    "NONE",
    "NOT_LEADER_OR_FOLLOWER",
    "INVALID_PRODUCER_EPOCH",
    "CORRUPT_MESSAGE",
    "CONCURRENT_TRANSACTIONS",
    "NOT_COORDINATOR",
)
"""The answers of a log, a leader or a coordinator: success, retriable errors, fatal errors, and
others."""
OUTSIDE: Final = {"clock__now": (FAR_MS,), "producer_id_manager__offered_id": (7, None)}
"""More values of the fields that rows read from other machines."""
FROM_OUTSIDE: Final = ("Produce", "WriteTxnMarkers")
"""Events that only the first part sends."""
WHO: Final = ("producer", "connection")
"""The fields that name the sender of a request."""


class Event(NamedTuple):
    """An event of a machine: the features that it lacks, its arguments, and the fields of other
    machines."""

    name: str
    without: tuple[str, ...]
    arguments: Mapping[str, Any]
    outside: Mapping[str, Any]

    def happens(self, machine: Machine) -> tuple[Any, ...] | None:
        """Applies the event. Returns its messages, or None if it can't happen."""
        machine.outside(**self.outside)
        outcome = machine.attempt(self.name, switch_off=self.without, **self.arguments)
        return None if outcome is None else outcome.sent


@dataclass(frozen=True)
class Run:
    """A run to a state: requests one after another, each answered and settled, then events of the
    machine named `of` (a transactional id, a partition)."""

    requests: tuple[Line, ...]
    of: str
    events: tuple[Event, ...] = ()

    def then(self, event: Event) -> Run:
        """The run with one more event."""
        return Run(self.requests, self.of, (*self.events, event))


@dataclass
class Found:
    """A row with one class of arguments. If a request causes the event, `request` has it, with its
    response. `run` is None if no run of the machine alone reaches the state before."""

    row: RowName
    kind: dict[str, str]
    before: Machine
    event: Event
    requests: tuple[Line, ...]
    run: Run | None
    request: Line | None = None
    response: Mapping[str, Any] | None = None


def versions_at(protocol: str) -> Versions:
    """The versions of requests that differ at a release."""
    features = KAFKA.features_at(protocol)
    found = {name: (0, api_versions.newest(name, features)) for name in api_versions.COUNTS}
    if expected_epoch.data.name in features:
        found["InitProducerId"] = (0, max(found["InitProducerId"][1], 3))
    if verification.data.name in features:
        found["AddPartitionsToTxn"] = (0, api_versions.OF_BROKERS)
    tells = strict_marker_epoch.data.name in features
    found["WriteTxnMarkers"] = (0, api_versions.MARKERS_TELL_VERSION if tells else 1)
    found["DescribeTransactions"] = (0, 0)
    return found


def first(protocol: str) -> Cluster:
    """A new cluster."""
    cluster = Cluster(protocol=protocol, holds_markers=True)
    for partition in (PARTITION, offsets_partition(GROUP)):
        cluster.leader(partition)
    return cluster


def machines(cluster: Cluster) -> dict[str, Machine]:
    """The machines of a cluster by name."""
    found = {f"partition {name}": leader.machine for name, leader in cluster.leaders.items()}
    found["coordinator"] = cluster.coordinator.owner
    found |= {f"id {name}": entry for name, entry in cluster.coordinator.entries.items()}
    if not cluster.coordinator.entries:
        found["new id"] = cluster.coordinator.new_entry(USUAL_MS)
    return found


def after(protocol: str, requests: tuple[Line, ...]) -> Node | None:
    """The state after requests that are sent and settled one after another."""
    node = Node(first(protocol))
    for line in requests:
        went = node.after(line)
        if went is None:
            return None
        node = went[0]
        node.settle()
    return node


class Search:
    """The search at a release. `found` has the results by row and class, `rows` all rows."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.versions = versions_at(protocol)
        self.rows = sorted(existing(Cluster(protocol=protocol), self.versions))
        self.found: dict[tuple[RowName, str], Found] = {}
        self._begun: dict[Any, tuple[Machine, Run]] = {}
        self._outcomes: set[tuple[Any, ...]] = set()
        self._seen: dict[str, dict[str, dict[Any, None]]] = {}
        self._from_outside()
        self._beside()
        there = {*self.rows}
        self.found = {key: one for key, one in self.found.items() if one.row in there}

    # From outside -----------------------------------------------------------------------------

    def _from_outside(self) -> None:
        """Sends every possible request in each state of the directed suite's ways."""
        every = ways(self.protocol, None, self.versions, steps=STEPS, restarts=True).values()
        states = {
            json.dumps(way.lines[:length]): way.lines[:length]
            for way in every
            for length in range(len(way.lines) + 1)
        }
        for _, requests in sorted(states.items(), key=lambda each: (len(each[1]), each[0])):
            node = after(self.protocol, requests)
            if node is None:
                continue
            for line in (
                *moves(node.told, node.sent, len(requests), self.versions),
                {"restart": True},
            ):
                self._ask(node, requests, line)

    def _ask(self, node: Node, requests: tuple[Line, ...], line: Line) -> None:
        cluster, ids = node.cluster.copy(), iter(range(node.ids, node.ids + 100))
        cluster.coordinator.producer_ids = lambda: next(ids)
        before = machines(node.cluster)
        with watched() as taken:
            try:
                answered = answer(cluster, line)
                of_request = len(taken)
                cluster.deliver_markers()
            except ModelError:
                return
        for at, one in enumerate(taken):
            self._keep(
                taken[: at + 1], requests, before, line, answered if at < of_request else None
            )
            for name, value in one.fields.items():
                known = self._seen.setdefault(one.table.on.name, {}).setdefault(name, {})
                known.setdefault(value)

    def _keep(
        self, taken: list[Taken], requests: tuple[Line, ...], before: Mapping[str, Machine],
        line: Line, answered: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        one = taken[-1]
        name, event = one.table.machine.name, _event(one)
        row = RowName.of(one.table, one.row)
        kind = kind_of(one.machine, event)
        if (row, _key(event, kind, one.sent)) in self.found:
            return
        own = [_event(each) for each in taken[:-1] if each.table.machine.name == name]
        run = _run(one.machine, requests, before, own)
        if run is not None:
            self._begun.setdefault((name, shape(one.machine)), (one.machine.copy(), run))
        found = Found(row, kind, one.machine, event, requests, run)
        if answered is not None:
            found.request, found.response = line, answered
        self.found.setdefault((row, _key(event, kind, one.sent)), found)

    # Beside them ------------------------------------------------------------------------------

    def _beside(self) -> None:
        """Tries all events in each of these states, and in the states after them."""
        for machine in chain(*OF_MACHINES.values()):
            begun = [each for (of, _), each in self._begun.items() if of == machine]
            self._go_on(sorted(begun, key=lambda each: len(each[1].requests)), EVENTS[machine])

    def _go_on(self, waiting: list[tuple[Machine, Run]], left: int) -> None:
        seen = {shape(machine) for machine, _ in waiting}
        while waiting and left > 0:
            following: list[tuple[Machine, Run]] = []
            for machine, run in waiting:
                for event in self._events(machine) if left > 0 else ():
                    left -= 1
                    made = self._event(machine, run, event)
                    if made is None or made.is_as(machine):
                        continue
                    key = shape(made)
                    if key not in seen:
                        seen.add(key)
                        following.append((made, run.then(event)))
            waiting = following

    def _event(self, machine: Machine, run: Run, event: Event) -> Machine | None:
        made = machine.copy()
        with noted() as taken:
            try:
                sent = event.happens(made)
            except ModelError:
                return None
        for one in taken:
            row = RowName.of(*one)
            outcome = (row, event.without, *(getattr(each, "error", None) for each in sent or ()))
            if outcome in self._outcomes:
                continue
            self._outcomes.add(outcome)
            before = machine.copy()
            before.outside(**event.outside)
            kind = kind_of(machine, event)
            found = Found(row, kind, before, event, run.requests, run)
            self.found.setdefault((row, _key(event, kind, sent or ())), found)
        return made if taken else None

    def _events(self, machine: Machine) -> Iterator[Event]:
        """The events that a machine can take, right or wrong."""
        outside = _outside(machine)
        older = api_versions.VERSION_1
        offs = ((), older) if older[0] in machine.features else ((),)
        for name in machine.events:
            if name in FROM_OUTSIDE:
                continue
            kinds = machine.fields_of(name)
            known = self._seen.get(name, {})
            domains = [_domain(n, kind, machine, known.get(n, {})) for n, kind in kinds.items()]
            for values in _choices(domains):
                arguments = dict(zip(kinds, values, strict=True))
                for off, around in product(offs, outside):
                    yield Event(name, off, arguments, around)


def _choices(domains: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """All combinations of one value from each domain, or `CHOICES` random ones with a fixed
    seed."""
    if prod(map(len, domains)) <= CHOICES:
        yield from product(*domains)
        return
    draw = Random(0)
    for _ in range(CHOICES):
        yield tuple(draw.choice(values) for values in domains)


def _event(one: Taken) -> Event:
    around = {name: one.machine.seen_outside(name) for name in OUTSIDE if one.machine.sees(name)}
    return Event(one.table.on.name, one.switch_off, dict(one.fields), around)


def _run(
    machine: Machine, requests: tuple[Line, ...], before: Mapping[str, Machine], own: list[Event]
) -> Run | None:
    """A run of only the machine's events to its present state, if there is one."""
    for of, begun in before.items():
        if begun.tables[0].machine is machine.tables[0].machine:
            made = begun.copy()
            try:
                reached = all(event.happens(made) is not None for event in own)
            except ModelError:
                continue
            if reached and made.is_as(machine):
                return Run(requests, of, tuple(own))
    return None


def _outside(machine: Machine) -> list[dict[str, Any]]:
    choices: dict[str, list[Any]] = {}
    for name, others in OUTSIDE.items():
        if machine.sees(name):
            choices[name] = [*dict.fromkeys((machine.seen_outside(name), *others))]
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def _domain(name: str, kind: Type, machine: Machine, known: Mapping[Any, None]) -> list[Any]:
    """The tried values of an argument. For numbers these are the machine's own value and its
    neighbours."""
    match kind:
        case Bool():
            return [False, True]
        case Enum():
            return list(kind.names) if len(kind.names) <= len(ERRORS) * 2 else list(ERRORS)
        case Optional():
            return [None, *_domain(name, kind.of, machine, known)]
        case Set():
            return [*known][:1] or [frozenset((PARTITION,))]
        case Int() | Key():
            if name in (*WHO, "broker"):
                return [0]
            own = own_number(machine, name, {})
            if own is not None:
                return [own, own + 1, *([own - 1] if own > 0 else [])]
            keys = machine.keys("producers") if name == "producer_id" else ()
            return [*dict.fromkeys((*keys[:2], *[*known][:2], 7))]
        case _:
            return [*known][:2]


# Classes ------------------------------------------------------------------------------------------


def own_number(machine: Machine, name: str, arguments: Mapping[str, Any]) -> int | None:
    """The machine's number that an argument is compared with: the field of the same name, or that
    of the producer's entry."""
    own = {"expected_id": "producer_id", "expected_epoch": "producer_epoch"}.get(name, name)
    names = machine.names
    if own in names and type(value := machine[own]) is int:
        return value
    producer_id = arguments.get("producer_id")
    if "producers" not in names or producer_id not in machine.keys("producers"):
        return None
    known = machine.at("producers", producer_id)
    if own == "base_sequence":
        return known.batch_metadata[-1].last_sequence + 1 if known.batch_metadata else 0
    value = getattr(known, own, None)
    return value if type(value) is int else None


def kind_of(machine: Machine, event: Event) -> dict[str, str]:
    """The class of an event's arguments: Booleans and names are kept, and numbers are replaced by
    their relation to the machine's own."""
    found: dict[str, str] = {}
    for name, value in event.arguments.items():
        own = own_number(machine, name, event.arguments)
        if isinstance(value, (bool, str)) and name != "partition":
            found[name] = str(value).lower() if isinstance(value, bool) else value
        elif value is None:
            found[name] = "none"
        elif type(value) is int and own is not None and name not in WHO:
            found[name] = _compared(value - own)
    return found


def _compared(difference: int) -> str:
    if abs(difference) > 1:
        return "more" if difference > 0 else "less"
    return ("one less", "equal", "one more")[difference + 1]


def _key(event: Event, kind: Mapping[str, str], sent: tuple[Any, ...]) -> str:
    errors = [getattr(message, "error", None) for message in sent]
    return json.dumps([event.without, kind, errors])
