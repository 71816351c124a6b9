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
        "rows of the trunk of October 2024: Kafka's own cases run them",
        (
            "transaction.AddPartitionsByLeader/transition in flight, same epoch",
            "transaction.continue the fence/unknown transactional id (version_2_draft)",
            "transaction.continue the fence/overtaken (late_fence_end_refused & version_2_draft)",
            "transaction.continue the fence/other producer id (version_2_draft)",
            "transaction.continue the fence/other epoch (version_2_draft)",
            "transaction.continue the fence/transition in flight (version_2_draft)",
            "transaction.continue the fence/no producer id to be had (version_2_draft)",
            "transaction.continue the fence/a second new epoch overflows (version_2_draft)",
            "transaction.continue the fence/end at the largest epoch (version_2_draft)",
            "transaction.continue the fence/abort with the bumped epoch (version_2_draft)",
            "transaction.continue the fence/abort a later transaction (version_2_draft)",
            "transaction.continue the fence/ended so already (version_2_draft)",
            "transaction.continue the fence/end under way (version_2_draft)",
            "transaction.continue the fence/no transaction to end so (version_2_draft)",
            "transaction.EndTxn/unknown transactional id (version_2_draft)",
            "transaction.EndTxn/other producer id (version_2_draft)",
            "transaction.EndTxn/other epoch (version_2_draft)",
            "transaction.EndTxn/transition in flight (version_2_draft)",
            "transaction.EndTxn/commit meets a fence (version_2_draft)",
            "transaction.EndTxn/no producer id to be had (version_2_draft)",
            "transaction.EndTxn/end at the largest epoch (version_2_draft)",
            "transaction.EndTxn/abort overtakes a fence (version_2_draft)",
            "transaction.EndTxn/end (version_2_draft)",
            "transaction.EndTxn/ended so already (version_2_draft)",
            "transaction.EndTxn/end under way (version_2_draft)",
            "transaction.EndTxn/no transaction to end so (version_2_draft)",
        ),
    ),
)
