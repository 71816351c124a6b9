"""The local steps of a group's offsets of one partition, as Kafka's coordinator takes them.

From 4.0 on Kafka's OffsetMetadataManager and GroupMetadataManager are state machines: a request
makes records, and their replay changes the state. Before 4.0, GroupCoordinator changes
GroupMetadata after the log's answer. A second coordinator reads the log of the first one.

Rebalances don't run. Instead the group starts with each combination of status, members and static
member. The environment sends every request with every identity, generation and offset in range, and
the markers of three producers. An append succeeds, or the leader refuses it. Before 4.0 its answer
may also come after that of a later record.

Reductions: there are two members, and one of them may have the instance id; places in the log count
from 1; at most two markers wait for their thread. A refused request is sent with one offset.
Versions of a request differ only if the group doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

from .....spec.errors import Errors
from .....spec.groups.offsets import offset_metadata, txn_offset_commit
from .....spec.groups.state import GroupState
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

FIRST_ID: Final = 1000
PRODUCERS: Final = 2
"""The number of producers with pending offsets; markers have one producer more."""
OFFSETS: Final = (0, 2**63 - 1)
LEAST_GENERATION: Final = -(2**31)
STATUSES: Final = tuple(name for name, _ in GroupState.members)
EMPTY, STABLE = 0, 3
_COMMIT, _COMMIT_IN_TRANSACTION, _FETCH, _DELETE, _END, _COMPLETE = range(6)
_APPENDED, _REFUSED, _LATE = range(3)
_HEARD: Final = ("REPLICATED", "READ")
_RESULTS: Final = ("ABORT", "COMMIT")
_CODES: Final = dict(Errors.members)
_commit: Final = offset_metadata.commit.name
_commit_in_transaction: Final = offset_metadata.commit_in_transaction.name
_append: Final = offset_metadata.offset_append.name
_append_in_transaction: Final = offset_metadata.txn_offset_append.name
_refuse: Final = offset_metadata.refuse.name
_complete: Final = txn_offset_commit.complete.name
MOST_COMPLETIONS: Final = 2
OF_THE_CLASS_ALONE: Final = {
    "leaderId, pendingJoinMembers, pendingSyncMembers": "no request about offsets reads them",
    "protocolType, protocolName, supportedProtocols": "no request about offsets reads them",
    "subscribedTopics": "an offset that expires isn't run",
    "leaderEpoch, metadata, commitTimestampMs, expireTimestampMs": "a client's, or for expiry",
    "topicId": "a step has one topic",
    "snapshots": "compared by what they restore",
    "pendingOffsetCommits": "an append is answered in its step; OffsetFetch says whether one waits",
    "receivedTransactionalOffsetCommits, receivedConsumerOffsetCommits": "for a warning",
    "openGroupsForProducer": "compared for producers with a pending offset: before 4.0 a group "
    "that was deleted, or whose offset was refused, stays in it",
}
"""Fields of Kafka's classes that the tables don't have, with the reason."""
ROWS_LEFT_OUT: Final = {
    (_append, "older"): "records are replayed in the order of the log from 4.0 on",
}
"""Rows that don't run, with the reason."""


class Slot(NamedTuple):
    """An offset: whether it is set, its value, and the place of its record in the log."""

    is_set: int = 0
    offset: int = 0
    place: int = 0


