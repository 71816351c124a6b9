"""What an application may ask of a producer client, and when: calls made out of turn raise.

In a bounded run without a queue of requests (`queue`) the application calls in turn, and what comes
next for the client is sent at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...language import (
    Bool,
    Expression,
    Row,
    Table,
    all_of,
    constant,
    event,
    if_,
    lift,
    position,
    set_of,
    size,
    some,
)
from ...language.expressions import Operand, any_true
from ..errors import Errors
from ..messages import PARTITION, REAL, TRANSACTION, Result, connection, producer
from ..releases.features import (
    calls_in_turn,
    client_epoch_bump,
    close_ends,
    fenced_as_it_is,
    offsets_name_members,
    transaction_version_2,
    transactional,
)
from . import state as client
from .add_partitions import add
from .application import (
    Outcome,
    abort_transaction,
    application,
    asked,
    begin_transaction,
    commit_transaction,
    init_transactions,
    outcome,
)
from .end_txn import end
from .init_producer_id import init
from .queue import QUEUE, Request, answered, at_once, current, in_order, joins, queued
from .transaction_manager import (
    COMPLETING,
    CallResponse,
    CallResult,
    aborts_as_it_closes,
    adds_implicitly,
    call_acknowledged,
    call_result,
    has_error,
    has_id,
    is_closed,
    last_error,
    new_partitions,
    pending_call,
    transaction_started,
)

_MANAGER = "TransactionManager"

call_send = event("send", partition=PARTITION, event_doc="The record's partition is registered.")
call_offsets = event(
    "sendOffsetsToTransaction", names_group=Bool(), lacks_member=Bool(),
    event_doc="`lacks_member`: a generation above 0 comes without a member's id.",
)  # fmt: skip
call_close = event("close")
acknowledge = event("acknowledge call", event_doc="The application has heard of a call's end.")
appends_first = calls_in_turn & ~is_closed
"""Whether a record is put into a batch before its partition is registered: it stays there where
that is refused."""


def _raised(
    name: str, when: Expression, error: Expression, source: str, cause: Operand = None
) -> Row:
    reply = CallResponse(raises=some(error), cause=cause, continues=False)
    return Row(name, when=when, reply=reply, source=source, only_real=True)


def _illegal(name: str, when: Expression, source: str) -> Row:
    return _raised(name, when, Errors.ILLEGAL_STATE, source)


def _out_of_turn(name: str, when: Expression, source: str) -> Row:
    error = if_(calls_in_turn, Errors.ILLEGAL_STATE, Errors.KAFKA_EXCEPTION)
    return _raised(name, when, error, source)


def _refused_in(failed: Expression) -> tuple[Row, ...]:
    """TransactionManager.maybeFailWithError"""
    kept = last_error.value.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.ILLEGAL_STATE) | (
        fenced_as_it_is & (last_error.value == Errors.PRODUCER_FENCED)
    )
    source = f"{_MANAGER}.maybeFailWithError"
    return (
        _raised(
            "an error, raised as it is",
            failed & last_error.is_set & kept,
            last_error.value,
            source,
        ),
        _raised("an error", failed, Errors.KAFKA_EXCEPTION, source, cause=last_error),
    )


_unfinished = pending_call.is_set & ~call_acknowledged
_NOT_TRANSACTIONAL = _illegal(
    "no transactional id", ~lift(transactional), f"{_MANAGER}.ensureTransactional"
)
_THROWS_CLOSED = "KafkaProducer.throwIfProducerClosed"
_CLOSED = _illegal("closed", close_ends & is_closed, _THROWS_CLOSED)
_PENDING = _illegal(
    "another call must be finished",
    calls_in_turn & _unfinished,
    f"{_MANAGER}.throwIfPendingState",
)


def _finished_before(begun: Expression) -> tuple[Row, ...]:
    """TransactionManager.handleCachedTransactionRequestResult"""
    source = f"{_MANAGER}.handleCachedTransactionRequestResult"
    return (
        _illegal(
            "another call must be finished",
            calls_in_turn & _unfinished & (pending_call != some(begun)),
            source,
        ),
        Row(
            "go on with it",
            when=if_(calls_in_turn, _unfinished, pending_call.is_set & (client.state == begun)),
            set={pending_call: if_(call_acknowledged, None, pending_call)},
            reply=CallResponse(raises=None, cause=None, continues=True),
            source=source,
            only_real=True,
        ),
    )


def _taken(name: str, source: str, goto: Operand = None, **more: Any) -> Row:
    reply = CallResponse(raises=None, cause=None, continues=False)
    return Row(name, goto=goto, reply=reply, source=source, **more)


def _pending(begun: Expression) -> dict[Expression, Operand]:
    return {
        pending_call: some(begun),
        call_acknowledged: False,
        call_result: CallResult.AWAITED,
        last_error: None,
    }


initialize = Table(
    producer,
    on=init_transactions,
    response=CallResponse,
    when=in_order,
    bounded_when=client.state == client.UNINITIALIZED,
    rows=(
        _CLOSED,
        *_refused_in(calls_in_turn & has_error),
        _NOT_TRANSACTIONAL,
        *_finished_before(client.INITIALIZING),
        _out_of_turn(
            "initialized before", client.state != client.UNINITIALIZED, f"{_MANAGER}.transitionTo"
        ),
        _taken(
            "ask for an epoch",
            f"{_MANAGER}.initializeTransactions",
            goto=client.INITIALIZING,
            set=_pending(client.INITIALIZING) | joins(Request.INIT_PRODUCER_ID),
            send=(at_once(init(connection)),),
        ),
    ),
)

t = TRANSACTION.variable("t")
_begun = begin_transaction.txn
begin = Table(
    producer,
    on=begin_transaction,
    response=CallResponse,
    when=in_order,
    others=(application,),
    bounded_when=(client.state == client.READY)
    & (outcome.at(_begun) == Outcome.NOT_BEGUN)
    & all_of(t, (position(t) < position(_begun)).implies(outcome.at(t) != Outcome.NOT_BEGUN)),
    doc="Applications' transactions are numbered in the order in which they begin.",
    rows=(
        _CLOSED,
        _NOT_TRANSACTIONAL,
        _PENDING,
        *_refused_in(has_error),
        _out_of_turn("not ready", client.state != client.READY, f"{_MANAGER}.transitionTo"),
        _taken(
            "begin",
            f"{_MANAGER}.beginTransaction",
            goto=client.IN_TRANSACTION,
            set={
                client.txn: _begun,
                outcome.at(_begun): Outcome.BEGUN,
                pending_call: None,
                last_error: None,
            },
        ),
    ),
)

# The end -----------------------------------------------------------------------------------------

EARLY_ENDS = constant(
    "early_ends", 0, 0, 1,
    meaning="1: a commit or abort may be asked for before the batches in flight are done",
)  # fmt: skip
_bumps = lift(COMPLETING[client.bump_asked])
_JOINS: dict[Expression, Operand] = {
    queued: queued
    | if_(_bumps, set_of(Request.END_TXN, Request.INIT_PRODUCER_ID), set_of(Request.END_TXN))
}
_ABORTS = _pending(client.ABORTING) | COMPLETING | _JOINS | {new_partitions: set_of()}
_may_end = (size(client.adding) == 0) & (client.settled | (EARLY_ENDS > 0))


def _at_once(name: str, source: str, goto: Expression, **more: Any) -> Row:
    """The row where the call decides at once what comes of it."""
    return Row(name, goto=goto, source=source, only_bounded=True, **more)


commit = Table(
    producer,
    on=commit_transaction,
    response=CallResponse,
    when=in_order,
    others=(application,),
    bounded_when=(client.state == client.IN_TRANSACTION) & _may_end,
    rows=(
        _NOT_TRANSACTIONAL,
        *_finished_before(client.COMMITTING),
        *_refused_in(has_error),
        _out_of_turn(
            "nothing to commit now",
            client.state != client.IN_TRANSACTION,
            f"{_MANAGER}.transitionTo",
        ),
        _taken(
            "begun",
            f"{_MANAGER}.beginCommit",
            goto=client.COMMITTING,
            set=_pending(client.COMMITTING) | COMPLETING | _JOINS,
            only_real=True,
        ),
        _at_once(
            "commit when every batch is done",
            f"{_MANAGER}.nextRequest",
            client.COMMITTING,
            when=~client.settled,
            set=asked(Outcome.COMMITTING) | COMPLETING | {client.ending: True},
        ),
        _at_once(
            "commit",
            f"{_MANAGER}.beginCommit",
            client.COMMITTING,
            when=client.started,
            set=asked(Outcome.COMMITTING) | COMPLETING,
            send=(end(Result.COMMIT, connection),),
        ),
        _at_once(
            "nothing to commit",
            "Sender.maybeSendAndPollTransactionalRequest",
            if_(_bumps, client.INITIALIZING, client.READY),
            set=asked(Outcome.COMMITTED) | COMPLETING | client.ENDED | {client.must_bump: False},
            send=(dataclasses.replace(init(connection), when=_bumps),),
        ),
    ),
)
abort = Table(
    producer,
    on=abort_transaction,
    response=CallResponse,
    when=in_order,
    others=(application,),
    bounded_when=client.state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR)
    & client.txn.is_set
    & _may_end,
    rows=(
        _NOT_TRANSACTIONAL,
        *_finished_before(client.ABORTING),
        *_refused_in(client.state == client.FATAL_ERROR),
        _out_of_turn(
            "nothing to abort now",
            ~client.state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR),
            f"{_MANAGER}.transitionTo",
        ),
        _taken(
            "begun",
            f"{_MANAGER}.beginAbort",
            goto=client.ABORTING,
            set=_ABORTS,
            only_real=True,
        ),
        _at_once(
            "abort when every batch is done",
            f"{_MANAGER}.nextRequest",
            client.ABORTING,
            when=~client.settled,
            set=COMPLETING | {client.ending: True},
        ),
        _at_once(
            "abort",
            f"{_MANAGER}.beginAbort",
            client.ABORTING,
            when=client.started,
            set=COMPLETING,
            send=(end(Result.ABORT, connection),),
        ),
        _at_once(
            "nothing to abort, and a new epoch needed",
            f"{_MANAGER}.nextRequest",
            client.INITIALIZING,
            when=_bumps,
            during=client_epoch_bump & ~transaction_version_2,
            set=asked(Outcome.ABORTED) | COMPLETING | client.ENDED | {client.must_bump: False},
            send=(init(connection),),
        ),
        _at_once(
            "nothing to abort",
            "Sender.maybeSendAndPollTransactionalRequest",
            client.READY,
            set=asked(Outcome.ABORTED) | COMPLETING | client.ENDED | {client.bump_asked: False},
        ),
    ),
)

# In between --------------------------------------------------------------------------------------

_partition = call_send.partition
_known = _partition.is_in(new_partitions | client.adding | client.added)
_has_transaction = has_id & (client.state == client.IN_TRANSACTION)
_ADD = f"{_MANAGER}.maybeAddPartition"
send = Table(
    producer,
    on=call_send,
    response=CallResponse,
    when=in_order,
    bounded_when=~transaction_version_2 & _has_transaction & ~_known & (size(client.adding) == 0),
    doc="In a bounded run one partition is asked for at a time, and with version 2 none is.",
    rows=(
        _illegal("closed", is_closed, _THROWS_CLOSED),
        _taken(
            "without a transaction, whatever has failed",
            "KafkaProducer.doSend before 3.2",
            when=~calls_in_turn & ~transactional,
            only_real=True,
        ),
        _raised(
            "an error, before",
            ~calls_in_turn & has_error,
            Errors.KAFKA_EXCEPTION,
            f"{_MANAGER}.failIfNotReadyForSend",
            cause=last_error,
        ),
        *_refused_in(calls_in_turn & has_error),
        _PENDING,
        _taken("without a transaction", _ADD, when=~lift(transactional), only_real=True),
        _illegal("no transaction", ~_has_transaction, _ADD),
        _taken("known", _ADD, when=_known, only_real=True),
        _taken(
            "added by its first batch",
            _ADD,
            when=adds_implicitly,
            set={client.added: client.added | set_of(_partition), transaction_started: True},
            only_real=True,
        ),
        _taken(
            "to be added",
            _ADD,
            set={
                new_partitions: new_partitions | set_of(_partition),
                client.adding: if_(REAL == 0, set_of(_partition), client.adding),
            },
            send=(at_once(add(_partition, connection)),),
        ),
    ),
)
offsets_sent = Table(
    producer,
    on=call_offsets,
    response=CallResponse,
    when=in_order,
    rows=(
        _raised(
            "no group, or a generation without its member",
            ~call_offsets.names_group | (offsets_name_members & call_offsets.lacks_member),
            Errors.ILLEGAL_ARGUMENT,
            "KafkaProducer.throwIfInvalidGroupMetadata",
        ),
        _CLOSED,
        _NOT_TRANSACTIONAL,
        _PENDING,
        *_refused_in(has_error),
        _out_of_turn(
            "no transaction",
            client.state != client.IN_TRANSACTION,
            f"{_MANAGER}.sendOffsetsToTransaction",
        ),
        _taken(
            "take them",
            f"{_MANAGER}.sendOffsetsToTransaction",
            set={
                transaction_started: transaction_started | adds_implicitly,
                queued: queued
                | if_(
                    adds_implicitly,
                    set_of(Request.TXN_OFFSET_COMMIT),
                    set_of(Request.ADD_OFFSETS_TO_TXN),
                ),
            },
        ),
    ),
)
is_over = pending_call.is_set & ~any_true(
    call_result == CallResult.LOST,
    *(
        request.is_in(queued) | (current == some(request))
        for request in (Request.INIT_PRODUCER_ID, Request.END_TXN)
    ),
)
acknowledged = Table(
    producer,
    on=acknowledge,
    when=(QUEUE == 0) | (is_over & ~answered),
    rows=(Row("heard", set={call_acknowledged: True}),),
)
closed = Table(producer, on=call_close, when=in_order, rows=(Row("close", set={is_closed: True}),))

abort_at_close = event(
    "abort as it closes", event_doc="The sending thread ends what is open before it ends itself."
)
aborted_at_close = Table(
    producer,
    on=abort_at_close,
    when=is_closed & aborts_as_it_closes & (size(queued) == 0) & ~current.is_set,
    rows=(
        Row(
            "forced, as it can't be aborted",
            when=~transactional
            | (calls_in_turn & _unfinished & (pending_call != some(client.ABORTING))),
            goto=client.FATAL_ERROR,
            set=client.FAILED_FOR_GOOD
            | {
                last_error: some(Errors.KAFKA_EXCEPTION),
                new_partitions: set_of(),
                call_result: CallResult.FAILED,
            },
            source="Sender.run, TransactionManager.close",
        ),
        Row("abort", goto=client.ABORTING, set=_ABORTS, source="Sender.run, KAFKA-6635"),
    ),
)
"""For a system with the queue of requests: whoever drives a client makes it abort as it closes."""

TABLES = (initialize, begin, commit, abort, send, offsets_sent, acknowledged, closed)
