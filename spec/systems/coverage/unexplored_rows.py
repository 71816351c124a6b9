"""Rows that are in no shipped system: the oracle alone runs them, and why that is so.

A test holds the list against the declarations. It should get shorter.
"""

from __future__ import annotations

from typing import NamedTuple


class Unexplored(NamedTuple):
    """Why no system has the rows of these machines and tables, or single ones (`table/row`)."""

    reason: str
    names: tuple[str, ...]


UNEXPLORED = (
    Unexplored(
        "sequences that a client forgets with a batch in flight: in a system, from 2.5 on no "
        "leader calls a producer id unknown",
        (
            "producer.ProduceResponse/acknowledged-without-entry",
            "producer.ProduceResponse/not-renumbered",
            "producer.ProduceResponse/not-requeued",
        ),
    ),
    Unexplored(
        "a transactional id without an epoch: in a system it isn't there",
        ("transaction.transactional id expiry/no-epoch",),
    ),
    Unexplored(
        "a client older than its broker: in a system there is none",
        ("partition.AddPartitionsByLeaderResponse/abortable-unknown",),
    ),
    Unexplored(
        "what a client of another release hears: in a system its answer has the same rule",
        ("group.convert TxnOffsetCommit error",),
    ),
    Unexplored(
        "a fault of a trunk, which no release has: epochfence bugs KAFKA-10080 runs it",
        ("transaction.completion written again/older-record-last",),
    ),
    Unexplored(
        "of releases before leaders ask so: AddPartitionsToTxn has the same rows, and takes it",
        ("transaction.AddPartitionsByLeader/pending-same-epoch",),
    ),
)
