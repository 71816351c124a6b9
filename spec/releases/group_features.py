"""Differences between Kafka's releases with groups and the offsets that transactions commit."""

from __future__ import annotations

from typing import Final

from ...language import Expression, feature
from .release import CLIENT, LEADER, RELEASES

members_fenced = feature(
    "members_fenced",
    "2.5",
    parts=(CLIENT, LEADER),
    sentence="A group's coordinator refuses an offset that a transaction commits for a former "
    "generation, or for a client that is no member. Before, it didn't check.",
    source="KIP-447, GroupCoordinator.validateOffsetCommit",
)
stable_offsets = feature(
    "stable_offsets",
    "2.5",
    parts=(CLIENT, LEADER),
    sentence="A reader of a group's offset waits while a transaction has one pending "
    "(UNSTABLE_OFFSET_COMMIT). Before, it got the previous offset.",
    source="KIP-447, OffsetFetch with require_stable",
)
completed_by_scheduler = feature(
    "completed_by_scheduler",
    "1.0",
    parts=(LEADER,),
    sentence="A separate thread puts the offsets of an ended transaction in place (from 1.0.2 and "
    "1.1.1 on). Before, the thread that had written the marker.",
    source="KAFKA-6917, GroupMetadataManager.scheduleHandleTxnCompletion",
)
offsets_in_place_first = feature(
    "offsets_in_place_first",
    "3.9",
    parts=(LEADER,),
    sentence="A marker is answered once the offsets that it commits or drops are in place. Before "
    "3.9.1 the thread for them might be late.",
    source="KAFKA-17507, KafkaApis.handleWriteTxnMarkersRequest",
)
offsets_staged_last = feature(
    "offsets_staged_last",
    RELEASES[0],
    parts=(LEADER,),
    sentence="An offset is pending only after the coordinator has answered about its transaction. "
    "A trunk before 3.7 had it pending while it asked.",
    source="KAFKA-15784, GroupCoordinator.handleTxnCommitOffsets",
)
refused_offset_harmless = feature(
    "refused_offset_harmless",
    "4.0.0",
    parts=(LEADER,),
    sentence="An offset whose append is refused leaves its producer id's pending offset alone. "
    "Before, the pending one was dropped, whichever request had sent it (finding 16).",
    source="GroupMetadata.prepareTxnOffsetCommit, failPendingTxnOffsetCommit",
)

loaded_once_replicated = feature(
    "loaded_once_replicated",
    "4.0.0",
    parts=(LEADER,),
    sentence="A group's coordinator that has read its log answers by what is replicated of it. "
    "Before, it answered by all that it had read, which the next leader may lack.",
    source="CoordinatorLoaderImpl, CoordinatorRuntime, GroupMetadataManager.doLoadGroupsAndOffsets",
)

# What no system asks for, as its runs are of no real ranges

