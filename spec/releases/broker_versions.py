"""A broker's ApiVersions at each release, and which release a broker is by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .features import KAFKA, NEWEST, RELEASED

_BY_METADATA_VERSION = {
    1: "3.0", 7: "3.3", 8: "3.4", 11: "3.5", 14: "3.6", 19: "3.7", 20: "3.8", 21: "3.9",
    25: "4.0.1", 27: "4.1", 29: "4.2", 30: "4.3", 33: "4.4",
}  # fmt: skip
"""The newest metadata.version that the brokers of a release know (MetadataVersion); 4.0.0 and 4.0.1
know the same."""
_BY_REQUESTS = (
    ("3.9", {"Fetch": 17}), ("3.7", {"Fetch": 16}), ("3.6", {"AddPartitionsToTxn": 4}),
    ("3.5", {"Fetch": 15}), ("3.3", {"UpdateFeatures": 1}), ("3.0", {"DescribeTransactions": 0}),
    ("2.8", {"DescribeProducers": 0}), ("2.7", {"InitProducerId": 4}),
    ("2.5", {"InitProducerId": 3}), ("2.0", {"InitProducerId": 1}),
)  # fmt: skip
"""Brokers with ZooKeeper, the newest first: versions of requests that older ones don't know."""


_NEWEST: Final[Mapping[str, Mapping[str, int]]] = {
    "Produce": {"0.11.0.0": 3, "1.0": 5, "2.0.0": 6, "2.1": 7, "2.4": 8, "2.8": 9, "3.7": 10,
                "3.8": 11, "4.0.0": 12, "4.1": 13},
    "Fetch": {"0.11.0.0": 5, "1.0": 6, "1.1": 7, "2.0.0": 8, "2.1": 10, "2.3": 11, "2.7": 12,
              "3.3": 13, "3.5": 15, "3.7": 16, "3.9": 17, "4.1": 18},
    "ListOffsets": {"0.11.0.0": 2, "2.0.0": 3, "2.1": 4, "2.3": 5, "2.8": 6, "3.0": 7, "3.5": 8,
                    "3.9": 9, "4.0.0": 10, "4.2": 11},
    "Metadata": {"0.11.0.0": 4, "1.0": 5, "2.0.0": 6, "2.1": 7, "2.3": 8, "2.4": 9, "2.8": 11,
                 "3.3": 12, "4.0.0": 13},
    "OffsetCommit": {"0.11.0.0": 3, "2.0.0": 4, "2.1": 6, "2.3": 7, "2.4": 8, "3.7": 9, "4.2": 10},
    "OffsetFetch": {"0.11.0.0": 3, "2.0.0": 4, "2.1": 5, "2.4": 6, "2.5": 7, "3.0": 8, "3.7": 9,
                    "4.2": 10},
    "FindCoordinator": {"0.11.0.0": 1, "2.0.0": 2, "2.4": 3, "3.0": 4, "3.8": 5, "3.9": 6},
    "JoinGroup": {"0.11.0.0": 2, "2.0.0": 3, "2.3": 5, "2.4": 6, "2.5": 7, "3.3": 9},
    "Heartbeat": {"0.11.0.0": 1, "2.0.0": 2, "2.3": 3, "2.4": 4},
    "LeaveGroup": {"0.11.0.0": 1, "2.0.0": 2, "2.4": 4, "3.3": 5},
    "SyncGroup": {"0.11.0.0": 1, "2.0.0": 2, "2.3": 3, "2.4": 4, "2.5": 5},
    "DescribeGroups": {"0.11.0.0": 1, "2.0.0": 2, "2.3": 3, "2.4": 5, "4.0.0": 6},
    "ListGroups": {"0.11.0.0": 1, "2.0.0": 2, "2.4": 3, "2.6": 4, "3.8": 5},
    "ApiVersions": {"0.11.0.0": 1, "2.0.0": 2, "2.4": 3, "3.9": 4, "4.4": 5},
    "CreateTopics": {"0.11.0.0": 2, "2.0.0": 3, "2.4": 5, "2.7": 6, "2.8": 7},
    "DeleteTopics": {"0.11.0.0": 1, "2.0.0": 2, "2.1": 3, "2.4": 4, "2.7": 5, "2.8": 6},
    "DeleteRecords": {"0.11.0.0": 0, "2.0.0": 1, "2.6": 2},
    "InitProducerId": {"0.11.0.0": 0, "2.0.0": 1, "2.4": 2, "2.5": 3, "2.7": 4, "3.8": 5},
    "OffsetForLeaderEpoch": {"0.11.0.0": 0, "2.0.0": 1, "2.1": 2, "2.3": 3, "2.8": 4},
    "AddPartitionsToTxn": {"0.11.0.0": 0, "2.0.0": 1, "2.7": 2, "2.8": 3, "3.6": 4, "3.8": 5},
    "AddOffsetsToTxn": {"0.11.0.0": 0, "2.0.0": 1, "2.7": 2, "2.8": 3, "3.8": 4},
    "EndTxn": {"0.11.0.0": 0, "2.0.0": 1, "2.7": 2, "2.8": 3, "3.8": 4, "4.0.0": 5},
    "WriteTxnMarkers": {"0.11.0.0": 0, "2.8": 1, "4.2": 2},
    "TxnOffsetCommit": {"0.11.0.0": 0, "2.0.0": 1, "2.1": 2, "2.5": 3, "3.8": 4, "4.0.0": 5,
                        "4.4": 6},
    "DescribeAcls": {"0.11.0.0": 0, "2.0.0": 1, "2.5": 2, "3.3": 3},
    "DescribeConfigs": {"0.11.0.0": 0, "1.1": 1, "2.0.0": 2, "2.6": 3, "2.8": 4},
    "AlterConfigs": {"0.11.0.0": 0, "2.0.0": 1, "2.8": 2},
    "DescribeLogDirs": {"1.0": 0, "2.0.0": 1, "2.6": 2, "3.3": 4, "4.3": 5},
    "CreatePartitions": {"1.0": 0, "2.0.0": 1, "2.5": 2, "2.7": 3},
    "DeleteGroups": {"1.1": 0, "2.0.0": 1, "2.4": 2, "4.4": 3},
    "IncrementalAlterConfigs": {"2.3": 0, "2.4": 1},
    "OffsetDelete": {"2.4": 0},
    "ElectLeaders": {"2.3": 0, "2.4": 2},
    "AlterPartitionReassignments": {"2.4": 0, "4.1": 1},
    "ListPartitionReassignments": {"2.4": 0},
    "DescribeCluster": {"2.8": 0, "3.7": 1, "4.0.0": 2},
    "DescribeProducers": {"2.8": 0},
    "DescribeTransactions": {"3.0": 0},
    "ListTransactions": {"3.0": 0, "3.8": 1, "4.1": 2},
    "ConsumerGroupHeartbeat": {"3.7": 0, "4.0.0": 1},
    "ConsumerGroupDescribe": {"3.8": 0, "4.0.0": 1},
}  # fmt: skip
"""The newest version of each API by the first release whose brokers take it (validVersions of the
requests' JSON files, schemaVersions before them; ApiKeys.latestVersion)."""
BY_NAME: Final[Mapping[str, int]] = {
    "Produce": 12, "Fetch": 12, "Metadata": 9, "OffsetCommit": 9, "OffsetFetch": 7,
    "FindCoordinator": 3, "DeleteTopics": 5, "TxnOffsetCommit": 5,
}  # fmt: skip
"""The newest version of an API in which topics go by names, and coordinators and groups one at a
time."""


