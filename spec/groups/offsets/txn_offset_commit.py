"""TxnOffsetCommit at the leader of the group's offsets, which coordinates the group.

GroupCoordinator with its GroupMetadataManager, from 4.0 on GroupCoordinatorService with its
OffsetMetadataManager. An offset is *pending* from the append of its record until a marker ends its
transaction. The leader appends it as a batch without sequences.
"""

from __future__ import annotations

from ....language import (
    Expression,
    Row,
    Sending,
    Table,
    append,
    event,
    first,
    if_,
    push,
    sequence_of,
    size,
    some,
    updated,
    without_first,
)
from ....language.changes import Change
from ....language.expressions import Operand
from ...errors import Errors
from ...leader.markers import write_markers
from ...leader.state import (
    BatchMetadata,
    Kind,
    LogEntry,
    ProducerStateEntry,
    has_ongoing_transaction,
    log,
    log_end_offset,
    orphaned,
    producers,
    unguarded,
    verification_state_entry,
    verification_states,
)
from ...leader.verification import asks_about_offsets, verified
from ...messages import (
    NO_NUMBER,
    NO_TIMESTAMP,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Batch,
    Result,
    WriteTxnMarkers,
    answer_on,
    clock,
    connection,
    moved,
    partition,
    producer,
    waiting,
)
from ...releases.features import (
    batches_kept,
    followers_only_warn,
    offset_errors_unchanged,
    ongoing_by_epoch,
    stale_answer_first,
    stale_epoch_first,
    transaction_version_2,
    verification,
)
from ...releases.group_features import (
    completed_by_scheduler,
    load_error_known,
    load_error_spared,
    members_fenced,
    offsets_in_place_first,
    offsets_staged_last,
    refused_offset_harmless,
)
from ..state import (
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


def txn_offset_commit_response(
    to: Expression,
    asked_on: Expression,
    error: Expression,
    member_error: Operand = MemberError.NONE,
) -> Sending:
    """The response to a client, if its connection is still open.

    GroupMetadataManager.maybeConvertOffsetCommitError, KafkaApis.handleTxnOffsetCommitRequest
    """
    is_unknown_to_clients = (
        load_error_spared & ~load_error_known & (error == Errors.COORDINATOR_LOAD_IN_PROGRESS)
    )
    converted = if_(
        (error == Errors.NOT_ENOUGH_REPLICAS) | is_unknown_to_clients,
        Errors.COORDINATOR_NOT_AVAILABLE,
        error,
    )
    return answer_on(
        connection.at(to),
        TxnOffsetCommitResponse,
        asked_on,
        producer=to,
        partition=OFFSETS,
        error=converted,
        member_error=member_error,
    )


# TxnOffsetCommit -----------------------------------------------------------------------------

pends_while_asking = asks_about_offsets & ~offsets_staged_last
"""Whether an offset is pending while the coordinator is asked about its transaction."""
asks_first = asks_about_offsets & ~has_ongoing_transaction(
    TxnOffsetCommit.producer_id, TxnOffsetCommit.producer_epoch
)
request_entry = producers[TxnOffsetCommit.producer_id]
request_metadata = BatchMetadata(
    last_sequence=NO_NUMBER,
    last_offset=log_end_offset,
    offset_delta=0,
    timestamp=NO_TIMESTAMP,
)
txn_offset_commit = Table(
    partition,
    on=TxnOffsetCommit,
    others=(group, producer, processing, clock),
    doc="The coordinator is asked first about a transaction that the log doesn't have. From 2.5 on "
    "the request names the member and its generation.",
    rows=(
        Row(
            "unknown-member",
            "The group has no such member",
            when=(~asks_first | pends_while_asking) & ~TxnOffsetCommit.producer.is_in(members),
            reply=txn_offset_commit_response(
                TxnOffsetCommit.producer,
                TxnOffsetCommit.connection,
                Errors.UNKNOWN_SERVER_ERROR,
                MemberError.UNKNOWN_MEMBER_ID,
            ),
            during=members_fenced,
            source="GroupCoordinator.validateOffsetCommit, ConsumerGroup.validateOffsetCommit",
        ),
        Row(
            "illegal-generation",
            "The request names another generation",
            when=(~asks_first | pends_while_asking) & (TxnOffsetCommit.generation != generation),
            reply=txn_offset_commit_response(
                TxnOffsetCommit.producer,
                TxnOffsetCommit.connection,
                Errors.UNKNOWN_SERVER_ERROR,
                MemberError.ILLEGAL_GENERATION,
            ),
            during=members_fenced,
            source="GroupCoordinator.validateOffsetCommit, ConsumerGroup.validateOffsetCommit",
        ),
        Row(
            "stale-epoch-before-asking",
            "The leader knows a newer epoch, and doesn't ask",
            when=asks_first & (TxnOffsetCommit.producer_epoch < request_entry.producer_epoch),
            reply=txn_offset_commit_response(
                TxnOffsetCommit.producer,
                TxnOffsetCommit.connection,
                Errors.INVALID_PRODUCER_EPOCH,
            ),
            during=stale_epoch_first & asks_about_offsets,
            source="KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "ask",
            "The transaction's coordinator is asked whether the transaction has the partition",
            when=asks_first,
            set={
                verification_states[TxnOffsetCommit.producer_id]: some(
                    verification_state_entry(
                        TxnOffsetCommit.producer_id, TxnOffsetCommit.producer_epoch, NO_NUMBER
                    )
                ),
                waiting[TxnOffsetCommit.producer]: some(
                    Batch(
                        producer_id=TxnOffsetCommit.producer_id,
                        producer_epoch=TxnOffsetCommit.producer_epoch,
                        base_sequence=NO_NUMBER,
                        record=0,
                        txn=TxnOffsetCommit.txn,
                        guarded=True,
                    )
                ),
                verifying[TxnOffsetCommit.producer]: some(
                    Verified(
                        generation=TxnOffsetCommit.generation,
                        connection=TxnOffsetCommit.connection,
                    )
                ),
                pending[TxnOffsetCommit.producer_id]: if_(
                    pends_while_asking,
                    some(PendingOffset(offset=offset_of(TxnOffsetCommit.txn), appended=None)),
                    pending[TxnOffsetCommit.producer_id],
                ),
            },
            send=(
                AddPartitionsByLeader(
                    partition=TxnOffsetCommit.partition,
                    producer=TxnOffsetCommit.producer,
                    producer_id=TxnOffsetCommit.producer_id,
                    producer_epoch=TxnOffsetCommit.producer_epoch,
                ),
            ),
            during=asks_about_offsets,
            source="KIP-890, ReplicaManager.maybeSendPartitionsToTransactionCoordinator",
        ),
        Row(
            "stale-epoch",
            "The leader knows a newer epoch, and refuses the batch",
            when=followers_only_warn
            & (TxnOffsetCommit.producer_epoch < request_entry.producer_epoch),
            set={
                pending[TxnOffsetCommit.producer_id]: if_(
                    refused_offset_harmless, pending[TxnOffsetCommit.producer_id], None
                )
            },
            reply=txn_offset_commit_response(
                TxnOffsetCommit.producer,
                TxnOffsetCommit.connection,
                Errors.INVALID_PRODUCER_EPOCH,
            ),
            source="ProducerAppendInfo.checkProducerEpoch, "
            "GroupMetadata.failPendingTxnOffsetCommit",
        ),
        Row(
            "append",
            "The offset is in the log, and pending",
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=TxnOffsetCommit.producer_id,
                        producer_epoch=TxnOffsetCommit.producer_epoch,
                        idempotent_only=False,
                        record=0,
                        txn=TxnOffsetCommit.txn,
                    ),
                ),
                log_end_offset: log_end_offset + 1,
                request_entry: ProducerStateEntry(
                    producer_epoch=TxnOffsetCommit.producer_epoch,
                    batch_metadata=if_(
                        (TxnOffsetCommit.producer_epoch != request_entry.producer_epoch)
                        | ~batches_kept,
                        sequence_of(request_metadata),
                        push(request_entry.batch_metadata, request_metadata),
                    ),
                    coordinator_epoch=request_entry.coordinator_epoch,
                    current_txn_first_offset=if_(
                        request_entry.current_txn_first_offset.is_set,
                        request_entry.current_txn_first_offset,
                        some(log_end_offset),
                    ),
                    last_timestamp=NO_TIMESTAMP,
                ),
                verification_states[TxnOffsetCommit.producer_id]: None,
                waiting: unguarded(TxnOffsetCommit.producer_id),
                pending[TxnOffsetCommit.producer_id]: some(
                    PendingOffset(
                        offset=offset_of(TxnOffsetCommit.txn), appended=some(log_end_offset)
                    )
                ),
            },
            reply=txn_offset_commit_response(
                TxnOffsetCommit.producer, TxnOffsetCommit.connection, Errors.NONE
            ),
            source="ProducerAppendInfo.appendDataBatch, GroupMetadata.onTxnOffsetCommitAppend, "
            "OffsetMetadataManager.replay",
        ),
    ),
)

