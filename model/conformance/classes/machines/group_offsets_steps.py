"""The local steps of a group's offsets of one partition, as Kafka's coordinator takes them.

Kafka's OffsetMetadataManager and GroupMetadataManager are state machines: a request makes records,
whose replay changes the state. A second coordinator reads the log that the first one has written.

The group has each combination of status, members and static member at the start, as rebalances
aren't run. Its environment sends every request with every identity, generation and offset in range,
and the markers of three producers. An append takes place, or the leader refuses it.

Reductions: two members, of which one may have the instance id; places in the log are numbered from
0. A request that gets an error has one offset, and versions of a request differ only where the
group doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

from .....spec.errors import Errors
from .....spec.groups import offset_metadata
from .....spec.groups.state import GroupState
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

FIRST_ID: Final = 1000
PRODUCERS: Final = 2
"""Producers whose offsets may be pending; markers have one more."""
OFFSETS: Final = (0, 2**63 - 1)
LEAST_GENERATION: Final = -(2**31)
STATUSES: Final = tuple(name for name, _ in GroupState.members)
EMPTY, STABLE = 0, 3
_COMMIT, _COMMIT_IN_TRANSACTION, _FETCH, _DELETE, _END = range(5)
_HEARD: Final = ("REPLICATED", "READ")
_CODES: Final = dict(Errors.members)
_commit: Final = offset_metadata.commit.name
_commit_in_transaction: Final = offset_metadata.commit_in_transaction.name
_append: Final = offset_metadata.offset_append.name
_append_in_transaction: Final = offset_metadata.txn_offset_append.name
_refuse: Final = offset_metadata.refuse.name
OF_THE_CLASS_ALONE: Final = {
    "leaderId, pendingJoinMembers, pendingSyncMembers": "no request about offsets reads them",
    "protocolType, protocolName, supportedProtocols": "no request about offsets reads them",
    "subscribedTopics": "an offset that expires isn't run",
    "leaderEpoch, metadata, commitTimestampMs, expireTimestampMs": "a client's, or for expiry",
    "topicId": "a step has one topic",
    "snapshots": "compared by what they restore",
}
"""Fields of Kafka's classes alone, with the reason."""
ROWS_LEFT_OUT: Final = {
    (_append, "older"): "records are replayed in the order of the log from 4.0 on",
}
"""Rows that don't run, with the reason."""


class Slot(NamedTuple):
    """An offset: whether it is there, and where its record is in the log."""

    is_set: int = 0
    offset: int = 0
    place: int = 0


class Group(NamedTuple):
    """A group as it goes to the host."""

    known: int = 0
    status: int = EMPTY
    generation: int = 0
    members: int = 0
    """A bit for each."""
    holder: int = -1
    """The member with the instance id."""
    committed: Slot = Slot()
    pending: tuple[Slot, ...] = (Slot(),) * PRODUCERS

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (self.committed, *self.pending)

    @property
    def end(self) -> int:
        """The place of the next record in the log."""
        return sum(slot.is_set for slot in self.slots)

    def numbers(self) -> tuple[int, ...]:
        return (*self[:5], *(number for slot in self.slots for number in slot))


class Identity(NamedTuple):
    """Who commits an offset: -1 for none, a number that the group doesn't know for another one."""

    member: int
    instance: int
    generation: int

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "member": None if self.member < 0 else self.member,
            "instance": None if self.instance < 0 else self.instance,
            "generation": self.generation,
        }


def _seeds() -> Iterator[Group]:
    yield Group()
    yield Group(known=1)
    yield Group(known=1, generation=1)
    for status in range(1, STABLE + 1):
        for members in (0, 1, 2, 3):
            if not members and STATUSES[status] != "PREPARING_REBALANCE":
                continue
            for holder in (-1, 0, 1):
                if holder < 0 or members >> holder & 1:
                    yield Group(1, status, 1, members, holder)


