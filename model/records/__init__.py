"""Kafka's records on disk, byte for byte: encoding, decoding, and the detection of wrong bytes.

Needs the extra `broker`, which has kio, crc32c and cramjam; `epochfence.model` never imports it.
"""

from .. import kio_loader  # noqa: F401  # pyright: ignore[reportUnusedImport]

try:
    import cramjam as _cramjam  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import crc32c as _crc32c  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import kio as _kio  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing.name} is not installed: run pip install 'epochfence[broker]'",
        name=missing.name,
    ) from None

from .batch import LIMIT, BatchTooLargeError, Flag, Record, RecordBatch, decode_batch, encode_batch
from .codec.codec import UnknownTag
from .codec.errors import RecordError
from .control import EndTransactionMarker, decode_control_type, decode_marker, encode_marker
from .files import Kind, Row, kind_of, read_file
from .layouts.schema import (
    AbortedTransaction,
    ProducerEntry,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from .offsets_log import (
    RECORD_TYPES,
    GroupValue,
    RecordType,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from .snapshot import decode_snapshot, encode_snapshot
from .transaction_index import decode_index, encode_index
from .transaction_log import (
    DecodedValue,
    UnknownVersionError,
    decode_key,
    decode_value,
    encode_as_coordinator,
    encode_key,
    encode_value,
)

__all__ = [
    "LIMIT",
    "RECORD_TYPES",
    "AbortedTransaction",
    "BatchTooLargeError",
    "DecodedValue",
    "EndTransactionMarker",
    "Flag",
    "GroupValue",
    "Kind",
    "ProducerEntry",
    "Record",
    "RecordBatch",
    "RecordError",
    "RecordType",
    "Row",
    "TransactionLogKey",
    "TransactionLogValue",
    "TransactionPartitions",
    "UnknownTag",
    "UnknownVersionError",
    "decode_batch",
    "decode_control_type",
    "decode_group_key",
    "decode_group_value",
    "decode_index",
    "decode_key",
    "decode_marker",
    "decode_snapshot",
    "decode_value",
    "encode_as_coordinator",
    "encode_batch",
    "encode_group_key",
    "encode_group_value",
    "encode_index",
    "encode_key",
    "encode_marker",
    "encode_snapshot",
    "encode_value",
    "kind_of",
    "read_file",
]
