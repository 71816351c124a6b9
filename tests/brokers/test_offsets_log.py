"""`__consumer_offsets`, as Kafka's own serializers and brokers write it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from epochfence.model.conformance.kafka.broker import Broker, java
from epochfence.model.records import Row, read_file
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.serve.clients import eventually

PROGRAM = Path(__file__).parent / "Offsets.java"
WRITTEN = Path(__file__).parents[1] / "model" / "offsets.tsv"


@pytest.mark.releases("4.3", "4.4")
def test_the_examples_are_what_kafka_writes(broker: Broker) -> None:
    done = subprocess.run(
        [java(), "-cp", f"{broker.jars}/*", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == WRITTEN.read_text()


def written_of(broker: Broker, group: str, **more: str) -> list[Row]:
    """What a broker writes of a group whose only member commits offset 13, and leaves."""
    with with_orders(broker.bootstrap, 1):
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0}
        consumer = Consumer(settings | {"client.id": "me", "enable.auto.commit": False} | more)
        consumer.subscribe(["orders"])

        def is_assigned() -> bool:
            consumer.poll(0.1)  # in which it joins
            return bool(consumer.assignment())

        eventually(is_assigned)
        committed = TopicPartition("orders", 0, 13)
        consumer.commit(offsets=[committed], asynchronous=False)
        consumer.close()
    rows: list[Row] = []
    for path in sorted((broker.folder / "data").glob("__consumer_offsets-*/*.log")):
        for row in read_file(path):
            assert isinstance(row, Row), row
            rows.append(row)
    mine = [row for row in rows if row.fields.get("group") == group]
    (offset,) = [row.fields for row in mine if row.what == "offset"]
    told = ("topic", "partition", "committed_offset")
    assert tuple(offset[name] for name in told) == ("orders", 0, 13)
    return mine


def test_what_a_broker_writes_of_a_group(broker: Broker) -> None:
    mine = written_of(broker, "billing")
    groups = [row.fields for row in mine if row.what == "group"]
    # before a member joins, a coordinator may write a group without a protocol type
    assert {group["protocol_type"] for group in groups} - {""} == {"consumer"}
    members = [member for group in groups for member in group["members"]]
    assert {member["client_id"] for member in members} == {"me"}
    assert groups[-1]["members"] == ()


@pytest.mark.releases("4.3", "4.4")
def test_what_a_broker_writes_of_a_group_in_which_it_assigns(broker: Broker) -> None:
    mine = written_of(broker, "assigned", **{"group.protocol": "consumer"})
    told: dict[str, list[dict[str, Any]]] = {}
    for row in mine:
        if row.what == "group record":
            told.setdefault(row.fields["type"], []).append(row.fields)
    (member, *_) = told["CONSUMER_GROUP_MEMBER_METADATA"]
    assert (member["client_id"], member["subscribed_topic_names"]) == ("me", ("orders",))
    assert member["classic_member_metadata"] is None
    (has, *_) = told["CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT"]
    assert (has["member_id"], has["state"]) == (member["member_id"], "STABLE")
    (target, *_) = told["CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER"]
    assert [each["partitions"] for each in target["topic_partitions"]] == [(0,)]
    epochs = [group["epoch"] for group in told["CONSUMER_GROUP_METADATA"]]
    assert epochs == sorted(set(epochs))
    tombstones = {row.fields["type"] for row in mine if row.what == "tombstone"}
    # the topic is deleted by then, and the broker may have seen to its offsets
    assert tombstones - {"OFFSET_COMMIT"} == {
        "CONSUMER_GROUP_MEMBER_METADATA",
        "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER",
        "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    }
