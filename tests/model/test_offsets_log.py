"""Records of `__consumer_offsets`: as Kafka's own serializers write them, and as wrong bytes.

offsets.tsv is what tests/brokers/Offsets.java prints with Kafka 4.3.0; `make brokers` runs it anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.model.records import (
    RECORD_TYPES,
    Kind,
    Record,
    RecordBatch,
    RecordError,
    Row,
    UnknownVersion,
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
    "member_id": "member", "client_id": "client", "client_host": "/127.0.0.1",
    "session_timeout": 10, "subscription": b"\1", "assignment": b"",
}  # fmt: skip


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
        "protocol_type": "consumer", "generation": 2, "protocol": "range",
        "leader": None if version == 2 else "member", "members": (member,),
    }  # fmt: skip
    told |= {"current_state_timestamp": 17} if version >= 2 else {}
    assert plain(found.value) == told
    assert encode_group_value(GROUP, found.value, version) == data


@pytest.mark.parametrize("what", [what for what in WRITTEN if not what.startswith("type")])
def test_what_ends_early_is_told_by_place(what: str) -> None:
    data = WRITTEN[what]
    kind = OFFSET if what.startswith("offset") else GROUP
    for end in range(len(data)):
        cut = data[:end]
        with pytest.raises(RecordError) as told:
            _ = decode_group_key(cut) if what == "key 1" else decode_group_value(kind, cut)
        assert told.value.at is not None
        assert told.value.at <= end


def test_what_is_not_known_or_does_not_fit() -> None:
    with pytest.raises(UnknownVersion, match="no key of version 9"):
        decode_group_key(b"\0\x09")
    with pytest.raises(UnknownVersion, match="no OFFSET_COMMIT value of version 5"):
        decode_group_value(OFFSET, b"\0\5")
    _, key = decode_group_key(WRITTEN["key 1"])
    with pytest.raises(RecordError, match="OffsetCommitKey is no key of kind 2"):
        encode_group_key(2, key)
    value = decode_group_value(OFFSET, WRITTEN["offset 3"]).value
    with pytest.raises(RecordError, match="OffsetCommitValueV3 is no OFFSET_COMMIT of version 4"):
        encode_group_value(OFFSET, value, 4)


def test_a_file_of_each_kind_of_record(tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-3" / "00000000000000000000.log"
    path.parent.mkdir()
    assert kind_of(path) is Kind.OFFSETS_LOG
    key = WRITTEN["key 1"]
    pairs = (
        (key, WRITTEN["offset 4"] + b"behind it"), (key, None),
        (WRITTEN["type 2 GROUP_METADATA"], WRITTEN["group 4"]),
        (WRITTEN["type 3 CONSUMER_GROUP_METADATA"], b"\0\0\0\0\0\7\0"), (b"\0\x63", b""),
    )  # fmt: skip
    records = tuple(Record(offset_delta=at, key=k, value=v) for at, (k, v) in enumerate(pairs))
    path.write_bytes(
        encode_batch(RecordBatch(base_offset=20, records=records, last_offset_delta=len(pairs) - 1))
    )
    _, offset, gone, group, new, strange = read_file(path)
    assert isinstance(offset, Row)
    told = ("partition", "offset", "committed_offset")
    assert (offset.what, *(offset.fields[name] for name in told)) == ("offset", 3, 20, 7)
    assert isinstance(gone, Row)
    assert (gone.what, gone.fields["type"]) == ("tombstone", "OFFSET_COMMIT")
    assert isinstance(group, Row)
    assert (group.what, group.fields["generation"]) == ("group", 2)
    assert isinstance(new, Row)
    assert new.fields["type"] == "CONSUMER_GROUP_METADATA"
    assert new.fields["value"] == b"\0\0\0\0\0\7\0"
    assert isinstance(strange, RecordError)
    assert "no key of version 99 is known" in str(strange)
