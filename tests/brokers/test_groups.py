"""What a broker answers to members of a group, and to those that are none, beside what `serve`
answers to the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epochfence.model.live.connection import Connection, Security
from epochfence.model.serve.server import Server
from epochfence.tests.brokers.kafka import Broker
from epochfence.tests.brokers.topics import with_orders

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

    def commits(self, *, plain: bool = False, **member: Any) -> None:
        """TxnOffsetCommit or OffsetCommit of a member: its error is told."""
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
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
                        plain=plain, member_id=name, generation_id=generation,
                        group_instance_id=instance,
                    )  # fmt: skip

    def joins(self, member: str = "") -> str:
        asked = {
            "group_id": self.own["group_id"], "session_timeout": 10_000,
            "rebalance_timeout": 10_000, "member_id": member, "group_instance_id": None,
            "protocol_type": "consumer", "protocols": PROTOCOLS,
        }  # fmt: skip
        told = self.connection.ask("JoinGroup", 5, asked)
        self.told += [told["error_code"], str(told["generation_id"])]
        return told["member_id"]

    def offset(self) -> None:
        """What is told of the offset."""
        asked = {
            "group_id": self.own["group_id"], "require_stable": True,
            "topics": [{"name": "orders", "partition_indexes": [0]}],
        }  # fmt: skip
        (part,) = self.connection.ask("OffsetFetch", 7, asked)["topics"][0]["partitions"]
        self.told += [part["error_code"], str(part["committed_offset"])]

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


_LATER = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS",
          "CONCURRENT_TRANSACTIONS")  # fmt: skip


@pytest.fixture
def asking(broker: Broker) -> Iterator[Asking]:
    with with_orders(broker.bootstrap, 1):
        made = Asking(broker.bootstrap)
        yield made
        made.connection.close()


def test_a_broker_answers_members_as_the_oracle_does(asking: Asking, broker: Broker) -> None:
    told = asking.goes_through_it("members")
    with Server(broker.release, topics={"orders": 1}) as server:
        assert told == Asking(server.bootstrap).goes_through_it("members")
    assert {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"} <= {*told}