load_in_progress_error = feature(
    "load_in_progress_error",
    "2.0.0",
    parts=(LEADER,),
    sentence="A request about a group whose log is being read gets COORDINATOR_LOAD_IN_PROGRESS. "
    "Before, NOT_COORDINATOR.",
    source="GroupCoordinator.validateGroupStatus",
)
load_error_retried = feature(
    "load_error_retried",
    "2.0",
    parts=(CLIENT,),
    sentence="A client sends TxnOffsetCommit again after COORDINATOR_LOAD_IN_PROGRESS. Before, "
    "it failed for good.",
    source="KAFKA-7296",
)
load_error_known = feature(
    "load_error_known",
    "2.1",
    parts=(CLIENT, LEADER),
    sentence="TxnOffsetCommit has version 2, whose clients all know COORDINATOR_LOAD_IN_PROGRESS.",
    source="KIP-320, TxnOffsetCommitRequest",
)
load_error_spared = feature(
    "load_error_spared",
    "2.6",
    parts=(LEADER,),
    sentence="A TxnOffsetCommit below version 2 gets COORDINATOR_NOT_AVAILABLE instead of "
    "COORDINATOR_LOAD_IN_PROGRESS, at which its client might fail for good.",
    source="KAFKA-9656, KafkaApis.handleTxnOffsetCommitRequest",
)
group_ids_checked = feature(
    "group_ids_checked",
    "2.0.0",
    parts=(LEADER,),
    sentence="An empty group id is refused in all requests of members, and in TxnOffsetCommit. "
    "Before, only JoinGroup checked it.",
    source="GroupCoordinator.validateGroupStatus",
)
member_ids_required = feature(
    "member_ids_required",
    "2.3",
    parts=(LEADER,),
    sentence="A new member gets an id, from 2.2 on, and joins with it. Before, it joined at once.",
    source="KIP-394",
)
static_members = feature(
    "static_members",
    "2.3",
    parts=(LEADER,),
    sentence="A member may have an instance id, which it keeps over restarts. A former member "
    "with that id is fenced.",
    source="KIP-345",
)
static_restart_rebalances = feature(
    "static_restart_rebalances",
    "2.5",
    parts=(LEADER,),
    sentence="A static member that restarts while the assignment is awaited begins a rebalance. "
    "Before, it got the generation.",
    source="KAFKA-9801, GroupCoordinator.updateStaticMemberAndRebalance",
)
static_protocols_compared = feature(
    "static_protocols_compared",
    "2.6",
    parts=(LEADER,),
    sentence="A static member that restarts in a stable group begins a rebalance if another "
    "protocol would be chosen.",
    source="GroupCoordinator.updateStaticMemberAndRebalance",
)
rebalance_checked_last = feature(
    "rebalance_checked_last",
    "2.4",
    parts=(LEADER,),
    sentence="OffsetCommit reports a rebalance after it has checked the member and its "
    "generation. Before, it did so first.",
    source="GroupCoordinator.doCommitOffsets",
)
heartbeats_while_completing = feature(
    "heartbeats_while_completing",
    "2.6",
    parts=(LEADER,),
    sentence="A Heartbeat while the assignment is awaited is accepted. Before, the answer was "
    "REBALANCE_IN_PROGRESS.",
    source="GroupCoordinator.handleHeartbeat",
)
instances_needed = feature(
    "instances_needed",
    "3.0",
    parts=(LEADER,),
    sentence="Every request that names an instance id or a generation needs a matching member. "
    "Before, an unknown instance id was ignored, and so was a missing member id in "
    "TxnOffsetCommit.",
    source="GroupCoordinator.validateCurrentMember",
)
empty_groups_first = feature(
    "empty_groups_first",
    "3.3",
    parts=(LEADER,),
    sentence="An empty group takes a commit without generation, whatever member it names. 3.0 "
    "checked the member first.",
    source="GroupCoordinator.validateOffsetCommit",
)
assignments_skipped = feature(
    "assignments_skipped",
    "3.3",
    parts=(LEADER,),
    sentence="A static leader that restarts learns, from 3.2 on, that it leads and must skip the "
    "assignment. Before, the answer named its former self as leader.",
    source="KIP-814",
)
group_coordinator_service = feature(
    "group_coordinator_service",
    "4.0.0",
    parts=(LEADER,),
    sentence="TxnOffsetCommit with a generation doesn't create a missing group: "
    "ILLEGAL_GENERATION. OffsetCommit from version 9 on answers GROUP_ID_NOT_FOUND then.",
    source="KIP-848, OffsetMetadataManager.validateTransactionalOffsetCommit",
)
former_coordinator_silent = feature(
    "former_coordinator_silent",
    "4.4",
    backports=("4.2.2", "4.3.1"),
    parts=(LEADER,),
    sentence="A broker that has lost the partition of a group no longer passes its high watermark "
    "to its coordinator. Before, from 4.0 on, the coordinator completed "
    "its deferred writes when the high watermark passed their places, whatever records are there.",
    source="KAFKA-20634, CoordinatorPartitionWriter.ListenerAdapter",
)
offsets_by_topic_id = feature(
    "offsets_by_topic_id",
    "4.4",
    parts=(CLIENT, LEADER),
    sentence="TxnOffsetCommit has version 6, with topic ids and the errors GROUP_ID_NOT_FOUND, "
    "STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID. Up to version 5 the first two are "
    "ILLEGAL_GENERATION.",
    source="KIP-1319, OffsetMetadataManager.validateTransactionalOffsetCommit",
)

OF_GROUPS: Final[tuple[Expression, ...]] = (
    members_fenced, stable_offsets, completed_by_scheduler, offsets_in_place_first,
    offsets_staged_last, refused_offset_harmless, loaded_once_replicated, load_in_progress_error,
    load_error_retried, load_error_known, load_error_spared, group_ids_checked, member_ids_required,
    static_members, static_restart_rebalances, static_protocols_compared, rebalance_checked_last,
    heartbeats_while_completing, instances_needed, empty_groups_first, assignments_skipped,
    group_coordinator_service, former_coordinator_silent, offsets_by_topic_id,
)  # fmt: skip
