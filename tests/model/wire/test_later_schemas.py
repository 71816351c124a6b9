"""Messages that kio doesn't have: Kafka's own bytes, and nothing that kio has by now."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from kio.index import UnknownEntity, load_request_schema
from kio.serial import entity_writer

from epochfence.model.wire.connection import KEYS, request_bytes, response_of
from epochfence.model.wire.later_schemas import SCHEMAS
from epochfence.model.wire.shapes import shaped

TOPIC = UUID(int=5)
REQUEST = (
    "026102670000000000000001000200000003026d0002000000000000000000000000000000050200000001"
    "0000000000000004ffffffff01000000"
)
RESPONSE = "00000000020000000000000000000000000000000502000000010064000000"
"""Written by the classes of Kafka's client 4.4.0 (MessageUtil.toByteBufferAccessor)."""


def test_bytes_are_those_of_kafka() -> None:
    part = {"partition_index": 1, "committed_offset": 4, "committed_metadata": ""}
    sent = request_bytes(
        "TxnOffsetCommit", 6,
        {
            "transactional_id": "a", "group_id": "g", "producer_id": 1, "producer_epoch": 2,
            "generation_id_or_member_epoch": 3, "member_id": "m",
            "topics": [{"topic_id": TOPIC, "partitions": [part]}],
        },
    )  # fmt: skip
    assert sent.endswith(bytes.fromhex(REQUEST))
    told = response_of("TxnOffsetCommit", 6, bytes(5) + bytes.fromhex(RESPONSE))
    refused = {"partition_index": 1, "error_code": "UNKNOWN_TOPIC_ID"}
    assert told == {"throttle_time": 0, "topics": [{"topic_id": TOPIC, "partitions": [refused]}]}
    _, response = SCHEMAS["TxnOffsetCommit", 6]
    buffer = io.BytesIO()
    entity_writer(response)(buffer, shaped(response, told))
    assert buffer.getvalue().hex() == RESPONSE


@pytest.mark.parametrize(("name", "version"), SCHEMAS)
def test_kio_has_no_such_version(name: str, version: int) -> None:
    """Where it fails, the version's schema goes."""
    with pytest.raises(UnknownEntity):
        load_request_schema(KEYS[name], version)
