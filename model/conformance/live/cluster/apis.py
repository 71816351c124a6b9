"""The APIs that a run sends: the required ones, and the parts of a run that are skipped without an
optional one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .....language.declaration.arguments import one_of
from .....spec.releases.broker_versions import BY_NAME
from ....wire.connection import BrokerError

NEWEST: Final = {
    "Produce": 12, "Fetch": 12, "ListOffsets": 7, "Metadata": 9, "FindCoordinator": 3,
    "InitProducerId": 6, "AddPartitionsToTxn": 5, "AddOffsetsToTxn": 4, "EndTxn": 5,
    "TxnOffsetCommit": 6, "WriteTxnMarkers": 2, "DescribeProducers": 0, "DescribeTransactions": 0,
    "CreateTopics": 5, "DeleteTopics": 5, "DeleteGroups": 2, "DeleteRecords": 2,
    "DescribeConfigs": 4, "IncrementalAlterConfigs": 1, "UpdateFeatures": 1,
}  # fmt: skip
"""The newest sent versions. Later versions name topics by ids, and look up coordinators in groups.
TxnOffsetCommit 6 also names topics by ids; it is sent for its own errors."""
METADATA_WITH_IDS: Final = 12
"""The version of Metadata that has topic ids, for TxnOffsetCommit 6."""
OLDEST: Final = {
    "Produce": 3, "Fetch": 4, "ListOffsets": 2, "Metadata": 4, "FindCoordinator": 1,
    "CreateTopics": 2, "DeleteTopics": 1, "WriteTxnMarkers": 1, "UpdateFeatures": 1,
}  # fmt: skip
"""The oldest sent versions; 0 for the other APIs."""
_NOT_TESTED = "its rows aren't tested"
OPTIONAL: Final[Mapping[str, str]] = {
    "AddPartitionsToTxn": _NOT_TESTED,
    "AddOffsetsToTxn": _NOT_TESTED,
    "EndTxn": "transactions end only by a newer instance or a timeout",
    "TxnOffsetCommit": _NOT_TESTED,
    "WriteTxnMarkers": _NOT_TESTED,
    "DescribeProducers": "the producers of a partition aren't compared",
    "DescribeTransactions": (
        "the run doesn't wait for the end of a transaction: until then both answers are allowed"
    ),
    "DeleteTopics": "the topics of the run stay",
    "DeleteGroups": "the groups of the run stay",
    "DeleteRecords": "--alter-configs doesn't delete records",
    "DescribeConfigs": "settings of the brokers aren't checked",
    "IncrementalAlterConfigs": "--alter-configs doesn't change settings",
    "UpdateFeatures": "--alter-features doesn't change transaction.version",
}
"""The consequence for a run without each optional API."""
NEEDED: Final = tuple(name for name in NEWEST if name not in OPTIONAL)


class Lacking(NamedTuple):
    """An API of which some versions aren't sent: the versions that the broker offers, those that
    are sent (None: none), and the consequence for the run."""

    name: str
    offered: tuple[int, int] | None
    sent: tuple[int, int] | None
    why: str


OF_VERSION_2: Final = {"EndTxn": 5, "Produce": 12, "TxnOffsetCommit": 5, "AddPartitionsToTxn": 4}
"""The first version of each API that stands for transaction version 2. At transaction.version 0 a
coordinator can't log such a transaction: it answers UNSUPPORTED_VERSION, and then
CONCURRENT_TRANSACTIONS (TransactionLog.valueToBytes). No client sends these versions to such a
cluster."""


def limits(without: Iterable[str], caps: Iterable[str]) -> dict[str, int]:
    """The newest version of each named API: -1 for those in `without`, and the version in each of
    `caps` (REQUEST=VERSION). Raises BrokerError for an invalid one."""
    found: dict[str, int] = {}
    for name in without:
        _check("--without", name)
        if name in NEEDED:
            raise BrokerError(f"--without {name}: every run needs {', '.join(NEEDED)}")
        found[name] = -1
    for cap in caps:
        name, _, version = cap.partition("=")
        _check("--cap", name)
        if not version.isdecimal():
            raise BrokerError(f"--cap {cap}: write REQUEST=VERSION")
        if int(version) < OLDEST.get(name, 0):
            raise BrokerError(f"--cap {cap}: the oldest version that is sent is {OLDEST[name]}")
        if name in found:
            raise BrokerError(f"--cap {cap}: {name} is limited twice")
        found[name] = int(version)
    return found


def _check(option: str, name: str) -> None:
    if name not in NEWEST:
        raise BrokerError(f"{option} {name}: {one_of(name, NEWEST)}")


def sent(
    offered: Mapping[str, tuple[int, int]], limited: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """The sent versions of each API, for a broker that offers these versions."""
    found: dict[str, tuple[int, int]] = {}
    for name, newest in NEWEST.items():
        low, high = offered.get(name, (0, -1))
        low = max(low, OLDEST.get(name, 0))
        high = min(high, newest, limited.get(name, newest))
        if name == "TxnOffsetCommit" and not _tells_ids(offered, limited):
            high = min(high, BY_NAME[name])
        if low <= high:
            found[name] = (low, high)
    return found


def _tells_ids(offered: Mapping[str, tuple[int, int]], limited: Mapping[str, int]) -> bool:
    _, newest = offered.get("Metadata", (0, -1))
    return min(newest, limited.get("Metadata", newest)) >= METADATA_WITH_IDS


def table(lacking: Iterable[Lacking]) -> str:
    """A table of the APIs of which some versions aren't sent; empty if there are none."""
    rows = [("API", "offered", "sent", "without the others")]
    rows += [(one.name, _span(one.offered), _span(one.sent), one.why) for one in lacking]
    if len(rows) == 1:
        return ""
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(size) for cell, size in zip(row[:3], wide, strict=True)), row[3]])
        for row in rows
    )


def _span(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return "none"
    low, high = versions
    return str(low) if low == high else f"{low} to {high}"
