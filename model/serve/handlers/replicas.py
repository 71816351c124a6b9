"""Answers ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments: a partition has
the replicas that somebody asks for at once, and the first of them leads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....spec.access.acls import CLUSTER_NAME
from ...cluster import Cluster
from ...wire.listener import Answer, Request
from .metadata import Nodes
from .partitions import Partitions

_UNKNOWN, _FORBIDDEN = "UNKNOWN_TOPIC_OR_PARTITION", "CLUSTER_AUTHORIZATION_FAILED"


class ReplicaApis:
    """The answers of the controller about replicas and leaders."""

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
        """ElectLeaders: the first replica leads already (ReplicationControlManager.electLeader)."""
        if self._is_refused(request, "ALTER"):
            return Answer({"error_code": _FORBIDDEN, "replica_election_results": []})
        told: list[dict[str, Any]] = []
        for topic in request.fields["topic_partitions"] or ():
            results: list[dict[str, Any]] = []
            for number in topic["partitions"]:
                is_there = self._partitions.has(topic["topic"], number)
                error = "ELECTION_NOT_NEEDED" if is_there else _UNKNOWN
                results.append({"partition_id": number, "error_code": error})
            told.append({"topic": topic["topic"], "partition_result": results})
        return Answer({"replica_election_results": told})

    def reassign(self, request: Request) -> Answer:
        """AlterPartitionReassignments (ReplicationControlManager.alterPartitionReassignments)."""
        if self._is_refused(request, "ALTER"):
            return Answer({"error_code": _FORBIDDEN, "responses": []})
        may_resize = request.fields.get("allow_replication_factor_change", True)
        told: list[dict[str, Any]] = []
        for topic in request.fields["topics"]:
            results: list[dict[str, Any]] = []
            for part in topic["partitions"]:
                place, wanted = (topic["name"], part["partition_index"]), part["replicas"]
                error = self._refusal(place, wanted, may_resize)
                if error == "NONE":
                    self._nodes.placed[place] = list(wanted)
                results.append({"partition_index": place[1], "error_code": error})
            told.append({"name": topic["name"], "partitions": results})
        return Answer({"responses": told})

    def _refusal(self, place: tuple[str, int], wanted: list[int] | None, may_resize: bool) -> str:
        """Why a partition doesn't get these replicas; NONE if it does. None takes a change back
        that isn't over."""
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
        """ListPartitionReassignments: each is over at once."""
        error = _FORBIDDEN if self._is_refused(request, "DESCRIBE") else "NONE"
        return Answer({"error_code": error, "topics": []})
