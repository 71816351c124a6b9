"""Records of `__consumer_offsets`: what a group coordinator keeps of groups and their offsets.

The number before a key says what kind of record it is, the number before a value its version; no
value (a tombstone) says that it is gone. Records of the groups in which the broker assigns
(KIP-848, KIP-932, KIP-1071) are named and their keys decoded; what they hold is shown as bytes.

Source: GroupMetadataManager, GroupCoordinatorRecordSerde, CoordinatorRecordType.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from kio.serial.readers import read_int16
from kio.static.protocol import Entity

from .codec import UnknownTag, decode, encode, read
from .errors import RecordError
from .offsets_schema import (
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
from .transaction_log import UnknownVersion

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
    """A kind of record: Kafka's name of it, the layout of its key, and its values' by version. One
    without values is known by name."""

    name: str
    key: type[Entity]
    values: Mapping[int, type[Entity]]


def _named(name: str, key: type[Entity] = GroupKey) -> RecordType:
    return RecordType(name, key, {})


RECORD_TYPES: Final[Mapping[int, RecordType]] = {
    0: RecordType("LEGACY_OFFSET_COMMIT", OffsetCommitKey, _OFFSETS),
    1: RecordType("OFFSET_COMMIT", OffsetCommitKey, _OFFSETS),
    2: RecordType("GROUP_METADATA", GroupKey, _GROUPS),
    3: _named("CONSUMER_GROUP_METADATA"),
    4: _named("CONSUMER_GROUP_PARTITION_METADATA"),
    5: _named("CONSUMER_GROUP_MEMBER_METADATA", MemberKey),
    6: _named("CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA"),
    7: _named("CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey),
    8: _named("CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey),
    10: _named("SHARE_GROUP_MEMBER_METADATA", MemberKey),
    11: _named("SHARE_GROUP_METADATA"),
    12: _named("SHARE_GROUP_TARGET_ASSIGNMENT_METADATA"),
    13: _named("SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey),
    14: _named("SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey),
    15: _named("SHARE_GROUP_STATE_PARTITION_METADATA"),
    16: _named("CONSUMER_GROUP_REGULAR_EXPRESSION", RegularExpressionKey),
    17: _named("STREAMS_GROUP_METADATA"),
    19: _named("STREAMS_GROUP_MEMBER_METADATA", MemberKey),
    20: _named("STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA"),
    21: _named("STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey),
    22: _named("STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey),
    23: _named("STREAMS_GROUP_TOPOLOGY"),
}
"""By the number before a key. Both kinds of an offset have the same layout."""


@dataclass(frozen=True)
class GroupValue:
    """A value, its version, and what tagged fields it has that aren't declared."""

    version: int
    value: Entity
    unknown_tags: tuple[UnknownTag, ...] = ()


def encode_group_key(number: int, key: Entity) -> bytes:
    """A key behind the number of its kind. Raises RecordError for a field that it can't hold, and
    for a key of another kind."""
    known = RECORD_TYPES.get(number)
    if known is None or not isinstance(key, known.key):
        raise RecordError("key", f"{type(key).__name__} is no key of kind {number}")
    return number.to_bytes(2) + encode(key, known.key)


def decode_group_key(data: bytes) -> tuple[RecordType, Entity]:
    """A key, and the kind of record that it stands for. Raises UnknownVersion for a kind that isn't
    known, and RecordError for wrong bytes."""
    number, start = read(read_int16, data, 0, "version")
    known = RECORD_TYPES.get(number)
    if known is None:
        raise UnknownVersion("key", number)
    return known, decode(known.key, data, start).entity


def encode_group_value(kind: RecordType, value: Entity, version: int) -> bytes:
    """A value behind its version. Raises RecordError for a field that it can't hold, and for a
    value of another version or kind."""
    layout = kind.values.get(version)
    if layout is None or type(value) is not layout:
        raise RecordError(
            "version", f"{type(value).__name__} is no {kind.name} of version {version}"
        )
    return version.to_bytes(2) + encode(value)


def decode_group_value(kind: RecordType, data: bytes) -> GroupValue:
    """A value of a kind that has layouts; bytes behind it are left alone, as Kafka does. Raises
    UnknownVersion, and RecordError for wrong bytes."""
    version, start = read(read_int16, data, 0, "version")
    layout = kind.values.get(version)
    if layout is None:
        raise UnknownVersion(f"{kind.name} value", version)
    found = decode(layout, data, start)
    return GroupValue(version, found.entity, found.unknown_tags)


def plain(entity: Entity) -> dict[str, Any]:
    """The fields of a key or a value; a topic's id is text."""
    fields: dict[str, Any] = asdict(entity)  # pyright: ignore[reportArgumentType]
    if fields.get("topic_id") is not None:
        fields["topic_id"] = str(fields["topic_id"])
    return fields
