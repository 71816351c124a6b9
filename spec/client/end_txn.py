"""EndTxn, and what a client makes of its answer: TransactionManager.EndTxnHandler."""

from __future__ import annotations

import dataclasses

from ...language import Expression, Row, Sending, Table, if_, lift, set_of, some
from ...language.expressions import Operand
from ..errors import Errors
from ..messages import (
    NO_EPOCH,
    EndTxn,
    EndTxnResponse,
    Result,
    connection,
    producer,
)
from ..releases.features import (
    client_epoch_bump,
    commit_may_bump,
    failed_abort_fatal,
    illegal_state_fatal,
    transaction_version_2,
)
from ..releases.proposals import downgrade_waits
from . import state as client
from .answers import (
    fenced,
    is_abortable,
    is_unknown_id,
    moved,
    tried_again,
)
from .application import application, end_reported
from .init_producer_id import init
from .queue import Request, at_once, taken_up
from .transaction_manager import (
    LOSES_RESULT,
    TO_ABORTABLE,
    ClientStep,
    Reaction,
    abortable,
    adds_implicitly,
    can_bump,
    fatal,
    finalized_version,
    last_error,
    new_partitions,
    react,
    transaction_coordinator,
    transaction_started,
    transaction_version,
)

_MANAGER = "TransactionManager"
_END = f"{_MANAGER}.EndTxnHandler.handleResponse"


def end(result: Expression, on: Expression) -> Sending:
    """EndTxn with the id and epoch that the client has."""
    return EndTxn(
        producer=producer.this,
        connection=on,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        result=result,
    )


result = if_(client.state == client.COMMITTING, Result.COMMIT, Result.ABORT)
"""The end in progress."""

# A transaction that has ended, or had nothing in it. Source: TransactionManager.completeTransaction
COMPLETED: dict[Expression, Operand] = {
    **client.ENDED,
    last_error: None,
    client.must_bump: False,
    transaction_started: False,
    transaction_version: if_(downgrade_waits, finalized_version, transaction_version),
    new_partitions: set_of(),
}
AFTER_END = if_(client.must_bump, client.INITIALIZING, client.READY)
BUMP_NEXT = dataclasses.replace(at_once(init(connection)), when=client.bump_asked)
"""InitProducerId, where it waits behind EndTxn."""

may_complete = if_(
    client.must_bump & ~commit_may_bump,
    client.state == client.ABORTING,
    client.is_completing(client.state),
)
"""Whether the state may be the one after the end: TransactionManager.completeTransaction."""

_error = EndTxnResponse.error
_ok = _error == Errors.NONE
_again = (at_once(end(result, connection)),)
_out_of_turn = _ok & ~may_complete
_is_lost = is_unknown_id(_error)
_can_abort = is_abortable(_error) | (_is_lost & can_bump)
_NEEDS_BUMP: dict[Expression, Operand] = {
    client.must_bump: client.must_bump | (_is_lost & ~adds_implicitly)
}

ended = Table(
    producer,
    on=EndTxnResponse,
    response=Reaction,
    others=(application,),
    rows=taken_up(
        Request.END_TXN,
        Row(
            "on a closed connection",
            when=EndTxnResponse.connection != connection,
            only_bounded=True,
        ),
        Row(
            "ended, and not in a state for what follows: fatal",
            when=_out_of_turn,
            during=illegal_state_fatal,
            goto=client.FATAL_ERROR,
            set=client.FAILED_FOR_GOOD | {last_error: some(Errors.ILLEGAL_STATE)} | LOSES_RESULT,
            reply=react(ClientStep.WAIT),
            source=f"KAFKA-14831, {_MANAGER}.transitionTo",
        ),
        Row(
            "ended, and not in a state for what follows",
            when=_out_of_turn,
            during=~illegal_state_fatal,
            set=end_reported() | client.GIVEN_UP | LOSES_RESULT,
            reply=react(ClientStep.WAIT),
            send=(BUMP_NEXT,),
            source=f"{_MANAGER}.completeTransaction",
            note="Nothing was completed, as where an abort has failed; the next request goes out.",
        ),
        Row(
            "ended, with a new epoch",
            when=_ok & (EndTxnResponse.producer_epoch != NO_EPOCH),
            during=transaction_version_2,
            goto=AFTER_END,
            set=end_reported()
            | COMPLETED
            | {
                client.producer_id: EndTxnResponse.producer_id,
                client.producer_epoch: EndTxnResponse.producer_epoch,
                **client.NEW_SEQUENCES,
            },
            reply=react(ClientStep.GO_ON),
            send=(BUMP_NEXT,),
            source="KIP-890 part 2",
            note="All sequences start again.",
        ),
        Row(
            "ended",
            when=_ok,
            goto=AFTER_END,
            set=end_reported() | COMPLETED,
            reply=react(ClientStep.DONE),
            send=(BUMP_NEXT,),
            source=f"{_END}, KIP-360",
            note="If batches expired while aborting, the client needs a new epoch. Nobody has "
            "asked for it, so the client waits for good.",
        ),
        moved(_error, transaction_coordinator, _END, _again),
        tried_again(
            _error,
            _END,
            Errors.COORDINATOR_LOAD_IN_PROGRESS,
            Errors.CONCURRENT_TRANSACTIONS,
            again=_again,
        ),
        fenced(_error, _END),
        fatal(
            "fatal error",
            _error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~_is_lost,
            _error,
            _END,
        ),
        fatal(
            "unknown producer id, and no new epoch to be had",
            _is_lost & ~can_bump,
            if_(client_epoch_bump, _error, Errors.KAFKA_EXCEPTION),
            f"{_MANAGER}.abortableErrorIfPossible",
        ),
        fatal(
            "an abort that can't be aborted",
            is_abortable(_error) & (client.state == client.ABORTING),
            Errors.KAFKA_EXCEPTION,
            "KAFKA-19250",
            during=failed_abort_fatal,
        ),
        Row(
            "abortable",
            when=_can_abort & (client.state != client.ABORTING),
            during=client_epoch_bump,
            goto=TO_ABORTABLE,
            set=abortable(_error) | _NEEDS_BUMP | {client.bump_asked: False},
            reply=react(ClientStep.FAIL, _error),
            source=f"{_END}, {_MANAGER}.abortableErrorIfPossible",
        ),
        Row(
            "failed while aborting, and a new epoch asked for",
            when=_can_abort & client.bump_asked,
            during=client_epoch_bump,
            set=end_reported() | client.GIVEN_UP | _NEEDS_BUMP,
            reply=react(ClientStep.FAIL, _error),
            send=(BUMP_NEXT,),
            source=f"{_MANAGER}.transitionToAbortableError",
            note="The error is ignored and the next request is sent. The client's state doesn't "
            "change. No transaction was completed, so its partitions and the need for a new epoch "
            "remain for the next one.",
        ),
        Row(
            "failed while aborting",
            when=_can_abort,
            during=client_epoch_bump,
            set=client.UNUSABLE | _NEEDS_BUMP,
            reply=react(ClientStep.FAIL, _error),
            source=f"{_MANAGER}.transitionToAbortableError, KAFKA-19250",
            note="The call raises. The client's state doesn't change, and it can't be used again.",
        ),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _END),
    ),
)
