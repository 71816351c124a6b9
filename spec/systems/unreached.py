"""Rows and premises that runs of the shipped systems don't reach, and why.

What is said without a condition is so at any bounds that have been tried; tests take every other
row somewhere.
"""

from __future__ import annotations

from ...language import Unreached
from ..client.calls_at_once import EARLY_ENDS
from ..client.transaction_manager import OLDEST_VERSION
from ..messages import FAULTS, PRODUCER_IDS, RECORDS
from ..messages import TRANSACTIONS as IN_A_ROW
from ..releases.features import (
    calls_in_turn,
    client_epoch_bump,
    close_ends,
    commit_may_bump,
    expires_in_flight,
    newer_epoch_cancels_load,
    one_way_to_ids,
    transaction_version_2,
    transactional,
    unauthorized_abortable,
    unknown_producer_accepted,
)
from ..releases.group_features import load_error_retried

_NO_CAUSE = "no coordinator answers this request so"
_SECOND_FAULT = "need two faults in a run (faults=2)"
_SECOND_RECORD = "need two records to a partition (records=2), some of them faults=2 as well"
_BY_VERSION_2 = (
    "need a release before version 2: there, clients add partitions and ask for their next epoch, "
    "and a leader does not ask about each batch"
)
_ONE_RECORD = "impossible: a batch has one record, and may be tried again for ever"
_ONLY_AGAIN = "impossible: before 2.1 only what waits to be sent again expires"

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
        f"impossible: {_NO_CAUSE}",
        (
            "producer.InitProducerIdResponse/abortable",
            "producer.InitProducerIdResponse/unauthorized",
            "producer.AddPartitionsToTxnResponse/abortable",
            "producer.AddPartitionsToTxnResponse/unauthorized-topic",
            "producer.AddPartitionsToTxnResponse/partition-error",
        ),
    ),
    Unreached(
        "impossible: of two batches in flight the first has sequence 0, which no leader calls "
        "unknown",
        ("producer.ProduceResponse/unknown-id-sequence-reset",),
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
        "impossible: from 2.5 on there is a new epoch to be had, and before, nothing to "
        "be resolved",
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
        _BY_VERSION_2,
        (
            "transaction.AddPartitionsToTxn",
            "producer.AddPartitionsToTxnResponse",
            "producer.lost AddPartitionsToTxn",
            "producer.lost AddPartitionsToTxnResponse",
        ),
        transaction_version_2,
    ),
    Unreached(
        "impossible: a client is in the state for its epoch as long as it waits for it",
        ("producer.InitProducerIdResponse/invalid-transition",),
    ),
    Unreached(
        f"impossible: {_NO_CAUSE}",
        ("producer.EndTxnResponse/abortable-in-abort",),
    ),
    Unreached(
        "impossible: with version 2 an end brings the next epoch, and nobody asks for another one",
        ("producer.EndTxnResponse/invalid-transition-fatal",),
        transaction_version_2,
    ),
    Unreached(
        "impossible: from 2.5 on there is a new epoch to be had",
        (
            "producer.AddPartitionsToTxnResponse/unknown-id-fatal",
            "producer.EndTxnResponse/unknown-id-fatal",
        ),
        client_epoch_bump,
    ),
    Unreached(
        "impossible: before 2.5 a client is in the state for its end as long as it waits for it",
        ("producer.EndTxnResponse/invalid-transition",),
        ~client_epoch_bump,
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
        (
            "partition.Produce/new-epoch-mid-sequence",
            "partition.AddPartitionsByLeaderResponse/duplicate",
            "producer.resolve sequences",
            "producer.ProduceResponse/unknown-id-renumbered",
        ),
        (RECORDS < 2) & (FAULTS < 2),
    ),
    Unreached(
        "need two transactions in a row (transactions=2)",
        ("Order",),
        transaction_version_2 & (IN_A_ROW < 2) & (FAULTS < 2),
    ),
    Unreached(
        _SECOND_FAULT,
        ("transaction.continue the fence/no-producer-id",),
        transaction_version_2 & (FAULTS < 2),
    ),
    Unreached(
        "need an end that is asked for while batches are in flight (early_ends=1)",
        (
            "producer.every batch is done",
            "producer.commitTransaction/wait-for-batches",
            "producer.abortTransaction/wait-for-batches",
        ),
        EARLY_ENDS == 0,
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
        _ONLY_AGAIN,
        ("producer.batch expires/first-attempt",),
        ~expires_in_flight,
    ),
    Unreached(
        "impossible: nobody but this client has its producer id",
        ("producer.ProduceResponse/fatal",),
    ),
    Unreached(
        "impossible: its leader takes any sequence of a producer id that it doesn't know "
        "(from 2.5)",
        ("producer.ProduceResponse/unknown-id-bumps-epoch",),
    ),
    Unreached(
        "impossible: from 2.5 on no leader calls a producer id unknown",
        ("producer.ProduceResponse/unknown-id-sequence-reset",),
        unknown_producer_accepted,
    ),
    Unreached(
        "impossible: requests of one connection arrive in their order, and an older one on a "
        "closed connection is not answered",
        ("partition.Produce/stale-epoch",),
    ),
    Unreached(
        "impossible: before 2.5 an idempotent client that has lost the order of its sequences "
        "takes a new producer id, and never a new epoch",
        (
            "partition.Produce/new-epoch-mid-sequence",
            "partition.DelayedProduce/stale-epoch",
            "partition.DelayedProduce/new-epoch-mid-sequence",
        ),
        ~client_epoch_bump,
    ),
    Unreached(
        _NO_TRANSACTIONS,
        tuple(
            f"partition.{message}/{row}"
            for message in ("Produce", "DelayedProduce")
            for row in (
                "no-state-mid-sequence",
                "above-lowest-sequence",
                "not-transactional",
            )
        ),
    ),
    Unreached(
        "need another producer id (producer_ids=2)",
        (
            "producer.producer id given out",
            "producer.ProduceResponse/old-id-adjusted",
            "partition.Produce/no-producer-id",
            "partition.DelayedProduce/no-producer-id",
        ),
        PRODUCER_IDS < 2,
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

_REFUSED = ("error-unwrapped", "error-wrapped")
_OF_TRANSACTIONS = {
    "initTransactions": (
        "other-pending", "same-pending", "same-state", "invalid-transition", "initialize",
    ),
    "beginTransaction": ("pending", *_REFUSED, "invalid-transition", "begin"),
    "commitTransaction": (
        "other-pending", "same-pending", "same-state", *_REFUSED, "invalid-transition",
        "begin-commit",
    ),
    "abortTransaction": (
        "other-pending", "same-pending", "same-state", *_REFUSED, "invalid-transition",
        "begin-abort",
    ),
    "send": ("pending", "no-transaction", "already-added", "added-by-produce", "to-be-added"),
    "sendOffsetsToTransaction": (
        "pending", *_REFUSED, "no-transaction", "commit-offsets", "add-offsets",
    ),
    "next request": (
        "wait-for-batches", "nothing-to-end", "nothing-to-end-invalid",
    ),
    "send request": ("coordinator-unknown",),
    "answer lost": ("look-up",),
    "send failed": ("illegal-state", "abortable"),
}  # fmt: skip
_OLDER = "need brokers that know older versions of requests only (oldest_version=2)"
_NO_ID = "impossible: this client has no transactional id"

CALLS = (
    Unreached(
        "need GROUP_ID_NOT_FOUND or STALE_MEMBER_EPOCH, which only runs at real ranges have",
        ("producer.TxnOffsetCommit for a partition/unknown-group-or-stale-epoch",),
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
                "AddPartitionsToTxnResponse", "AddOffsetsToTxn answered", "EndTxnResponse",
            )
        ),
        client_epoch_bump & (OLDEST_VERSION > 2),
    ),
    Unreached(
        "impossible: where a client asks for no epoch, a commit may be followed by a new one, or "
        "calls are in turn and no error of an empty transaction asks for one, an end without "
        "anything in it always finds its state",
        ("producer.next request/nothing-to-end-invalid",),
        ~client_epoch_bump | commit_may_bump | (calls_in_turn & ~unauthorized_abortable),
    ),
    Unreached("impossible: calls wait for no other", ("OneCallAtATime",), ~calls_in_turn),
    Unreached(
        "impossible: a closed client can abort what is open",
        ("producer.abort as it closes/force-close",),
        (transactional & ~calls_in_turn) | (~transactional & ~unauthorized_abortable),
    ),
    Unreached(
        "not asked: what an earlier call has left in the queue may end the next transaction",
        ("PartitionsAnswered", "OffsetsAdded", "OffsetsAnswered"),
        ~calls_in_turn,
    ),
    Unreached(
        "impossible: a closed client goes on",
        ("ClosedBeginsNothing", "CloseEnds", "producer.abort as it closes"),
        ~close_ends,
    ),
    Unreached("impossible: nobody asks for a new epoch", ("BumpIsBehindEnd",), ~client_epoch_bump),
    Unreached(
        "impossible: the only error of this broker that is retried is fatal before 2.0.1",
        ("producer.TxnOffsetCommit for a partition/retry",),
        ~load_error_retried,
    ),
    Unreached(
        "impossible: without transactional id an error is fatal, and nobody asks again",
        ("NothingTakenInError",),
        ~transactional & ~unauthorized_abortable,
    ),
    Unreached(
        "impossible: this client asks for its producer id in a loop of its own",
        ("producer.FindCoordinator answered", "AllowedTransitions"),
        ~transactional & ~one_way_to_ids,
    ),
    Unreached(
        _NO_ID,
        (
            "producer.acknowledge call",
            "producer.ask for partitions",
            "producer.AddPartitionsToTxnResponse",
            "producer.AddOffsetsToTxn answered",
            "producer.TxnOffsetCommit for a partition",
            "producer.EndTxnResponse",
            "broker.answer AddPartitionsToTxn",
            "broker.answer EndTxn",
            "producer.abort as it closes/begin-abort",
            "producer.send request/send",
            "ClientCallEnds",
            "PartitionsAnswered",
            "OffsetsAdded",
            "OffsetsAnswered",
            "UsableAgain",
            "CloseEnds",
            "EpochOfPartitions",
            "AskedOnce",
            "OneCallAtATime",
            "ClosedBeginsNothing",
            "EndIsLast",
            "BumpIsBehindEnd",
            "CoordinatorIsKnown",
            *(
                f"producer.{call}/{row}"
                for call, rows in _OF_TRANSACTIONS.items()
                for row in rows
            ),
        ),
        ~transactional,
    ),
)  # fmt: skip
