"""Records of `__cluster_metadata`, the controllers' log with KRaft: named by their type. Two of
them, which have to do with transactions, are decoded, and configurations for who asks for them.

A value begins with the version of its frame, the number of its type and the version of that.
No `from __future__ import annotations` here: kio reads the types.

Source: MetadataRecordSerde, AbstractApiMessageSerde, MetadataRecordType.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final

from kio.serial.readers import read_unsigned_varint

from .codec.codec import decode, read
from .layouts.schema import INT8, INT16, INT32, INT64, STRING, Layout
from .transaction_log import UnknownVersionError

_FRAME_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(Layout):
    """A feature's finalized level, such as that of transaction.version."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=STRING)
    feature_level: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(Layout):
    """A block of producer ids that a broker got: it begins below `next_producer_id`."""

    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64)
    next_producer_id: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(Layout):
    """A setting of a topic or a broker (`resource_type` as ConfigResource.Type has it): it may be a
    secret."""

    __flexible__: ClassVar[bool] = True
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    name: str = field(metadata=STRING)
    value: str | None = field(metadata=STRING)


OF_TOPIC, OF_BROKER = 2, 4


TYPES: Final[Mapping[int, str]] = {
    0: "RegisterBrokerRecord", 1: "UnregisterBrokerRecord", 2: "TopicRecord", 3: "PartitionRecord",
    4: "ConfigRecord", 5: "PartitionChangeRecord", 7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord", 9: "RemoveTopicRecord", 10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord", 12: "FeatureLevelRecord", 14: "ClientQuotaRecord",
    15: "ProducerIdsRecord", 17: "BrokerRegistrationChangeRecord", 18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord", 20: "NoOpRecord", 21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord", 23: "BeginTransactionRecord",
    24: "EndTransactionRecord", 25: "AbortTransactionRecord", 26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord", 28: "ClearElrRecord",
}  # fmt: skip
"""Their names by their numbers."""
_DECODED: Final = {12: FeatureLevelRecord, 15: ProducerIdsRecord}
_SECRET: Final = frozenset((10, 11))  # tokens and what passwords are checked by


def decode_metadata(data: bytes) -> dict[str, Any]:
    """The type and version of a record's value, and its fields, or its bytes where they aren't
    decoded here; the users' credentials aren't shown. Raises UnknownVersionError for a frame that
    isn't known, and RecordError for wrong bytes."""
    frame, at = read(read_unsigned_varint, data, 0, "frame version")
    if frame != _FRAME_VERSION:
        raise UnknownVersionError("frame", frame)
    number, at = read(read_unsigned_varint, data, at, "type")
    version, at = read(read_unsigned_varint, data, at, "version")
    found: dict[str, Any] = {"type": TYPES.get(number, number), "version": version}
    if number in _DECODED and version == 0:
        return found | asdict(decode(_DECODED[number], data, at).entity)
    return found if number in _SECRET else found | {"value": data[at:]}


def decode_config(found: Mapping[str, Any]) -> ConfigRecord | None:
    """The setting in a record that `decode_metadata` decoded, if it is one. Raises RecordError."""
    if found.get("type") != TYPES[4] or found.get("version") != 0:
        return None
    return decode(ConfigRecord, found["value"], 0).entity