class Group(NamedTuple):
    """A group for the host."""

    known: int = 0
    status: int = EMPTY
    generation: int = 0
    members: int = 0
    """A bit for each member."""
    holder: int = -1
    """The member with the instance id."""
    committed: Slot = Slot()
    pending: tuple[Slot, ...] = (Slot(),) * PRODUCERS
    completions: tuple[tuple[int, int], ...] = ()
    """The markers that wait for their thread: for each the producer, and whether it commits."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (self.committed, *self.pending)

    @property
    def end(self) -> int:
        """The place of the next record in the log."""
        return 1 + sum(slot.is_set for slot in self.slots)

    def numbers(self) -> tuple[int, ...]:
        return (*self[:5], *(number for slot in self.slots for number in slot))

    def waiting(self) -> tuple[int, ...]:
        found = [1 + 2 * producer + commits for producer, commits in self.completions]
        return (*found, *(0,) * (MOST_COMPLETIONS - len(found)))


class Identity(NamedTuple):
    """The sender of an offset commit. -1: none; a number that the group doesn't have: an unknown
    one."""

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
    """The local steps of a group's offsets of one partition at one release."""

    name = "group-offsets"
    since = "2.5"
    most = 4_500  # before 4.0 there are more fields
    answers = ("error", "records", "fetched offset", "a reader of the log has the same offsets")
    fields = (
        "(group)", "state", "generationId", "members", "staticMembers",
        *(
            f"{place}{name}"
            for place in ("", "pending of 1000, ", "pending of 1001, ")
            for name in ("(offset)", "committedOffset", "recordOffset")
        ),
        "openTransactions", "(first completion)", "(second completion)",
    )  # fmt: skip
    of_the_class_alone = OF_THE_CLASS_ALONE
    rows_left_out = ROWS_LEFT_OUT

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        tables = (*offset_metadata.MEMBERS_TABLES, *offset_metadata.OFFSETS_TABLES)
        super().__init__(machine or Machine(tables, protocol=protocol))
        features = self.blank.features
        self.by_topic_id = "offsets_by_topic_id" in features
        self.is_service = "group_coordinator_service" in features
        self.completes_later = (
            "completed_by_scheduler" in features and "offsets_in_place_first" not in features
        )
        self.java = "GroupOffsetsSteps" if self.is_service else "GroupCoordinatorSteps"

    def left_out(self, event: str, row: str) -> str | None:
        return super().left_out(event, row) if self.is_service else None

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
        if before.completions:
            yield self._completion(before, start)

    def _commits(
        self, before: Group, start: Machine, of: Identity
    ) -> Iterator[tuple[LocalStep, Group]]:
        versions = (8, 9) if self.is_service and not before.known else (9,)
        ends = (_APPENDED, _REFUSED, _LATE)
        if self.is_service or not before.committed.is_set:
            ends = ends[:_LATE]
        for version, offset, end in product(versions, OFFSETS, ends):
            machine = start.copy()
            taken = machine.handle(_commit, **of.fields, knows_not_found=version >= 9)
            rows = [(_commit, taken.row)]
            error = taken.reply.error
            if error == "NONE" and end == _REFUSED:
                if self.is_service:
                    machine = start.copy()  # the request is undone, with the group that it creates
            elif error == "NONE":
                appended = 0 if end == _LATE else before.end
                outcome = machine.handle(_append, offset=offset, appended=appended)
                rows.append((_append, outcome.row))
            numbers = version, *of, offset, -1, end
            said = f"{_commit}({_shown(of)}, version={version}, offset={offset})"
            said += ("", ", whose append is refused", ", answered after a later record")[end]
            answer = self._answer(error, end), int(error == "NONE"), -1, 1
            yield self._step(_COMMIT, numbers, said, before, start, machine, answer, *rows)
            if error != "NONE":
                return

    def _answer(self, error: str, end: int) -> int:
        """The client's error. From 4.0 on another class answers for a refused append."""
        is_refused = error == "NONE" and end == _REFUSED and not self.is_service
        return _CODES["COORDINATOR_NOT_AVAILABLE" if is_refused else error]

    def _commits_in_transaction(
        self, before: Group, start: Machine, of: Identity
    ) -> Iterator[tuple[LocalStep, Group]]:
        versions = (5, 6) if self.by_topic_id and not before.known else (5,)
        for version, producer, offset, end in product(
            versions, range(PRODUCERS), OFFSETS, (_APPENDED, _REFUSED)
        ):
            machine = start.copy()
            taken = machine.handle(
                _commit_in_transaction, **of.fields, knows_not_found=version >= 6
            )
            rows = [(_commit_in_transaction, taken.row)]
            error, producer_id = taken.reply.error, FIRST_ID + producer
            if error == "NONE" and end == _REFUSED:
                outcome = machine.handle(_refuse, producer_id=producer_id)
                rows.append((_refuse, outcome.row))
                if self.is_service:
                    machine.put(is_known=bool(before.known))  # the check is also undone
            elif error == "NONE":
                outcome = machine.handle(
                    _append_in_transaction,
                    producer_id=producer_id,
                    offset=offset,
                    appended=before.end,
                )
                rows.append((_append_in_transaction, outcome.row))
            numbers = version, *of, offset, producer, end
            said = (
                f"{_commit_in_transaction}({_shown(of)}, version={version}, offset={offset}, "
                f"producer_id={producer_id})"
            )
            said += ", whose append is refused" if end else ""
            # before 4.0 a refusal drops an offset that is in the log
            drops = rows[-1][0] == _refuse and not self.is_service
            drops = drops and bool(before.pending[producer].is_set)
            answer = self._answer(error, end), int(error == "NONE"), -1, int(not drops)
            yield self._step(
                _COMMIT_IN_TRANSACTION, numbers, said, before, start, machine, answer, *rows
            )
            if error != "NONE":
                return

    def _fetches(self, before: Group, start: Machine) -> Iterator[tuple[LocalStep, Group]]:
        name = offset_metadata.fetch.name
        ways = [(False, False), (False, True), (True, False)]
        if before.known and not self.is_service:
            ways.append((True, True))
        for stable, writing in ways:
            machine = start.copy()
            outcome = machine.handle(name, require_stable=stable, is_writing=writing)
            found = outcome.reply.committed
            numbers = 8, -1, -1, -1, OFFSETS[1] - 1, -1, int(stable), int(writing)
            said = f"{name}(require_stable={stable}, is_writing={writing})"
            fetched = -1 if found is None else found.offset
            answer = _CODES[outcome.reply.error], 0, fetched, 1
            yield self._step(
                _FETCH, numbers, said, before, start, machine, answer, (name, outcome.row)
            )

    def _deletion(self, before: Group, start: Machine) -> tuple[LocalStep, Group]:
        name = offset_metadata.delete.name
        machine = start.copy()
        outcome = machine.handle(name)
        if outcome.reply.error == "NONE":  # each offset has its own machine
            machine = self._machine(Group(completions=before.completions))
        # before 4.0 the log keeps pending offsets of a group that is deleted
        keeps = (
            not self.is_service
            and outcome.reply.error == "NONE"
            and any(slot.is_set for slot in before.pending)
        )
        answer = _CODES[outcome.reply.error], None, -1, int(not keeps)
        numbers = 2, -1, -1, -1, 0, -1, 0
        return self._step(
            _DELETE, numbers, name, before, start, machine, answer, (name, outcome.row)
        )

    def _markers(self, before: Group, start: Machine) -> Iterator[tuple[LocalStep, Group]]:
        name = offset_metadata.end.name
        for producer, commits, heard in product(
            range(PRODUCERS + 1), (False, True), range(len(_HEARD))
        ):
            is_read = _HEARD[heard] == "READ"
            if is_read and (not before.known or before.completions):
                continue
            if self.completes_later and len(before.completions) == MOST_COMPLETIONS:
                continue
            machine = start.copy()
            result, producer_id = _RESULTS[commits], FIRST_ID + producer
            outcome = machine.handle(
                name, producer_id=producer_id, result=result, heard=_HEARD[heard]
            )
            numbers = 0, -1, -1, -1, 0, producer, int(commits), heard
            said = f"{name}(producer_id={producer_id}, {result}, {_HEARD[heard]})"
            answer = 0, 0, -1, 1
            step, after = self._step(
                _END, numbers, said, before, start, machine, answer, (name, outcome.row)
            )
            yield (step if self.is_service or not is_read else _loaded(step, before)), after

    def _completion(self, before: Group, start: Machine) -> tuple[LocalStep, Group]:
        machine = start.copy()
        outcome = machine.handle(_complete)
        answer = 0, 0, -1, 1
        numbers = 0, -1, -1, -1, 0, -1, 0
        return self._step(
            _COMPLETE, numbers, _complete, before, start, machine, answer, (_complete, outcome.row)
        )

    def _step(
        self, operation: int, numbers: tuple[int, ...], said: str, before: Group, start: Machine,
        machine: Machine, answer: tuple[int | None, ...], *rows: tuple[str, str],
    ) -> tuple[LocalStep, Group]:  # fmt: skip
        after = before if machine.is_as(start) else self._group(machine)
        expected, canonical = _expected(after)
        if before.completions or after.completions:  # a reader of the log has completed them
            answer = (*answer[:-1], None)
        given = operation, *numbers, *(0,) * (8 - len(numbers)), *_given(before)
        return LocalStep(given, answer, expected, rows, said), canonical

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
            completions=[
                {"producer_id": FIRST_ID + producer, "result": _RESULTS[commits]}
                for producer, commits in before.completions
            ],
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
            tuple(
                (each.producer_id - FIRST_ID, _RESULTS.index(each.result))
                for each in machine["completions"]
            ),
        )


