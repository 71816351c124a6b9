"""Rows and premises that runs of the shipped systems don't reach, and why.

A reason without a condition holds at any bounds that have been tried; tests take every other
row somewhere.
"""

from __future__ import annotations

from ....language import Unreached
from ...client.transactions.transaction_manager import OLDEST_VERSION
from ...messages import FAULTS, RECORDS
from ...releases.features import (
    calls_in_turn,
    client_epoch_bump,
    close_ends,
    newer_epoch_cancels_load,
    transaction_version_2,
    transactional,
)

_SECOND_FAULT = "need two faults in a run (faults=2)"
_SECOND_RECORD = "need two records to a partition (records=2), some of them faults=2 as well"
_ONE_RECORD = "impossible: a batch has one record, and may be tried again for ever"

TRANSACTIONS = (
    Unreached(
        "impossible: a client commits only what a leader has acknowledged, which is in the "
        "transaction then",
        ("transaction.EndTxn/empty-commit",),
    ),
    Unreached(
        "impossible: transaction.version doesn't change within a run (transactions+upgrade)",
        ("transaction.EndTxn/retry-of-unbumped-end",),
    ),
    Unreached(
        "impossible: no leader learns of a newer epoch before the decision is completed",
        ("transaction.WriteTxnMarkersResponse/cancel",),
    ),
    Unreached(
        "impossible: nobody has the epoch of a decided end before its completion is prepared",
        ("transaction.AddPartitionsByLeader/prepared",),
    ),
    Unreached(
        "impossible: a leader is there, and answers a marker after its checks",
        (
            "transaction.WriteTxnMarkersResponse/retry",
            "transaction.WriteTxnMarkersResponse/unexpected",
        ),
    ),
    Unreached(
        "impossible: from 2.5 on no leader calls a producer id unknown",
        ("producer.ProduceResponse/abortable-partition-reset",),
    ),
    Unreached(
        _ONE_RECORD,
        (
            "producer.ProduceResponse/too-large",
            "producer.ProduceResponse/abortable-not-adjusted",
        ),
    ),
    Unreached(
        "impossible: from 2.5 on the client gets a new epoch; before, nothing is resolved",
        ("producer.resolve sequences/order-lost-fatal",),
    ),
    Unreached(
        "impossible: every client is transactional here",
        ("partition.Produce/not-transactional",),
    ),
    Unreached(
        "impossible: what verification is about is asked about, but in an open transaction, which "
        "has a batch",
        ("partition.Produce/no-state-mid-sequence",),
    ),
    Unreached(
        _SECOND_FAULT,
        (
            "transaction.EndTxn/no-producer-id-over-fence",
            "transaction.EndTxn/largest-epoch",
            "producer.lost AddPartitionsToTxn/not-tried-again",
            "producer.lost AddPartitionsToTxnResponse/not-tried-again",
        ),
        FAULTS < 2,
    ),
    Unreached(
        _SECOND_RECORD,
        ("partition.AddPartitionsByLeaderResponse/duplicate",),
        (RECORDS < 2) & (FAULTS < 2),
    ),
    Unreached(
        _SECOND_FAULT,
        ("transaction.continue the fence/no-producer-id",),
        transaction_version_2 & (FAULTS < 2),
    ),
)

_NO_TRANSACTIONS = (
    "impossible: this client has no transactions, so that nothing is asked of a coordinator"
)

IDEMPOTENCE = (
    Unreached(
        _ONE_RECORD,
        (
            "producer.ProduceResponse/too-large",
            "producer.ProduceResponse/refused-not-adjusted",
        ),
    ),
    Unreached(
        "impossible: its leader takes any sequence of a producer id that it doesn't know "
        "(from 2.5)",
        ("producer.ProduceResponse/unknown-id-bumps-epoch",),
    ),
    Unreached(
        _NO_TRANSACTIONS,
        (
            "partition.Produce/no-state-mid-sequence",
            "partition.Produce/not-transactional",
            "partition.DelayedProduce/no-state-mid-sequence",
            "partition.DelayedProduce/above-lowest-sequence",
            "partition.DelayedProduce/not-transactional",
        ),
    ),
)

COORDINATORS = (
    Unreached(
        "impossible: a broker hears of leader epochs in their order",
        ("coordinator.LeaderAndIsr/load-not-cancelled",),
        newer_epoch_cancels_load,
    ),
)

PRODUCER_ID_BLOCKS = (
    Unreached(
        "impossible: the controller gives out what is above all before, and nothing beyond the "
        "largest id",
        tuple(
            f"rpc_manager.{event}/{row}"
            for event in ("AllocateProducerIdsResponse", "store the answer")
            for row in ("not-monotonic", "invalid-range")
        ),
    ),
    Unreached(
        "impossible: the bounded system has the active controller alone",
        ("controller.AllocateProducerIds/not-controller",),
    ),
)

_OLDER = "need brokers that know older versions of requests only (oldest_version=2)"
_NO_ID = "impossible: this client has no transactional id"

CALLS = (
    Unreached(
        "need version 6 of TxnOffsetCommit, which only runs at real ranges have",
        (
            "producer.send request/send-offsets-by-topic-id",
            "producer.TxnOffsetCommit for a partition/unknown-group-or-stale-epoch",
        ),
    ),
    Unreached(
        _OLDER,
        ("producer.send request/unsupported-member",),
        OLDEST_VERSION > 2,
    ),
    Unreached(
        _OLDER,
        tuple(
            f"producer.{answer}/unknown-id-fatal"
            for answer in (
                "AddPartitionsToTxnResponse",
                "AddOffsetsToTxn answered",
                "EndTxnResponse",
            )
        ),
        client_epoch_bump & (OLDEST_VERSION > 2),
    ),
    Unreached(
        "not asked: what an earlier call has left in the queue may end the next transaction",
        ("PartitionsAnswered", "OffsetsAdded", "OffsetsAnswered"),
        ~calls_in_turn,
    ),
    Unreached(
        "impossible: a closed client goes on",
        ("CloseEnds",),
        ~close_ends,
    ),
    Unreached(
        _NO_ID,
        (
            "ClientCallEnds",
            "PartitionsAnswered",
            "OffsetsAdded",
            "OffsetsAnswered",
            "UsableAgain",
            "CloseEnds",
        ),
        ~transactional,
    ),
)
