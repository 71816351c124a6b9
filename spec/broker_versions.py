"""Which release a broker is, by what its ApiVersions tells."""

from __future__ import annotations

from collections.abc import Mapping

_BY_METADATA_VERSION = {
    1: "3.0", 7: "3.3", 8: "3.4", 11: "3.5", 14: "3.6", 19: "3.7", 20: "3.8", 21: "3.9",
    25: "4.0.1", 27: "4.1", 29: "4.2", 30: "4.3",
}  # fmt: skip
"""The newest metadata.version that the brokers of a release know (MetadataVersion); 4.0.0 and 4.0.1
know the same."""
_BY_REQUESTS = (
    ("3.9", {"Fetch": 17}), ("3.7", {"Fetch": 16}), ("3.6", {"AddPartitionsToTxn": 4}),
    ("3.5", {"Fetch": 15}), ("3.3", {"UpdateFeatures": 1}), ("3.0", {"DescribeTransactions": 0}),
    ("2.8", {"DescribeProducers": 0}), ("2.7", {"InitProducerId": 4}),
    ("2.5", {"InitProducerId": 3}), ("2.0", {"InitProducerId": 1}),
)  # fmt: skip
"""Of brokers with ZooKeeper, the newest first: versions of requests that older ones don't know."""


def release_of(newest: Mapping[str, int], levels: Mapping[str, int]) -> str | None:
    """The release of the tables that a broker is of, or the one before it that they have: by the
    `newest` versions of requests and the `levels` of features that it knows. None where it is older
    than all, or newer."""
    level = levels.get("metadata.version", 0)
    if level > max(_BY_METADATA_VERSION):
        return None
    if level >= min(_BY_METADATA_VERSION):
        return _BY_METADATA_VERSION[max(of for of in _BY_METADATA_VERSION if of <= level)]
    for release, needed in _BY_REQUESTS:
        if all(newest.get(request, -1) >= version for request, version in needed.items()):
            return release
    return None
