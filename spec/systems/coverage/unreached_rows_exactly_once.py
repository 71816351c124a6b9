"""Rows and premises that runs of `exactly-once` don't reach, and why."""

from __future__ import annotations

from ....language import Unreached
from ...releases.features import stale_epoch_first, transaction_version_2

EXACTLY_ONCE = (
    Unreached(
        "impossible: here no message is lost, and a transaction writes one record",
        ("partition.AddPartitionsByLeaderResponse/duplicate",),
    ),
    Unreached(
        "no run of `transactions` at its default bounds takes it either, which says why",
        (
            "partition.Produce/not-transactional",
            "partition.Produce/no-state-mid-sequence",
            "partition.WriteTxnMarkers/end-deleted-transaction",
            "producer.ProduceResponse/abortable-partition-reset",
            "producer.ProduceResponse/abortable-not-adjusted",
            "producer.ProduceResponse/too-large",
            "transaction.AddPartitionsByLeader/prepared",
            "transaction.AddPartitionsToTxn/pending",
            "transaction.EndTxn/empty-commit",
            "transaction.EndTxn/largest-epoch",
            "transaction.EndTxn/no-producer-id-over-fence",
            "transaction.EndTxn/retry-of-unbumped-end",
            "transaction.WriteTxnMarkersResponse/retry",
            "transaction.WriteTxnMarkersResponse/cancel",
            "transaction.WriteTxnMarkersResponse/unexpected",
            "transaction.continue the fence/second-bump-overflows",
            "transaction.continue the fence/no-producer-id",
        ),
    ),
    Unreached(
        "impossible: neither coordinator moves here, and a leader that asks about an offset has "
        "seen no newer epoch when the answer comes",
        (
            "partition.AddPartitionsByLeaderResponse/offset-coordinator-busy",
            "partition.AddPartitionsByLeaderResponse/offset-coordinator-moved",
            "partition.AddPartitionsByLeaderResponse/offset-stale-epoch",
            "producer.TxnOffsetCommitResponse/abortable",
        ),
    ),
    Unreached(
        "impossible: from 4.1 on a stale epoch is reported first",
        (
            "partition.AddPartitionsByLeaderResponse/offset-guard-changed",
            "producer.TxnOffsetCommitResponse/unexpected",
        ),
        stale_epoch_first & transaction_version_2,
    ),
)
