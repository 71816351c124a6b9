"""Consumer groups, of the protocol in which the client that leads a group assigns partitions:
JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DeleteGroups (GroupCoordinator)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..permissions import Permissions
from .metadata import Nodes
from .wire import Answer, Request

EMPTY, PREPARING, COMPLETING, STABLE = (
    "Empty", "PreparingRebalance", "CompletingRebalance", "Stable",
)  # fmt: skip
SHORTEST_SESSION_MS, LONGEST_SESSION_MS = 6_000, 1_800_000
"""group.min.session.timeout.ms and group.max.session.timeout.ms."""
_NOT_HERE: Final = "NOT_COORDINATOR"
_USES: Final = {"OffsetFetch": "DESCRIBE", "DeleteGroups": "DELETE"}
"""What requests do with a group that don't READ it."""


@dataclass
class Member:
    """A member: what it can be assigned by, how long it may be silent, and what it waits for."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    session_s: float
    rebalance_s: float
    seen: float
    assignment: bytes = b""
    joining: asyncio.Future[Answer] | None = None
    syncing: asyncio.Future[Answer] | None = None


@dataclass
class Group:
    """A group, and the members of its generation."""

    state: str = EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    promised: set[str] = field(default_factory=set[str])
    """Ids that were handed out, and that nobody has joined with yet."""
    rebalance_until: float = 0

    def refusal(self, member_id: str, generation: int, instance_id: str | None) -> str:
        """What is told to who isn't a member of this generation; NONE to who is."""
        holder = self.of_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            return "FENCED_INSTANCE_ID"
        if member_id not in self.members:
            return "UNKNOWN_MEMBER_ID"
        return "NONE" if generation == self.generation else "ILLEGAL_GENERATION"

    def of_instance(self, instance_id: str | None) -> Member | None:
        """The member with this instance id."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def begin_rebalance(self) -> None:
        """All members have to join anew."""
        self.state = PREPARING
        longest = max((member.rebalance_s for member in self.members.values()), default=0)
        self.rebalance_until = time.monotonic() + longest
        for member in self.members.values():
            _tell(member.syncing, {"error_code": "REBALANCE_IN_PROGRESS"})
            member.syncing = None
        self.go_on()

    def go_on(self, *, is_late: bool = False) -> None:
        """The rebalance is over where all members have joined; who `is_late` is left out."""
        if self.state != PREPARING:
            return
        missing = [m.member_id for m in self.members.values() if m.joining is None]
        if missing and not is_late:
            return
        for member_id in missing:
            del self.members[member_id]
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = EMPTY, None, ""
            return
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol, self.state = self._chosen(), COMPLETING
        for member in self.members.values():
            _tell(member.joining, self.joined(member))
            member.joining, member.seen = None, time.monotonic()

    def _chosen(self) -> str:
        """The protocol that most members name first, of those that all know."""
        known = [set(member.protocols) for member in self.members.values()]
        common = set[str].intersection(*known)
        votes = [next(p for p in m.protocols if p in common) for m in self.members.values()]
        return max(dict.fromkeys(votes), key=votes.count)

    def joined(self, member: Member) -> dict[str, Any]:
        """What a member of this generation is told of it."""
        told = [
            {
                "member_id": each.member_id,
                "group_instance_id": each.instance_id,
                "metadata": each.protocols[self.protocol or ""],
            }
            for each in (self.members.values() if member.member_id == self.leader else ())
        ]
        return {
            "generation_id": self.generation, "protocol_type": self.protocol_type,
            "protocol_name": self.protocol, "leader": self.leader, "member_id": member.member_id,
            "members": told,
        }  # fmt: skip

    def leave(self, member_id: str) -> None:
        """A member goes; the others have to join anew."""
        member = self.members.pop(member_id)
        _tell(member.joining, _not_joined("UNKNOWN_MEMBER_ID"))
        _tell(member.syncing, {"error_code": "UNKNOWN_MEMBER_ID"})
        if self.members and self.state in (STABLE, COMPLETING):
            self.begin_rebalance()
        elif self.members:
            self.go_on()
        else:
            self.state, self.protocol, self.leader = EMPTY, None, ""
            self.generation += 1

    def expire(self, now: float) -> None:
        """Members that were silent for too long go, and a rebalance ends that took too long."""
        for member in list(self.members.values()):
            waits = member.joining is not None or member.syncing is not None
            if not waits and now > member.seen + member.session_s:
                self.leave(member.member_id)
        if self.state == PREPARING and now > self.rebalance_until:
            self.go_on(is_late=True)


class GroupApis:
    """The answers of the brokers that coordinate groups."""

    def __init__(self, nodes: Nodes, may: Permissions) -> None:
        self._nodes, self._may = nodes, may
        self.groups: dict[str, Group] = {}
        self.answers: Mapping[str, Callable[[Request], Any]] = {
            "JoinGroup": self.join,
            "SyncGroup": self.sync,
            "Heartbeat": self.heartbeat,
            "LeaveGroup": self.leave,
        }

    def refusal(self, request: Request, group_id: str) -> str | None:
        """Why the broker that was asked does nothing for a group: who asks may not use it so, or
        another broker coordinates it. None where it does."""
        error = self._may.use_of_group(request.principal, group_id, _USES.get(request.name, "READ"))
        return error if error != "NONE" else self.elsewhere(request, group_id)

    def elsewhere(self, request: Request, group_id: str) -> str | None:
        """Why the broker that was asked doesn't coordinate a group; None where it does."""
        if not group_id:
            return "INVALID_GROUP_ID"
        return None if self._nodes.group_coordinator(group_id) == request.node else _NOT_HERE

    def expire(self) -> None:
        """Members go that were silent for too long."""
        for group in self.groups.values():
            group.expire(time.monotonic())

    async def join(self, request: Request) -> Answer:
        """JoinGroup: answered when all members have joined."""
        asked = request.fields
        name, member_id = asked["group_id"], asked["member_id"]
        error = self.refusal(request, name)
        if error is not None:
            return Answer(_not_joined(error, member_id))
        if not SHORTEST_SESSION_MS <= asked["session_timeout"] <= LONGEST_SESSION_MS:
            return Answer(_not_joined("INVALID_SESSION_TIMEOUT", member_id))
        group = self.groups.setdefault(name, Group())
        instance_id = asked.get("group_instance_id")
        protocols = {each["name"]: each["metadata"] for each in asked["protocols"]}
        error = _mismatch(group, asked["protocol_type"], protocols, member_id)
        if error != "NONE":
            return Answer(_not_joined(error, member_id))
        holder = group.of_instance(instance_id)
        if not member_id:
            member_id = f"{request.client_id or 'member'}-{secrets.token_hex(8)}"
            if holder is not None:  # the instance has started again
                group.leave(holder.member_id)
            elif request.version >= 4 and instance_id is None:
                group.promised.add(member_id)
                return Answer(_not_joined("MEMBER_ID_REQUIRED", member_id))
        elif holder is not None and holder.member_id != member_id:
            return Answer(_not_joined("FENCED_INSTANCE_ID", member_id))
        elif member_id not in group.members and member_id not in group.promised:
            return Answer(_not_joined("UNKNOWN_MEMBER_ID", member_id))
        group.promised.discard(member_id)
        return await self._joins(group, request, member_id, protocols)

    async def _joins(
        self, group: Group, request: Request, member_id: str, protocols: dict[str, bytes]
    ) -> Answer:
        asked = request.fields
        member, known = group.members.get(member_id), True
        if member is None:
            known = False
            session_s = asked["session_timeout"] / 1000
            rebalance_ms = asked.get("rebalance_timeout", -1)
            member = group.members[member_id] = Member(
                member_id, asked.get("group_instance_id"), protocols, session_s,
                session_s if rebalance_ms < 0 else rebalance_ms / 1000, time.monotonic(),
            )  # fmt: skip
        is_same, member.protocols = known and member.protocols == protocols, protocols
        if is_same and (
            group.state == COMPLETING or (group.state == STABLE and member_id != group.leader)
        ):
            return Answer(group.joined(member))  # as it was told before
        group.protocol_type = asked["protocol_type"]
        _tell(member.joining, _not_joined("REBALANCE_IN_PROGRESS", member_id))
        member.joining = mine = asyncio.get_running_loop().create_future()
        if group.state == PREPARING:
            group.go_on()
        else:
            group.begin_rebalance()
        return await mine

    async def sync(self, request: Request) -> Answer:
        """SyncGroup: answered when the group's leader has said who gets what."""
        asked = request.fields
        error = self._refusal(request)
        if error != "NONE":
            return Answer({"error_code": error})
        group = self.groups[asked["group_id"]]
        member = group.members[asked["member_id"]]
        member.seen = time.monotonic()
        told = (asked.get("protocol_type"), asked.get("protocol_name"))
        if any(told) and told != (group.protocol_type, group.protocol):
            return Answer({"error_code": "INCONSISTENT_GROUP_PROTOCOL"})
        if group.state == PREPARING:
            return Answer({"error_code": "REBALANCE_IN_PROGRESS"})
        if group.state == COMPLETING and member.member_id == group.leader:
            given = {one["member_id"]: one["assignment"] for one in asked["assignments"]}
            group.state = STABLE
            for each in group.members.values():
                each.assignment = given.get(each.member_id, b"")
                _tell(each.syncing, _synced(group, each))
                each.syncing = None
        if group.state == STABLE:
            return Answer(_synced(group, member))
        _tell(member.syncing, {"error_code": "REBALANCE_IN_PROGRESS"})
        member.syncing = asyncio.get_running_loop().create_future()
        return await member.syncing

    def _refusal(self, request: Request) -> str:
        asked = request.fields
        error = self.refusal(request, asked["group_id"])
        if error is not None:
            return error
        return self.groups.get(asked["group_id"], Group()).refusal(
            asked["member_id"], asked["generation_id"], asked.get("group_instance_id")
        )

    def heartbeat(self, request: Request) -> Answer:
        """Heartbeat."""
        error = self._refusal(request)
        if error == "NONE":
            group = self.groups[request.fields["group_id"]]
            group.members[request.fields["member_id"]].seen = time.monotonic()
            if group.state == PREPARING:
                error = "REBALANCE_IN_PROGRESS"
        return Answer({"error_code": error})

    def leave(self, request: Request) -> Answer:
        """LeaveGroup: of one member, or (from version 3 on) of several."""
        asked = request.fields
        error = self.refusal(request, asked["group_id"])
        if error is not None:
            return Answer({"error_code": error})
        group = self.groups.get(asked["group_id"], Group())
        if request.version < 3:
            return Answer({"error_code": _leaves(group, asked["member_id"], None)})
        told = [
            {
                "member_id": one["member_id"],
                "group_instance_id": one["group_instance_id"],
                "error_code": _leaves(group, one["member_id"], one["group_instance_id"]),
            }
            for one in asked["members"]
        ]
        return Answer({"members": told})


