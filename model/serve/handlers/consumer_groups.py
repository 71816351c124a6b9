"""Consumer groups whose coordinator assigns partitions (KIP-848): ConsumerGroupHeartbeat and
ConsumerGroupDescribe.

It is a substitute: the tables have only the older protocol. Source: GroupMetadataManager
.consumerGroupHeartbeat, CurrentAssignmentBuilder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from ...broker.group_messages import Identity
from ...cluster import Cluster
from ...wire.listener import Answer, Request
from .authorized import NOT_ASKED, operations
from .groups import GroupApis
from .partitions import Partitions

HEARTBEAT_MS, SESSION_MS = 5_000, 45_000
"""The defaults of group.consumer.heartbeat.interval.ms and group.consumer.session.timeout.ms."""
_LEAVES, _STATIC_LEAVES, _JOINS = -1, -2, 0
"""The member epochs with which a member leaves or joins a group."""
_ASSIGNORS: Final = ("uniform", "range")
_KNOWS_STALE: Final = 6
"""The first version of TxnOffsetCommit with STALE_MEMBER_EPOCH (KIP-1319)."""
Place = tuple[str, int]


@dataclass
class Member:
    """A member: its subscription, its partitions (`assigned`), and the partitions that it must
    still give up (`revoking`)."""

    member_id: str
    client_id: str
    seen_ms: int
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    assigned: set[Place] = field(default_factory=set[Place])
    revoking: set[Place] = field(default_factory=set[Place])
    reported: set[Place] | None = None
    """The assignment in the member's last answer."""


@dataclass
class Group:
    """A group: its epoch, and the target assignment of each member (`target`)."""

    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    target: dict[str, set[Place]] = field(default_factory=dict[str, set[Place]])
    places: frozenset[Place] = frozenset()
    """The partitions of the present target assignment."""
    assignor: str = _ASSIGNORS[0]

    @property
    def state(self) -> str:
        """Empty, Reconciling or Stable."""
        if not self.members:
            return "Empty"
        is_done = all(
            one.epoch == self.epoch and one.assigned == self.target.get(name, set())
            for name, one in self.members.items()
        )
        return "Stable" if is_done else "Reconciling"


