"""Answers Metadata, DescribeCluster, FindCoordinator, DescribeAcls, and the requests that create,
enlarge and delete topics, elect leaders and move replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ....spec.access.acls import CLUSTER_NAME
from ....spec.releases.features import RELEASED
from ...broker.transactions.transaction_log import partition_for
from ...cluster import STATE_PARTITIONS, Cluster
from ...wire.listener import Answer, Request
from ..settings import Settings
from .authorized import NOT_ASKED, OPERATIONS, on_cluster, operations
from .partitions import LEADER_EPOCH, LOG_TOPIC, MOST_PARTITIONS, OFFSETS_TOPIC, Partitions

_INTERNAL: Final = (OFFSETS_TOPIC, LOG_TOPIC)
_GROUP, _TRANSACTION = 0, 1
_UNKNOWN: Final = "UNKNOWN_TOPIC_OR_PARTITION"
_CLUSTER_FORBIDDEN: Final = "CLUSTER_AUTHORIZATION_FAILED"
_BROKERS, _CONTROLLERS = 1, 2  # endpoint types
CLUSTER_ID: Final = "epochfence"


@dataclass
class Nodes:
    """The brokers, and the partitions that they lead and coordinate. A partition of the transaction
    log may have moved to another broker.

    `addresses` are the addresses in answers. `racks` are assigned to brokers in turn (empty: no
    racks).
    """

    count: int
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    moved: dict[int, int] = field(default_factory=dict[int, int])
    racks: tuple[str, ...] = ()
    most_in_sync: int | None = None
    """The largest number of in-sync replicas of a partition; None: all replicas."""
    first: int = 0
    """The id of the first broker, which is the controller."""
    placed: dict[tuple[str, int], list[int]] = field(
        default_factory=dict[tuple[str, int], list[int]]
    )
    """The replicas of partitions that a client has assigned, the leader first."""

    @property
    def ids(self) -> range:
        """The ids of the brokers."""
        return range(self.first, self.first + self.count)

    def leader(self, number: int) -> int:
        """The broker that leads the partition of this number."""
        return self.ids[number % self.count]

    def replicas(self, number: int, factor: int) -> list[int]:
        """The brokers with a replica of a partition: the leader, then the in-sync replicas, then
        others."""
        return [self.leader(number + other) for other in range(min(factor, self.count))]

    def leader_of(self, topic: str, number: int) -> int:
        """The broker that leads a topic's partition."""
        placed = self.placed.get((topic, number))
        return self.leader(number) if placed is None else placed[0]

    def replicas_of(self, topic: str, number: int, factor: int) -> list[int]:
        """The brokers with a replica of a topic's partition, in the order of `replicas`."""
        placed = self.placed.get((topic, number))
        return self.replicas(number, factor) if placed is None else placed

    def forget(self, topic: str) -> None:
        """Removes the assigned replicas of a deleted topic."""
        for place in [place for place in self.placed if place[0] == topic]:
            del self.placed[place]

    def in_sync(self, replicas: int) -> int:
        """The number of in-sync replicas of a partition with this number of replicas."""
        return replicas if self.most_in_sync is None else min(replicas, self.most_in_sync)

    def rack(self, node: int) -> str | None:
        """The rack of a broker."""
        return self.racks[self.ids.index(node) % len(self.racks)] if self.racks else None

    def entries(self) -> list[dict[str, Any]]:
        """The brokers' entries in answers."""
        return [
            {"node_id": node, "broker_id": node, "host": host, "port": port,
             "rack": self.rack(node)}
            for node, (host, port) in self.addresses.items()
        ]  # fmt: skip

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self.log_leader(partition_for(transactional_id))

    def log_leader(self, partition: int) -> int:
        """The broker that leads a partition of the transaction log."""
        return self.moved.get(partition, self.leader(partition))

    def group_coordinator(self, group_id: str) -> int:
        """The broker that coordinates a group."""
        return self.leader(partition_for(group_id))

    def move(self, transactional_id: str) -> int:
        """Moves the id's partition to the next broker, if there are several. Returns the broker."""
        node = self.leader(self.ids.index(self.coordinator(transactional_id)) + 1)
        self.moved[partition_for(transactional_id)] = node
        return node


