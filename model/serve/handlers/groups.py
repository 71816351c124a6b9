"""Consumer groups of the classic protocol, in which the group's leader, a client, assigns
partitions: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups and
DeleteGroups.

The cluster's group coordinator decides the answers. This module keeps the requests that wait for
them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...broker.group_coordinator import Group
from ...broker.group_messages import Identity, JoinGroupResponse, SyncGroupResponse
from ...cluster import Cluster
from ...wire.listener import Answer, Request
from .authorized import operations
from .metadata import Nodes

_NOT_HERE: Final = "NOT_COORDINATOR"
_USES: Final = {"OffsetFetch": "DESCRIBE", "DeleteGroups": "DELETE"}
"""The operation of requests that need another permission on a group than READ."""
_Waiting = tuple[str, str, type]
_SEVERAL_LEAVE: Final = 3
"""The first version of LeaveGroup that names several members."""
_KNOWS_NOT_FOUND: Final = 6
"""The first version of DescribeGroups with GROUP_ID_NOT_FOUND (KIP-1043)."""
_CLIENT_HOST: Final = "/127.0.0.1"


class GroupApis:
    """The answers of group coordinators."""

    def __init__(self, cluster: Cluster, nodes: Nodes) -> None:
        self._groups, self._nodes, self._may = cluster.groups, nodes, cluster
        self._waiting: dict[_Waiting, asyncio.Future[Answer]] = {}
        self._clients: dict[str, dict[str, str]] = {}
        """The client id of each member, by group, then by member id."""
        self.others: dict[str, Any] = {}
        """The groups whose coordinator assigns partitions, by id. Each has a `state`."""
        self.answers: Mapping[str, Callable[[Request], Any]] = {
            "JoinGroup": self.join,
            "SyncGroup": self.sync,
            "Heartbeat": self.heartbeat,
            "LeaveGroup": self.leave,
            "DescribeGroups": self.describe,
            "ListGroups": self.list,
            "DeleteGroups": self.delete,
        }

    def refusal(self, request: Request, group_id: str) -> str:
        """The error of a request about a group, or NONE: the principal may use the group, and the
        broker coordinates it."""
        use = _USES.get(request.name, "READ")
        error = self._may.use_of_group(request.principal, group_id, use)
        return error if error != "NONE" else self.elsewhere(request, group_id)

    def elsewhere(self, request: Request, group_id: str) -> str:
        """NOT_COORDINATOR, or NONE if the asked broker coordinates a group of this id."""
        error = self._groups.validate(request.name, group_id)
        is_other = self._nodes.group_coordinator(group_id) != request.node
        return _NOT_HERE if is_other and error != "INVALID_GROUP_ID" else error

    def settle(self) -> None:
        """Sends the answers of waiting requests."""
        while self._groups.answered:
            group_id, member_id, response = self._groups.answered.pop(0)
            waiting = self._waiting.pop((group_id, member_id, type(response)), None)
            _tell(waiting, _fields(response))

    async def _answer(
        self, group_id: str, member_id: str, response: JoinGroupResponse | SyncGroupResponse
    ) -> Answer:
        self.settle()
        if not response.waits:
            return Answer(_fields(response))
        key = group_id, member_id, type(response)
        error = {"error_code": "REBALANCE_IN_PROGRESS"}
        _tell(self._waiting.get(key), _fields(response._replace(waits=False)) | error)
        self._waiting[key] = asyncio.get_running_loop().create_future()
        return await self._waiting[key]

    async def join(self, request: Request) -> Answer:
        """JoinGroup. The answer comes when all members have joined."""
        body = request.fields
        name, member_id = body["group_id"], body["member_id"]
        error = self.refusal(request, name)
        if error == "NONE" and self._is_other(name):
            error = "INCONSISTENT_GROUP_PROTOCOL"
        if error != "NONE":
            return Answer(_fields(JoinGroupResponse(error, member_id=member_id)))
        instance_id = body.get("group_instance_id")
        begin = instance_id or request.client_id or "member"
        joined = self._groups.join(
            name, member_id, group_instance_id=instance_id, protocol_type=body["protocol_type"],
            protocols={each["name"]: each["metadata"] for each in body["protocols"]},
            session_timeout_ms=body["session_timeout"],
            rebalance_timeout_ms=body.get("rebalance_timeout", -1),
            new_member_id=f"{begin}-{secrets.token_hex(8)}", api_version=request.version,
        )  # fmt: skip
        group = self.known(name)
        there = {} if group is None else group.members
        kept = {who: at for who, at in self._clients.get(name, {}).items() if who in there}
        self._clients[name] = {**kept, joined.member_id: request.client_id or ""}
        return await self._answer(name, joined.member_id, joined)

    async def sync(self, request: Request) -> Answer:
        """SyncGroup. The answer comes when the group's leader has sent the assignments."""
        body = request.fields
        name = body["group_id"]
        error = self.refusal(request, name)
        if error != "NONE":
            return Answer({"error_code": error})
        synced = self._groups.sync(
            name,
            identity(body),
            assignments={one["member_id"]: one["assignment"] for one in body["assignments"]},
            protocol_type=body.get("protocol_type"),
            protocol_name=body.get("protocol_name"),
        )
        return await self._answer(name, body["member_id"], synced)

    def heartbeat(self, request: Request) -> Answer:
        """Heartbeat."""
        body = request.fields
        error = self.refusal(request, body["group_id"])
        if error == "NONE":
            error = self._groups.heartbeat(body["group_id"], identity(body))
        return Answer({"error_code": error})

    def leave(self, request: Request) -> Answer:
        """LeaveGroup for one member or several."""
        body = request.fields
        name = body["group_id"]
        error = self.refusal(request, name)
        if error != "NONE":
            return Answer({"error_code": error})
        if request.version < _SEVERAL_LEAVE:
            error = self._groups.leave(name, body["member_id"])
            self.settle()
            return Answer({"error_code": error})
        answer: list[dict[str, Any]] = []
        for one in body["members"]:
            whom = {each: one[each] for each in ("member_id", "group_instance_id")}
            answer.append({**whom, "error_code": self._groups.leave(name, **whom)})
        self.settle()
        return Answer({"members": answer})

    def describe(self, request: Request) -> Answer:
        """DescribeGroups (GroupCoordinator.handleDescribeGroup)."""
        return Answer(
            {"groups": [self._described(request, name) for name in request.fields["groups"]]}
        )

    def _described(self, request: Request, name: str) -> dict[str, Any]:
        error = self._may.use_of_group(request.principal, name, "DESCRIBE")
        if error == "NONE":
            error = self.elsewhere(request, name)
        answer: dict[str, Any] = {"error_code": error, "group_id": name}
        if error != "NONE":
            return answer
        group = self.known(name)
        if group is None or name in self.others:
            knows_error = request.version >= _KNOWS_NOT_FOUND
            error = "GROUP_ID_NOT_FOUND" if knows_error else "NONE"
            return answer | {"error_code": error, "group_state": "Dead"}
        if request.fields.get("include_authorized_operations", False):
            answer["authorized_operations"] = operations(
                self._may, request.principal, "GROUP", name
            )
        protocol = group.protocol if group.status == "STABLE" else None
        return answer | {
            "group_state": _state(group),
            "protocol_type": group.protocol_type,
            "protocol_data": protocol or "",
            "members": [
                {
                    "member_id": each.member_id,
                    "group_instance_id": each.instance_id,
                    "client_id": self._clients.get(name, {}).get(each.member_id, ""),
                    "client_host": _CLIENT_HOST,
                    "member_metadata": each.protocols.get(protocol or "", b""),
                    "member_assignment": each.assignment if protocol else b"",
                }
                for each in group.members.values()
            ],
        }

    def known(self, name: str) -> Group | None:
        """The group with this id, or None."""
        group = self._groups.groups.get(name)
        return group if group is not None and group.is_known else None

    def _is_other(self, name: str) -> bool:
        """Whether the coordinator assigns partitions in this group, and it has members."""
        return name in self.others and self.others[name].state != "Empty"

    def subscribed(self, group_id: str) -> set[str] | None:
        """The subscribed topics of a group; None if its protocol doesn't show them
        (GroupMetadata.isSubscribedToTopic)."""
        group, found = self._groups.groups[group_id], set[str]()
        if group.members and group.protocol_type != "consumer":
            return None
        for member in group.members.values():
            found |= _topics(member.protocols.get(group.protocol or "", b""))
        return found

    def list(self, request: Request) -> Answer:
        """ListGroups: the broker's groups that the principal may describe."""
        found: list[dict[str, Any]] = []
        wanted = [state.lower() for state in request.fields.get("states_filter") or ()]
        types = [kind.lower() for kind in request.fields.get("types_filter") or ()]
        states = {
            name: (_state(one), "classic")
            for name, one in self._groups.groups.items()
            if one.is_known
        }
        states |= {name: (one.state, "consumer") for name, one in self.others.items()}
        for name, (state, kind) in states.items():
            may = self._may.use_of_group(request.principal, name, "DESCRIBE")
            is_here = self._nodes.group_coordinator(name) == request.node
            is_wanted = not wanted or state.lower() in wanted
            if is_here and may == "NONE" and is_wanted and (not types or kind in types):
                group = self._groups.groups.get(name)
                protocol_type = "consumer" if group is None else group.protocol_type
                found.append(
                    {"group_id": name, "protocol_type": protocol_type, "group_state": state,
                     "group_type": kind}
                )  # fmt: skip
        return Answer({"error_code": "NONE", "groups": found})

    def delete(self, request: Request) -> Answer:
        """DeleteGroups."""
        answer: list[dict[str, Any]] = []
        for name in request.fields["groups_names"]:
            error = self.refusal(request, name)
            if error == "NONE" and self._is_other(name):
                error = "NON_EMPTY_GROUP"
            if error == "NONE":
                was_other = self.others.pop(name, None) is not None
                error = self._groups.delete(name)
                if was_other and error == "GROUP_ID_NOT_FOUND":  # the group has no offsets
                    error = "NONE"
            answer.append({"group_id": name, "error_code": error})
        return Answer({"results": answer})


