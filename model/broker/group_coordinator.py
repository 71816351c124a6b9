"""A group coordinator that takes requests: its groups' members and committed offsets.

The rows are those of `spec.groups`. This module has the rest of the broker: the choice of the
protocol, the assignments, the clock, and the requests that wait for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ...spec.groups.tables import DRIVEN, DRIVEN_OFFSETS
from ...spec.releases import api_versions
from ...spec.releases.api_versions import LARGEST
from ...spec.releases.features import KAFKA
from ...spec.releases.group_features import group_coordinator_service, load_error_known
from ..engine.machine import Machine
from .group_messages import (
    Answered,
    Committed,
    Identity,
    JoinGroupResponse,
    SyncGroupResponse,
    offsets_partition,
)

HANDS_OUT_IDS, SKIPS_ASSIGNMENT = 4, 9
"""The first version of JoinGroup whose client handles MEMBER_ID_REQUIRED (KIP-394), and the first
one whose client may skip the assignment (KIP-814)."""
KNOWS_NOT_FOUND = {"OffsetCommit": 9, "TxnOffsetCommit": 6}
"""The first version of each request whose client knows GROUP_ID_NOT_FOUND (KIP-848, KIP-1319)."""
DEFAULT_SESSION_MS = 45_000


@dataclass
class Member:
    """A member of a group: its protocols, its timeouts in ms, and the answer that it waits for."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    session_ms: int
    rebalance_ms: int
    seen_ms: int
    assignment: bytes = b""
    waits_for: str = ""
    """"JoinGroup", "SyncGroup", or "" for no request."""


def _copies(machines: Mapping[Hashable, Machine]) -> dict[Hashable, Machine]:
    return {place: machine.copy() for place, machine in machines.items()}