class ConsumerGroupApis:
    """The answers of the coordinators of these groups."""

    def __init__(self, cluster: Cluster, partitions: Partitions, classic: GroupApis) -> None:
        self._cluster, self._partitions, self._classic = cluster, partitions, classic
        self.groups: dict[str, Group] = classic.others
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "ConsumerGroupHeartbeat": self.heartbeat,
            "ConsumerGroupDescribe": self.describe,
        }

    def check(self, group_id: str, of: Identity, request: Request) -> tuple[str, Identity]:
        """The error of a member's request about offsets (ConsumerGroup.validateOffsetCommit), and
        the sender's identity for the tables, which don't know these members."""
        group = self.groups.get(group_id)
        if group is None or not group.members or (of.generation_id < 0 and not of.member_id):
            return "NONE", of
        member = group.members.get(of.member_id)
        error = "NONE"
        if member is None:
            error = "UNKNOWN_MEMBER_ID"
        elif member.epoch != of.generation_id:
            knows = request.name != "TxnOffsetCommit" or request.version >= _KNOWS_STALE
            error = "STALE_MEMBER_EPOCH" if knows else "ILLEGAL_GENERATION"
        return error, Identity("", -1, None)

    def expire(self) -> None:
        """Removes members whose session timeout is over."""
        now = self._cluster.now_ms
        for group in self.groups.values():
            for name in [n for n, m in group.members.items() if now > m.seen_ms + SESSION_MS]:
                self._remove(group, name)

    def _remove(self, group: Group, name: str) -> None:
        del group.members[name]
        group.target.pop(name, None)
        self._assign(group)

    # Heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, request: Request) -> Answer:
        """ConsumerGroupHeartbeat."""
        body, name = request.fields, request.fields["group_id"]
        error = self._cluster.use_of_group(request.principal, name, "READ")
        if error == "NONE":
            error = self._refused(request)
        if error == "NONE":
            error = self._classic.elsewhere(request, name)
        if error != "NONE":
            return Answer({"error_code": error})
        group = self.groups.setdefault(name, Group())
        epoch, member_id = body["member_epoch"], body["member_id"]
        if epoch in (_LEAVES, _STATIC_LEAVES):
            self._remove(group, member_id)
            return Answer({"member_id": member_id, "member_epoch": epoch})
        member = self._member(group, request, member_id or str(uuid4()))
        self._reconcile(group, member, body["topic_partitions"])
        answer: dict[str, Any] = {
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "heartbeat_interval": HEARTBEAT_MS,
        }
        if epoch == _JOINS or member.reported != member.assigned:
            member.reported = set(member.assigned)
            answer["assignment"] = {"topic_partitions": self._by_topic(member.assigned)}
        return Answer(answer)

    def _refused(self, request: Request) -> str:
        """The error of a heartbeat, or NONE (GroupCoordinatorService
        .throwIfConsumerGroupHeartbeatRequestIsInvalid)."""
        body = request.fields
        name, member_id, epoch = body["group_id"], body["member_id"], body["member_epoch"]
        pattern = body.get("subscribed_topic_regex")
        names = body["subscribed_topic_names"]
        is_joining = epoch == _JOINS
        if not name or epoch < _STATIC_LEAVES or (not member_id and not is_joining):
            return "INVALID_REQUEST"
        if not member_id and request.version > 0:
            return "INVALID_REQUEST"
        if is_joining and (
            body["rebalance_timeout"] == -1
            or body["topic_partitions"] is None
            or body["topic_partitions"]
            or (names is None and pattern is None)
        ):
            return "INVALID_REQUEST"
        if body["server_assignor"] not in (None, *_ASSIGNORS):
            return "UNSUPPORTED_ASSIGNOR"
        try:
            re.compile(pattern or "")
        except re.error:
            return "INVALID_REGULAR_EXPRESSION"
        classic = self._cluster.groups.groups.get(name)
        if classic is not None and classic.members:
            return "GROUP_ID_NOT_FOUND" if not is_joining else "INCONSISTENT_GROUP_PROTOCOL"
        group = self.groups.get(name)
        if is_joining:
            return "NONE"
        if group is None:
            return "GROUP_ID_NOT_FOUND"
        member = group.members.get(member_id)
        if member is None:
            return "UNKNOWN_MEMBER_ID"
        if epoch > member.epoch:
            return "FENCED_MEMBER_EPOCH"
        if 0 < epoch < member.epoch and not self._repeats(member, body):
            return "FENCED_MEMBER_EPOCH"
        return "NONE"

    def _repeats(self, member: Member, body: Mapping[str, Any]) -> bool:
        """Whether a member repeats its old epoch because it missed the answer with the new one
        (throwIfConsumerGroupMemberEpochIsInvalid)."""
        owned = self._owned(body["topic_partitions"])
        is_before = body["member_epoch"] == member.previous_epoch
        return is_before and owned is not None and owned <= member.assigned

    def _owned(self, given: Iterable[Mapping[str, Any]] | None) -> set[Place] | None:
        """The partitions in a heartbeat; None: unchanged."""
        if given is None:
            return None
        return {
            (self._partitions.name_of(topic["topic_id"]) or "", number)
            for topic in given
            for number in topic["partitions"]
        }

    def _member(self, group: Group, request: Request, member_id: str) -> Member:
        """The member of a heartbeat. Computes a new target assignment if needed."""
        body = request.fields
        member = group.members.get(member_id)
        is_changed = member is None or (
            body["member_epoch"] == _JOINS and body["member_epoch"] != member.epoch
        )
        if member is None:
            member = Member(member_id, request.client_id or "", 0)
            instance = body["instance_id"]
            for other in list(group.members.values()):
                if instance is not None and other.instance_id == instance:
                    del group.members[other.member_id]  # the member's next instance replaces it
                    group.target[member_id] = group.target.pop(other.member_id, set())
            group.members[member_id] = member
        member.seen_ms = self._cluster.now_ms
        member.instance_id = body["instance_id"] or member.instance_id
        member.rack_id = body["rack_id"] or member.rack_id
        names, pattern = body["subscribed_topic_names"], body.get("subscribed_topic_regex")
        before = member.topics, member.pattern
        if names is not None:
            member.topics = frozenset(names)
        if pattern is not None:
            member.pattern = pattern or None
        group.assignor = body["server_assignor"] or group.assignor
        is_changed |= before != (member.topics, member.pattern)
        if is_changed or group.places != self._places(group):
            self._assign(group)
        return member

    def _subscribed(self, member: Member) -> set[str]:
        """The existing topics of a member's subscription."""
        found = {name for name in member.topics if self._partitions.count(name)}
        if member.pattern is not None:
            found |= {n for n in self._partitions.names if re.fullmatch(member.pattern, n)}
        return found

    def _places(self, group: Group) -> frozenset[Place]:
        """The partitions of all subscribed topics."""
        topics = set[str]().union(*map(self._subscribed, group.members.values()))
        return frozenset(
            (name, number) for name in topics for number in range(self._partitions.count(name))
        )

    def _assign(self, group: Group) -> None:
        """Computes a new target assignment in a new epoch. Each member keeps its partitions up to
        its fair share, and the members with the fewest partitions get the others."""
        group.epoch += 1
        group.places = self._places(group)
        subscribed = {name: self._subscribed(one) for name, one in group.members.items()}
        target: dict[str, set[Place]] = {name: set() for name in group.members}
        if not target:
            group.target = target
            return
        share, more = divmod(len(group.places), len(target))
        left = set(group.places)
        for name, places in target.items():
            for place in sorted(group.target.get(name, set()) & left):
                has_room = len(places) < share or (len(places) == share and more > 0)
                if place[0] in subscribed[name] and has_room:
                    more -= len(places) == share
                    places.add(place)
                    left.discard(place)
        for place in sorted(left):
            able = [name for name in target if place[0] in subscribed[name]]
            target[min(able, key=lambda name: len(target[name]))].add(place)
        group.target = target

    def _reconcile(
        self, group: Group, member: Member, given: Iterable[Mapping[str, Any]] | None
    ) -> None:
        """Moves a member towards its target (CurrentAssignmentBuilder.build): it gives up
        partitions outside of its target, takes the group's epoch, and gets partitions that others
        have given up."""
        target, owned = group.target[member.member_id], self._owned(given)
        surplus = member.assigned - target
        member.assigned -= surplus
        member.revoking |= surplus
        if owned is not None:
            member.revoking &= owned
        if member.revoking:
            return
        if member.epoch != group.epoch:
            member.previous_epoch, member.epoch = member.epoch, group.epoch
        others = (one for one in group.members.values() if one is not member)
        taken = set[Place]().union(*(one.assigned | one.revoking for one in others))
        member.assigned |= target - taken

    def _by_topic(self, places: Iterable[Place]) -> list[dict[str, Any]]:
        found: dict[str, list[int]] = {}
        for name, number in sorted(places):
            if name in self._partitions.ids:
                found.setdefault(name, []).append(number)
        return [
            {"topic_id": self._partitions.ids[name], "topic_name": name, "partitions": numbers}
            for name, numbers in found.items()
        ]

    # Describing ---------------------------------------------------------------------------------

    def describe(self, request: Request) -> Answer:
        """ConsumerGroupDescribe."""
        names = request.fields["group_ids"]
        return Answer({"groups": [self._described(request, name) for name in names]})

    def _described(self, request: Request, name: str) -> dict[str, Any]:
        error = self._cluster.use_of_group(request.principal, name, "DESCRIBE")
        if error == "NONE":
            error = self._classic.elsewhere(request, name)
        group = self.groups.get(name)
        if error == "NONE" and group is None:
            error = "GROUP_ID_NOT_FOUND"
        if error != "NONE" or group is None:
            return {"error_code": error, "group_id": name, "members": []}
        is_asked = request.fields.get("include_authorized_operations", False)
        may = operations(self._cluster, request.principal, "GROUP", name) if is_asked else NOT_ASKED
        return {
            "group_id": name, "group_state": group.state, "group_epoch": group.epoch,
            "authorized_operations": may,
            "assignment_epoch": group.epoch, "assignor_name": group.assignor,
            "members": [
                {
                    "member_id": one.member_id, "instance_id": one.instance_id,
                    "rack_id": one.rack_id, "member_epoch": one.epoch, "client_id": one.client_id,
                    "client_host": "/127.0.0.1", "subscribed_topic_names": sorted(one.topics),
                    "subscribed_topic_regex": one.pattern, "member_type": 1,
                    "assignment": {"topic_partitions": self._by_topic(one.assigned)},
                    "target_assignment": {
                        "topic_partitions": self._by_topic(group.target.get(one.member_id, ()))
                    },
                }
                for one in group.members.values()
            ],
        }  # fmt: skip