def newest_of(release: str) -> dict[str, int]:
    """The newest version of each API that brokers of a release take."""
    place = RELEASED.index(release)
    return {
        name: max(version for since, version in of.items() if RELEASED.index(since) <= place)
        for name, of in _NEWEST.items()
        if RELEASED.index(next(iter(of))) <= place
    }


def metadata_version(release: str) -> int | None:
    """The newest metadata.version that brokers of a release know; None where they have none
    (before 3.0, as with ZooKeeper)."""
    known = {name: level for level, name in _BY_METADATA_VERSION.items()}
    before = [each for each in RELEASED[: RELEASED.index(release) + 1] if each in known]
    if release == "4.0.0":  # which knows the same as 4.0.1
        return known["4.0.1"]
    return known[before[-1]] if before else None


def check_transaction_version(level: int, release: str) -> None:
    """Raises ValueError for a level of transaction.version that brokers of a release don't know."""
    newest = 2 if "transaction_version_2" in KAFKA.features_at(release) else 0
    if level not in range(newest + 1):
        levels = "0" if newest == 0 else f"0 to {newest}"
        raise ValueError(f"transaction.version {level}: Kafka {release} has {levels}")


def is_newer(levels: Mapping[str, int]) -> bool:
    """Whether a broker that knows these `levels` of features is newer than all releases here."""
    return levels.get("metadata.version", 0) > max(_BY_METADATA_VERSION)


def unknown_versions(newest: Mapping[str, int]) -> dict[str, int]:
    """The requests whose `newest` version is above that of the newest release here."""
    known = newest_of(NEWEST)
    return {name: high for name, high in newest.items() if high > known.get(name, high)}


def release_of(newest: Mapping[str, int], levels: Mapping[str, int]) -> str | None:
    """The release of the tables that a broker is of, or the one before it that they have: by the
    `newest` versions of requests and the `levels` of features that it knows. None where it is older
    than all, or newer."""
    level = levels.get("metadata.version", 0)
    if is_newer(levels):
        return None
    if level >= min(_BY_METADATA_VERSION):
        return _BY_METADATA_VERSION[max(of for of in _BY_METADATA_VERSION if of <= level)]
    for release, needed in _BY_REQUESTS:
        if all(newest.get(request, -1) >= version for request, version in needed.items()):
            return release
    return None
