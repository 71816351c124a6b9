"""The loop of an instance: fetch the group's offset, process a record, commit output and offset."""

from __future__ import annotations

from ...language import Expression, Row, Sending, Table, each, event, if_, set_of, some
from ...language.expressions import Operand
from ..client import add_partitions, calls_at_once, end_txn
from ..client import producer as requests
from ..client.accumulator import drain, drained
from ..client.add_partitions import added_to_transaction
from ..client.answers import is_abortable
from ..client.application import begin_transaction
from ..client.calls import call_offsets, call_send
from ..client.state import (
    ABORTABLE_ERROR,
    ACKNOWLEDGED,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    READY,
    added,
    adding,
    batches,
    bump_asked,
    bump_for,
    ending,
    forgotten_batches,
    producer_epoch,
    producer_id,
    q,
    state,
    txn,
    unresolved,
)
from ..client.transaction_manager import TO_ABORTABLE
from ..errors import Errors, asks_again, is_retriable
from ..messages import connection, moved, producer
from ..releases.features import offsets_name_members, offsets_retried_by_kind
from ..releases.group_features import load_error_retried, members_fenced, stable_offsets
from .joined import joined
from .state import (
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

_LOOP = "KafkaProducer.sendOffsetsToTransaction, KIP-447"
_me = producer.this
_offsets, _position = offsets.at(_me), position.at(_me)
_NONE, _COMMITTING, _COMMITTED = (
    OffsetsState.NONE, OffsetsState.COMMITTING, OffsetsState.COMMITTED,
)  # fmt: skip

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
    doc="The instance asks until no transaction has an offset pending: UNSTABLE_OFFSET_COMMIT is "
    "retriable.",
    rows=(
        Row(
            "no offset: from the first record",
            when=~committed.is_set,
            set={position: some(0)},
            source="ConsumerConfig, auto.offset.reset=earliest",
        ),
        Row(
            "the committed offset",
            set={position: some(committed.value.offset)},
            source="OffsetMetadataManager.fetchOffsets, GroupMetadataManager.getOffsets",
        ),
    ),
)

# A transaction --------------------------------------------------------------------------------

_joined: list[Table] = []
_joined.append(joined(calls_at_once.initialize, consumer, when=is_assigned.at(_me)))
_begun = begin_transaction.txn
_joined.append(
    joined(
        calls_at_once.begin,
        consumer,
        processing,
        when=is_assigned.at(_me) & _position.is_set & (_position.value < INPUTS),
        updates={
            "begin": {
                processed.at(_begun): _position.value,
                processed_in.at(_begun): heard.at(_me),
                _offsets: _NONE,
            }
        },
    )
)
_joined.append(joined(calls_at_once.send, when=call_send.partition == OUTPUT))
_joined.append(joined(drained, when=drain.partition == OUTPUT))


def commit_offset() -> Sending:
    """TxnOffsetCommit, which names the member's generation from 2.5 on."""
    return TxnOffsetCommit(
        producer=_me,
        partition=OFFSETS,
        connection=connection,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation=if_(members_fenced, heard.at(_me), 0),
        txn=txn.value,
    )


def _sent_when(when: Expression, sending: Sending) -> Sending:
    return Sending(sending.message, sending.fields, when=when)


_call = call_offsets
_is_here = added_to_transaction.on.partition == OFFSETS
_joined.append(
    joined(
        calls_at_once.send_offsets,
        consumer,
        when=(state == IN_TRANSACTION)
        & txn.is_set
        & (_offsets == _NONE)
        & ~OFFSETS.is_in(adding)
        & (adding == set_of())
        & _call.names_group
        & ~_call.lacks_member,
        updates={
            "commit-offsets": {_offsets: _COMMITTING, added: added | set_of(OFFSETS)},
            "add-offsets": {_offsets: _NONE, adding: adding | set_of(OFFSETS)},
        },
        send={
            "commit-offsets": (commit_offset(),),
            "add-offsets": (add_partitions.add(OFFSETS, connection),),
        },
    )
)
_joined.append(
    joined(
        added_to_transaction,
        consumer,
        updates={"added": {_offsets: if_(_is_here, _COMMITTING, _offsets)}},
        send={"added": (_sent_when(_is_here, commit_offset()),)},
    )
)

# TxnOffsetCommit is answered ------------------------------------------------------------------

offset_error = TxnOffsetCommitResponse.error
_joined.append(
    Table(
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
                set={adding: set_of(), _offsets: _NONE},
                source="TransactionManager.maybeTerminateRequestWithError",
            ),
            Row(
                "committed",
                "The offset is in the transaction",
                when=offset_error == Errors.NONE,
                set={_offsets: _COMMITTED},
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
            ),
            Row(
                "coordinator-moved",
                "The coordinator is looked up, then asked again",
                when=offset_error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
                send=(commit_offset(),),
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
                send=(commit_offset(),),
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
            ),
            Row(
                "abortable",
                "The transaction can only be aborted",
                when=is_abortable(offset_error),
                goto=TO_ABORTABLE,
                set={_offsets: _NONE},
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-890",
            ),
            Row(
                "not-a-member",
                "The consumer is no longer a member of the group",
                during=offsets_name_members,
                when=TxnOffsetCommitResponse.member_error != MemberError.NONE,
                goto=TO_ABORTABLE,
                set={_offsets: _NONE},
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse, KIP-447",
            ),
            Row(
                "fenced",
                "Another client has a newer epoch",
                when=offset_error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
                goto=FATAL_ERROR,
                set={
                    txn: None,
                    batches: forgotten_batches,
                    ending: False,
                    adding: set_of(),
                    added: set_of(),
                    bump_asked: False,
                    unresolved: each(q, None),
                    bump_for: set_of(),
                    _offsets: _NONE,
                },
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
            ),
            Row(
                "unexpected",
                "Any other error is fatal",
                goto=FATAL_ERROR,
                set={
                    txn: None,
                    batches: forgotten_batches,
                    ending: False,
                    adding: set_of(),
                    added: set_of(),
                    bump_asked: False,
                    unresolved: each(q, None),
                    bump_for: set_of(),
                    _offsets: _NONE,
                },
                source="TransactionManager.TxnOffsetCommitHandler.handleResponse",
            ),
        ),
    )
)

# The end --------------------------------------------------------------------------------------

_next: dict[Expression, Operand] = {
    _position: if_(state == COMMITTING, some(_position.value + 1), None),
    _offsets: _NONE,
}
_GOES_BACK: dict[Expression, Operand] = {_position: None, _offsets: _NONE}
_joined.append(
    joined(
        calls_at_once.commit,
        consumer,
        when=(batches[OUTPUT][0].status == ACKNOWLEDGED) & (_offsets == _COMMITTED),
    )
)
_joined.append(
    joined(
        calls_at_once.abort,
        consumer,
        when=_offsets != _COMMITTING,
        updates={
            "nothing-to-abort": _GOES_BACK,
            "nothing-to-abort-bump": _GOES_BACK,
        },
    )
)
_joined.append(
    joined(
        end_txn.ended,
        consumer,
        updates={
            "ended": _next,
            "ended-new-epoch": _next,
            "invalid-transition": _GOES_BACK,
            "abort-failed": _GOES_BACK,
            "abort-failed-bump": _GOES_BACK,
        },
    )
)
_joined.append(joined(
    requests.crashed,
    consumer,
    group,
    updates={
        "crashed": {
            is_assigned.at(_me): False, heard.at(_me): generation, **_GOES_BACK,
        }
    },
))  # fmt: skip

TABLES = (fetches, *_joined)
