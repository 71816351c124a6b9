"""Records of `__consumer_offsets`: the groups and offsets of a group coordinator.

The number before a key is the kind of the record; the number before a value is its version. A
missing value (a tombstone) removes the entry. Values of groups whose partitions the broker assigns
have one version. Their layouts changed while these groups were previews (consumer groups before
3.8, share groups before 4.1), so such values can't be decoded.

Source: GroupMetadataManager, GroupCoordinatorRecordSerde, CoordinatorRecordType.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, cast
from uuid import UUID

from kio.serial.readers import read_int16
from kio.static.protocol import Entity

from .codec.codec import UnknownTag, decode, encode, read
from .codec.errors import RecordError
from .layouts import assigned_groups as assigned
from .layouts.offset_layouts import (
    GroupKey,
    GroupMetadataValue,
    GroupMetadataValueV0,
    GroupMetadataValueV1,
    GroupMetadataValueV2,
    GroupMetadataValueV3,
    MemberKey,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetCommitValueV0,
    OffsetCommitValueV1,
    OffsetCommitValueV3,
    RegularExpressionKey,
)
from .transaction_log import UnknownVersionError

_OFFSETS: Final = dict[int, type[Entity]](enumerate((
    OffsetCommitValueV0, OffsetCommitValueV1, OffsetCommitValueV0, OffsetCommitValueV3,
    OffsetCommitValue,
)))  # fmt: skip
_GROUPS: Final = dict[int, type[Entity]](enumerate((
    GroupMetadataValueV0, GroupMetadataValueV1, GroupMetadataValueV2, GroupMetadataValueV3,
    GroupMetadataValue,
)))  # fmt: skip


@dataclass(frozen=True)
class RecordType:
    """A kind of record: Kafka's name, the layout of its key, and the layouts of its values by
    version."""

    name: str
    key: type[Entity]
    values: Mapping[int, type[Entity]]


def _of(name: str, value: type[Entity], key: type[Entity] = GroupKey) -> RecordType:
    """A kind of record whose value has only version 0."""
    return RecordType(name, key, {0: value})


RECORD_TYPES: Final[Mapping[int, RecordType]] = {
    0: RecordType("LEGACY_OFFSET_COMMIT", OffsetCommitKey, _OFFSETS),
    1: RecordType("OFFSET_COMMIT", OffsetCommitKey, _OFFSETS),
    2: RecordType("GROUP_METADATA", GroupKey, _GROUPS),
    3: _of("CONSUMER_GROUP_METADATA", assigned.ConsumerGroupMetadata),
    4: _of("CONSUMER_GROUP_PARTITION_METADATA", assigned.ConsumerGroupPartitionMetadata),
    5: _of("CONSUMER_GROUP_MEMBER_METADATA", assigned.ConsumerGroupMemberMetadata, MemberKey),
    6: _of("CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA", assigned.TargetAssignmentMetadata),
    7: _of("CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", assigned.TargetAssignmentMember, MemberKey),
    8: _of(
        "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
        assigned.ConsumerGroupCurrentMemberAssignment,
        MemberKey,
    ),
    10: _of("SHARE_GROUP_MEMBER_METADATA", assigned.ShareGroupMemberMetadata, MemberKey),
    11: _of("SHARE_GROUP_METADATA", assigned.ShareGroupMetadata),
    12: _of("SHARE_GROUP_TARGET_ASSIGNMENT_METADATA", assigned.TargetAssignmentMetadata),
    13: _of("SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", assigned.TargetAssignmentMember, MemberKey),
    14: _of(
        "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
        assigned.ShareGroupCurrentMemberAssignment,
        MemberKey,
    ),
    15: _of("SHARE_GROUP_STATE_PARTITION_METADATA", assigned.ShareGroupStatePartitionMetadata),
    16: _of(
        "CONSUMER_GROUP_REGULAR_EXPRESSION",
        assigned.ConsumerGroupRegularExpression,
        RegularExpressionKey,
    ),
    17: _of("STREAMS_GROUP_METADATA", assigned.StreamsGroupMetadata),
    19: _of("STREAMS_GROUP_MEMBER_METADATA", assigned.StreamsGroupMemberMetadata, MemberKey),
    20: _of("STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA", assigned.TargetAssignmentMetadata),
    21: _of(
        "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
        assigned.StreamsGroupTargetAssignmentMember,
        MemberKey,
    ),
    22: _of(
        "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
        assigned.StreamsGroupCurrentMemberAssignment,
        MemberKey,
    ),
    23: _of("STREAMS_GROUP_TOPOLOGY", assigned.StreamsGroupTopology),
}
"""The kinds by the number before a key. Kinds 0 and 1, offsets, have the same layouts."""


@dataclass(frozen=True)
class GroupValue:
    """A value, its version, and its undeclared tagged fields."""

    version: int
    value: Entity
    unknown_tags: tuple[UnknownTag, ...] = ()


def encode_group_key(number: int, key: Entity) -> bytes:
    """The bytes of a key, after the number of its kind. Raises RecordError for a field out of
    range, and for a key of another kind."""
    known = RECORD_TYPES.get(number)
    if known is None or not isinstance(key, known.key):
        raise RecordError("key", f"{type(key).__name__} is not a key of kind {number}")
    return number.to_bytes(2) + encode(key, known.key)


def decode_group_key(data: bytes) -> tuple[RecordType, Entity]:
    """A key and its kind of record. Raises UnknownVersionError for an unknown kind, and RecordError
    for wrong bytes."""
    number, start = read(read_int16, data, 0, "version")
    known = RECORD_TYPES.get(number)
    if known is None:
        raise UnknownVersionError("key", number)
    return known, decode(known.key, data, start).entity


def encode_group_value(kind: RecordType, value: Entity, version: int) -> bytes:
    """The bytes of a value, after its version. Raises RecordError for a field out of range, and for
    a value of another version or kind."""
    layout = kind.values.get(version)
    if layout is None or type(value) is not layout:
        raise RecordError(
            "version", f"{type(value).__name__} isn't the value of {kind.name} in version {version}"
        )
    return version.to_bytes(2) + encode(value)


def decode_group_value(kind: RecordType, data: bytes) -> GroupValue:
    """A value of a kind with layouts. Bytes after it are ignored, as in Kafka. Raises
    UnknownVersionError, and RecordError for wrong bytes."""
    version, start = read(read_int16, data, 0, "version")
    layout = kind.values.get(version)
    if layout is None:
        raise UnknownVersionError(f"{kind.name} value", version)
    found = decode(layout, data, start)
    return GroupValue(version, found.entity, found.unknown_tags)


def plain(entity: Entity) -> dict[str, Any]:
    """The fields of a key or a value, with topic ids as text and states as names."""
    return {each.name: _plain(getattr(entity, each.name), each.metadata) for each in fields(entity)}


def _plain(value: Any, metadata: Mapping[str, Any]) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return plain(cast("Entity", value))
    if isinstance(value, tuple):
        return tuple(_plain(item, metadata) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, UUID):
        return str(value)
    return metadata.get("names", {}).get(value, value) if isinstance(value, int) else value
