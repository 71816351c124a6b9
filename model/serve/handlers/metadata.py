"""Answers Metadata, FindCoordinator, CreateTopics, DeleteTopics and DescribeAcls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ....spec.access.acls import CLUSTER_NAME
from ...broker.transactions.transaction_log import partition_for
from ...cluster import STATE_PARTITIONS
from ...wire.listener import Answer, Request
from .partitions import OFFSETS_TOPIC, Partitions

LOG_TOPIC: Final = "__transaction_state"
"""It has no records here, and is told of to who asks for it by name."""
_INTERNAL: Final = (OFFSETS_TOPIC, LOG_TOPIC)
_GROUP, _TRANSACTION = 0, 1
_UNKNOWN: Final = "UNKNOWN_TOPIC_OR_PARTITION"
_NO_AUTHORITY: Final = -(2**31)  # authorized operations, where nobody asked for them


@dataclass
class Nodes:
    """The brokers by their numbers, and the partitions that they lead and coordinate. A partition
    that coordinates transactional ids may have moved to another broker."""

    count: int
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    moved: dict[int, int] = field(default_factory=dict[int, int])

    def leader(self, number: int) -> int:
        """The broker that leads the partition of this number."""
        return number % self.count

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self.log_leader(partition_for(transactional_id))

    def log_leader(self, partition: int) -> int:
        """The broker that leads a partition of the transaction log."""
        return self.moved.get(partition, partition % self.count)

    def group_coordinator(self, group_id: str) -> int:
        """The broker that coordinates a group."""
        return self.leader(partition_for(group_id))

    def move(self, transactional_id: str) -> int:
        """Another broker coordinates the id from now on, where there is another: which."""
        node = (self.coordinator(transactional_id) + 1) % self.count
        self.moved[partition_for(transactional_id)] = node
        return node


class MetadataApis:
    """The answers to requests about the cluster itself. `deleted` is called with each topic that
    is."""

    def __init__(
        self, nodes: Nodes, partitions: Partitions, deleted: Callable[[str], None]
    ) -> None:
        self._nodes, self._partitions, self._deleted = nodes, partitions, deleted
        self._may = partitions.cluster
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "Metadata": self.metadata,
            "FindCoordinator": self.find_coordinator,
            "CreateTopics": self.create_topics,
            "DeleteTopics": self.delete_topics,
            "DescribeAcls": self.describe_acls,
        }

    def metadata(self, request: Request) -> Answer:
        """Metadata. It makes a missing topic, unless that is forbidden. For all topics, the answer
        has those that may be described."""
        asked = request.fields["topics"]
        if asked is None or (not asked and request.version == 0):
            names = [name for name in self._partitions.topics if self._seen(request, name) is None]
        else:
            names = [topic["name"] for topic in asked]
        makes = asked is not None and request.fields.get("allow_auto_topic_creation", True)
        return Answer(
            {
                "brokers": [
                    {"node_id": node, "host": host, "port": port}
                    for node, (host, port) in self._nodes.addresses.items()
                ],
                "cluster_id": "epochfence",
                "controller_id": 0,
                "topics": [self._topic(request, name, makes) for name in names],
                "cluster_authorized_operations": _NO_AUTHORITY,
            }
        )

    def _seen(self, request: Request, name: str) -> str | None:
        """Why who asks may not see a topic; None where he may."""
        error = self._may.use_of(request.principal, name, "DESCRIBE")
        return None if error == "NONE" else error

    def _topic(self, request: Request, name: str, makes: bool) -> dict[str, Any]:
        topics, error = self._partitions.topics, self._seen(request, name)
        count = STATE_PARTITIONS if name in _INTERNAL else topics.get(name)
        if error is not None:
            count = 0
        elif count is None:
            error = self._made(request, name) if makes else _UNKNOWN
            count = topics.get(name, 0)
        partitions: list[dict[str, Any]] = []
        for number in range(count):
            of = self._nodes.log_leader if name == LOG_TOPIC else self._nodes.leader
            leader = of(number)
            partitions.append(
                {
                    "partition_index": number, "leader_id": leader, "leader_epoch": 0,
                    "replica_nodes": [leader], "isr_nodes": [leader],
                }
            )  # fmt: skip
        return {
            "error_code": error or "NONE", "name": name, "is_internal": name in _INTERNAL,
            "partitions": partitions, "topic_authorized_operations": _NO_AUTHORITY,
        }  # fmt: skip

    def _made(self, request: Request, name: str) -> str:
        """Makes a topic that a client has named: an error."""
        error = self._may.may_create(request.principal, name, by_metadata=True)
        return error if error != "NONE" else self._partitions.create(name, self._partitions.made)

    def find_coordinator(self, request: Request) -> Answer:
        """FindCoordinator, of a transactional id or a group."""
        key, kind = request.fields["key"], request.fields.get("key_type", _GROUP)
        error = "INVALID_REQUEST"
        if kind in (_TRANSACTION, _GROUP):
            error = self._may.may_find(request.principal, key, of_group=kind == _GROUP)
        if error != "NONE":
            return Answer({"error_code": error, "node_id": -1, "port": -1})
        of = self._nodes.group_coordinator if kind == _GROUP else self._nodes.coordinator
        node = of(key)
        host, port = self._nodes.addresses[node]
        return Answer({"node_id": node, "host": host, "port": port})

    def create_topics(self, request: Request) -> Answer:
        """CreateTopics. Each partition has one replica."""
        told: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            name, count = topic["name"], topic["num_partitions"]
            error = self._may.may_create(request.principal, name, by_metadata=False)
            if topic.get("assignments"):
                count = len(topic["assignments"])
            if count == -1:
                count = self._partitions.made
            if error == "NONE" and not request.fields.get("validate_only"):
                error = self._partitions.create(name, count)
            told.append(
                {"name": name, "error_code": error, "num_partitions": count,
                 "replication_factor": 1, "configs": []}
            )  # fmt: skip
        return Answer({"topics": told})

    def delete_topics(self, request: Request) -> Answer:
        """DeleteTopics."""
        told: list[dict[str, Any]] = []
        for name in request.fields["topic_names"]:
            error = self._may.use_of(request.principal, name, "DELETE")
            if error == "NONE":
                error = self._partitions.delete(name)
            if error == "NONE":
                self._deleted(name)
            told.append({"name": name, "error_code": error})
        return Answer({"responses": told})

    def describe_acls(self, request: Request) -> Answer:
        """DescribeAcls. Who is no user of a served cluster's own needs DESCRIBE on the cluster."""
        acls, asked = self._may.acls, request.fields
        error, told = "NONE", dict[tuple[str, str, str], list[dict[str, Any]]]()
        if acls is None:
            error = "SECURITY_DISABLED"
        elif not acls.allow(str(request.principal), "DESCRIBE", "CLUSTER", CLUSTER_NAME):
            error = "CLUSTER_AUTHORIZATION_FAILED"
        for line in acls.lines if acls is not None and error == "NONE" else ():
            kind, allows = _RESOURCE_TYPES[line.resource], _PERMISSIONS[line.permission]
            if asked["resource_type_filter"] in (_ANY, kind) and asked["permission_type"] in (
                _ANY, allows,
            ):  # fmt: skip
                of = told.setdefault((line.resource, line.name, line.pattern), [])
                of.append(
                    {"principal": line.principal, "host": "*", "permission_type": allows,
                     "operation": _OPERATIONS[line.operation]}
                )  # fmt: skip
        return Answer(
            {
                "error_code": error,
                "resources": [
                    {"resource_type": _RESOURCE_TYPES[kind], "resource_name": name,
                     "pattern_type": _PATTERNS[pattern], "acls": lines}
                    for (kind, name, pattern), lines in told.items()
                ],
            }
        )  # fmt: skip


_ANY: Final = 1
_RESOURCE_TYPES: Final = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5}
_PATTERNS: Final = {"LITERAL": 3, "PREFIXED": 4}
_PERMISSIONS: Final = {"DENY": 2, "ALLOW": 3}
_OPERATIONS: Final = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
    "CLUSTER_ACTION": 9, "IDEMPOTENT_WRITE": 12, "TWO_PHASE_COMMIT": 15,
}  # fmt: skip
"""The numbers of ACLs' parts (ResourceType, PatternType, AclPermissionType, AclOperation)."""