# The coordinator's answer about the transaction ---------------------------------------------------

answer = AddPartitionsByLeaderResponse
batch = waiting[answer.producer].value
asker = verifying[answer.producer].value
is_about_offset = (answer.partition == OFFSETS) & ~answer.producer.is_in(orphaned)
is_first = ~has_ongoing_transaction(batch.producer_id, batch.producer_epoch)
answer_entry = producers[batch.producer_id]
answer_metadata = BatchMetadata(
    last_sequence=NO_NUMBER,
    last_offset=log_end_offset,
    offset_delta=0,
    timestamp=NO_TIMESTAMP,
)
appended_offset = PendingOffset(offset=offset_of(batch.txn), appended=some(log_end_offset))
is_same_offset = pending[batch.producer_id].is_set & (
    pending[batch.producer_id].value.offset == offset_of(batch.txn)
)
dropped_if_pending_while_asking = if_(pends_while_asking, None, pending[batch.producer_id])
dropped_before_4_0 = if_(refused_offset_harmless, pending[batch.producer_id], None)

verified_offset = Table(
    partition,
    on=answer,
    others=(producer, group, processing),
    rows=(
        Row(
            "offset-producer-fenced",
            "The coordinator knows a newer epoch of the producer",
            when=is_about_offset & (answer.error == Errors.PRODUCER_FENCED),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_if_pending_while_asking,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.INVALID_PRODUCER_EPOCH
            ),
            during=asks_about_offsets,
            source="AddPartitionsToTxnManager, GroupMetadata.failPendingTxnOffsetCommit",
        ),
        Row(
            "offset-coordinator-busy",
            "The coordinator is completing the previous transaction",
            when=is_about_offset
            & ~offset_errors_unchanged
            & (answer.error == Errors.CONCURRENT_TRANSACTIONS),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_if_pending_while_asking,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.NOT_ENOUGH_REPLICAS
            ),
            during=~transaction_version_2 & asks_about_offsets,
            source="ReplicaManager.handleProduceAppend, GroupMetadata.failPendingTxnOffsetCommit",
        ),
        Row(
            "offset-coordinator-moved",
            "The broker that was asked doesn't coordinate the transaction",
            when=is_about_offset & ~offset_errors_unchanged & answer.error.is_in(*moved),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_if_pending_while_asking,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.NOT_ENOUGH_REPLICAS
            ),
            during=asks_about_offsets,
            source="ReplicaManager.handleProduceAppend, GroupMetadata.failPendingTxnOffsetCommit",
        ),
        Row(
            "offset-refused",
            "The coordinator refuses for another reason",
            when=is_about_offset & (answer.error != Errors.NONE),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_if_pending_while_asking,
            },
            reply=txn_offset_commit_response(answer.producer, asker.connection, answer.error),
            during=asks_about_offsets,
            source="ReplicaManager.handleProduceAppend, GroupMetadata.failPendingTxnOffsetCommit",
        ),
        Row(
            "offset-unknown-member",
            "The member has left the group meanwhile",
            when=is_about_offset & ~pends_while_asking & ~answer.producer.is_in(members),
            set={waiting[answer.producer]: None, verifying[answer.producer]: None},
            reply=txn_offset_commit_response(
                answer.producer,
                asker.connection,
                Errors.UNKNOWN_SERVER_ERROR,
                MemberError.UNKNOWN_MEMBER_ID,
            ),
            during=members_fenced & asks_about_offsets,
            source="GroupCoordinator.validateOffsetCommit, ConsumerGroup.validateOffsetCommit",
        ),
        Row(
            "offset-illegal-generation",
            "Another generation has begun meanwhile",
            when=is_about_offset & ~pends_while_asking & (asker.generation != generation),
            set={waiting[answer.producer]: None, verifying[answer.producer]: None},
            reply=txn_offset_commit_response(
                answer.producer,
                asker.connection,
                Errors.UNKNOWN_SERVER_ERROR,
                MemberError.ILLEGAL_GENERATION,
            ),
            during=members_fenced & asks_about_offsets,
            source="GroupCoordinator.validateOffsetCommit, ConsumerGroup.validateOffsetCommit",
        ),
        Row(
            "offset-stale-epoch-of-first",
            "The leader has seen a newer epoch since it asked",
            when=is_about_offset & is_first & (batch.producer_epoch < answer_entry.producer_epoch),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_before_4_0,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.INVALID_PRODUCER_EPOCH
            ),
            during=(stale_epoch_first | stale_answer_first) & asks_about_offsets,
            source="KAFKA-19690, UnifiedLog.analyzeAndValidateProducerState",
        ),
        Row(
            "offset-guard-changed",
            "A marker or an append has ended the verification meanwhile",
            when=is_about_offset & is_first & ~batch.guarded,
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_before_4_0,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.INVALID_TXN_STATE
            ),
            during=verification & asks_about_offsets,
            source="UnifiedLog.analyzeAndValidateProducerState",
        ),
        Row(
            "offset-stale-epoch",
            "The leader knows a newer epoch, and refuses the batch",
            when=is_about_offset
            & followers_only_warn
            & (batch.producer_epoch < answer_entry.producer_epoch),
            set={
                waiting[answer.producer]: None,
                verifying[answer.producer]: None,
                pending[batch.producer_id]: dropped_before_4_0,
            },
            reply=txn_offset_commit_response(
                answer.producer, asker.connection, Errors.INVALID_PRODUCER_EPOCH
            ),
            # from 4.1 on the rows above refuse it
            during=~(stale_epoch_first & ongoing_by_epoch) & asks_about_offsets,
            source="ProducerAppendInfo.checkProducerEpoch",
        ),
        Row(
            "offset-append",
            "The offset is in the log, and pending",
            when=is_about_offset,
            set={
                log: append(
                    log,
                    LogEntry(
                        kind=Kind.DATA,
                        producer_id=batch.producer_id,
                        producer_epoch=batch.producer_epoch,
                        idempotent_only=False,
                        record=0,
                        txn=batch.txn,
                    ),
                ),
                log_end_offset: log_end_offset + 1,
                answer_entry: ProducerStateEntry(
                    producer_epoch=batch.producer_epoch,
                    batch_metadata=if_(
                        (batch.producer_epoch != answer_entry.producer_epoch) | ~batches_kept,
                        sequence_of(answer_metadata),
                        push(answer_entry.batch_metadata, answer_metadata),
                    ),
                    coordinator_epoch=answer_entry.coordinator_epoch,
                    current_txn_first_offset=if_(
                        answer_entry.current_txn_first_offset.is_set,
                        answer_entry.current_txn_first_offset,
                        some(log_end_offset),
                    ),
                    last_timestamp=NO_TIMESTAMP,
                ),
                verification_states[batch.producer_id]: None,
                waiting: updated(unguarded(batch.producer_id), answer.producer, None),
                pending[batch.producer_id]: if_(
                    pends_while_asking,
                    # a marker may have dropped it meanwhile
                    if_(is_same_offset, some(appended_offset), pending[batch.producer_id]),
                    some(appended_offset),
                ),
            },
            reply=txn_offset_commit_response(answer.producer, asker.connection, Errors.NONE),
            during=asks_about_offsets,
            source="ProducerAppendInfo.appendDataBatch, GroupMetadata.onTxnOffsetCommitAppend, "
            "OffsetMetadataManager.replay",
        ),
        # a batch of data: another partition's leader, whose callback is ReplicaManager's
        *verified.rows,
    ),
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
group_coordinator = (
    Change(
        "group coordinator",
        "The leader of the group's offsets coordinates the group.",
        machines=(group,),
    )
    .table("partition.WriteTxnMarkers")
    .also(
        "end-transaction",
        "end-deleted-transaction",
        "empty-transaction",
        "no-transaction",
        set={
            pending[WriteTxnMarkers.producer_id]: if_(
                completed_now, None, pending[WriteTxnMarkers.producer_id]
            ),
            committed: if_(
                completed_now,
                completed_offset(
                    WriteTxnMarkers.producer_id, WriteTxnMarkers.result == Result.COMMIT
                ),
                committed,
            ),
            completions: if_(
                by_marker & completed_later,
                append(
                    completions,
                    Completion(
                        producer_id=WriteTxnMarkers.producer_id, result=WriteTxnMarkers.result
                    ),
                ),
                completions,
            ),
        },
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

TABLES = (txn_offset_commit, offsets_completed, verified_offset, write_markers)
