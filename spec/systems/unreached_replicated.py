"""Rows and premises that runs of `transactions+replication` don't reach, and why: what those of
`transactions` and of `replication` don't, and what takes more clients or faults than small bounds
have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...language import Unreached
from ..messages import FAULTS, PRODUCERS
from ..messages import TRANSACTIONS as IN_A_ROW
from ..releases.features import transaction_version_2
from ..replication.state import MIN_ISR
from .replication import UNREACHED as REPLICATION
from .unreached import TRANSACTIONS

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
        (
            "partition.AddPartitionsByLeaderResponse/producer-fenced",
            "partition.AddPartitionsByLeaderResponse/guard-mismatch",
            "partition.AddPartitionsByLeaderResponse/stale-epoch-verified",
            "partition.Produce/stale-epoch-unverified",
            "partition.WriteTxnMarkers/same-epoch",
            "partition.WriteTxnMarkers/stale-epoch",
            "producer.EndTxnResponse/fenced",
            "producer.EndTxnResponse/fatal",
            "producer.EndTxnResponse/retry",
            "producer.EndTxnResponse/unexpected",
            "producer.InitProducerIdResponse/fenced",
            "producer.InitProducerIdResponse/retry",
            "producer.ProduceResponse/abortable-adjusted",
            "transaction.AddPartitionsByLeader/other-epoch",
            "transaction.EndTxn/abort-overtakes-fence",
            "transaction.EndTxn/commit-during-fence",
            "transaction.EndTxn/already-prepared",
            "transaction.EndTxn/complete-otherwise",
            "transaction.EndTxn/already-complete",
            "transaction.EndTxn/no-producer-id",
            "transaction.EndTxn/prepared-otherwise",
            "transaction.EndTxn/other-epoch",
            "transaction.EndTxn/pending",
            "transaction.InitProducerId/prepared",
            "transaction.InitProducerId/fence",
            "transaction.InitProducerId/rotate-producer-id",
            "transaction.InitProducerId/pending",
            "transaction.continue the fence",
        ),
        _ALONE,
    ),
    Unreached(
        "need a second client, transaction or fault (producers=2, transactions=2, faults=1)",
        (
            "partition.AddPartitionsByLeaderResponse/refused",
            "transaction.AddPartitionsByLeader/pending",
        ),
        _ALONE & (IN_A_ROW < 2),
    ),
    Unreached(
        "needs a second client or a fault (producers=2, faults=1): only version 2 asks about each "
        "batch",
        ("partition.WriteTxnMarkers/no-transaction",),
        _ALONE & transaction_version_2,
    ),
    Unreached(
        "need a second client (producers=2)", ("FencedForGood", "OneLiveEpoch"), PRODUCERS < 2
    ),
    Unreached(
        "need a fault (faults=1, as the large bounds have)",
        (
            "partition.AddPartitionsByLeaderResponse/coordinator-unavailable",
            "partition.Produce/duplicate",
            "partition.WriteTxnMarkers/coordinator-fenced",
            "producer.EndTxnResponse/closed-connection",
            "producer.EndTxnResponse/coordinator-moved",
            "producer.InitProducerIdResponse/closed-connection",
            "producer.InitProducerIdResponse/coordinator-moved",
            "producer.ProduceResponse/fatal",
            "producer.ProduceResponse/not-awaited",
            "transaction.AddPartitionsByLeader/unknown-id",
            "transaction.EndTxn/empty-abort",
            "transaction.WriteTxnMarkersResponse/closed-connection",
            "transaction.coordinator failover after a failed append",
            "transaction.log append/forgotten",
        ),
        FAULTS < 1,
    ),
    Unreached(
        "the machine is that of `transactions`, whose runs take it with more clients, transactions "
        "or faults",
        (
            "producer.InitProducerIdResponse/unexpected",
            "transaction.AddPartitionsByLeader/other-producer-id",
            "transaction.EndTxn/other-producer-id",
            "transaction.EndTxn/unknown-id",
            "transaction.InitProducerId/no-producer-id",
            "transaction.continue the fence/unknown-id",
        ),
        (PRODUCERS < 2) | (FAULTS < 1) | (IN_A_ROW < 2),
    ),
)


def unreached(names: Iterable[str]) -> tuple[Unreached, ...]:
    """Rows that runs of a system with these rows, tables and properties don't reach."""
    there = {*names} - _TAKEN_HERE
    every = (*TRANSACTIONS, *REPLICATION, *_OWN)
    kept = (replace(item, names=tuple(n for n in item.names if n in there)) for item in every)
    return tuple(item for item in kept if item.names)
