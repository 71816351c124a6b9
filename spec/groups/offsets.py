"""Offsets that transactions commit, at the group's coordinator: GroupCoordinator with its
GroupMetadataManager, from 4.0 on GroupCoordinatorService with its OffsetMetadataManager.

An offset is *pending* from when its record is in the log until a marker ends its transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...language import (
    Expression,
    Row,
    Sending,
    Table,
    append,
    event,
    first,
    if_,
    lift,
    only,
    size,
    some,
    updated,
    without_first,
)
from ...language.expressions import Operand
from ..errors import Errors
from ..leader.markers import write_markers
from ..leader.produce import DataBatch, Question, append_rows, asking_rows
from ..leader.state import has_ongoing_transaction, log_end_offset, orphaned, unguarded
from ..leader.verification import asks_about_offsets, refusals, verified
from ..messages import (
    NO_NUMBER,
    AddPartitionsByLeaderResponse,
    Result,
    WriteTxnMarkers,
    answer_on,
    clock,
    connection,
    partition,
    producer,
    waiting,
)
from ..releases.features import followers_only_warn, offset_errors_unchanged
from ..releases.group_features import (
    completed_by_scheduler,
    load_error_known,
    load_error_spared,
    members_fenced,
    offsets_in_place_first,
    offsets_staged_last,
    refused_offset_harmless,
)
from .joined import apart, joined
from .state import (
    OFFSETS,
    Completion,
    MemberError,
    PendingOffset,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    Verified,
    committed,
    completions,
    generation,
    group,
    members,
    offset_of,
    pending,
    processing,
    verifying,
)

_GROUP = "GroupCoordinator.validateOffsetCommit, ConsumerGroup.validateOffsetCommit"
_COMPLETED = "GroupMetadata.completePendingTxnOffsetCommit"
_FAILED = "GroupMetadata.failPendingTxnOffsetCommit"


def answer(
    to: Expression, asked_on: Expression, error: Expression, of_member: Operand = MemberError.NONE
) -> Sending:
    """The answer to a client, where it still waits for one.

    GroupMetadataManager.maybeConvertOffsetCommitError, KafkaApis.handleTxnOffsetCommitRequest
    """
    is_unknown = load_error_spared & ~load_error_known
    of_client = if_(
        (error == Errors.NOT_ENOUGH_REPLICAS)
        | (is_unknown & (error == Errors.COORDINATOR_LOAD_IN_PROGRESS)),
        Errors.COORDINATOR_NOT_AVAILABLE, error,
    )  # fmt: skip
    return answer_on(
        connection.at(to), TxnOffsetCommitResponse, asked_on, producer=to, partition=OFFSETS,
        error=of_client, member_error=of_member,
    )  # fmt: skip


def _refused_members(
    member: Expression, named: Expression, asked_on: Expression, when: Expression,
    updates: Mapping[Expression, Operand],
) -> tuple[Row, ...]:  # fmt: skip
    """The rows for who is no member of this generation."""

    def refused(name: str, wrong: Expression, error: str) -> Row:
        of_member = getattr(MemberError, error)
        refusal = answer(member, asked_on, Errors.UNKNOWN_SERVER_ERROR, of_member)
        return Row(name, when=when & wrong, set=updates, reply=refusal, source=_GROUP)

    return only(
        members_fenced,
        refused("unknown member", ~member.is_in(members), "UNKNOWN_MEMBER_ID"),
        refused("another generation", named != generation, "ILLEGAL_GENERATION"),
    )


def _stored(
    producer_id: Expression, txn: Expression, staged: Expression
) -> dict[Expression, Operand]:
    """The updates after an append: the offset is pending. One that is `staged` was pending before,
    unless a marker has dropped it since.

    OffsetMetadataManager.replay, GroupMetadata.onTxnOffsetCommitAppend
    """
    before = pending[producer_id]
    new = some(PendingOffset(offset=offset_of(txn), appended=some(log_end_offset)))
    same = before.is_set & (before.value.offset == offset_of(txn))
    return {before: if_(staged, if_(same, new, before), new)}


def not_appended(producer_id: Expression) -> dict[Expression, Operand]:
    """The updates after a refused append. Another pending offset may have taken its place.

    GroupMetadata.prepareTxnOffsetCommit, failPendingTxnOffsetCommit
    """
    before = pending[producer_id]
    return {before: if_(refused_offset_harmless, before, None)}


_NO_SEQUENCE = lift(NO_NUMBER)


def _batch(producer_id: Expression, epoch: Expression, txn: Expression) -> DataBatch:
    """The batch of an offset, as the coordinator has the log's leader append it."""
    return DataBatch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=_NO_SEQUENCE,
        last_sequence=_NO_SEQUENCE, transactional=lift(True), record=lift(0), txn=txn,
        from_client=lift(False), epoch_counts=lift(followers_only_warn), may_repeat=lift(False),
    )  # fmt: skip


# TxnOffsetCommit -----------------------------------------------------------------------------

_request = TxnOffsetCommit
_id, _epoch, _member = _request.producer_id, _request.producer_epoch, _request.producer
_asks_first = asks_about_offsets & ~has_ongoing_transaction(_id, _epoch)
_staged = asks_about_offsets & ~offsets_staged_last


def _at_once(error: Expression, _: Operand = None) -> Sending:
    return answer(_member, _request.connection, error)


