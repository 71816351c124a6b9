"""Reductions of the partition of consumer offsets and of its group coordinator."""

from __future__ import annotations

from ....language.instances.reductions import LeftOut, NotOffered, Reduction
from ...groups import state
from ...groups.members import classic_group
from ...groups.offsets import offset_metadata, txn_offset_commit
from ...groups.state import TxnOffsetCommit
from ...leader.state import orphaned
from ...messages import partition, waiting

_AT_ONCE = "A rebalance of the system is one step, in which every member gets the new generation."

REBALANCE: tuple[Reduction, ...] = (
    LeftOut(state.is_known, because=_AT_ONCE),
    LeftOut(state.status, because=_AT_ONCE),
    LeftOut(state.leader, because=_AT_ONCE),
    LeftOut(state.promised, because=_AT_ONCE),
    LeftOut(state.joined, because=_AT_ONCE),
    LeftOut(state.static, because=_AT_ONCE),
    LeftOut(state.have_instances, because=_AT_ONCE),
)
"""A group whose rebalances are one step, or that has none."""

GROUPS: tuple[Reduction, ...] = (
    *REBALANCE,
    NotOffered(
        partition,
        TxnOffsetCommit,
        when=txn_offset_commit.asks_first
        & (waiting[TxnOffsetCommit.producer].is_set | TxnOffsetCommit.producer.is_in(orphaned)),
        because="A system keeps one request of a client that waits for the coordinator. The next "
        "one stays in the network until the leader has the answer.",
        refined_by="tests/spec/test_groups_refinement.py",
    ),
)
"""A group in one step, and the offsets of a transaction."""

_HISTORY = "The properties read the history of the responses."

MEMBERSHIP: tuple[Reduction, ...] = (
    LeftOut(classic_group.GroupResponse, because=_HISTORY),
    LeftOut(classic_group.JoinGroupResponse, because=_HISTORY),
)
"""A group's coordinator whose members send every request."""
OFFSET_STORAGE: tuple[Reduction, ...] = (
    *REBALANCE,
    LeftOut(offset_metadata.OffsetFetchResponse, because=_HISTORY),
)
"""The table of committed offsets."""