class MetadataApis:
    """The answers to requests about the cluster itself. `deleted` is called with each deleted
    topic."""

    def __init__(
        self,
        nodes: Nodes,
        partitions: Partitions,
        settings: Settings,
        deleted: Callable[[str], None],
    ) -> None:
        self._nodes, self._partitions, self._deleted = nodes, partitions, deleted
        self._settings = settings
        self._may = partitions.cluster
        place = RELEASED.index(partitions.cluster.protocol)
        self._knows_names = place >= RELEASED.index("2.8")
        """Whether Metadata checks the name of a topic that it doesn't create
        (KafkaApis.getTopicMetadata)."""
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "Metadata": self.metadata,
            "DescribeCluster": self.describe_cluster,
            "FindCoordinator": self.find_coordinator,
            "CreateTopics": self.create_topics,
            "CreatePartitions": self.create_partitions,
            "DeleteTopics": self.delete_topics,
            "DescribeAcls": self.describe_acls,
        }

    def metadata(self, request: Request) -> Answer:
        """Metadata. It creates a missing topic, unless the request forbids it. A request for all
        topics returns those that the principal may describe."""
        body = request.fields["topics"]
        makes = self._settings.broker("auto.create.topics.enable").lower() == "true"
        makes &= request.fields.get("allow_auto_topic_creation", True)
        if body is None or (not body and request.version == 0):
            names = [name for name in self._partitions.names if self._seen(request, name) is None]
            topics = [self._topic(request, name, makes=False) for name in names]
        else:
            topics = [self._requested_topic(request, topic, makes) for topic in body]
        return Answer(
            {
                "brokers": self._nodes.entries(),
                "cluster_id": CLUSTER_ID,
                "controller_id": self._nodes.first,
                "topics": topics,
                "cluster_authorized_operations": self._on_cluster(request),
            }
        )

    def _requested_topic(
        self, request: Request, topic: Mapping[str, Any], makes: bool
    ) -> dict[str, Any]:
        """The entry of a topic that was requested by name or (from version 10 on) by id."""
        topic_id = topic.get("topic_id")
        if topic_id is None and topic["name"] is not None:
            return self._topic(request, topic["name"], makes)
        name = self._partitions.name_of(topic_id)
        if name is None:
            return {"error_code": "UNKNOWN_TOPIC_ID", "name": None, "topic_id": topic_id}
        return self._topic(request, name, makes=False)

    def _seen(self, request: Request, name: str) -> str | None:
        """The error if the principal may not describe a topic; None if it may."""
        error = self._may.use_of(request.principal, name, "DESCRIBE")
        return None if error == "NONE" else error

    def _topic(self, request: Request, name: str, makes: bool) -> dict[str, Any]:
        topics, error = self._partitions.topics, self._seen(request, name)
        count = STATE_PARTITIONS if name in _INTERNAL else topics.get(name)
        if error is not None:
            count = 0
        elif count is None:
            is_wrong = self._knows_names and not self._partitions.is_name(name)
            unknown = "INVALID_TOPIC_EXCEPTION" if is_wrong else _UNKNOWN
            error = self._made(request, name) if makes else unknown
            count = topics.get(name, 0)
        partitions: list[dict[str, Any]] = []
        for number in range(count):
            leader, replicas = self._replicas(name, number)
            partitions.append(
                {
                    "partition_index": number,
                    "leader_id": leader,
                    "leader_epoch": LEADER_EPOCH,
                    "replica_nodes": replicas,
                    "isr_nodes": replicas[: self._nodes.in_sync(len(replicas))],
                }
            )
        is_asked = request.fields.get("include_topic_authorized_operations", False)
        may = NOT_ASKED
        if is_asked and error is None:
            may = operations(self._may, request.principal, "TOPIC", name)
        return {
            "error_code": error or "NONE",
            "name": name,
            "is_internal": name in _INTERNAL,
            "topic_id": self._partitions.ids.get(name) if count else None,
            "partitions": partitions,
            "topic_authorized_operations": may,
        }

    def _on_cluster(self, request: Request) -> int:
        is_asked = request.fields.get("include_cluster_authorized_operations", False)
        return on_cluster(self._may, request.principal) if is_asked else NOT_ASKED

    def _replicas(self, name: str, number: int) -> tuple[int, list[int]]:
        """The leader and all replicas of a partition."""
        if name == LOG_TOPIC:
            leader = self._nodes.log_leader(number)
            return leader, [leader]
        replicas = self._nodes.replicas_of(name, number, self._partitions.replicas(name))
        return replicas[0], replicas

    def _made(self, request: Request, name: str) -> str:
        """Creates a topic that a client has named; returns the error."""
        error = self._may.may_create(request.principal, name, by_metadata=True)
        return error if error != "NONE" else self._partitions.create(name, self._partitions.made)

    def describe_cluster(self, request: Request) -> Answer:
        """DescribeCluster. The endpoint type for controllers isn't supported."""
        kind = request.fields.get("endpoint_type", _BROKERS)
        if kind == _CONTROLLERS:
            return Answer({"error_code": "MISMATCHED_ENDPOINT_TYPE"})
        if kind != _BROKERS:
            return Answer({"error_code": "UNSUPPORTED_ENDPOINT_TYPE"})
        return Answer(
            {
                "brokers": self._nodes.entries(),
                "cluster_id": CLUSTER_ID,
                "controller_id": self._nodes.first,
                "cluster_authorized_operations": self._on_cluster(request),
            }
        )

    def find_coordinator(self, request: Request) -> Answer:
        """FindCoordinator for a transactional id or a group; from version 4 on for several."""
        kind = request.fields.get("key_type", _GROUP)
        if "coordinator_keys" not in request.fields:
            return Answer(self._coordinator(request, request.fields["key"], kind))
        keys = request.fields["coordinator_keys"]
        return Answer({"coordinators": [self._coordinator(request, key, kind) for key in keys]})

    def _coordinator(self, request: Request, key: str, kind: int) -> dict[str, Any]:
        error = "INVALID_REQUEST"
        if kind in (_TRANSACTION, _GROUP):
            error = self._may.may_find(request.principal, key, of_group=kind == _GROUP)
        if error != "NONE":
            return {"key": key, "error_code": error, "node_id": -1, "port": -1}
        of = self._nodes.group_coordinator if kind == _GROUP else self._nodes.coordinator
        self._partitions.internal.add(OFFSETS_TOPIC if kind == _GROUP else LOG_TOPIC)
        node = of(key)
        host, port = self._nodes.addresses[node]
        return {"key": key, "node_id": node, "host": host, "port": port}

    def create_topics(self, request: Request) -> Answer:
        """CreateTopics (ReplicationControlManager.createTopics)."""
        times = Counter(topic["name"] for topic in request.fields["topics"])
        answer: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            name = topic["name"]
            if times[name] > 1 and any(each["name"] == name for each in answer):
                continue
            error, message = "INVALID_REQUEST", "Found multiple entries for this topic."
            count, factor = self._wanted(topic)
            if times[name] == 1:
                error, message = self._created(request, topic, count, factor)
            result: dict[str, Any] = {
                "name": name,
                "error_code": error,
                "error_message": message,
                "configs": [],
            }
            if error == "NONE":
                result["topic_id"] = self._partitions.ids.get(name)
                result |= self._properties(request, name, count, factor)
            answer.append(result)
        return Answer({"topics": answer})

    def _properties(self, request: Request, topic: str, count: int, factor: int) -> dict[str, Any]:
        """The properties of a created topic in the answer, if the principal may describe its
        settings (ControllerApis.createTopics)."""
        if not self._may.allows(request.principal, "DESCRIBE_CONFIGS", "TOPIC", topic):
            return {"topic_config_error_code": ErrorCode.topic_authorization_failed.value}
        configs = [
            {
                "name": name,
                "value": self._settings.topic(topic, name),
                "read_only": False,
                "config_source": self._settings.source(topic, name),
                "is_sensitive": False,
            }
            for name in self._settings.of_topics
        ]
        return {"num_partitions": count, "replication_factor": factor, "configs": configs}

    def _wanted(self, topic: Mapping[str, Any]) -> tuple[int, int]:
        """The number of partitions of a new topic, and of replicas of each."""
        if assigned := topic.get("assignments"):
            return len(assigned), len(assigned[0]["broker_ids"])
        count, factor = topic["num_partitions"], topic["replication_factor"]
        return (
            self._partitions.made if count == -1 else count,
            self._settings.number("default.replication.factor") if factor == -1 else factor,
        )

    def _created(
        self, request: Request, topic: Mapping[str, Any], count: int, factor: int
    ) -> tuple[str, str | None]:
        """Creates a topic; returns the error and its message."""
        name = topic["name"]
        error = self._may.may_create(request.principal, name, by_metadata=False)
        if error != "NONE":
            return error, None
        if (refused := self._partitions.refusal(name)) is not None:
            return refused
        if count > MOST_PARTITIONS:
            return "INVALID_PARTITIONS", None
        configs = {each["name"]: each["value"] for each in topic.get("configs") or ()}
        if (why := self._settings.wrong(configs)) is not None:
            return "INVALID_CONFIG", why
        if assigned := topic.get("assignments"):
            if topic["num_partitions"] != -1 or topic["replication_factor"] != -1:
                what = "replication factor" if topic["replication_factor"] != -1 else "partitions"
                why = f"A manual partition assignment was specified, but {what} was not set to -1."
                return "INVALID_REQUEST", why
            if not self._is_assignment(assigned, 0, factor):
                return "INVALID_REPLICA_ASSIGNMENT", None
        if count <= 0:
            why = "Number of partitions was set to an invalid non-positive value."
            return "INVALID_PARTITIONS", why
        if factor <= 0:
            why = "Replication factor must be larger than 0, or -1 to use the default value."
            return "INVALID_REPLICATION_FACTOR", why
        if factor > self._nodes.count:
            why = f"Unable to replicate the partition {factor} time(s): The target replication "
            why += f"factor of {factor} cannot be reached because only {self._nodes.count} "
            why += "broker(s) are registered."
            return "INVALID_REPLICATION_FACTOR", why
        if not request.fields.get("validate_only"):
            self._partitions.create(name, count, configs)
            self._partitions.factors[name] = factor
            self._place(name, topic.get("assignments") or (), 0)
        return "NONE", None

    def _place(self, topic: str, assigned: Iterable[Mapping[str, Any]], first: int) -> None:
        """Sets the replicas of partitions from `first` on to those that a client has assigned."""
        for n, each in enumerate(assigned):
            number = each.get("partition_index", first + n)
            self._nodes.placed[topic, number] = list(each["broker_ids"])

    def _is_assignment(
        self, assigned: Iterable[Mapping[str, Any]], first: int, factor: int
    ) -> bool:
        """Whether an assignment of replicas to partitions from `first` on is valid."""
        numbers = [each.get("partition_index", first + n) for n, each in enumerate(assigned)]
        lists = [each["broker_ids"] for each in assigned]
        return sorted(numbers) == list(range(first, first + len(numbers))) and all(
            len(those) == factor == len(set(those)) and set(those) <= set(self._nodes.ids)
            for those in lists
        )

    def create_partitions(self, request: Request) -> Answer:
        """CreatePartitions (ReplicationControlManager.createPartitions)."""
        answer: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            error, why = self._enlarged(request, topic)
            answer.append({"name": topic["name"], "error_code": error, "error_message": why})
        return Answer({"results": answer})

    def _enlarged(self, request: Request, topic: Mapping[str, Any]) -> tuple[str, str | None]:
        name, count = topic["name"], topic["count"]
        if not self._may.allows(request.principal, "ALTER", "TOPIC", name):
            return "TOPIC_AUTHORIZATION_FAILED", None
        there = self._partitions.topics.get(name)
        if there is None:
            return _UNKNOWN, None
        if count <= there:
            why = f"The topic currently has {there} partition(s); {count} would not be an increase."
            return "INVALID_PARTITIONS", why
        factor = len(self._replicas(name, 0)[1])
        assigned = topic["assignments"]
        if assigned is not None and (
            len(assigned) != count - there or not self._is_assignment(assigned, there, factor)
        ):
            return "INVALID_REPLICA_ASSIGNMENT", None
        if not request.fields["validate_only"]:
            self._partitions.topics[name] = count
            self._place(name, assigned or (), there)
        return "NONE", None

    def delete_topics(self, request: Request) -> Answer:
        """DeleteTopics, by name or (from version 6 on) by id."""
        named = request.fields.get("topic_names")
        body = request.fields["topics"] if named is None else [{"name": name} for name in named]
        answer: list[dict[str, Any]] = []
        for topic in body:
            name: str | None = topic["name"]
            topic_id: Any = topic.get("topic_id")
            if name is not None and topic_id is not None:
                answer.append({"name": name, "topic_id": topic_id, "error_code": "INVALID_REQUEST"})
                continue
            if name is None:
                name = self._partitions.name_of(topic_id)
            error = "UNKNOWN_TOPIC_ID"
            if name is not None:
                topic_id = self._partitions.ids.get(name)
                error = self._may.use_of(request.principal, name, "DELETE")
                if error == "NONE":
                    error = self._partitions.delete(name)
                if error == "NONE":
                    self._deleted(name)
                    self._nodes.forget(name)
            answer.append({"name": name, "topic_id": topic_id, "error_code": error})
        return Answer({"responses": answer})

    def describe_acls(self, request: Request) -> Answer:
        """DescribeAcls. The principal needs DESCRIBE on the cluster."""
        acls, body = self._may.acls, request.fields
        error, answer = "NONE", dict[tuple[str, str, str], list[dict[str, Any]]]()
        if acls is None:
            error = "SECURITY_DISABLED"
        elif not acls.allow(str(request.principal), "DESCRIBE", "CLUSTER", CLUSTER_NAME):
            error = "CLUSTER_AUTHORIZATION_FAILED"
        for line in acls.lines if acls is not None and error == "NONE" else ():
            kind, allows = _RESOURCE_TYPES[line.resource], _PERMISSIONS[line.permission]
            if body["resource_type_filter"] in (_ANY, kind) and body["permission_type"] in (
                _ANY,
                allows,
            ):
                of = answer.setdefault((line.resource, line.name, line.pattern), [])
                of.append(
                    {"principal": line.principal, "host": "*", "permission_type": allows,
                     "operation": OPERATIONS[line.operation]}
                )  # fmt: skip
        return Answer(
            {
                "error_code": error,
                "resources": [
                    {"resource_type": _RESOURCE_TYPES[kind], "resource_name": name,
                     "pattern_type": _PATTERNS[pattern], "acls": lines}
                    for (kind, name, pattern), lines in answer.items()
                ],
            }
        )  # fmt: skip


