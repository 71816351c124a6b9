"""What a broker answers to members of a group, and to those that are none, beside what `serve`
answers to the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import Connection, Security
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.serve.clients import eventually

NOBODY: dict[str, Any] = {"member_id": "", "generation_id": -1, "group_instance_id": None}
PROTOCOLS = [{"name": "range", "metadata": b"x"}]


class Asking:
    """One connection to a broker that coordinates all groups, with a transaction of its own."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.connection = Connection(host, int(port), Security())
        self.told: list[str] = []

    def ask(self, name: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        """The answer, once the coordinator is there."""
        left = 200
        while (told := self.connection.ask(name, version, fields))["error_code"] in _LATER:
            left -= 1
            assert left, told
        return told

    def begin(self, group: str) -> None:
        for kind, key in ((0, group), (1, group)):
            self.ask("FindCoordinator", 1, {"key": key, "key_type": kind})
        asked = {"transactional_id": group, "transaction_timeout": 60_000}
        told = self.ask("InitProducerId", 1, asked)
        assert told["error_code"] == "NONE", told
        self.own = {name: told[name] for name in ("producer_id", "producer_epoch")}
        self.own |= {"transactional_id": group, "group_id": group}
        assert self.ask("AddOffsetsToTxn", 1, self.own)["error_code"] == "NONE"

    def commits(self, *, plain: bool = False, committed_offset: int = 5, **member: Any) -> None:
        """The error of a member's TxnOffsetCommit or OffsetCommit."""
        part = {
            "partition_index": 0,
            "committed_offset": committed_offset,
            "committed_metadata": "",
        }
        topics = [{"name": "orders", "partitions": [part]}]
        fields = {**NOBODY, **member, "group_id": self.own["group_id"], "topics": topics}
        if plain:
            fields["generation_id_or_member_epoch"] = fields.pop("generation_id")
            told = self.connection.ask("OffsetCommit", 7, fields)
        else:
            told = self.connection.ask("TxnOffsetCommit", 3, {**self.own, **fields})
        self.told.append(told["topics"][0]["partitions"][0]["error_code"])

    def all_commits(self, member: str, *, plain: bool) -> None:
        """As everybody that somebody may take himself for."""
        for name in ("", member, "somebody"):
            for generation in (-1, 0, 1):
                for instance in (None, "i"):
                    self.commits(
                        plain=plain,
                        member_id=name,
                        generation_id=generation,
                        group_instance_id=instance,
                    )

    def joins(self, member: str = "") -> str:
        asked = {
            "group_id": self.own["group_id"],
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": member,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
        }
        told = self.connection.ask("JoinGroup", 5, asked)
        self.told += [told["error_code"], str(told["generation_id"])]
        return told["member_id"]

    def offset(self) -> None:
        """The answer about the offset."""
        self.told += self.fetched()

    def fetched(self) -> list[str]:
        """The error and the offset of an OffsetFetch."""
        asked = {
            "group_id": self.own["group_id"],
            "require_stable": True,
            "topics": [{"name": "orders", "partition_indexes": [0]}],
        }
        (part,) = self.connection.ask("OffsetFetch", 7, asked)["topics"][0]["partitions"]
        return [part["error_code"], str(part["committed_offset"])]

    def goes_through_it(self, group: str) -> list[str]:
        """A group from its first commit to its last member."""
        self.begin(group)
        self.commits(member_id="somebody", generation_id=0)
        self.offset()
        self.commits(plain=True, generation_id=0)
        self.commits()
        self.offset()
        member = self.joins()
        member = self.joins(member)
        about = {"group_id": group, "member_id": member, "generation_id": 1}
        for plain in (False, True):
            self.all_commits(member, plain=plain)
        self.told.append(self.connection.ask("Heartbeat", 3, about)["error_code"])
        given = [{"member_id": member, "assignment": b"all"}]
        synced = self.connection.ask("SyncGroup", 3, {**about, "assignments": given})
        self.told.append(synced["error_code"])
        for plain in (False, True):
            self.all_commits(member, plain=plain)
        for other in ({"generation_id": 2}, {"member_id": "somebody"}, {}):
            self.told.append(self.connection.ask("Heartbeat", 3, {**about, **other})["error_code"])
        for name in ("somebody", member):
            left = {"group_id": group, "member_id": name}
            self.told.append(self.connection.ask("LeaveGroup", 1, left)["error_code"])
        self.all_commits(member, plain=False)
        return self.told

    def has_a_zombie(self, group: str) -> list[str]:
        """Two transactions; an older instance's late offset comes into the second one."""
        self.begin(group)
        older = self.own
        self.commits_and_ends(5)
        self.begin(group)
        own = self.own
        self.commits(committed_offset=7)
        self.own = older
        self.commits(committed_offset=6)
        self.own = own
        self.ends()
        return self.told

    def commits_and_ends(self, offset: int) -> None:
        self.commits(committed_offset=offset)
        self.ends()

    def ends(self) -> None:
        """Commits, and tells the offset once it is in place."""
        fields = {name: self.own[name] for name in _OF_PRODUCER}
        ended = self.ask("EndTxn", 1, {**fields, "committed": True})
        self.told.append(ended["error_code"])
        eventually(lambda: self.fetched()[0] != "UNSTABLE_OFFSET_COMMIT")
        self.offset()


_OF_PRODUCER = ("transactional_id", "producer_id", "producer_epoch")
_LATER = (
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> Iterator[str]:
    """Of a broker that has the topic."""
    with with_orders(broker.bootstrap, 1):
        yield broker.bootstrap


@pytest.fixture
def asking(bootstrap: str) -> Iterator[Asking]:
    made = Asking(bootstrap)
    yield made
    made.connection.close()


def test_a_broker_answers_members_as_the_oracle_does(asking: Asking, broker: Broker) -> None:
    told = asking.goes_through_it("members")
    with Server(broker.release, topics={"orders": 1}) as server:
        assert told == Asking(server.bootstrap).goes_through_it("members")
    assert {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"} <= {*told}


def test_16_a_zombies_refused_offset_drops_the_pending_one(asking: Asking, broker: Broker) -> None:
    told = asking.has_a_zombie("zombie")
    with Server(broker.release, topics={"orders": 1}) as server:
        assert told == Asking(server.bootstrap).has_a_zombie("zombie")
    assert told[-1] == ("7" if broker.release.startswith("4") else "5")