_asked: dict[Expression, Operand] = {
    verifying[_member]: some(
        Verified(generation=_request.generation, connection=_request.connection)
    ),
    pending[_id]: if_(
        _staged, some(PendingOffset(offset=offset_of(_request.txn), appended=None)), pending[_id]
    ),
}
txn_offset_commit = Table(
    partition,
    on=_request,
    others=(group, producer, processing, clock),
    bounded_when=~(_asks_first & (waiting[_member].is_set | _member.is_in(orphaned))),
    doc="The coordinator is asked first about a transaction that the log doesn't have. From 2.5 on "
    "the request names the member and its generation.",
    rows=(
        *_refused_members(
            _member,
            _request.generation,
            _request.connection,
            ~_asks_first | _staged,
            {},
        ),
        *only(
            asks_about_offsets,
            *asking_rows(
                _request,
                asks_first=_asks_first,
                sequence=_NO_SEQUENCE,
                record=0,
                answer=_at_once,
                asked=_asked,
            ),
        ),
        *append_rows(
            _batch(_id, _epoch, _request.txn),
            _at_once,
            settled=not_appended(_id),
            left_waiting=unguarded(_id),
            stored=_stored(_id, _request.txn, lift(False)),
        ),
    ),
)

# The coordinator's word on the transaction -------------------------------------------------------

_verified = AddPartitionsByLeaderResponse
_waiting = waiting[_verified.producer]
_asker = verifying[_verified.producer].value
_its_id, _its_epoch = _waiting.value.producer_id, _waiting.value.producer_epoch
_settled: dict[Expression, Operand] = {_waiting: None, verifying[_verified.producer]: None}
_given_up: dict[Expression, Operand] = {
    **_settled,
    # nothing else may be pending for the producer id meanwhile
    pending[_its_id]: if_(_staged, None, pending[_its_id]),
}


def _later(error: Expression, _: Operand = None) -> Sending:
    return answer(_verified.producer, _asker.connection, error)


_rows = only(
    asks_about_offsets,
    *(
        check._replace(source=f"{check.source}, {_FAILED}").refuse(
            _later(check.error), changes=_given_up
        )
        for check in refusals(_verified.error, lift(~offset_errors_unchanged))
    ),
    *_refused_members(
        _verified.producer,
        _asker.generation,
        _asker.connection,
        ~_staged,
        _settled,
    ),
    *append_rows(
        replace(
            _batch(_its_id, _its_epoch, _waiting.value.txn),
            question=Question(
                ~has_ongoing_transaction(_its_id, _its_epoch), _waiting.value.guarded
            ),
            waited=True,
        ),
        _later,
        settled=_settled | not_appended(_its_id),
        left_waiting=updated(unguarded(_its_id), _verified.producer, None),
        stored=_stored(_its_id, _waiting.value.txn, _staged),
    ),
)
_joined: list[Table] = []
_joined.append(
    joined(
        verified,
        group,
        processing,
        before=apart(
            "offset", (_verified.partition == OFFSETS) & ~_verified.producer.is_in(orphaned), _rows
        ),
    )
)

# Markers -------------------------------------------------------------------------------------


def is_newer(appended: Expression) -> Expression:
    """Whether the record there in the log comes after the committed one."""
    return ~committed.is_set | (committed.value.appended.value < appended)


def completed_offset(producer_id: Expression, commits: Expression) -> Expression:
    """The committed offset once a transaction has ended: the pending one if it `commits`, unless an
    offset further in the log is committed. What isn't in the log is lost (IllegalStateException).

    GroupMetadata.completePendingTxnOffsetCommit
    """
    offset = pending[producer_id]
    is_committed = (
        commits
        & offset.is_set
        & offset.value.appended.is_set
        & is_newer(offset.value.appended.value)
    )
    return if_(is_committed, offset, committed)


completed_later = completed_by_scheduler & ~offsets_in_place_first
"""Whether a thread of the scheduler completes a transaction's offsets, after its marker."""


by_marker = WriteTxnMarkers.partition == OFFSETS
completed_now = by_marker & ~completed_later
marker_effects: dict[Expression, Operand] = {
    pending[WriteTxnMarkers.producer_id]: if_(
        completed_now, None, pending[WriteTxnMarkers.producer_id]
    ),
    committed: if_(
        completed_now,
        completed_offset(WriteTxnMarkers.producer_id, WriteTxnMarkers.result == Result.COMMIT),
        committed,
    ),
    completions: if_(
        by_marker & completed_later,
        append(
            completions,
            Completion(producer_id=WriteTxnMarkers.producer_id, result=WriteTxnMarkers.result),
        ),
        completions,
    ),
}
_joined.append(
    joined(
        write_markers,
        group,
        updates={row.id: marker_effects for row in write_markers.rows if log_end_offset in row.set},
    )
)

complete = event(
    "complete pending offsets", event_doc="The thread for a marker's offsets is at work."
)
completion = first(completions).value
offsets_completed = Table(
    group,
    on=complete,
    when=size(completions) > 0,
    rows=(
        Row(
            "completed",
            "The pending offset is committed or dropped",
            set={
                pending[completion.producer_id]: None,
                committed: completed_offset(
                    completion.producer_id, completion.result == Result.COMMIT
                ),
                completions: without_first(completions),
            },
            during=completed_later,
            source="GroupMetadataManager.handleTxnCompletion before 3.9.1",
        ),
    ),
)

TABLES = (txn_offset_commit, offsets_completed, *_joined)
