"""The poll loop of an instance: fetch the group's offset, process a record, commit both.

The instance's producer is that of the system `transactions`. The change `poll_loop` says when the
loop makes each of its calls, and the effects of calls and responses on the consumer.
"""

from __future__ import annotations

import dataclasses

from ....language import Row, Table, event, if_, set_of, some
from ....language.changes import Change
from ...client import producer as requests
from ...client.batches.accumulator import drain, drained
from ...client.calls import calls_at_once
from ...client.calls.application import begin_transaction
from ...client.calls.calls import call_offsets, call_send
from ...client.state import (
    ABORTABLE_ERROR,
    ACKNOWLEDGED,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    READY,
    added,
    adding,
    batches,
    producer_epoch,
    producer_id,
    state,
    txn,
)
from ...client.transactions import add_partitions, end_txn
from ...client.transactions.add_partitions import added_to_transaction
from ...client.transactions.answers import is_abortable
from ...client.transactions.transaction_manager import TO_ABORTABLE
from ...errors import Errors, asks_again, is_retriable
from ...messages import AddPartitionsToTxnResponse, connection, moved, producer
from ...releases.features import offsets_name_members, offsets_retried_by_kind
from ...releases.group_features import load_error_retried, members_fenced, stable_offsets
from ..state import (
    INPUTS,
    OFFSETS,
    OUTPUT,
    MemberError,
    OffsetsState,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    committed,
    consumer,
    generation,
    group,
    heard,
    is_assigned,
    is_unstable,
    offsets,
    position,
    processed,
    processed_in,
    processing,
)

instance = producer.this

# The position ---------------------------------------------------------------------------------

fetch = event("OffsetFetch")
fetches = Table(
    consumer,
    on=fetch,
    others=(group, producer),
    when=is_assigned
    & ~position.is_set
    & (state.at(consumer.this) == READY)
    & ~(stable_offsets & is_unstable),
    doc="UNSTABLE_OFFSET_COMMIT is retriable: the instance asks until no transaction has an offset "
    "pending.",
    rows=(
        Row(
            "no-offset",
            "There is no offset: the instance begins at the first record",
            when=~committed.is_set,
            set={position: some(0)},
            source="ConsumerConfig, auto.offset.reset=earliest",
        ),
        Row(
            "committed",
            "The instance begins at the committed offset",
            set={position: some(committed.value.offset)},
            source="OffsetMetadataManager.fetchOffsets, GroupMetadataManager.getOffsets",
        ),
    ),
)

# A transaction --------------------------------------------------------------------------------

begun = begin_transaction.txn
txn_offset_commit = TxnOffsetCommit(
    producer=instance,
    partition=OFFSETS,
    connection=connection,
    producer_id=producer_id,
    producer_epoch=producer_epoch,
    generation=if_(members_fenced, heard.at(instance), 0),
    txn=txn.value,
)
"""The request, which names the member's generation from 2.5 on."""
is_offsets_partition = AddPartitionsToTxnResponse.partition == OFFSETS
next_position = if_(state == COMMITTING, some(position.at(instance).value + 1), None)

