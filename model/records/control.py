"""Control records: the markers that end a transaction in a partition's log.

Source: ControlRecordType, EndTransactionMarker.
"""

from __future__ import annotations

from typing import cast

from kio.schema.control_record_type_schema.v0.data import ControlRecordTypeSchema
from kio.schema.end_txn_marker.v0.data import EndTxnMarker as EndTransactionMarker
from kio.serial.readers import read_int16
from kio.static.primitive import i16, i32

from ...spec.messages import Result
from .codec.codec import decode, encode, read
from .codec.errors import RecordError

VERSION = 0
TYPES = dict(Result.members)
NAMES = {number: name for name, number in Result.members}


def encode_marker(result: str, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """The key and the value of the marker for `result`, COMMIT or ABORT.

    Raises ValueError for any other result, RecordError for an epoch out of range.
    """
    key = encode(ControlRecordTypeSchema(type_=cast("i16", _type_of(result))))
    value = encode(EndTransactionMarker(coordinator_epoch=cast("i32", coordinator_epoch)))
    return VERSION.to_bytes(2) + key, VERSION.to_bytes(2) + value


def decode_control_type(key: bytes) -> int:
    """The number of a control record's type: 0 is ABORT, 1 is COMMIT; others end no transaction.

    Raises RecordError for wrong bytes. A newer version is read as version 0, as Kafka does.
    """
    return decode(ControlRecordTypeSchema, key, _behind_version(key)).entity.type_


def decode_marker(result: str, value: bytes) -> EndTransactionMarker:
    """The value of a marker for `result`, COMMIT or ABORT. Newer versions are read as version 0.

    Raises ValueError for any other result, RecordError for wrong bytes.
    """
    _type_of(result)
    return decode(EndTransactionMarker, value, _behind_version(value)).entity


def _type_of(result: str) -> int:
    if result not in TYPES:
        raise ValueError(f"{result} ends no transaction: {' and '.join(TYPES)} do")
    return TYPES[result]


def _behind_version(data: bytes) -> int:
    version, start = read(read_int16, data, 0, "version")
    if version < 0:
        raise RecordError("version", f"{version} is below 0", 0)
    return start
