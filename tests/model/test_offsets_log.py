"""Records of `__consumer_offsets`: as Kafka's own serializers write them, and as wrong bytes.

tests/brokers/Offsets.java printed offsets.tsv with Kafka 4.3.0; `make brokers` runs it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochfence.model.records import (
    RECORD_TYPES,
    Kind,
    Record,
    RecordBatch,
    RecordError,
    RecordType,
    Row,
    UnknownVersionError,
    decode_group_key,
    decode_group_value,
    encode_batch,
    encode_group_key,
    encode_group_value,
    kind_of,
    read_file,
)
from epochfence.model.records.offsets_log import plain

LINES = (Path(__file__).parent / "offsets.tsv").read_text().splitlines()
WRITTEN = {what: bytes.fromhex(data) for what, _, data in (x.partition("\t") for x in LINES)}
OFFSET, GROUP = RECORD_TYPES[1], RECORD_TYPES[2]
MEMBER = {
    "member_id": "member",
    "client_id": "client",
    "client_host": "/127.0.0.1",
    "session_timeout": 10,
    "subscription": b"\1",
    "assignment": b"",
}


def test_every_type_of_key_is_that_of_kafka() -> None:
    types = {what: data for what, data in WRITTEN.items() if what.startswith("type")}
    named = [f"type {number} {known.name}" for number, known in RECORD_TYPES.items()]
    assert named == list(types)
    for number, known in RECORD_TYPES.items():
        data = types[f"type {number} {known.name}"]
        found, key = decode_group_key(data)
        assert found is known
        assert encode_group_key(number, key) == data


@pytest.mark.parametrize("version", range(5))
def test_an_offset_of_each_version(version: int) -> None:
    data = WRITTEN[f"offset {version}"]
    found = decode_group_value(OFFSET, data)
    told = {"offset": 7, "metadata": "m", "commit_timestamp": 11}
    told |= {"expire_timestamp": 13} if version == 1 else {}
    told |= {"leader_epoch": 5} if version >= 3 else {}
    told |= {"topic_id": "00000000-0000-0001-0000-000000000002"} if version == 4 else {}
    assert plain(found.value) == told
    assert encode_group_value(OFFSET, found.value, version) == data


@pytest.mark.parametrize("version", range(5))
def test_a_group_of_each_version(version: int) -> None:
    data = WRITTEN[f"group {version}"]
    found = decode_group_value(GROUP, data)
    member = MEMBER | ({"rebalance_timeout": 20} if version >= 1 else {})
    member |= {"group_instance_id": "instance"} if version >= 3 else {}
    told = {
        "protocol_type": "consumer",
        "generation": 2,
        "protocol": "range",
        "leader": None if version == 2 else "member",
        "members": (member,),
    }
    told |= {"current_state_timestamp": 17} if version >= 2 else {}
    assert plain(found.value) == told
    assert encode_group_value(GROUP, found.value, version) == data


@pytest.mark.parametrize("what", [what for what in WRITTEN if not what.startswith("type")])
def test_what_ends_early_is_told_by_place(what: str) -> None:
    data = WRITTEN[what]
    kind = kind_of_value(what)
    for end in range(len(data)):
        cut = data[:end]
        with pytest.raises(RecordError) as told:
            _ = decode_group_key(cut) if what == "key 1" else decode_group_value(kind, cut)
        assert told.value.at is not None
        assert told.value.at <= end


def kind_of_value(what: str) -> RecordType:
    name, _, number = what.partition(" ")
    return {"offset": OFFSET, "group": GROUP, "key": OFFSET}.get(name) or RECORD_TYPES[int(number)]


def test_what_is_not_known_or_does_not_fit() -> None:
    with pytest.raises(UnknownVersionError, match="no key of version 9"):
        decode_group_key(b"\0\x09")
    with pytest.raises(UnknownVersionError, match="no OFFSET_COMMIT value of version 5"):
        decode_group_value(OFFSET, b"\0\5")
    _, key = decode_group_key(WRITTEN["key 1"])
    with pytest.raises(RecordError, match="OffsetCommitKey is not a key of kind 2"):
        encode_group_key(2, key)
    value = decode_group_value(OFFSET, WRITTEN["offset 3"]).value
    said = "OffsetCommitValueV3 isn't the value of OFFSET_COMMIT in version 4"
    with pytest.raises(RecordError, match=said):
        encode_group_value(OFFSET, value, 4)


TOPIC = "00000000-0000-0001-0000-000000000002"
PARTITIONS = {"topic_id": TOPIC, "partitions": (0, 1)}
CLIENT = {"client_id": "client", "client_host": "/127.0.0.1"}
CONSUMER: dict[str, Any] = CLIENT | {
    "instance_id": "instance", "rack_id": "rack", "subscribed_topic_names": ("orders", "bills"),
    "subscribed_topic_regex": "o.*", "rebalance_timeout_ms": 5, "server_assignor": "uniform",
    "classic_member_metadata": {
        "session_timeout_ms": 6, "supported_protocols": ({"name": "range", "metadata": b"\7"},),
    },
}  # fmt: skip
STREAMS: dict[str, Any] = {
    "epoch": 3,
    "metadata_hash": 4,
    "validated_topology_epoch": 5,
    "last_assignment_configs": ({"key": "num.standby.replicas", "value": "1"},),
}
INSTANCE: dict[str, Any] = CLIENT | {
    "instance_id": None,
    "rack_id": "rack",
    "rebalance_timeout_ms": 5,
    "topology_epoch": 6,
    "process_id": "process",
    "user_endpoint": {"host": "host", "port": 65535},
    "client_tags": ({"key": "zone", "value": "z"},),
}
TARGET, LATER = ({"assignment_epoch": 8, "assignment_timestamp": at} for at in (0, 9))
HAS = {"member_epoch": 3, "previous_member_epoch": 2}
TASKS = {"subtopology_id": "0", "partitions": (0, 1)}
VALUES: dict[str, dict[str, Any]] = {
    "value 3": {"epoch": 3, "metadata_hash": 4},
    "value 4": {"topics": ({
        "topic_id": TOPIC, "topic_name": "orders", "num_partitions": 2,
        "partition_metadata": ({"partition": 1, "racks": ("a", "b")},),
    },)},
    "value 5": CONSUMER,
    "value 6": LATER,
    "value 7": {"topic_partitions": (PARTITIONS,)},
    "value 8": HAS | {
        "state": "UNREVOKED_PARTITIONS",
        "assigned_partitions": (PARTITIONS | {"assignment_epochs": (2, 3)},),
        "partitions_pending_revocation": (
            {"topic_id": TOPIC, "partitions": (2,), "assignment_epochs": ()},
        ),
    },
    "value 10": CLIENT | {"rack_id": None, "subscribed_topic_names": ("orders",)},
    "value 11": {"epoch": 3, "metadata_hash": 4},
    "value 12": TARGET,
    "value 13": {"topic_partitions": (PARTITIONS,)},
    "value 14": HAS | {
        "state": "STABLE", "assigned_partitions": ({"topic_id": TOPIC, "partitions": (0,)},),
    },
    "value 15": {
        "initializing_topics": ({"topic_id": TOPIC, "topic_name": "orders", "partitions": (1,)},),
        "initialized_topics": (),
        "deleting_topics": ({"topic_id": TOPIC, "topic_name": "bills"},),
    },
    "value 16": {"topics": ("orders",), "version": 10, "timestamp": 11},
    "value 17": STREAMS,
    "value 19": INSTANCE,
    "value 20": LATER,
    "value 21": {"active_tasks": (TASKS,), "standby_tasks": (), "warmup_tasks": ()},
    "value 22": HAS | {
        "state": "UNREVOKED_TASKS",
        "active_tasks": (
            {"subtopology_id": "0", "partitions": (0,), "assignment_epochs": (3,)},
        ),
        "active_tasks_pending_revocation": (
            {"subtopology_id": "1", "partitions": (2,), "assignment_epochs": ()},
        ),
        "standby_tasks": (), "warmup_tasks": (), "standby_tasks_pending_revocation": (),
        "warmup_tasks_pending_revocation": (),
    },
    "value 23": {"epoch": 1, "subtopologies": ({
        "subtopology_id": "0", "source_topics": ("orders",), "source_topic_regex": ("o.*",),
        "state_changelog_topics": ({
            "name": "store-changelog", "partitions": 2, "replication_factor": 3,
            "topic_configs": ({"key": "cleanup.policy", "value": "compact"},),
        },),
        "repartition_sink_topics": ("sink",), "repartition_source_topics": (),
        "copartition_groups": ({
            "source_topics": (0,), "source_topic_regex": (0,), "repartition_source_topics": (),
        },),
    },)},
    "bare 3": {"epoch": 1, "metadata_hash": 0},
    "bare 5": CONSUMER | dict.fromkeys((
        "instance_id", "rack_id", "subscribed_topic_regex", "server_assignor",
        "classic_member_metadata",
    )),
    "bare 17": STREAMS | {"validated_topology_epoch": -1, "last_assignment_configs": None},
    "bare 19": INSTANCE | {"user_endpoint": None},
}  # fmt: skip


def test_every_type_of_a_group_in_which_the_broker_assigns_has_a_value() -> None:
    assert {f"value {number}" for number in RECORD_TYPES if number > 2} == {
        name for name in VALUES if name.startswith("value")
    }
    assert VALUES.keys() == {name for name in WRITTEN if name.startswith(("value", "bare"))}


@pytest.mark.parametrize("what", VALUES)
def test_a_value_of_a_group_in_which_the_broker_assigns(what: str) -> None:
    kind = kind_of_value(what)
    found = decode_group_value(kind, WRITTEN[what])
    assert plain(found.value) == VALUES[what]
    assert (found.version, found.unknown_tags) == (0, ())
    assert encode_group_value(kind, found.value, 0) == WRITTEN[what]


def test_what_previews_wrote_is_not_taken_for_what_it_is_not() -> None:
    """ShareGroupMetadataValue of 4.0 has no hash, ConsumerGroupPartitionMetadataValue of 3.7 an
    epoch first."""
    for number, data, field in (
        (11, "0000000000 0300", "metadata_hash"),
        (4, "00000000000100", "topics"),
    ):
        with pytest.raises(RecordError) as told:
            decode_group_value(RECORD_TYPES[number], bytes.fromhex(data))
        assert told.value.field == field


def test_a_file_of_each_kind_of_record(tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-3" / "00000000000000000000.log"
    path.parent.mkdir()
    assert kind_of(path) is Kind.OFFSETS_LOG
    key = WRITTEN["key 1"]
    expression = WRITTEN["type 16 CONSUMER_GROUP_REGULAR_EXPRESSION"]
    pairs = (
        (key, WRITTEN["offset 4"] + b"behind it"),
        (key, None),
        (WRITTEN["type 2 GROUP_METADATA"], WRITTEN["group 4"]),
        (WRITTEN["type 3 CONSUMER_GROUP_METADATA"], b"\0\0\0\0\0\7\0"),
        (expression, WRITTEN["value 16"]),
        (b"\0\x63", b""),
    )
    records = tuple(Record(offset_delta=at, key=k, value=v) for at, (k, v) in enumerate(pairs))
    path.write_bytes(
        encode_batch(RecordBatch(base_offset=20, records=records, last_offset_delta=len(pairs) - 1))
    )
    _, offset, gone, group, new, found, strange = read_file(path)
    assert isinstance(offset, Row)
    told = ("partition", "offset", "committed_offset")
    assert (offset.what, *(offset.fields[name] for name in told)) == ("offset", 3, 20, 7)
    assert isinstance(gone, Row)
    assert (gone.what, gone.fields["type"]) == ("tombstone", "OFFSET_COMMIT")
    assert isinstance(group, Row)
    assert (group.what, group.fields["generation"]) == ("group", 2)
    assert isinstance(new, Row)
    assert new.fields["type"] == "CONSUMER_GROUP_METADATA"
    assert (new.what, new.fields["epoch"], new.fields["version"]) == ("group record", 7, 0)
    assert isinstance(found, Row)
    own = ("timestamp", "version", "found_at", "metadata_version")
    assert [found.fields[name] for name in own] == [-1, 0, 11, 10]
    assert isinstance(strange, RecordError)
    assert "no key of version 99 is known" in str(strange)
