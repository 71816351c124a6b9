"""Replicas and leaders: ids of brokers, assignments by clients, changes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import Connection, Security
from epochfence.spec.access.acls import Acl, Acls

FIRST = 7


class Client:
    """Connections to each of three brokers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connections = {
            node: Connection(*address, Security())
            for node, address in server.brokers.addresses.items()
        }

    def ask(self, name: str, node: int = FIRST, /, **fields: Any) -> dict[str, Any]:
        version = self.server.brokers.versions[name][1]
        return self.connections[node].ask(name, version, fields)

    def create(self, *lists: list[int]) -> str:
        """Creates the topic orders with partitions of these replicas: an error."""
        assigned = [{"partition_index": n, "broker_ids": ids} for n, ids in enumerate(lists)]
        topic = {
            "name": "orders",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assigned,
            "configs": [],
        }
        return self.ask("CreateTopics", topics=[topic])["topics"][0]["error_code"]

    def replicas(self) -> list[tuple[int, list[int]]]:
        """The leader and the replicas of each partition of orders."""
        (topic,) = self.ask("Metadata", topics=[{"name": "orders", "topic_id": None}])["topics"]
        return [(part["leader_id"], part["replica_nodes"]) for part in topic["partitions"]]

    def read(self, node: int, number: int = 0) -> str:
        """The error of a ListOffsets that a broker is asked for."""
        part = {"partition_index": number, "timestamp": -1, "current_leader_epoch": -1}
        topics = [{"name": "orders", "partitions": [part]}]
        told = self.ask("ListOffsets", node, replica_id=-1, isolation_level=0, topics=topics)
        return told["topics"][0]["partitions"][0]["error_code"]

    def reassign(self, number: int, replicas: list[int] | None, **given: Any) -> str:
        """Changes the replicas of a partition of orders: an error."""
        partitions = [{"partition_index": number, "replicas": replicas}]
        topics = [{"name": "orders", "partitions": partitions}]
        told = self.ask("AlterPartitionReassignments", topics=topics, **given)
        if told["error_code"] != "NONE":
            return told["error_code"]
        return told["responses"][0]["partitions"][0]["error_code"]


@pytest.fixture
def client() -> Iterator[Client]:
    with Server("4.4", brokers=3, first_id=FIRST, racks=("a", "b", "c")) as server:
        made = Client(server)
        yield made
        for connection in made.connections.values():
            connection.close()


def test_ids_of_brokers_begin_with_the_first(client: Client) -> None:
    told = client.ask("Metadata", topics=[])
    assert [(one["node_id"], one["rack"]) for one in told["brokers"]] == [
        (7, "a"),
        (8, "b"),
        (9, "c"),
    ]
    assert told["controller_id"] == FIRST
    ids = {"key_type": 1, "coordinator_keys": [f"id-{n}" for n in range(20)]}
    found = client.ask("FindCoordinator", **ids)["coordinators"]
    assert {one["node_id"] for one in found} == {7, 8, 9}
    moved = client.server.nodes.coordinator("id-0")
    assert client.server.nodes.move("id-0") == (8 if moved == 7 else 9 if moved == 8 else 7)
    assert client.create([6]) == "INVALID_REPLICA_ASSIGNMENT"


def test_a_topic_has_the_replicas_that_a_client_chooses(client: Client) -> None:
    assert client.create([9, 7], [8, 9]) == "NONE"
    assert client.replicas() == [(9, [9, 7]), (8, [8, 9])]
    assert (client.read(9), client.read(7)) == ("NONE", "NOT_LEADER_OR_FOLLOWER")
    more = {"name": "orders", "count": 3, "assignments": [{"broker_ids": [7, 8]}]}
    (told,) = client.ask("CreatePartitions", topics=[more], validate_only=False)["results"]
    assert told["error_code"] == "NONE"
    assert client.replicas()[2] == (7, [7, 8])
    dirs = {
        node: client.ask("DescribeLogDirs", node, topics=None)["results"][0]["topics"]
        for node in (7, 8, 9)
    }
    held = {
        node: [part["partition_index"] for part in topics[0]["partitions"]]
        for node, topics in dirs.items()
    }
    assert held == {7: [0, 2], 8: [1, 2], 9: [0, 1]}
    client.ask("DeleteTopics", topics=[{"name": "orders", "topic_id": None}])
    assert client.create([8]) == "NONE"
    assert client.replicas() == [(8, [8])]


def test_a_partition_gets_other_replicas_at_once(client: Client) -> None:
    assert client.create([7]) == "NONE"
    assert client.reassign(0, [8, 7]) == "NONE"
    assert client.replicas() == [(8, [8, 7])]
    assert (client.read(8), client.read(7)) == ("NONE", "NOT_LEADER_OR_FOLLOWER")
    wrong = ([], [7, 7], [3], None)
    assert [client.reassign(0, replicas) for replicas in wrong] == [
        *("INVALID_REPLICA_ASSIGNMENT",) * 3,
        "NO_REASSIGNMENT_IN_PROGRESS",
    ]
    assert client.reassign(1, [7]) == "UNKNOWN_TOPIC_OR_PARTITION"
    told = client.reassign(0, [7], allow_replication_factor_change=False)
    assert told == "INVALID_REPLICATION_FACTOR"
    assert client.ask("ListPartitionReassignments", topics=None)["topics"] == []


def test_no_election_is_needed(client: Client) -> None:
    client.create([7])
    topics = [{"topic": "orders", "partitions": [0, 5]}]
    told = client.ask("ElectLeaders", election_type=0, topic_partitions=topics)
    (found,) = told["replica_election_results"]
    assert [one["error_code"] for one in found["partition_result"]] == [
        "ELECTION_NOT_NEEDED",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert client.ask("ElectLeaders", election_type=0, topic_partitions=None) == {
        **told,
        "replica_election_results": [],
    }


def test_who_may_not_alter_the_cluster_changes_nothing(client: Client) -> None:
    client.create([7])
    client.server.cluster.acls = Acls((Acl("User:ANONYMOUS", "DESCRIBE", "TOPIC", "orders"),))
    refused = "CLUSTER_AUTHORIZATION_FAILED"
    assert client.reassign(0, [8]) == refused
    assert client.ask("ListPartitionReassignments", topics=None)["error_code"] == refused
    told = client.ask("ElectLeaders", election_type=0, topic_partitions=None)
    assert told["error_code"] == refused
    assert client.replicas() == [(7, [7])]


def test_each_setting_of_brokers_has_a_documentation() -> None:
    with Server("4.4", topics={"orders": 1}) as server:
        connection = Connection(*server.brokers.addresses[0], Security())
        with closing(connection):
            resources = [
                {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                for kind, name in ((4, "0"), (2, "orders"))
            ]

            def told(**fields: Any) -> list[dict[str, str | None]]:
                asked = {"resources": resources, "include_synonyms": False, **fields}
                results = connection.ask("DescribeConfigs", 4, asked)["results"]
                return [
                    {each["name"]: each["documentation"] for each in one["configs"]}
                    for one in results
                ]

            brokers, topics = told(include_documentation=True)
            assert all(brokers.values())
            assert topics["max.message.bytes"] == brokers["message.max.bytes"]
            assert not any(told(include_documentation=False)[0].values())
