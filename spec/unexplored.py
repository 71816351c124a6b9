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
    Unexplored("who may ask: in a system nobody is refused for who it is", ("authorizer",)),
    Unexplored(
        "a group's requests one by one: in a system a rebalance is one step, and who may commit is "
        "asked as the offset is appended",
        (
            "group.group asked for",
            "group.JoinGroup",
            "group.complete join",
            "group.session ends",
            "group.SyncGroup",
            "group.Heartbeat",
            "group.LeaveGroup",
            "group.OffsetCommit",
            "group.TxnOffsetCommit for the group",
            "group.DeleteGroups",
            "group.OffsetFetch",
            "group.offset appended",
            "group.offset of a transaction appended",
            "group.offset of a transaction refused",
            "group.transaction ended",
        ),
    ),
    Unexplored(
        "a transactional id without an epoch: in a system it isn't there",
        ("transaction.transactional id expiry/no epoch to prepare",),
    ),
    Unexplored(
        "a client older than its broker: in a system there is none",
        (
            "partition.AddPartitionsByLeaderResponse/not in the transaction, told to a client "
            "before TRANSACTION_ABORTABLE",
        ),
    ),
    Unexplored(
        "a fault of a trunk, which no release has: epochfence bugs KAFKA-10080 runs it",
        ("transaction.completion written again/the record before is the last in the log",),
    ),
    Unexplored(
        "of releases before leaders ask so: AddPartitionsToTxn has the same rows, and takes it",
        ("transaction.AddPartitionsByLeader/transition in flight, same epoch",),
    ),
)
