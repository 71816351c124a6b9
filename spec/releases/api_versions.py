"""What a request whose API is of an older version does without: errors that its client doesn't
know, for which it gets the error before it, and transaction version 2.

KafkaApis, AddPartitionsToTxnManager
"""

from __future__ import annotations

from collections.abc import Collection

from .features import abortable_error, producer_fenced_error, transaction_version_2
from .group_features import load_error_known, offsets_by_topic_id

_FIRST = {
    producer_fenced_error: {
        "InitProducerId": 4,
        "AddPartitionsToTxn": 2,
        "AddOffsetsToTxn": 2,
        "EndTxn": 2,
    },
    abortable_error: {"Produce": 11, "TxnOffsetCommit": 4},
    load_error_known: {"TxnOffsetCommit": 2},
    transaction_version_2: {"EndTxn": 5, "Produce": 12, "TxnOffsetCommit": 5},
    offsets_by_topic_id: {"TxnOffsetCommit": 6},
}
"""The first version of each API that has a feature, by feature: KIP-588, KIP-1050,
KAFKA-9656, KIP-890, KIP-1319."""
COUNTS = frozenset(request for of in _FIRST.values() for request in of)
"""The requests whose version makes a difference."""
OF_BROKERS = 4
"""The first version of AddPartitionsToTxn that partition leaders send, and clients don't."""
MARKERS_TELL_VERSION = 2
"""The first version of WriteTxnMarkers with the transaction version (KIP-1228)."""
LARGEST = 2**15 - 1
"""The largest number of a version."""
VERSION_1 = (transaction_version_2.data.name,)
"""Features that a request before transaction version 2 lacks."""


def without(request: str, version: int | None) -> tuple[str, ...]:
    """The names of the features that a request of this version of its API does without: none where
    it has no version, as its client is of the broker's release."""
    return tuple(
        feature.data.name
        for feature, first in _FIRST.items()
        if version is not None and version < first.get(request, 0)
    )


def before(transaction_version: int | None) -> tuple[str, ...]:
    """The names of the features that this transaction version does without; None stands for the
    newest one."""
    return VERSION_1 if transaction_version in (0, 1) else ()


def transaction_version(request: str, version: int) -> int:
    """The transaction version that a request asks for, 0 or 2."""
    return 0 if set(VERSION_1) & {*without(request, version)} else 2


def first_of_version_2(request: str) -> int:
    """The first version of a request's API that asks for transaction version 2."""
    return _FIRST[transaction_version_2][request]


def is_from_broker(version: int | None) -> bool:
    """Whether an AddPartitionsToTxn of this version comes from a partition leader."""
    return version is not None and version >= OF_BROKERS


def newest(request: str, features: Collection[str]) -> int:
    """The newest version of a request's API that a client with these features sends, as far as it
    makes a difference: one below the first of each feature that it lacks."""
    first = {each.data.name: of[request] for each, of in _FIRST.items() if request in of}
    lacking = min((v for name, v in first.items() if name not in features), default=LARGEST)
    known = [version for version in first.values() if version < lacking]
    return max(known, default=lacking - 1)