def identity(body: Mapping[str, Any]) -> Identity:
    """The sender's identity. Fields that the request's version lacks are empty."""
    # OffsetCommit has a longer name for the generation
    generation = body.get("generation_id_or_member_epoch", body.get("generation_id", -1))
    return Identity(body.get("member_id", ""), generation, body.get("group_instance_id"))


def _state(group: Group) -> str:
    """Kafka's name of a group's state, such as PreparingRebalance."""
    return "".join(word.capitalize() for word in group.status.split("_"))


def _topics(metadata: bytes) -> set[str]:
    """The topics in a member's subscription (ConsumerProtocolSubscription). Empty if the
    subscription can't be read."""
    found, at = set[str](), 6
    for _ in range(int.from_bytes(metadata[2:6])):
        size = int.from_bytes(metadata[at : at + 2])
        if at >= len(metadata):
            return set()
        found.add(metadata[at + 2 : at + 2 + size].decode(errors="replace"))
        at += 2 + size
    return found


def _fields(response: JoinGroupResponse | SyncGroupResponse) -> dict[str, Any]:
    """A response's fields as on the wire."""
    if isinstance(response, SyncGroupResponse):
        if response.error != "NONE":
            return {"error_code": response.error}
        return {
            "protocol_type": response.protocol_type,
            "protocol_name": response.protocol_name,
            "assignment": response.assignment,
        }
    answer: dict[str, Any] = {
        "error_code": response.error,
        "generation_id": response.generation_id,
        "member_id": response.member_id,
    }
    if response.error != "NONE":
        return answer
    return answer | {
        "protocol_name": response.protocol_name or "",
        "protocol_type": response.protocol_type,
        "leader": response.leader,
        "skip_assignment": response.skip_assignment,
        "members": [
            {"member_id": name, "group_instance_id": instance, "metadata": metadata}
            for name, instance, metadata in response.members
        ],
    }


def _tell(waiting: asyncio.Future[Answer] | None, fields: Mapping[str, Any]) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(Answer(fields))
