"""The requests of a group's members, at a coordinator at real ranges.

The protocol is the classic one, in which the member that leads a group assigns the partitions:
GroupCoordinator with GroupMetadata, from 4.0 on GroupMetadataManager with ClassicGroup.

The caller knows the members' protocols, their assignments and the time. The events' parameters
carry the results of such comparisons. The system `exactly-once` has `membership` instead.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Machine,
    Optional,
    Row,
    Table,
    constant,
    enum,
    event,
    if_,
    message,
    set_of,
    some,
)
from ...coordinator.state_manager.ownership import GIVEN_MS
from ...errors import Errors
from ...messages import PRODUCER
from ...releases.group_features import (
    assignments_skipped,
    group_coordinator_service,
    group_ids_checked,
    heartbeats_while_completing,
    instances_needed,
    load_error_spared,
    load_in_progress_error,
    member_ids_required,
    static_members,
    static_protocols_compared,
    static_restart_rebalances,
)
from ..state import (
    INSTANCE,
    NAMED_GENERATION,
    GroupState,
    generation,
    group,
    has_member,
    has_static_member,
    have_instances,
    is_known,
    is_static_member_fenced,
    joined,
    leader,
    members,
    promised,
    static,
    status,
)

MIN_SESSION = constant(
    "group_min_session_timeout_ms", 1, 1, 1, real=6_000, meaning="group.min.session.timeout.ms"
)
MAX_SESSION = constant(
    "group_max_session_timeout_ms", 1, 1, 1, real=1_800_000, meaning="group.max.session.timeout.ms"
)

asker = Machine("group_client", doc="A client of a group's coordinator.")
GroupResponse = message(
    "GroupResponse",
    asker,
    error=Errors,
    waits=Bool(),
    message_doc="A response. If the request `waits`, the response comes later.",
)
JoinGroupResponse = message(
    "JoinGroupResponse",
    asker,
    error=Errors,
    waits=Bool(),
    member=Optional(PRODUCER),
    leader=Optional(PRODUCER),
    skip_assignment=Bool(),
    message_doc="The member id may be a new one. Without an error the response describes the "
    "present generation, unless the request `waits` for the next one.",
)

PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
STABLE, EMPTY = GroupState.STABLE, GroupState.EMPTY

# Any request ----------------------------------------------------------------------------------

GroupRequest = enum(
    "GroupRequest", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "MAY_BE_EMPTY", "OTHER"
)
validate_group_status = event(
    "validateGroupStatus",
    request=GroupRequest,
    names_group=Bool(),
    is_loading=Bool(),
    event_doc="The first check of each request about a group. A request that MAY_BE_EMPTY is about "
    "offsets, or deletes groups. `is_loading`: the coordinator still reads the group's log.",
)
group_status_validated = Table(
    group,
    on=validate_group_status,
    response=GroupResponse,
    rows=(
        Row(
            "invalid-group-id",
            "The request names no group",
            when=~validate_group_status.names_group
            & (validate_group_status.request != GroupRequest.MAY_BE_EMPTY)
            & ((validate_group_status.request == GroupRequest.JOIN_GROUP) | group_ids_checked),
            reply=Errors.INVALID_GROUP_ID,
            source="GroupCoordinator.isValidGroupId, GroupCoordinatorService.isGroupIdNotEmpty",
        ),
        Row(
            "not-coordinator-while-loading",
            "A coordinator before 2.0 that loads isn't the coordinator yet",
            when=validate_group_status.is_loading,
            reply=Errors.NOT_COORDINATOR,
            during=~load_in_progress_error,
            source="GroupCoordinator.isCoordinatorForGroup before 2.0",
        ),
        Row(
            "heartbeat-while-loading",
            "A heartbeat succeeds while the coordinator loads",
            when=validate_group_status.is_loading
            & (validate_group_status.request == GroupRequest.HEARTBEAT),
            reply=Errors.NONE,
            during=load_in_progress_error,
            source="GroupCoordinator.handleHeartbeat, GroupCoordinatorService.heartbeat",
        ),
        Row(
            "sync-while-loading",
            "The member must join again, as the coordinator has lost the rebalance",
            when=validate_group_status.is_loading
            & (validate_group_status.request == GroupRequest.SYNC_GROUP),
            reply=Errors.REBALANCE_IN_PROGRESS,
            during=~group_coordinator_service & load_in_progress_error,
            source="GroupCoordinator.handleSyncGroup",
        ),
        Row(
            "loading",
            "The coordinator is loading",
            when=validate_group_status.is_loading,
            reply=Errors.COORDINATOR_LOAD_IN_PROGRESS,
            during=load_in_progress_error,
            source="GroupCoordinator.validateGroupStatus, "
            "CoordinatorRuntime.withActiveContextOrThrow",
        ),
        Row(
            "valid",
            "The request is about a group that this coordinator has loaded",
            reply=Errors.NONE,
            source="GroupCoordinator.validateGroupStatus",
        ),
    ),
)

convert_txn_offset_commit_error = event(
    "convert TxnOffsetCommit error",
    error=Errors,
    knows_loading=Bool(),
    event_doc="The response to TxnOffsetCommit is about to be sent. Clients from version 2 on know "
    "COORDINATOR_LOAD_IN_PROGRESS.",
)
txn_offset_commit_error_converted = Table(
    group,
    on=convert_txn_offset_commit_error,
    response=GroupResponse,
    rows=(
        Row(
            "loading-for-older-client",
            "A client below version 2 gets an error that it retries",
            when=~convert_txn_offset_commit_error.knows_loading
            & (convert_txn_offset_commit_error.error == Errors.COORDINATOR_LOAD_IN_PROGRESS),
            reply=Errors.COORDINATOR_NOT_AVAILABLE,
            during=load_error_spared,
            source="KafkaApis.handleTxnOffsetCommitRequest, KAFKA-9656",
        ),
        Row(
            "unchanged",
            "The client gets the coordinator's error",
            reply=convert_txn_offset_commit_error.error,
            source="KafkaApis.handleTxnOffsetCommitRequest",
        ),
    ),
)

# JoinGroup ------------------------------------------------------------------------------------

join = event(
    "JoinGroup",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    new_member=PRODUCER,
    requires_id=Bool(),
    session_timeout_ms=GIVEN_MS,
    is_consistent=Bool(),
    is_same=Bool(),
    keeps_protocol=Bool(),
    skips_assignment=Bool(),
    event_doc="A request without member id gets the id `new_member`. `requires_id`: the client "
    "joins only once it has an id (KIP-394). The member's protocols are consistent with those of "
    "the others, the same as before, or such that the group would keep the one that it has.",
)
is_new_member = ~join.member.is_set
replaced_member = static[join.instance.value]
replaces_static_member = is_new_member & has_static_member(join.instance)
replaces_leader = leader == replaced_member
skips_assignment = assignments_skipped & replaces_leader & join.skips_assignment
join_group = Table(
    group,
    on=join,
    response=JoinGroupResponse,
    rows=(
        Row(
            "invalid-session-timeout",
            "The session timeout is out of the broker's range",
            when=(join.session_timeout_ms < MIN_SESSION) | (join.session_timeout_ms > MAX_SESSION),
            reply=JoinGroupResponse(error=Errors.INVALID_SESSION_TIMEOUT, member=join.member),
            source="GroupCoordinator.handleJoinGroup, GroupMetadataManager.classicGroupJoin",
        ),
        Row(
            "unknown-group",
            "A member names a group that doesn't exist",
            when=~is_known & ~is_new_member,
            reply=JoinGroupResponse(error=Errors.UNKNOWN_MEMBER_ID, member=join.member),
            source="GroupCoordinator.handleJoinGroup, GroupMetadataManager.classicGroupJoin",
        ),
        Row(
            "inconsistent-group-protocol",
            "The group supports none of the member's protocols",
            when=~join.is_consistent,
            set={is_known: True},
            reply=JoinGroupResponse(error=Errors.INCONSISTENT_GROUP_PROTOCOL, member=join.member),
            source="GroupMetadata.supportsProtocols",
        ),
        Row(
            "static-member-replaced",
            "A static member starts again, and the generation goes on",
            when=replaces_static_member
            & (
                ((status == STABLE) & (~static_protocols_compared | join.keeps_protocol))
                | ((status == COMPLETING) & ~static_restart_rebalances)
            ),
            set={
                members: (members - set_of(replaced_member.value)) | set_of(join.new_member),
                leader: if_(replaces_leader, some(join.new_member), leader),
                replaced_member: some(join.new_member),
                have_instances: have_instances | set_of(join.new_member),
            },
            reply=JoinGroupResponse(
                error=Errors.NONE,
                member=some(join.new_member),
                # a leader that doesn't know skip_assignment gets its former member id as leader
                leader=if_(skips_assignment, some(join.new_member), leader),
                skip_assignment=skips_assignment,
            ),
            during=static_members,
            source="GroupCoordinator.updateStaticMemberAndRebalance, KIP-345, KIP-814",
        ),
        Row(
            "static-member-rejoins",
            "A static member starts again, and a rebalance begins",
            when=replaces_static_member,
            set={
                members: (members - set_of(replaced_member.value)) | set_of(join.new_member),
                leader: if_(replaces_leader, some(join.new_member), leader),
                replaced_member: some(join.new_member),
                have_instances: have_instances | set_of(join.new_member),
                joined: (joined - set_of(replaced_member.value)) | set_of(join.new_member),
                status: PREPARING,
            },
            reply=JoinGroupResponse(error=Errors.NONE, waits=True, member=some(join.new_member)),
            during=static_members,
            source="GroupCoordinator.updateStaticMemberAndRebalance",
        ),
        Row(
            "new-static-member",
            "A new static member joins",
            when=is_new_member & join.instance.is_set,
            set={
                is_known: True,
                members: members | set_of(join.new_member),
                promised: promised - set_of(join.new_member),
                leader: if_(members == set_of(), some(join.new_member), leader),
                joined: joined | set_of(join.new_member),
                status: PREPARING,
                replaced_member: some(join.new_member),
                have_instances: have_instances | set_of(join.new_member),
            },
            reply=JoinGroupResponse(error=Errors.NONE, waits=True, member=some(join.new_member)),
            during=static_members,
            source="GroupCoordinator.doStaticNewMemberJoinGroup, addMemberAndRebalance",
        ),
        Row(
            "member-id-required",
            "A new member gets an id, with which it joins later",
            when=is_new_member & join.requires_id,
            set={is_known: True, promised: promised | set_of(join.new_member)},
            reply=JoinGroupResponse(error=Errors.MEMBER_ID_REQUIRED, member=some(join.new_member)),
            during=member_ids_required,
            source="KIP-394, GroupCoordinator.doDynamicNewMemberJoinGroup",
        ),
        Row(
            "new-member",
            "A new member joins",
            when=is_new_member,
            set={
                is_known: True,
                members: members | set_of(join.new_member),
                promised: promised - set_of(join.new_member),
                leader: if_(members == set_of(), some(join.new_member), leader),
                joined: joined | set_of(join.new_member),
                status: PREPARING,
            },
            reply=JoinGroupResponse(error=Errors.NONE, waits=True, member=some(join.new_member)),
            source="GroupCoordinator.addMemberAndRebalance",
        ),
        Row(
            "pending-member",
            "A member joins with the id that it got before",
            when=join.member.value.is_in(promised),
            set={
                is_known: True,
                members: members | set_of(join.member.value),
                promised: promised - set_of(join.member.value),
                leader: if_(members == set_of(), some(join.member.value), leader),
                joined: joined | set_of(join.member.value),
                status: PREPARING,
            },
            reply=JoinGroupResponse(error=Errors.NONE, waits=True, member=some(join.member.value)),
            source="GroupCoordinator.doCurrentMemberJoinGroup",
        ),
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=is_static_member_fenced(join.member, join.instance),
            reply=JoinGroupResponse(error=Errors.FENCED_INSTANCE_ID, member=join.member),
            during=static_members,
            source="GroupCoordinator.validateCurrentMember",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=join.instance.is_set & ~has_static_member(join.instance),
            reply=JoinGroupResponse(error=Errors.UNKNOWN_MEMBER_ID, member=join.member),
            during=static_members,
            source="GroupCoordinator.validateCurrentMember",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=~has_member(join.member),
            reply=JoinGroupResponse(error=Errors.UNKNOWN_MEMBER_ID, member=join.member),
            source="GroupCoordinator.validateCurrentMember",
        ),
        Row(
            "joined-already",
            "The member repeats its request, and gets the present generation",
            when=join.is_same
            & ((status == COMPLETING) | ((status == STABLE) & (leader != join.member))),
            reply=JoinGroupResponse(error=Errors.NONE, member=join.member, leader=leader),
            source="GroupCoordinator.doCurrentMemberJoinGroup",
        ),
        Row(
            "member-rejoins",
            "A member joins again",
            set={joined: joined | set_of(join.member.value), status: PREPARING},
            reply=JoinGroupResponse(error=Errors.NONE, waits=True, member=some(join.member.value)),
            source="GroupCoordinator.updateMemberAndRebalance",
        ),
    ),
)

# The rebalance --------------------------------------------------------------------------------

complete = event(
    "complete join",
    is_late=Bool(),
    successor=Optional(PRODUCER),
    event_doc="All members have joined, or the rebalance timeout is over (`is_late`). The "
    "`successor`, one of those that have joined, leads the group if its leader hasn't joined. If "
    "nobody has joined, it is one of those that stay, and leads if the leader goes.",
)
staying_members = members & (joined | have_instances)
joined_members = members & joined
successors = if_(joined_members == set_of(), staying_members, joined_members)
join_completed = Table(
    group,
    on=complete,
    when=(status == PREPARING)
    & (complete.is_late | ((members - joined == set_of()) & (promised == set_of())))
    & if_(
        complete.successor.is_set,
        complete.successor.value.is_in(successors),
        successors == set_of(),
    ),
    rows=(
        Row(
            "empty",
            "No member is left",
            when=staying_members == set_of(),
            set={
                generation: generation + 1,
                members: set_of(),
                joined: set_of(),
                status: EMPTY,
                leader: None,
            },
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
        Row(
            "nobody-joined",
            "Nobody has joined, and the static members stay until their sessions expire",
            when=joined_members == set_of(),
            set={
                members: staying_members,
                leader: if_(
                    leader.is_set & leader.value.is_in(staying_members),
                    leader,
                    complete.successor,
                ),
            },
            source="GroupMetadata.maybeElectNewJoinedLeader, GroupMetadata.remove",
        ),
        Row(
            "next-generation",
            "The next generation begins",
            set={
                generation: generation + 1,
                members: staying_members,
                joined: set_of(),
                status: COMPLETING,
                leader: if_(
                    leader.is_set & leader.value.is_in(joined_members),
                    leader,
                    complete.successor,
                ),
            },
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
    ),
)

# a rebalance begins, unless one is being prepared already (maybePrepareRebalance)
status_after_removal = if_(status.is_in(STABLE, COMPLETING), PREPARING, status)
members_but_leader = members - if_(leader.is_set, set_of(leader.value), set_of())

expire = event(
    "session ends",
    member=PRODUCER,
    successor=Optional(PRODUCER),
    event_doc="A member was silent for longer than its session timeout. The `successor`, another "
    "member than the leader, leads if the leader goes.",
)
member_expires = Table(
    group,
    on=expire,
    when=expire.member.is_in(members | promised)
    & if_(
        expire.successor.is_set,
        expire.successor.value.is_in(members_but_leader),
        members_but_leader == set_of(),
    ),
    rows=(
        Row(
            "pending-member",
            "Nobody has joined with the id that was handed out",
            when=expire.member.is_in(promised),
            set={promised: promised - set_of(expire.member)},
            source="GroupCoordinator.onExpireHeartbeat, removePendingMemberAndUpdateGroup",
        ),
        Row(
            "member",
            "The member is removed",
            set={
                members: members - set_of(expire.member),
                joined: joined - set_of(expire.member),
                leader: if_(leader == some(expire.member), expire.successor, leader),
                status: status_after_removal,
            },
            source="GroupCoordinator.onExpireHeartbeat, removeMemberAndUpdateGroup, "
            "GroupMetadata.remove, ClassicGroup.remove",
        ),
    ),
)

# SyncGroup, Heartbeat, LeaveGroup ---------------------------------------------------------------

sync = event(
    "SyncGroup",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
    names_other_protocol=Bool(),
)
sync_group = Table(
    group,
    on=sync,
    response=GroupResponse,
    rows=(
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=is_static_member_fenced(sync.member, sync.instance),
            reply=Errors.FENCED_INSTANCE_ID,
            during=static_members,
            source="GroupCoordinator.validateSyncGroup",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=sync.instance.is_set & ~has_static_member(sync.instance),
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=instances_needed,
            source="GroupCoordinator.validateSyncGroup",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=~has_member(sync.member),
            reply=Errors.UNKNOWN_MEMBER_ID,
            source="GroupCoordinator.validateSyncGroup",
        ),
        Row(
            "illegal-generation",
            "The request names another generation",
            when=sync.generation != generation,
            reply=Errors.ILLEGAL_GENERATION,
            source="GroupCoordinator.validateSyncGroup",
        ),
        Row(
            "inconsistent-group-protocol",
            "The request names another protocol than the group's",
            when=sync.names_other_protocol,
            reply=Errors.INCONSISTENT_GROUP_PROTOCOL,
            source="GroupCoordinator.validateSyncGroup",
        ),
        Row(
            "preparing-rebalance",
            "A rebalance has begun, and the member must join again",
            when=status == PREPARING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            source="GroupCoordinator.doSyncGroup",
        ),
        Row(
            "leader-assigns",
            "The leader's request has the assignments",
            when=(status == COMPLETING) & (leader == sync.member),
            set={status: STABLE},
            reply=Errors.NONE,
            source="GroupCoordinator.setAndPropagateAssignment",
        ),
        Row(
            "awaits-leader",
            "The member waits until the leader has assigned the partitions",
            when=status == COMPLETING,
            reply=GroupResponse(error=Errors.NONE, waits=True),
            source="GroupCoordinator.doSyncGroup",
        ),
        Row(
            "stable",
            "The member gets its assignment",
            reply=Errors.NONE,
            source="GroupCoordinator.doSyncGroup",
        ),
    ),
)

beat = event(
    "Heartbeat",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
)
heartbeat = Table(
    group,
    on=beat,
    response=GroupResponse,
    rows=(
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=is_static_member_fenced(beat.member, beat.instance),
            reply=Errors.FENCED_INSTANCE_ID,
            during=static_members,
            source="GroupCoordinator.validateHeartbeat",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=beat.instance.is_set & ~has_static_member(beat.instance),
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=instances_needed,
            source="GroupCoordinator.validateHeartbeat",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=~has_member(beat.member),
            reply=Errors.UNKNOWN_MEMBER_ID,
            source="GroupCoordinator.validateHeartbeat",
        ),
        Row(
            "completing-of-any-generation",
            "The leader hasn't assigned the partitions; the generation isn't compared",
            when=status == COMPLETING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            during=~static_members,
            source="GroupCoordinator.handleHeartbeat before 2.3",
        ),
        Row(
            "illegal-generation",
            "The request names another generation",
            when=beat.generation != generation,
            reply=Errors.ILLEGAL_GENERATION,
            source="GroupCoordinator.validateHeartbeat",
        ),
        Row(
            "preparing-rebalance",
            "A rebalance has begun, and the member must join again",
            when=status == PREPARING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            source="GroupCoordinator.handleHeartbeat",
        ),
        Row(
            "completing-rebalance",
            "The leader hasn't assigned the partitions",
            when=status == COMPLETING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            during=static_members & ~heartbeats_while_completing,
            source="GroupCoordinator.handleHeartbeat before 2.6",
        ),
        Row(
            "alive",
            "The member's session goes on",
            reply=Errors.NONE,
            source="GroupCoordinator.handleHeartbeat",
        ),
    ),
)

leave = event(
    "LeaveGroup",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    successor=Optional(PRODUCER),
    event_doc="The `successor`, another member than the leader, leads if the leader goes.",
)
leave_group = Table(
    group,
    on=leave,
    response=GroupResponse,
    when=if_(
        leave.successor.is_set,
        leave.successor.value.is_in(members_but_leader),
        members_but_leader == set_of(),
    ),
    doc="One member; a request from version 3 on names several.",
    rows=(
        Row(
            "static-member",
            "A static member is removed by its instance id",
            when=~leave.member.is_set & has_static_member(leave.instance),
            set={
                members: members - set_of(static[leave.instance.value].value),
                joined: joined - set_of(static[leave.instance.value].value),
                leader: if_(
                    leader == some(static[leave.instance.value].value), leave.successor, leader
                ),
                status: status_after_removal,
            },
            reply=Errors.NONE,
            during=static_members,
            source="GroupCoordinator.handleLeaveGroup, "
            "GroupMetadataManager.classicGroupLeaveToClassicGroup, KIP-345",
        ),
        Row(
            "pending-member",
            "The id that was handed out is given back",
            when=leave.member.is_set & leave.member.value.is_in(promised),
            set={promised: promised - set_of(leave.member.value)},
            reply=Errors.NONE,
            source="GroupCoordinator.removePendingMemberAndUpdateGroup",
        ),
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=is_static_member_fenced(leave.member, leave.instance),
            reply=Errors.FENCED_INSTANCE_ID,
            during=static_members,
            source="GroupCoordinator.handleLeaveGroup, "
            "GroupMetadataManager.classicGroupLeaveToClassicGroup",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=leave.instance.is_set & ~has_static_member(leave.instance),
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=instances_needed,
            source="GroupCoordinator.handleLeaveGroup, "
            "GroupMetadataManager.classicGroupLeaveToClassicGroup",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=~has_member(leave.member),
            reply=Errors.UNKNOWN_MEMBER_ID,
            source="GroupCoordinator.handleLeaveGroup, "
            "GroupMetadataManager.classicGroupLeaveToClassicGroup",
        ),
        Row(
            "member",
            "The member is removed",
            set={
                members: members - set_of(leave.member.value),
                joined: joined - set_of(leave.member.value),
                leader: if_(leader == some(leave.member.value), leave.successor, leader),
                status: status_after_removal,
            },
            reply=Errors.NONE,
            source="GroupCoordinator.removeMemberAndUpdateGroup, GroupMetadata.remove, "
            "ClassicGroup.remove",
        ),
    ),
)

TABLES = (
    group_status_validated,
    txn_offset_commit_error_converted,
    join_group,
    join_completed,
    member_expires,
    sync_group,
    heartbeat,
    leave_group,
)
