"""What a group's coordinator makes of its members' requests, at real ranges: the protocol in which
the member that leads a group assigns partitions (GroupCoordinator, from 4.0 on GroupMetadataManager
with its ClassicGroup).

Which protocols the members have, what an assignment says and how long a member may be silent is
left to who drives it; a bounded run has `membership` instead.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Machine,
    Optional,
    Row,
    Sending,
    Table,
    constant,
    enum,
    event,
    if_,
    message,
    only,
    set_of,
    some,
)
from ...language.expressions import Operand
from ..coordinator.ownership import GIVEN_MS
from ..errors import Errors
from ..messages import PRODUCER
from ..releases.group_features import (
    assignments_skipped,
    group_coordinator_service,
    group_ids_checked,
    heartbeats_while_completing,
    load_error_spared,
    load_in_progress_error,
    member_ids_required,
    static_members,
    static_protocols_compared,
    static_restart_rebalances,
)
from .members import Refused, is_held, is_member, refusals, refused_instances
from .state import (
    INSTANCE,
    NAMED_GENERATION,
    GroupState,
    begins,
    generation,
    group,
    have_instances,
    is_known,
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
    "GroupResponse", asker, only_real=True, error=Errors, waits=Bool(),
    message_doc="An answer; where the request `waits`, it comes later.",
)  # fmt: skip
JoinGroupResponse = message(
    "JoinGroupResponse", asker, only_real=True, error=Errors, waits=Bool(),
    member=Optional(PRODUCER), leader=Optional(PRODUCER), skip_assignment=Bool(),
    message_doc="The member id may be a new one. Without error the answer describes the present "
    "generation, unless the request `waits` for the next one.",
)  # fmt: skip

PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
STABLE, EMPTY = GroupState.STABLE, GroupState.EMPTY
_Updates = dict[Expression, Operand]


def answered(error: Operand) -> Sending:
    """An answer at once."""
    return GroupResponse(error=error)


def refusing(source: str) -> Refused:
    """A function that makes rows which refuse with an error."""

    def row(name: str, wrong: Expression, error: str) -> Row:
        return Row(name, when=wrong, reply=answered(getattr(Errors, error)), source=source)

    return row


# Any request ----------------------------------------------------------------------------------

Asked = enum("GroupRequest", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "MAY_BE_EMPTY", "OTHER")
asked_for = event(
    "group asked for", request=Asked, names_group=Bool(), is_loading=Bool(),
    event_doc="A request about a group, before anything else is looked at; one that MAY_BE_EMPTY "
    "is about offsets or deletes groups. The log that has the group may still be read.",
)  # fmt: skip
_asks, _LOADING = asked_for.request, "GroupCoordinator.validateGroupStatus"
validated = Table(
    group,
    on=asked_for,
    response=GroupResponse,
    rows=(
        Row(
            "no group id",
            when=~asked_for.names_group
            & (_asks != Asked.MAY_BE_EMPTY)
            & ((_asks == Asked.JOIN_GROUP) | group_ids_checked),
            reply=answered(Errors.INVALID_GROUP_ID),
            source="GroupCoordinator.isValidGroupId, GroupCoordinatorService.isGroupIdNotEmpty",
        ),
        *only(
            ~load_in_progress_error,
            Row(
                "not here before it is loaded",
                when=asked_for.is_loading,
                reply=answered(Errors.NOT_COORDINATOR),
                source="GroupCoordinator.isCoordinatorForGroup before 2.0",
            ),
        ),
        *only(
            load_in_progress_error,
            Row(
                "a heartbeat while it is loaded",
                when=asked_for.is_loading & (_asks == Asked.HEARTBEAT),
                reply=answered(Errors.NONE),
                source="GroupCoordinator.handleHeartbeat, GroupCoordinatorService.heartbeat",
            ),
            *only(
                ~group_coordinator_service,
                Row(
                    "a rebalance that is lost",
                    when=asked_for.is_loading & (_asks == Asked.SYNC_GROUP),
                    reply=answered(Errors.REBALANCE_IN_PROGRESS),
                    source="GroupCoordinator.handleSyncGroup",
                ),
            ),
            Row(
                "still being read",
                when=asked_for.is_loading,
                reply=answered(Errors.COORDINATOR_LOAD_IN_PROGRESS),
                source=f"{_LOADING}, CoordinatorRuntime.withActiveContextOrThrow",
            ),
        ),
        Row("a group id", reply=answered(Errors.NONE)),
    ),
)

offsets_told = event(
    "TxnOffsetCommit told", error=Errors, knows_loading=Bool(),
    event_doc="The answer to it, before it is sent. From version 2 on, its client knows "
    "COORDINATOR_LOAD_IN_PROGRESS.",
)  # fmt: skip
converted = Table(
    group,
    on=offsets_told,
    response=GroupResponse,
    rows=(
        Row(
            "still being read, for an older client",
            when=~offsets_told.knows_loading
            & (offsets_told.error == Errors.COORDINATOR_LOAD_IN_PROGRESS),
            reply=answered(Errors.COORDINATOR_NOT_AVAILABLE),
            during=load_error_spared,
            source="KafkaApis.handleTxnOffsetCommitRequest, KAFKA-9656",
        ),
        Row("as it is", reply=answered(offsets_told.error)),
    ),
)

# JoinGroup ------------------------------------------------------------------------------------

_JOIN = "GroupCoordinator.handleJoinGroup, GroupMetadataManager.classicGroupJoin"
join = event(
    "JoinGroup", member=Optional(PRODUCER), instance=Optional(INSTANCE), new_member=PRODUCER,
    requires_id=Bool(), session_timeout_ms=GIVEN_MS, is_consistent=Bool(), is_same=Bool(),
    keeps_protocol=Bool(), skips_assignment=Bool(),
    event_doc="The `new_member` is the id that one without gets; one that `requires_id` is only "
    "handed it (KIP-394). The protocols that the member has are consistent with those of the "
    "others, the same as before, or such that the group would keep the one that it has.",
)  # fmt: skip
_me, _instance = join.member, join.instance
_old = static[_instance.value]


def _joining(who: Expression) -> _Updates:
    return {joined: joined | set_of(who), status: PREPARING}


def _added(who: Expression) -> _Updates:
    """GroupMetadata.add"""
    return {
        is_known: True,
        members: members | set_of(who),
        promised: promised - set_of(who),
        leader: if_(members == set_of(), some(who), leader),
        **_joining(who),
    }


def _of_instance(who: Expression) -> _Updates:
    return {_old: some(who), have_instances: have_instances | set_of(who)}


def _waits(who: Expression) -> Sending:
    return JoinGroupResponse(error=Errors.NONE, waits=True, member=some(who))


def _refused(name: str, when: Operand, error: Expression, source: str = _JOIN) -> Row:
    answer = JoinGroupResponse(error=error, member=_me)
    return Row(name, when=when, reply=answer, source=source)


def _refusing(name: str, wrong: Expression, error: str) -> Row:
    return _refused(name, wrong, getattr(Errors, error), "GroupCoordinator.validateCurrentMember")


_is_new = ~_me.is_set
_restarts = _is_new & is_held(_instance)
_was_leader = leader == _old
_leads = assignments_skipped & _was_leader & join.skips_assignment
_replaced: _Updates = {
    members: (members - set_of(_old.value)) | set_of(join.new_member),
    leader: if_(_was_leader, some(join.new_member), leader),
    **_of_instance(join.new_member),
}
_STATIC = "GroupCoordinator.updateStaticMemberAndRebalance"
join_group = Table(
    group,
    on=join,
    response=JoinGroupResponse,
    rows=(
        _refused(
            "session timeout out of range",
            (join.session_timeout_ms < MIN_SESSION) | (join.session_timeout_ms > MAX_SESSION),
            Errors.INVALID_SESSION_TIMEOUT,
        ),
        _refused("no such group", ~is_known & ~_is_new, Errors.UNKNOWN_MEMBER_ID),
        Row(
            "inconsistent protocols",
            when=~join.is_consistent,
            set={is_known: True},
            reply=JoinGroupResponse(error=Errors.INCONSISTENT_GROUP_PROTOCOL, member=_me),
            source="GroupMetadata.supportsProtocols",
        ),
        Row(
            "a static member starts again",
            when=_restarts
            & (
                ((status == STABLE) & (~static_protocols_compared | join.keeps_protocol))
                | ((status == COMPLETING) & ~static_restart_rebalances)
            ),
            set=_replaced,
            # a leader that doesn't know skip_assignment gets its former member id as leader
            reply=JoinGroupResponse(
                error=Errors.NONE,
                member=some(join.new_member),
                leader=if_(_leads, some(join.new_member), leader),
                skip_assignment=_leads,
            ),
            during=static_members,
            source=f"{_STATIC}, KIP-345, KIP-814",
        ),
        Row(
            "a static member starts again, and all join anew",
            when=_restarts,
            set={
                **_replaced,
                joined: (joined - set_of(_old.value)) | set_of(join.new_member),
                status: PREPARING,
            },
            reply=_waits(join.new_member),
            during=static_members,
            source=_STATIC,
        ),
        Row(
            "a new static member",
            when=_is_new & _instance.is_set,
            set={**_added(join.new_member), **_of_instance(join.new_member)},
            reply=_waits(join.new_member),
            during=static_members,
            source="GroupCoordinator.doStaticNewMemberJoinGroup",
        ),
        Row(
            "a member id is handed out",
            when=_is_new & join.requires_id,
            set={is_known: True, promised: promised | set_of(join.new_member)},
            reply=JoinGroupResponse(error=Errors.MEMBER_ID_REQUIRED, member=some(join.new_member)),
            during=member_ids_required,
            source="KIP-394, GroupCoordinator.doDynamicNewMemberJoinGroup",
        ),
        Row(
            "a new member",
            when=_is_new,
            set=_added(join.new_member),
            reply=_waits(join.new_member),
            source="GroupCoordinator.addMemberAndRebalance",
        ),
        Row(
            "a member that was promised",
            when=_me.value.is_in(promised),
            set=_added(_me.value),
            reply=_waits(_me.value),
            source="GroupCoordinator.doCurrentMemberJoinGroup",
        ),
        *refused_instances(_me, _instance, _refusing, static_members),
        refusals(is_member(_me), generation, _refusing)[0],
        Row(
            "the same answer as before",
            when=join.is_same & ((status == COMPLETING) | ((status == STABLE) & (leader != _me))),
            reply=JoinGroupResponse(error=Errors.NONE, member=_me, leader=leader),
            source="GroupCoordinator.doCurrentMemberJoinGroup",
        ),
        Row(
            "a member joins anew",
            set=_joining(_me.value),
            reply=_waits(_me.value),
            source="GroupCoordinator.updateMemberAndRebalance",
        ),
    ),
)

# The rebalance --------------------------------------------------------------------------------

complete = event(
    "complete join", is_late=Bool(), successor=Optional(PRODUCER),
    event_doc="All members have joined, or the time for that is over (`is_late`). The `successor`, "
    "one of those that have joined, leads the group where its leader hasn't; where nobody has, it "
    "is one of those that stay, and leads where the leader goes.",
)  # fmt: skip
_stay = members & (joined | have_instances)
_here = members & joined
_next = if_(_here == set_of(), _stay, _here)
join_completed = Table(
    group,
    on=complete,
    when=(status == PREPARING)
    & (complete.is_late | ((members - joined == set_of()) & (promised == set_of())))
    & if_(complete.successor.is_set, complete.successor.value.is_in(_next), _next == set_of()),
    rows=(
        Row(
            "nobody is left",
            when=_stay == set_of(),
            set={**begins(set_of()), joined: set_of(), status: EMPTY, leader: None},
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
        Row(
            "nobody has joined",
            when=_here == set_of(),
            set={
                members: _stay,
                leader: if_(leader.is_set & leader.value.is_in(_stay), leader, complete.successor),
            },
            source="GroupMetadata.maybeElectNewJoinedLeader, GroupMetadata.remove",
            note="Static members that are silent are waited for until their sessions end.",
        ),
        Row(
            "a generation begins",
            set={
                **begins(_stay),
                joined: set_of(),
                status: COMPLETING,
                leader: if_(leader.is_set & leader.value.is_in(_here), leader, complete.successor),
            },
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
    ),
)

_GONE = "GroupCoordinator.removeMemberAndUpdateGroup"


def _removed(who: Expression, successor: Expression) -> _Updates:
    """The others have to join anew, and one of them leads.

    GroupMetadata.remove, ClassicGroup.remove
    """
    return {
        members: members - set_of(who),
        joined: joined - set_of(who),
        leader: if_(leader == some(who), successor, leader),
        status: if_(status.is_in(STABLE, COMPLETING), PREPARING, status),
    }


def _may_succeed(successor: Expression) -> Expression:
    others = members - if_(leader.is_set, set_of(leader.value), set_of())
    return if_(successor.is_set, successor.value.is_in(others), others == set_of())


_SUCCESSOR = "The `successor`, another member than the leader, leads if the leader goes."
expire = event(
    "session ends", member=PRODUCER, successor=Optional(PRODUCER),
    event_doc=f"A member was silent for longer than it may be. {_SUCCESSOR}",
)  # fmt: skip
member_expires = Table(
    group,
    on=expire,
    when=expire.member.is_in(members | promised) & _may_succeed(expire.successor),
    rows=(
        Row(
            "a member that was promised",
            when=expire.member.is_in(promised),
            set={promised: promised - set_of(expire.member)},
            source="GroupCoordinator.onExpireHeartbeat, removePendingMemberAndUpdateGroup",
        ),
        Row(
            "a member",
            set=_removed(expire.member, expire.successor),
            source=f"GroupCoordinator.onExpireHeartbeat, {_GONE}",
        ),
    ),
)

# SyncGroup, Heartbeat, LeaveGroup ---------------------------------------------------------------

sync = event(
    "SyncGroup", member=Optional(PRODUCER), instance=Optional(INSTANCE),
    generation=NAMED_GENERATION, names_other_protocol=Bool(),
)  # fmt: skip
_SYNC = "GroupCoordinator.doSyncGroup"
_syncing = refusing("GroupCoordinator.validateSyncGroup")
sync_group = Table(
    group,
    on=sync,
    response=GroupResponse,
    rows=(
        *refused_instances(sync.member, sync.instance, _syncing),
        *refusals(is_member(sync.member), sync.generation, _syncing),
        _syncing("another protocol", sync.names_other_protocol, "INCONSISTENT_GROUP_PROTOCOL"),
        Row(
            "all have to join anew",
            when=status == PREPARING,
            reply=answered(Errors.REBALANCE_IN_PROGRESS),
            source=_SYNC,
        ),
        Row(
            "the leader assigns",
            when=(status == COMPLETING) & (leader == sync.member),
            set={status: STABLE},
            reply=answered(Errors.NONE),
            source="GroupCoordinator.setAndPropagateAssignment",
        ),
        Row(
            "before the leader",
            when=status == COMPLETING,
            reply=GroupResponse(error=Errors.NONE, waits=True),
            source=_SYNC,
        ),
        Row("assigned", reply=answered(Errors.NONE), source=_SYNC),
    ),
)

beat = event(
    "Heartbeat", member=Optional(PRODUCER), instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
)  # fmt: skip
_beating = refusing("GroupCoordinator.validateHeartbeat")
_unknown, _another = refusals(is_member(beat.member), beat.generation, _beating)
_HEARTBEAT = "GroupCoordinator.handleHeartbeat"


def _rebalancing(name: str, when: Expression) -> Row:
    return Row(name, when=when, reply=answered(Errors.REBALANCE_IN_PROGRESS), source=_HEARTBEAT)


heartbeat = Table(
    group,
    on=beat,
    response=GroupResponse,
    rows=(
        *refused_instances(beat.member, beat.instance, _beating),
        _unknown,
        *only(
            ~static_members,
            _rebalancing("assignment awaited, of any generation", status == COMPLETING),
        ),
        _another,
        _rebalancing("all have to join anew", status == PREPARING),
        *only(
            static_members & ~heartbeats_while_completing,
            _rebalancing("assignment awaited", status == COMPLETING),
        ),
        Row("it is alive", reply=answered(Errors.NONE), source=_HEARTBEAT),
    ),
)

leave = event(
    "LeaveGroup", member=Optional(PRODUCER), instance=Optional(INSTANCE),
    successor=Optional(PRODUCER), event_doc=_SUCCESSOR,
)  # fmt: skip
_LEAVE = "GroupCoordinator.handleLeaveGroup, GroupMetadataManager.classicGroupLeaveToClassicGroup"
_leaving = refusing(_LEAVE)
leave_group = Table(
    group,
    on=leave,
    response=GroupResponse,
    when=_may_succeed(leave.successor),
    doc="One member; a request from version 3 on has several.",
    rows=(
        Row(
            "by its instance id",
            when=~leave.member.is_set & is_held(leave.instance),
            set=_removed(static[leave.instance.value].value, leave.successor),
            reply=answered(Errors.NONE),
            during=static_members,
            source=f"{_LEAVE}, KIP-345",
        ),
        Row(
            "a member that was promised",
            when=leave.member.is_set & leave.member.value.is_in(promised),
            set={promised: promised - set_of(leave.member.value)},
            reply=answered(Errors.NONE),
            source="GroupCoordinator.removePendingMemberAndUpdateGroup",
        ),
        *refused_instances(leave.member, leave.instance, _leaving),
        refusals(is_member(leave.member), generation, _leaving)[0],
        Row(
            "a member",
            set=_removed(leave.member.value, leave.successor),
            reply=answered(Errors.NONE),
            source=_GONE,
        ),
    ),
)

TABLES = (
    validated, converted, join_group, join_completed, member_expires, sync_group, heartbeat,
    leave_group,
)  # fmt: skip