_ANY: Final = 1
_RESOURCE_TYPES: Final = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5}
_PATTERNS: Final = {"LITERAL": 3, "PREFIXED": 4}
_PERMISSIONS: Final = {"DENY": 2, "ALLOW": 3}
"""The numbers in ACLs (ResourceType, PatternType, AclPermissionType)."""


class ReplicaApis:
    """Answers ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments. A
    reassignment is complete at once, and the first replica is the leader."""

    def __init__(self, cluster: Cluster, nodes: Nodes, partitions: Partitions) -> None:
        self._may, self._nodes, self._partitions = cluster, nodes, partitions
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "ElectLeaders": self.elect,
            "AlterPartitionReassignments": self.reassign,
            "ListPartitionReassignments": self.reassigning,
        }

    def _is_refused(self, request: Request, operation: str) -> bool:
        return not self._may.allows(request.principal, operation, "CLUSTER", CLUSTER_NAME)

    def elect(self, request: Request) -> Answer:
        """ElectLeaders. The first replica already leads (ReplicationControlManager.electLeader)."""
        if self._is_refused(request, "ALTER"):
            return Answer({"error_code": _CLUSTER_FORBIDDEN, "replica_election_results": []})
        answer: list[dict[str, Any]] = []
        for topic in request.fields["topic_partitions"] or ():
            results: list[dict[str, Any]] = []
            for number in topic["partitions"]:
                is_there = self._partitions.has(topic["topic"], number)
                error = "ELECTION_NOT_NEEDED" if is_there else _UNKNOWN
                results.append({"partition_id": number, "error_code": error})
            answer.append({"topic": topic["topic"], "partition_result": results})
        return Answer({"replica_election_results": answer})

    def reassign(self, request: Request) -> Answer:
        """AlterPartitionReassignments (ReplicationControlManager.alterPartitionReassignments)."""
        if self._is_refused(request, "ALTER"):
            return Answer({"error_code": _CLUSTER_FORBIDDEN, "responses": []})
        may_resize = request.fields.get("allow_replication_factor_change", True)
        answer: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            results: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                place, wanted = (topic["name"], part["partition_index"]), part["replicas"]
                error = self._refusal(place, wanted, may_resize)
                if error == "NONE":
                    self._nodes.placed[place] = list(wanted)
                results.append({"partition_index": place[1], "error_code": error})
            answer.append({"name": topic["name"], "partitions": results})
        return Answer({"responses": answer})

    def _refusal(self, place: tuple[str, int], wanted: list[int] | None, may_resize: bool) -> str:
        """The error of a reassignment to these replicas, or NONE. None as replicas cancels a
        reassignment in progress."""
        if not self._partitions.has(*place):
            return _UNKNOWN
        if wanted is None:
            return "NO_REASSIGNMENT_IN_PROGRESS"
        if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(self._nodes.ids):
            return "INVALID_REPLICA_ASSIGNMENT"
        there = self._nodes.replicas_of(*place, self._partitions.replicas(place[0]))
        is_fitting = may_resize or len(wanted) == len(there)
        return "NONE" if is_fitting else "INVALID_REPLICATION_FACTOR"

    def reassigning(self, request: Request) -> Answer:
        """ListPartitionReassignments. The list is empty: each reassignment is complete at once."""
        error = _CLUSTER_FORBIDDEN if self._is_refused(request, "DESCRIBE") else "NONE"
        return Answer({"error_code": error, "topics": []})
