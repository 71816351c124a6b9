"""The layouts of the records of `__consumer_offsets`, declared as in `schema`.

Source: LegacyOffsetCommitValue.json, OffsetCommitKey.json, OffsetCommitValue.json,
GroupMetadataKey.json, GroupMetadataValue.json, CoordinatorRecordType.
"""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.static.primitive import i16

from .schema import INT32, INT64, STRING, Layout

BYTES = {"kafka_type": "bytes"}

# Keys ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey(Layout):
    """The key of a group's offset of a partition."""

    group: str = field(metadata=STRING)
    topic: str = field(metadata=STRING)
    partition: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey(Layout):
    """The key of a record about a whole group."""

    group: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey(GroupKey):
    """The key of a record about a member of a group."""

    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionKey(GroupKey):
    """The key of a record with the topics that match a regular expression of a group's members."""

    regular_expression: str = field(metadata=STRING)


# Offsets ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV0(Layout):
    """A group's offset of a partition, versions 0 and 2."""

    offset: int = field(metadata=INT64)
    metadata: str = field(metadata=STRING)
    commit_timestamp: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV1(OffsetCommitValueV0):
    """A group's offset of a partition, version 1: with the time of its expiration."""

    expire_timestamp: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV3(Layout):
    """A group's offset of a partition, version 3: with the leader epoch of the last read record."""

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32)
    metadata: str = field(metadata=STRING)
    commit_timestamp: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(OffsetCommitValueV3):
    """A group's offset of a partition, version 4: with tagged fields."""

    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid", "tag": 0}, default=None)


# Groups -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberV0(Layout):
    """A member of a group; its protocol defines its subscription and its assignment."""

    member_id: str = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberV1(Layout):
    """A member of a group, versions 1 and 2."""

    member_id: str = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout: int = field(metadata=INT32)
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberV3(Layout):
    """A member of a group, version 3."""

    member_id: str = field(metadata=STRING)
    group_instance_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout: int = field(metadata=INT32)
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember(GroupMemberV3):
    """A member of a group, version 4: with tagged fields."""

    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV0(Layout):
    """A group whose leader, a client, assigns partitions, version 0. A group without members has no
    protocol and no leader."""

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    members: tuple[GroupMemberV0, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV1(GroupMetadataValueV0):
    """A group with client-side assignment, version 1."""

    members: tuple[GroupMemberV1, ...]  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV2(Layout):
    """A group with client-side assignment, version 2: with the time of its last change of state."""

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp: int = field(metadata=INT64)
    members: tuple[GroupMemberV1, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV3(GroupMetadataValueV2):
    """A group with client-side assignment, version 3."""

    members: tuple[GroupMemberV3, ...]  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(GroupMetadataValueV2):
    """A group with client-side assignment, version 4: with tagged fields."""

    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    members: tuple[GroupMember, ...]  # pyright: ignore[reportIncompatibleVariableOverride]
