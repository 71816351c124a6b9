"""Properties of a group whose members ask one by one."""

from __future__ import annotations

from ....language import (
    KnownBug,
    after,
    always_possible,
    failure,
    if_,
    invariant,
    leads_to,
    set_of,
    step_property,
)
from ...groups.members import membership_history
from ...groups.members.classic_group import COMPLETING, EMPTY, PREPARING, STABLE
from ...groups.members.membership_history import fenced
from ...groups.state import (
    GENERATIONS,
    generation,
    have_instances,
    joined,
    leader,
    members,
    promised,
    status,
)
from ...releases.group_features import (
    instances_needed,
    members_fenced,
    static_members,
    static_restart_rebalances,
)

has_begun = status.is_in(COMPLETING, STABLE)

forward = step_property(
    "GenerationForward",
    (after(generation) == generation) | (after(generation) == generation + 1),
    "Generations are counted up, and none comes back.",
    "GroupMetadata.initNextGeneration",
    failure=failure("the generation goes from {} to {}", generation, after(generation)),
)
only_joined = step_property(
    "OnlyJoined",
    (after(generation) != generation).implies(
        after((members == set_of()) == (status == EMPTY))
        & (joined - after(members) == set_of())
        & (after(members) - (joined | have_instances) == set_of())
    ),
    "A generation has all members that have joined; of silent members it has only static ones. "
    "If none is left, it is empty.",
    "GroupCoordinator.onCompleteJoin",
    failure=failure(
        "generation {} has the members {}, and these had joined: {}",
        after(generation),
        after(members),
        joined,
    ),
)
leader_member = invariant(
    "LeaderIsMember",
    if_(members == set_of(), ~leader.is_set, leader.is_set & leader.value.is_in(members)),
    "A member of the group leads it, as long as there is one, because nobody else may assign.",
    "GroupMetadata.add, GroupMetadata.remove, GroupMetadata.maybeElectNewJoinedLeader",
    failure=failure("the group's leader is {}, and its members are {}", leader, members),
)
one_leader = step_property(
    "OneLeader",
    (has_begun & after(has_begun) & (after(generation) == generation)).implies(
        (after(leader) == leader) | (leader.is_set & leader.value.is_in(after(fenced)))
    ),
    "A generation has one leader. Another leader is the same member after a restart, by its "
    "instance id.",
    "GroupMetadata.replaceStaticMember, KIP-345",
    failure=failure(
        "the leader of generation {} changes from {} to {}", generation, leader, after(leader)
    ),
)
told_to_leader = step_property(
    "LeaderIsTold",
    ((status == COMPLETING) & (after(status) == COMPLETING)).implies(
        after(members) - members == set_of()
    ),
    "While members await their assignment, nobody becomes a member: the leader that assigns was "
    "told the members before.",
    "GroupCoordinator.updateStaticMemberAndRebalance, KAFKA-9801",
    KnownBug(
        "KAFKA-9801: until 2.5 a static member that restarts gets a new id in this generation",
        (static_restart_rebalances,),
        static_members & ~static_restart_rebalances,
    ),
    failure=failure(
        "the members {} await the assignment of generation {}, and {} is a member now",
        members,
        generation,
        after(members) - members,
    ),
)
fenced_is_gone = invariant(
    "FencedIsGone",
    fenced & members == set_of(),
    "A member that has lost its instance id to another one is no longer a member.",
    "GroupMetadata.replaceStaticMember, KIP-345",
    failure=failure(
        "these members have lost their instance ids: {}; the group has {}", fenced, members
    ),
)
not_promised = invariant(
    "PromisedOrMember",
    promised & members == set_of(),
    "A member id that was handed out belongs to a member, or waits for its member.",
    "GroupMetadata.addPendingMember, KIP-394",
    failure=failure(
        "the member ids {} are handed out, and the group has the members {}", promised, members
    ),
)
stranger_commits = invariant(
    "OnlyMembersCommit",
    ~membership_history.commit_of_none,
    "As long as the group has members, only a member of the current generation may commit an "
    "offset.",
    "GroupCoordinator.validateOffsetCommit, KIP-447",
    KnownBug(
        "TxnOffsetCommit is asked whose it is from 2.5 on, and one without member id from 3.0 on",
        (members_fenced, instances_needed),
        ~instances_needed,
    ),
    failure=failure(
        "a client outside of generation {} may commit an offset; the members are {}",
        generation,
        members,
    ),
)
commits_assigned = invariant(
    "CommitsOnceAssigned",
    ~membership_history.commit_unassigned,
    "While members await their assignment, none of them commits with OffsetCommit.",
    "GroupCoordinator.doCommitOffsets, REBALANCE_IN_PROGRESS",
    failure=failure("a member of generation {} may commit in {}", generation, status),
)
stranger_refused = invariant(
    "OnlyMembersAnswered",
    ~membership_history.other_answer,
    "SyncGroup and Heartbeat are refused unless they come from a member of the current generation.",
    "GroupCoordinator.validateSyncGroup, validateHeartbeat",
    failure=failure(
        "a client outside of generation {} gets no error; the members are {}", generation, members
    ),
)
fenced_refused = invariant(
    "FencedInstanceRefused",
    ~membership_history.fenced_answer,
    "A member that has lost its instance id to another one gets FENCED_INSTANCE_ID for each "
    "request. With any other error it would join again.",
    "GroupCoordinator, FENCED_INSTANCE_ID, KIP-345",
    KnownBug(
        "TxnOffsetCommit is asked whose it is from 2.5 on",
        (members_fenced,),
        static_members & ~members_fenced,
    ),
    failure=failure(
        "one of the fenced members, {}, gets another answer than FENCED_INSTANCE_ID", fenced
    ),
)

PROPERTIES = (
    forward, only_joined, leader_member, one_leader, told_to_leader, fenced_is_gone, not_promised,
    stranger_commits, commits_assigned, stranger_refused, fenced_refused,
)  # fmt: skip

PROGRESS = (
    leads_to(
        "RebalanceEnds",
        (status == PREPARING) & (generation < GENERATIONS),
        status != PREPARING,
        "A rebalance ends, even if members join or stay silent.",
        "GroupCoordinator.onCompleteJoin, DelayedJoin",
        failure=failure("generation {} still prepares a rebalance", generation),
    ),
    always_possible(
        "GroupCanBeLeft",
        members == set_of(),
        "From every state, all members can still leave.",
        "GroupCoordinator.onExpireHeartbeat",
        failure=failure("the members are {}", members),
    ),
)
