"""What a group's coordinator makes of offsets at real ranges: who may commit them and who may fetch
them, when they are in place, and when a group may be deleted.

GroupCoordinator with its GroupMetadataManager, from 4.0 on OffsetMetadataManager. What an offset's
append comes to is the leader's, as in `offsets`.
"""

from __future__ import annotations

from dataclasses import replace

from ...language import (
    Bool,
    Expression,
    Optional,
    Row,
    Table,
    event,
    if_,
    lift,
    message,
    only,
    some,
)
from ..errors import Errors
from ..messages import OFFSET, PRODUCER, PRODUCER_ID, Result
from ..releases.group_features import (
    completed_by_scheduler,
    empty_groups_first,
    group_coordinator_service,
    instances_needed,
    members_fenced,
    rebalance_checked_last,
    stable_offsets,
)
from .members import is_member, refusals, refused_instances
from .offsets import completed, ended, is_newer, not_appended, offsets_completed
from .requests import COMPLETING, EMPTY, GroupResponse, answered, asker, refusing
from .state import (
    COMMITTED_OFFSET,
    INSTANCE,
    NAMED_GENERATION,
    Heard,
    PendingOffset,
    committed,
    group,
    is_known,
    is_unstable,
    pending,
    status,
)

_VALIDATED = "GroupCoordinator.validateOffsetCommit, ClassicGroup.validateOffsetCommit"

# Who may commit -------------------------------------------------------------------------------

commit = event(
    "OffsetCommit", member=Optional(PRODUCER), instance=Optional(INSTANCE),
    generation=NAMED_GENERATION, knows_not_found=Bool(),
    event_doc="Whether a member may commit offsets. From version 9 on, its client knows "
    "GROUP_ID_NOT_FOUND for an answer.",
)  # fmt: skip
_refusing = refusing(_VALIDATED)


def _refusing_made(name: str, wrong: Expression, error: str) -> Row:
    """The row of a refusal, in a group that was made for the request if it wasn't there."""
    return replace(_refusing(name, wrong, error), set={is_known: True})


def _empty(generation: Expression, names_member: Expression) -> Row:
    """A client outside of the group's generation may commit if the group has no members."""
    return Row(
        "nobody is in the group",
        when=(generation < 0)
        & (status == EMPTY)
        & (~instances_needed | empty_groups_first | ~names_member),
        set={is_known: True},
        reply=answered(Errors.NONE),
        source=_VALIDATED,
    )


offset_commit = Table(
    group,
    on=commit,
    response=GroupResponse,
    rows=(
        Row(
            "no such group",
            when=~is_known & (commit.generation >= 0),
            reply=answered(
                if_(
                    group_coordinator_service & commit.knows_not_found,
                    Errors.GROUP_ID_NOT_FOUND,
                    Errors.ILLEGAL_GENERATION,
                )
            ),
            source="GroupCoordinator.handleCommitOffsets, "
            "OffsetMetadataManager.validateOffsetCommit",
        ),
        _empty(commit.generation, commit.member.is_set | commit.instance.is_set),
        *refused_instances(commit.member, commit.instance, _refusing_made),
        *only(
            ~rebalance_checked_last,
            _refusing(
                "assignment awaited, whoever asks", status == COMPLETING, "REBALANCE_IN_PROGRESS"
            ),
        ),
        *refusals(is_member(commit.member), commit.generation, _refusing_made),
        *only(
            rebalance_checked_last,
            _refusing("assignment awaited", status == COMPLETING, "REBALANCE_IN_PROGRESS"),
        ),
        Row("accepted", reply=answered(Errors.NONE), source="GroupCoordinator.doCommitOffsets"),
    ),
)

commit_in_transaction = event(
    "TxnOffsetCommit for the group", member=Optional(PRODUCER), instance=Optional(INSTANCE),
    generation=NAMED_GENERATION,
    event_doc="Whether a member may commit offsets in a transaction, before they are appended. One "
    "that names neither itself nor a generation may.",
)  # fmt: skip
_txn = commit_in_transaction
_names_member = _txn.member.is_set | _txn.instance.is_set
names_any = (_txn.generation >= 0) | _names_member
_looks_at = {
    "UNKNOWN_MEMBER_ID": if_(instances_needed, names_any, _txn.member.is_set),
    "ILLEGAL_GENERATION": if_(instances_needed, names_any, _txn.generation >= 0),
}


def _refused(name: str, wrong: Expression, error: str) -> Row:
    return Row(
        name,
        when=_looks_at.get(error, names_any) & wrong,
        # a coordinator before 4.0 has made the group by then
        set={is_known: if_(group_coordinator_service, is_known, True)},
        reply=answered(getattr(Errors, error)),
        source=f"KIP-447, {_VALIDATED}",
    )


