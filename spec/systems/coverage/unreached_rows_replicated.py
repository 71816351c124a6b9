"""Rows and premises that runs of `transactions+replication` don't reach, and why: rows that those
of `transactions` and of `replication` don't reach, and rows that take more clients or faults than
small bounds have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....language import Unreached
from ...messages import FAULTS, PRODUCERS
from ...replication.state import MIN_ISR
from ..partitions.replication import UNREACHED as REPLICATION
from .unreached_rows import TRANSACTIONS

_TAKEN_HERE = {
    "transaction.WriteTxnMarkersResponse/retry",
    "partition.lost AddPartitionsByLeader/earlier-leader",
    "partition.lost AddPartitionsByLeaderResponse/earlier-leader",
    "registration.elect unclean",
}
"""Rows that a new leader takes, or a marker that it lacks, and an event of which other constants
say how often it happens."""

_ALONE = (PRODUCERS < 2) & (FAULTS < 1)
_OWN = (
    Unreached(
        "need an in-sync set below min.insync.replicas (min_insync_replicas=2)",
        (
            "partition.Produce/not-enough-replicas",
            "partition.WriteTxnMarkers/not-enough-replicas",
            "partition.AddPartitionsByLeaderResponse/not-enough-replicas",
        ),
        MIN_ISR < 2,
    ),
    Unreached(
        "need a second client or a fault (producers=2, faults=1)",
        ("transaction.continue the fence",),
        _ALONE,
    ),
    Unreached(
        "need a second client (producers=2)", ("FencedForGood", "OneLiveEpoch"), PRODUCERS < 2
    ),
)


def unreached(names: Iterable[str]) -> tuple[Unreached, ...]:
    """Rows that runs of a system with these rows, tables and properties don't reach."""
    there = {*names} - _TAKEN_HERE
    every = (*TRANSACTIONS, *REPLICATION, *_OWN)
    kept = (replace(item, names=tuple(n for n in item.names if n in there)) for item in every)
    return tuple(item for item in kept if item.names)
