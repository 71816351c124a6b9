"""The generated page of a served cluster's APIs: their versions, and how true the answers are."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from epochfence.model.serve.server import Server
from epochfence.model.serve.users import VERSIONS
from epochfence.spec.releases.features import NEWEST, RELEASED

PAGE: Final = "serve-apis.md"
SHOWN: Final = ("0.11.0.0", "2.5", "3.6", "4.0.1", "4.3", NEWEST)
_HEAD: Final = """\
<!-- Generated from a served cluster and the recorded versions of Kafka by `make docs`. -->

# APIs of a served cluster

The APIs that [`epochfence serve`](serve.md) offers: their versions at some releases, and what its
answers leave out. A version in brackets is Kafka's own newest one, if no schema of it is known
here (kio 0.6.5 ends before it), or if Kafka has the API and the cluster hasn't.

"""
LEFT_OUT: Final = {
    "ApiVersions": "the transaction.version is finalized, nothing else",
    "Produce": "the replicas in sync have each append at once",
    "Fetch": "no sessions, no other replica to read from; a leader's epoch is 0",
    "ListOffsets": "a leader's epoch is 0; no storage is remote",
    "Metadata": "the first broker is the controller",
    "OffsetCommit": "offsets don't expire",
    "OffsetFetch": "",
    "OffsetDelete": "",
    "FindCoordinator": "no share groups",
    "JoinGroup": "no largest size of a group; group.initial.rebalance.delay.ms is 0",
    "SyncGroup": "",
    "Heartbeat": "",
    "LeaveGroup": "",
    "DescribeGroups": "a member's host is /127.0.0.1",
    "ListGroups": "",
    "DeleteGroups": "",
    "CreateTopics": "",
    "CreatePartitions": "",
    "DeleteTopics": "",
    "DeleteRecords": "",
    "InitProducerId": "",
    "AddPartitionsToTxn": "",
    "AddOffsetsToTxn": "",
    "EndTxn": "",
    "TxnOffsetCommit": "",
    "WriteTxnMarkers": "",
    "OffsetForLeaderEpoch": "all records are of epoch 0",
    "DescribeAcls": "ACLs have no hosts; it ignores a filter of names, principals or operations",
    "DescribeConfigs": "of a broker, the settings that `serve` uses",
    "AlterConfigs": "of topics only; max.message.bytes, message.timestamp.*, min.insync.replicas, "
    "retention.* and segment.bytes have an effect, the others are kept and returned",
    "IncrementalAlterConfigs": "as AlterConfigs",
    "DescribeCluster": "no controllers",
    "DescribeLogDirs": "one directory; no lag",
    "ElectLeaders": "the first replica leads already",
    "AlterPartitionReassignments": "at once, and the first replica leads",
    "ListPartitionReassignments": "none is in progress",
    "DescribeProducers": "",
    "DescribeTransactions": "",
    "ListTransactions": "a pattern is one of Python's",
    "ConsumerGroupHeartbeat": "beside the tables; one assignor for `uniform` and `range`; a "
    "rebalance has no time limit; a pattern is one of Python's; no group changes its protocol",
    "ConsumerGroupDescribe": "a member's host is /127.0.0.1",
}
"""What the answers to an API leave out; empty: nothing. The tables of `spec` decide about
transactions, groups and offsets."""


@cache
def recorded() -> dict[str, dict[str, list[int] | None]]:
    """The versions of Kafka's APIs by the first release that has them (None: none any more)."""
    file = Path(__file__).parent / "api_versions.json"
    return json.loads(file.read_text(encoding="utf-8"))


def kafkas(name: str, release: str) -> list[int] | None:
    """The first and last version of an API at a release of Kafka; None: it has none."""
    place, found = RELEASED.index(release), None
    for since, versions in recorded()[name].items():
        if RELEASED.index(since) <= place:
            found = versions
    return found


@cache
def offers(release: str) -> dict[str, tuple[int, int]]:
    """The versions that a served cluster of a release offers."""
    return dict(Server(release).brokers.versions)


def page() -> str:
    """The page."""
    lines = [f"| API | {' | '.join(SHOWN)} | left out |", "|---" * (len(SHOWN) + 2) + "|"]
    lines += [
        f"| {name} | {' | '.join(_cell(name, release) for release in SHOWN)} | {text} |"
        for name, text in LEFT_OUT.items()
        if name in offers(NEWEST)
    ]
    mine = offers(NEWEST).keys() | VERSIONS.keys()
    others = [name for name in recorded() if kafkas(name, NEWEST) and name not in mine]
    told = ", ".join(others)
    return _HEAD + "\n".join(lines) + f"\n\nBrokers of Kafka {NEWEST} take these as well: {told}.\n"


def _cell(name: str, release: str) -> str:
    """The versions that are offered, and Kafka's newest one behind them."""
    mine: Any = offers(release).get(name)
    theirs = kafkas(name, release)
    if mine is None:
        return f"({theirs[1]})" if theirs else ""
    first, last = mine
    shown = f"{first}" if first == last else f"{first} to {last}"
    return shown if theirs is None or theirs[1] == last else f"{shown} ({theirs[1]})"