def _leaves(group: Group, member_id: str, instance_id: str | None) -> str:
    holder = group.of_instance(instance_id)
    if holder is not None:
        if member_id not in ("", holder.member_id):
            return "FENCED_INSTANCE_ID"
        member_id = holder.member_id
    if member_id in group.promised:
        group.promised.discard(member_id)
        return "NONE"
    if member_id not in group.members:
        return "UNKNOWN_MEMBER_ID"
    group.leave(member_id)
    return "NONE"


def _mismatch(group: Group, kind: str, protocols: dict[str, bytes], member_id: str) -> str:
    """Whether the other members can be assigned by one of these protocols."""
    others = [set(m.protocols) for m in group.members.values() if m.member_id != member_id]
    if not kind or not protocols or (others and kind != group.protocol_type):
        return "INCONSISTENT_GROUP_PROTOCOL"
    common = set(protocols).intersection(*others)
    return "NONE" if common else "INCONSISTENT_GROUP_PROTOCOL"


def _not_joined(error: str, member_id: str = "") -> dict[str, Any]:
    return {"error_code": error, "generation_id": -1, "member_id": member_id, "protocol_name": ""}


def _synced(group: Group, member: Member) -> dict[str, Any]:
    return {
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def _tell(waiting: asyncio.Future[Answer] | None, fields: Mapping[str, Any]) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(Answer(fields))
