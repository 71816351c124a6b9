"""A group's offsets at its coordinator, at real ranges.

Who may commit and fetch offsets, when they are in place, and when a group may be deleted.

GroupCoordinator with its GroupMetadataManager, from 4.0 on OffsetMetadataManager. The partition's
leader appends the offsets, as in `txn_offset_commit`.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Optional,
    Row,
    Table,
    append,
    event,
    if_,
    message,
    some,
)
from ...errors import Errors
from ...messages import OFFSET, PRODUCER, PRODUCER_ID, Result
from ...releases.group_features import (
    completed_by_scheduler,
    empty_groups_first,
    group_coordinator_service,
    instances_needed,
    members_fenced,
    offsets_by_topic_id,
    rebalance_checked_last,
    refused_offset_harmless,
    stable_offsets,
    static_members,
)
from ..members.classic_group import COMPLETING, EMPTY, GroupResponse, asker
from ..state import (
    COMMITTED_OFFSET,
    INSTANCE,
    NAMED_GENERATION,
    Completion,
    Heard,
    PendingOffset,
    committed,
    completions,
    generation,
    group,
    has_member,
    has_static_member,
    is_known,
    is_static_member_fenced,
    is_unstable,
    pending,
    status,
)
from .txn_offset_commit import completed_later, completed_offset, is_newer, offsets_completed

# Who may commit -------------------------------------------------------------------------------

commit = event(
    "OffsetCommit",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
    knows_not_found=Bool(),
    event_doc="Whether a member may commit offsets. Clients from version 9 on know the error "
    "GROUP_ID_NOT_FOUND.",
)
offset_commit = Table(
    group,
    on=commit,
    response=GroupResponse,
    rows=(
        Row(
            "unknown-group",
            "A member names a group that doesn't exist",
            when=~is_known & (commit.generation >= 0),
            reply=if_(
                group_coordinator_service & commit.knows_not_found,
                Errors.GROUP_ID_NOT_FOUND,
                Errors.ILLEGAL_GENERATION,
            ),
            source="GroupCoordinator.handleCommitOffsets, "
            "OffsetMetadataManager.validateOffsetCommit",
        ),
        Row(
            "empty-group",
            "The group has no members, and the client names no generation",
            when=(commit.generation < 0)
            & (status == EMPTY)
            & (
                ~instances_needed
                | empty_groups_first
                | ~(commit.member.is_set | commit.instance.is_set)
            ),
            set={is_known: True},
            reply=Errors.NONE,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=is_static_member_fenced(commit.member, commit.instance),
            set={is_known: True},
            reply=Errors.FENCED_INSTANCE_ID,
            during=static_members,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=commit.instance.is_set & ~has_static_member(commit.instance),
            set={is_known: True},
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=instances_needed,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "completing-of-anybody",
            "The leader hasn't assigned the partitions; neither member nor generation is checked",
            when=status == COMPLETING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            during=~rebalance_checked_last,
            source="GroupCoordinator.doCommitOffsets before 2.4",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=~has_member(commit.member),
            set={is_known: True},
            reply=Errors.UNKNOWN_MEMBER_ID,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "illegal-generation",
            "The request names another generation",
            when=commit.generation != generation,
            set={is_known: True},
            reply=Errors.ILLEGAL_GENERATION,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "completing-rebalance",
            "The leader hasn't assigned the partitions",
            when=status == COMPLETING,
            reply=Errors.REBALANCE_IN_PROGRESS,
            during=rebalance_checked_last,
            source="GroupCoordinator.doCommitOffsets, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "accepted",
            "The member may commit",
            reply=Errors.NONE,
            source="GroupCoordinator.doCommitOffsets",
        ),
    ),
)

commit_in_transaction = event(
    "TxnOffsetCommit for the group",
    member=Optional(PRODUCER),
    instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
    knows_not_found=Bool(),
    event_doc="Whether a member may commit offsets in a transaction. A client that names neither "
    "itself nor a generation may. Clients from version 6 on know the error GROUP_ID_NOT_FOUND.",
)
names_member = commit_in_transaction.member.is_set | commit_in_transaction.instance.is_set
names_member_or_generation = (commit_in_transaction.generation >= 0) | names_member
# before 4.0 GroupCoordinator.doTxnCommitOffsets creates the group before it checks the member
exists_after_check = if_(group_coordinator_service, is_known, True)
txn_offset_commit = Table(
    group,
    on=commit_in_transaction,
    response=GroupResponse,
    rows=(
        Row(
            "unknown-group",
            "A member names a group that doesn't exist",
            when=~is_known & (commit_in_transaction.generation >= 0),
            reply=if_(
                offsets_by_topic_id & commit_in_transaction.knows_not_found,
                Errors.GROUP_ID_NOT_FOUND,
                Errors.ILLEGAL_GENERATION,
            ),
            during=group_coordinator_service,
            source="OffsetMetadataManager.validateTransactionalOffsetCommit, KIP-1319",
        ),
        Row(
            "empty-group",
            "The group has no members, and the client names no generation",
            when=(commit_in_transaction.generation < 0)
            & (status == EMPTY)
            & (~instances_needed | empty_groups_first | ~names_member),
            set={is_known: True},
            reply=Errors.NONE,
            during=members_fenced & instances_needed,
            source="GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "fenced-instance",
            "Another member has the instance id",
            when=names_member_or_generation
            & is_static_member_fenced(commit_in_transaction.member, commit_in_transaction.instance),
            set={is_known: exists_after_check},
            reply=Errors.FENCED_INSTANCE_ID,
            during=static_members & members_fenced,
            source="KIP-447, GroupCoordinator.validateOffsetCommit, "
            "ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "unknown-instance",
            "No member has the instance id",
            when=names_member_or_generation
            & commit_in_transaction.instance.is_set
            & ~has_static_member(commit_in_transaction.instance),
            set={is_known: exists_after_check},
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=instances_needed & members_fenced,
            source="KIP-447, GroupCoordinator.validateOffsetCommit, "
            "ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "unknown-member",
            "The group has no such member",
            when=if_(
                instances_needed, names_member_or_generation, commit_in_transaction.member.is_set
            )
            & ~has_member(commit_in_transaction.member),
            set={is_known: exists_after_check},
            reply=Errors.UNKNOWN_MEMBER_ID,
            during=members_fenced,
            source="KIP-447, GroupCoordinator.validateOffsetCommit, "
            "ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "illegal-generation",
            "The request names another generation",
            when=if_(
                instances_needed,
                names_member_or_generation,
                commit_in_transaction.generation >= 0,
            )
            & (commit_in_transaction.generation != generation),
            set={is_known: exists_after_check},
            reply=Errors.ILLEGAL_GENERATION,
            during=members_fenced,
            source="KIP-447, GroupCoordinator.validateOffsetCommit, "
            "ClassicGroup.validateOffsetCommit",
        ),
        Row(
            "accepted",
            "The member may commit",
            set={is_known: True},
            reply=Errors.NONE,
            source="GroupCoordinator.doTxnCommitOffsets",
        ),
    ),
)

delete = event("DeleteGroups")
delete_group = Table(
    group,
    on=delete,
    response=GroupResponse,
    rows=(
        Row(
            "unknown-group",
            "The group doesn't exist",
            when=~is_known,
            reply=Errors.GROUP_ID_NOT_FOUND,
            source="GroupCoordinator.handleDeleteGroups, GroupMetadataManager.group",
        ),
        Row(
            "non-empty-group",
            "The group has members",
            when=status != EMPTY,
            reply=Errors.NON_EMPTY_GROUP,
            source="GroupCoordinator.handleDeleteGroups, ClassicGroup.validateDeleteGroup",
        ),
        Row(
            "deleted",
            "The group is deleted",
            set={is_known: False},
            reply=Errors.NONE,
            source="GroupCoordinator.handleDeleteGroups, GroupCoordinatorShard.deleteGroups",
        ),
    ),
)

# The offset of a partition --------------------------------------------------------------------

OffsetFetchResponse = message(
    "OffsetFetchResponse",
    asker,
    error=Errors,
    committed=Optional(PendingOffset),
    message_doc="None: there is no offset.",
)
fetch = event(
    "OffsetFetch",
    require_stable=Bool(),
    is_writing=Bool(),
    event_doc="About one partition. `is_writing`: the log has an OffsetCommit of the partition "
    "that isn't replicated.",
)
offset_fetch = Table(
    group,
    on=fetch,
    response=OffsetFetchResponse,
    rows=(
        Row(
            "pending-transaction",
            "An open transaction may change the offset",
            when=fetch.require_stable & is_unstable,
            reply=OffsetFetchResponse(error=Errors.UNSTABLE_OFFSET_COMMIT, committed=None),
            during=stable_offsets,
            source="KIP-447, OffsetMetadataManager.hasPendingTransactionalOffsets, "
            "GroupMetadata.hasPendingOffsetCommitsForTopicPartition",
        ),
        Row(
            "pending-commit",
            "An OffsetCommit that isn't replicated may change the offset",
            when=fetch.require_stable & fetch.is_writing,
            reply=OffsetFetchResponse(error=Errors.UNSTABLE_OFFSET_COMMIT, committed=None),
            during=stable_offsets & ~group_coordinator_service,
            source="GroupMetadata.hasPendingOffsetCommitsForTopicPartition",
        ),
        Row(
            "committed",
            "The client gets the committed offset",
            reply=OffsetFetchResponse(error=Errors.NONE, committed=committed),
            source="OffsetMetadataManager.fetchOffsets, GroupMetadataManager.getOffsets",
        ),
    ),
)

offset_append = event("offset appended", offset=COMMITTED_OFFSET, appended=OFFSET)
offset_appended = Table(
    group,
    on=offset_append,
    rows=(
        Row(
            "newer",
            "The offset is committed",
            when=is_newer(offset_append.appended),
            set={
                committed: some(
                    PendingOffset(
                        offset=offset_append.offset, appended=some(offset_append.appended)
                    )
                )
            },
            source="GroupMetadata.onOffsetCommitAppend, OffsetMetadataManager.replay",
        ),
        Row(
            "older",
            "An offset further in the log is committed already",
            source="GroupMetadata.onOffsetCommitAppend",
        ),
    ),
)

txn_offset_append = event(
    "offset of a transaction appended",
    producer_id=PRODUCER_ID,
    offset=COMMITTED_OFFSET,
    appended=OFFSET,
)
txn_offset_appended = Table(
    group,
    on=txn_offset_append,
    rows=(
        Row(
            "pending",
            "The offset is pending until its transaction ends",
            set={
                pending[txn_offset_append.producer_id]: some(
                    PendingOffset(
                        offset=txn_offset_append.offset, appended=some(txn_offset_append.appended)
                    )
                )
            },
            source="GroupMetadata.onTxnOffsetCommitAppend, OffsetMetadataManager.replay",
        ),
    ),
)

refuse = event(
    "offset of a transaction refused",
    producer_id=PRODUCER_ID,
    event_doc="The leader has refused the offset's batch.",
)
txn_offset_refused = Table(
    group,
    on=refuse,
    rows=(
        Row(
            "failed",
            "The offset isn't in the log; before 4.0 another pending one is dropped as well",
            set={
                pending[refuse.producer_id]: if_(
                    refused_offset_harmless, pending[refuse.producer_id], None
                )
            },
            source="GroupMetadata.failPendingTxnOffsetCommit",
        ),
    ),
)

end = event(
    "transaction ended",
    producer_id=PRODUCER_ID,
    result=Result,
    heard=Heard,
    event_doc="The transaction's marker is in the log of the group's offsets.",
)
transaction_ended = Table(
    group,
    on=end,
    rows=(
        Row(
            "replayed",
            "A coordinator that loads reads the marker",
            when=end.heard == Heard.READ,
            set={
                pending[end.producer_id]: None,
                committed: completed_offset(end.producer_id, end.result == Result.COMMIT),
            },
            source="GroupMetadataManager.doLoadGroupsAndOffsets, "
            "OffsetMetadataManager.replayEndTransactionMarker",
        ),
        Row(
            "group-not-loaded",
            "The group doesn't exist yet, and the marker has no effect",
            when=end.heard == Heard.WHILE_LOADING,
            during=~completed_by_scheduler,
            source="GroupMetadataManager.handleTxnCompletion before KAFKA-6917",
        ),
        Row(
            "completed",
            "The pending offset is committed or dropped, at once or by the scheduler's thread",
            set={
                pending[end.producer_id]: if_(completed_later, pending[end.producer_id], None),
                committed: if_(
                    completed_later,
                    committed,
                    completed_offset(end.producer_id, end.result == Result.COMMIT),
                ),
                completions: if_(
                    completed_later,
                    append(completions, Completion(producer_id=end.producer_id, result=end.result)),
                    completions,
                ),
            },
            source="GroupMetadata.completePendingTxnOffsetCommit, "
            "OffsetMetadataManager.replayEndTransactionMarker",
        ),
    ),
)

MEMBERS_TABLES = (offset_commit, txn_offset_commit, delete_group)
OFFSETS_TABLES = (
    offset_fetch,
    offset_appended,
    txn_offset_appended,
    txn_offset_refused,
    transaction_ended,
    offsets_completed,
)