txn_offset_commit = Table(
    group,
    on=_txn,
    response=GroupResponse,
    rows=(
        *only(
            group_coordinator_service,
            _refusing("no such group", ~is_known & (_txn.generation >= 0), "ILLEGAL_GENERATION"),
        ),
        *only(
            members_fenced & instances_needed,
            _empty(_txn.generation, _names_member),
        ),
        *only(
            members_fenced,
            *refused_instances(_txn.member, _txn.instance, _refused),
            *refusals(is_member(_txn.member), _txn.generation, _refused),
        ),
        Row(
            "accepted",
            set={is_known: True},
            reply=answered(Errors.NONE),
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
        Row("no such group", when=~is_known, reply=answered(Errors.GROUP_ID_NOT_FOUND)),
        Row("it has members", when=status != EMPTY, reply=answered(Errors.NON_EMPTY_GROUP)),
        Row("deleted", set={is_known: False}, reply=answered(Errors.NONE)),
    ),
)

# The offset of a partition --------------------------------------------------------------------

OffsetFetchResponse = message(
    "OffsetFetchResponse", asker, only_real=True, error=Errors, committed=Optional(PendingOffset),
    message_doc="None: there is no offset.",
)  # fmt: skip
fetch = event(
    "OffsetFetch", require_stable=Bool(), is_writing=Bool(),
    event_doc="Of one partition. An OffsetCommit of it may be in the log that isn't replicated.",
)  # fmt: skip
offset_fetch = Table(
    group,
    on=fetch,
    response=OffsetFetchResponse,
    rows=(
        Row(
            "a transaction may change it",
            when=fetch.require_stable & is_unstable,
            reply=OffsetFetchResponse(error=Errors.UNSTABLE_OFFSET_COMMIT, committed=None),
            during=stable_offsets,
            source="KIP-447, OffsetMetadataManager.hasPendingTransactionalOffsets, "
            "GroupMetadata.hasPendingOffsetCommitsForTopicPartition",
        ),
        Row(
            "an offset that isn't replicated may change it",
            when=fetch.require_stable & fetch.is_writing,
            reply=OffsetFetchResponse(error=Errors.UNSTABLE_OFFSET_COMMIT, committed=None),
            during=stable_offsets & ~group_coordinator_service,
            source="GroupMetadata.hasPendingOffsetCommitsForTopicPartition",
        ),
        Row(
            "what is committed",
            reply=OffsetFetchResponse(error=Errors.NONE, committed=committed),
            source="OffsetMetadataManager.fetchOffsets, GroupMetadataManager.getOffsets",
        ),
    ),
)

append = event("offset appended", offset=COMMITTED_OFFSET, appended=OFFSET)
_new = some(PendingOffset(offset=append.offset, appended=some(append.appended)))
offset_appended = Table(
    group,
    on=append,
    rows=(
        Row(
            "committed",
            when=is_newer(append.appended),
            set={committed: _new},
            source="GroupMetadata.onOffsetCommitAppend, OffsetMetadataManager.replay",
        ),
        Row("a later one is known", source="GroupMetadata.onOffsetCommitAppend"),
    ),
)

append_in_transaction = event(
    "offset of a transaction appended", producer_id=PRODUCER_ID, offset=COMMITTED_OFFSET,
    appended=OFFSET,
)  # fmt: skip
_of = append_in_transaction
txn_offset_appended = Table(
    group,
    on=_of,
    rows=(
        Row(
            "pending",
            set={
                pending[_of.producer_id]: some(
                    PendingOffset(offset=_of.offset, appended=some(_of.appended))
                )
            },
            source="GroupMetadata.onTxnOffsetCommitAppend, OffsetMetadataManager.replay",
        ),
    ),
)

refuse = event(
    "offset of a transaction refused", producer_id=PRODUCER_ID,
    event_doc="The leader didn't take the batch that it is in.",
)  # fmt: skip
txn_offset_refused = Table(
    group,
    on=refuse,
    rows=(
        Row(
            "not in the log",
            set=not_appended(refuse.producer_id),
            source="GroupMetadata.failPendingTxnOffsetCommit",
        ),
    ),
)

end = event(
    "transaction ended", producer_id=PRODUCER_ID, result=Result, heard=Heard,
    event_doc="Its marker is in the log of the group's offsets.",
)  # fmt: skip
transaction_ended = Table(
    group,
    on=end,
    rows=(
        Row(
            "read from the log",
            when=end.heard == Heard.READ,
            set=completed(end.producer_id, end.result == Result.COMMIT),
            source="GroupMetadataManager.doLoadGroupsAndOffsets, "
            "OffsetMetadataManager.replayEndTransactionMarker",
        ),
        *only(
            ~completed_by_scheduler,
            Row(
                "its group isn't there yet",
                when=end.heard == Heard.WHILE_LOADING,
                source="GroupMetadataManager.handleTxnCompletion before KAFKA-6917",
            ),
        ),
        Row(
            "as its marker says",
            set=ended(end.producer_id, end.result, lift(True)),
            source="GroupMetadata.completePendingTxnOffsetCommit, "
            "OffsetMetadataManager.replayEndTransactionMarker",
        ),
    ),
)

MEMBERS_TABLES = (offset_commit, txn_offset_commit, delete_group)
OFFSETS_TABLES = (
    offset_fetch, offset_appended, txn_offset_appended, txn_offset_refused, transaction_ended,
    offsets_completed,
)  # fmt: skip