poll_loop = (
    Change(
        "poll loop",
        "An instance processes its input in transactions.",
        machines=(consumer, processing, group),
    )
    .table("producer.initTransactions")
    .only_when(is_assigned.at(instance))
    .table("producer.beginTransaction")
    .only_when(
        is_assigned.at(instance)
        & position.at(instance).is_set
        & (position.at(instance).value < INPUTS)
    )
    .also(
        "begin",
        set={
            processed.at(begun): position.at(instance).value,
            processed_in.at(begun): heard.at(instance),
            offsets.at(instance): OffsetsState.NONE,
        },
    )
    .table("producer.send")
    .only_when(call_send.partition == OUTPUT)
    .table("producer.drain")
    .only_when(drain.partition == OUTPUT)
    .table("producer.sendOffsetsToTransaction")
    .only_when(
        (state == IN_TRANSACTION)
        & txn.is_set
        & (offsets.at(instance) == OffsetsState.NONE)
        & ~OFFSETS.is_in(adding)
        & (adding == set_of())
        & call_offsets.names_group
        & ~call_offsets.lacks_member
    )
    .also(
        "commit-offsets",
        set={
            offsets.at(instance): OffsetsState.COMMITTING,
            added: added | set_of(OFFSETS),
        },
        send=(txn_offset_commit,),
    )
    .also(
        "add-offsets",
        set={
            offsets.at(instance): OffsetsState.NONE,
            adding: adding | set_of(OFFSETS),
        },
        send=(add_partitions.add(OFFSETS, connection),),
    )
    .table("producer.AddPartitionsToTxnResponse")
    .also(
        "added",
        set={
            offsets.at(instance): if_(
                is_offsets_partition, OffsetsState.COMMITTING, offsets.at(instance)
            )
        },
        send=(dataclasses.replace(txn_offset_commit, when=is_offsets_partition),),
    )
    .table("producer.commitTransaction")
    .only_when(
        (batches[OUTPUT][0].status == ACKNOWLEDGED)
        & (offsets.at(instance) == OffsetsState.COMMITTED)
    )
    .table("producer.abortTransaction")
    .only_when(offsets.at(instance) != OffsetsState.COMMITTING)
    .also(
        "nothing-to-abort",
        "nothing-to-abort-bump",
        set={position.at(instance): None, offsets.at(instance): OffsetsState.NONE},
    )
    .table("producer.EndTxnResponse")
    .also(
        "ended",
        "ended-new-epoch",
        set={position.at(instance): next_position, offsets.at(instance): OffsetsState.NONE},
    )
    .also(
        "invalid-transition",
        "abort-failed",
        "abort-failed-bump",
        set={position.at(instance): None, offsets.at(instance): OffsetsState.NONE},
    )
    .table("producer.crash")
    .also(
        "crashed",
        set={
            is_assigned.at(instance): False,
            heard.at(instance): generation,
            position.at(instance): None,
            offsets.at(instance): OffsetsState.NONE,
        },
    )
)

# TxnOffsetCommit is answered ------------------------------------------------------------------

offset_error = TxnOffsetCommitResponse.error
txn_offset_committed = Table(
    producer,
    on=TxnOffsetCommitResponse,
    others=(consumer,),
    rows=(
        Row(
            "closed-connection",
            "The request came on a connection that is closed",
            when=TxnOffsetCommitResponse.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "failed-before",
            "The client has failed for good before",
            when=state == FATAL_ERROR,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "not-retried",
            "In an error state the request isn't sent again",
            when=asks_again(offset_error, *moved, by_kind=offsets_retried_by_kind)
            & state.is_in(ABORTABLE_ERROR, FATAL_ERROR),
            set={adding: set_of(), offsets.at(instance): OffsetsState.NONE},
            source="TransactionManager.maybeTerminateRequestWithError",
        ),
        Row(
            "committed",
            "The offset is in the transaction",
            when=offset_error == Errors.NONE,
            set={offsets.at(instance): OffsetsState.COMMITTED},
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "coordinator-moved",
            "The coordinator is looked up, then asked again",
            when=offset_error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
            send=(txn_offset_commit,),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "retry",
            "A retriable error: the coordinator is asked again",
            when=if_(
                offsets_retried_by_kind,
                is_retriable(offset_error),
                load_error_retried & (offset_error == Errors.COORDINATOR_LOAD_IN_PROGRESS),
            ),
            send=(txn_offset_commit,),
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "abortable",
            "The transaction can only be aborted",
            when=is_abortable(offset_error),
            goto=TO_ABORTABLE,
            set={offsets.at(instance): OffsetsState.NONE},
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-890",
        ),
        Row(
            "not-a-member",
            "The consumer is no longer a member of the group",
            during=offsets_name_members,
            when=TxnOffsetCommitResponse.member_error != MemberError.NONE,
            goto=TO_ABORTABLE,
            set={offsets.at(instance): OffsetsState.NONE},
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-447",
        ),
        Row(
            "fenced",
            "Another client has a newer epoch",
            when=offset_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
            goto=FATAL_ERROR,
            set={offsets.at(instance): OffsetsState.NONE},
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
        Row(
            "unexpected",
            "Any other error is fatal",
            goto=FATAL_ERROR,
            set={offsets.at(instance): OffsetsState.NONE},
            source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
        ),
    ),
)

CALLS = (
    calls_at_once.initialize,
    calls_at_once.begin,
    calls_at_once.send,
    drained,
    calls_at_once.send_offsets,
    added_to_transaction,
    txn_offset_committed,
    calls_at_once.commit,
    calls_at_once.abort,
    end_txn.ended,
    requests.crashed,
)
"""The tables of the instance's producer, without the change `poll_loop`."""
TABLES = (fetches, *CALLS)
