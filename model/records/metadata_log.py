"""Records of `__cluster_metadata`, the controllers' log with KRaft. All have the name of their
type. The two types about transactions are decoded, and configurations on request.

A value begins with the version of its frame, the number of its type and the type's version. No
`from __future__ import annotations` here: kio reads the types.

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
    """An allocated block of producer ids, which ends before `next_producer_id`."""

    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64)
    next_producer_id: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(Layout):
    """A setting of a topic or a broker (`resource_type` is a ConfigResource.Type). Its value may be
    a secret."""

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
"""The types' names by number."""
_DECODED: Final = {12: FeatureLevelRecord, 15: ProducerIdsRecord}
_SECRET: Final = frozenset((10, 11))  # tokens and the data that passwords are checked with


def decode_metadata(data: bytes) -> dict[str, Any]:
    """The type and version of a record's value, and its fields, or its bytes if the type isn't
    decoded. Users' credentials are left out. Raises UnknownVersionError for an unknown frame, and
    RecordError for wrong bytes."""
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
    """The setting in a result of `decode_metadata`; None for other types. Raises RecordError."""
    if found.get("type") != TYPES[4] or found.get("version") != 0:
        return None
    return decode(ConfigRecord, found["value"], 0).entity
