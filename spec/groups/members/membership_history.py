"""A group whose members send any request at any time, and a history of the responses.

A client names only member ids and generations that the coordinator has given out. All else of a
request is free: it may be late, of a member that has left, or name another's instance id. A member
id is given out once.
"""

from __future__ import annotations

from ....language import Bool, Expression, Machine, Set, set_of
from ....language.changes import Change
from ...messages import PRODUCER
from ..offsets import offset_metadata
from ..offsets.offset_metadata import commit
from ..state import (
    GENERATIONS,
    generation,
    has_member,
    has_static_member,
    members,
    status,
)
from . import classic_group
from .classic_group import COMPLETING, beat, join, leave, sync

answers = Machine("group_answers", doc="The history: ids that were given out, and wrong responses.")
used = answers.field("used", Set(PRODUCER), doc="Member ids that were given out.")
fenced = answers.field(
    "fenced", Set(PRODUCER), doc="Members whose instance id another member has taken over."
)
commit_of_none = answers.field(
    "commit_of_none",
    Bool(),
    doc="A client outside of the generation may commit, although the group has members.",
)
fenced_answer = answers.field("fenced_answer", Bool(), doc="A fenced member got another response.")
other_answer = answers.field(
    "other_answer", Bool(), doc="A client outside of the generation got NONE."
)
commit_unassigned = answers.field(
    "commit_unassigned", Bool(), doc="A member may commit while all await their assignment."
)


def is_given_out(member: Expression) -> Expression:
    """Whether a request names no member id, or one that was given out."""
    return ~member.is_set | member.value.is_in(used)


def is_outsider(member: Expression, named: Expression) -> Expression:
    """Whether a request is of no member, or of another generation."""
    return ~has_member(member) | (named != generation)


def is_fenced(member: Expression, instance: Expression) -> Expression:
    """Whether a client names an instance id that another member has taken over."""
    return member.is_set & member.value.is_in(fenced) & has_static_member(instance)


txn_commit = offset_metadata.commit_in_transaction
has_members = members != set_of()
sync_by_fenced = fenced_answer | is_fenced(sync.member, sync.instance)
beat_by_fenced = fenced_answer | is_fenced(beat.member, beat.instance)
leave_by_fenced = fenced_answer | is_fenced(leave.member, leave.instance)
commit_by_fenced = fenced_answer | is_fenced(commit.member, commit.instance)
txn_commit_by_fenced = fenced_answer | is_fenced(txn_commit.member, txn_commit.instance)

history = (
    Change("history", "Clients name ids that were given out.", machines=(answers,))
    .table("group.JoinGroup")
    .only_when(~join.new_member.is_in(used) & is_given_out(join.member))
    .also(
        "static-member-replaced",
        "static-member-rejoins",
        set={
            used: used | set_of(join.new_member),
            fenced: fenced | set_of(classic_group.replaced_member.value),
        },
    )
    .also(
        "new-static-member",
        "member-id-required",
        "new-member",
        set={used: used | set_of(join.new_member)},
    )
    .table("group.complete join")
    .only_when(generation < GENERATIONS)
    .table("group.SyncGroup")
    .only_when(is_given_out(sync.member) & (sync.generation <= generation))
    .also(
        "leader-assigns",
        "awaits-leader",
        "stable",
        set={
            other_answer: other_answer | is_outsider(sync.member, sync.generation),
            fenced_answer: sync_by_fenced,
        },
    )
    .also(
        "unknown-instance",
        "unknown-member",
        "illegal-generation",
        "inconsistent-group-protocol",
        "preparing-rebalance",
        set={fenced_answer: sync_by_fenced},
    )
    .table("group.Heartbeat")
    .only_when(is_given_out(beat.member) & (beat.generation <= generation))
    .also(
        "alive",
        set={
            other_answer: other_answer | is_outsider(beat.member, beat.generation),
            fenced_answer: beat_by_fenced,
        },
    )
    .also(
        "unknown-instance",
        "unknown-member",
        "completing-of-any-generation",
        "illegal-generation",
        "preparing-rebalance",
        "completing-rebalance",
        set={fenced_answer: beat_by_fenced},
    )
    .table("group.LeaveGroup")
    .only_when(is_given_out(leave.member))
    .also(
        "static-member",
        "pending-member",
        "unknown-instance",
        "unknown-member",
        "member",
        set={fenced_answer: leave_by_fenced},
    )
    .table("group.OffsetCommit")
    .only_when(is_given_out(commit.member) & (commit.generation <= generation))
    .also(
        "empty-group",
        "accepted",
        set={
            commit_of_none: commit_of_none
            | (is_outsider(commit.member, commit.generation) & has_members),
            fenced_answer: commit_by_fenced,
            commit_unassigned: commit_unassigned | (status == COMPLETING),
        },
    )
    .also(
        "unknown-group",
        "unknown-instance",
        "completing-of-anybody",
        "unknown-member",
        "illegal-generation",
        "completing-rebalance",
        set={fenced_answer: commit_by_fenced},
    )
    .table("group.TxnOffsetCommit for the group")
    .only_when(is_given_out(txn_commit.member) & (txn_commit.generation <= generation))
    .also(
        "empty-group",
        "accepted",
        set={
            commit_of_none: commit_of_none
            | (
                offset_metadata.names_member_or_generation
                & is_outsider(txn_commit.member, txn_commit.generation)
                & has_members
            ),
            fenced_answer: txn_commit_by_fenced,
        },
    )
    .also(
        "unknown-group",
        "unknown-instance",
        "unknown-member",
        "illegal-generation",
        set={fenced_answer: txn_commit_by_fenced},
    )
)

REQUESTS = (
    classic_group.group_status_validated,
    classic_group.join_group,
    classic_group.join_completed,
    classic_group.member_expires,
    classic_group.sync_group,
    classic_group.heartbeat,
    classic_group.leave_group,
    offset_metadata.offset_commit,
    offset_metadata.txn_offset_commit,
    offset_metadata.delete_group,
)
