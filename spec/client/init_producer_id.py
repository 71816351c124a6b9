"""InitProducerId, and what a client makes of its answer: TransactionManager.InitProducerIdHandler.

In a bounded run the answer to a client without transactional id is an event of its own (`epochs`).
"""

from __future__ import annotations

from ...language import Expression, Row, Sending, Table, if_, lift, some
from ..errors import Errors, is_retriable
from ..messages import InitProducerId, InitProducerIdResponse, connection, producer
from ..releases.features import (
    one_way_to_ids,
    stale_epoch_abortable,
    transactional,
    unauthorized_abortable,
    version_looked_up,
)
from .answers import fenced, is_abortable, moved, tried_again
from .queue import Request, at_once, taken_up
from .state import (
    INITIALIZING,
    NEW_SEQUENCES,
    READY,
    bump_asked,
    is_completing,
    producer_epoch,
    producer_id,
    state,
)
from .transaction_manager import (
    LOSES_RESULT,
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    ClientStep,
    Reaction,
    aborting,
    call_result,
    fatal,
    finalized_version,
    last_error,
    pending_call,
    react,
    transaction_coordinator,
    transaction_version,
)

_INIT = "TransactionManager.InitProducerIdHandler.handleResponse"


def init(on: Expression) -> Sending:
    """InitProducerId. The epoch held is the expected one: none for a client that starts."""
    return InitProducerId(
        producer=producer.this, connection=on, expected_id=producer_id,
        expected_epoch=producer_epoch,
    )  # fmt: skip


def is_unauthorized(error: Expression) -> Expression:
    """Whether the client isn't authorized to get a producer id."""
    return error.is_in(
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED
    )


_error = InitProducerIdResponse.error
_ok = _error == Errors.NONE
_again = (at_once(init(connection)),)
_in_turn = (state == INITIALIZING) | is_completing(state)
_GIVEN = {
    producer_id: InitProducerIdResponse.producer_id,
    producer_epoch: InitProducerIdResponse.producer_epoch,
}
_first = transactional & ~bump_asked  # brokers' versions are looked at after initTransactions
_IN_A_LOOP, _LOOP = ~transactional & ~one_way_to_ids, "Sender.maybeWaitForProducerId before 2.5"

initialized = Table(
    producer,
    on=InitProducerIdResponse,
    response=Reaction,
    rows=taken_up(
        Request.INIT_PRODUCER_ID,
        Row(
            "on a closed connection",
            when=InitProducerIdResponse.connection != connection,
            only_bounded=True,
        ),
        Row(
            "initialized, and not in a state to be ready",
            when=_ok & ~_in_turn,
            during=~_IN_A_LOOP,
            goto=NOT_ALLOWED,
            set={
                **_GIVEN,
                last_error: NOT_ALLOWED_ERROR,
                call_result: if_(
                    pending_call == some(INITIALIZING), LOSES_RESULT[call_result], call_result
                ),
            },
            reply=react(ClientStep.WAIT),
            source="TransactionManager.transitionTo",
        ),
        Row(
            "initialized",
            when=_ok,
            goto=READY,
            set={
                **_GIVEN,
                **{kept: if_(transactional, new, kept) for kept, new in NEW_SEQUENCES.items()},
                bump_asked: False,
                last_error: None,
                transaction_version: if_(
                    _first & version_looked_up, finalized_version, transaction_version
                ),
            },
            reply=react(ClientStep.DONE),
            source=f"{_INIT}, KafkaProducer.initTransactions",
        ),
        Row(
            "try again with any broker",
            when=is_retriable(_error),
            during=_IN_A_LOOP,
            reply=react(ClientStep.RETRY),
            source=_LOOP,
        ),
        fatal("fatal", lift(True), _error, _LOOP, during=_IN_A_LOOP),
        moved(_error, transaction_coordinator, _INIT, _again),
        tried_again(
            _error,
            _INIT,
            Errors.COORDINATOR_LOAD_IN_PROGRESS,
            Errors.CONCURRENT_TRANSACTIONS,
            again=_again,
        ),
        fatal(
            "not authorized, for good",
            is_unauthorized(_error),
            _error,
            _INIT,
            during=~unauthorized_abortable,
        ),
        aborting(
            "abortable",
            is_unauthorized(_error) | is_abortable(_error),
            _error,
            _INIT,
            during=unauthorized_abortable,
            more={bump_asked: False},
        ),
        fenced(_error, _INIT, during=stale_epoch_abortable),
        fatal("unexpected", lift(True), Errors.KAFKA_EXCEPTION, _INIT),
    ),
)