class GroupOffsets(LocalSteps):
    """The local steps of a group's offsets of one partition at one release, from 4.0 on."""

    name = "group-offsets"
    java = "GroupOffsetsSteps"
    since = "4.0.0"
    answers = ("error", "records", "fetched offset", "a reader of the log has the same offsets")
    fields = (
        "(group)", "state", "generationId", "members", "staticMembers",
        *(
            f"{place}{name}"
            for place in ("", "pending of 1000, ", "pending of 1001, ")
            for name in ("(offset)", "committedOffset", "recordOffset")
        ),
        "openTransactions",
    )  # fmt: skip
    of_the_class_alone = OF_THE_CLASS_ALONE
    rows_left_out = ROWS_LEFT_OUT

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        tables = (*offset_metadata.MEMBERS_TABLES, *offset_metadata.OFFSETS_TABLES)
        super().__init__(machine or Machine(tables, protocol=protocol))
        self.by_topic_id = "offsets_by_topic_id" in self.blank.features

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return breadth_first(_seeds(), self._steps_of, most)

    def _steps_of(self, before: Group) -> Iterator[tuple[LocalStep, Group]]:
        start = self._machine(before)
        around = {LEAST_GENERATION, -1, 0, before.generation, before.generation + 1}
        for identity in map(Identity._make, product((-1, 0, 1, 2), (-1, 0, 1), sorted(around))):
            yield from self._commits(before, start, identity)
            yield from self._commits_in_transaction(before, start, identity)
        yield from self._fetches(before, start)
        yield self._deletion(before, start)
        yield from self._markers(before, start)

    def _commits(
        self, before: Group, start: Machine, of: Identity
    ) -> Iterator[tuple[LocalStep, Group]]:
        versions = (9,) if before.known else (8, 9)
        for version, offset, refused in product(versions, OFFSETS, (False, True)):
            machine = start.copy()
            taken = machine.handle(_commit, **of.fields, knows_not_found=version >= 9)
            rows = [(_commit, taken.row)]
            error = taken.reply.error
            if error == "NONE" and refused:
                machine = start.copy()  # the request is undone, and with it the group it makes
            elif error == "NONE":
                outcome = machine.handle(_append, offset=offset, appended=before.end)
                rows.append((_append, outcome.row))
            numbers = version, *of, offset, -1, int(refused)
            said = f"{_commit}({_shown(of)}, version={version}, offset={offset})"
            said += ", whose append is refused" if refused else ""
            answer = _CODES[error], int(error == "NONE"), -1, 1
            yield self._step(_COMMIT, numbers, said, before, machine, answer, *rows)
            if error != "NONE":
                return

    def _commits_in_transaction(
        self, before: Group, start: Machine, of: Identity
    ) -> Iterator[tuple[LocalStep, Group]]:
        versions = (5, 6) if self.by_topic_id and not before.known else (5,)
        for version, producer, offset, refused in product(
            versions, range(PRODUCERS), OFFSETS, (False, True)
        ):
            machine = start.copy()
            taken = machine.handle(
                _commit_in_transaction, **of.fields, knows_not_found=version >= 6
            )
            rows = [(_commit_in_transaction, taken.row)]
            error, producer_id = taken.reply.error, FIRST_ID + producer
            if error == "NONE" and refused:
                outcome = machine.handle(_refuse, producer_id=producer_id)
                rows.append((_refuse, outcome.row))
                machine.put(is_known=bool(before.known))  # the check is undone, too
            elif error == "NONE":
                outcome = machine.handle(
                    _append_in_transaction,
                    producer_id=producer_id,
                    offset=offset,
                    appended=before.end,
                )
                rows.append((_append_in_transaction, outcome.row))
            numbers = version, *of, offset, producer, int(refused)
            said = (
                f"{_commit_in_transaction}({_shown(of)}, version={version}, offset={offset}, "
                f"producer_id={producer_id})"
            )
            said += ", whose append is refused" if refused else ""
            answer = _CODES[error], int(error == "NONE"), -1, 1
            yield self._step(_COMMIT_IN_TRANSACTION, numbers, said, before, machine, answer, *rows)
            if error != "NONE":
                return

    def _fetches(self, before: Group, start: Machine) -> Iterator[tuple[LocalStep, Group]]:
        name = offset_metadata.fetch.name
        for stable, writing in ((False, False), (False, True), (True, False)):
            machine = start.copy()
            outcome = machine.handle(name, require_stable=stable, is_writing=writing)
            found = outcome.reply.committed
            numbers = 8, -1, -1, -1, OFFSETS[1] - 1, -1, int(stable), int(writing)
            said = f"{name}(require_stable={stable}, is_writing={writing})"
            fetched = -1 if found is None else found.offset
            answer = _CODES[outcome.reply.error], 0, fetched, 1
            yield self._step(_FETCH, numbers, said, before, machine, answer, (name, outcome.row))

    def _deletion(self, before: Group, start: Machine) -> tuple[LocalStep, Group]:
        name = offset_metadata.delete.name
        machine = start.copy()
        outcome = machine.handle(name)
        if outcome.reply.error == "NONE":  # its offsets are machines of their own
            machine = self.blank.copy()
        answer = _CODES[outcome.reply.error], None, -1, 1
        numbers = 2, -1, -1, -1, 0, -1, 0
        return self._step(_DELETE, numbers, name, before, machine, answer, (name, outcome.row))

    def _markers(self, before: Group, start: Machine) -> Iterator[tuple[LocalStep, Group]]:
        name = offset_metadata.end.name
        for producer, commits, heard in product(
            range(PRODUCERS + 1), (False, True), range(len(_HEARD))
        ):
            if _HEARD[heard] == "READ" and not (before.known or before.end):
                continue
            machine = start.copy()
            result, producer_id = "COMMIT" if commits else "ABORT", FIRST_ID + producer
            outcome = machine.handle(
                name, producer_id=producer_id, result=result, heard=_HEARD[heard]
            )
            numbers = 0, -1, -1, -1, 0, producer, int(commits), heard
            said = f"{name}(producer_id={producer_id}, {result}, {_HEARD[heard]})"
            answer = 0, 0, -1, 1
            yield self._step(_END, numbers, said, before, machine, answer, (name, outcome.row))

    def _step(
        self, operation: int, numbers: tuple[int, ...], said: str, before: Group, machine: Machine,
        answer: tuple[int | None, ...], *rows: tuple[str, str],
    ) -> tuple[LocalStep, Group]:  # fmt: skip
        after = self._group(machine)
        expected: list[int | None] = list(after.numbers())
        if not after.known:
            expected[1:5] = (None,) * 4
        for at, slot in enumerate(after.slots):
            if not slot.is_set:
                expected[6 + 3 * at : 8 + 3 * at] = None, None
        expected.append(sum(slot.is_set << at for at, slot in enumerate(after.pending)))
        given = operation, *numbers, *(0,) * (8 - len(numbers)), *before.numbers(), before.end
        step = LocalStep(given, answer, tuple(expected), rows, said)
        return step, _canonical(after)

    def _machine(self, before: Group) -> Machine:
        machine = self.blank.copy()
        members = frozenset(at for at in range(2) if before.members >> at & 1)
        held = before.holder >= 0
        machine.put(
            is_known=bool(before.known),
            status=STATUSES[before.status],
            generation=before.generation,
            members=members,
            static_members={0: before.holder} if held else {},
            with_instances=frozenset({before.holder} if held else ()),
            committed=_record(before.committed),
            pending={
                FIRST_ID + at: _record(slot)
                for at, slot in enumerate(before.pending)
                if slot.is_set
            },
        )
        return machine

    def _group(self, machine: Machine) -> Group:
        members = machine["members"]
        holder = machine.at("static_members", 0)
        return Group(
            int(machine["is_known"]),
            STATUSES.index(machine["status"]),
            machine["generation"],
            sum(1 << member for member in members),
            holder if holder in members else -1,
            _slot(machine["committed"]),
            tuple(_slot(machine.at("pending", FIRST_ID + at)) for at in range(PRODUCERS)),
        )


def _record(slot: Slot) -> dict[str, int] | None:
    return {"offset": slot.offset, "appended": slot.place} if slot.is_set else None


def _slot(record: Any) -> Slot:
    return Slot() if record is None else Slot(1, record.offset, record.appended)


def _shown(of: Identity) -> str:
    return ", ".join(f"{name}={value}" for name, value in of.fields.items() if value is not None)


def _canonical(at: Group) -> Group:
    """The state that stands for this one: the log has its offsets' records alone."""
    places = sorted(slot.place for slot in at.slots if slot.is_set)
    committed, *pending = (
        slot._replace(place=places.index(slot.place)) if slot.is_set else slot for slot in at.slots
    )
    return at._replace(committed=committed, pending=tuple(pending))