def _record(slot: Slot) -> dict[str, int] | None:
    return {"offset": slot.offset, "appended": slot.place} if slot.is_set else None


def _slot(record: Any) -> Slot:
    return Slot() if record is None else Slot(1, record.offset, record.appended)


def _shown(of: Identity) -> str:
    return ", ".join(f"{name}={value}" for name, value in of.fields.items() if value is not None)


def _loaded(step: LocalStep, before: Group) -> LocalStep:
    """The step without the fields that a load before 4.0 doesn't restore: the status, and a group
    without a record."""
    after = list(step.after)
    after[1] = None
    if not before.members and not before.generation:
        after[:5] = (None,) * 5
    return step._replace(after=tuple(after))


@cache
def _given(before: Group) -> tuple[int, ...]:
    """The state before a step, as numbers."""
    return (*before.numbers(), before.end, *before.waiting())


@cache
def _expected(after: Group) -> tuple[tuple[int | None, ...], Group]:
    """The state after a step, as numbers, and its canonical state."""
    expected: list[int | None] = list(after.numbers())
    if not after.known:
        expected[1:5] = (None,) * 4
    for at, slot in enumerate(after.slots):
        if not slot.is_set:
            expected[6 + 3 * at : 8 + 3 * at] = None, None
    is_open = sum(slot.is_set << at for at, slot in enumerate(after.pending))
    return (*expected, is_open, *after.waiting()), _canonical(after)


def _canonical(at: Group) -> Group:
    """The canonical state: the log has only the records of its offsets."""
    places = [0, *sorted(slot.place for slot in at.slots if slot.is_set)]
    committed, *pending = (
        slot._replace(place=places.index(slot.place)) if slot.is_set else slot for slot in at.slots
    )
    return at._replace(committed=committed, pending=tuple(pending))
