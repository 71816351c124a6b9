"""Schemas of versions that kio doesn't have yet, declared as kio's messages are.

A test fails as soon as kio has a version; then remove it here. No `from __future__ import
annotations` here: kio reads the types.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta


class _TxnOffsetCommit:
    __slots__ = ()
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic(_TxnOffsetCommit):
    """A topic; its partitions have the previous schema."""

    __type__: ClassVar[EntityType] = EntityType.nested
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest(_TxnOffsetCommit):
    """TxnOffsetCommitRequestData.SCHEMA_6 (KIP-1319)."""

    __type__: ClassVar[EntityType] = EntityType.request
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    group_id: GroupId = field(metadata={"kafka_type": "string"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    generation_id_or_member_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    member_id: str = field(metadata={"kafka_type": "string"}, default="")
    group_instance_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic(_TxnOffsetCommit):
    """A topic; its partitions have the previous schema."""

    __type__: ClassVar[EntityType] = EntityType.nested
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse(_TxnOffsetCommit):
    """TxnOffsetCommitResponseData.SCHEMA_6 (KIP-1319)."""

    __type__: ClassVar[EntityType] = EntityType.response
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


SCHEMAS: Final[dict[tuple[str, int], tuple[Any, Any]]] = {
    ("TxnOffsetCommit", 6): (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
}
"""The classes of a request and its response, by the API and the version."""