@dataclass
class Group:
    """A group: the machine that decides, and the choices that the machine leaves open."""

    machine: Machine
    stored: Machine
    """The state that the group's log has."""
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    promised: dict[str, int] = field(default_factory=dict[str, int])
    """The deadline in ms by which a member must join with the id that it was given."""
    protocol_type: str = ""
    protocol: str | None = None
    rebalance_until: int = 0
    offsets: dict[Hashable, Machine] = field(default_factory=dict[Hashable, Machine])
    read: dict[Hashable, Machine] = field(default_factory=dict[Hashable, Machine])
    """The offsets of a coordinator that reads the log."""
    writing: frozenset[Hashable] = frozenset()
    """The partitions whose OffsetCommit is being replicated."""

    def copy(self) -> Group:
        """Another group in the same state."""
        return replace(
            self,
            machine=self.machine.copy(),
            stored=self.stored.copy(),
            members={name: copy(member) for name, member in self.members.items()},
            promised=dict(self.promised),
            offsets=_copies(self.offsets),
            read=_copies(self.read),
        )

    def reload(self) -> None:
        """Sets the group to the state in the log, as a coordinator that starts does."""
        self.machine = self.stored.copy()
        self.offsets = _copies(self.read)
        known = bool(self.offsets) or self.machine["is_known"]
        self.machine.put(is_known=known, pending_members=frozenset())
        self.members = {n: m for n, m in self.members.items() if n in self.machine["members"]}
        self.promised.clear()
        self.writing = frozenset()

    @property
    def successor(self) -> str | None:
        """The member that becomes leader if the leader leaves. It is the oldest other member here;
        Kafka takes the first one by hash."""
        members, leader = self.machine["members"], self.machine["leader"]
        return next((name for name in self.members if name in members - {leader}), None)

    @property
    def status(self) -> str:
        """EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE or STABLE."""
        return self.machine["status"]

    @property
    def is_known(self) -> bool:
        """Whether the group exists: a member joined it, or it has offsets."""
        return self.machine["is_known"]

    def fits(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether all members support one of these protocols (GroupMetadata.supportsProtocols)."""
        wanted = set(protocols)
        if self.status == "EMPTY":
            return bool(protocol_type) and bool(wanted)
        known = [set(member.protocols) for member in self.members.values()]
        return protocol_type == self.protocol_type and bool(wanted.intersection(*known))

    def chosen(self, given: Mapping[str, Mapping[str, bytes]] | None = None) -> str:
        """The protocol that most members name first, of those that all know; some may have
        `given` others (GroupMetadata.selectProtocol)."""
        each = {name: dict(member.protocols) for name, member in self.members.items()}
        each |= {name: dict(protocols) for name, protocols in (given or {}).items()}
        common = set[str].intersection(*map(set, each.values()))
        votes = [next(p for p in protocols if p in common) for protocols in each.values()]
        return max(dict.fromkeys(votes), key=votes.count)

    def joined(
        self, member_id: str, leader: str | None, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        """The answer to a member that has joined this generation."""
        protocol = self.protocol or ""
        members = tuple(
            (each.member_id, each.instance_id, each.protocols.get(protocol, b""))
            for each in (self.members.values() if member_id == leader else ())
        )
        return JoinGroupResponse(
            "NONE", self.machine["generation"], member_id, leader or "", self.protocol_type,
            self.protocol, members, skip_assignment,
        )  # fmt: skip

    def synced(self, member_id: str) -> SyncGroupResponse:
        """The answer to a member of a stable group about its assignment."""
        assignment = self.members[member_id].assignment
        return SyncGroupResponse("NONE", self.protocol_type, self.protocol, assignment)


class GroupCoordinator:
    """A broker that coordinates groups of the classic protocol, without the `consumer` groups of
    KIP-848.

    `protocol` is the release. `now_ms` is the time, which only the caller changes. The other
    parameters are broker settings. Late answers to waiting requests appear in `answered`, from
    which the caller removes them. group.initial.rebalance.delay.ms is 0, and group.max.size has no
    limit.
    """

    def __init__(
        self, *, protocol: str | None = None, now_ms: int = 0,
        group_min_session_timeout_ms: int = 6_000, group_max_session_timeout_ms: int = 1_800_000,
    ) -> None:  # fmt: skip
        settings = {
            "group_min_session_timeout_ms": group_min_session_timeout_ms,
            "group_max_session_timeout_ms": group_max_session_timeout_ms,
        }
        self._blank = Machine(DRIVEN, KAFKA, protocol=protocol, constants=settings)
        self._no_offset = Machine(DRIVEN_OFFSETS, KAFKA, protocol=protocol)
        self.now_ms = now_ms
        self.groups: dict[str, Group] = {}
        self.loading: set[str] = set()
        """The partitions of `__consumer_offsets` that are loading."""
        self.answered: list[Answered] = []
        self._given = 0
        self._made: str | None = None
        """The group that the last TxnOffsetCommit created."""

    def copy(self) -> GroupCoordinator:
        """Another coordinator in the same state."""
        made = copy(self)
        made.groups = {name: group.copy() for name, group in self.groups.items()}
        made.answered, made.loading = list(self.answered), set(self.loading)
        return made

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = Group(self._blank.copy(), self._blank.copy())
            self.groups[group_id] = group
        return group

    def validate(self, request: str, group_id: str) -> str:
        """The error of a request that names this group id, or NONE."""
        return self._blank.handle(
            "validateGroupStatus",
            request=_KINDS.get(request, "OTHER"),
            names_group=bool(group_id),
            is_loading=self.is_loading(group_id),
        ).reply.error

    def told(self, error: str, api_version: int | None) -> str:
        """The error that a client of this version gets for an error of TxnOffsetCommit."""
        older = api_versions.without("TxnOffsetCommit", api_version)
        knows = load_error_known.data.name not in older
        return self._blank.handle(
            "convert TxnOffsetCommit error", error=error, knows_loading=knows
        ).reply.error

    def is_loading(self, group_id: str) -> bool:
        """Whether the group's partition is being read."""
        return bool(self.loading) and offsets_partition(group_id) in self.loading

    # Members ----------------------------------------------------------------------------------

    def join(
        self, group_id: str, member_id: str = "", *, group_instance_id: str | None = None,
        protocol_type: str = "consumer", protocols: Mapping[str, bytes],
        session_timeout_ms: int = DEFAULT_SESSION_MS, rebalance_timeout_ms: int = -1,
        new_member_id: str | None = None, api_version: int | None = None,
    ) -> JoinGroupResponse:  # fmt: skip
        """JoinGroup. `protocols` maps protocol names to the member's metadata, the preferred
        protocol first. `new_member_id` is the id that a member without an id gets."""
        error = self.validate("JoinGroup", group_id)
        if error != "NONE":
            return JoinGroupResponse(error, member_id=member_id)
        group, version = self._group(group_id), LARGEST if api_version is None else api_version
        if not member_id and new_member_id is None:
            self._given += 1
            new_member_id = f"{group_instance_id or 'member'}-{self._given}"
        holder = self._holder(group, group_instance_id)
        own = group.members.get(member_id)
        given, before = dict(protocols), group.status
        answer = group.machine.handle(
            "JoinGroup",
            member=member_id or None,
            instance=group_instance_id,
            new_member=new_member_id or member_id,
            requires_id=version >= HANDS_OUT_IDS,
            session_timeout_ms=session_timeout_ms,
            is_consistent=group.fits(protocol_type, given),
            is_same=own is not None and own.protocols == given,
            keeps_protocol=holder is not None
            and group.fits(protocol_type, given)
            and group.chosen({holder: given}) == group.protocol,
            skips_assignment=version >= SKIPS_ASSIGNMENT,
        ).reply
        name = answer.member or ""
        if answer.error == "MEMBER_ID_REQUIRED":
            group.promised[name] = self.now_ms + session_timeout_ms
        if answer.error != "NONE":
            return JoinGroupResponse(answer.error, member_id=name)
        if name not in group.members:
            replaced = group.members.get(holder) if not member_id and holder else None
            group.members[name] = Member(
                name, group_instance_id, given, session_timeout_ms, 0, self.now_ms,
                b"" if replaced is None else replaced.assignment,
            )  # fmt: skip
        member = group.members[name]
        member.protocols, member.session_ms, member.seen_ms = given, session_timeout_ms, self.now_ms
        member.rebalance_ms = max(rebalance_timeout_ms, 0) or session_timeout_ms
        group.protocol_type = protocol_type
        self._renew(group_id, before, "FENCED_INSTANCE_ID")
        if not answer.waits:
            return group.joined(name, answer.leader, skip_assignment=answer.skip_assignment)
        member.waits_for = "JoinGroup"
        self._go_on(group_id)
        for answered in self.answered:
            if answered[:2] == (group_id, name) and isinstance(
                answered.response, JoinGroupResponse
            ):
                self.answered.remove(answered)
                return answered.response
        return JoinGroupResponse("NONE", member_id=name, waits=True)

    def _holder(self, group: Group, instance_id: str | None) -> str | None:
        found = (m.member_id for m in group.members.values() if m.instance_id == instance_id)
        return None if instance_id is None else next(found, None)

    def _renew(self, group_id: str, before: str, error: str) -> None:
        """Answers waiting requests after an event. Those of removed members get `error`. If a
        rebalance began, SyncGroup requests get REBALANCE_IN_PROGRESS."""
        group = self.groups[group_id]
        there, promised = group.machine["members"], group.machine["pending_members"]
        group.promised = {name: at for name, at in group.promised.items() if name in promised}
        for name in [name for name in group.members if name not in there]:
            self._answers(group_id, group.members.pop(name), error)
        if before == group.status or group.status != "PREPARING_REBALANCE":
            return
        for member in group.members.values():
            if member.waits_for == "SyncGroup":
                self._answers(group_id, member, "REBALANCE_IN_PROGRESS")
        self._wait_longer(group)

    def _wait_longer(self, group: Group) -> None:
        longest = max((member.rebalance_ms for member in group.members.values()), default=0)
        group.rebalance_until = self.now_ms + longest

    def _answers(self, group_id: str, member: Member, error: str) -> None:
        """Answers a member's waiting request with an error."""
        waited, member.waits_for = member.waits_for, ""
        if waited == "JoinGroup":
            response = JoinGroupResponse(error, member_id=member.member_id)
            self.answered.append(Answered(group_id, member.member_id, response))
        elif waited:
            self.answered.append(Answered(group_id, member.member_id, SyncGroupResponse(error)))

    def _go_on(self, group_id: str, *, is_late: bool = False) -> None:
        """Ends the rebalance if all members have joined, or if it `is_late`."""
        group = self.groups[group_id]
        joined, stays = group.machine["awaiting_join"], group.machine["with_instances"]
        candidates = [name for name in group.members if name in joined]
        candidates = candidates or [name for name in group.members if name in stays]
        first = next(iter(candidates), None)
        done = group.machine.attempt("complete join", is_late=is_late, successor=first)
        if done is None:
            return
        self._renew(group_id, group.status, "UNKNOWN_MEMBER_ID")
        if group.status == "PREPARING_REBALANCE":
            self._wait_longer(group)
            return
        if group.status == "EMPTY":
            group.protocol = None
            group.stored = group.machine.copy()
            return
        group.protocol = group.chosen()
        for member in group.members.values():
            if member.waits_for == "JoinGroup":
                response = group.joined(member.member_id, group.machine["leader"])
                self.answered.append(Answered(group_id, member.member_id, response))
            member.waits_for, member.seen_ms = "", self.now_ms

    def sync(
        self, group_id: str, of: Identity, *, assignments: Mapping[str, bytes] | None = None,
        protocol_type: str | None = None, protocol_name: str | None = None,
    ) -> SyncGroupResponse:  # fmt: skip
        """SyncGroup. It waits for the leader's SyncGroup, which has the `assignments` of all
        members."""
        error = self.validate("SyncGroup", group_id)
        if error != "NONE":
            return SyncGroupResponse(error)
        group, before = self._group(group_id), self._group(group_id).status
        names_other = protocol_type not in (None, group.protocol_type)
        names_other |= protocol_name not in (None, group.protocol)
        answer = group.machine.handle(
            "SyncGroup", **of.fields, names_other_protocol=names_other
        ).reply
        if answer.error != "NONE":
            return SyncGroupResponse(answer.error)
        member = group.members[of.member_id]
        member.seen_ms = self.now_ms
        if answer.waits:
            member.waits_for = "SyncGroup"
            return SyncGroupResponse("NONE", waits=True)
        if before != group.status:  # the leader has assigned
            given = assignments or {}
            for each in group.members.values():
                each.assignment, each.seen_ms = given.get(each.member_id, b""), self.now_ms
                if each.waits_for == "SyncGroup":
                    response = group.synced(each.member_id)
                    self.answered.append(Answered(group_id, each.member_id, response))
                    each.waits_for = ""
            group.stored = group.machine.copy()
        return group.synced(of.member_id)

    def heartbeat(self, group_id: str, of: Identity) -> str:
        """Heartbeat; returns the error."""
        error = self.validate("Heartbeat", group_id)
        if error != "NONE" or self.is_loading(group_id):
            return error
        group = self._group(group_id)
        error = group.machine.handle("Heartbeat", **of.fields).reply.error
        if error == "NONE" or group.status == "PREPARING_REBALANCE":
            self._alive(group, of)
        return error

    def _alive(self, group: Group, of: Identity) -> None:
        member = group.members.get(of.member_id)
        if member is not None and of.generation_id == group.machine["generation"]:
            member.seen_ms = self.now_ms

    def leave(
        self, group_id: str, member_id: str = "", *, group_instance_id: str | None = None
    ) -> str:
        """LeaveGroup for one member; returns the error."""
        error = self.validate("LeaveGroup", group_id)
        if error != "NONE":
            return error
        group, before = self._group(group_id), self._group(group_id).status
        of = Identity(member_id, group_instance_id=group_instance_id)
        error = group.machine.handle(
            "LeaveGroup", **of.without_generation, successor=group.successor
        ).reply.error
        self._renew(group_id, before, "UNKNOWN_MEMBER_ID")
        self._go_on(group_id)
        return error

    def expire(self) -> None:
        """Removes members whose session has timed out, and ends rebalances that have timed out."""
        for group_id, group in self.groups.items():
            if self.is_loading(group_id):
                continue
            silent = [m.member_id for m in group.members.values() if not m.waits_for]
            silent = [n for n in silent if self._is_past(group.members[n])]
            late = [name for name, until in group.promised.items() if self.now_ms > until]
            for name in (*silent, *late):
                before = group.status
                group.machine.attempt("session ends", member=name, successor=group.successor)
                self._renew(group_id, before, "UNKNOWN_MEMBER_ID")
            is_late = self.now_ms > group.rebalance_until
            if silent or late or (is_late and group.status == "PREPARING_REBALANCE"):
                self._go_on(group_id, is_late=is_late)

    def _is_past(self, member: Member) -> bool:
        return self.now_ms > member.seen_ms + member.session_ms

    def restart(self) -> None:
        """Restarts the broker: each group has its state in the log, and waiting requests are
        lost."""
        self.answered.clear()
        self.loading.clear()
        for group in self.groups.values():
            self._reload(group)

    def _reload(self, group: Group) -> None:
        group.reload()
        for member in group.members.values():
            member.waits_for, member.seen_ms = "", self.now_ms

    def fail_over(self, partition: str) -> None:
        """Moves a partition of `__consumer_offsets` to another broker, which loads it until
        `end_load`. Waiting requests get NOT_COORDINATOR."""
        self.loading.add(partition)
        for group_id in self._groups_in(partition):
            for member in self.groups[group_id].members.values():
                self._answers(group_id, member, "NOT_COORDINATOR")

    def end_load(self, partition: str) -> None:
        """Ends a partition's load: its groups have their state in the log."""
        if partition in self.loading:
            self.loading.remove(partition)
            for group_id in self._groups_in(partition):
                self._reload(self.groups[group_id])

    def _groups_in(self, partition: str) -> list[str]:
        return [name for name in self.groups if offsets_partition(name) == partition]

    @property
    def takes_markers(self) -> bool:
        """Whether markers are appended to a loading partition, as they are before 4.0."""
        return not self._no_offset.value(group_coordinator_service)

    def delete(self, group_id: str) -> str:
        """DeleteGroups for one group; returns the error."""
        error = self.validate("DeleteGroups", group_id)
        if error != "NONE":
            return error
        error = self._group(group_id).machine.handle("DeleteGroups").reply.error
        if error == "NONE":
            del self.groups[group_id]
        return error

    # Offsets ----------------------------------------------------------------------------------

    def may_commit(self, group_id: str, of: Identity, *, api_version: int | None = None) -> str:
        """The error of an OffsetCommit from this member, or NONE if it may commit."""
        error = self.validate("OffsetCommit", group_id)
        if error != "NONE":
            return error
        group, version = self._group(group_id), LARGEST if api_version is None else api_version
        error = group.machine.handle(
            "OffsetCommit", **of.fields, knows_not_found=version >= KNOWS_NOT_FOUND["OffsetCommit"]
        ).reply.error
        if error == "NONE" and group.status != "EMPTY":
            self._alive(group, of)
        return error

    def may_commit_in_transaction(
        self, group_id: str, of: Identity, *, api_version: int | None = None
    ) -> str:
        """The error of a TxnOffsetCommit from this member, or NONE if it may commit. The caller
        calls `validate` first."""
        version = LARGEST if api_version is None else api_version
        group = self._group(group_id)
        self._made = None if group.is_known else group_id
        return group.machine.handle(
            "TxnOffsetCommit for the group",
            **of.fields,
            knows_not_found=version >= KNOWS_NOT_FOUND["TxnOffsetCommit"],
        ).reply.error

    def writes(self, group_id: str, offsets: Iterable[Hashable]) -> None:
        """Notes that an OffsetCommit of these partitions is in the log and not yet replicated."""
        self._group(group_id).writing |= frozenset(offsets)

    def appended(
        self,
        group_id: str,
        offsets: Mapping[Any, int],
        appended: int,
        producer_id: int | None = None,
    ) -> None:
        """Applies a batch of committed offsets, by partition, that was appended at offset
        `appended`. With a producer id it belongs to that producer's transaction."""
        group = self._group(group_id)
        said: dict[str, Any] = {"appended": appended}
        said |= {} if producer_id is None else {"producer_id": producer_id}
        event = "offset appended" if producer_id is None else "offset of a transaction appended"
        if producer_id is None:
            group.writing -= frozenset(offsets)
        for place, offset in offsets.items():
            for machines in (group.offsets, group.read):
                machine = machines.setdefault(place, self._no_offset.copy())
                machine.handle(event, offset=offset, **said)

    def not_appended(self, group_id: str, offsets: Iterable[Any], producer_id: int) -> None:
        """Undoes offsets of a producer's transaction whose append was refused. From 4.0 on this
        also removes the group if the request created it
        (CoordinatorRuntime.CoordinatorContext.revertLastWrittenOffset)."""
        if self._made == group_id and self._no_offset.value(group_coordinator_service):
            del self.groups[group_id]
            return
        for machine in map(self._group(group_id).offsets.get, offsets):
            if machine is not None:
                machine.handle("offset of a transaction refused", producer_id=producer_id)

    def transaction_ended(self, partition: str, producer_id: int, result: str) -> None:
        """Applies a marker in a partition of `__consumer_offsets`. Pending offsets are completed at
        once."""
        said: dict[str, Any] = {"producer_id": producer_id, "result": result}
        for group_id in self._groups_in(partition):
            group = self.groups[group_id]
            for machine in group.read.values():
                machine.handle("transaction ended", **said, heard="READ")
            for machine in () if partition in self.loading else group.offsets.values():
                machine.handle("transaction ended", **said, heard="REPLICATED")
                machine.attempt("complete pending offsets")

    def fetch(self, group_id: str, place: Hashable, *, require_stable: bool = False) -> Committed:
        """OffsetFetch for one partition."""
        error = self.validate("OffsetFetch", group_id)
        if error != "NONE":
            return Committed(error)
        group = self.groups.get(group_id)
        machine = (group.offsets.get(place) if group else None) or self._no_offset
        is_writing = group is not None and place in group.writing
        answer = machine.handle(
            "OffsetFetch", require_stable=require_stable, is_writing=is_writing
        ).reply
        if answer.committed is None:
            return Committed(answer.error)
        return Committed(answer.error, answer.committed.offset, answer.committed.appended)

    def places(self, group_id: str) -> list[Any]:
        """The partitions for which the group has committed offsets."""
        group = self.groups.get(group_id)
        offsets = group.offsets if group else {}
        return [place for place, machine in offsets.items() if machine["committed"] is not None]

    def forget(self, is_gone: Callable[[Any], bool], group_id: str | None = None) -> None:
        """Removes the offsets of the partitions for which `is_gone` is true, in all groups or in
        one."""
        for name, group in self.groups.items():
            if group_id not in (None, name):
                continue
            for machines in (group.offsets, group.read):
                for place in [place for place in machines if is_gone(place)]:
                    del machines[place]


_KINDS = {
    "JoinGroup": "JOIN_GROUP",
    "SyncGroup": "SYNC_GROUP",
    "Heartbeat": "HEARTBEAT",
    **dict.fromkeys(
        ("OffsetCommit", "OffsetFetch", "DescribeGroups", "DeleteGroups"), "MAY_BE_EMPTY"
    ),
}
