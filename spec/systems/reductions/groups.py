"""Reductions of the partition of consumer offsets and of its group coordinator."""

from __future__ import annotations

from ....language.reductions import NotOffered, Reduction
from ...groups import txn_offset_commit
from ...groups.state import TxnOffsetCommit
from ...leader.state import orphaned
from ...messages import partition, waiting

GROUPS: tuple[Reduction, ...] = (
    NotOffered(
        partition,
        TxnOffsetCommit,
        when=txn_offset_commit.asks_first
        & (waiting[TxnOffsetCommit.producer].is_set | TxnOffsetCommit.producer.is_in(orphaned)),
        because="A system keeps one request of a client that waits for the coordinator. The next "
        "one stays in the network until the leader has the answer.",
    ),
)
"""The offsets of a transaction."""
